"""N5 to N7: the device question, foreign devices passed through, streams on the host."""

from __future__ import annotations

import enum
import gc
import sys
import weakref

import pytest

import dlshim
import sampling
from dlshim import _core
from doubles import capsules as caps
from doubles import consumers, sycl
from doubles.asking import ASKINGS, bare, tells, versioned, walk
from doubles.producers import (
    EDITIONS,
    P1,
    P2,
    BrokenDevice,
    DisagreeingDevice,
    EnumDevice,
    ForeignEnum,
    IntDevice,
    Open3dDevice,
    P0ToDlpack,
    P1aNoDevice,
    P1b,
    P1Positional,
    P2Dpctl,
    P2Torch,
    P3TableOnly,
    PaddleDevice,
    Recorder,
    Tensorflow,
    fresh,
    jax_like,
)
from doubles.streams import CupyOldStream, NvcvStream, Queue, RmmStream, WarpStream

BOTH = pytest.mark.parametrize("ask", ASKINGS.values(), ids=ASKINGS.keys())


# --- N5: __dlpack_device__ ------------------------------------------------------------


def plain(device):
    assert type(device) is tuple and len(device) == 2
    assert [type(part) for part in device] == [int, int]
    return device


@pytest.mark.parametrize("cls", EDITIONS.values(), ids=EDITIONS.keys())
def test_N5_two_plain_ints_from_every_edition(cls):
    upgraded = dlshim.upgrade(cls())
    if cls is not DisagreeingDevice:
        assert plain(upgraded.__dlpack_device__()) == (1, 0)
    versioned(upgraded).release()
    assert plain(dlshim.from_dlpack(cls()).__dlpack_device__()) == (1, 0)


@pytest.mark.parametrize("cls", [PaddleDevice, Open3dDevice, EnumDevice], ids=lambda c: c.__name__)
@pytest.mark.parametrize(
    "ask",
    [
        consumers.ask_like_jax,
        consumers.ask_like_cudacore,
        consumers.ask_like_mpi4py41,
        consumers.ask_like_warp,
    ],
    ids=lambda f: f.__name__,
)
def test_N5_odd_devices_reach_consumers_that_want_ints(cls, ask):
    x = cls()
    imported = ask(dlshim.upgrade(x))
    assert imported.values() == x.values()
    imported.release()


@pytest.mark.parametrize("cls", [P1aNoDevice, P0ToDlpack, P3TableOnly, BrokenDevice],
                         ids=lambda c: c.__name__)  # fmt: skip
def test_N5_without_the_method_the_device_is_read_from_the_tensor(cls):
    x = cls()
    assert plain(dlshim.upgrade(x).__dlpack_device__()) == (1, 0)
    with consumers.ask_like_torch213(dlshim.upgrade(x)) as imported:
        assert imported.values() == x.values()


def test_N5_without_the_method_on_a_device():
    class NoDevice(P1aNoDevice):
        def __dlpack__(self, stream=None):
            return self._legacy()

    x = NoDevice((0, 3), device=(2, 1), data=None)
    assert plain(dlshim.upgrade(x).__dlpack_device__()) == (2, 1)


@BOTH
def test_N5_when_both_disagree_the_tensor_decides(ask):
    """torch's pinned tensors say 3 and export 1."""
    x = DisagreeingDevice()
    for _ in range(2):
        with ask(dlshim.upgrade(x)) as imported:
            assert imported.view.device == (1, 0)
            assert imported.values() == x.values()


@BOTH
def test_N5_ours_answers_what_the_export_will_say(ask):
    for x, options, device in (
        (P2(), {}, (1, 0)),
        (P2(), {"assume_device": (3, 0)}, (3, 0)),
        (P2(device=(1, 7)), {}, (1, 7)),
        (P2(device=(3, 0)), {}, (3, 0)),
        (P2(device=(3, 0)), {"device": "cpu"}, (1, 0)),
        (P2(device=(3, 0)), {"assume_device": (1, 0)}, (1, 0)),
        (P2(device=(11, 2)), {"device": (1, 0)}, (1, 0)),
    ):
        upgraded = dlshim.upgrade(x, **options)
        assert plain(upgraded.__dlpack_device__()) == device
        with ask(upgraded) as imported:
            assert imported.view.device == device
        assert plain(upgraded.__dlpack_device__()) == device


