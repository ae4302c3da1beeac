"""Fake producers: one class per edition of the protocol and per peculiarity of the real ones.

P0 to P3 are the editions: functions, `__dlpack__` without and with `max_version`, the C table.
Each docstring names the library and version whose call shape it copies.  Every producer logs its
calls, so that a test can tell how it was asked.  Its memory counts up from zero unless a test
says otherwise.
"""

from __future__ import annotations

import ctypes as C
import enum
import functools
import inspect
import math
import mmap
import types
from collections.abc import Callable, Sequence
from typing import Any

from . import capsules as caps
from .capsules import CPU, IS_COPIED, READ_ONLY, DLTensor, Made

ALL_KEYWORDS = ("stream", "max_version", "dl_device", "copy")


class Array:
    """Memory and its layout, and the books about every export and every call."""

    def __init__(
        self,
        shape: Sequence[int] = (2, 3),
        dtype: str | tuple[int, int, int] = "float32",
        *,
        strides: Sequence[int] | None = None,
        start: int = 0,
        byte_offset: int = 0,
        null_strides: bool = False,
        device: tuple[int, int] = CPU,
        readonly: bool = False,
        deleter: bool = True,
        data: int | str | None = "memory",
        flags: int = 0,
        version: tuple[int, int] = (1, 0),
        memory: Any = None,
    ) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype
        self.strides = tuple(strides) if strides is not None else caps.row_major(shape)
        self.start = start
        self.byte_offset = byte_offset
        self.null_strides = null_strides
        self.device = device
        self.readonly = readonly
        self.deleter = deleter
        self.data = data
        self.flags = flags
        self.version = version
        own = caps.filled(self.shape, dtype, self.strides, start) if memory is None else memory
        self.memory = own
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self.device_calls = 0
        self.exports: list[Made] = []

    # what a test asks

    @property
    def element_zero(self) -> int:
        return caps.address_of(self.memory) + self.start * caps.itemsize_of(self.dtype)

    def values(self) -> list[Any]:
        return caps.numbers(self.shape, self.dtype, self.strides, self.start)

    @property
    def last(self) -> Made:
        return self.exports[-1]

    @property
    def keywords(self) -> list[dict[str, Any]]:
        """The keywords of each call so far, positional streams included."""
        return [dict(zip(("stream",), args, strict=False)) | kwargs for args, kwargs in self.calls]

    # what the editions use

    def _export(self, version: tuple[int, int] | None, **fields: Any) -> Made:
        made = Made(
            **{
                "shape": self.shape,
                "dtype": self.dtype,
                "version": version,
                "strides": self._strides_to_send(),
                "start": self.start,
                "byte_offset": self.byte_offset,
                "device": self.device,
                "memory": self.memory,
                "data": self.data,
                "deleter": self.deleter,
                "owner": self,
            }
            | fields
        )
        self.exports.append(made)
        return made

    def _strides_to_send(self) -> tuple[int, ...] | None:
        compact = self.strides == caps.row_major(self.shape)
        return None if self.null_strides and compact else self.strides

    def _legacy(self, **fields: Any) -> Any:
        return self._export(None, **fields).capsule()

    def _versioned(self, flags: int | None = None, **fields: Any) -> Any:
        if flags is None:
            flags = self.flags | (READ_ONLY if self.readonly else 0)
        return self._export(self.version, flags=flags, **fields).capsule()

    def _copied(self, version: tuple[int, int] | None, flags: int = IS_COPIED) -> Any:
        """A compact copy in memory of its own, which dies with the capsule."""
        size = caps.itemsize_of(self.dtype)
        count = math.prod(self.shape)
        block = caps.room(count * size)
        base = caps.address_of(self.memory) + self.start * size
        if self.strides == caps.row_major(self.shape):
            C.memmove(block, base, count * size)
        else:
            for k, offset in enumerate(caps.offsets(self.shape, self.strides)):
                C.memmove(C.addressof(block) + k * size, base + offset * size, size)
        made = self._export(
            version,
            strides=caps.row_major(self.shape),
            start=0,
            byte_offset=0,
            memory=block,
            owner=None,
            on_delete=lambda: caps.poison(block),
            **({} if version is None else {"flags": flags}),
        )
        return made.capsule()


