"""What a Tensor and a Producer offer, and what they deliberately do not."""

from __future__ import annotations

import base64
import copy
import ctypes
import gc
import hashlib
import io
import pickle
import re
import struct
import weakref
import zlib
from contextlib import suppress

import pytest

import dlshim
from doubles import capsules as caps
from doubles import consumers, older
from doubles.asking import ASKINGS, bare, tells, versioned
from doubles.older import InterfaceOnly, Request, StructOnly
from doubles.producers import EDITIONS, P1, P2, CopiesAlways, P1b

pytestmark = pytest.mark.once  # a Tensor's exports are translated in any case

BOTH = pytest.mark.parametrize("ask", ASKINGS.values(), ids=ASKINGS.keys())


# --- Tensor: attributes ---------------------------------------------------------------


@pytest.mark.parametrize("cls", EDITIONS.values(), ids=EDITIONS.keys())
def test_tensor_attributes(cls):
    x = cls((3, 2), "int16", strides=(1, 3))
    tensor = dlshim.from_dlpack(x)
    assert type(tensor) is dlshim.Tensor
    assert tensor.shape == (3, 2) and type(tensor.shape) is tuple
    assert tensor.strides == (1, 3) and type(tensor.strides) is tuple
    assert tensor.dtype == (0, 16, 1) and isinstance(tensor.dtype, dlshim.dtype)
    assert "int16" in repr(tensor.dtype)
    assert tensor.device == (1, 0) and isinstance(tensor.device, tuple)
    assert all(type(part) is int for part in (*tensor.device, *tensor.shape, *tensor.strides))
    assert (tensor.ndim, tensor.size, tensor.itemsize, tensor.nbytes) == (2, 6, 2, 12)
    assert tensor.byte_offset == 0
    assert tensor.readonly is False and tensor.is_copied is False
    assert tensor.data_ptr() == x.element_zero
    major, minor = tensor.version
    assert major == 0 or (major == 1 and 0 <= minor <= 3)
    text = repr(tensor)
    assert "int16" in text and "(3, 2)" in text


@pytest.mark.parametrize("version", [(1, 0), (1, 3), (1, 99)])
def test_tensor_version_is_what_its_source_said(version):
    assert dlshim.from_dlpack(P2(version=version)).version == version


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        ("float32", "float32"),
        ("bool", "bool"),
        ("bfloat16", "bfloat16"),
        ("complex128", "complex128"),
        ("uint8", "uint8"),
        ("float8_e4m3fn", "float8_e4m3fn"),
        ((2, 32, 4), "float32"),
        ((77, 16, 1), "77"),
    ],
)
def test_dtype_has_a_readable_repr_and_equals_a_tuple(dtype, name):
    found = dlshim.from_dlpack(P2((2,), dtype)).dtype
    assert name in repr(found)
    assert found == caps.dtype_tuple(dtype)
    code, bits, lanes = found
    assert hash(found) == hash((code, bits, lanes))
    again = pickle.loads(pickle.dumps(found))
    assert again == found and repr(again) == repr(found)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3, 4)])
def test_tensor_sizes(shape):
    tensor = dlshim.from_dlpack(P2(shape, "float64"))
    size = 1
    for extent in shape:
        size *= extent
    assert (tensor.shape, tensor.size, tensor.nbytes) == (shape, size, 8 * size)
    assert tensor.strides == caps.row_major(shape)
    assert tensor.ndim == len(shape)


def test_tensor_and_producer_cannot_be_made_by_hand():
    for cls in (dlshim.Tensor, dlshim.Producer):
        with pytest.raises(TypeError):
            cls()
        with pytest.raises(TypeError):
            type("Sub", (cls,), {})


