"""Every older way in on the host: buffer, array struct, array interface, capsule functions.

And the entries that all dicts of an interface share, each tried with all three dicts.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import functools
import gc
import mmap
import struct
import sys
import types
import weakref
from unittest import mock

import pytest

import dlshim
from doubles import capsules as caps
from doubles import child, consumers, older, producers
from doubles.asking import ASKINGS, bare, refused, tells, versioned, walk
from doubles.cuda_interface import CudaOnly, empty
from doubles.differences import first_difference
from doubles.older import InterfaceOnly, Named, StructOnly, deep
from doubles.producers import P1, P2, P0Mxnet, P0SnakeToDlpack, P0ToDlpack, P0VersionedToDlpack
from doubles.sycl import Queue, SyclOnly

pytestmark = pytest.mark.once  # what has no DLPack of its own is never handed on
BOTH = pytest.mark.parametrize("ask", ASKINGS.values(), ids=ASKINGS.keys())


# --- the buffer protocol --------------------------------------------------------------

#: Bits of an address and of what C calls size_t, and of its long.
WORD, LONG = 8 * ctypes.sizeof(ctypes.c_void_p), 8 * ctypes.sizeof(ctypes.c_long)
#: What a format of a buffer says: code and bits.
FORMATS = {
    "b": (0, 8), "B": (1, 8), "h": (0, 16), "H": (1, 16), "i": (0, 32), "I": (1, 32),
    "l": (0, LONG), "L": (1, LONG), "q": (0, 64), "Q": (1, 64), "f": (2, 32), "d": (2, 64),
    "c": (1, 8), "?": (6, 8), "n": (0, WORD), "N": (1, WORD), "@i": (0, 32), "@d": (2, 64),
}  # fmt: skip


@pytest.mark.parametrize(("form", "dtype"), FORMATS.items())
def test_memoryview_formats(form, dtype):
    x = memoryview(bytearray(range(48))).cast(form)
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.view.dtype == (*dtype, 1)
        assert imported.view.shape == (48 * 8 // dtype[1],)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="memoryview.cast('e') came with 3.12")
def test_memoryview_of_halves():
    try:
        x = memoryview(bytearray(8)).cast("e")
    except ValueError:
        pytest.skip("this memoryview has no half floats")
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.view.dtype == (2, 16, 1)


@BOTH
@pytest.mark.parametrize("code", sorted({*array.typecodes} & FORMATS.keys()))
def test_array_array(code, ask):
    x = array.array(code, [1, 2, 3])
    with ask(dlshim.upgrade(x)) as imported:
        assert imported.view.dtype == (*FORMATS[code], 1)
        assert imported.view.shape == (3,)
        assert imported.view.element_zero == x.buffer_info()[0]
        assert imported.values() == [1, 2, 3]
        imported.view.write(1, 7)
    assert x[1] == 7


class Subclass(bytearray):
    """A subclass with a dictionary, which must not be asked for anything else."""


def mapped(content):
    x = mmap.mmap(-1, 4096)
    x[: len(content)] = content
    return x


@BOTH
@pytest.mark.parametrize("make", [bytearray, Subclass, mapped])
def test_bytes_that_can_be_written(make, ask):
    x = make(b"\x01\x02\x03")
    with ask(dlshim.upgrade(x)) as imported:
        assert (imported.view.dtype, imported.view.shape) == ((1, 8, 1), (len(x),))
        assert imported.values()[:3] == [1, 2, 3]
        imported.view.write(0, 9)
    assert x[:3] == b"\x09\x02\x03"


def test_bytes_are_read_only():
    x = b"abc"
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.view.flags == caps.READ_ONLY
        assert imported.values() == [97, 98, 99]
    with pytest.raises(BufferError) as error:
        bare(dlshim.upgrade(x))
    tells(error.value, "bytes", "readonly=")
    with bare(dlshim.upgrade(x, readonly="copy")) as imported:
        assert imported.values() == [97, 98, 99]


CTYPES = {
    "int8": ctypes.c_int8, "uint16": ctypes.c_uint16, "int32": ctypes.c_int32,
    "int64": ctypes.c_int64, "uint64": ctypes.c_uint64, "float32": ctypes.c_float,
    "float64": ctypes.c_double, "bool": ctypes.c_bool, "uint8": ctypes.c_ubyte,
}  # fmt: skip


@BOTH
@pytest.mark.parametrize(("dtype", "kind"), CTYPES.items())
def test_ctypes_arrays(kind, dtype, ask):
    x = ((kind * 3) * 2)((1, 0, 1), (0, 1, 0))
    with ask(dlshim.upgrade(x)) as imported:
        assert imported.view.shape == (2, 3)
        assert imported.view.dtype == caps.DTYPES[dtype]
        assert imported.view.element_zero == ctypes.addressof(x)
        assert imported.values() == [1, 0, 1, 0, 1, 0]
    scalar = kind(1)
    with ask(dlshim.upgrade(scalar)) as imported:
        assert imported.view.shape == ()
        assert imported.values() == [1]


VIEWS = {
    "plain": lambda m: m,
    "step": lambda m: m[::2],
    "backwards": lambda m: m[::-1],
    "backwards step": lambda m: m[5:0:-2],
    "slice": lambda m: m[2:5],
    "empty": lambda m: m[3:3],
    "2-d": lambda m: m.cast("B").cast("h", (2, 3)),
    "3-d": lambda m: m.cast("B").cast("h", (1, 3, 2)),
    "read-only": lambda m: m.toreadonly(),
    "read-only step": lambda m: m.toreadonly()[1::3],
}


@BOTH
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
def test_memoryviews(view, ask):
    x = view(memoryview(array.array("h", range(6))))
    options = {"readonly": "share", "order": "K"}
    with ask(dlshim.upgrade(x, **options)) as imported:
        assert imported.view.shape == x.shape
        assert imported.values() == caps.flat(x.tolist())
        assert imported.view.dtype == (0, 16, 1)
        if ask is versioned:
            assert imported.view.readonly == x.readonly
        if x.nbytes and not x.c_contiguous:
            assert [s * 2 for s in imported.view.strides] == list(x.strides)


@BOTH
def test_the_buffer_is_held_as_long_as_any_export_lives(ask):
    x = bytearray(b"abc")
    upgraded = dlshim.upgrade(x)
    x.append(1)  # an upgrade alone holds nothing
    first, second = ask(upgraded), ask(upgraded)
    del upgraded
    for imported in (first, second):
        with pytest.raises(BufferError):
            x.append(2)
        imported.release()
    x.append(3)
    capsule = dlshim.upgrade(x).__dlpack__()
    with pytest.raises(BufferError):
        x.clear()
    del capsule
    x.clear()


def test_a_tensor_holds_its_buffer():
    x = bytearray(b"abc")
    tensor = dlshim.from_dlpack(x)
    with pytest.raises(BufferError):
        x.append(1)
    imported = bare(tensor)
    del tensor
    with pytest.raises(BufferError):
        x.append(1)
    imported.release()
    x.append(1)


def test_a_held_mmap_cannot_be_closed():
    x = mmap.mmap(-1, 64)
    imported = versioned(dlshim.upgrade(x))
    with pytest.raises(BufferError):
        x.close()
    imported.release("released")
    x.close()


@pytest.mark.skipif(not caps.has_c_threads(), reason="no pthread_create in the C library")
@BOTH
def test_a_held_buffer_is_released_by_a_thread_of_c(ask):
    x = bytearray(b"abc")
    ask(dlshim.upgrade(x)).release("c-thread")
    x.append(1)


def test_a_copy_holds_no_buffer():
    x = bytearray(b"abc")
    imported = versioned(dlshim.upgrade(x), copy=True)
    x.append(1)
    assert imported.values() == [97, 98, 99]
    imported.release()


def test_a_released_memoryview_is_refused():
    x = memoryview(b"abc")
    upgraded = dlshim.upgrade(x)
    x.release()
    with pytest.raises((BufferError, ValueError)):
        versioned(upgraded)


class Point(ctypes.Structure):
    _fields_ = [("x", ctypes.c_int), ("y", ctypes.c_float)]


def foreign(kind):
    """That type of C in the order that is not this machine's."""
    return kind.__ctype_be__ if sys.byteorder == "little" else kind.__ctype_le__