class InC:
    """A method as one in C: it has no code object, which would say that it takes any keyword."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__signature__ = inspect.signature(function)

    def __get__(self, obj: Any, cls: type | None = None) -> Any:
        return self.function if obj is None else functools.partial(self.function, obj)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


class Dunder(Array):
    """`__dlpack__` and `__dlpack_device__`; TAKES lists the keywords that are known."""

    TAKES: tuple[str, ...] = ("stream",)
    POSITIONAL = 0
    DEVICE: Any = None

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append((args, kwargs))
        if len(args) > self.POSITIONAL:
            raise TypeError(f"__dlpack__() takes {self.POSITIONAL} positional arguments")
        for name in kwargs:
            if name not in self.TAKES:
                raise TypeError(f"__dlpack__() got an unexpected keyword argument '{name}'")
        return caps.lingering(self.answer(**dict(zip(self.TAKES, args, strict=False)), **kwargs))

    __dlpack__ = InC(__dlpack__)  # type: ignore[assignment]

    def __dlpack_device__(self) -> Any:
        self.device_calls += 1
        return self.device if self.DEVICE is None else self.DEVICE

    def answer(self, **asked: Any) -> Any:
        raise NotImplementedError


def wants_versioned(max_version: Any) -> bool:
    if max_version is None:
        return False
    if not isinstance(max_version, tuple) or len(max_version) != 2:
        raise TypeError("max_version must be None or a tuple with two elements")
    return max_version[0] >= 1


# --- P0: a function or a method that gives a capsule ----------------------------------


class P0ToDlpack(Array):
    """`x.toDlpack()`, legacy: CuPy <= 9."""

    def toDlpack(self) -> Any:
        self.calls.append(((), {}))
        return self._legacy()


class P0VersionedToDlpack(Array):
    """`x.toDlpack()`, versioned without being asked: CuPy 13.4.0 and 14."""

    def toDlpack(self) -> Any:
        self.calls.append(((), {}))
        return self._versioned()


class P0SnakeToDlpack(Array):
    """`x.to_dlpack()`, legacy: open3d 0.20 `core.Tensor`, cuDF."""

    def to_dlpack(self) -> Any:
        self.calls.append(((), {}))
        return self._legacy()


class P0Mxnet(Array):
    """`x.to_dlpack_for_read()` and `x.to_dlpack_for_write()`, NULL strides: MXNet 1.9.1."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **({"null_strides": True} | kwargs))

    def to_dlpack_for_read(self) -> Any:
        self.calls.append(((), {"for": "read"}))
        return self._legacy()

    def to_dlpack_for_write(self) -> Any:
        self.calls.append(((), {"for": "write"}))
        return self._legacy()


# --- P1: `__dlpack__` with `stream` at most, legacy -----------------------------------


class P1(Dunder):
    """`__dlpack__(*, stream=None)`, legacy: NumPy 1.22 to 2.0, CuPy 13.0 to 13.3."""

    def answer(self, stream: Any = None) -> Any:
        if stream is not None and self.device == CPU:
            raise RuntimeError("only supports stream=None")
        return self._legacy()


class P1Positional(P1):
    """`__dlpack__(stream=None)`, also by position: torch 1.10 to 2.8, dpctl <= 0.16."""

    POSITIONAL = 1


class P1NullStrides(P1):
    """NULL strides for row-major data: NumPy <= 2.3, pyarrow <= 25, warp 1.19."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **({"null_strides": True} | kwargs))


class P1Numpy124(P1):
    """Refuses to export read-only memory, which legacy cannot say: NumPy 1.24 to 2.0."""

    def answer(self, stream: Any = None) -> Any:
        if self.readonly:
            raise BufferError("Cannot export readonly array")
        return super().answer(stream=stream)


class P1a(Dunder):
    """`__dlpack__()` without any keyword: MLX 0.14 to 0.31."""

    TAKES = ()

    def answer(self) -> Any:
        return self._legacy()


class P1aNoDevice(Array):
    """`__dlpack__()` and no `__dlpack_device__`: JAX 0.3.15 to 0.4.15."""

    def __dlpack__(self) -> Any:
        self.calls.append(((), {}))
        return caps.lingering(self._legacy())


class P1b(Dunder):
    """Takes every keyword and answers legacy all the same: JAX >= 0.4.27, MLX 0.32."""

    TAKES = ALL_KEYWORDS

    def answer(
        self, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        if copy:
            return self._copied(None)
        return self._legacy()


class P1bOffset(P1b):
    """Sends its slices as a base address with a `byte_offset`: MLX 0.32.4."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **({"start": 4, "byte_offset": 16} | kwargs))