def test_N5_the_same_type_may_answer_differently_per_object():
    """NumPy over pinned memory says (3, 0), over its own (1, 0)."""
    cls = fresh(P2)
    host, pinned = cls(), cls(device=(3, 0))
    for x in (host, pinned, host, pinned):
        upgraded = dlshim.upgrade(x)
        assert upgraded.__dlpack_device__() == x.device
        with versioned(upgraded) as imported:
            assert imported.view.device == x.device


def test_N5_a_type_learned_on_the_host_that_turns_up_on_a_device():
    """That capsule is dropped untaken, the plan corrected, the producer asked properly."""
    cls = fresh(Recorder)
    versioned(dlshim.upgrade(cls())).release()
    host = cls()
    versioned(dlshim.upgrade(host)).release()
    assert host.device_calls == 0  # the learned form asks no device

    x = cls((3,), device=(2, 0))
    with versioned(dlshim.upgrade(x), stream=None) as imported:
        assert imported.view.device == (2, 0)
    assert "stream" in x.keywords[-1]  # an explicit stream goes to device producers (N6)
    assert [made.deleted for made in x.exports] == [1] * len(x.exports)

    other = cls((3,), device=(2, 0))
    with versioned(dlshim.upgrade(other), stream=1) as imported:
        assert imported.view.device == (2, 0)
    assert len(other.calls) == 1
    assert other.keywords[0]["stream"] == 1
    with versioned(dlshim.upgrade(host)) as imported:  # and the host still works
        assert imported.values() == host.values()


@pytest.mark.parametrize("cls", [P1, P1b, P2])
@BOTH
def test_N5_one_object_on_a_device_does_not_slow_those_on_the_host(cls, ask):
    """They are asked for the device, and then once, in the form that was learned before."""
    cls = fresh(cls)
    away = cls(device=(12, 0))
    for met in (cls(), away, cls(), away):
        ask(dlshim.upgrade(met)).release()
    for _ in range(2):
        x = cls()
        with ask(dlshim.upgrade(x)) as imported:
            assert imported.values() == x.values()
        assert (len(x.calls), x.device_calls) == (1, 1)
    with ask(dlshim.upgrade(away)) as imported:
        assert imported.view.device == (12, 0)


@pytest.mark.once
def test_N5_a_label_does_not_slow_arrays_that_show_where_they_lie():
    """torch has such an attribute, so the fast path serves host memory after a label as before."""
    torch = pytest.importorskip("torch", reason="its tensors show where they lie")
    x = torch.ones(3)
    for _ in range(2):
        versioned(dlshim.upgrade(x)).release()
    dlshim.from_dlpack(x, assume_device=(2, 0), stream=-1)
    assert _core._plan(x)["off_host"]
    for ask in ASKINGS.values():
        with ask(dlshim.upgrade(x)) as imported:
            assert imported.values() == [1, 1, 1] and imported.view.device == (1, 0)
    assert dlshim.from_dlpack(x).data_ptr() == x.data_ptr()
    with pytest.raises(BufferError, match="grad"):
        dlshim.from_dlpack(torch.ones(3, requires_grad=True))


def test_N5_the_device_is_asked_once_when_a_consumer_wants_it():
    x = Recorder()
    upgraded = dlshim.upgrade(x)
    upgraded.__dlpack_device__()
    assert x.device_calls <= 1
    assert x.calls == []


def test_N5_what_is_said_of_numpys_memory_is_what_its_export_says():
    """It is not asked where it made the memory itself; what it was given may be pinned."""
    numpy = pytest.importorskip("numpy", reason="NumPy is not installed")
    if not hasattr(numpy, "from_dlpack"):
        pytest.skip("NumPy before 1.22 takes no capsules")

    class Quiet(numpy.ndarray):
        pass

    own = numpy.zeros((4, 6))
    arrays = [own, own[1:, ::2], own.T[2:].reshape(-1), numpy.frombuffer(bytearray(16))]
    for device in ((3, 0), (11, 0), (13, 0)):
        given = numpy.from_dlpack(dlshim.upgrade(own, assume_device=device, stream=-1))
        arrays += [given, given[1:], given[1:][:, 2:].T]
    arrays += [array.view(Quiet) for array in arrays]
    for array in arrays:
        upgraded = dlshim.upgrade(array)
        for _ in range(2):
            assert plain(upgraded.__dlpack_device__()) == array.__dlpack_device__()
            if array.__dlpack_device__() == (1, 0):  # learned: from then on the fast path
                versioned(upgraded).release()
    assert {array.__dlpack_device__() for array in arrays} >= {(1, 0), (3, 0)}