UNSPEAKABLE = {
    "struct": ((Point * 2)(), "structs"),
    "pointers": ((ctypes.c_void_p * 2)(), "[<>]P' is no number.*\n.*pointers point at"),
    "objects": ((ctypes.py_object * 2)(1, 2), "[<>]O' is no number"),
    "wide characters": ((ctypes.c_wchar * 3)(), r"[<>]u' is no number.*\n.*cast\('B'\)"),
    "foreign order": ((foreign(ctypes.c_int32) * 2)(), "byte order"),
    "foreign order float": ((foreign(ctypes.c_double) * 2)(), "byte order"),
}


@pytest.mark.parametrize(("x", "words"), UNSPEAKABLE.values(), ids=UNSPEAKABLE)
def test_buffers_that_dlpack_cannot_say(x, words):
    refused(x, "buffer protocol", words)


def test_array_of_characters_is_refused():
    old = sys.version_info < (3, 13)
    with contextlib.nullcontext() if old else pytest.warns(DeprecationWarning):
        x = array.array("u", "ab")
    refused(x, "is no number")


# --- array struct ---------------------------------------------------------------------

WHOLE = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
         "float32", "float64", "complex64", "complex128", "bool"]  # fmt: skip
OLDER = pytest.mark.parametrize("cls", [StructOnly, InterfaceOnly], ids=["struct", "interface"])


@BOTH
@OLDER
@pytest.mark.parametrize("dtype", WHOLE)
def test_older_dtypes(cls, dtype, ask):
    x = cls((2, 2), dtype)
    with ask(dlshim.upgrade(x)) as imported:
        assert imported.view.dtype == caps.DTYPES[dtype]
        assert imported.view.element_zero == x.element_zero
        assert imported.view.strides == (2, 1)
        assert imported.values() == x.values()


LAYOUTS = {
    "0-d": ((), None, 2),
    "empty": ((0, 3), None, 0),
    "empty in the middle": ((3, 0, 2), None, 0),
    "transposed": ((3, 2), (1, 3), 0),
    "step": ((3,), (2,), 1),
    "negative": ((4,), (-1,), 3),
    "broadcast": ((3, 2), (0, 1), 0),
    "size-1": ((1, 3), (99, 1), 0),
}


@BOTH
@OLDER
@pytest.mark.parametrize(("shape", "strides", "start"), LAYOUTS.values(), ids=LAYOUTS.keys())
@pytest.mark.parametrize("readonly", [False, True])
def test_older_layouts(cls, shape, strides, start, readonly, ask):
    x = cls(shape, "int32", strides=strides, start=start, readonly=readonly)
    with ask(dlshim.upgrade(x, order="K", readonly="share")) as imported:
        assert imported.view.shape == shape
        assert imported.values() == x.values()
        if 0 not in shape:
            assert imported.view.element_zero == x.element_zero
        if ask is versioned:
            assert imported.view.readonly == readonly


def test_the_array_struct_lives_as_long_as_any_export():
    older.freed.clear()
    x = StructOnly()
    imported = versioned(dlshim.upgrade(x))
    dead = weakref.ref(x)
    del x
    gc.collect()
    assert not older.freed and dead() is not None
    assert imported.values() == [0, 1, 2, 3, 4, 5]
    imported.release()
    gc.collect()
    assert len(older.freed) == 1 and dead() is None


WRONG_STRUCTS = {
    "two is not 2": ({"two": 3}, "its first field is 3"),
    "negative nd": ({"nd": -1}, "-1 dimensions"),
    "absurd nd": ({"nd": 1000}, "1000 dimensions"),
    "foreign order": ({"flags": older.ALIGNED | older.WRITEABLE}, "byte order"),
    "objects": ({"typekind": b"O", "itemsize": 8}, "Python objects"),
    "void": ({"typekind": b"V", "itemsize": 12, "byte_strides": (36, 12)}, "no code for"),
    "strings": ({"typekind": b"S", "itemsize": 3}, "text"),
    "no itemsize": ({"itemsize": 0}, "0 bytes"),
    "negative itemsize": ({"itemsize": -4}, "-4 bytes"),
    "float of 3 bytes": ({"itemsize": 3, "byte_strides": (9, 3)}, "no code for"),
    "strides that are no multiple": ({"byte_strides": (13, 4)}, r"strides\[0\] is 13 bytes"),
    "NULL data": ({"data": None}, "data pointer is NULL"),
    "NULL shape": ({"shape": None}, "shape is NULL"),
}


@pytest.mark.parametrize(("changes", "words"), WRONG_STRUCTS.values(), ids=WRONG_STRUCTS)
def test_array_structs_that_are_wrong(changes, words):
    refused(StructOnly(changes=changes), words)


def test_an_array_struct_that_is_no_capsule():
    for wrong in (5, None, "x", caps.make()):
        x = older.Broken(__array_struct__=wrong)
        with pytest.raises((BufferError, dlshim.UnsupportedObjectError)):
            versioned(dlshim.upgrade(x))


def test_datetimes_are_cured_by_reinterpret():
    for x in (
        StructOnly((3,), "int64", changes={"typekind": b"M", "itemsize": 8}),
        InterfaceOnly((3,), "int64", changes={"typestr": caps.native("<M8[ns]")}),
        InterfaceOnly((3,), "int64", changes={"typestr": caps.native("<m8[s]")}),
    ):
        refused(x, "reinterpret")
        with versioned(dlshim.upgrade(x, reinterpret="int64")) as imported:
            assert imported.values() == [0, 1, 2]


@pytest.mark.parametrize("itemsize", [12, 16, 24, 32])
def test_dtypes_without_a_code_pass_as_bytes(itemsize):
    """Also where no integer is as wide: long doubles, and pairs of them.

    The message does not name this: few consumers take elements of several lanes.
    """
    kind = "f" if itemsize < 20 else "c"
    changes = {"typestr": caps.native(f"<{kind}{itemsize}"), "shape": (2,), "strides": None}
    x = InterfaceOnly((16,), "int64", changes=changes)
    assert "reinterpret" not in str(refused(x, "complex128" if kind == "c" else "float64"))
    with versioned(dlshim.upgrade(x, reinterpret=(1, 8, itemsize))) as imported:
        assert (imported.view.shape, imported.view.dtype) == ((2,), (1, 8, itemsize))


def test_no_cure_is_named_where_no_dtype_is_as_wide():
    changes = {"typestr": "|V65536", "shape": (0,), "strides": None}
    x = InterfaceOnly((16,), "int64", changes=changes)
    assert "reinterpret" not in str(refused(x, "uint8"))


# --- the entries that all dicts of an interface share ----------------------------------


DROP = InterfaceOnly.DROP
FLOATS = caps.filled((2, 3), "float32")
#: By the protocol: what speaks it alone, of two rows of three floats.
DICTS = {
    "__array_interface__": InterfaceOnly,
    "__cuda_array_interface__": functools.partial(CudaOnly, address=caps.address_of(FLOATS)),
    "__sycl_usm_array_interface__": SyclOnly,
}
DICT = pytest.mark.parametrize("protocol", DICTS)
FIELDS = [("x", caps.native("<f2")), ("y", caps.native("<f2"))]

