"""DLPack capsules through ctypes: made and read without dlshim and without any library.

The matrix uses this as its independent witness: what stands in a capsule is read
here, field by field, and raw capsules for other libraries are made here.
"""

from __future__ import annotations

import ctypes as c
import itertools
import operator
import struct
import sys
from dataclasses import dataclass

__all__ = ["Contents", "buffer_address", "dense_strides", "is_capsule", "make", "read"]

DTYPES = {
    "float32": (2, 32, 1),
    "bool": (6, 8, 1),
    "uint8": (1, 8, 1),
    "bfloat16": (4, 16, 1),
}
LEGACY = b"dltensor"
VERSIONED = b"dltensor_versioned"
FLAG_READ_ONLY = 1


class _Tensor(c.Structure):
    _fields_ = (
        ("data", c.c_void_p),
        ("device_type", c.c_int32),
        ("device_id", c.c_int32),
        ("ndim", c.c_int32),
        ("code", c.c_uint8),
        ("bits", c.c_uint8),
        ("lanes", c.c_uint16),
        ("shape", c.POINTER(c.c_int64)),
        ("strides", c.POINTER(c.c_int64)),
        ("byte_offset", c.c_uint64),
    )


_Deleter = c.CFUNCTYPE(None, c.c_void_p)


class _Buffer(c.Structure):
    _fields_ = (
        ("buf", c.c_void_p),
        ("obj", c.py_object),
        ("len", c.c_ssize_t),
        ("itemsize", c.c_ssize_t),
        ("readonly", c.c_int),
        ("ndim", c.c_int),
        ("format", c.c_char_p),
        ("shape", c.c_void_p),
        ("strides", c.c_void_p),
        ("suboffsets", c.c_void_p),
        ("internal", c.c_void_p),
    )


class _Legacy(c.Structure):
    _fields_ = (("tensor", _Tensor), ("manager_ctx", c.c_void_p), ("deleter", _Deleter))


class _Versioned(c.Structure):
    _fields_ = (
        ("major", c.c_uint32),
        ("minor", c.c_uint32),
        ("manager_ctx", c.c_void_p),
        ("deleter", _Deleter),
        ("flags", c.c_uint64),
        ("tensor", _Tensor),
    )


# A handle of our own: libraries set prototypes on the functions of ctypes.pythonapi.
_python = c.PyDLL(None)
_capsule_new = _python.PyCapsule_New
_capsule_new.restype = c.py_object
_capsule_new.argtypes = (c.c_void_p, c.c_char_p, c.c_void_p)
_capsule_is_valid = _python.PyCapsule_IsValid
_capsule_is_valid.argtypes = (c.py_object, c.c_char_p)
_capsule_pointer = _python.PyCapsule_GetPointer
_capsule_pointer.restype = c.c_void_p
_capsule_pointer.argtypes = (c.py_object, c.c_char_p)
_get_buffer = _python.PyObject_GetBuffer
_get_buffer.argtypes = (c.py_object, c.POINTER(_Buffer), c.c_int)
_release_buffer = _python.PyBuffer_Release
_release_buffer.argtypes = (c.POINTER(_Buffer),)
_release_buffer.restype = None
_FULL_RO = 0x11C

# What a managed struct refers to, by its address, until its deleter runs.  A capsule
# that nobody consumes keeps its entry: the child process is short-lived.
_alive: dict[int, tuple[object, ...]] = {}


@_Deleter
def _delete(address: int) -> None:
    _alive.pop(address, None)


def is_capsule(obj: object) -> bool:
    return type(obj).__name__ == "PyCapsule"


def buffer_address(obj: object) -> int | None:
    """Return the address of the first element of a buffer, None when it has none."""
    buffer = _Buffer()
    _get_buffer(obj, c.byref(buffer), _FULL_RO)
    address = buffer.buf if buffer.len else None
    _release_buffer(c.byref(buffer))
    return address


def make(
    address: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: str,
    *,
    versioned: bool,
    readonly: bool = False,
    keep: object = None,
) -> object:
    """Return a new capsule over host memory; ``keep`` lives until its deleter runs."""
    managed = _Versioned() if versioned else _Legacy()
    tensor = managed.tensor
    extents = (c.c_int64 * max(len(shape), 1))(*shape)
    steps = (c.c_int64 * max(len(shape), 1))(*strides)
    tensor.data = address
    tensor.device_type, tensor.device_id = 1, 0
    tensor.ndim = len(shape)
    tensor.code, tensor.bits, tensor.lanes = DTYPES[dtype]
    tensor.shape = c.cast(extents, c.POINTER(c.c_int64))
    tensor.strides = c.cast(steps, c.POINTER(c.c_int64))
    managed.deleter = _delete
    if versioned:
        managed.major, managed.minor = 1, 3
        managed.flags = FLAG_READ_ONLY if readonly else 0
    _alive[c.addressof(managed)] = (managed, extents, steps, keep)
    return _capsule_new(c.addressof(managed), VERSIONED if versioned else LEGACY, None)


@dataclass(frozen=True)
class Contents:
    """What an unconsumed capsule says, and the elements behind it."""

    versioned: bool
    address: int
    shape: tuple[int, ...]
    dtype: tuple[int, int, int]
    values: tuple[float | int | bool, ...]
    readonly: bool


def _element(address: int, dtype: tuple[int, int, int]) -> float | int | bool:
    code, bits, _ = dtype
    raw = c.string_at(address, bits // 8)
    if code == 4:  # bfloat16 is the upper half of a float32
        return struct.unpack("=f", struct.pack("=I", int.from_bytes(raw, sys.byteorder) << 16))[0]
    if code == 6:
        return raw != b"\0"
    if code == 2:
        return struct.unpack({32: "=f", 64: "=d"}[bits], raw)[0]
    return int.from_bytes(raw, sys.byteorder, signed=code == 0)


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the row-major element strides of a shape."""
    strides = [1] * len(shape)
    for axis in reversed(range(len(shape) - 1)):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def read(capsule: object) -> Contents:
    """Read an unconsumed capsule without consuming it; ValueError for any other."""
    for name, kind in ((LEGACY, _Legacy), (VERSIONED, _Versioned)):
        if _capsule_is_valid(capsule, name):
            managed = kind.from_address(_capsule_pointer(capsule, name))
            break
    else:
        raise ValueError(f"not an unconsumed DLPack capsule: {capsule!r}")
    tensor = managed.tensor
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else dense_strides(shape)
    dtype = (tensor.code, tensor.bits, tensor.lanes)
    first = (tensor.data or 0) + tensor.byte_offset
    steps = [stride * tensor.bits * tensor.lanes // 8 for stride in strides]
    return Contents(
        versioned=kind is _Versioned,
        address=first,
        shape=shape,
        dtype=dtype,
        values=tuple(
            _element(first + sum(map(operator.mul, index, steps)), dtype)
            for index in itertools.product(*map(range, shape))
        ),
        readonly=kind is _Versioned and bool(managed.flags & FLAG_READ_ONLY),
    )
