"""`__cuda_array_interface__` in and out, as far as no driver is needed.

Which dicts are refused, arrays without elements, and what a Tensor says of device memory; with
a driver: tests/device/test_cuda_interface.py.  Entries that all dicts share: test_ways_in.py.
"""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import pytest

import dlshim
from dlshim import _core
from doubles import capsules as caps
from doubles import child
from doubles import cuda_interface as cai
from doubles.asking import ASKINGS, refused, tells, versioned
from doubles.cuda_interface import CudaOnly, LazyPair, Over, empty
from doubles.older import deep
from doubles.producers import P2
from doubles.streams import Index

pytestmark = pytest.mark.once  # there is never a capsule to hand on

BOTH = pytest.mark.parametrize("ask", ASKINGS.values(), ids=ASKINGS.keys())
DROP = CudaOnly.DROP
#: Nothing is there; what is refused before the driver is asked does not matter.
ADDRESS = 0x1000


class Sized:
    """No sequence: it has a length and no items."""

    def __len__(self) -> int:
        return 2


# --- refused ----------------------------------------------------------------------------

#: What is wrong, the changed entries, and words of the message.
ODD: dict[str, tuple[dict[str, Any], str]] = {
    "no version": ({"version": DROP}, "version.*missing"),
    "version None": ({"version": None}, "version.*missing"),
    "version of a bool": ({"version": True}, "version.*from 0 to 3, not bool"),
    "version 4": ({"version": 4}, "version 4 is newer"),
    "mask": ({"mask": empty()}, "mask"),
    "a mask before there were any": ({"mask": "something", "version": 0}, "mask"),
    "no multiple": ({"strides": (13, 4)}, r"strides\[0\] is 13 bytes"),
    "no data": ({"data": DROP}, "data.*missing"),
    "data None": ({"data": None}, "data.*missing"),
    "data of text": ({"data": "ab"}, "data.*pair.*str"),
    "a buffer": ({"data": b"ab"}, "data.*pair.*bytes"),
    "no sequence": ({"data": Sized()}, "data.*pair"),
    "deep data": ({"data": deep()}, "data.*pair.*length 1"),
    "address of a bool": ({"data": (True, False)}, "data.*address.*bool"),
    "lazy NULL address": ({"data": LazyPair(0)}, "NULL"),
    "stream 0": ({"stream": 0}, "stream.*not be 0.*\n.* 1 .* 2 .*producer_stream="),
    "stream of a bool": ({"stream": True}, "stream.*bool"),
    "negative stream": ({"stream": -1}, "stream.*-1"),
    "huge stream": ({"stream": 2**64}, "stream.*18446744073709551616"),
    "stream of a wrong type": ({"stream": "1"}, "stream.*str"),
    "stream of a float": ({"stream": 1.0}, "stream.*float"),
    "deep stream": ({"stream": deep()}, "stream.*list"),
}


@pytest.mark.parametrize(("changes", "words"), ODD.values(), ids=ODD)
def test_dicts_that_are_wrong(changes, words):
    refused(CudaOnly(address=ADDRESS, changes=changes), "__cuda_array_interface__", words)


class Refuses(LazyPair):
    def __init__(self, at: int, failure: BaseException) -> None:
        super().__init__(ADDRESS)
        self.at, self.failure = at, failure

    def __getitem__(self, index: int) -> Any:
        if index == self.at:
            raise self.failure
        return super().__getitem__(index)


@pytest.mark.parametrize("at", [0, 1])
def test_data_that_raise(at):
    for failure in (RuntimeError("spilled"), ValueError("v"), TypeError("t")):
        with pytest.raises(BufferError) as error:
            versioned(dlshim.upgrade(CudaOnly(changes={"data": Refuses(at, failure)})))
        assert failure in (error.value.__cause__, error.value.__context__)
    for failure in (MemoryError("m"), KeyboardInterrupt()):
        with pytest.raises(type(failure)):
            versioned(dlshim.upgrade(CudaOnly(changes={"data": Refuses(at, failure)})))