#: What is wrong, the changed entries, and words of the message.
WRONG = {
    "version of text": ({"version": "3"}, "version.*str"),
    "version of a float": ({"version": 1.0}, "version.*float"),
    "negative version": ({"version": -1}, "version.*-1"),
    "huge version": ({"version": 2**80}, "version.*1208925819614629174706176"),
    "deep version": ({"version": deep()}, "version.*list"),
    "no shape": ({"shape": DROP}, "shape.*missing"),
    "shape None": ({"shape": None}, "shape.*missing"),
    "shape of an int": ({"shape": 6}, "shape.*int"),
    "extent of a float": ({"shape": (2, 3.0)}, "shape.*float"),
    "negative extent": ({"shape": (2, -3)}, "-3"),
    "huge extent": ({"shape": (2**70,)}, "shape"),
    "overflowing extents": ({"shape": (2**40, 2**40)}, "overflow"),
    "65 dimensions": ({"shape": (1,) * 65}, "65"),
    "deep shape": ({"shape": deep()}, "shape.*tuple"),
    "no typestr": ({"typestr": DROP}, "typestr.*missing"),
    "typestr of an int": ({"typestr": 4}, "typestr.*4"),
    "empty typestr": ({"typestr": ""}, "typestr.*''"),
    "typestr without a size": ({"typestr": caps.native("<f")}, "typestr"),
    "typestr with rubbish": ({"typestr": caps.native("<f4x")}, "typestr.*f4x"),
    "deep typestr": ({"typestr": deep()}, "typestr.*list"),
    "foreign order": ({"typestr": caps.native(">f4")}, "byte order"),
    "objects": ({"typestr": "|O8"}, "Python objects"),
    "bytes": ({"typestr": "|S4"}, "text"),
    "text": ({"typestr": "<U1"}, "text"),
    "bits": ({"typestr": "|t4"}, "bit fields"),
    "cuDF's masks": ({"typestr": caps.native("<t1")}, "bit fields"),
    "fields": ({"typestr": "|V4", "descr": FIELDS}, "struct"),
    "deep fields": ({"typestr": "|V4", "descr": [("x", deep())]}, "struct"),
    "strides of an int": ({"strides": 4}, "strides.*int"),
    "too few strides": ({"strides": (4,)}, "strides.*1 entries"),
    "stride of a float": ({"strides": (12.0, 4)}, "strides.*float"),
    "huge strides": ({"strides": (2**62, 2**62)}, "overflow"),
    "65 strides": ({"strides": (4,) * 65}, "strides.*65 entries, at most 64"),
    "deep strides": ({"strides": (deep(), deep())}, "strides.*list"),
    "a bare address": ({"data": 0x1000}, "data.*(pair|tuple).*int"),
    "short data": ({"data": (0x1000,)}, "data.*(pair|tuple).*not a sequence of length 1"),
    "long data": ({"data": (0x1000, False, 0)}, "data.*(pair|tuple).*not a sequence of length 3"),
    "address of text": ({"data": ("x", False)}, "data.*address.*str"),
    "address None": ({"data": (None, False)}, "data.*address.*NoneType"),
    "deep address": ({"data": (deep(), False)}, "data.*address.*list"),
    "negative address": ({"data": (-8, False)}, "data.*address.*-8"),
    "huge address": ({"data": (2**64, False)}, "data.*address.*18446744073709551616"),
    "NULL address": ({"data": (0, False)}, "NULL"),
}


@DICT
@pytest.mark.parametrize(("changes", "words"), WRONG.values(), ids=WRONG)
def test_entries_that_are_wrong(protocol, changes, words):
    refused(DICTS[protocol](changes=changes), protocol, words)


#: Changed entries that change nothing.
UNUSUAL = {
    "mask None": {"mask": None},
    "strides None": {"strides": None},
    "no strides": {"strides": DROP},
    "shape in a list": {"shape": [2, 3]},
    "descr of the typestr": {"descr": [("", caps.native("<f4"))]},
    "descr nobody needs": {"descr": "rubbish"},
    "more entries": {"owner": "me"},
    "native order": {"typestr": "=f4"},
}


def on_host(x):
    """As memory of the host, so that no driver is asked."""
    return dlshim.upgrade(x, assume_device="cpu") if isinstance(x, CudaOnly) else dlshim.upgrade(x)


@DICT
@BOTH
@pytest.mark.parametrize("changes", UNUSUAL.values(), ids=UNUSUAL)
def test_entries_that_are_merely_unusual(protocol, changes, ask):
    with ask(on_host(DICTS[protocol](changes=changes))) as imported:
        assert (imported.view.shape, imported.view.strides) == ((2, 3), (3, 1))
        assert (imported.view.dtype, imported.view.readonly) == ((2, 32, 1), False)
        assert imported.values() == [0, 1, 2, 3, 4, 5]
    if "shape" not in changes:  # without elements no driver is asked either
        assert dlshim.from_dlpack(empty(changes=changes)).shape == (0, 3)


@DICT
@pytest.mark.parametrize("given", [5, [("shape", (2,))], "dict"], ids=repr)
def test_no_dict(protocol, given):
    for x in (type("Given", (), {protocol: given})(), older.Broken(**{protocol: given})):
        refused(x, protocol, "a dict was expected", type(given).__name__)


PROTOCOL = pytest.mark.parametrize("protocol", [*DICTS, "__array_struct__"])


def raising(protocol, failure, *bases):
    """An object that has this protocol as a property, which raises."""

    def read(self):
        raise failure

    return type("Torch", bases, {protocol: property(read)})()


@PROTOCOL
def test_a_property_that_raises(protocol):
    for failure in (RuntimeError("requires grad"), ValueError("v"), TypeError("t")):
        with pytest.raises(BufferError) as error:
            versioned(dlshim.upgrade(raising(protocol, failure)))
        assert failure in (error.value.__cause__, error.value.__context__)
        tells(error.value, "Torch", str(failure))
    for failure in (MemoryError("m"), KeyboardInterrupt()):
        with pytest.raises(type(failure)):
            versioned(dlshim.upgrade(raising(protocol, failure)))


@PROTOCOL
def test_a_property_that_is_not_there_after_all(protocol):
    """torch and CuPy-like classes have the property and raise AttributeError on the host."""
    failure = AttributeError("CPU tensor")
    with pytest.raises((dlshim.UnsupportedObjectError, BufferError)):
        versioned(dlshim.upgrade(raising(protocol, failure)))
    x = raising(protocol, failure, bytearray)
    x.extend(b"ab")
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.values() == [97, 98]


@DICT
def test_a_class_can_say_that_it_offers_no_dict(protocol):
    offers = type(DICTS[protocol]())
    cls = type("Host", (offers, bytearray), {protocol: None})
    x = cls.__new__(cls)
    x.extend(b"abc")
    with versioned(dlshim.upgrade(x)) as imported:
        assert (imported.view.device, imported.values()) == ((1, 0), [97, 98, 99])


SAYS_READ_ONLY = {"struct": StructOnly, "array": InterfaceOnly, "cuda": empty, "sycl": SyclOnly}


@pytest.mark.parametrize("cls", SAYS_READ_ONLY.values(), ids=SAYS_READ_ONLY)
def test_read_only_is_said(cls):
    """So nothing has to be guessed: writable is writable, read-only is refused to legacy."""
    x = cls(readonly=True)
    assert dlshim.from_dlpack(x).readonly and not dlshim.from_dlpack(cls()).readonly
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.view.flags == caps.READ_ONLY
    with pytest.raises(BufferError) as error:
        bare(dlshim.upgrade(x))
    tells(error.value, "read-only", "readonly=")
    with versioned(dlshim.upgrade(cls())) as imported:
        assert imported.view.flags == 0


NOTED = {
    "array": lambda queue: InterfaceOnly(changes={"note": queue}),
    "cuda": lambda queue: empty(changes={"note": queue}),
    "sycl": lambda queue: SyclOnly(syclobj=queue),
}


EXPORTS = {
    "legacy": lambda x: bare(dlshim.upgrade(x)),
    "versioned": lambda x: versioned(dlshim.upgrade(x)),
    "of a Tensor": lambda x: versioned(dlshim.from_dlpack(x)),
}


@pytest.mark.parametrize("export", EXPORTS.values(), ids=EXPORTS)
@pytest.mark.parametrize("make", NOTED.values(), ids=NOTED)
def test_the_object_and_its_dict_live_as_long_as_an_export(make, export):
    queue = Queue()
    x = make(queue)
    died = weakref.ref(x), weakref.ref(queue)
    imported = export(x)
    values = imported.values()
    del x, queue
    gc.collect()
    assert all(ref() is not None for ref in died)
    assert imported.values() == values
    imported.release()
    gc.collect()
    assert [ref() for ref in died] == [None, None]


# --- array interface ------------------------------------------------------------------


@BOTH
def test_interface_data_as_a_buffer(ask):
    block = bytearray(caps.encode("int32", 5) + caps.encode("int32", 6) + caps.encode("int32", 7))
    x = InterfaceOnly((2,), "int32", changes={"data": block, "offset": 4})
    with ask(dlshim.upgrade(x)) as imported:
        assert imported.values() == [6, 7]
        with pytest.raises(BufferError):
            block.append(0)  # held
    block.append(0)
    whole = InterfaceOnly((3,), "int32", changes={"data": memoryview(block)[:12]})
    with ask(dlshim.upgrade(whole)) as imported:
        assert imported.values() == [5, 6, 7]