# --- P2: legacy or versioned as asked -------------------------------------------------


class P2(Dunder):
    """Everything of the 2023.12 standard, as NumPy >= 2.1 does it."""

    TAKES = ALL_KEYWORDS

    def answer(
        self, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        self.check(stream=stream, dl_device=dl_device)
        versioned = wants_versioned(max_version)
        if copy:
            return self._copied(self.version if versioned else None)
        if versioned:
            return self._versioned()
        if self.readonly:
            raise BufferError(
                "Cannot export readonly array since signalling readonly is unsupported by DLPack"
            )
        return self._legacy()

    def check(self, stream: Any, dl_device: Any) -> None:
        if stream is not None and self.device == CPU:
            raise RuntimeError("only supports stream=None")
        if dl_device is not None and tuple(dl_device) != self.device:
            raise BufferError("unsupported device requested")


class P2Torch(P2):
    """torch 2.9 to 2.15: says 1.3, default stream -1, other exceptions, `copy` without a flag."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **({"version": (1, 3)} | kwargs))

    def answer(
        self, stream: Any = -1, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        if self.device == CPU and stream not in (None, -1):
            raise AssertionError("stream should be None on cpu.")
        if copy:
            return self._copied(self.version if wants_versioned(max_version) else None, flags=0)
        if wants_versioned(max_version):
            return self._versioned(flags=self.flags)
        return self._legacy()


class P2LegacyOfReadonly(P2):
    """Hands read-only memory to legacy consumers without a word: cuda.core, nanobind, dpctl."""

    def answer(
        self, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        self.check(stream=stream, dl_device=dl_device)
        if copy:
            raise BufferError("copy=True is not supported")
        return self._versioned() if wants_versioned(max_version) else self._legacy()


class P2NoCopyNoDevice(P2LegacyOfReadonly):
    """Any `dl_device` and any `copy=True` is a BufferError: cuda.core 1.2, tvm-ffi 0.1.15."""

    def check(self, stream: Any, dl_device: Any) -> None:
        if dl_device is not None:
            raise BufferError("dl_device is not supported")


class P2Pyarrow26(P2):
    """pyarrow 26: immutable, 1.3, strided `copy=True` copies the wrong bytes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **({"version": (1, 3), "readonly": True} | kwargs))

    def check(self, stream: Any, dl_device: Any) -> None:
        if stream is not None:
            raise NotImplementedError("Only stream=None is supported.")

    def answer(self, copy: Any = None, max_version: Any = None, **asked: Any) -> Any:
        if copy is not None and not wants_versioned(max_version):
            raise BufferError("copy needs max_version")
        if copy:
            block = (C.c_char * (64 + C.sizeof(self.memory)))()
            C.memmove(block, self.element_zero, len(self.values()) * caps.itemsize_of(self.dtype))
            return self._versioned(
                flags=IS_COPIED, memory=block, start=0, strides=caps.row_major(self.shape)
            )
        if self.readonly and not wants_versioned(max_version):
            raise NotImplementedError("immutable tensors need max_version")
        return super().answer(max_version=max_version, **asked)


class P2ExactMinor(P2):
    """Compares minors the wrong way round: metatensor before 2026-05 (Rust producers)."""

    def answer(self, max_version: Any = None, **asked: Any) -> Any:
        if max_version is not None and tuple(max_version) != (1, 0):
            raise BufferError(f"supports DLPack 1.0, not {max_version}")
        return super().answer(max_version=max_version, **asked)


class P2Dpctl(P2LegacyOfReadonly):
    """Ignores `dl_device` and `copy` when `max_version` is missing: dpctl."""

    def check(self, stream: Any, dl_device: Any) -> None:
        pass


