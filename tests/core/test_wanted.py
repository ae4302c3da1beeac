"""What the caller of `from_dlpack` accepts: dtypes=, ndims= and writable=."""

from __future__ import annotations

import sys

import pytest

import dlshim
from doubles import columns
from doubles.asking import counting
from doubles.producers import P1, P2, P3, P0Mxnet, P0ToDlpack

SOURCES = pytest.mark.parametrize(
    "cls", [P1, P2, P3, P0Mxnet, P0ToDlpack], ids=lambda c: c.__name__
)


class Name(str):
    """A subclass of str, as the dtypes of some libraries are."""


FLOAT32 = ["float32", Name("float32"), (2, 32), (2, 32, 1), dlshim.dtype("float32")]
FLOAT32 += [("int32", "float32"), ["float32"], [(0, 32, 1), (2, 32, 1)], None]


@SOURCES
@pytest.mark.parametrize("dtypes", FLOAT32, ids=repr)
def test_a_dtype_that_is_accepted(cls, dtypes):
    assert dlshim.from_dlpack(cls(dtype="float32"), dtypes=dtypes).dtype == "float32"


@SOURCES
@pytest.mark.parametrize(
    "dtypes, told",
    [
        ("float64", "float64"),
        (("int32", "uint8"), "int32 or uint8"),
        ("bfloat16", "bfloat16"),
        ("float4_e2m1fn", "float4_e2m1fn"),
        ((2, 32, 4), "float32x4"),
        ((0, 32), "int32"),
    ],
    ids=repr,
)
def test_another_dtype_is_refused(cls, dtypes, told):
    x = cls(dtype="float32")
    with pytest.raises(TypeError, match=rf"{cls.__name__}' object has dtype float32, not {told}"):
        dlshim.from_dlpack(x, dtypes=dtypes)
    assert dlshim.from_dlpack(x, dtypes="float32").dtype == "float32", "it is not used up"


@SOURCES
@pytest.mark.parametrize("ndims", [2, (2,), [1, 2], range(1, 4), (63, 2), None], ids=repr)
def test_a_rank_that_is_accepted(cls, ndims):
    assert dlshim.from_dlpack(cls(shape=(2, 3)), ndims=ndims).ndim == 2


@SOURCES
@pytest.mark.parametrize(
    "ndims, told", [(1, "1"), (0, "0"), ((1, 3), "1 or 3"), (range(3, 6), "3 to 5")], ids=repr
)
def test_another_rank_is_refused(cls, ndims, told):
    with pytest.raises(ValueError, match=f"has 2 dimensions, not {told}"):
        dlshim.from_dlpack(cls(shape=(2, 3)), ndims=ndims)


WRONG_TYPE = [
    *({"dtypes": value} for value in (3, 2.5, (None,), ("float32", None), {"float32"}, [["int8"]])),
    *({"dtypes": value} for value in (float, {"x": "float32"}, b"float32")),
    *({"ndims": value} for value in ("2", 2.0, True, (None,), (1, "2"), {1}, {"x": 1})),
    *({"writable": value} for value in (None, 1, "yes")),
    {"dtype": "float32"},
    {"ndim": 2},
]
WRONG_VALUE = [
    *({"dtypes": value} for value in ("float31", "", (), [], (300, 8), (2, 0), ("int8", "x"))),
    *({"ndims": value} for value in (-1, 64, 2**70, (), [], range(0), (1, -1))),
]


@pytest.mark.once
@pytest.mark.parametrize("given", WRONG_TYPE + WRONG_VALUE, ids=repr)
def test_what_cannot_be_accepted(given):
    """The error names the word, and nobody was asked."""
    x = P2()
    error = TypeError if given in WRONG_TYPE else ValueError
    with pytest.raises(error, match=next(iter(given))):
        dlshim.from_dlpack(x, **given)
    assert x.calls == []


def test_a_number_that_raises():
    class Fails:
        def __index__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dlshim.from_dlpack(P2(), ndims=Fails())