@BOTH
def test_interface_data_none_means_the_objects_own_buffer(ask):
    class Both(bytearray):
        @property
        def __array_interface__(self):
            return {
                "shape": (2,),
                "typestr": caps.native("<i2"),
                "data": None,
                "version": 3,
                "offset": 2,
            }

    x = Both(struct.pack("=3h", 1, 2, 3))
    with ask(dlshim.upgrade(x)) as imported:
        assert imported.values() == [2, 3]
        with pytest.raises(BufferError):
            x.append(0)
    x.append(0)


@pytest.mark.parametrize("content", [b"\xff\x00\x01", b"\x00\x02\xff\x00", b"\xff", b"\x01\x00"])
def test_T7_bools_of_other_bytes_than_0_and_1_are_corrected_in_a_copy(content):
    """Pillow's images of one bit; consumers such as XLA compute with the bytes."""
    kept = bytes(bytearray(content))
    x = InterfaceOnly((len(content),), "bool", changes={"data": kept})
    with versioned(dlshim.upgrade(x)) as imported:
        assert b"".join(imported.view.elements()) == bytes(map(bool, content))
    assert kept == content
    every_second = len(content) // 2
    changes = {"data": kept, "strides": (2,), "offset": 1}
    y = InterfaceOnly((every_second,), "bool", changes=changes)
    with versioned(dlshim.upgrade(y)) as imported:
        assert imported.values() == [bool(each) for each in content[1::2]]


# ---- memory that is made for the export ------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "bool", "int8", "complex64", "float16"])
def test_T8_a_scalar_of_numpy_gives_its_own_memory(dtype):
    """Its interfaces show that of an array which NumPy makes for them."""
    np = pytest.importorskip("numpy", reason="numpy is not installed")
    x = np.ones(2, dtype)[1]
    place = np.frombuffer(x, "uint8").ctypes.data
    for copy in (None, False):
        with versioned(dlshim.upgrade(x, copy=copy)) as imported:
            assert imported.view.element_zero == place
            assert imported.view.flags == caps.READ_ONLY and imported.view.shape == ()
    with versioned(dlshim.upgrade(x, copy=True)) as imported:
        assert imported.view.element_zero != place
        assert imported.view.flags == caps.IS_COPIED


class Image(InterfaceOnly):
    """As Pillow's: the bytes are made for the call."""

    def __init__(self, content, dtype="uint8"):
        super().__init__((len(content),), dtype)
        self.content = content

    @property
    def __array_interface__(self):
        return {**super().__array_interface__, "data": bytes(bytearray(self.content))}


Image.__module__ = "PIL.Image"


def made_for_the_export():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    yield ml_dtypes.bfloat16(1)
    yield Image(b"abc")
    kept = b"\xff\x00"
    yield InterfaceOnly((2,), "bool", changes={"data": kept})  # corrected: dlshim's own copy


def test_T8_memory_that_is_made_for_the_export_is_a_copy():
    for x in made_for_the_export():
        for copy in (None, True):
            with versioned(dlshim.upgrade(x, copy=copy)) as imported:
                assert imported.view.flags & caps.IS_COPIED, (x, copy)
                assert copy is None or not imported.view.flags & caps.READ_ONLY
        for ask in (
            lambda x: dlshim.upgrade(x, copy=False).__dlpack__(max_version=(1, 0)),
            lambda x: dlshim.upgrade(x).__dlpack__(max_version=(1, 0), copy=False),
            lambda x: dlshim.from_dlpack(x, copy=False),
        ):
            with pytest.raises(dlshim.CopyRequiredError) as raised:
                ask(x)
            assert "a copy is needed (its memory is made for each export), but" in str(raised.value)


def test_T7_bools_that_others_see_or_write_are_left_as_they_are():
    """A copy of them would not be the object's memory any more."""
    for data in (bytearray(b"\xff\x00"), memoryview(b"\xff\x00")):
        x = InterfaceOnly((2,), "bool", changes={"data": data})
        assert dlshim.from_dlpack(x).tobytes() == b"\xff\x00"
    numbers = InterfaceOnly((2,), "uint8", changes={"data": b"\xff\x02"})
    assert dlshim.from_dlpack(numbers).tobytes() == b"\xff\x02"


def test_interface_of_a_read_only_buffer():
    x = InterfaceOnly((3,), "uint8", changes={"data": b"abc"})
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.view.readonly
        assert imported.values() == [97, 98, 99]


#: As WRONG, of this dict alone, whose six floats take 24 bytes.
WRONG_HERE = {
    "version 2": ({"version": 2}, "version.*the int 3, not 2"),
    "version 4": ({"version": 4}, "version.*the int 3, not 4"),
    "no data": ({"data": DROP}, "data.*own buffer, not InterfaceOnly"),
    "data of a float": ({"data": 3.5}, "data.*own buffer, not float"),
    "a short buffer": ({"data": bytearray(23)}, "beyond the 23 bytes"),
    "an offset that is too large": ({"data": bytearray(24), "offset": 4}, "beyond the 24 bytes"),
    "a negative offset": ({"data": bytearray(24), "offset": -4}, "offset.*0 or above, not -4"),
    "a huge offset": ({"data": bytearray(24), "offset": 2**62}, "beyond the 24 bytes"),
    "strides that reach too far": ({"data": bytearray(24), "strides": (12, 8)}, "beyond the 24"),
    "an offset of an address": ({"offset": 4}, "offset.*not from an address"),
    "a wrong pair and offset": ({"data": (1,), "offset": -1}, "data.*a sequence of length 1"),
    "no multiple": ({"strides": (13, 4)}, r"strides\[0\] is 13 bytes"),
    "mask": ({"mask": "a mask"}, "it has a mask"),
    "void": ({"typestr": "|V12"}, "no code for"),
}


@pytest.mark.parametrize(("changes", "words"), WRONG_HERE.values(), ids=WRONG_HERE)
def test_interfaces_that_are_wrong(changes, words):
    refused(InterfaceOnly(changes=changes), words)


@pytest.mark.parametrize(
    "changes", [{"strides": (13, 4)}, {"version": DROP}], ids=["stride", "version"]
)
def test_an_odd_stride_of_one_element_and_no_version_do_not_matter(changes):
    x = InterfaceOnly((1, 3), "float32", changes=changes)
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.values() == [0, 1, 2]


# --- what a copy that was asked for mends -------------------------------------------------

#: The byte order that is not the machine's.
OTHER = ">" if sys.byteorder == "little" else "<"


def laid_out(
    letters: str,
    numbers: tuple[float, ...],
    typestr: str,
    *,
    step: int = 0,
    start: int = 0,
    address: bool = False,
    **entries: object,
) -> object:
    """An object with an array interface: numbers in the other byte order, `step` bytes apart."""
    order, size = typestr[0], struct.calcsize(f"={letters}")
    step = step or size
    memory = bytearray(abs(step) * len(numbers) + size)
    for i, number in enumerate(numbers):
        parts = [number] * len(letters)
        struct.pack_into(f"{order}{letters}", memory, start + i * step, *parts)
    data: object = memory
    if address:
        data = (ctypes.addressof(ctypes.c_char.from_buffer(memory)), True)
    said = {"shape": (len(numbers),), "strides": (step,), "offset": 0 if address else start}
    interface = {"version": 3, "typestr": typestr, "data": data, **said, **entries}
    return older.Broken(__array_interface__=interface, memory=memory)


def packed(letters: str, *numbers: float) -> bytes:
    return b"".join(struct.pack(f"={letters}", *[number] * len(letters)) for number in numbers)


def other_ints(*numbers: int) -> object:
    return (foreign(ctypes.c_int32) * len(numbers))(*numbers)


