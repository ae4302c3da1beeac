"""dlshim.h: arrays into C and memory out of C, by an extension that is compiled here."""

from __future__ import annotations

import array
import gc
import itertools
import struct
import sys
import threading
from pathlib import Path

import pytest
from core.test_alloc_failure import failing, numbers
from core.test_cuda_interface import has_driver

import dlshim
from dlshim import _core
from doubles import capsules as caps
from doubles import child, extension, gil
from doubles.asking import live, versioned
from doubles.cuda_interface import CudaOnly
from doubles.older import InterfaceOnly
from doubles.producers import (
    P1,
    P2,
    P3,
    P1b,
    P3Failing,
    P3TableOnly,
    torch_like,
    torch_wrapper_like,
)

FLOAT, INT = struct.pack("BBH", 2, 32, 1), struct.pack("BBH", 0, 32, 1)
CPU, CUDA = 1, 2
READ_ONLY, IS_COPIED = 1, 2
DEFAULT, STREAM, READY, WAIT = range(4)
IF_NEEDED, NEVER, ALWAYS = range(3)


@pytest.fixture(scope="session")
def ext(tmp_path_factory):
    return extension.build("c_interface", tmp_path_factory.mktemp("c_interface"))


@pytest.fixture(autouse=True)
def no_deleter_is_open(ext):
    """What earlier tests left does not count."""
    gc.collect()
    ext.deleted()


def values(capsule):
    return caps.look(capsule).values()


def laid_out(capsule):
    view = caps.look(capsule)
    return view.strides, view.values()


# --- in -------------------------------------------------------------------------------

SOURCES = {
    "legacy": P1,
    "legacy keywords": P1b,
    "versioned": P2,
    "table": P3,
    "table alone": P3TableOnly,
    "failing table": P3Failing,
    "legacy capsule": caps.make,
    "versioned capsule": lambda: caps.make(version=(1, 0)),
    "buffer": lambda: memoryview(array.array("f", range(6))).cast("B").cast("f", (2, 3)),
    "Producer": lambda: dlshim.upgrade(P2()),
    "Tensor": lambda: dlshim.from_dlpack(P2()),
}


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_whatever_upgrade_takes_is_imported(ext, make):
    x = make()
    for _ in range(1 if "capsule" in type(x).__name__.lower() else 3):
        capsule = ext.take(x)
        view = caps.look(capsule)
        assert view.shape == (2, 3) and view.dtype == (2, 32, 1) and view.strides == (3, 1)
        assert values(capsule) == [0, 1, 2, 3, 4, 5]
        del capsule  # the error that the failing table keeps knows this frame


@pytest.mark.parametrize("make", [P1, P2, P3])
def test_a_type_is_asked_once_an_import(ext, make):
    x = make()
    for _ in range(3):
        before = len(x.calls)
        ext.take(x, contiguous=1, alignment=4)
        assert len(x.calls) <= before + 3  # the first finds out how
    before = len(x.exports)
    ext.take(x, contiguous=1)
    assert len(x.exports) == before + 1


def test_what_must_be_copied_is_asked_for_once_too(ext):
    x = P2((3, 2), strides=(1, 3))
    ext.take(x)
    before = len(x.exports)
    taken = caps.take(ext.take(x, contiguous=1))
    assert len(x.exports) == before + 1
    assert taken.view.strides == (2, 1) and taken.values() == x.values()
    assert taken.flags & IS_COPIED
    taken.release()


@pytest.mark.parametrize("dtype", caps.DTYPES)
def test_the_format_of_a_dtype_is_that_of_a_tensor_s_buffer(ext, dtype):
    """mpi4py wrote a table of its own to fill a Py_buffer."""
    code, bits, lanes = caps.dtype_tuple(dtype)
    try:
        format = memoryview(dlshim.from_dlpack(P2((2,), dtype))).format
    except BufferError:
        format = None
    assert ext.format(code, bits, lanes) == format
    assert ext.format(code, bits, lanes + 1) is None


#: Strides of (2, 3, 4) elements; what the request "row-major or column-major" makes of them.
ORDERS = {
    "row-major": ((12, 4, 1), (12, 4, 1)),
    "column-major": ((1, 2, 6), (1, 2, 6)),
    "neither": ((4, 8, 1), (12, 4, 1)),
}


@pytest.mark.parametrize("options", [{}, {"alignment": 4}, {"copy": NEVER}, {"writable": 1}])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("make", [P1, P2, P3])
def test_row_major_or_column_major(ext, make, order, options):
    """mpi4py and other callers of BLAS take both, and looked at the strides by hand."""
    strides, got = ORDERS[order]
    x = make((2, 3, 4), strides=strides)
    copies = strides != got
    ext.take(make())  # the first finds out how the type is asked
    for _ in range(3):
        if copies and ("copy" in options or "writable" in options):
            with pytest.raises(dlshim.CopyRequiredError) as raised:
                ext.take(x, contiguous=2, name="out", **options)
            assert str(raised.value).startswith("out: a copy is needed (strides that are not ")
            continue
        exports = len(x.exports)
        assert laid_out(ext.take(x, contiguous=2, **options)) == (got, x.values())
        assert len(x.exports) == exports + 1
        lent = ext.lend(x, contiguous=2, **options)
        assert (lent["strides"], lent["data"] == x.element_zero) == (got, not copies)


def test_row_major_or_column_major_of_what_can_be_asked_once(ext):
    """A capsule is used up; what the user says is heeded."""
    for strides, got in ((3, 1), (3, 1)), ((1, 2), (1, 2)), ((-3, 1), (3, 1)):
        made = {"shape": (2, 3), "strides": strides, "start": 3 * (strides[0] < 0)}
        capsule, x = caps.make(version=(1, 0), **made), P2(**made)
        assert laid_out(ext.take(capsule, contiguous=2)) == (got, x.values())
        assert laid_out(ext.take(dlshim.upgrade(x), contiguous=2)) == (got, x.values())
        ordered = ext.take(dlshim.upgrade(x, order="C"), contiguous=2)
        assert laid_out(ordered) == ((3, 1), x.values())
        assert laid_out(ext.take(x, contiguous=2, copy=ALWAYS)) == ((3, 1), x.values())
    readonly = ext.lend(P2((2, 3), strides=(-3, 1), start=3, readonly=True), contiguous=2)
    assert readonly["strides"] == (3, 1)
    for shape in ((), (1,), (0, 3), (3, 0), (1, 1), (4, 1)):
        for strides in ([7] * len(shape), [1] * len(shape)):
            x = P2(shape, strides=tuple(strides))
            ext.take(x, contiguous=2, copy=NEVER if shape != (4, 1) else IF_NEEDED)