class P2TvmFfi(P2):
    """`max_version=(0, 8)` is an AttributeError; bare `copy=True` is ignored: tvm-ffi 0.1.15."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **({"version": (1, 3)} | kwargs))

    def answer(self, max_version: Any = None, copy: Any = None, **asked: Any) -> Any:
        if max_version is not None and max_version[0] == 0:
            raise AttributeError("'Tensor' object has no attribute '__to_dlpack'")
        if wants_versioned(max_version):
            if copy:
                raise BufferError("copy=True is not supported")
            return self._versioned()
        return self._legacy()


class CopiesAlways(P2):
    """A fresh, flagged copy for every capsule, gone with it: CuPy with `dl_device=(1, 0)`."""

    def answer(self, max_version: Any = None, **asked: Any) -> Any:
        return self._copied(self.version if wants_versioned(max_version) else None)


class VersionedAlways(Dunder):
    """Versioned whatever was asked: naive wrappers, torch >= 2.9 wrapped so (CuTe DSL)."""

    TAKES = ALL_KEYWORDS

    def answer(self, **asked: Any) -> Any:
        return self._versioned()


class Recorder(P2):
    """A P2 whose calls are what the test is after."""


# --- P3: a C table on the type ------------------------------------------------------


class ExchangeHeader(C.Structure):
    _fields_ = [("major", C.c_uint32), ("minor", C.c_uint32), ("prev_api", C.c_void_p)]


class ExchangeTable(C.Structure):
    _fields_ = [
        ("header", ExchangeHeader),
        ("managed_tensor_allocator", C.c_void_p),
        ("managed_tensor_from_py_object_no_sync", C.c_void_p),
        ("managed_tensor_to_py_object_no_sync", C.c_void_p),
        ("dltensor_from_py_object_no_sync", C.c_void_p),
        ("current_work_stream", C.c_void_p),
    ]


_FromObject = C.PYFUNCTYPE(C.c_int, C.c_void_p, C.c_void_p)
_CurrentStream = C.PYFUNCTYPE(C.c_int, C.c_int32, C.c_int32, C.c_void_p)
_Allocator = C.PYFUNCTYPE(C.c_int, C.c_void_p, C.c_void_p, C.c_void_p, C.c_void_p)


def _object_at(address: int) -> Any:
    return C.cast(address, C.py_object).value


@_FromObject
def _from_object(obj: int, out: int) -> int:
    array = _object_at(obj)
    array.table_calls += 1
    made = array.table_export()
    if made is None:
        return -1
    made.handed_out = True
    C.c_void_p.from_address(out).value = made.address
    return 0


@_FromObject
def _borrow(obj: int, out: int) -> int:
    array = _object_at(obj)
    array.table_borrows += 1
    array.borrowed = made = array.table_export()
    if made is None:
        return -1
    if not made.handed_out:
        caps.forget(made)  # borrowed, not owned: nobody will call its deleter
    C.memmove(out, C.addressof(made.struct.dl_tensor), C.sizeof(DLTensor))
    return 0


@_FromObject
def _to_object(tensor: int, out: int) -> int:
    return -1


@_CurrentStream
def _current_stream(device_type: int, device_id: int, out: int) -> int:
    C.c_void_p.from_address(out).value = None
    return 0


@_Allocator
def _allocate(prototype: int, out: int, context: int, set_error: int) -> int:
    return -1


def _address(function: Any) -> int:
    return C.cast(function, C.c_void_p).value


caps.keep_for_ever(_from_object, _borrow, _to_object, _current_stream, _allocate)

# A table function must fail with a Python exception set, which a ctypes callback cannot do.
# PyObject_IsTrue has the right shape: it asks `obj.__bool__` and passes on what that raises.
RAISES_FROM_BOOL = _address(C.pythonapi.PyObject_IsTrue)

_tables: list[Any] = []  # tables are static: they live as long as the process


def c_table(
    version: tuple[int, int] = (1, 3), prev_api: int | None = None, **functions: int | None
) -> ExchangeTable:
    table = ExchangeTable()
    table.header.major, table.header.minor = version
    table.header.prev_api = prev_api
    table.managed_tensor_allocator = _address(_allocate)
    table.managed_tensor_from_py_object_no_sync = _address(_from_object)
    table.managed_tensor_to_py_object_no_sync = _address(_to_object)
    table.dltensor_from_py_object_no_sync = _address(_borrow)
    table.current_work_stream = _address(_current_stream)
    for name, function in functions.items():
        setattr(table, name, function)
    _tables.append(table)
    return table


def table_capsule(table: ExchangeTable) -> Any:
    return caps.new_capsule(C.addressof(table), "dlpack_exchange_api")


class TableMixin:
    """The producer's half of the table's functions."""

    table_calls = 0
    table_borrows = 0
    borrowed: Any = None

    def table_export(self) -> Made | None:
        flags = self.flags | (READ_ONLY if self.readonly else 0)
        return self._export((1, 3), flags=flags)


class P3(TableMixin, P2):
    """P2 and `__dlpack_c_exchange_api__` as a capsule: torch >= 2.10, Paddle 3.3, cuda.core."""

    __dlpack_c_exchange_api__ = table_capsule(c_table())


class P3OldSpelling(TableMixin, P2):
    """`__c_dlpack_exchange_api__` as an int: tvm-ffi's patch of torch < 2.10, 0.1.0 to 0.1.2."""

    __c_dlpack_exchange_api__ = C.addressof(c_table())