INT = packed("i", 1, 2, 3)
OTHER_INT, OUR_INT = f"{OTHER}i4", caps.native("<i4")
SWAPPED = {"flags": older.ALIGNED | older.WRITEABLE}
#: What DLPack cannot describe, and the bytes of a copy of it.
MENDED = {
    "buffer": (other_ints(1, 2, 3), INT),
    "struct": (StructOnly((3,), "int32", changes=SWAPPED), packed("i", 0, 1 << 24, 2 << 24)),
    "interface": (laid_out("i", (1, 2, 3), OTHER_INT), INT),
    "read-only": (laid_out("i", (1, 2, 3), OTHER_INT, address=True), INT),
    "2 bytes": (laid_out("e", (1, 2), f"{OTHER}f2"), packed("e", 1, 2)),
    "8 bytes": (laid_out("d", (1, 2), f"{OTHER}f8"), packed("d", 1, 2)),
    "pairs": (laid_out("dd", (1, 2), f"{OTHER}c16"), packed("dd", 1, 2)),
    "odd strides": (laid_out("i", (1, 2, 3), OUR_INT, step=5), INT),
    "odd and backwards": (laid_out("i", (1, 2, 3), OUR_INT, step=-7, start=14), INT),
    "odd, and the other order": (laid_out("i", (1, 2, 3), OTHER_INT, step=5), INT),
    "repeated": (laid_out("i", (1,), OTHER_INT, shape=(2,), strides=(0,)), INT[:4] * 2),
    "a scalar": (laid_out("i", (1,), OTHER_INT, shape=(), strides=()), INT[:4]),
    "empty": (laid_out("i", (), OTHER_INT, shape=(0, 3), strides=(1, 1)), b""),
    "64 axes": (laid_out("i", (1,), OTHER_INT, shape=(1,) * 64, strides=(3,) * 64), INT[:4]),
}
ASKED = ({"copy": True}, {"order": "C"}, {"order": "auto"}, {"order": "K", "copy": True})
MENDING = pytest.mark.parametrize(("x", "memory"), MENDED.values(), ids=MENDED.keys())


@MENDING
@pytest.mark.parametrize("options", ASKED, ids=str)
def test_N9_a_copy_that_was_asked_for_mends_it_in_one_copy(x, memory, options):
    before = dlshim.stats()["copied"]
    t = dlshim.from_dlpack(x, **options)
    assert dlshim.stats()["copied"] == before + 1
    assert memoryview(t).tobytes() == memory
    assert (t.is_copied, t.readonly, t.data_ptr() % 64) == (True, False, 0)
    with versioned(dlshim.upgrade(x, **options)) as imported:
        assert imported.view.flags == caps.IS_COPIED
    with bare(dlshim.upgrade(x, **options)):
        pass
    capsule = dlshim.to_capsule(x, **options)
    assert memoryview(dlshim.from_dlpack(capsule)).tobytes() == memory


@MENDING
def test_N9_no_other_option_makes_that_copy(x, memory):
    for options in ({}, {"order": "K"}, {"readonly": "copy"}, {"align": 64}):
        with pytest.raises(BufferError, match='cannot describe that\n  pass order="C"') as told:
            dlshim.from_dlpack(x, **options)
        assert not isinstance(told.value, dlshim.CopyRequiredError)
    for options in ({"copy": False}, {"copy": False, "order": "C"}):
        with pytest.raises(dlshim.CopyRequiredError, match="but copy=False was asked") as told:
            dlshim.from_dlpack(x, **options)
        assert told.value.reason == "format"
    with pytest.raises(dlshim.CopyRequiredError):
        dlshim.upgrade(x, order="auto").__dlpack__(copy=False)
    t = dlshim.from_dlpack(dlshim.upgrade(x).__dlpack__(max_version=(1, 0), copy=True))
    assert memoryview(t).tobytes() == memory


def test_N9_the_copy_obeys_the_other_options():
    t = dlshim.from_dlpack(other_ints(1, 2), copy=True, align=4096, readonly=True)
    assert (memoryview(t).tolist(), t.readonly, t.data_ptr() % 4096) == ([1, 2], True, 0)
    t = dlshim.from_dlpack(laid_out("f", (1.0,), f"{OTHER}f4"), order="C", reinterpret="uint32")
    assert memoryview(t).tolist() == [0x3F800000]
    days = laid_out("q", (5, 6), f"{OTHER}M8[D]")
    with pytest.raises(BufferError, match=r'DLPack has no code for\n.*reinterpret="int64"'):
        dlshim.from_dlpack(days)
    t = dlshim.from_dlpack(days, copy=True, reinterpret="int64")
    assert memoryview(t).tolist() == [5, 6]


def test_N9_a_large_copy_lets_other_threads_run_and_leaves_nothing():
    x = other_ints(*range(100_000))
    t = dlshim.from_dlpack(x, copy=True)
    assert first_difference(memoryview(t).tolist(), [*range(100_000)]) is None
    kept = weakref.ref(x)
    del x
    gc.collect()
    assert kept() is None, "the copy needs nothing of the source"


def test_N9_memory_that_is_copied_is_checked_like_any_other():
    """The last element reaches one byte beyond the buffer."""
    x = laid_out("h", (1, 2), caps.native("<i2"), step=3, data=bytearray(4))
    with pytest.raises(BufferError, match="reach beyond the 4 bytes"):
        dlshim.from_dlpack(x, copy=True)
    for changes in ({"strides": (2**62 + 1,)}, {"shape": (2**61,)}, {"shape": (-1,)}):
        x = laid_out("i", (1,), f"{OTHER}i4", shape=(3,), data=bytearray(4))
        x.__array_interface__.update(changes)
        with pytest.raises(BufferError):
            dlshim.from_dlpack(x, copy=True)


def test_N9_memory_that_is_said_to_be_elsewhere_is_not_read():
    x = laid_out("i", (1, 2, 3), f"{OTHER}i4")
    with pytest.raises(BufferError):
        dlshim.from_dlpack(x, copy=True, assume_device="cuda")


# --- capsule functions and methods ----------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    "cls", [P0ToDlpack, P0VersionedToDlpack, P0SnakeToDlpack, P0Mxnet], ids=lambda c: c.__name__
)
def test_capsule_methods(cls, ask):
    x = cls()
    upgraded = dlshim.upgrade(x)
    for _ in range(2):
        with ask(upgraded) as imported:
            assert imported.values() == x.values()
    assert upgraded.__dlpack_device__() == (1, 0)


def test_a_capsule_method_is_taken_for_write():
    """MXNet's `for_read` capsule may be shared with other readers."""
    x = P0Mxnet()
    bare(dlshim.upgrade(x)).release()
    assert x.keywords[-1] == {"for": "write"}


FUNCTIONS = {
    "tensorflow": ("tensorflow.experimental.dlpack.to_dlpack", "EagerTensor",
                   "tensorflow.python.framework.ops"),
    "paddle": ("paddle.utils.dlpack.to_dlpack", "Tensor", "paddle"),
    "torch 1.9": ("torch.utils.dlpack.to_dlpack", "Tensor", "torch"),
    "jax 0.3": ("jax.dlpack.to_dlpack", "ArrayImpl", "jaxlib.xla_extension"),
}  # fmt: skip