def test_a_length_that_raises():
    class Endless(LazyPair):
        def __len__(self) -> int:
            raise ZeroDivisionError("no length")

    with pytest.raises((BufferError, ZeroDivisionError)):
        versioned(dlshim.upgrade(CudaOnly(changes={"data": Endless(ADDRESS)})))


def test_what_is_refused_is_never_asked_for_its_address():
    """Giving the address away pins a cuDF buffer for good."""
    for changes in (
        {"version": 4},
        {"mask": "m"},
        {"typestr": caps.native(">f4")},
        {"shape": None},
        {"strides": (4,)},
        {"stream": 0},
    ):
        data = LazyPair(ADDRESS)
        with pytest.raises(BufferError):
            versioned(dlshim.upgrade(CudaOnly(changes={"data": data} | changes)))
        assert data.asked == [], changes


def test_nothing_is_read_before_an_export():
    data = LazyPair(0)
    x = empty(changes={"data": data})
    wrapped = dlshim.upgrade(x)
    dlshim.inspect(x)
    repr(wrapped)
    assert (x.times_asked, data.asked) == (0, [])
    versioned(wrapped).release()
    assert x.times_asked == 1
    assert sorted(data.asked) == [0, 1]


def test_stream_0_matters_only_where_it_counts():
    x = empty(stream=0)
    with pytest.raises(BufferError):
        versioned(dlshim.upgrade(x), stream=1)
    for wrapped, stream in (
        (dlshim.upgrade(x), -1),
        (dlshim.upgrade(x, stream=-1), 1),
        (dlshim.upgrade(x, producer_stream=1), 1),
    ):
        versioned(wrapped, stream=stream).release()


def test_an_assumed_device_asks_no_driver():
    """torch and CuPy on ROCm offer this protocol too."""
    x = CudaOnly(address=ADDRESS)
    imported = versioned(dlshim.upgrade(x, assume_device=(10, 1)), stream=-1)
    assert (imported.view.device, imported.view.data) == ((10, 1), ADDRESS)
    imported.release()


# --- without elements -------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("version", [0, 1, 2, 3])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (4, 0), (2, 0, 2**62)], ids=repr)
def test_empty_arrays_need_no_driver(ask, version, shape):
    x = empty(shape=shape, version=version, stream=12345)
    for stream in (None, -1, 1, 2, 99):
        imported = ask(dlshim.upgrade(x), stream=stream)
        assert imported.view.shape == shape
        assert imported.view.device == (2, 0)
        assert imported.view.data == 0
        imported.release()


#: Elements without a dtype of DLPack.
NO_NUMBERS: dict[str, dict[str, Any]] = {
    "bytes": {"typestr": "|V8"},
    "structs": {"typestr": "|V4", "descr": [("x", caps.native("<f2")), ("y", caps.native("<f2"))]},
    "text": {"typestr": "|S4"},
    "dates": {"typestr": caps.native("<M8[ns]")},
    "long doubles": {"typestr": caps.native("<f16")},
    "objects": {"typestr": "|O8"},
    "bit fields": {"typestr": caps.native("<t1")},
}


@pytest.mark.parametrize("changes", NO_NUMBERS.values(), ids=NO_NUMBERS.keys())
def test_no_error_names_numpy_where_numpy_reads_no_memory(changes):
    """numpy.asarray(x) made an array of the object itself, whose bytes are its address."""

    class WithArray(CudaOnly):
        def __array__(self, *_given: Any, **_more: Any) -> Any:
            raise AssertionError("it is not called")

    told = [str(refused(empty(cls, changes=changes))) for cls in (CudaOnly, WithArray)]
    assert "numpy" not in told[0].partition("object: ")[2]
    assert "numpy.asarray(x)" in told[1]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (4, 0)], ids=repr)
def test_an_array_without_elements_may_have_no_address(shape):
    """numba/cuda/cudadrv/devicearray.py, line 121 of 0.43.1 to 0.45.1: the value of a NULL pointer
    of ctypes, which is None."""
    x = empty(changes={"data": (None, False), "shape": shape, "version": 0})
    taken = dlshim.from_dlpack(x)
    assert (taken.shape, taken.data_ptr(), taken.readonly) == (shape, 0, False)
    read_only = empty(changes={"data": (None, True), "shape": shape, "version": 0})
    assert dlshim.from_dlpack(read_only, readonly=True).readonly