def test_N5_a_subclass_of_numpys_array_may_change_its_mind():
    numpy = pytest.importorskip("numpy", reason="NumPy is not installed")

    class Elsewhere(numpy.ndarray):
        pass

    upgraded = dlshim.upgrade(numpy.zeros(3).view(Elsewhere))
    versioned(upgraded).release()
    assert plain(upgraded.__dlpack_device__()) == (1, 0)
    Elsewhere.__dlpack_device__ = lambda self: (13, 2)
    assert plain(upgraded.__dlpack_device__()) == (13, 2)


def test_N5_a_constant_answer_is_remembered_and_not_held_more_than_once():
    """Most producers return one and the same tuple each time."""
    constants = [tuple(map(int, word)) for word in ("10",) * 3]
    before = [sys.getrefcount(pair) for pair in constants]

    class Constant(P2):
        pair = None

        def __dlpack_device__(self):
            return self.pair

    x = Constant()
    upgraded = dlshim.upgrade(x)
    versioned(upgraded).release()
    for pair in (*constants, (1, 1), (2, 0), (True, 0), [1, 0], constants[0]):
        x.pair = pair
        for _ in range(20):
            assert plain(upgraded.__dlpack_device__()) == tuple(map(int, pair))
    x.pair = None
    after = [sys.getrefcount(pair) for pair in constants]
    del pair
    assert sum(after) - sum(before) <= 2  # the name above, and the last that was remembered


# --- devices passed through -----------------------------------------------------------

DEVICES = [(2, 0), (2, 3), (3, 0), (8, 0), (10, 1), (11, 0), (12, 0), (13, 0), (14, 2), (17, 0)]


@BOTH
@pytest.mark.parametrize("cls", [P2, P2Torch, P1b, P1Positional], ids=lambda c: c.__name__)
def test_device_memory_passes_through_a_modern_producer(cls, ask):
    def check(device):
        x = fresh(cls)((3,), "float32", device=device)
        upgraded = dlshim.upgrade(x)
        assert upgraded.__dlpack_device__() == device
        with ask(upgraded, stream=-1) as imported:
            assert imported.view.device == device
            assert imported.view.data == x.element_zero

    walk(DEVICES, check)


@BOTH
def test_a_table_alone_is_enough_where_nothing_is_to_sync(ask):
    """N2: the table syncs nothing, so it is used for -1, for nothing, and for handles."""
    for fields, asked in (
        ({"device": (2, 0)}, {"stream": -1}),
        ({"device": (2, 0), "shape": (0, 3), "data": None}, {}),
        ({"device": (1, 3)}, {}),
    ):
        x = fresh(P3TableOnly)(**({"shape": (3,)} | fields))
        with ask(dlshim.upgrade(x), **asked) as imported:
            assert imported.view.device == fields["device"]


def test_N6_an_explicit_stream_always_goes_to_gpu_producers():
    """torch's own default is "no synchronisation": silence is not None."""
    cls = fresh(Recorder)
    x = cls((3,), device=(2, 0))
    for stream, allowed in ((None, (None, 1)), (1, (1,)), (2, (2,)), (77, (77,)), (-1, (-1,))):
        with versioned(dlshim.upgrade(x), stream=stream) as imported:
            assert imported.view.device == (2, 0)
        assert "stream" in x.keywords[-1]
        assert x.keywords[-1]["stream"] in allowed


def test_option_stream_replaces_what_the_consumer_passes():
    cls = fresh(Recorder)
    x = cls((3,), device=(2, 0))
    for asked in ({}, {"stream": 1}, {"stream": None}):
        versioned(dlshim.upgrade(x, stream=77), **asked).release()
        assert x.keywords[-1]["stream"] == 77