@BOTH
@pytest.mark.parametrize(("function", "name", "module"), FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_capsule_functions_of_modules_that_are_imported(function, name, module, ask, monkeypatch):
    cls = producers.masquerade(producers.Array, name, module)
    x = cls((3,), "int32")
    for full, fake in producers.function_module(function, lambda obj: obj._legacy()).items():
        monkeypatch.setitem(sys.modules, full, fake)
    with ask(dlshim.upgrade(x)) as imported:
        assert imported.values() == x.values()


@pytest.mark.parametrize(("function", "name", "module"), FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_capsule_functions_are_never_imported(function, name, module, monkeypatch):
    for full in producers.function_module(function, None):
        monkeypatch.delitem(sys.modules, full, raising=False)
    before = set(sys.modules)
    x = producers.masquerade(producers.Array, name, module)()
    with pytest.raises((dlshim.UnsupportedObjectError, BufferError)):
        bare(dlshim.upgrade(x))
    assert set(sys.modules) == before


@BOTH
def test_an_ortvalue_hides_its_method(ask):
    """onnxruntime's public OrtValue keeps the one with `to_dlpack` in `_ortvalue`."""

    class Native(producers.Array):
        def to_dlpack(self):
            return self._legacy(owner=None)

    x = producers.onnxruntime_like(object)()
    x._ortvalue = Native((3,), "int32")
    with ask(dlshim.upgrade(x)) as imported:
        assert imported.values() == [0, 1, 2]


def test_tensorflow_scalars_keep_their_shape():
    """TensorFlow exports a scalar with shape (1,); the object knows better."""
    x = producers.tensorflow_like(ndim=0)((), "int32")
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.view.shape == ()
        assert imported.values() == [0]


@pytest.mark.once
@pytest.mark.parametrize("dtype", ["string", "resource", "variant"])
@pytest.mark.parametrize("name", ["EagerTensor", "_EagerTensorBase"])
def test_T12_what_tensorflow_dies_of_is_refused_before_it_is_asked(name, dtype):
    """TFE_HandleToDLPack fetches the address first: a failed CHECK, which is abort()."""
    child.program("dtypes_of_tensorflow", name, dtype)


# --- NumPy and ml_dtypes --------------------------------------------------------------


def numpy():
    return pytest.importorskip("numpy", reason="NumPy's own objects as ways in")


@BOTH
@pytest.mark.parametrize("dtype", WHOLE)
def test_numpy_scalars(dtype, ask):
    np = numpy()
    x = np.dtype(dtype).type(1)
    with ask(dlshim.upgrade(x, readonly="copy")) as imported:
        assert imported.view.shape == ()
        assert imported.view.dtype == caps.DTYPES[dtype]
        assert imported.values() == [1]
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.view.readonly


@BOTH
@pytest.mark.parametrize("dtype", WHOLE)
def test_numpy_arrays(dtype, ask):
    """NumPy below 1.25 refuses bool itself; its array struct has it."""
    np = numpy()
    x = np.arange(6).reshape(2, 3).astype(dtype).T
    with ask(dlshim.upgrade(x)) as imported:
        assert imported.view.dtype == caps.DTYPES[dtype]
        assert imported.view.element_zero == x.ctypes.data
        assert imported.values() == x.ravel().tolist()


def test_numpys_strings_of_any_length_are_text():
    np = numpy()
    if not hasattr(np, "dtypes") or not hasattr(np.dtypes, "StringDType"):
        pytest.skip("StringDType came with NumPy 2.0")
    refused(np.array(["a", "bc"], np.dtypes.StringDType()), "numpy.ndarray", "text")


def test_numpy_arrays_that_are_read_only():
    np = numpy()
    for x in (np.broadcast_to(np.arange(3), (2, 3)), np.frombuffer(b"abc", "u1")):
        with versioned(dlshim.upgrade(x)) as imported:
            assert imported.view.readonly
            assert imported.values() == x.ravel().tolist()
        with pytest.raises(BufferError) as error:
            bare(dlshim.upgrade(x))
        tells(error.value, "readonly=")
        with bare(dlshim.upgrade(x, readonly="share")) as imported:
            assert imported.view.element_zero == x.ctypes.data


UNSPEAKABLE_DTYPES = {
    "float of another order": (caps.native(">f4"), "byte order"),
    "int of another order": (caps.native(">i8"), "byte order"),
    "objects": ("O", "Python objects"),
    "bytes": ("S3", "text"),
    "text": ("U2", "text"),
    "two fields": ([("a", "i4"), ("b", "f4")], "struct"),
    "a field of bytes": ([("x", "V2")], "struct"),
}


@pytest.mark.parametrize(("dtype", "words"), UNSPEAKABLE_DTYPES.values(), ids=UNSPEAKABLE_DTYPES)
def test_numpy_dtypes_that_dlpack_cannot_say(dtype, words):
    refused(numpy().zeros(3, dtype), words)


def test_numpy_fields_with_odd_strides():
    refused(numpy().zeros(4, dtype=[("a", "i1"), ("b", "f4")])["b"], "stride")


def test_numpy_datetimes_by_reinterpret():
    np = numpy()
    x = np.array(["2026-01-01", "2026-01-02"], "M8[D]")
    with versioned(dlshim.upgrade(x, reinterpret="int64")) as imported:
        assert imported.values() == x.view("i8").tolist()
        assert imported.view.element_zero == x.ctypes.data


ML_WHOLE = {
    "bcomplex32": (18, 32, 1),
    "bfloat16": (4, 16, 1),
    "complex32": (5, 32, 1),
    "float8_e3m4": (7, 8, 1),
    "float8_e4m3": (8, 8, 1),
    "float8_e4m3b11fnuz": (9, 8, 1),
    "float8_e4m3fn": (10, 8, 1),
    "float8_e4m3fnuz": (11, 8, 1),
    "float8_e5m2": (12, 8, 1),
    "float8_e5m2fnuz": (13, 8, 1),
    "float8_e8m0fnu": (14, 8, 1),
}
ML_SUBBYTE = {
    "int1": (0, 1, 1),
    "uint1": (1, 1, 1),
    "int2": (0, 2, 1),
    "uint2": (1, 2, 1),
    "int4": (0, 4, 1),
    "uint4": (1, 4, 1),
    "float6_e2m3fn": (15, 6, 1),
    "float6_e3m2fn": (16, 6, 1),
    "float4_e2m1fn": (17, 4, 1),
}


def ml_dtype(name):
    numpy()
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="NumPy dtypes that NumPy cannot export")
    if not hasattr(ml_dtypes, name):
        pytest.skip(f"ml_dtypes {ml_dtypes.__version__} has no {name}")
    return getattr(ml_dtypes, name)


@BOTH
@pytest.mark.parametrize(("name", "dtype"), ML_WHOLE.items())
def test_ml_dtypes_arrays(name, dtype, ask):
    np = numpy()
    whole = np.ones((3, 4), ml_dtype(name))
    whole[0, 1] = 2
    readonly = whole[1:]
    readonly.flags.writeable = False
    layouts = {"plain": whole, "transposed": whole.T, "step": whole[:, ::2], "empty": whole[:0],
               "0-d": whole[0, 1, ...], "read-only": readonly}  # fmt: skip

    def check(x):
        with ask(dlshim.upgrade(x, readonly="share")) as imported:
            assert imported.view.dtype == dtype
            assert imported.view.shape == x.shape
            assert b"".join(imported.view.elements()) == x.tobytes()
            if x.size:
                assert imported.view.element_zero == x.ctypes.data
            if ask is versioned:
                assert imported.view.readonly is not x.flags.writeable

    walk(layouts, check)


@pytest.mark.parametrize(("name", "dtype"), ML_WHOLE.items())
def test_ml_dtypes_scalars(name, dtype):
    x = ml_dtype(name)(1)
    try:
        imported = versioned(dlshim.upgrade(x))
    except (dlshim.UnsupportedObjectError, BufferError) as error:
        tells(error, name)  # a scalar with no buffer of a known format: a clear refusal
        return
    assert imported.view.dtype == dtype and imported.view.shape == ()
    imported.release()


@pytest.mark.parametrize(("name", "dtype"), ML_SUBBYTE.items())
def test_ml_dtypes_below_a_byte(name, dtype):
    """ml_dtypes keeps one element a byte: only a versioned capsule can say "padded"."""
    np = numpy()
    x = np.ones(3, ml_dtype(name))
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.view.dtype == dtype
        assert imported.view.flags == caps.SUBBYTE_PADDED
        assert imported.view.shape == (3,)
        assert imported.view.element_zero == x.ctypes.data
    with pytest.raises(BufferError) as error:
        bare(dlshim.upgrade(x))
    tells(error.value, "ndarray", "bit")


def test_every_dtype_of_ml_dtypes_is_met():
    np = numpy()
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="it has the dtypes")
    kinds = [getattr(ml_dtypes, name) for name in dir(ml_dtypes)]
    names = {each.__name__ for each in kinds if isinstance(each, type) if hasattr(each, "dtype")}
    assert names and not names - ML_WHOLE.keys() - ML_SUBBYTE.keys()
    for name in names:
        x = np.ones(3, getattr(ml_dtypes, name))
        assert str(dlshim.from_dlpack(x).dtype) == name
        bits = dlshim.from_dlpack(x, reinterpret=f"uint{8 * x.itemsize}").numpy()
        assert bits.tobytes() == x.tobytes()