@pytest.mark.parametrize("cls", [cai.WithDevice, cai.WithDeviceId, cai.WithDeviceInt])
def test_empty_arrays_say_themselves_where_they_are(cls):
    assert dlshim.from_dlpack(empty(cls, device_id=3)).device == (2, 3)
    assert dlshim.upgrade(empty(cls, device_id=3)).__dlpack_device__() == (2, 3)
    for odd in (-1, True, "one", 2**40, 2**80, None):
        assert dlshim.from_dlpack(empty(cls, device_id=odd)).device == (2, 0)


def test_a_device_that_raises_tells_nothing():
    class Silent(CudaOnly):
        failure: BaseException = RuntimeError("no device")

        @property
        def device(self) -> Any:
            raise self.failure

    assert dlshim.from_dlpack(empty(Silent)).device == (2, 0)
    for failure in (KeyboardInterrupt(), MemoryError("m")):
        x = empty(Silent)
        x.failure = failure
        with pytest.raises(type(failure)):
            dlshim.from_dlpack(x)


UNUSUAL: dict[str, dict[str, Any]] = {
    "strides": {"strides": (12, 4)},
    "strides that never count": {"strides": (13, 5)},
    "stream None": {"stream": None},
    "stream in a key that version 2 has not": {"stream": "rubbish", "version": 2},
    "data in a list": {"data": [0, False]},
    "lazy data": {"data": LazyPair(0)},
    "address with __index__": {"data": (Index(0), False)},
    "stream with __index__": {"stream": Index(1)},
    "version with __index__": {"version": Index(3)},
    "read-only of a number": {"data": (0, 0)},
}


@pytest.mark.parametrize("changes", UNUSUAL.values(), ids=UNUSUAL.keys())
def test_dicts_that_are_merely_unusual_are_taken(changes):
    tensor = dlshim.from_dlpack(empty(changes=changes))
    assert (tensor.shape, tensor.dtype) == ((0, 3), (2, 32, 1))
    assert not tensor.readonly


def test_a_lazy_pair_says_read_only():
    assert dlshim.from_dlpack(empty(changes={"data": LazyPair(0, True)})).readonly


@pytest.mark.parametrize(
    ("typestr", "name", "dtype"),
    [
        ("|b1", None, (6, 8, 1)),
        ("|u1", None, (1, 8, 1)),
        (caps.native("<c16"), None, (5, 128, 1)),
        (caps.native("<V2"), "bfloat16", (4, 16, 1)),
        ("|V1", "float8_e4m3fn", (10, 8, 1)),
        (caps.native("<f2"), None, (2, 16, 1)),
    ],
)
def test_dtypes(typestr, name, dtype):
    x = empty(changes={"typestr": typestr, "descr": [("", typestr)]})
    x.dtype = SimpleNamespace(name=name)
    assert dlshim.from_dlpack(x).dtype == dtype


def test_dtypes_without_a_name_can_be_named():
    x = empty(changes={"typestr": caps.native("<M8[ns]")})
    with pytest.raises(BufferError, match="reinterpret"):
        versioned(dlshim.upgrade(x))
    with versioned(dlshim.upgrade(x, reinterpret="int64")) as imported:
        assert imported.view.dtype == (0, 64, 1)


# --- no driver --------------------------------------------------------------------------


@functools.cache
def has_driver() -> bool:
    """In a process of its own: once it is mapped, it is there for all tests that follow."""
    look = "import ctypes\ntry: ctypes.CDLL('libcuda.so.1')\nexcept OSError: print('none')"
    return "none" not in child.run(look)


@BOTH
@pytest.mark.parametrize("stream", [None, -1, 1, 2, 77])
def test_without_a_driver_the_error_says_so(ask, stream):
    if has_driver():
        pytest.skip("this machine has a CUDA driver")
    data = LazyPair(ADDRESS)
    x = CudaOnly(changes={"data": data})
    with pytest.raises(BufferError) as error:
        ask(dlshim.upgrade(x), stream=stream)
    tells(error.value, "CudaOnly", "CUDA", "driver", "libcuda")
    assert sorted(data.asked) == [0, 1]


