"""The options of `upgrade`: their forms, what they do on host memory, and when they copy."""

from __future__ import annotations

import inspect
import pickle

import pytest

import dlshim
from dlshim._core import _options
from doubles import capsules as caps
from doubles.asking import ASKINGS, bare, counting, tells, versioned, walk
from doubles.cuda_interface import CudaOnly
from doubles.older import InterfaceOnly, StructOnly
from doubles.producers import (
    P1,
    P2,
    BrokenDevice,
    Dunder,
    P0Mxnet,
    P0ToDlpack,
    P1a,
    P1aNoDevice,
    P1b,
    P3TableOnly,
    paddle_like,
    torch_like,
)
from doubles.sycl import SyclOnly

BOTH = pytest.mark.parametrize("ask", ASKINGS.values(), ids=ASKINGS.keys())
SOURCES = pytest.mark.parametrize("cls", [P1, P1b, P2, P3TableOnly], ids=lambda c: c.__name__)


# --- forms ----------------------------------------------------------------------------

WRONG_TYPE = [
    {"copy": 1}, {"copy": "yes"}, {"readonly": 1}, {"order": 1},
    {"align": 1.5}, {"align": "64"}, {"align": True}, {"reinterpret": 7}, {"device": 1},
    {"device": (1,)}, {"device": ("cpu", 0)}, {"assume_device": 2},
    {"assume_device": (2, "0")}, {"detach": 1}, {"detach": None}, {"unknown_stream": 1},
    {"nonsense": 1},
]  # fmt: skip
WRONG_VALUE = [
    {"readonly": "no"}, {"readonly": "strip"}, {"order": "F"}, {"order": "A"}, {"order": "c"},
    {"align": 0}, {"align": -8}, {"align": 3}, {"reinterpret": "float31"}, {"reinterpret": ""},
    {"reinterpret": (300, 8, 1)}, {"reinterpret": (1, 8, 1, 1)}, {"reinterpret": (2, 0, 1)},
    {"reinterpret": (2, 32, 0)},
    {"device": "tpu"}, {"device": ""}, {"device": "cuda:x"}, {"device": "cuda:-1"},
    {"assume_device": "disk"}, {"unknown_stream": "maybe"}, {"stream": -2}, {"detach": "always"},
]  # fmt: skip


WRONG = [(TypeError, each) for each in WRONG_TYPE] + [(ValueError, each) for each in WRONG_VALUE]


@pytest.mark.once
@pytest.mark.parametrize(
    ("kind", "options"), WRONG, ids=lambda each: getattr(each, "__name__", str(each))
)
def test_an_option_of_a_wrong_type_or_value(kind, options):
    x = P2()
    with pytest.raises(kind) as error:
        dlshim.upgrade(x, **options)
    tells(error.value, next(iter(options)))
    with pytest.raises(kind):
        dlshim.to_capsule(x, **options)
    assert x.calls == []


def test_the_former_word_names_what_took_its_place():
    with pytest.raises(ValueError, match='"share"'):
        dlshim.upgrade(P2(), readonly="strip")


def test_options_are_keywords_and_the_object_is_not():
    with pytest.raises(TypeError):
        dlshim.upgrade(P1(), True)
    with pytest.raises(TypeError):
        dlshim.upgrade(obj=P1())
    with pytest.raises(TypeError):
        dlshim.upgrade()


@pytest.mark.parametrize(
    ("function", "keyword", "told"),
    [
        (dlshim.upgrade, "ordr", "Did you mean 'order'?"),
        (dlshim.from_dlpack, "dtyps", "Did you mean 'dtypes'?"),
        (dlshim.to_capsule, "maxversion", "Did you mean 'max_version'?"),
        (dlshim.upgrade, "nothing", "pass one of stream, producer_stream, "),
        (dlshim.upgrade, "dtype", 'x.astype("float32")'),
        (dlshim.from_dlpack, "dtype", "reinterpret="),
    ],
)
def test_a_keyword_that_is_no_option_names_the_one_that_was_meant(function, keyword, told):
    with pytest.raises(TypeError, match="unexpected keyword argument") as caught:
        function(P1(), **{keyword: 1})
    assert told in str(caught.value) and f"{function.__name__}()" in str(caught.value)