# --- elements that a protocol has no word for (T7) -----------------------------------------


COMPLEX = types.SimpleNamespace(name="complex32")


def shown(x, dtype):
    """An object that shows what x shows, and has this dtype."""
    name = "__array_struct__" if isinstance(x, StructOnly) else "__array_interface__"
    members = {name: property(lambda _: getattr(x, name)), "dtype": dtype}
    return type("Shown", (), members)()


LETTERS = sorted({*map(chr, range(33, 127))} - {*"?biufcmMVOSUaTt<>|="})


@pytest.mark.parametrize("letter", LETTERS)
def test_T7_a_kind_of_a_registered_dtype_may_have_any_letter(letter):
    """NumPy gives complex32 of ml_dtypes the kind W; nobody is to blame for that."""
    number = letter.isdigit()  # it would be read as a part of the size
    changes = {"typestr": caps.native(f"<{letter}4"), "shape": (2,), "strides": None}
    for made in (
        StructOnly((2,), "int32", changes={"typekind": letter.encode(), "itemsize": 4}),
        *([] if number else [InterfaceOnly((2,), "int32", changes=changes)]),
    ):
        x = shown(made, None)
        text = str(refused(x, "is not known", "a dtype of 32 bits with reinterpret="))
        assert f"element kind '{letter}' " in text and "correct" not in text
        with versioned(dlshim.upgrade(x, reinterpret="int32")) as imported:
            assert imported.values() == [0, 1]
        with versioned(dlshim.upgrade(shown(made, COMPLEX))) as imported:
            assert imported.view.dtype == (5, 32, 1)


@pytest.mark.parametrize(("kind", "size"), [("c", 4), ("V", 8), ("W", 8), ("u", 16)])
def test_T7_what_the_protocol_has_a_word_for_has_not_another_name(kind, size):
    """Complex numbers of 4 bytes are no float32, whatever the object's dtype is."""
    name = {4: "float32", 8: "int64", 16: "complex128"}[size]
    changes = {"typekind": kind.encode(), "itemsize": size}
    x = shown(StructOnly((2,), (1, 8 * size, 1), changes=changes), name)
    refused(x, "not known" if kind == "W" else "no code for")


BYTES = {"bfloat16": 2, "float8_e5m2": 1, "complex32": 4, "bcomplex32": 4, "int4": 1}
OF_OTHER_WIDTHS = [
    (plain, dtype)
    for plain in ("bool", "uint8", "int8", "uint16", "float32", "float64", "complex128")
    for dtype, size in BYTES.items()
    if plain == "float32" or caps.itemsize_of(plain) != size
]


@pytest.mark.parametrize(("plain", "dtype"), OF_OTHER_WIDTHS)
@BOTH
def test_T7_a_dtype_of_another_width_says_nothing(plain, dtype, ask):
    """Nor does any beside a float of more than 16 bits, which shows no other dtype."""
    for made in (InterfaceOnly((3,), plain), StructOnly((3,), plain)):
        x = shown(made, dtype)
        with ask(dlshim.upgrade(x)) as imported:
            assert imported.view.dtype == caps.DTYPES[plain]
        assert dlshim.from_dlpack(x).dtype == plain


class Halves(ctypes.c_uint16 * 3):
    pass


def as_dtypes(name):
    """The dtype as several libraries would have it."""
    yield name
    yield types.SimpleNamespace(name=name)
    yield type(name, (), {})
    yield type("dtype", (), {"__str__": lambda self: f"library.{name}"})()


@pytest.mark.parametrize("typestr", ["<f2", "<u2", "<i2"])
@BOTH
def test_T7_an_interface_shows_bfloat16_as_what_it_has_a_word_for(typestr, ask):
    for dtype in as_dtypes("bfloat16"):
        x = shown(InterfaceOnly((3,), "int16", changes={"typestr": caps.native(typestr)}), dtype)
        with ask(dlshim.upgrade(x)) as imported:
            assert imported.view.dtype == (4, 16, 1)
        with ask(dlshim.upgrade(x, reinterpret="int16")) as imported:
            assert imported.values() == [0, 1, 2]


@BOTH
def test_T7_a_buffer_shows_dtypes_as_what_it_has_a_word_for(ask):
    for dtype in as_dtypes("float8_e4m3fn"):
        with ask(dlshim.upgrade(Named(b"123", dtype))) as imported:
            assert imported.view.dtype == (10, 8, 1)
    halves = Halves(1, 2, 3)
    for halves.dtype in as_dtypes("bfloat16"):
        with ask(dlshim.upgrade(halves)) as imported:
            assert imported.view.dtype == (4, 16, 1)


def test_T7_bytes_of_elements_below_8_bits_are_refused():
    """Two int4 may be in each byte, or one."""
    x = Named(b"12", "int4")
    refused(x, "int4", "in a byte", 'reinterpret="uint8"')
    with versioned(dlshim.upgrade(x, reinterpret="uint8")) as imported:
        assert imported.values() == [*b"12"]


@pytest.mark.parametrize(
    "dtype", [None, 3, "", "float32", "uint8", "bool", "bfloat16", "datetime64[ns]", "\ud800"]
)
def test_T7_what_the_protocol_has_a_word_for_is_as_it_says(dtype):
    with versioned(dlshim.upgrade(Named(b"123", dtype))) as imported:
        assert imported.view.dtype == (1, 8, 1) and imported.values() == [*b"123"]


def constant(kind, view):
    """A constant of OpenVINO, whose buffer shows what its letters have."""

    def get_element_type(self):
        return types.SimpleNamespace(get_type_name=lambda: kind)

    cls = type("Constant", (type(view),), {"get_element_type": get_element_type})
    return cls.from_buffer_copy(view)


#: What get_element_type() says of elements that the buffer shows as uint16, and what they are then.
OPENVINO = {"f16": "float16", "bf16": "bfloat16"} | dict.fromkeys(
    ("u16", None, 3, "Pixel", "u", "", "f", "float", "dynamic", "undefined"), "uint16"
)


@BOTH
@pytest.mark.parametrize(("kind", "name"), OPENVINO.items())
def test_T7_who_has_get_element_type_tells_more_than_its_buffer(kind, name, ask):
    x = constant(kind, Halves(1, 2, 3))
    with ask(dlshim.upgrade(x)) as imported:
        assert imported.view.dtype == tuple(dlshim.dtype(name))
        assert name != "uint16" or imported.values() == [1, 2, 3]
    with ask(dlshim.upgrade(x, reinterpret="int16")) as imported:
        assert imported.values() == [1, 2, 3]


@pytest.mark.parametrize(("kind", "name"), [("u4", "uint4"), ("nf4", "nf4"), ("f32", "float32")])
def test_T7_a_buffer_that_shows_more_elements_than_there_are_is_refused(kind, name):
    x = constant(kind, Halves(1, 2, 3))
    refused(x, name, "convert it with its own library first", "16 bits")
    with versioned(dlshim.upgrade(x, reinterpret="uint16")) as imported:  # as the text says
        assert imported.values() == [1, 2, 3]


@pytest.mark.parametrize("error", [AttributeError, RuntimeError, BufferError])
def test_T7_a_dtype_that_raises_says_nothing(error):
    class Raises(bytearray):
        @property
        def dtype(self):
            raise error("no dtype")

    with versioned(dlshim.upgrade(Raises(b"12"))) as imported:
        assert imported.values() == [*b"12"]


def test_real_numpy_imports_what_is_upgraded():
    np = numpy()
    source = P1((2, 3), "int32", strides=(1, 2))
    imported = np.from_dlpack(dlshim.upgrade(source))
    assert imported.tolist() == [[0, 2, 4], [1, 3, 5]]
    assert imported.ctypes.data == source.element_zero
    if tuple(map(int, np.__version__.split(".")[:2])) >= (2, 3):
        assert imported.flags.writeable
    del imported
    gc.collect()
    for x in (bytearray(b"abc"), array.array("d", [1.5]), InterfaceOnly(), StructOnly()):
        assert np.from_dlpack(dlshim.upgrade(x)).size
    consumers.ask_like_numpy2(dlshim.upgrade(np.arange(3.0))).release()


# --- what a type has, and what only an object has ------------------------------------------