def test_zero_means_host_memory_of_any_kind(ext):
    for x in (P2(), P2((0, 3)), P2(()), P2((4,), "uint8"), P2((2, 3), readonly=True)):
        taken = caps.take(ext.take(x))
        assert taken.view.shape == x.shape
        assert taken.flags & READ_ONLY == x.readonly
        taken.release()
    backwards = P2((3,), strides=(-1,), start=2)
    assert values(ext.take(backwards)) == backwards.values()
    assert values(ext.take(backwards)) == backwards.values()  # and when that is learned
    pinned = P2(device=(3, 0))
    assert caps.look(ext.take(pinned)).device == (3, 0)


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("make", [P1, P2, P3])
def test_dtypes(ext, make, learned):
    x = make()
    if learned:
        ext.take(x)
    assert values(ext.take(x, dtypes=FLOAT)) == x.values()
    assert values(ext.take(x, dtypes=INT + FLOAT)) == x.values()
    before = live()
    for call in (ext.take, ext.lend):
        with pytest.raises(TypeError) as raised:
            call(x, dtypes=INT, name="blur(): image")
        assert str(raised.value) == (
            "blur(): image has dtype float32, not int32, in which not every value fits\n  "
            "pass numpy.asarray(dlshim.from_dlpack(x), 'int32')"
        )
    with pytest.raises(TypeError, match=r"P\d' object has dtype float32, not "):
        ext.take(x, dtypes=INT)
    assert live() == before


class Converts(P2):
    def astype(self, name):
        return P2(self.shape, name)


class Moves(P2):
    """Its `to` is not torch's."""

    def to(self, dtype):
        raise NotImplementedError

    @property
    def astype(self):
        raise RuntimeError


def test_the_cure_for_a_dtype_is_the_object_s_own(ext):
    x = Converts()
    with pytest.raises(TypeError, match=r"\n  pass x\.astype\('int32'\)$"):
        ext.take(x, dtypes=INT)
    ext.take(x.astype("int32"), dtypes=INT)
    with pytest.raises(TypeError, match=r"not int32 or uint8, .*\n  pass numpy.*'int32'\)$"):
        ext.take(Moves(), dtypes=INT + struct.pack("BBH", 1, 8, 1))


#: A dtype, another one, and whether every value of the first is one of the other's.
FITS = [
    ("bool", "int8", True),
    ("bool", "float16", True),
    ("uint8", "int8", False),
    ("uint8", "int16", True),
    ("int8", "uint64", False),
    ("int16", "float16", False),
    ("int16", "float32", True),
    ("int64", "float64", False),
    ("int32", "complex64", False),
    ("int32", "complex128", True),
    ("float32", "float64", True),
    ("float64", "float32", False),
    ("float32", "int64", False),
    ("float64", "complex64", False),
    ("complex64", "float64", False),
    ("complex64", "complex128", True),
    ("int64", "bool", False),
]


@pytest.mark.parametrize("have, want, fits", FITS)
def test_a_conversion_that_loses_values_says_so(ext, have, want, fits):
    """NumPy's table of safe casts says the same, but for integers in floats of 64 bits."""
    numpy = pytest.importorskip("numpy", reason="NumPy makes the array")
    x = numpy.zeros(2, have)
    with pytest.raises(TypeError, match=f"has dtype {have}, not {want}") as raised:
        ext.take(x, dtypes=struct.pack("BBH", *caps.dtype_tuple(want)))
    said = str(raised.value)
    real = have.startswith("complex") and not want.startswith("complex")
    assert (f", not {want}, in which not every value fits\n" in said) == (not fits and not real)
    assert (f", not {want}, in which the imaginary part is lost\n" in said) == real
    usual = ("int64", "float64")
    assert numpy.can_cast(have, want) == fits or (have, want) == usual


@pytest.mark.filterwarnings("error")  # NumPy warns where a part is lost that was not named
@pytest.mark.parametrize("want", ["float32", "float64", "int32", "bool"])
def test_of_complex_numbers_the_cure_takes_the_real_part(ext, want):
    numpy = pytest.importorskip("numpy", reason="NumPy makes the array")
    given = numpy.array([1 + 2j, 3])
    for x in (given, memoryview(given), dlshim.from_dlpack(given)):
        with pytest.raises(TypeError, match="the imaginary part is lost\n  pass") as raised:
            ext.take(x, dtypes=struct.pack("BBH", *caps.dtype_tuple(want)))
        cured = eval(
            str(raised.value).rpartition("pass ")[2], {"numpy": numpy, "x": x, "dlshim": dlshim}
        )
        assert cured.tolist() == given.real.astype(want).tolist() and cured.dtype == want


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview, lambda x: memoryview(x)[::2]])
def test_bytes_become_numbers_of_another_dtype_by_their_bits(ext, make):
    numpy = pytest.importorskip("numpy", reason="NumPy is not here to try the cure")
    x = make(struct.pack("2f", 1, 2))
    with pytest.raises(TypeError, match=r"has dtype uint8, not float32\n  pass ") as raised:
        ext.take(x, dtypes=FLOAT)
    cured = eval(str(raised.value).rpartition("pass ")[2], {"numpy": numpy, "x": x})
    ext.take(cured, dtypes=FLOAT)
    assert cured.tobytes() == bytes(x)


def test_the_cure_of_a_dtype_works_for_what_numpy_cannot_read(ext):
    numpy = pytest.importorskip("numpy", reason="NumPy is not here to try the cure")
    for make in (P2, lambda: caps.make(version=(1, 0))):
        x = make()
        with pytest.raises(TypeError, match=r"has dtype float32, not int32, .*\n  pass ") as raised:
            ext.take(x, dtypes=INT)
        cure = str(raised.value).rpartition("pass ")[2]
        if make is not P2:  # a capsule is used up
            x, cure = make(), cure.replace("a new capsule", "x")
        assert values(ext.take(eval(cure, {"numpy": numpy, "dlshim": dlshim, "x": x}))) == [
            *range(6)
        ]


def test_the_other_cures_of_bytes(ext):
    numpy = pytest.importorskip("numpy", reason="NumPy is not here to try the cure")
    for wrong in ({"ranks": 1 << 2}, {"writable": 1}):
        with pytest.raises((BufferError, ValueError)) as raised:
            ext.take(b"abc", **wrong)
        said = str(raised.value).rpartition("pass ")[2]
        cured = eval(said, {"numpy": numpy, "dlshim": dlshim, "x": b"abc"})
        assert values(ext.take(cured, **wrong)) == [*b"abc"]