def test_options_at_their_defaults_make_one_export_and_no_copy():
    x = P1()
    upgraded = dlshim.upgrade(
        x, stream=dlshim.UNSET, producer_stream=None, unknown_stream="auto", device=None, copy=None,
        readonly=None, order=None, align=None, reinterpret=None,
        assume_device=None, detach=False,
    )  # fmt: skip
    with counting() as count:
        bare(upgraded).release()
    assert (count.handed_on + count.translated, count.copied) == (1, 0)
    assert dlshim.UNSET == "auto"


def test_a_stream_that_says_nothing_leaves_the_one_that_was_given():
    inner = dlshim.upgrade(P1(), stream=3)
    assert _options(dlshim.upgrade(inner, stream="auto")) == {"stream": 3}
    assert _options(dlshim.upgrade(P1(), stream="auto")) == {}
    assert dlshim.from_dlpack(P1(), stream="auto").shape == dlshim.from_dlpack(P1()).shape
    for options in ({"producer_stream": "auto"}, {"stream": ...}):
        with pytest.raises(TypeError, match="stream"):
            dlshim.upgrade(P1(), **options)
    with pytest.raises(TypeError, match="stream"):
        dlshim.upgrade(P1()).__dlpack__(stream="auto")


#: A value of every option that is not its default, and how the Producer shows it.
SHOWN = {
    "stream": (5, "5"), "producer_stream": (7, "7"), "unknown_stream": ("same", "'same'"),
    "device": ("cpu", "(1, 0)"), "like": (bytearray(1), "(1, 0)"),
    "copy": (False, "False"), "readonly": ("copy", "'copy'"),
    "order": ("C", "'C'"), "align": (64, "64"),
    "reinterpret": ((0, 8), "'int8'"), "assume_device": ((10, 3), "(10, 3)"),
    "detach": (True, "True"), "on_release": ("guard", "'guard'"),
}  # fmt: skip


class Lies:
    """Raises, or answers with something else, whatever it is asked."""

    def __init__(self, answer):
        self.answer = answer

    def _answer(self, *_, **__):
        if isinstance(self.answer, type):
            raise self.answer("a lie")
        return self.answer

    __index__ = __int__ = __len__ = __bool__ = __eq__ = __iter__ = __str__ = _answer
    __getattr__ = __getitem__ = __call__ = __array_interface__ = __dlpack_device__ = _answer
    __hash__ = object.__hash__


#: For every option, of every type that any of them takes, and at the edges of all of these.
CRAFTED = [
    *(None, True, False, 0, 1, -1, 2, 7, 31, 64, 2**20, 2**31, 2**32, 2**64, -(2**63), 2**70),
    *(0.0, 1.5, float("nan"), 1j, "", "C", "cpu", "cuda", "cuda:0", "cuda:99999999999", "wait"),
    *("float32", "same", "copy", "guard", "\0", "cpu\0", "\udc80", "a" * 10_000, b"", b"cpu"),
    *((), (1,), (1, 0), (2, 0), (1, 2**31), (2**31, 0), (-1, -1), (2, 32, 1), (1, 8, 2**16)),
    *((None, None), ("cpu", "0"), [], [1, 0], {}, {1: 0}, set(), object(), int, len, Ellipsis),
    *(bytearray(3), memoryview(b"abc"), range(3), iter(()), dlshim, dlshim.Tensor, NotImplemented),
    *(Lies(answer) for answer in (None, 3, "cpu", (1, 0))),
    *(Lies(error) for error in (KeyError, RecursionError, OSError)),
]  # fmt: skip


@pytest.mark.once
@pytest.mark.parametrize("name", SHOWN)
def test_a_crafted_option_is_taken_or_refused(name):
    """No call ends in another error, and what is taken can be shown and exported."""
    refusals = (TypeError, ValueError, BufferError, OverflowError, MemoryError)
    lies = (KeyError, RecursionError, OSError)  # what was raised by a value passes unchanged
    taken = refused = 0
    for value in CRAFTED:
        for call in (dlshim.upgrade, dlshim.from_dlpack, dlshim.to_capsule):
            try:
                made = call(bytearray(24), **{name: value})
                if call is dlshim.upgrade:
                    assert repr(made)
                    made = dlshim.from_dlpack(made)
                taken += 1
            except refusals:
                refused += 1
            except lies:
                assert isinstance(value, Lies)
    assert taken > 0 and refused > 0