class Counted:
    """A proxy: its attributes are those of what it holds, and looking is counted."""

    def __init__(self, held, looks):
        self.__dict__["held"], self.__dict__["looks"] = held, looks

    def __getattr__(self, name):
        self.looks.append(name)
        return getattr(self.held, name)


@BOTH
def test_N2_a_proxy_is_asked_for_its_dunder_and_nothing_else(ask):
    """Looking costs some a millisecond (pint).  Once met, one look serves the whole exchange."""
    cls = type("Proxy", (Counted,), {})
    looks = []
    for n in range(4):
        looks.clear()
        x = cls(P2((3,), "int16"), looks)
        with ask(dlshim.upgrade(x)) as imported:
            assert imported.values() == [0, 1, 2]
        if n == 0:
            assert set(looks) <= {"__dlpack__", "__dlpack_device__", "__dlpack_c_exchange_api__"}
        else:
            assert looks == ["__dlpack__"]


@BOTH
def test_N2_a_proxy_of_something_else_is_met_anew(ask):
    """What one object of the type has, another may lack: an array, an older protocol, nothing."""
    cls = type("Proxy", (Counted,), {})
    ask(dlshim.upgrade(cls(P2(), []))).release()
    x = InterfaceOnly((3,), "int16")
    with ask(dlshim.upgrade(cls(x, []))) as imported:
        assert imported.values() == [0, 1, 2]
    with pytest.raises((BufferError, dlshim.UnsupportedObjectError)):
        ask(dlshim.upgrade(cls(object(), [])))
    with ask(dlshim.upgrade(cls(P2((4,), "int8"), []))) as imported:
        assert imported.values() == [0, 1, 2, 3]


@BOTH
def test_N8_beside_an_objects_own_placeholder_the_other_protocols_are_tried(ask):
    def placeholder(**asked):
        raise NotImplementedError("not here")

    x = InterfaceOnly((3,), "int16")
    bag = types.SimpleNamespace(
        __dlpack__=placeholder, __array_interface__=x.__array_interface__, x=x
    )
    with ask(dlshim.upgrade(bag)) as imported:
        assert imported.values() == [0, 1, 2]


def test_a_capsule_function_counts_only_on_the_type():
    """On an object the name may mean anything: a column of a table, an attribute of a Mock."""
    bag = types.SimpleNamespace(to_dlpack=[1, 2])
    with pytest.raises(dlshim.UnsupportedObjectError):
        dlshim.upgrade(bag)
    for cls in (mock.Mock, mock.MagicMock):
        x = cls()
        with pytest.raises(dlshim.UnsupportedObjectError):
            dlshim.upgrade(x)
        assert dlshim.inspect(x, export=True).protocols == ()
        assert x.mock_calls == []


@BOTH
@pytest.mark.parametrize("said", ["tensor(bool)", "tensor(uint8)", None])
def test_booleans_of_onnxruntime_are_booleans(said, ask):
    """They are uint8 in its capsules up to 1.31; the object tells.  Its own consumer takes no bool,
    so legacy consumers get what they get without dlshim."""
    # microsoft/onnxruntime v1.31.1, onnxruntime/core/dlpack/dlpack_converter.cc
    members = {} if said is None else {"data_type": lambda self: said}
    cls = producers.onnxruntime_like(**members)
    for _ in range(2):
        with ask(dlshim.upgrade(cls((3,), "uint8"))) as imported:
            told = said == "tensor(bool)" and imported.view.versioned
            assert imported.view.dtype == ((6, 8, 1) if told else (1, 8, 1))
        with ask(dlshim.upgrade(cls((3,), "int8"))) as imported:
            assert imported.view.dtype == (0, 8, 1)


def test_what_onnxruntime_says_of_booleans_may_be_odd():
    def made(answer, dtype="uint8"):
        return producers.onnxruntime_like(data_type=answer)((3,), dtype)

    def raises(self):
        raise ValueError("not now")

    with versioned(dlshim.upgrade(made(lambda self: 9))) as imported:
        assert imported.view.dtype == (1, 8, 1)
    for never in (raises, property(raises)):
        with pytest.raises(BufferError, match="not now"):
            versioned(dlshim.upgrade(made(never)))
    for wider in ((1, 16, 1), (1, 8, 2)):
        with versioned(dlshim.upgrade(made(raises, wider))) as imported:
            assert imported.view.dtype == wider


@BOTH
def test_N1_an_instances_own_none_is_not_offered(ask):
    """Where another object of the type had a method of its own."""
    cls = type("Bag", (), {})
    with_method, without = cls(), cls()
    with_method.__dlpack__ = P1().__dlpack__
    without.__dlpack__ = None
    ask(dlshim.upgrade(with_method)).release()
    with pytest.raises(dlshim.UnsupportedObjectError):
        dlshim.upgrade(without)


class OnInstance:
    """An object whose __dlpack__ is its own."""

    def __init__(self, held, looks=None):
        self.__dlpack__, self.__dlpack_device__ = held.__dlpack__, held.__dlpack_device__


BY_INSTANCE = pytest.mark.parametrize("kind", [Counted, OnInstance], ids=["proxy", "own method"])
DEVICES = pytest.mark.parametrize("device", [(1, 0), (8, 0)], ids=["host", "device"])


@BY_INSTANCE
@DEVICES
def test_N1_what_one_object_refused_is_not_learned_for_the_next(kind, device):
    """An old producer first, and then one that can say read-only: the flag is kept (T8, N3)."""
    cls = type("Kind", (kind,), {})
    versioned(dlshim.upgrade(cls(P1(device=device), []))).release()
    x = producers.P2LegacyOfReadonly((3,), readonly=True, device=device)
    for _ in range(2):
        with versioned(dlshim.upgrade(cls(x, []))) as imported:
            assert imported.view.readonly


@BY_INSTANCE
@DEVICES
@pytest.mark.parametrize("second", [P1, producers.P1a], ids=lambda c: c.__name__)
def test_N1_what_one_object_took_is_not_asked_of_the_next(second, kind, device):
    cls = type("Kind", (kind,), {})
    versioned(dlshim.upgrade(cls(P2(device=device), []))).release()
    x = second((4,), "int8", device=device)
    with versioned(dlshim.upgrade(cls(x, []))) as imported:
        assert imported.view.element_zero == x.element_zero


def test_N1_a_proxy_answers_for_what_it_stands_for():
    """After a proxy of an array was met, one of something else is asked for its device first."""
    cls = type("Proxy", (Counted,), {})
    versioned(dlshim.upgrade(cls(P2(), []))).release()
    x = InterfaceOnly((3,), "int16")
    wrapped = dlshim.upgrade(cls(x, []))
    assert wrapped.__dlpack_device__() == (1, 0)
    with versioned(wrapped) as imported:
        assert imported.values() == [0, 1, 2]
    for ask in (versioned, lambda x: x.__dlpack_device__()):
        versioned(dlshim.upgrade(cls(P2(), []))).release()
        with pytest.raises(BufferError, match=r"Proxy.*offers none of"):
            ask(dlshim.upgrade(cls(object(), [])))


def test_a_metaclass_with_getattr_makes_no_proxy():
    """Objects of a class of proxies are taken unasked, once one was met; this one is asked."""

    class Meta(type):
        def __getattr__(cls, name):
            if name == "__getattr__":
                return None
            raise AttributeError(name)

    cls = Meta("Bag", (), {})
    with_method, without = cls(), cls()
    with_method.__dlpack__ = P1().__dlpack__
    versioned(dlshim.upgrade(with_method)).release()
    with pytest.raises(dlshim.UnsupportedObjectError):
        dlshim.upgrade(without)


def test_N1_a_type_that_offers_an_older_protocol_is_met_alike_in_any_order():
    class Both:
        def __init__(self, x):
            self.x = x

        @property
        def __array_interface__(self):
            return self.x.__array_interface__

    own = P2((4,), "int8")
    for _ in range(2):
        plain, special = Both(InterfaceOnly((3,), "int16")), Both(InterfaceOnly((3,), "int16"))
        special.__dlpack__ = own.__dlpack__
        for each in (plain, special, plain):
            with versioned(dlshim.upgrade(each)) as imported:
                assert imported.values() == [0, 1, 2]