@pytest.mark.parametrize(
    "shape, ranks, says, fitting",
    [
        ((2, 3), 1 << 1, "has 2 dimensions, not 1", "(-1,)"),
        ((2, 3), 1 << 3, "has 2 dimensions, not 3", "(1, 2, 3)"),
        ((2, 3, 4), 0b110, "has 3 dimensions, not 1 or 2", "(2, -1)"),
        ((6,), 0b11100, "has 1 dimension, not 2 to 4", "(1, 6)"),
        ((1,), 1 << 0, "has 1 dimension, not 0", "()"),
    ],
)
def test_ranks(ext, shape, ranks, says, fitting):
    cure = f"numpy.asarray(dlshim.from_dlpack(x)).reshape({fitting})"
    x = P2(shape)
    assert values(ext.take(x, ranks=1 << len(shape) | ranks)) == x.values()
    for _ in range(2):
        with pytest.raises(ValueError) as raised:
            ext.take(x, ranks=ranks, name="x")
        assert str(raised.value) == f"x {says}\n  pass {cure}"
    numpy = pytest.importorskip("numpy", reason="NumPy is not here to try the cure")
    cured = eval(cure, {"numpy": numpy, "dlshim": dlshim, "x": x})
    assert ranks >> cured.ndim & 1 and values(ext.take(cured, ranks=ranks)) == x.values()


def test_who_writes_gets_memory_that_may_be_written(ext):
    x = P2()
    for call in (ext.take, ext.lend, ext.take, ext.lend):
        call(x, writable=1)
    for _ in range(2):
        for call in (ext.take, ext.lend):
            with pytest.raises(BufferError) as raised:
                call(P2(readonly=True), writable=1, name="out")
            assert str(raised.value) == (
                "out is read-only, and is to be written\n  keep and pass "
                "dlshim.from_dlpack(x, copy=True)"
            )
    capsule = ext.take(P2(readonly=True), writable=1, copy=ALWAYS)
    assert caps.look(capsule).flags & READ_ONLY == 0
    assert ext.lend(P2(readonly=True))["flags"] == READ_ONLY


def test_a_read_only_wrapper_of_torch_lends_nothing_to_who_writes(ext):
    """torch's C table lends any tensor for writing, for torch has no other read-only ones."""
    wrapper = torch_wrapper_like(torch_like(table=True))
    for _ in range(3):
        ext.lend(torch_like(table=True)(), writable=1)
        ext.lend(wrapper())
        with pytest.raises(BufferError, match="is read-only"):
            ext.lend(wrapper(), writable=1)


def test_what_is_written_reaches_the_object(ext):
    """So a copy that is needed is refused, and the refusal names one that the user keeps."""
    x = P2((3, 2), strides=(1, 3))
    for request, keep in (({"writable": 1}, "keep and "), ({"copy": NEVER}, "")):
        for _ in range(2):
            with pytest.raises(dlshim.CopyRequiredError) as raised:
                ext.take(x, contiguous=1, name="out", **request)
            assert str(raised.value) == (
                "out: a copy is needed (strides that are not row-major), and is not made "
                f"unasked\n  {keep}pass dlshim.from_dlpack(x, copy=True)"
            )
            assert raised.value.reason == "order"
            ext.take(dlshim.from_dlpack(x, copy=True), contiguous=1, **request)
    for options in ({}, {"copy": False}, {"order": "C"}):
        with pytest.raises(dlshim.CopyRequiredError):
            ext.take(dlshim.upgrade(x, **options), contiguous=1, writable=1)
    assert values(ext.take(x, contiguous=1, writable=1, copy=ALWAYS)) == x.values()


def test_N9_row_major_memory_is_in_the_byte_order_of_the_machine(ext):
    """A request for it may copy what DLPack cannot describe; one without it names the cure."""
    x = InterfaceOnly((3,), "int32")
    x.changes["typestr"] = ">i4" if sys.byteorder == "little" else "<i4"
    taken = caps.take(ext.take(x, contiguous=1))
    assert taken.values() == [0, 1 << 24, 2 << 24] and taken.flags & IS_COPIED
    taken.release()
    assert values(ext.take(x, copy=ALWAYS)) == [0, 1 << 24, 2 << 24]
    for request, keep in (({"writable": 1}, "keep and "), ({"copy": NEVER}, "")):
        with pytest.raises(dlshim.CopyRequiredError) as raised:
            ext.take(x, contiguous=1, name="out", **request)
        assert str(raised.value) == (
            "out: a copy is needed (its byte order is not the machine's), and is not made "
            f"unasked\n  {keep}pass dlshim.from_dlpack(x, copy=True)"
        )
        ext.take(dlshim.from_dlpack(x, copy=True), contiguous=1, **request)
    with pytest.raises(BufferError, match=r'order="C".*\(dlshim.upgrade\(x\) takes such options\)'):
        ext.take(x)
    assert values(ext.take(dlshim.upgrade(x, order="C"))) == [0, 1 << 24, 2 << 24]


@pytest.mark.parametrize("copy", [IF_NEEDED, NEVER])
@pytest.mark.parametrize("make", [P1, P2, P3])
def test_nothing_is_written_to_a_copy_that_nobody_keeps(ext, make, copy):
    x = make()
    wrapped = dlshim.upgrade(x, copy=True)
    for call in (ext.take, ext.lend) * 2:
        with pytest.raises(BufferError) as raised:
            call(wrapped, writable=1, copy=copy, name="out")
        assert str(raised.value) == (
            "out: 'dlshim.Producer' object: it gives a copy, and what is written there would be "
            "lost\n  pass dlshim.from_dlpack(x), and keep that"
        )
        assert (
            call(wrapped) and call(wrapped, copy=ALWAYS) and call(wrapped, writable=1, copy=ALWAYS)
        )
    kept = dlshim.from_dlpack(wrapped)
    assert ext.lend(kept, writable=1)["data"] == kept.data_ptr() != x.element_zero
    assert ext.lend(dlshim.upgrade(x), writable=1)["data"] == x.element_zero


@pytest.mark.parametrize("make", [P1, P2, P3])
def test_no_copy_and_a_copy_contradict_each_other(ext, make):
    """As `copy=False` of a consumer against `upgrade(x, copy=True)`."""
    x = make()
    wrapped = dlshim.upgrade(x, copy=True)
    for call in (ext.take, ext.lend) * 2:
        with pytest.raises(dlshim.CopyRequiredError) as raised:
            call(wrapped, copy=NEVER, name="out")
        assert str(raised.value) == (
            "out: a copy is needed (it was told copy=True), and is not made unasked\n  pass "
            "dlshim.from_dlpack(x, copy=True)"
        )
        assert call(dlshim.from_dlpack(wrapped, copy=True), copy=NEVER)
        assert call(dlshim.upgrade(x, copy=False), copy=NEVER)


def numpys(text):
    """An array of NumPy, by an expression in which it is `np`."""
    return lambda np: eval(text, {"np": np})