def test_tensor_attributes_are_read_only():
    tensor = dlshim.from_dlpack(P2())
    for name in ("shape", "readonly", "device", "nonsense"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(tensor, name, None)


def test_tensor_device_memory():
    tensor = dlshim.from_dlpack(P2((3,), "float32", device=(2, 1)), stream=-1)
    assert tensor.device == (2, 1) == tensor.__dlpack_device__()
    for attempt in (memoryview, lambda t: t.__array_interface__):
        with pytest.raises((BufferError, TypeError, AttributeError)):
            attempt(tensor)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_producer_cannot_be_pickled_by_any_protocol(protocol):
    """Without a word of its own, protocols 0 and 1 write what cannot be read."""
    x = dlshim.upgrade(P2((3,), "int32"))
    for write in (lambda: pickle.dumps(x, protocol), lambda: copy.copy(x)):
        with pytest.raises(TypeError) as error:
            write()
        tells(error.value, "cannot pickle 'dlshim.Producer'", "from_dlpack")


# --- Tensor: the buffer protocol ------------------------------------------------------

BUFFERED = {"int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I",
            "int64": "lq", "uint64": "LQ", "float16": "e", "float32": "f", "float64": "d",
            "bool": "?", "complex64": "Zf", "complex128": "Zd"}  # fmt: skip


@pytest.mark.parametrize("dtype", BUFFERED)
def test_tensor_buffer_of_every_dtype(dtype):
    x = P2((2, 3), dtype)
    tensor = dlshim.from_dlpack(x)
    with Request(tensor, older.FULL_RO) as answer:
        assert answer.format.lstrip("@=<") in (BUFFERED[dtype], *BUFFERED[dtype])
        assert answer.itemsize == caps.itemsize_of(dtype)
        assert answer.shape == (2, 3)
        assert answer.strides == (3 * answer.itemsize, answer.itemsize)
        assert answer.address == x.element_zero
        assert answer.len == 6 * answer.itemsize
        assert not answer.readonly and not answer.suboffsets


LAYOUTS = {
    "plain": {"shape": (2, 3)},
    "transposed": {"shape": (3, 2), "strides": (1, 3)},
    "step": {"shape": (3,), "strides": (2,)},
    "negative": {"shape": (4,), "strides": (-1,), "start": 3},
    "broadcast": {"shape": (2, 2), "strides": (0, 1)},
    "empty": {"shape": (0, 3)},
    "0-d": {"shape": ()},
}


@pytest.mark.parametrize("fields", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_tensor_memoryview_of_every_layout(fields):
    x = P2(dtype="int32", **fields)
    view = memoryview(dlshim.from_dlpack(x))
    assert view.shape == x.shape
    assert caps.flat(view.tolist()) == x.values()
    if view.nbytes:
        assert view.strides == tuple(4 * s for s in x.strides)


def test_tensor_buffer_is_the_memory_itself():
    x = P2((3,), "int32")
    view = memoryview(dlshim.from_dlpack(x))
    view[1] = 44
    assert caps.look(x._versioned()).values() == [0, 44, 2]


def test_tensor_buffer_respects_read_only():
    tensor = dlshim.from_dlpack(P2((3,), "uint8", readonly=True))
    assert memoryview(tensor).readonly
    with pytest.raises(TypeError):
        memoryview(tensor)[0] = 1
    for flags in (older.WRITABLE, older.FULL, older.RECORDS):
        with pytest.raises(BufferError) as error:
            with Request(tensor, flags):
                pass
        tells(error.value, "read-?only")


SHAPE_AND_FORMAT = [older.FULL_RO, older.FULL, older.RECORDS, older.RECORDS_RO,
                    older.ND | older.FORMAT, older.C_CONTIG | older.FORMAT]  # fmt: skip
NOT_BOTH = [older.SIMPLE, older.WRITABLE, older.FORMAT, older.ND, older.STRIDES, older.C_CONTIG,
            older.ANY_CONTIG, older.INDIRECT]  # fmt: skip


@pytest.mark.parametrize("flags", SHAPE_AND_FORMAT, ids=hex)
def test_tensor_buffer_answers_who_asks_for_shape_and_format(flags):
    with Request(dlshim.from_dlpack(P2((2, 3), "float32")), flags) as answer:
        assert answer.format.endswith("f")
        assert answer.shape == (2, 3)


@pytest.mark.parametrize("flags", NOT_BOTH, ids=hex)
def test_tensor_buffer_refuses_who_would_see_bare_bytes(flags):
    """torch.asarray asks for no format and would read the bytes as float32."""
    for dtype in ("float32", "int16", "complex64", "float16", "uint8", "int8", "bool"):
        with pytest.raises(BufferError) as error:
            with Request(dlshim.from_dlpack(P2((2, 3), dtype)), flags):
                pass
        tells(error.value, "memoryview", r"memoryview\(x\)")


@pytest.mark.parametrize("flags", SHAPE_AND_FORMAT, ids=hex)
def test_tensor_buffer_of_bytes(flags):
    x = P2((2, 3), "uint8")
    with Request(dlshim.from_dlpack(x), flags) as answer:
        assert answer.address == x.element_zero
        assert answer.len == 6 and answer.itemsize == 1
        assert answer.format == "B" and answer.shape == (2, 3)


def test_tensor_bytes_through_ordinary_python():
    tensor = dlshim.from_dlpack(P2((4,), "uint8"))
    assert bytes(tensor) == b"\0\1\2\3"
    assert io.BytesIO(b"wxyz").readinto(memoryview(tensor)) == 4
    assert bytearray(tensor) == bytes(memoryview(tensor)) == b"wxyz"
    grid = dlshim.from_dlpack(P2((2, 3), "uint8"))
    raw = memoryview(grid).cast("B")
    assert hashlib.sha256(raw).digest() == hashlib.sha256(bytes(range(6))).digest()
    floats = dlshim.from_dlpack(P2((2,), "float32"))
    assert bytes(memoryview(floats).cast("B")) == struct.pack("=ff", 0, 1)


@pytest.mark.parametrize("flags", [older.SIMPLE, older.ND, older.C_CONTIG, older.C_CONTIG
                                   | older.FORMAT, older.ND | older.FORMAT], ids=hex)  # fmt: skip
def test_tensor_buffer_strided_for_who_cannot_say_strides(flags):
    """MLX and pyarrow give strided buffers to such requests: wrong bytes."""
    for fields in ({"strides": (1, 2)}, {"strides": (6, 2)}, {"strides": (0, 1)}):
        tensor = dlshim.from_dlpack(P2((2, 3), "uint8", **fields))
        with pytest.raises(BufferError):
            with Request(tensor, flags):
                pass


def test_the_cure_for_who_wants_bare_bytes_works(tmp_path):
    row = dlshim.from_dlpack(P2((2, 3), "int32"))
    column = dlshim.from_dlpack(P2((2, 3), "int32", strides=(1, 2)))
    image = dlshim.from_dlpack(P2((2, 3), "uint8"))
    for t in (row, image):
        for want in (hashlib.sha256, zlib.compress, base64.b64encode, io.BytesIO().write):
            with pytest.raises(BufferError, match=r"\n  pass (memoryview\(x\)) for the raw") as e:
                want(t)
            cure = re.search("pass (.*) for the raw bytes$", str(e.value))[1]
            told, wanted = want(eval(cure, {"x": t})), want(t.tobytes())
            if want is hashlib.sha256:
                told, wanted = told.digest(), wanted.digest()
            assert told == wanted
        with open(tmp_path / "bytes", "w+b") as file, open(tmp_path / "raw", "wb", 0) as raw:
            for one in (file, raw):
                with pytest.raises(BufferError, match=r"pass memoryview\(x\) for the raw bytes$"):
                    one.write(t)
                assert one.write(memoryview(t)) == t.nbytes
            file.seek(0)
            assert file.read() == t.tobytes()
    with pytest.raises(BufferError, match=r'order="C"\), or x\.tobytes\(\)$'):
        hashlib.sha256(column)
    with pytest.raises(TypeError):  # io says it in words of its own
        io.BytesIO(b"123456").readinto(image)
    for t in (row, dlshim.from_dlpack(column, order="C")):
        assert hashlib.sha256(memoryview(t)).digest() == hashlib.sha256(t.tobytes()).digest()


def test_tensor_buffer_contiguity_requests():
    c = dlshim.from_dlpack(P2((2, 3), "uint8"))
    f = dlshim.from_dlpack(P2((2, 3), "uint8", strides=(1, 2)))
    neither = dlshim.from_dlpack(P2((2, 3), "uint8", strides=(6, 2)))
    for tensor, flags, good in (
        (c, older.C_CONTIG, True), (c, older.F_CONTIG, False), (c, older.ANY_CONTIG, True),
        (f, older.C_CONTIG, False), (f, older.F_CONTIG, True), (f, older.ANY_CONTIG, True),
        (neither, older.ANY_CONTIG, False), (neither, older.STRIDES, True),
    ):  # fmt: skip
        if good:
            with Request(tensor, flags | older.FORMAT) as answer:
                assert answer.shape == (2, 3)
        else:
            with pytest.raises(BufferError, match="not contiguous"):
                with Request(tensor, flags | older.FORMAT):
                    pass


@pytest.mark.parametrize("flags", SHAPE_AND_FORMAT, ids=hex)
def test_tensor_buffer_without_dimensions_has_neither_shape_nor_strides(flags):
    """CPython's own consumer (_testbuffer) writes before its block where they are not NULL."""
    tensor = dlshim.from_dlpack(P2((), "uint8"))
    with Request(tensor, flags) as answer:
        assert answer.ndim == 0
        assert answer.shape is None and answer.strides is None
        assert answer.len == answer.itemsize == 1


@pytest.mark.parametrize("shape", [(4, 0), (0, 4), (2, 0, 3), (2, 3, 0), (0,)], ids=str)
def test_tensor_buffer_without_elements_is_contiguous_in_every_way(shape):
    tensor = dlshim.from_dlpack(P2(shape, "uint8"))
    for flags in (older.C_CONTIG, older.F_CONTIG, older.ANY_CONTIG):
        with Request(tensor, flags | older.FORMAT) as answer:
            assert answer.shape == shape and answer.len == 0


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2", (2, 32, 2), (77, 16, 1)], ids=str)
def test_tensor_buffer_of_dtypes_without_a_format(dtype):
    with pytest.raises(BufferError) as error:
        memoryview(dlshim.from_dlpack(P2((2,), dtype)))
    tells(error.value, "format|dtype|bfloat16|float8|code")


def test_tensor_buffer_keeps_the_memory():
    x = P2((3,), "int32")
    tensor = dlshim.from_dlpack(x)
    made = x.last
    view = memoryview(tensor)
    del tensor
    gc.collect()
    assert not made.deleted
    assert view.tolist() == [0, 1, 2]
    view.release()
    gc.collect()
    assert made.deleted == 1


def test_tensor_can_be_upgraded_and_taken_again():
    x = P2((3,), "int32")
    tensor = dlshim.from_dlpack(dlshim.from_dlpack(dlshim.upgrade(dlshim.from_dlpack(x))))
    assert tensor.data_ptr() == x.element_zero
    assert memoryview(tensor).tolist() == [0, 1, 2]


# --- Tensor: the older interfaces -----------------------------------------------------


def test_tensor_array_interface():
    x = P2((3, 2), "int16", strides=(1, 3))
    interface = dlshim.from_dlpack(x).__array_interface__
    assert interface["version"] == 3
    assert interface["shape"] == (3, 2)
    assert interface["typestr"] == caps.native("<i2")
    assert interface["data"] == (x.element_zero, False)
    assert interface["strides"] == (2, 6)
    assert dlshim.from_dlpack(P2(readonly=True)).__array_interface__["data"][1] is True
    contiguous = dlshim.from_dlpack(P2((3, 2), "int16")).__array_interface__
    assert contiguous.get("strides") in (None, (4, 2))


@pytest.mark.parametrize("dtype", [*BUFFERED])
def test_tensor_array_interface_typestrs(dtype):
    interface = dlshim.from_dlpack(P2((2,), dtype)).__array_interface__
    assert interface["typestr"].replace("=", caps.native("<")) == older.typestr_of(dtype)


def test_tensor_array_interface_round_trip():
    for fields in LAYOUTS.values():
        x = P2(dtype="float64", **fields)
        tensor = dlshim.from_dlpack(x)
        again = InterfaceOnly.__new__(InterfaceOnly)
        entries = dict(tensor.__array_interface__)
        again.__dict__.update(shape=(), dtype="float64", strides=None, start=0, readonly=False,
                              memory=bytearray(8), changes=entries)  # fmt: skip
        assert dlshim.from_dlpack(again).shape == x.shape
        with versioned(dlshim.upgrade(again, order="K")) as imported:
            assert imported.values() == x.values()


def test_tensor_interfaces_that_do_not_apply():
    host = dlshim.from_dlpack(P2())
    assert not hasattr(host, "__cuda_array_interface__")
    assert not hasattr(host, "__sycl_usm_array_interface__")
    device = dlshim.from_dlpack(P2((3,), device=(8, 0)))
    for name in ("__array_interface__", "__cuda_array_interface__", "__sycl_usm_array_interface__"):
        with pytest.raises(AttributeError):
            getattr(device, name)


def test_tensor_and_real_numpy():
    np = pytest.importorskip("numpy", reason="the real consumer of these protocols")
    x = P2((3, 2), "int16", strides=(1, 3))
    tensor = dlshim.from_dlpack(x)
    for array in (np.asarray(tensor), np.from_dlpack(tensor), np.asarray(memoryview(tensor))):
        assert array.ctypes.data == x.element_zero
        assert array.ravel().tolist() == x.values()
        assert array.dtype == "int16"
    readonly = dlshim.from_dlpack(P2(readonly=True))
    assert not np.asarray(readonly).flags.writeable
    assert np.asarray(dlshim.from_dlpack(P2((), "float32"))).shape == ()


# --- Producer -------------------------------------------------------------------------


def test_producer_shows_its_source_and_options():
    x = P1()
    plain = dlshim.upgrade(x)
    assert isinstance(plain, dlshim.Producer)
    assert plain.source is x
    assert "P1" in repr(plain)
    text = repr(dlshim.upgrade(x, readonly="copy", order="C", align=64))
    for word in ("P1", "readonly", "order", "C", "align", "64", "copy"):
        assert word in text
    assert "order" not in repr(plain)


def test_producer_of_a_source_whose_repr_fails():
    class Bad(P1):
        def __repr__(self):
            raise RuntimeError("no repr")

    upgraded = dlshim.upgrade(Bad())
    with suppress(RuntimeError):  # either is honest; a crash is not
        assert "Bad" in repr(upgraded)


@pytest.mark.parametrize(
    "name",
    ["__len__", "__getitem__", "__iter__", "__array_interface__", "__array_struct__",
     "__cuda_array_interface__", "__sycl_usm_array_interface__", "__buffer__", "shape", "dtype",
     "memory", "__dict__", "toDlpack", "to_dlpack", "__array_priority__", "__float__"],
)  # fmt: skip
def test_producer_offers_nothing_else(name):
    x = P1()
    assert not hasattr(dlshim.upgrade(x), name)


def test_producer_has_no_buffer():
    upgraded = dlshim.upgrade(bytearray(3))
    with pytest.raises(TypeError):
        memoryview(upgraded)
    with pytest.raises(TypeError):
        (ctypes.c_char * 3).from_buffer(upgraded)


def test_methods_sit_on_the_types():
    """NumPy < 2.1 and nanobind look there."""
    for cls in (dlshim.Producer, dlshim.Tensor):
        assert callable(cls.__dict__["__dlpack__"])
        assert callable(cls.__dict__["__dlpack_device__"])
    with consumers.ask_like_numpy1(dlshim.upgrade(P2())) as imported:
        assert imported.values() == [0, 1, 2, 3, 4, 5]


def test_producer_and_tensor_take_weak_references():
    for wrap in (dlshim.upgrade, dlshim.from_dlpack):
        wrapped = wrap(P1())
        dead = weakref.ref(wrapped)
        assert dead() is wrapped
        del wrapped
        gc.collect()
        assert dead() is None


def test_producer_is_lazy():
    x = P2()
    upgraded = dlshim.upgrade(x)
    repr(upgraded)
    del upgraded
    assert x.calls == [] and x.device_calls == 0


def test_producer_in_a_cycle_is_collected():
    class Node(P1):
        pass

    for make in (dlshim.upgrade, lambda x: dlshim.upgrade(x, readonly=True)):
        x = Node()
        x.upgraded = make(x)
        dead = weakref.ref(x)
        del x
        gc.collect()
        assert dead() is None


def test_a_producer_with_a_live_copy_in_a_cycle_is_collected():
    class Node(CopiesAlways):
        pass

    x = Node()
    x.upgraded = dlshim.upgrade(x)
    consumers.ask_like_mpi4py31(x.upgraded).release()
    made, dead = x.last, weakref.ref(x)
    del x
    assert made.deleted == 0
    gc.collect()
    assert dead() is None and made.deleted == 1


def test_producer_keeps_its_source():
    x = P1()
    dead = weakref.ref(x)
    upgraded = dlshim.upgrade(x)
    del x
    gc.collect()
    assert dead() is not None
    with bare(upgraded) as imported:
        assert imported.values() == [0, 1, 2, 3, 4, 5]
    del upgraded, imported
    caps.close_accounts()
    gc.collect()
    assert dead() is None


def test_a_producer_is_unwrapped_not_nested():
    x = P1()
    outer = dlshim.upgrade(dlshim.upgrade(dlshim.upgrade(x)))
    assert outer.source is x


def test_options_given_outside_win_option_by_option():
    x = P2(readonly=True)
    inner = dlshim.upgrade(x, align=1, readonly=False, order="C")
    outer = dlshim.upgrade(inner, readonly="share")
    with versioned(outer) as imported:
        assert imported.view.readonly  # replaced
    with bare(outer) as imported:
        assert imported.view.element_zero == x.element_zero
    with versioned(inner) as imported:
        assert not imported.view.readonly  # the inner one is as it was
    assert "order" in repr(outer)


def test_a_producer_given_to_the_other_functions():
    x = P2(readonly=True)
    inner = dlshim.upgrade(x, readonly=False)
    assert not dlshim.from_dlpack(inner).readonly
    with caps.take(dlshim.to_capsule(inner)) as imported:
        assert imported.name == caps.LEGACY
    with caps.take(dlshim.to_capsule(inner, readonly=True, max_version=(1, 0))) as imported:
        assert imported.view.readonly


# --- from_dlpack and to_capsule -------------------------------------------------------


def test_from_dlpack_takes_everything_that_upgrade_takes():
    for x in (P1(), P2(), P1b(), caps.make(), caps.make(version=(1, 0)), bytearray(24),
              memoryview(bytes(24)), InterfaceOnly(), StructOnly(), dlshim.upgrade(P1()),
              dlshim.from_dlpack(P1())):  # fmt: skip
        tensor = dlshim.from_dlpack(x)
        assert tensor.nbytes == 24


def test_from_dlpack_device_and_copy():
    x = P2()
    assert dlshim.from_dlpack(x, device="cpu").data_ptr() == x.element_zero
    assert dlshim.from_dlpack(x, device=(1, 0), copy=False).data_ptr() == x.element_zero
    copied = dlshim.from_dlpack(x, copy=True)
    assert copied.data_ptr() != x.element_zero and copied.is_copied and not copied.readonly
    assert copied.data_ptr() % 64 == 0
    with pytest.raises(BufferError):
        dlshim.from_dlpack(x, device="cuda:0")
    for bad in ({"copy": 1}, {"copy": "yes"}, {"device": 5}, {"nonsense": 1}):
        with pytest.raises(TypeError):
            dlshim.from_dlpack(x, **bad)
    with pytest.raises(TypeError):
        dlshim.from_dlpack()
    with pytest.raises(TypeError):
        dlshim.from_dlpack(x=x)


def test_from_dlpack_names_its_own_keyword():
    with pytest.raises(TypeError) as error:
        dlshim.from_dlpack(P2(), device=5)
    assert str(error.value).startswith("device=5 names no device")
    with pytest.raises(TypeError) as error:
        dlshim.upgrade(P2()).__dlpack__(dl_device=5)
    assert str(error.value).startswith("dl_device=5 names no device")


class NumpyBool:
    """numpy.bool: a number with a truth value, and no subclass of bool."""

    def __init__(self, truth):
        self.truth = truth

    def __bool__(self):
        return self.truth

    def __index__(self):
        return int(self.truth)


@pytest.mark.parametrize("wrap", [dlshim.upgrade, dlshim.from_dlpack])
def test_what_a_consumer_passes_on_as_copy_has_a_truth_value(wrap):
    """np.from_dlpack(x, copy=np.True_) and copy=1 work bare."""
    x = P2()
    for asked in (NumpyBool(False), 0):
        with versioned(wrap(x), copy=asked) as imported:
            assert imported.view.element_zero == x.element_zero
    for asked in (NumpyBool(True), 1):
        with versioned(wrap(x), copy=asked) as imported:
            assert imported.view.flags & caps.IS_COPIED
    for asked in ("yes", b"", [], object()):
        with pytest.raises(TypeError):
            wrap(x).__dlpack__(copy=asked)


def test_to_capsule_takes_the_options_of_upgrade():
    x = P2((2, 3), "int32", strides=(1, 2), readonly=True)
    with caps.take(dlshim.to_capsule(x, max_version=(1, 0), order="C", readonly=True)) as imported:
        assert imported.view.strides == (3, 1)
        assert imported.view.flags == caps.READ_ONLY | caps.IS_COPIED
    with caps.take(dlshim.to_capsule(x, readonly="share", reinterpret="float32")) as imported:
        assert imported.view.dtype == (2, 32, 1)
    with pytest.raises(TypeError):
        dlshim.to_capsule(x, nonsense=1)
    with pytest.raises(TypeError):
        dlshim.to_capsule(x, (1, 0))


def test_to_capsule_of_a_capsule_is_the_other_generation():
    with caps.take(dlshim.to_capsule(caps.make(), max_version=(1, 0))) as imported:
        assert imported.name == caps.VERSIONED
    with caps.take(dlshim.to_capsule(caps.make(version=(1, 0)))) as imported:
        assert imported.name == caps.LEGACY


def test_the_address_is_a_method_as_triton_calls_it():
    """`handle_tensor` of Triton's specialize.cc calls arg.data_ptr() without arguments."""
    x = P2()
    tensor = dlshim.from_dlpack(x)
    assert type(tensor).data_ptr(tensor) == tensor.data_ptr() == x.element_zero
    with pytest.raises(TypeError):
        tensor.data_ptr(0)


@pytest.mark.once
@pytest.mark.parametrize("dtype", ["u1", "i8", "f2", "f8", "c8", "?"])
def test_numbers_of_python_are_those_of_numpy(dtype):
    np = pytest.importorskip("numpy", reason="its rules decide")
    x = np.arange(6).reshape(2, 3).astype(dtype)
    for view in (x, x.T, x[::-1], x[:, 1]):
        t = dlshim.from_dlpack(view)
        assert t.tolist() == view.tolist()
        assert type(t.item(0)) is type(view.item(0))
        assert t.item(-1) == view.item(-1)
    assert dlshim.from_dlpack(x[:1, :1]).item() == x[0, 0].item()
    with pytest.raises(ValueError, match="array of size 1"):
        dlshim.from_dlpack(x).item()
    with pytest.raises(TypeError):
        dlshim.from_dlpack(x).tolist(1)


@pytest.mark.once
def test_the_array_interface_says_the_strides():
    """Pillow asks for tobytes() where they are said, and else for a buffer without a format."""
    np = pytest.importorskip("numpy", reason="its arrays are looked at")
    for x in (np.ones((2, 3), "u1"), np.ones((2, 3), "f4").T, np.float64(1)):
        told = dlshim.from_dlpack(x).__array_interface__
        assert told["strides"] == x.strides
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    x = np.arange(36, dtype="u1").reshape(3, 4, 3)
    for view in (x, x[:, :, 0], x[::-1]):
        made = image.fromarray(dlshim.from_dlpack(view))
        assert np.asarray(made).tolist() == view.tolist()