def test_every_option_is_shown_as_it_was_given():
    signature = inspect.signature(dlshim.upgrade).parameters
    assert list(SHOWN) == [name for name, p in signature.items() if p.kind is p.KEYWORD_ONLY]
    x = bytearray(3)
    bare_repr = repr(dlshim.upgrade(x))
    texts = []
    for name, (value, shown) in SHOWN.items():
        texts.append(f", {name}={shown}")
        producer = dlshim.upgrade(x, **{name: value})
        assert repr(producer) == bare_repr[:-1] + texts[-1] + ">"
        assert [(key, repr(told)) for key, told in _options(producer).items()] == [(name, shown)]
    every = {name: value for name, (value, _) in SHOWN.items()}
    assert repr(dlshim.upgrade(x, **every)) == bare_repr[:-1] + "".join(texts) + ">"


def test_options_are_told_as_values():
    assert _options(dlshim.upgrade(bytearray(3))) == {}
    given = {"copy": True, "order": "C", "align": 64}
    inner = dlshim.upgrade(bytearray(3), align=128, copy=True)
    assert _options(dlshim.upgrade(inner, order="C", align=64)) == given
    with pytest.raises(TypeError, match="a Producer"):
        _options(dlshim.from_dlpack(bytearray(3)))


def test_a_default_that_is_given_wins_over_an_inner_option():
    inner = dlshim.upgrade(P2(readonly=True), readonly="share")
    with pytest.raises(BufferError):
        dlshim.upgrade(inner, readonly="error").__dlpack__()


@pytest.mark.parametrize("value", ["auto", "legacy", "same", "error"])
def test_unknown_stream_does_nothing_to_host_memory(value):
    with versioned(dlshim.upgrade(P1(), unknown_stream=value)) as imported:
        assert imported.values() == [0, 1, 2, 3, 4, 5]


# --- order ---------------------------------------------------------------------------

STRIDED = {
    "transposed": ((3, 2), (1, 3), 0),
    "step": ((3,), (2,), 0),
    "negative": ((4,), (-1,), 3),
    "broadcast": ((2, 3), (0, 1), 0),
    "both negative": ((2, 3), (-3, -1), 5),
}


@BOTH
@SOURCES
@pytest.mark.parametrize(("shape", "strides", "start"), STRIDED.values(), ids=STRIDED.keys())
def test_order_c_copies_what_is_strided(cls, shape, strides, start, ask):
    x = cls(shape, "int32", strides=strides, start=start)
    with counting() as count:
        imported = ask(dlshim.upgrade(x, order="C"))
    assert count.copied == 1
    assert imported.view.strides == caps.row_major(shape)
    assert imported.view.element_zero != x.element_zero
    assert imported.view.element_zero % 64 == 0
    assert imported.values() == x.values()
    if ask is versioned:
        assert imported.view.flags == caps.IS_COPIED
    imported.release()


@BOTH
@SOURCES
@pytest.mark.parametrize("shape", [(2, 3), (), (0, 3), (1, 3), (4,)])
def test_order_c_copies_nothing_else(cls, shape, ask):
    x = cls(shape, "int32")
    with counting() as count:
        imported = ask(dlshim.upgrade(x, order="C"))
    assert count.copied == 0
    assert imported.view.element_zero == x.element_zero or 0 in shape
    imported.release()


@BOTH
def test_order_c_of_odd_but_contiguous_strides_is_no_copy(ask):
    x = P2((1, 3), "int32", strides=(44, 1))
    with ask(dlshim.upgrade(x, order="C")) as imported:
        assert imported.view.element_zero == x.element_zero
        assert imported.view.strides == (3, 1)


@BOTH
@pytest.mark.parametrize(("shape", "strides", "start"), STRIDED.values(), ids=STRIDED.keys())
def test_order_k_keeps_every_stride(shape, strides, start, ask):
    x = P2(shape, "int32", strides=strides, start=start)
    with ask(dlshim.upgrade(x, order="K")) as imported:
        assert imported.view.strides == strides
        assert imported.view.element_zero == x.element_zero


@BOTH
def test_order_none_keeps_strides_too(ask):
    x = P2((3, 2), "int32", strides=(1, 3))
    with ask(dlshim.upgrade(x)) as imported:
        assert imported.view.strides == (1, 3)


# --- align ----------------------------------------------------------------------------


def at(offset, size=64):
    """Memory of which element zero is misaligned by `offset` bytes."""
    block = (caps.C.c_char * (2 * 4096 + size))()
    base = caps.C.addressof(block)
    start = -base % 4096 + offset
    return block, base + start