class P3OldSpellingCapsule(TableMixin, P2):
    """The old spelling with a capsule: tvm-ffi 0.1.4."""

    __c_dlpack_exchange_api__ = table_capsule(c_table())


class P3NewSpellingInt(TableMixin, P2):
    """The new spelling with an int, which tvm-ffi 0.1.5 took as well."""

    __dlpack_c_exchange_api__ = C.addressof(c_table())


class P3NoBorrow(TableMixin, P2):
    """`dltensor_from_py_object_no_sync` may be NULL."""

    __dlpack_c_exchange_api__ = table_capsule(c_table(dltensor_from_py_object_no_sync=None))


class P3TableOnly(TableMixin, Array):
    """A table and no `__dlpack__` at all."""

    __dlpack_c_exchange_api__ = table_capsule(c_table())


class P3Failing(TableMixin, P2):
    """A table whose export raises whatever `failure` is."""

    failure: Any = BufferError("the table cannot")
    __dlpack_c_exchange_api__ = table_capsule(
        c_table(
            managed_tensor_from_py_object_no_sync=RAISES_FROM_BOOL,
            dltensor_from_py_object_no_sync=None,
        )
    )

    def __bool__(self) -> bool:
        self.table_calls += 1
        raise self.failure


class P3Silent(TableMixin, P2):
    """A table that fails without an exception."""

    __dlpack_c_exchange_api__ = table_capsule(c_table())

    def table_export(self) -> Made | None:
        return None


class P3NullData(TableMixin, P2):
    """A table that answers NULL data with elements, where `__dlpack__` does it right."""

    __dlpack_c_exchange_api__ = table_capsule(c_table())

    def table_export(self) -> Made | None:
        return self._export((1, 3), data=None)


class P3MajorTwo(TableMixin, P2):
    """A table of a major version that nobody knows."""

    __dlpack_c_exchange_api__ = table_capsule(c_table((2, 0)))


class P3Older(TableMixin, P2):
    """A table of 2.0 that names one of 1.3 as its `prev_api`."""

    __dlpack_c_exchange_api__ = table_capsule(c_table((2, 0), prev_api=C.addressof(c_table())))


# --- peculiar refusals ----------------------------------------------------------------