def test_upgrade_and_to_capsule_take_no_such_words():
    """A Producer asks nobody yet, and a capsule tells its consumer."""
    for function in (dlshim.upgrade, dlshim.to_capsule):
        for word in ({"dtypes": "int8"}, {"ndims": 1}, {"writable": True}):
            with pytest.raises(TypeError, match="unexpected keyword"):
                function(P2(), **word)


# ---- with options ------------------------------------------------------------------------------


def test_the_dtype_is_compared_after_reinterpret():
    x = P2(dtype="float32")
    assert dlshim.from_dlpack(x, reinterpret="int32", dtypes="int32").dtype == "int32"
    with pytest.raises(TypeError, match="has dtype int32, not float32"):
        dlshim.from_dlpack(x, reinterpret="int32", dtypes="float32")


def test_options_of_the_layout_copy_as_without_these_words():
    x = P2(shape=(2, 3), strides=(1, 2))
    given = {"dtypes": "float32", "ndims": 2}
    with counting() as count:
        tensor = dlshim.from_dlpack(x, order="C", align=64, readonly="copy", **given)
    assert tensor.strides == (3, 1) and tensor.data_ptr() % 64 == 0 and count.copied == 1
    with pytest.raises(dlshim.CopyRequiredError) as caught:
        dlshim.from_dlpack(x, order="C", copy=False, **given)
    assert caught.value.reason == "order"


@pytest.mark.parametrize(
    "options", [{"order": "C"}, {"readonly": "copy"}, {"order": "K", "align": 1}]
)
def test_options_that_change_nothing_ask_once(options):
    """Also where the memory is not as they want it."""
    for fields in ({}, {"shape": (2, 3), "strides": (1, 2)}, {"readonly": True}):
        x = P2(**fields)
        dlshim.from_dlpack(x)
        before = len(x.calls)
        tensor = dlshim.from_dlpack(x, **options)
        assert len(x.calls) == before + 1
        copied = options.get("order") == "C" and "strides" in fields
        assert tensor.is_copied is copied, (options, fields)
        assert tensor.readonly is ("readonly" in fields and not copied)


def test_a_word_of_readonly_is_kept():
    np = pytest.importorskip("numpy", reason="its arrays say that they are read-only")
    x = np.arange(3.0)
    x.flags.writeable = False
    for _ in range(2):
        tensor = dlshim.from_dlpack(x, readonly="copy")
        assert tensor.readonly and np.from_dlpack(tensor).flags.writeable


# ---- writable ----------------------------------------------------------------------------------


def test_memory_that_may_be_written():
    for x in (P2(), P1(), bytearray(3)):
        tensor = dlshim.from_dlpack(x, writable=True)
        assert not tensor.readonly and not tensor.is_copied
    data = bytearray(b"abc")
    memoryview(dlshim.from_dlpack(data, writable=True))[0] = 122
    assert data == b"zbc"


@pytest.mark.parametrize("x, cure", [(P2(readonly=True), "copy=True"), (b"abc", r"bytearray\(x\)")])
def test_read_only_memory_is_not_writable(x, cure):
    with pytest.raises(BufferError, match=rf"object is read-only, and is to be written\n.*{cure}"):
        dlshim.from_dlpack(x, writable=True)
    own = dlshim.from_dlpack(x, writable=True, copy=True)
    assert own.is_copied and not own.readonly


def test_nothing_is_copied_unasked():
    x = P2(shape=(2, 3), strides=(1, 2))
    with pytest.raises(
        dlshim.CopyRequiredError, match=r"not row-major.*not made unasked"
    ) as caught:
        dlshim.from_dlpack(x, writable=True, order="C")
    assert caught.value.reason == "order"
    kept = dlshim.from_dlpack(dlshim.from_dlpack(x, copy=True), writable=True, order="C")
    assert kept.strides == (3, 1)
    with pytest.raises(dlshim.CopyRequiredError, match="not aligned to 1048576 bytes"):
        dlshim.from_dlpack(P2(start=1), writable=True, align=2**20)
    with pytest.raises(BufferError, match="gives a copy, and what is written there would be lost"):
        dlshim.from_dlpack(dlshim.upgrade(P2(), copy=True), writable=True)