HOST_STREAMS = [None, -1, 0, 1, 2, 7, 2**40, 2**64 - 1]


@BOTH
@pytest.mark.parametrize(
    "cls", [P1, P1b, P2, P2Torch, Tensorflow, P0ToDlpack, P1aNoDevice], ids=lambda c: c.__name__
)
def test_N6_a_host_producer_is_never_given_a_stream(cls, ask):
    """cuda-python#473: generic consumers pass theirs, host producers refuse any."""

    def check(stream):
        x = cls()
        with ask(dlshim.upgrade(x), stream=stream) as imported:
            assert imported.values() == x.values()
        with ask(dlshim.upgrade(x, stream=stream)) as imported:
            assert imported.values() == x.values()
        with ask(dlshim.from_dlpack(x, stream=stream), stream=stream) as imported:
            assert imported.values() == x.values()
        assert all(keywords.get("stream") is None for keywords in x.keywords)

    walk(HOST_STREAMS, check)


@BOTH
@pytest.mark.parametrize(
    "stream",
    [RmmStream(4096), WarpStream(4096), CupyOldStream(0), NvcvStream(12), Queue()],
    ids=lambda s: type(s).__name__,
)
def test_host_memory_accepts_any_stream_object(stream, ask):
    x = P1()
    with ask(dlshim.upgrade(x), stream=stream) as imported:
        assert imported.values() == x.values()
    with ask(dlshim.upgrade(x, stream=stream)) as imported:
        assert imported.values() == x.values()


@pytest.mark.parametrize(
    "stream", [True, False, 1.0, "1", b"1", object(), [], (0, 1)], ids=sampling.told_of
)
def test_a_stream_of_another_type_is_a_typeerror(stream):
    x = P2()
    for ask in (
        lambda: dlshim.upgrade(x).__dlpack__(stream=stream),
        lambda: dlshim.upgrade(x, stream=stream).__dlpack__(),
        lambda: dlshim.from_dlpack(x, stream=stream),
    ):
        with pytest.raises(TypeError) as error:
            ask()
        tells(error.value, "stream")


@pytest.mark.parametrize("stream", [-2, -100, 2**64, -(2**70)])
def test_a_stream_out_of_range_is_a_valueerror(stream):
    x = P2()
    for ask in (
        lambda: dlshim.upgrade(x).__dlpack__(stream=stream),
        lambda: dlshim.upgrade(x, stream=stream).__dlpack__(),
        lambda: dlshim.from_dlpack(x, stream=stream),
    ):
        with pytest.raises(ValueError) as error:
            ask()
        tells(error.value, "stream")


def test_N6_jax_gets_none_instead_of_minus_one():
    x = jax_like()((3,), device=(2, 0))
    versioned(dlshim.upgrade(x), stream=-1).release()
    assert x.keywords[-1].get("stream") is None


# --- N7: never believe that a keyword was obeyed --------------------------------------


def test_N7_an_ignored_device_is_noticed():
    x = fresh(P2Dpctl)((3,), device=(14, 0))
    for ask in (bare, versioned):
        with pytest.raises(BufferError) as error:
            ask(dlshim.upgrade(x), dl_device=(1, 0))
        tells(error.value, "device")


def test_N7_an_obeyed_device_is_taken():
    class Moves(Recorder):
        """CuPy >= 13.4, torch, JAX: a host copy for `dl_device=(1, 0)`."""

        def answer(self, max_version=None, dl_device=None, **asked):
            if dl_device == (1, 0):
                made = self._export(self.version, flags=caps.IS_COPIED, device=(1, 0))
                return made.capsule()
            return super().answer(max_version=max_version, **asked)

        def check(self, **asked):
            pass

    x = Moves((3,), device=(2, 0))
    for ask in (versioned, bare):
        with ask(dlshim.upgrade(x), dl_device=(1, 0)) as imported:
            assert imported.view.device == (1, 0)
        with ask(dlshim.upgrade(x, device="cpu")) as imported:
            assert imported.view.device == (1, 0)
    assert dlshim.upgrade(x, device="cpu").__dlpack_device__() == (1, 0)


def test_N7_an_ignored_copy_false_makes_no_difference():
    x = P2Dpctl()
    with bare(dlshim.upgrade(x), copy=False) as imported:
        assert imported.view.element_zero == x.element_zero