class Strict(Dunder):
    """Keywords refused by value, NotImplementedError: array-api-strict on NumPy < 2.1."""

    TAKES = ALL_KEYWORDS

    def answer(
        self, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        if max_version is not None or dl_device is not None or copy is not None:
            raise NotImplementedError("The max_version argument is not yet implemented")
        return self._legacy()


class StrictValueError(Strict):
    """The same with ValueError: array-api-strict with an `api_version` before 2023.12."""

    def answer(self, **asked: Any) -> Any:
        if any(asked.get(name) is not None for name in ("max_version", "dl_device", "copy")):
            raise ValueError("needs api_version 2023.12")
        return self._legacy()


class Tensorflow(Dunder):
    """Drops `max_version`, RuntimeError for the others: TensorFlow >= 2.13 EagerTensor."""

    TAKES = ALL_KEYWORDS

    def answer(
        self, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        if stream is not None or dl_device is not None or copy:
            raise RuntimeError("only stream=None, dl_device=None and copy=None are supported")
        return self._legacy()


class Asserting(Dunder):
    """AssertionError for keywords it does not know: Paddle 3.3.1 with a stream."""

    TAKES = ALL_KEYWORDS

    def answer(self, **asked: Any) -> Any:
        assert all(value is None for value in asked.values()), "only bare"
        return self._legacy()


class PyarrowWithNulls(P1):
    """A TypeError about the data, whatever is asked: pyarrow <= 25 with nulls or bool."""

    def answer(self, stream: Any = None) -> Any:
        raise TypeError("Can only use DLPack on arrays with no nulls.")


class Raises(Dunder):
    """Raises what the test says, every time, once its keywords are accepted."""

    TAKES = ALL_KEYWORDS

    def __init__(self, failure: BaseException, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.failure = failure

    def answer(self, **asked: Any) -> Any:
        raise self.failure


class RefusesLegacyOnly(P2):
    """BufferError for legacy, which the versioned step cures: read-only NumPy >= 2.1."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **({"readonly": True} | kwargs))


class Placeholder(Array):
    """`__dlpack__` that only raises NotImplementedError: interchange buffers of pandas, pyarrow."""

    Device = enum.IntEnum("Device", {"CPU": 1})

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append((args, kwargs))
        raise NotImplementedError("__dlpack__")

    def __dlpack_device__(self) -> Any:
        return (self.Device.CPU, None)


class OneShot(P1):
    """Gives its buffer away on the first export: JAX of 2020."""

    def answer(self, stream: Any = None) -> Any:
        if self.exports:
            raise RuntimeError("Cannot convert deleted/invalid buffer to DLPack tensor.")
        return super().answer(stream=stream)


class SameCapsule(Dunder):
    """Hands out one and the same capsule again and again: caching wrappers."""

    def answer(self, stream: Any = None) -> Any:
        if not hasattr(self, "cached"):
            self.cached = self._legacy()
        return self.cached


class GivesRubbish(Dunder):
    """Answers with what the test put in `rubbish`."""

    TAKES = ALL_KEYWORDS

    def __init__(self, rubbish: Any) -> None:
        super().__init__()
        self.rubbish = rubbish

    def answer(self, **asked: Any) -> Any:
        return self.rubbish


# --- peculiar devices -----------------------------------------------------------------


class IntDevice(enum.IntEnum):
    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3


class ForeignEnum:
    """An enum member as pybind11 makes them: not an int, but int() of it works."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value


class PaddleDevice(P1Positional):
    """Device `(enum, None)`: Paddle 3.2 and 3.3."""

    DEVICE = (IntDevice.kDLCPU, None)


class Open3dDevice(P1):
    """Device with an enum that is no int: open3d 0.20."""

    DEVICE = (ForeignEnum(1), 0)


class EnumDevice(P2):
    """Device with an IntEnum member: torch, JAX."""

    DEVICE = (IntDevice.kDLCPU, 0)


class DisagreeingDevice(P2Torch):
    """Says pinned where its capsule says host: torch with pinned memory."""

    DEVICE = (IntDevice.kDLCUDAHost, 0)


class BrokenDevice(P2):
    """`__dlpack_device__` raises while `__dlpack__` works: torch's out-of-tree devices."""

    def __dlpack_device__(self) -> Any:
        self.device_calls += 1
        raise ValueError("Unknown device type openreg for Dlpack")


# --- where the method lives -----------------------------------------------------------


class InstanceOnly(Array):
    """`__dlpack__` only on the instance: dynamic wrappers, mocks."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        inner = P1(*args, **(kwargs | {"memory": self.memory}))
        self.inner = inner
        self.__dlpack__ = inner.__dlpack__
        self.__dlpack_device__ = inner.__dlpack_device__


class ByGetattr(Array):
    """Forwards everything by `__getattr__`: proxies."""

    def __getattr__(self, name: str) -> Any:
        if name in ("__dlpack__", "__dlpack_device__"):
            inner = P1(
                self.shape, self.dtype, strides=self.strides, start=self.start, memory=self.memory
            )
            self.__dict__["inner"] = inner
            return getattr(inner, name)
        raise AttributeError(name)


# --- classes that bear the names of real ones -----------------------------------------


def masquerade(base: type, name: str, module: str, **members: Any) -> type:
    """A class that passes for another library's: recognised by name, never by import."""
    return type(name, (base,), {"__module__": module, "__qualname__": name, **members})


def paddle_like(*, table: bool = True) -> type:
    """`paddle.Tensor` of 3.3: `__dlpack__` refuses what requires grad, the C table does not.

    PaddlePaddle/Paddle, python/paddle/base/dygraph/tensor_patch_methods.py, __dlpack__: raises
    BufferError unless `stop_gradient`.
    """
    base: Any = P3 if table else P2

    def __init__(self: Any, *args: Any, stop_gradient: bool = True, **kwargs: Any) -> None:
        base.__init__(self, *args, **kwargs)
        self.stop_gradient = stop_gradient

    def detach(self: Any) -> Any:
        self.stop_gradient = True
        return self

    def answer(self: Any, **asked: Any) -> Any:
        if not self.stop_gradient:
            raise BufferError("Can't get __dlpack__ from Tensor that requires gradients")
        return base.answer(self, **asked)

    members = {"__init__": __init__, "answer": answer, "detach": detach}
    return masquerade(base, "Tensor", "paddle", **members)


def torch_like(*, table: bool = False, edition: int = 2) -> type:
    """`torch.Tensor`: autograd, conjugate and negative bits, `detach()`; 2.x or older."""
    base: Any = (P3 if table else P2Torch) if edition >= 2 else P1Positional

    def __init__(
        self: Any,
        *args: Any,
        requires_grad: bool = False,
        conj: bool = False,
        neg: bool = False,
        **kwargs: Any,
    ) -> None:
        base.__init__(self, *args, **kwargs)
        self.requires_grad = requires_grad
        self._conj, self._neg = conj, neg
        self.detached = 0

    def answer(self: Any, **asked: Any) -> Any:
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if self._conj:
            raise BufferError("Can't export tensors with the conjugate bit set")
        return base.answer(self, **asked)

    def detach(self: Any) -> Any:
        self.detached += 1
        plain = type(self)(self.shape, self.dtype, memory=self.memory, strides=self.strides)
        plain._conj, plain._neg, plain.start = self._conj, self._neg, self.start
        return plain

    def resolved(self: Any, bit: str) -> Any:
        """Memory of its own, as torch makes it where the bit is set; else the tensor itself."""
        if not getattr(self, bit):
            return self
        plain = type(self)(self.shape, self.dtype, requires_grad=self.requires_grad)
        plain._conj, plain._neg = self._conj, self._neg
        setattr(plain, bit, False)
        return plain

    return masquerade(
        base,
        "Tensor",
        "torch",
        __init__=__init__,
        answer=answer,
        detach=detach,
        is_conj=lambda self: self._conj,
        is_neg=lambda self: self._neg,
        resolve_conj=lambda self: resolved(self, "_conj"),
        resolve_neg=lambda self: resolved(self, "_neg"),
    )


def torch_wrapper_like(tensor: type) -> type:
    """`torch.utils.dlpack.ReadOnlyTensorWrapper` of torch 2.15 over such a `torch.Tensor`.

    It has a `__dlpack__` and a C table of its own, and a hook that refuses all other questions.
    """

    def __dlpack__(self: Any, **keywords: Any) -> Any:
        return tensor.__dlpack__(self, **({"max_version": (1, 0)} | keywords))  # type: ignore[attr-defined]

    def refuse(cls: type, *_: Any) -> Any:
        raise RuntimeError("the wrapper only supports DLPack export")

    def __init__(self: Any, *args: Any, **keywords: Any) -> None:
        tensor.__init__(self, *args, readonly=True, **keywords)  # type: ignore[misc]

    own: dict[str, Any] = {"__torch_function__": classmethod(refuse)}
    table = getattr(tensor, "__dlpack_c_exchange_api__", None)
    if table is not None:
        own["__dlpack_c_exchange_api__"] = table
    return masquerade(
        tensor,
        "ReadOnlyTensorWrapper",
        "torch.utils.dlpack",
        __init__=__init__,
        __dlpack__=__dlpack__,
        **own,
    )


def jax_like() -> type:
    """`jaxlib._jax.ArrayImpl` of JAX 0.10: immutable, and legacy cannot say so."""
    return masquerade(P1b, "ArrayImpl", "jaxlib._jax")


class _JaxBuffer(P1b, mmap.mmap):
    """Its buffer has ones, its `__dlpack__` counts up; once closed, it refuses its buffer."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return mmap.mmap.__new__(cls, -1, 6)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__((6,), "uint8", **kwargs)
        self[:] = bytes([1]) * 6


class _JaxStating(_JaxBuffer):
    def answer(self, max_version: Any = None, **asked: Any) -> Any:
        return self._legacy() if max_version is None else self._versioned(READ_ONLY)


def jax_buffer_like(*, states: bool = False) -> type:
    """`ArrayImpl` with its buffer; it states READ_ONLY from JAX 0.12 on."""
    return masquerade(_JaxStating if states else _JaxBuffer, "ArrayImpl", "jaxlib._jax")


def strict_like() -> type:
    """`array_api_strict._array_object.Array` over a NumPy that has no keywords."""
    return masquerade(Strict, "Array", "array_api_strict._array_object")


class _EagerTensor(Tensorflow):
    """Scalars are exported with shape (1,)."""

    def _export(self, version: tuple[int, int] | None, **fields: Any) -> Made:
        flat = {} if self.shape else {"shape": (1,), "strides": (1,)}
        return super()._export(version, **(fields | flat))


def tensorflow_like(**members: Any) -> type:
    """`EagerTensor` of TensorFlow 2.21: immutable, RuntimeError on keywords."""
    return masquerade(_EagerTensor, "EagerTensor", "tensorflow.python.framework.ops", **members)


class _OrtNative(P1):
    """The native half of an OrtValue: its capsule does not own the memory."""

    POSITIONAL = 1

    def _export(self, version: tuple[int, int] | None, **fields: Any) -> Made:
        return super()._export(version, **(fields | {"owner": None}))

    def __del__(self) -> None:
        caps.poison(self.memory)


def onnxruntime_like(base: type = _OrtNative, **members: Any) -> type:
    """`OrtValue` of onnxruntime 1.31: its memory dies with it, whoever holds a capsule."""
    module = "onnxruntime.capi.onnxruntime_inference_collection"
    return masquerade(base, "OrtValue", module, **members)


def function_module(name: str, function: Callable[[Any], Any]) -> dict[str, types.ModuleType]:
    """Modules under which a capsule-giving function is found, for `sys.modules`.

    `tensorflow.experimental.dlpack.to_dlpack` gives tensorflow, tensorflow.experimental and
    tensorflow.experimental.dlpack, each an attribute of the one before.
    """
    *path, last = name.split(".")
    made: dict[str, types.ModuleType] = {}
    parent = None
    for depth in range(1, len(path) + 1):
        full = ".".join(path[:depth])
        module = made[full] = types.ModuleType(full)
        if parent is not None:
            setattr(parent, path[depth - 1], module)
        parent = module
    setattr(parent, last, function)
    return made


# --- every well-behaved way in, for tests that walk them all --------------------------

EDITIONS: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        P0ToDlpack,
        P0VersionedToDlpack,
        P0SnakeToDlpack,
        P0Mxnet,
        P1,
        P1Positional,
        P1NullStrides,
        P1Numpy124,
        P1a,
        P1aNoDevice,
        P1b,
        P1bOffset,
        P2,
        P2Torch,
        P2LegacyOfReadonly,
        P2NoCopyNoDevice,
        P2ExactMinor,
        P2Dpctl,
        P2TvmFfi,
        VersionedAlways,
        P3,
        P3OldSpelling,
        P3OldSpellingCapsule,
        P3NewSpellingInt,
        P3NoBorrow,
        P3TableOnly,
        P3Silent,
        P3NullData,
        P3MajorTwo,
        P3Older,
        Strict,
        StrictValueError,
        Tensorflow,
        Asserting,
        PaddleDevice,
        Open3dDevice,
        EnumDevice,
        DisagreeingDevice,
        BrokenDevice,
        InstanceOnly,
        ByGetattr,
    )
}


def fresh(base: type, **members: Any) -> type:
    """A new type of the same name and behaviour, of which nothing has been learned yet, and with
    these members."""
    return masquerade(base, base.__name__, base.__module__, **members)