@pytest.mark.parametrize(
    "make, asked",
    [
        (numpys("np.arange(6, dtype='f4')"), {"dtypes": INT}),
        (numpys("np.arange(6, dtype='f4')"), {"dtypes": INT, "writable": 1}),
        (numpys("np.zeros((0, 3, 4), 'f4')"), {"ranks": 1 << 2}),
        (numpys("np.zeros((2, 0, 4), 'f4')"), {"ranks": 1 << 1}),
        (numpys("np.arange(2.0).view(np.matrix)"), {"ranks": 1 << 1}),
        (numpys("np.arange(2.0).view(np.matrix)"), {"ranks": 1 << 5}),
        (numpys("np.arange(6, dtype='f4').reshape(2, 3).T"), {"ranks": 1 << 1, "writable": 1}),
        (lambda _: P2(readonly=True), {"writable": 1}),
        (lambda _: dlshim.upgrade(P2(), readonly=True), {"writable": 1}),
        (lambda _: dlshim.upgrade(P2(readonly=True), readonly="copy"), {"writable": 1}),
        (lambda _: dlshim.upgrade(P2(readonly=True), readonly="share"), {"writable": 1}),
        (lambda _: dlshim.upgrade(P2(), readonly=True), {"writable": 1, "copy": ALWAYS}),
        (lambda _: bytes(8), {"dtypes": FLOAT, "writable": 1}),
        (lambda _: memoryview(bytes(16))[::2], {"dtypes": FLOAT, "writable": 1}),
        (lambda _: memoryview(bytearray(16))[::2], {"dtypes": FLOAT}),
        (lambda _: caps.make(version=(1, 0), flags=READ_ONLY), {"writable": 1}),
        (lambda _: caps.make(version=(1, 0), strides=(1, 2)), {"contiguous": 1, "copy": NEVER}),
    ],
)
def test_the_cure_that_is_named_works(ext, make, asked):
    numpy = pytest.importorskip("numpy", reason="NumPy is not here to try the cure")
    x = make(numpy)
    with pytest.raises((BufferError, TypeError, ValueError)) as raised:
        ext.take(x, **asked)
    keep, _, cure = str(raised.value).rpartition("pass ")
    assert keep.endswith("keep and ") == ("writable" in asked)
    if "a new capsule" in cure:
        x = make(numpy)
    cure = cure.replace("a new capsule", "x")
    cured = eval(cure, {"numpy": numpy, "dlshim": dlshim, "x": x})
    assert ext.take(cured, **asked)


@pytest.mark.parametrize(
    "make, asked, says",
    [
        (lambda: bytes(7), {"dtypes": FLOAT}, "has dtype uint8, not float32\n  convert it first"),
        (P2, {"dtypes": struct.pack("BBH", 4, 16, 1)}, "not bfloat16\n  convert it first"),
        (lambda: P2((6,), "bfloat16"), {"dtypes": FLOAT}, "not float32\n  convert it first"),
        (lambda: P2((6,), "bfloat16"), {"ranks": 1 << 2}, "not 2\n  change its shape first"),
        (P2, {"ranks": 1 << 0}, "has 2 dimensions, not 0\n  change its shape first"),
    ],
)
def test_no_cure_is_named_where_none_is_known(ext, make, asked, says):
    with pytest.raises((TypeError, ValueError)) as raised:
        ext.take(make(), **asked)
    assert str(raised.value).endswith(says)


def test_the_cures_of_options_name_the_function_that_takes_them(ext):
    for name in ({}, {"name": "image"}):
        with pytest.raises(BufferError, match=r" \(dlshim\.upgrade\(x\) takes such options\)$"):
            ext.take(Days(), **name)


def test_an_error_of_other_code_names_no_options_of_dlshim(ext):
    class Strict:
        def __dlpack__(self, **_):
            raise BufferError("only stream=None, copy=None")

    for name in ({}, {"name": "image"}):
        with pytest.raises(BufferError, match=r"only stream=None, copy=None$"):
            ext.take(Strict(), **name)


def test_an_error_without_the_argument_s_name_names_the_object_once(ext):
    with pytest.raises(dlshim.UnsupportedObjectError, match=r"^'object' object: it cannot be"):
        ext.take(object())
    with pytest.raises(BufferError, match=r"^'[\w.]*Days' object: ") as raised:
        ext.take(dlshim.upgrade(Days()))
    assert str(raised.value).count(" object: ") == 1


def test_device_memory_that_is_to_be_written_on_the_host_is_kept(ext):
    with pytest.raises(BufferError) as raised:
        ext.take(P2(device=(CUDA, 0), data="memory"), writable=1, **{"stream.kind": READY})
    says = 'keep and pass dlshim.from_dlpack(x, device="cpu")'
    assert str(raised.value).endswith(f"lies on device (2, 0), not on the host\n  {says}")


def test_an_array_without_elements_is_aligned_at_any_address(ext):
    """An empty array of doubles was refused, because its address is no multiple of 8."""
    memory = caps.filled((16,), "uint8", (1,), 0)
    x = P2((0, 3), "uint8", start=1, memory=memory)
    for call in (ext.take, ext.lend) * 2:
        assert call(x, alignment=64, copy=NEVER)
        assert call(x, alignment=64, writable=1, contiguous=1)
    assert dlshim.from_dlpack(x, align=64, copy=False).size == 0


def test_alignment(ext):
    memory = caps.filled((80,), "uint8", (1,), 0)
    at = next(k for k in range(16) if (caps.address_of(memory) + k) % 16 == 8)
    x = P2((8,), "uint8", start=at, memory=memory)
    for _ in range(2):
        assert caps.look(ext.take(x, alignment=8)).element_zero == x.element_zero
        moved = caps.look(ext.take(x, alignment=128)).element_zero
        assert moved % 128 == 0
        with pytest.raises(dlshim.CopyRequiredError) as raised:
            ext.take(x, alignment=128, copy=NEVER, name="x")
        assert str(raised.value) == (
            "x: a copy is needed (memory that is not aligned to 128 bytes), and is not made "
            "unasked\n  pass dlshim.from_dlpack(x, copy=True, align=128)"
        )
        assert raised.value.reason == "align"


def test_device_memory_is_taken_by_those_only_who_ask_for_it(ext):
    x = P2(device=(CUDA, 0), data="memory")
    for call in (ext.take, ext.lend):
        with pytest.raises(BufferError) as raised:
            call(x, name="image", **{"stream.kind": READY})
        assert str(raised.value) == (
            'image lies on device (2, 0), not on the host\n  pass dlshim.upgrade(x, device="cpu")'
        )
        assert call(x, device_type=-1, **{"stream.kind": READY})
        assert call(x, device_type=CUDA, **{"stream.kind": READY})
    assert x.keywords[-1]["stream"] == -1
    ext.take(x, device_type=CUDA, **{"stream.kind": STREAM, "stream.handle": 4096})
    assert x.keywords[-1]["stream"] == 4096


def test_an_interface_of_ready_data_says_where_it_lies_without_a_driver(ext):
    """Without a driver nobody else knows the device of an address."""
    if has_driver():
        pytest.skip("this machine has a CUDA driver")
    x, ready = CudaOnly(address=4096), {"stream.kind": READY, "device_type": -1}
    for call in (ext.take, ext.lend):
        with pytest.raises(BufferError, match=r"pass assume_device=, .* takes such options\)$"):
            call(x, **ready)
        assert call(dlshim.upgrade(x, assume_device=(CUDA, 0)), **ready)