# ---- objects -----------------------------------------------------------------------------------


def column():
    return columns.column(1, 2, 3)[0]


def test_columns():
    assert dlshim.from_dlpack(column(), dtypes="int64", ndims=1).shape == (3,)
    with pytest.raises(TypeError, match="has dtype int64, not int32"):
        dlshim.from_dlpack(column(), dtypes="int32")
    with pytest.raises(BufferError, match="read-only"):
        dlshim.from_dlpack(column(), writable=True)


def test_a_capsule_is_used_up():
    capsule = dlshim.to_capsule(P2())
    with pytest.raises(TypeError, match=r"has dtype float32, not int8, .*\n  pass .*a new capsule"):
        dlshim.from_dlpack(capsule, dtypes="int8")
    with pytest.raises(BufferError, match="consumed"):
        dlshim.from_dlpack(capsule, dtypes="float32")


def test_our_own_objects():
    for x in (dlshim.from_dlpack(P2()), dlshim.upgrade(P2()), dlshim.upgrade(P2(), order="C")):
        assert dlshim.from_dlpack(x, dtypes="float32").dtype == "float32"
        with pytest.raises(TypeError, match="has dtype float32, not int8"):
            dlshim.from_dlpack(x, dtypes="int8")


def test_masked_arrays_stay_refused():
    np = pytest.importorskip("numpy", reason="its masked arrays are looked at")
    with pytest.raises(BufferError, match="mask hides elements"):
        dlshim.from_dlpack(np.ma.masked_array([1.0, 2.0], mask=[0, 1]), dtypes="float64")


def test_dtypes_of_other_libraries():
    np = pytest.importorskip("numpy", reason="its dtypes are named")
    x = np.zeros(2, "f4")
    for dtypes in (np.float32, np.dtype("f4"), x.dtype, (np.int8, np.float32), [np.dtype("<f4")]):
        assert dlshim.from_dlpack(x, dtypes=dtypes).dtype == "float32"
    swapped = np.dtype(">f4" if sys.byteorder == "little" else "<f4")
    with pytest.raises(TypeError, match="names no dtype"):
        dlshim.from_dlpack(x, dtypes=swapped)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "int4", "uint2"])
def test_dtypes_of_ml_dtypes(name):
    np = pytest.importorskip("numpy", reason="its arrays have the dtypes")
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not in this environment")
    cls = getattr(ml_dtypes, name)
    x = np.ones(3).astype(cls)
    for dtypes in (name, cls, np.dtype(cls), ("int8", name)):
        assert dlshim.from_dlpack(x, dtypes=dtypes).dtype == name
    with pytest.raises(
        TypeError, match=rf"has dtype {name}, not float32\n  pass x.astype\("
    ) as caught:
        dlshim.from_dlpack(x, dtypes="float32")
    cure = str(caught.value).rpartition("pass ")[2]
    assert dlshim.from_dlpack(eval(cure, {"x": x}), dtypes="float32").dtype == "float32"
    with pytest.raises(TypeError, match=f"has dtype float64, not {name}\n  convert it first"):
        dlshim.from_dlpack(np.ones(2), dtypes=cls)


@pytest.mark.parametrize("have, want", [("bfloat16", "float32"), ("float32", "bfloat16")])
def test_the_cures_of_torch_s_bfloat16_work(have, want):
    torch = pytest.importorskip("torch", reason="torch is not in this environment")
    x = torch.ones(2, dtype=getattr(torch, have))
    with pytest.raises(TypeError, match=rf"has dtype {have}, not {want}\n  pass x.to\(") as caught:
        dlshim.from_dlpack(x, dtypes=want)
    cure = str(caught.value).rpartition("pass ")[2]
    assert dlshim.from_dlpack(eval(cure, {"x": x, "torch": torch}), dtypes=want).dtype == want