# --- copy=False and memory that is wanted elsewhere -------------------------------------


class Mover(Recorder):
    """Of a device whose memory the host can read: an alias for `dl_device=(1, 0)`."""

    def answer(self, max_version=None, dl_device=None, **asked):
        where = dl_device or self.device
        return self._export(self.version, device=where).capsule()

    def check(self, **asked):
        pass


#: Every way in, of memory that lies on a device.
FAR = {
    "modern": lambda device: fresh(P2)((3,), device=device),
    "no keywords": lambda device: fresh(P1aNoDevice)((3,), device=device),
    "table": lambda device: fresh(P3TableOnly)((3,), device=device),
    "capsule function": lambda device: fresh(P0ToDlpack)((3,), device=device),
    "capsule": lambda device: P2((3,), device=device).__dlpack__(max_version=(1, 0)),
    "legacy capsule": lambda device: P2((3,), device=device).__dlpack__(),
    "Tensor": lambda device: dlshim.from_dlpack(P2((3,), device=device), stream=-1),
}


@BOTH
@pytest.mark.parametrize("make", FAR.values(), ids=FAR.keys())
@pytest.mark.parametrize("device", [(2, 0), (10, 1), (14, 0), (8, 0), (4, 2), (99, 0)], ids=str)
def test_a_copy_that_is_not_allowed_is_named_on_every_device(make, device, ask):
    """copy=False with a needed copy is CopyRequiredError, whoever would have to make it."""
    for target in ((1, 0), (2, 7), (14, 3)):
        with pytest.raises(dlshim.CopyRequiredError) as error:
            ask(dlshim.upgrade(make(device)), dl_device=target, copy=False)
        tells(error.value, "copy=False", r"\(%d, %d\)" % device, r"\(%d, %d\)" % target)
        assert error.value.reason == "device"
        with pytest.raises(dlshim.CopyRequiredError):
            ask(dlshim.upgrade(make(device), device=target, copy=False))


@BOTH
def test_the_host_moves_nothing_to_a_device_without_a_copy(ask):
    for x in (P1(), P2(), dlshim.from_dlpack(P2()), b"abc"):
        with pytest.raises(dlshim.CopyRequiredError) as error:
            ask(dlshim.upgrade(x, readonly=False), dl_device=(2, 0), copy=False)
        tells(error.value, "copy=False")


def test_a_producer_that_moves_without_a_copy_is_asked_first():
    x = fresh(Mover)((3,), device=(8, 0))
    for _ in range(2):
        with versioned(dlshim.upgrade(x), dl_device=(1, 0), copy=False) as imported:
            assert imported.view.device == (1, 0)
            assert imported.view.data == x.element_zero
        assert x.keywords[-1]["copy"] is False


@pytest.mark.parametrize("copy", [None, False])
def test_what_cannot_be_moved_is_refused_before_anything_waits(copy):
    p, s = sycl.Queue(), sycl.Queue()
    for x in (
        dlshim.from_dlpack(P2((3,), device=(14, 0)), stream=p),
        sycl.SyclOnly(syclobj=p),
        dlshim.upgrade(P1aNoDevice((3,), device=(14, 0)), producer_stream=p),
    ):
        for stream in (None, s):
            with pytest.raises((BufferError, TypeError)):  # CUDA knows no queues
                versioned(dlshim.upgrade(x), dl_device=(2, 0), copy=copy, stream=stream)
    assert p.log == s.log == []


# --- the option device, as far as host memory goes ------------------------------------


@BOTH
@pytest.mark.parametrize("device_type", [3, 11])
def test_pinned_memory_is_delivered_as_host_memory(device_type, ask):
    x = fresh(P2)((3,), "float32", device=(device_type, 0))
    for how in ({"device": "cpu"}, {"device": (1, 0)}):
        with ask(dlshim.upgrade(x, **how)) as imported:
            assert imported.view.device == (1, 0)
            assert imported.view.element_zero == x.element_zero
    with ask(dlshim.upgrade(x), dl_device=(1, 0)) as imported:
        assert imported.view.device == (1, 0)
    assert all(keywords.get("dl_device") is None for keywords in x.keywords)