@BOTH
@pytest.mark.parametrize("align", [1, 2, 4, 8, 16, 64, 256, 4096])
def test_align_copies_only_if_needed(align, ask):
    def check(offset):
        block, address = at(offset)
        caps.C.memmove(address, bytes(range(24)), 24)
        x = P2((2, 3), "float32", memory=block, data=address)
        with counting() as count:
            imported = ask(dlshim.upgrade(x, align=align))
        assert imported.view.element_zero % align == 0
        assert count.copied == (1 if offset % align else 0)
        assert b"".join(imported.view.elements()) == bytes(range(24))
        imported.release()

    walk([0, 4, 8, 16, 64, 256], check)


def test_align_of_an_empty_tensor():
    x = P2((0, 3), "float32", data=None)
    with versioned(dlshim.upgrade(x, align=4096)) as imported:
        assert imported.view.shape == (0, 3)


def test_copies_are_64_byte_aligned_and_more_if_asked():
    for align in (None, 8, 64, 128, 4096):
        with versioned(dlshim.upgrade(P2(), align=align), copy=True) as imported:
            assert imported.view.element_zero % max(64, align or 0) == 0


# --- copy=False -----------------------------------------------------------------------

#: What needs a copy: the object, the option, the word for it, and the reason.
NEEDS_A_COPY = {
    "order": (lambda: P2((3, 2), "int32", strides=(1, 3)), {"order": "C"}, "order", "order"),
    "align": (lambda: P2((2, 3), "float32", start=1), {"align": 64}, "align", "align"),
    "readonly": (lambda: P2(readonly=True), {"readonly": "copy"}, "read-only", "readonly"),
}


@BOTH
@pytest.mark.parametrize(
    ("source", "options", "word", "reason"), NEEDS_A_COPY.values(), ids=NEEDS_A_COPY.keys()
)
def test_copy_false_against_an_option_that_copies(source, options, word, reason, ask):
    """Whoever forbids it, the user or the consumer."""
    for forbids, asked in (({"copy": False}, {}), ({}, {"copy": False})):
        with pytest.raises(dlshim.CopyRequiredError) as error:
            ask(dlshim.upgrade(source(), **options, **forbids), **asked)
        tells(error.value, "copy", word)
        assert error.value.reason == reason
        assert pickle.loads(pickle.dumps(error.value)).reason == reason


# --- reinterpret ----------------------------------------------------------------------


def zeros_and_ones(x):
    """The same object, whose bytes are booleans."""
    x.memory[:] = bytes(byte & 1 for byte in bytes(x.memory))
    return x


RELABELS = [
    ("uint8", "bool", (6, 8, 1)),
    ("bool", "uint8", (1, 8, 1)),
    ("uint16", "bfloat16", (4, 16, 1)),
    ("bfloat16", "uint16", (1, 16, 1)),
    ("uint8", "float8_e4m3fn", (10, 8, 1)),
    ("float8_e5m2", "uint8", (1, 8, 1)),
    ("uint32", "int32", (0, 32, 1)),
    ("float32", (77, 32, 1), (77, 32, 1)),
    ("complex64", "float64", (2, 64, 1)),
    ((5, 32, 2), "complex64", (5, 64, 1)),
    ((2, 32, 1), (2, 16, 2), (2, 16, 2)),
    ((1, 1, 1), "bool", (6, 8, 1)),
    ((1, 1, 1), "uint8", (1, 8, 1)),
]


@BOTH
@pytest.mark.parametrize(("given", "wanted", "found"), RELABELS, ids=str)
def test_reinterpret_relabels_the_same_bits(given, wanted, found, ask):
    x = P1((2, 3), given)
    if wanted == "bool":
        zeros_and_ones(x)
    with ask(dlshim.upgrade(x, reinterpret=wanted)) as imported:
        assert imported.view.dtype == found
        assert imported.view.element_zero == x.element_zero
        assert imported.view.strides == (3, 1)
        assert b"".join(imported.view.elements()) == bytes(x.memory)[: 6 * caps.itemsize_of(found)]


@BOTH
@pytest.mark.parametrize(
    ("given", "wanted"),
    [("uint8", "uint16"), ("float32", "float64"), ("float64", "float32"), ("uint16", "bool"),
     ("float32", (2, 16, 1)), ((2, 32, 2), "float32")],
)  # fmt: skip
def test_reinterpret_keeps_the_width(given, wanted, ask):
    x = P2((2, 3), given)
    with pytest.raises(BufferError) as error:
        ask(dlshim.upgrade(x, reinterpret=wanted))
    tells(error.value, "P2", "bits|wide|width")