def test_a_host_type_that_turns_up_on_a_device(ext):
    ext.take(P2())
    ext.take(P2())
    ext.lend(P3())
    ext.lend(P3())
    for make, call in itertools.product((P2, P3), (ext.take, ext.lend)):
        with pytest.raises(BufferError, match=r"lies on device \(2, 0\), not on the host"):
            call(make(device=(CUDA, 0)), **{"stream.kind": READY})


def test_a_copy_across_devices_says_why_it_is_needed(ext):
    with pytest.raises(dlshim.CopyRequiredError) as raised:
        ext.lend(P2(), device_type=CUDA, writable=1, name="x")
    assert str(raised.value) == (
        "x: it lies on device (1, 0) and (2, 0) is wanted, which needs a copy, and is not made "
        "unasked\n  keep and pass dlshim.from_dlpack(x, copy=True, device=(2, 0))"
    )
    assert raised.value.reason == "device"


@pytest.mark.parametrize("table", [False, True])
def test_detach_takes_what_requires_grad(ext, table):
    """Refused without it; with it the object's data, for reading and writing, learned or not."""
    tensor = torch_like(table=table)
    for learned in (False, True):
        if learned:
            ext.take(tensor())
        for call in (ext.take, ext.lend):
            x = tensor(requires_grad=True)
            with pytest.raises(BufferError, match="requires grad"):
                call(x)
            for more in ({}, {"writable": 1}):
                assert call(x, detach=1, **more)
                assert call(tensor(), detach=1, **more)
            assert call(P2(), detach=1)
    said = ext.lend(tensor(requires_grad=True), detach=1)
    assert said["dtype"] == ext.lend(tensor())["dtype"]


@pytest.mark.parametrize("name", SOURCES)
def test_strides_are_never_null(ext, name):
    """`look` ends the process where they are."""
    kept = ext.take(SOURCES[name]())
    shape, strides, _flags = ext.look(kept)
    del kept  # the error that the failing table keeps knows this frame
    assert len(shape) == len(strides)
    assert len(ext.lend(SOURCES[name]())["strides"]) == len(shape)


def test_an_import_is_read_by_the_header_alone(ext):
    kept = ext.take(P2(readonly=True))
    found = caps.look(kept)
    assert ext.look(kept) == (found.shape, found.strides, READ_ONLY)


# --- what is kept ---------------------------------------------------------------------

#: What torch changes in place: the shape of x, and for the last two its memory.
REPLACED = {
    "resize_": lambda x: x.resize_(2, 2),
    "t_": lambda x: x.t_(),
    "as_strided_": lambda x: x.as_strided_((1, 2), (1, 1)),
    "set_": lambda x: x.set_(x.new_zeros(5, 5)),
    "data": lambda x: setattr(x, "data", x.new_zeros(5, 5)),
}