def test_managed_memory_on_the_host_needs_a_wait():
    x = fresh(P2)((3,), "float32", device=(13, 0))
    with pytest.raises(BufferError) as error:
        versioned(dlshim.upgrade(x, device="cpu"))
    tells(error.value, "unknown_stream|driver|wait")
    with versioned(dlshim.upgrade(x, device="cpu", unknown_stream="same")) as imported:
        assert imported.view.device == (1, 0)


@BOTH
@pytest.mark.parametrize("device", [(3, 0), (11, 0), (13, 0), (14, 0), (7, 1)])
def test_host_to_other_devices_is_refused_with_the_way_to_do_it(device, ask):
    x = P2()
    with pytest.raises(BufferError) as error:
        ask(dlshim.upgrade(x, device=device))
    tells(error.value, "device.*\n  move it")


def test_the_consumers_device_goes_first():
    x = fresh(P2)((3,), "float32", device=(3, 0))
    with versioned(dlshim.upgrade(x, device=(3, 0)), dl_device=(1, 0)) as imported:
        assert imported.view.device == (1, 0)


def test_every_host_id_is_the_host():
    x = P2(device=(1, 5))
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.view.device == (1, 5)  # ids are passed on unchanged
    with versioned(dlshim.upgrade(x, device="cpu"), copy=True) as imported:
        assert imported.values() == x.values()


def test_N5_a_pair_with_an_enum_of_ints_counts_by_its_value():
    """JAX makes a new pair of its enum each time; its member is known from the first on."""

    class Kind(enum.IntEnum):
        HOST = 1
        CUDA = 2

        def __index__(self):
            raise AssertionError("the value is in the object")

        def __eq__(self, other):
            raise AssertionError("nobody compares")

        __hash__ = int.__hash__

    class Answers(P1):
        said = (1, 0)

        def __dlpack_device__(self):
            return self.said[0], self.said[1]

    x = Answers()
    upgraded = dlshim.upgrade(x)
    for said, device in (
        ((Kind.HOST, 0), (1, 0)),
        ((Kind.HOST, 0), (1, 0)),
        ((Kind.CUDA, 0), (2, 0)),
        ((Kind.HOST, 1), (1, 1)),
        ((type("Own", (int,), {})(1), 0), (1, 0)),
        ((Kind.HOST, False), (1, 0)),
        ((10**30, 0), (1, 0)),  # as its memory says
    ):
        x.said = said
        assert plain(upgraded.__dlpack_device__()) == device


def test_devices_given_as_enums_and_numbers_of_others():
    x = P2()
    for device in ((IntDevice.kDLCPU, 0), (dlshim.DLDeviceType.kDLCPU, 0), [1, 0]):
        with versioned(dlshim.upgrade(x), dl_device=device) as imported:
            assert imported.view.device == (1, 0)
    with versioned(dlshim.upgrade(x), dl_device=(ForeignEnum(1), 0)) as imported:
        assert imported.view.device == (1, 0)


class RefusesKeywordsByValue(P1aNoDevice):
    """A call with keywords is refused by a ValueError, so nothing is learned (N1)."""

    def __dlpack__(self, **keywords):
        if keywords:
            raise ValueError("no keywords")
        return self._legacy()


def test_N5_a_question_that_needs_an_export_keeps_nothing_alive():
    """The refusals on the way hold frames, and those hold the array."""
    x = RefusesKeywordsByValue()
    gone = weakref.ref(x)
    upgraded = dlshim.upgrade(x)
    assert plain(upgraded.__dlpack_device__()) == (1, 0)
    del x, upgraded
    gc.collect()
    assert gone() is None


def test_N2_a_refusal_on_the_host_is_not_what_a_device_is_refused_for():
    """The bare call told of a device; what is then refused is explained by what comes then."""

    class OnADevice(P1aNoDevice):
        def __dlpack__(self, **keywords):
            if "stream" in keywords:
                raise NotImplementedError("no streams here")
            if keywords:
                raise ValueError("no keywords")
            return self._legacy()

    x = OnADevice((2,), device=(8, 0), data=None)
    with pytest.raises(BufferError) as refused:
        dlshim.from_dlpack(x, stream=7)
    assert "no keywords" not in str(refused.value)