def test_reinterpret_and_copy():
    x = zeros_and_ones(P0Mxnet((4,), (1, 1, 1)))
    with versioned(dlshim.upgrade(x, reinterpret="bool"), copy=True) as imported:
        assert imported.view.dtype == (6, 8, 1)
        assert imported.view.elements() == [b"\0", b"\1", b"\0", b"\1"]


def masked(*values, form="B"):
    """A buffer of bytes, without a copy."""
    return memoryview(bytearray(values)).cast(form)


LAYOUTS = {
    "row-major": lambda x: x,
    "column-major": lambda x: x.transpose(),
    "reversed": lambda x: x[::-1, ::-1],
    "with gaps": lambda x: x[:, ::2],
    "a part": lambda x: x[1:, 1:],
    "repeated": lambda x: np_of().broadcast_to(x, (10**9, 10**6, *x.shape)),
}


def np_of():
    return pytest.importorskip("numpy", reason="makes the layouts")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_T7_bytes_that_are_called_bool_are_0_or_1(layout):
    np = np_of()
    for at in range(20 * 33):
        x = np.ones((20, 33), "uint8")
        x[at // 33, at % 33] = 2 if at % 2 else 255
        shown = LAYOUTS[layout](x)
        seen = layout == "repeated" or bool((shown > 1).any())
        producer = dlshim.upgrade(shown, reinterpret="bool", readonly="share", order="K")
        if not seen:
            producer.__dlpack__(max_version=(1, 0))
            continue
        with pytest.raises(BufferError, match=r"one is (2|255)\n  pass \(x != 0\) instead"):
            producer.__dlpack__(max_version=(1, 0))


def test_T7_large_memory_is_looked_at_to_the_end():
    x = bytearray(1_000_003)
    assert dlshim.from_dlpack(x, reinterpret="bool").dtype == "bool"
    x[-1] = 3
    with pytest.raises(BufferError, match="and one is 3"):
        dlshim.from_dlpack(x, reinterpret="bool")


@BOTH
def test_T7_every_export_looks_again(ask):
    x = bytearray(b"\0\1")
    producer = dlshim.upgrade(x, reinterpret="bool")
    for _ in range(3):
        with ask(producer) as imported:
            assert imported.view.dtype == (6, 8, 1)
        x[1] = 255
        with pytest.raises(BufferError, match="one is 255"):
            ask(producer)
        x[1] = 1
    copied = dlshim.upgrade(masked(0, 255), reinterpret="bool", copy=True)
    with pytest.raises(BufferError, match="one is 255"):
        versioned(copied)


def test_T7_what_is_no_bytes_of_the_host_called_bool_is_not_looked_at():
    odd = masked(0, 255)
    assert dlshim.from_dlpack(odd[:0], reinterpret="bool").shape == (0,)
    for named in ("uint8", "int8", "float8_e4m3fn"):
        assert dlshim.from_dlpack(odd, reinterpret=named).dtype == named
    bools = odd.cast("?")  # the producer's own word
    assert dlshim.from_dlpack(bools, reinterpret="bool").dtype == "bool"
    pairs = masked(0, 1, 0, 1, 1, 1, form="H")[::2]
    assert dlshim.from_dlpack(pairs, reinterpret=(6, 8, 2)).shape == (2,)
    with pytest.raises(BufferError, match="one is 3"):
        dlshim.from_dlpack(masked(0, 1, 0, 1, 1, 3, form="H")[::2], reinterpret=(6, 8, 2))
    elsewhere = P2((3,), "uint8", device=(2, 1))
    assert dlshim.from_dlpack(elsewhere, reinterpret="bool", stream=-1).dtype == "bool"


def test_bytes_of_a_capsule_that_are_called_bool():
    """It is used up, so the cure needs another one."""
    capsule = dlshim.to_capsule(bytearray(b"\x00\x02"))
    with pytest.raises(BufferError, match="if x is a capsule, make it anew") as error:
        dlshim.from_dlpack(capsule, reinterpret="bool")
    assert "numpy.asarray(dlshim.from_dlpack(x" in str(error.value)


@pytest.mark.parametrize("make", [
    lambda np: np.array([0, 255], "uint8"), lambda np: np.array([0, -1], "int8"),
    lambda np: np.uint8(255), lambda np: b"\0\xff", lambda np: masked(0, 255),
    lambda np: dlshim.from_dlpack(masked(0, 255)),
], ids=["array", "signed", "scalar", "bytes", "view", "tensor"])  # fmt: skip
def test_T7_the_cure_for_other_bytes_gives_the_values(make):
    np = np_of()
    x = make(np)
    with pytest.raises(BufferError) as error:
        dlshim.from_dlpack(x, reinterpret="bool")
    cure = str(error.value).partition("\n  pass ")[2].partition(" instead")[0]
    cured = eval(cure, {"x": x, "numpy": np, "dlshim": dlshim})
    tensor = dlshim.from_dlpack(cured)
    assert tensor.dtype == "bool"
    assert tensor.numpy().reshape(-1).tolist() in ([False, True], [True])


def test_reinterpret_what_an_older_protocol_calls_void():
    x = StructOnly((3,), "int16", changes={"typekind": b"V", "itemsize": 2})
    with versioned(dlshim.upgrade(x, reinterpret="bfloat16")) as imported:
        assert imported.view.dtype == (4, 16, 1)


# --- assume_device, detach ------------------------------------------------------------


@BOTH
@SOURCES
@pytest.mark.parametrize("device", [(1, 2), (3, 0)])
def test_assume_device_replaces_the_label(cls, device, ask):
    x = cls()
    upgraded = dlshim.upgrade(x, assume_device=device)
    assert upgraded.__dlpack_device__() == device
    with ask(upgraded) as imported:
        assert imported.view.device == device
        assert imported.view.element_zero == x.element_zero


@BOTH
def test_assume_device_brings_mislabelled_memory_to_the_host(ask):
    """Pinned memory that its producer calls CUDA; or a CPU-only build that says so."""
    x = P2((3,), "float32", device=(2, 0))
    for device in ("cpu", (1, 0)):
        with ask(dlshim.upgrade(x, assume_device=device)) as imported:
            assert imported.view.device == (1, 0)
            assert imported.values() == x.values()


def on_cuda(cls):
    return cls((3,), device=(2, 1))


#: One of every kind of way in, each of which would answer, or fail, if it were asked.
DEVICE_SOURCES = {
    "modern": lambda: on_cuda(P2),
    "no keywords": lambda: on_cuda(P1a),
    "no device method": lambda: on_cuda(P1aNoDevice),
    "a device method that raises": lambda: on_cuda(BrokenDevice),
    "C table": lambda: on_cuda(P3TableOnly),
    "capsule function": lambda: on_cuda(P0ToDlpack),
    "capsule": lambda: on_cuda(P2).__dlpack__(max_version=(1, 0)),
    "legacy capsule": lambda: on_cuda(P2).__dlpack__(),
    "Tensor": lambda: dlshim.from_dlpack(on_cuda(P2), stream=-1),
    "Producer": lambda: dlshim.upgrade(on_cuda(P2)),
    "CUDA array interface": lambda: CudaOnly(address=0x1000),
    "SYCL USM interface": lambda: SyclOnly(syclobj="level_zero:gpu:1"),
    "array struct": StructOnly,
    "array interface": InterfaceOnly,
    "buffer": lambda: bytearray(b"abc"),
}


@pytest.mark.parametrize("make", DEVICE_SOURCES.values(), ids=DEVICE_SOURCES.keys())
@pytest.mark.parametrize("device", [(2, 0), (10, 3), (13, 0), (14, 1), (8, 0), (1, 0)], ids=str)
def test_assume_device_answers_for_every_kind_of_source(make, device):
    """No driver, no library and no source is needed to say what the user has said."""
    x = make()
    upgraded = dlshim.upgrade(x, assume_device=device)
    assert upgraded.__dlpack_device__() == device
    assert getattr(x, "times_asked", 0) == 0
    assert not getattr(x, "calls", ())
    if device != (1, 0):
        assert dlshim.upgrade(upgraded, device="cpu").__dlpack_device__() == (1, 0)
    for _ in range(2):
        with versioned(upgraded, stream=-1) as imported:
            assert imported.view.device == device
    assert dlshim.from_dlpack(upgraded, stream=-1).device == device


def test_assume_device_of_an_object_without_a_way_in_is_refused_all_the_same():
    with pytest.raises(dlshim.UnsupportedObjectError):
        dlshim.upgrade(object(), assume_device=(2, 0))


def test_assume_device_by_name():
    with versioned(dlshim.upgrade(P2(), assume_device="cpu")) as imported:
        assert imported.view.device == (1, 0)


@BOTH
@pytest.mark.parametrize("table", [False, True])
def test_detach_is_called_when_asked_and_never_otherwise(table, ask):
    cls = torch_like(table=table)
    x = cls(requires_grad=True)
    with pytest.raises(BufferError) as error:
        ask(dlshim.upgrade(x))
    assert x.detached == 0
    tells(error.value, "grad", "detach")
    with ask(dlshim.upgrade(x, detach=True)) as imported:
        assert imported.values() == x.values()
        assert imported.view.element_zero == x.element_zero
    assert x.detached == 1
    plain = cls()
    ask(dlshim.upgrade(plain)).release()
    assert plain.detached == 0


@BOTH
@pytest.mark.parametrize("table", [False, True])
def test_detach_auto_detaches_what_requires_grad_and_nothing_else(table, ask):
    cls = torch_like(table=table)
    x, plain = cls(requires_grad=True), cls()
    for each, times in ((x, 1), (plain, 0), (x, 2)):
        with ask(dlshim.upgrade(each, detach="auto")) as imported:
            assert imported.view.element_zero == each.element_zero
        assert each.detached == times
    paddle = paddle_like(table=table)
    for stops in (True, False):
        x = paddle(stop_gradient=stops)
        with ask(dlshim.upgrade(x, detach="auto")) as imported:
            assert imported.view.element_zero == x.element_zero


@SOURCES
def test_detach_auto_takes_what_cannot_be_detached(cls):
    """Nothing is done, and the device is asked as it is without the option."""
    x = cls()
    upgraded = dlshim.upgrade(x, detach="auto")
    assert upgraded.__dlpack_device__() == dlshim.upgrade(cls()).__dlpack_device__()
    with versioned(upgraded) as imported:
        assert imported.view.element_zero == x.element_zero
    assert repr(upgraded).endswith(", detach='auto'>")


def test_detach_auto_calls_the_method_of_any_library():
    class Weight(P2):
        def detach(self):
            return P2((2,), "int8")

    with versioned(dlshim.upgrade(Weight(), detach="auto")) as imported:
        assert imported.values() == [0, 1]
    assert dlshim.kernel(lambda x: x.shape, takes="tensor", detach="auto")(Weight()) == (2,)


@BOTH
@SOURCES
def test_host_memory_needs_no_wait(cls, ask):
    """The word is one of the option and of from_dlpack, and no value of a consumer (S9, S25)."""
    x = cls()
    with ask(dlshim.upgrade(x, stream="wait")) as imported:
        assert imported.view.element_zero == x.element_zero
    assert dlshim.from_dlpack(x, stream="wait").data_ptr() == x.element_zero
    caps.take(dlshim.to_capsule(x, stream="wait")).release()
    assert {asked.get("stream") for asked in getattr(x, "keywords", ())} <= {None}
    assert repr(dlshim.upgrade(x, stream="wait")).endswith(", stream='wait'>")
    with pytest.raises(TypeError, match="stream"):
        ask(dlshim.upgrade(x), stream="wait")
    with pytest.raises(TypeError, match="stream"):
        dlshim.upgrade(x, producer_stream="wait")
    for word in ("waits", "WAIT", "AUTO", ""):
        with pytest.raises(TypeError, match='\n  pass None, a stream, "auto" or "wait"'):
            dlshim.upgrade(x, stream=word)


@BOTH
@pytest.mark.parametrize("table", [False, True])
@pytest.mark.parametrize("learned", [False, True])
def test_a_tensor_of_paddle_that_requires_grad_is_refused(learned, table, ask):
    """Its C table hands out what its __dlpack__ refuses; both name the cure here."""
    cls = paddle_like(table=table)
    if learned:
        ask(dlshim.upgrade(cls())).release()
    x = cls(stop_gradient=False)
    wrapped = dlshim.upgrade(x)
    for _ in range(2):
        with pytest.raises(BufferError) as error:
            ask(wrapped)
        tells(error.value, "grad", *(["detach=True"] if table else []))
    with ask(dlshim.upgrade(x, detach=True)) as imported:
        assert imported.view.element_zero == x.element_zero
    subclass = type("EagerParamBase", (cls,), {"__module__": "paddle.base.framework"})
    with pytest.raises(BufferError):
        ask(dlshim.upgrade(subclass(stop_gradient=False)))


def test_detach_without_the_method():
    with pytest.raises(BufferError) as error:
        versioned(dlshim.upgrade(P2(), detach=True))
    tells(error.value, "P2", "detach")


def test_detach_that_raises():
    class Fails(Dunder):
        def detach(self):
            raise RuntimeError("cannot detach")

    with pytest.raises(BufferError) as error:
        versioned(dlshim.upgrade(Fails(), detach=True))
    tells(error.value, "cannot detach")


# --- torch's bits (T12) ---------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("table", [False, True])
@pytest.mark.parametrize("bit", ["conj", "neg"])
def test_T12_torchs_lazy_bits_are_refused(bit, table, ask):
    """The bits are not in memory: whoever reads it gets the wrong sign."""
    x = torch_like(table=table)((3,), "complex64" if bit == "conj" else "float32", **{bit: True})
    for options in ({}, {"copy": False}, {"order": "C"}, {"detach": True}, {"detach": "auto"}):
        with pytest.raises(BufferError) as error:
            ask(dlshim.upgrade(x, **options))
        tells(error.value, "Tensor", bit, "resolve", "or pass copy=True")


@BOTH
@pytest.mark.parametrize("table", [False, True])
@pytest.mark.parametrize("bits", [{"conj": True}, {"neg": True}, {"conj": True, "neg": True}])
def test_T12_a_copy_resolves_torchs_lazy_bits(bits, table, ask):
    """By the methods of torch itself, whose new memory is the copy: there is one copy in all."""
    cls = torch_like(table=table)
    for shape, more in (((3,), {}), ((3,), {"align": 1}), ((), {}), ((0, 2), {"readonly": True})):
        x = cls(shape, "complex64", **bits)
        if more.get("readonly") and ask is bare:
            continue
        with counting() as count:
            imported = ask(dlshim.upgrade(x, copy=True, **more))
        assert imported.values() == x.values() and count.copied == 0
        assert imported.view.element_zero != x.element_zero
        if ask is versioned:
            assert imported.view.copied and imported.view.readonly is bool(more.get("readonly"))
        imported.release()
    x = cls((2, 3), "complex64", **bits)
    t = dlshim.from_dlpack(x, copy=True, align=4096)
    assert t.is_copied and t.data_ptr() % 4096 == 0
    with versioned(dlshim.upgrade(x), copy=True) as imported:
        assert imported.view.copied
    asked = dlshim.kernel(lambda x: x.is_copied, takes="tensor", copy=True)
    assert asked(x)


def test_T12_a_copy_resolves_no_bits_of_what_requires_grad():
    x = torch_like()((3,), "complex64", conj=True, requires_grad=True)
    with pytest.raises(BufferError, match="requires grad"):
        dlshim.from_dlpack(x, copy=True)
    assert dlshim.from_dlpack(x, copy=True, detach="auto").is_copied


def test_T12_what_resolving_raises_is_told():
    cls = torch_like()
    cls.resolve_conj = lambda self: 1 / 0
    with pytest.raises(BufferError, match="copy=True failed: ZeroDivisionError") as error:
        dlshim.from_dlpack(cls((3,), "complex64", conj=True), copy=True)
    tells(error.value, "Tensor")
    cls.resolve_conj = lambda self: None
    with pytest.raises(BufferError, match="copy=True failed"):
        dlshim.from_dlpack(cls((3,), "complex64", conj=True), copy=True)


@BOTH
@pytest.mark.parametrize("edition", [1, 2])
def test_T12_torch_without_the_bits_passes(edition, ask):
    x = torch_like(edition=edition)()
    with ask(dlshim.upgrade(x)) as imported:
        assert imported.values() == x.values()


@BOTH
def test_readonly_forms(ask):
    x = P2()
    for value in ("error", "share", "copy", False, None):
        with ask(dlshim.upgrade(x, readonly=value)) as imported:
            assert imported.view.element_zero == x.element_zero


def test_bare_upgrade_of_everything_at_once():
    """All host options in one go."""
    x = P2((3, 2), "uint16", strides=(1, 3), readonly=True)
    upgraded = dlshim.upgrade(
        x, device="cpu", copy=True, readonly=True, order="C", align=128,
        reinterpret="bfloat16", assume_device=(1, 0), stream=5, unknown_stream="error",
    )  # fmt: skip
    with versioned(upgraded) as imported:
        assert imported.view.flags == caps.READ_ONLY | caps.IS_COPIED
        assert imported.view.dtype == (4, 16, 1)
        assert imported.view.strides == (2, 1)
        assert imported.view.element_zero % 128 == 0
    with bare(upgraded) as imported:
        assert imported.view.dtype == (4, 16, 1)