@pytest.mark.parametrize("change", REPLACED.values(), ids=REPLACED)
def test_a_kept_import_has_the_shape_of_torch_s_tensor(ext, hand_on, change):
    """As the manual says: the struct that torch gives points into the tensor.  An alias, a Tensor
    and a struct of dlshim's have their own."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for _ in range(3):  # the first import finds out how
        x = torch.arange(6.0).reshape(2, 3)
        kept, alias, tensor = ext.take(x), ext.take(x, detach=1), dlshim.from_dlpack(x)
        change(x)
        assert tuple(x.shape) != (2, 3)
        assert caps.look(kept).shape == (tuple(x.shape) if hand_on else (2, 3))
        assert caps.look(alias).shape == tensor.shape == (2, 3)
        assert caps.look(alias).strides == tensor.strides == (3, 1)
        assert values(alias) == [0, 1, 2, 3, 4, 5]  # its memory, too, is not replaced


@pytest.mark.filterwarnings("ignore:Setting the shape on a NumPy array:DeprecationWarning")
def test_a_kept_import_of_numpy_has_its_own_shape_and_memory(ext):
    np = pytest.importorskip("numpy", reason="NumPy is not installed")
    for _ in range(3):
        x = np.arange(6.0)
        kept, tensor = ext.take(x), dlshim.from_dlpack(x)
        x.shape = 2, 3
        with pytest.raises(ValueError, match="cannot resize"):
            x.resize(100)
        assert caps.look(kept).shape == tensor.shape == (6,)
        assert values(kept) == [0, 1, 2, 3, 4, 5]


NO_MEANING = {
    "copy": (-1, 3, 7),
    "writable": (-1, 2),
    "contiguous": (-1, 3),
    "alignment": (-8, 3, 1 << 31),
    "stream.kind": (-1, 4, 9),
    "device_type": (-2, -7),
    "device_id": (3, -1),
    "detach": (-1, 2),
    "dtype_count": (1,),
}


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("make", [P1, P2, P3, lambda: P2(device=(CUDA, 0))])
def test_values_that_mean_nothing(ext, make, learned):
    x = make()
    if learned:
        ext.take(x, device_type=-1)
    for member, wrong in NO_MEANING.items():
        for value, call in itertools.product(wrong, (ext.take, ext.lend)):
            with pytest.raises(ValueError) as raised:
                call(x, **{member: value})
            assert str(raised.value) == (f"dlshim_request.{member} may not be {value}")
    for device_type, device_id in ((-1, 1), (1, 3), (1, -1), (CUDA, -1)):
        with pytest.raises(ValueError, match=f"dlshim_request.device_id may not be {device_id}$"):
            ext.take(x, device_type=device_type, device_id=device_id)
    with pytest.raises(RuntimeError, match=r"newer dlshim\.h than that of dlshim [\d.]+, which"):
        ext.take(x, size=1 << 8)


@pytest.mark.parametrize("size", [0, 8, 64, 1 << 40])
def test_a_request_that_does_not_say_its_size_is_refused(ext, size):
    """Zeros in the place of DLSHIM_REQUEST_INIT were taken for the defaults."""
    for call in (ext.take, ext.lend):
        with pytest.raises(
            ValueError,
            match=rf"^dlshim_request\.size \(which DLSHIM_REQUEST_INIT writes\) may not be {size}$",
        ):
            call(bytes(16), size=size, dtypes=FLOAT, writable=1)


@pytest.mark.parametrize(
    "dtype, member", [((2, 0, 1), "bits"), ((2, 64, 0), "lanes")], ids=["bits", "lanes"]
)
def test_a_dtype_without_a_width_is_the_mistake_of_the_extension(ext, dtype, member):
    for wanted in (b"", FLOAT):
        with pytest.raises(ValueError, match=f"^dlshim_dtype.{member} may not be 0$"):
            ext.take(P2(), dtypes=wanted + struct.pack("BBH", *dtype))


class Days:
    __array_interface__ = {
        "version": 3,
        "shape": (1,),
        "typestr": caps.native("<M8[D]"),
        "data": bytes(8),
    }


def test_errors_of_the_exchange_name_the_argument(ext):
    with pytest.raises(
        dlshim.UnsupportedObjectError, match=r"^image: 'object' object: it cannot be"
    ):
        ext.take(object(), name="image")
    with pytest.raises(BufferError, match=r"^image: .*flag bits.*\n.*max_version=\(1, 0\)$"):
        ext.take(P2(flags=1 << 20), name="image")
    with pytest.raises(BufferError, match=r'reinterpret="int64" \(dlshim\.upgrade\(x\) takes such'):
        ext.take(Days(), name="image")
    with pytest.raises(BufferError, match=r"^'[a-z_.]*\.P2' object"):
        ext.take(P2(flags=1 << 20))

    class Fails(P2):
        error = KeyboardInterrupt

        def answer(self, **asked):
            raise self.error

    with pytest.raises(KeyboardInterrupt):
        ext.take(Fails(), name="image")
    # Nothing is said twice: the cause is what the object itself has raised.
    for x, asked in ((object(), {}), (P2(flags=1 << 20), {}), (P2(), {"device_type": CUDA})):
        with pytest.raises((BufferError, TypeError)) as raised:
            ext.take(x, name="image", copy=NEVER, **asked)
        assert raised.value.__cause__ is None and raised.value.__suppress_context__
    x = Fails()
    x.error = BufferError("of the author")
    with pytest.raises(BufferError, match=r"^image: .*of the author") as raised:
        ext.take(x, name="image")
    assert raised.value.__cause__ is x.error


# --- borrowed -------------------------------------------------------------------------


@pytest.mark.parametrize("make", [P1, P2, P3, P3Failing])
def test_a_borrowed_view_says_the_same(ext, make):
    x = make()
    before = live()
    for _ in range(3):
        view = ext.lend(x)
        assert view["data"] == x.element_zero and view["shape"] == (2, 3)
        assert view["strides"] == (3, 1) and view["dtype"] == (2, 32, 1)
        assert view["device"] == (CPU, 0) and view["flags"] == READ_ONLY
        assert live() == before


def test_a_type_with_a_table_lends(ext, hand_on):
    x = P3()
    ext.lend(x)
    assert ext.lend(x)["lent"] == hand_on
    before = x.table_calls
    ext.lend(x)
    assert x.table_calls == before + (not hand_on)
    # The table says no flags: for writing, the struct is asked for.
    assert ext.lend(x, writable=1) == {**ext.lend(x), "lent": False, "flags": 0}
    assert ext.lend(P3((3, 2), strides=(1, 3)), contiguous=1)["strides"] == (2, 1)


# --- release --------------------------------------------------------------------------


@pytest.mark.parametrize("make", [P1, P2, P3, lambda: array.array("f", range(6))])
def test_release_needs_no_gil(ext, make):
    x = make()
    before = live()
    for copy, thread in itertools.product((IF_NEEDED, ALWAYS), (0, 1)):
        ext.release(ext.take(x, copy=copy), thread)
    gc.collect()
    assert live() == before
    assert all(made.deleted for made in getattr(x, "exports", []) if made.handed_out)


# --- out ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [None, (1, 0), (1, 7)])
def test_a_managed_tensor_becomes_a_tensor(ext, version):
    made = caps.Made(shape=(2, 3), dtype="int32", version=version)
    tensor = ext.give(made.address, version is not None, DEFAULT, 0)
    assert type(tensor) is dlshim.Tensor
    assert memoryview(tensor).shape == (2, 3)
    assert tensor.data_ptr() == made.element_zero
    assert tensor.version == (version or (0, 8))
    assert not made.deleted
    del tensor
    assert made.deleted


@pytest.mark.parametrize(
    "fields, kind",
    [
        ({"version": (2, 0)}, DEFAULT),
        ({"version": (1, 0), "flags": 1 << 20}, DEFAULT),
        ({"version": (1, 0), "shape": (-1,)}, DEFAULT),
        ({"version": None, "data": None}, DEFAULT),
        ({"version": (1, 0)}, WAIT),
        ({"version": None}, -1),
        ({"version": None, "device": (CUDA, 0)}, STREAM),
    ],
)
def test_what_is_refused_stays_the_caller_s(ext, fields, kind):
    memory = array.array("i", range(6))
    made = caps.Made(**{"shape": (6,), "dtype": "int32", "memory": memory, **fields})
    with pytest.raises((BufferError, ValueError)):
        ext.give(made.address, fields["version"] is not None, kind, 0)
    assert not made.deleted
    caps.call_deleter(made.address, made.name, held=True)


def test_nothing_is_refused_as_nothing(ext):
    # dlshim_import, dlshim_borrow, dlshim_export_array, dlshim_export, dlshim_export_legacy
    for function in range(5):
        with pytest.raises(SystemError, match=r"^an object, array or tensor is NULL$"):
            ext.null(function, False)
        with pytest.raises(OSError, match=r"^no object$"):
            ext.null(function, True)


def test_a_name_that_is_no_utf_8_is_shown_as_far_as_it_can_be(ext):
    for x, kind in ((P2(), TypeError), (7, dlshim.UnsupportedObjectError)):
        with pytest.raises(kind, match=r"^blur\(\): im\ufffdge\b"):
            ext.take(x, name=b"blur(): im\xe4ge", dtypes=INT)


def test_a_deleter_that_leaves_an_exception_does_no_harm(ext, monkeypatch):
    """It is reported, and what was pending stays."""
    said = []
    monkeypatch.setattr("sys.unraisablehook", said.append)

    def made():
        return ext.array((6,), None, 0, 32, (CPU, 0), DEFAULT, 0, raises=1)

    def dropped(keep):
        kept = keep(made())
        raise LookupError("of the caller")
        return kept

    keeps = {
        "the Tensor": lambda tensor: tensor,
        "a buffer": memoryview,
        "a capsule": lambda tensor: tensor.__dlpack__(),
        "a versioned capsule": lambda tensor: tensor.__dlpack__(max_version=(1, 0)),
        "what was imported": ext.take,
        "a Tensor of it": dlshim.from_dlpack,
    }
    for name, keep in keeps.items():
        kept = keep(made())
        del kept  # with nothing pending
        with pytest.raises(LookupError, match="of the caller"):
            dropped(keep)
        gc.collect()
        assert ext.deleted() == 2, name
        assert [str(one.exc_value) for one in said] == ["from the deleter"] * 2, name
        del said[:]
    ext.release(ext.take(made()), True)  # with a thread state of its own, which ends
    assert ext.deleted() == 1
    ext.lend(made())
    with pytest.raises(TypeError, match="not int64"):  # what was made for the import is released
        ext.take(Given(made()), dtypes=struct.pack("BBH", 0, 64, 1))
    assert ext.deleted() == 2


class Given:
    """Its only export is that of a Tensor, which it does not keep."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **keywords):
        try:
            return self.tensor.__dlpack__(**keywords)
        finally:
            del self.tensor

    def __dlpack_device__(self):
        return (1, 0)