# --- out --------------------------------------------------------------------------------


def on(device: tuple[int, int], *arguments: Any, **keywords: Any) -> Any:
    return P2(*arguments, device=device, **keywords)


def test_a_tensor_says_version_3():
    x = on((2, 1), (3, 2), "int16")
    tensor = dlshim.from_dlpack(x)
    assert tensor.__cuda_array_interface__ == {
        "version": 3,
        "shape": (3, 2),
        "typestr": caps.native("<i2"),
        "strides": None,
        "data": (tensor.data_ptr(), False),
        "stream": 1,
    }


def test_strides_are_bytes():
    tensor = dlshim.from_dlpack(on((2, 0), (3, 2), "int16", strides=(1, 3)))
    assert tensor.strides == (1, 3)
    assert tensor.__cuda_array_interface__["strides"] == (2, 6)
    tensor = dlshim.from_dlpack(on((2, 0), (1, 2), "int16", strides=(77, 1)))
    assert tensor.__cuda_array_interface__["strides"] is None


def test_a_tensor_says_read_only():
    tensor = dlshim.from_dlpack(on((2, 0), readonly=True))
    assert tensor.__cuda_array_interface__["data"] == (tensor.data_ptr(), True)


def test_a_tensor_without_elements():
    tensor = dlshim.from_dlpack(on((2, 0), (2, 0)), stream=7)
    interface = tensor.__cuda_array_interface__
    assert interface["data"] == (0, False)
    assert interface["strides"] is None and interface["stream"] is None


@pytest.mark.parametrize("stream", [1, 2, 2**63 + 8], ids=hex)
@pytest.mark.parametrize("device_type", [2, 13])
def test_a_tensor_says_the_stream_it_was_taken_on(stream, device_type):
    tensor = dlshim.from_dlpack(on((device_type, 0)), stream=stream)
    assert tensor.__cuda_array_interface__["stream"] == stream


def test_pinned_memory_has_no_unfinished_work():
    tensor = dlshim.from_dlpack(on((3, 0)), stream=7)
    assert tensor.__cuda_array_interface__["stream"] is None
    assert tensor.__array_interface__["data"] == tensor.__cuda_array_interface__["data"]


def test_what_is_unknown_needs_a_driver_to_be_synced():
    if has_driver():
        pytest.skip("this machine has a CUDA driver")
    tensor = dlshim.from_dlpack(on((2, 0)), stream=-1)
    with pytest.raises(BufferError) as error:
        _ = tensor.__cuda_array_interface__
    tells(error.value, "Tensor", "CUDA", "libcuda")


@pytest.mark.parametrize("device_type", [1, 4, 7, 8, 10, 11, 14])
def test_memory_that_is_not_cudas(device_type):
    tensor = dlshim.from_dlpack(on((device_type, 0)))
    with pytest.raises(AttributeError) as error:
        _ = tensor.__cuda_array_interface__
    tells(error.value, "__cuda_array_interface__", "CUDA memory", f"device type {device_type}")


@pytest.mark.parametrize("dtype", [(0, 4, 1), (2, 32, 4), (17, 4, 2)], ids=repr)
def test_dtypes_that_it_cannot_say(dtype):
    tensor = dlshim.from_dlpack(on((2, 0), (2,), dtype))
    with pytest.raises(AttributeError) as error:
        _ = tensor.__cuda_array_interface__
    tells(error.value, "dtype", "reinterpret")


def test_there_and_back():
    first = dlshim.from_dlpack(on((2, 2), (3, 0), "int16", readonly=True))
    shown = Over(first)
    shown.device = SimpleNamespace(id=2)
    second = dlshim.from_dlpack(shown)
    for name in ("shape", "dtype", "device", "readonly"):
        assert getattr(second, name) == getattr(first, name)


def test_the_protocol_is_known():
    assert "__cuda_array_interface__" in _core._plan(empty())["offers"]
    spelled = " ".join(map(str, dlshim.inspect(empty()).protocols))
    assert "__cuda_array_interface__" in spelled
