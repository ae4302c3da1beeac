"""T3 as properties: translating what needs no change changes no byte, and the one predicate
decides alike for every tensor, generation and option.
"""

from __future__ import annotations

import ctypes

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dlshim
import sampling
from dlshim import _core
from doubles import capsules as caps
from doubles.asking import bare, counting, versioned
from doubles.producers import P1, P2, VersionedAlways

SETTINGS = settings(
    max_examples=sampling.fewer(150, 20), deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip

DTYPES = st.sampled_from([*caps.DTYPES.values(), (2, 32, 4), (77, 16, 1), (3, 64, 1)])
SHAPES = st.lists(st.integers(0, 4), max_size=5).map(tuple)


@st.composite
def tensors(draw, canonical=False):
    """Fields of a lawful host tensor, in every shape a producer may send it."""
    shape = draw(SHAPES)
    compact = caps.row_major(shape)
    if canonical:
        strides = compact
    else:
        strides = draw(
            st.one_of(
                st.just(compact),
                st.just(None),
                st.lists(st.integers(-6, 6), min_size=len(shape), max_size=len(shape)).map(tuple),
                st.permutations(range(len(shape))).map(
                    lambda axes: tuple(
                        caps.row_major([shape[a] for a in axes])[axes.index(k)]
                        for k in range(len(shape))
                    )
                ),
            )
        )
    steps = compact if strides is None else strides
    low = -sum(min(0, (n - 1) * s) for n, s in zip(shape, steps, strict=True) if n)
    dtype = draw(DTYPES)
    start = low + draw(st.integers(0, 3))
    fields = {"shape": shape, "dtype": dtype, "strides": strides, "start": start}
    if not canonical:
        size = caps.itemsize_of(dtype)
        fields["byte_offset"] = draw(st.integers(0, start)) * size
        fields["deleter"] = draw(st.booleans())
        if 0 in shape and draw(st.booleans()):
            fields |= {"data": None, "byte_offset": 0}
    return fields


VERSIONS = st.sampled_from([None, (1, 0), (1, 1), (1, 3), (1, 7)])
FLAGS = st.sampled_from([0, caps.READ_ONLY, caps.IS_COPIED, caps.READ_ONLY | caps.IS_COPIED])


class Sends:
    """A producer that sends one struct, of one generation; it knows no ``copy``, so it is not asked
    for another one."""

    def __init__(self, fields, version, flags):
        self.made = caps.Made(version=version, flags=flags, owner=self, **fields)

    def __dlpack__(self, stream=None, max_version=None):
        return self.made.capsule()

    def __dlpack_device__(self):
        return (1, 0)


OPTIONS = st.sampled_from([
    {}, {"readonly": True}, {"readonly": False}, {"order": "K"}, {"order": "C"}, {"align": 1},
    {"readonly": "share"}, {"device": "cpu"}, {"assume_device": (1, 0)}, {"copy": False},
    {"assume_device": (3, 0)},
])  # fmt: skip


def outcome(hand_on, fields, version, flags, asked, options):
    """What a consumer sees of one exchange: its fields, or the class of the error."""
    _core._hook("hand_on", hand_on)
    x = Sends(fields, version, flags)
    with counting() as count:
        try:
            capsule = dlshim.upgrade(x, **{"order": "K", **options}).__dlpack__(max_version=asked)
        except BufferError as error:
            x.made.handed_out = False
            return type(error), count, x
    view = caps.look(capsule)
    seen = view.fields()
    seen["strides"] = view.strides or (None if view.shape else ())  # NULL is the same for 0-d
    seen["elements"] = view.elements()
    seen["own"] = view.address != x.made.address
    seen["deleter"] = bool(view.deleter)
    if count.copied:
        seen["data"] = None  # a fresh address each time
    del capsule
    return seen, count, x


def as_sent(fields, version, flags):
    """The same fields, read from the producer's struct."""
    made = caps.Made(version=version, flags=flags, **fields)
    view = caps.View(made.address, made.name)
    seen = view.fields()
    seen["strides"] = view.strides or (None if view.shape else ())
    return seen | {"elements": view.elements(), "deleter": bool(view.deleter)}


@SETTINGS
@given(
    fields=tensors(), version=VERSIONS, flags=FLAGS, asked=st.sampled_from([None, (1, 0)]),
    options=OPTIONS,
)  # fmt: skip
def test_T3_one_predicate_and_it_is_the_negation_of_all_that_translation_alters(
    fields, version, flags, asked, options
):
    slow, slow_count, slow_x = outcome(False, fields, version, flags, asked, options)
    assert slow_count.handed_on == 0
    fast, fast_count, _ = outcome(True, fields, version, flags, asked, options)
    if isinstance(slow, type):
        assert fast is slow
        return
    # The stamp and the addresses are the only things in which the two may differ.
    ignored = ("version", "own", "data")
    assert {k: v for k, v in fast.items() if k not in ignored} == {
        k: v for k, v in slow.items() if k not in ignored
    }
    if fields.get("data", "memory") is not None and not slow_count.copied:
        assert slow["data"] == slow_x.made.element_zero or slow_x.made.deleted
    sent = as_sent(fields, version, flags)
    unchanged = all(slow[k] == sent[k] for k in sent if k not in ("version", "data"))
    unchanged = unchanged and fields.get("byte_offset", 0) == 0
    unchanged = unchanged and not (sent["flags"] or 0) & caps.IS_COPIED  # kept by us as well (T8)
    unchanged = unchanged and fields.get("data", "memory") is not None
    # What a producer copied for this export is kept by the Producer too (T8).
    unchanged = unchanged and not flags & 2
    assert bool(fast_count.handed_on) == unchanged, (slow, sent)
    assert fast["own"] is not bool(fast_count.handed_on)


@SETTINGS
@given(fields=tensors(canonical=True), version=st.sampled_from([None, (1, 3)]), flags=FLAGS)
def test_T3_translating_what_needs_no_change_changes_no_byte(fields, version, flags):
    _core._hook("hand_on", False)
    x = Sends(fields, version, flags if version else 0)
    made = x.made
    before = made.snapshot()
    capsule = dlshim.upgrade(x, readonly="share").__dlpack__(max_version=version)
    view = caps.look(capsule)
    assert view.address != made.address
    kind = type(made.struct)
    ours = kind.from_address(view.address)
    theirs = kind.from_buffer_copy(made.struct)
    for struct in (ours, theirs):  # what belongs to each side
        struct = struct.dl_tensor
    copy = kind.from_buffer_copy(ours)
    for struct in (copy, theirs):
        struct.manager_ctx = struct.deleter = None
        struct.dl_tensor.shape = struct.dl_tensor.strides = None
    assert bytes(copy) == bytes(theirs)
    assert view.shape == made.shape
    if made.shape:
        assert view.strides == tuple(made._strides)
    assert made.snapshot() == before
    del capsule
    assert made.deleted == 1


@SETTINGS
@given(
    fields=tensors(), hops=st.lists(st.sampled_from(["legacy", "versioned", "tensor"]), max_size=5)
)
def test_round_trips_keep_every_element_where_it_is(fields, hops):
    x = P2(**fields) if fields.get("data", "memory") is not None else P1(**fields)
    values = x._export(None).shape and caps.View(x.last.address, x.last.name).elements()
    address = x.last.element_zero
    thing = x
    for hop in hops:
        upgraded = dlshim.upgrade(thing, order="K")
        if hop == "legacy":
            thing = upgraded.__dlpack__()
        elif hop == "versioned":
            thing = upgraded.__dlpack__(max_version=(1, 0))
        else:
            thing = dlshim.from_dlpack(upgraded)
    with versioned(dlshim.upgrade(thing, order="K")) as imported:
        assert imported.view.shape == x.shape
        assert imported.view.dtype == caps.dtype_tuple(x.dtype)
        if 0 not in x.shape:
            assert imported.view.element_zero == address
        if x.shape:
            assert imported.view.elements() == values


@SETTINGS
@given(fields=tensors(), asked=st.sampled_from([None, (1, 0)]), tensor=st.booleans())
def test_T4_T5_T6_every_export_is_in_canonical_form(fields, asked, tensor):
    x = VersionedAlways(
        **(fields | {"strides": fields["strides"] or caps.row_major(fields["shape"])})
    )
    source = dlshim.from_dlpack(x) if tensor else x
    negative = any(s < 0 < n - 1 for n, s in zip(x.shape, x.strides or (), strict=False))
    order = "K" if negative and 0 not in x.shape else None
    with caps.take(dlshim.upgrade(source, order=order).__dlpack__(max_version=asked)) as imported:
        view = imported.view
        assert view.deleter and view.byte_offset == 0 and view.data
        if not view.shape:
            return
        compact = caps.row_major(view.shape)
        wide = [k for k, n in enumerate(view.shape) if n > 1]
        if 0 in view.shape or all(view.strides[k] == compact[k] for k in wide):
            assert view.strides == compact
        else:
            assert all(s >= 0 for n, s in zip(view.shape, view.strides, strict=True) if n < 2)


@SETTINGS
@given(fields=tensors(), asked=st.sampled_from([None, (1, 0)]))
def test_order_K_keeps_every_stride(fields, asked):
    """Also beside extents of 0 and 1, where only a negative one becomes 1 (T4)."""
    strides = fields["strides"] or caps.row_major(fields["shape"])
    x = VersionedAlways(**(fields | {"strides": strides}))
    kept = [1 if s < 0 and n < 2 else s for n, s in zip(x.shape, strides, strict=True)]
    for source in (x, x.__dlpack__(max_version=(1, 0))):
        with caps.take(dlshim.upgrade(source, order="K").__dlpack__(max_version=asked)) as imported:
            assert list(imported.view.strides or ()) == kept


RUBBISH = caps.filled((32768,), "uint8")


@SETTINGS
@given(raw=st.binary(min_size=80, max_size=80), name=st.sampled_from([caps.LEGACY, caps.VERSIONED]))
def test_T11_random_structs_are_refused_or_borne(raw, name):
    """Small rubbish in every field but the pointers."""
    version = None if name == caps.LEGACY else (1, raw[0] % 5)
    made = caps.Made((2, 3), "uint8", version=version, memory=RUBBISH)
    tensor = made.struct.dl_tensor
    tensor.ndim = int.from_bytes(raw[1:2], "little", signed=True) % 4 - 1
    tensor.code, tensor.bits, tensor.lanes = raw[2] % 30, raw[3], raw[4] % 6
    tensor.device_type, tensor.device_id = 1, int.from_bytes(raw[5:9], "little", signed=True)
    for k in range(2):
        made._shape[k] = int.from_bytes(raw[10 + k : 11 + k], "little", signed=True) % 9 - 2
        made._strides[k] = int.from_bytes(raw[12 + k : 13 + k], "little", signed=True) % 9 - 2
    tensor.ndim = min(tensor.ndim, 2)
    tensor.data = caps.address_of(made.memory) + 8192
    if version:
        made.struct.flags = raw[20] % 16
    capsule = made.capsule()
    asked = (None, (1, 0))[raw[21] % 2]
    try:
        out = dlshim.upgrade(capsule, order="K", copy=(None, True)[raw[22] % 2]).__dlpack__(
            max_version=asked
        )
    except BufferError:
        pass
    else:
        caps.look(out)
        del out
    del capsule
    assert made.deleted == 1


@SETTINGS
@given(
    values=st.lists(st.integers(0, 255), max_size=40), step=st.sampled_from([-3, -2, -1, 1, 2, 3])
)
def test_buffers_round_trip(values, step):
    source = bytearray(values)
    view = memoryview(source)[::step]
    for ask in (bare, versioned):
        with ask(dlshim.upgrade(view)) as imported:
            assert imported.values() == view.tolist()
    tensor = dlshim.from_dlpack(view)
    assert memoryview(tensor).tolist() == view.tolist()
    if values:
        ctypes.memset(tensor.data_ptr(), 7, 1)
        assert view[0] == 7