def test_a_managed_tensor_that_lies_is_named(ext):
    for version in (None, (1, 0)):
        made = caps.Made(shape=(-1,), dtype="int32", version=version)
        with pytest.raises(BufferError, match=r"^the managed tensor: shape\[0\] is negative: -1$"):
            ext.give(made.address, version is not None, DEFAULT, 0)
        caps.call_deleter(made.address, made.name, held=True)


@pytest.mark.parametrize("device_type", [0, -1])
def test_a_managed_tensor_of_no_device_is_refused(ext, device_type):
    """It became a Tensor of that device."""
    for version in (None, (1, 0)):
        made = caps.Made(dtype="int32", device=(device_type, 0), version=version)
        with pytest.raises(ValueError, match=rf"^device\.device_type may not be {device_type}$"):
            ext.give(made.address, version is not None, DEFAULT, 0)
        caps.call_deleter(made.address, made.name, held=True)


def test_plain_memory(ext):
    tensor = ext.array((2, 3), None, 0, 32, (CPU, 0), DEFAULT, 0)
    assert memoryview(tensor).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert not tensor.readonly
    taken = versioned(tensor)
    del tensor
    assert ext.deleted() == 0
    del taken
    assert ext.deleted() == 1
    assert ext.array((), None, READ_ONLY, 32, (CPU, 0), DEFAULT, 0).readonly
    columns = ext.array((2, 3), (1, 2), 0, 32, (CPU, 0), DEFAULT, 0)
    assert memoryview(columns).tolist() == [[0, 2, 4], [1, 3, 5]]
    del columns
    assert ext.deleted() == 2


WRONG_ARRAYS = [
    ({"shape": (-1,)}, BufferError, "dlshim_array: shape[0] is negative: -1"),
    ({"shape": (1 << 62, 8)}, BufferError, "dlshim_array: the number of elements of its shape"),
    ({"flags": 1 << 20}, ValueError, f"flags may not be {1 << 20}"),
    ({"bits": 0}, BufferError, "dlshim_array: elements have no width (0 bits x 1 lanes)"),
    ({"bits": 33}, ValueError, "dlshim_array.dtype.bits may not be 33"),
    ({"code": 64}, ValueError, "dlshim_array.dtype.code may not be 64"),
    ({"ndim": -1}, BufferError, "dlshim_array: ndim is -1; the struct lies"),
    ({"device": (0, 0)}, ValueError, "dlshim_array.device_type may not be 0"),
    ({"device": (-3, 0)}, ValueError, "dlshim_array.device_type may not be -3"),
    ({"device": (CPU, -1)}, ValueError, "dlshim_array.device_id may not be -1"),
    ({"data": 0}, BufferError, "dlshim_array: its data are NULL though it has elements"),
    ({"kind": WAIT}, ValueError, "dlshim_stream.kind may not be 3"),
]


@pytest.mark.parametrize("wrong, kind, says", WRONG_ARRAYS)
def test_plain_memory_that_is_refused_stays_the_caller_s(ext, wrong, kind, says):
    right = {"shape": (6,), "flags": 0, "bits": 32, "device": (CPU, 0), "kind": DEFAULT}
    shape, flags, bits, device, stream = (wrong.get(name, right[name]) for name in right)
    more = {name: value for name, value in wrong.items() if name not in right}
    with pytest.raises(kind) as raised:
        ext.array(shape, None, flags, bits, device, stream, 0, **more)
    assert str(raised.value).startswith(says)
    assert ext.deleted() == 0


def test_an_empty_array_needs_no_memory(ext):
    tensor = ext.array((0, 3), None, 0, 32, (CPU, 0), DEFAULT, 0, data=0)
    assert tensor.shape == (0, 3)
    del tensor
    assert ext.deleted() == 1


def test_streams_of_exports(ext):
    device = (CUDA, 0)
    on_stream = ext.array((6,), None, 0, 32, device, STREAM, 4096)
    assert on_stream.__cuda_array_interface__["stream"] == 4096
    ready = ext.array((6,), None, 0, 32, device, READY, 0)
    assert ready.__cuda_array_interface__["stream"] is None
    with pytest.raises(ValueError, match=r"^dlshim_stream\.handle may not be 0$"):
        ext.array((6,), None, 0, 32, device, STREAM, 0)


def test_an_export_is_released_on_another_thread(ext):
    tensor = ext.array((6,), None, 0, 32, (CPU, 0), DEFAULT, 0)
    capsule = tensor.__dlpack__(max_version=(1, 0))
    del tensor
    ext.release(capsule, 1)
    assert ext.deleted() == 1


def test_every_protocol_is_spoken(ext):
    numpy = pytest.importorskip("numpy", reason="NumPy is not here")
    tensor = ext.array((2, 3), None, 0, 32, (CPU, 0), DEFAULT, 0)
    for read in (numpy.asarray, numpy.from_dlpack, memoryview):
        assert read(tensor).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert hasattr(type(tensor), "__dlpack_c_exchange_api__")


# --- leaks, threads, interpreters, ImportError ----------------------------------------


def test_nothing_is_left(ext):
    sources = [P1(), P2(), P3(), P3TableOnly(), array.array("f", range(6)), P2(readonly=True)]
    facts = live, lambda: [*map(sys.getrefcount, sources), sys.getrefcount(dlshim.Tensor)]

    def work(rounds):
        for each in sources * rounds:
            ext.take(each)
            ext.lend(each, contiguous=1, alignment=64)
            for wrong in ({"dtypes": INT}, {"ranks": 32}, {"alignment": 3}, {"copy": 7}):
                with pytest.raises((TypeError, ValueError)):
                    ext.take(each, **wrong)
            with pytest.raises((BufferError, TypeError)):
                ext.lend(each, dtypes=INT, writable=1)
            del getattr(each, "exports", [])[:]
            del getattr(each, "calls", [])[:]
            ext.array((2, 3), None, 0, 32, (CPU, 0), DEFAULT, 0)
        gc.collect()

    work(1)  # types are met, and the module that words refusals is imported
    ext.deleted()
    before = [fact() for fact in facts]
    work(200)
    assert ext.deleted() == 200 * len(sources)
    assert [fact() for fact in facts] == before


ACTIONS = {
    "legacy": lambda ext: ext.take(P1()),
    "versioned": lambda ext: ext.take(P2()),
    "copied": lambda ext: ext.take(P2((3, 2), strides=(1, 3)), contiguous=1, alignment=128),
    "neither order": lambda ext: ext.take(P2((2, 3), strides=(3, -1), start=2), contiguous=2),
    "options": lambda ext: ext.take(P2(), copy=ALWAYS, **{"stream.kind": WAIT}),
    "borrowed": lambda ext: ext.lend(P3(), contiguous=1),
    "array": lambda ext: ext.array((2, 3), (3, 1), 0, 32, (CPU, 0), DEFAULT, 0),
    "device array": lambda ext: ext.array((2, 3), None, 0, 32, (CUDA, 0), STREAM, 1),
}


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("name", ACTIONS)
def test_memory_runs_out(ext, name, learned):
    """Each allocation fails in its turn: MemoryError, and nothing is taken or left."""
    action, gives = ACTIONS[name], name.endswith("array")
    action(ext)
    failures = 0
    for n in numbers():
        if not learned:
            _core._hook("forget_plans")
        before = live()
        ext.deleted()
        _, error = failing(n, lambda: (action(ext), None)[1])
        gc.collect()
        assert live() == before
        assert ext.deleted() == (gives and error is None)
        failures += error is not None
        del error
    assert failures or name in ("versioned", "borrowed")  # handed on as it is


def test_a_failed_export_takes_nothing(ext):
    made = caps.Made(shape=(6,), dtype="int32", version=(1, 0), device=(CUDA, 0))
    for n in numbers():
        tensor, error = failing(n, lambda: ext.give(made.address, 1, STREAM, 1))
        assert not made.deleted
        if error is None:
            break
    del tensor
    assert made.deleted


def test_threads(ext):
    x, errors = P2(), []

    def work():
        try:
            for _ in range(200):
                ext.lend(x)
                ext.release(ext.take(array.array("f", range(6))), 1)
        except Exception as error:
            errors.append(error)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not errors


@pytest.mark.once
@gil.with_gil("subinterpreters refuse a module that does not say it may be loaded there")
def test_each_interpreter_has_its_own_state(ext):
    """The pointer that an extension keeps is the process's; what is behind it is found anew."""
    module = "_xxsubinterpreters" if sys.version_info < (3, 13) else "_interpreters"
    pytest.importorskip(module, reason="this Python has no module for interpreters")
    folder = str(Path(ext.__file__).parent)
    assert child.program("extension_in_interpreters", paths=(folder,)) == "done\n"


def without_dlshim(ext, prepare):
    """What the extension says after that Python code."""
    folder = str(Path(ext.__file__).parent)
    return child.program("extension_without_dlshim", prepare, paths=(folder,), silent=True)


SENTENCE = (
    "ImportError this module needs the Python package dlshim, {0} or newer{1}"
    'pip install --upgrade "dlshim>={0}"\n'
)
OTHER = (
    ", and something else has its name, {}\n  remove or rename that, or import dlshim before a "
    "test replaces it; if it is not installed: "
)
ABSENT = "sys.modules['dlshim'] = None"
FOREIGN = "sys.modules['dlshim'] = types.ModuleType('dlshim')"
OLD = f"{FOREIGN}; sys.modules['dlshim'].__version__ = '0.0.9'"
MOCK = """from unittest import mock
class Mock(mock.MagicMock):
    def __repr__(self):
        return "<a mock>"
sys.modules['dlshim'] = Mock()"""

#: Python looks its attributes up, where a call fails while an exception is set.
LOOKS_UP = """class Package:
    def __getattribute__(self, name):
        if name == "__path__":
            return [len("a")]
        raise AttributeError(name)
sys.modules['dlshim'] = Package()"""


@pytest.mark.once
@pytest.mark.parametrize(
    "prepare, here",
    [
        (ABSENT, "\n  "),
        (FOREIGN, OTHER.format("<module 'dlshim'>")),
        (OLD, ", and 0.0.9 is installed, <module 'dlshim'>\n  "),
        (MOCK, OTHER.format("<a mock>")),
        ("sys.modules['dlshim'] = types.SimpleNamespace()", OTHER.format("namespace()")),
        (LOOKS_UP, OTHER.format("[1]")),
    ],
    ids=["missing", "another module", "too old", "mock", "no module", "looks up in Python"],
)
def test_users_are_told_what_to_install(ext, prepare, here):
    told = without_dlshim(ext, prepare)
    sentence = SENTENCE.format(dlshim.__version__, here)
    assert told == sentence * 5


@pytest.mark.once
@pytest.mark.parametrize("place", ["dlshim.py", "dlshim/__init__.py", "dlshim"])
def test_users_are_told_which_file_stands_before_dlshim(ext, tmp_path, place):
    """A folder alone, too, where dlshim is not installed."""
    found = tmp_path / place
    found.parent.mkdir(exist_ok=True)
    found.write_text("_c_api_v1 = 1\n") if found.suffix else found.mkdir()
    others = "(p for p in sys.path if not os.path.exists(os.path.join(p, 'dlshim')))"
    prepare = f"import os; sys.path[:] = [{str(tmp_path)!r}, *{others}]"
    told = without_dlshim(ext, prepare)
    told = told.splitlines()
    assert len(told) == 10 and told == told[:2] * 5
    assert "something else has its name, " in told[0]
    assert str(found.parent if found.stem == "__init__" else found) in told[0]


@pytest.mark.once
def test_a_module_that_dlshim_itself_lacks_is_not_dlshim(ext, tmp_path):
    """Its own ModuleNotFoundError says more than "install dlshim", which is installed."""
    (tmp_path / "dlshim.py").write_text("import surely_not_installed")
    prepare = f"sys.path.insert(0, {str(tmp_path)!r})"
    told = without_dlshim(ext, prepare)
    assert told == "ModuleNotFoundError No module named 'surely_not_installed'\n" * 5


@pytest.mark.once
@pytest.mark.parametrize("abi, size", [(2, 1 << 20), (1, 16)])
def test_a_table_that_does_not_fit_is_refused(ext, abi, size):
    other = (
        "import ctypes\n"
        f"table = (ctypes.c_uint32 * 32)({abi}, {size})\n"
        "new = ctypes.pythonapi.PyCapsule_New\n"
        "new.restype = ctypes.py_object\n"
        "new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]\n"
        "name = b'dlshim._c_api_v1'\n"
        "sys.modules['dlshim'] = types.ModuleType('dlshim')\n"
        "sys.modules['dlshim']._c_api_v1 = new(ctypes.addressof(table), name, None)"
    )
    told = without_dlshim(ext, other)
    here = OTHER.format("<module 'dlshim'>")
    sentence = SENTENCE.format(dlshim.__version__, here)
    assert told == sentence * 5


@pytest.mark.once
def test_the_table_is_found(ext):
    abi, size = ext.load()
    assert abi == 1 and size >= 8 + 5 * struct.calcsize("P")
    assert repr(_core._c_api_v1).startswith('<capsule object "dlshim._c_api_v1" ')
