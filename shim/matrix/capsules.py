"""Raw capsules, made and read without dlshim and any library: the independent witness."""

from __future__ import annotations

import ctypes as c
import itertools
import operator
import struct
import sys
from dataclasses import dataclass

from ..arrays import row_major
from ..look import TRIPLES

LEGACY = b"dltensor"
VERSIONED = b"dltensor_versioned"
FLAG_READ_ONLY = 1


# data, device type and id, ndim, dtype (code, bits, lanes), shape, strides, byte_offset
_TENSOR = "PiiiBBHPPQ"
# ..., manager_ctx, deleter
_LEGACY = struct.Struct(f"@{_TENSOR}PP")
# major, minor, manager_ctx, deleter, flags, ...
_VERSIONED = struct.Struct(f"@IIPPQ{_TENSOR}")
# Py_buffer: address, owner, length, and what is not looked at
_BUFFER = struct.Struct("@PPnniiPPPPP")

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
_get_buffer.argtypes = (c.py_object, c.c_void_p, c.c_int)
_release_buffer = _python.PyBuffer_Release
_release_buffer.argtypes = (c.c_void_p,)
_release_buffer.restype = None
_FULL_RO = 0x11C

# Objects that a managed struct refers to, by its address, until its deleter runs.  A capsule
# that nobody consumes keeps its entry: the child process is short-lived.
_alive: dict[int, tuple[object, ...]] = {}


@c.CFUNCTYPE(None, c.c_void_p)
def _delete(address: int) -> None:
    _alive.pop(address, None)


_DELETER = c.cast(_delete, c.c_void_p).value


def is_capsule(obj: object) -> bool:
    return type(obj).__name__ == "PyCapsule"


def buffer_address(obj: object) -> int | None:
    """Return the address of the first element of a buffer, None when it has none."""
    view = c.create_string_buffer(_BUFFER.size)
    _get_buffer(obj, view, _FULL_RO)
    address, _, length, *_ = _BUFFER.unpack(view.raw)
    _release_buffer(view)
    return address if length else None


def make_capsule(
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
    extents = (c.c_int64 * max(len(shape), 1))(*shape)
    steps = (c.c_int64 * max(len(shape), 1))(*strides)
    dims = (c.addressof(extents), c.addressof(steps))
    tensor = (address, 1, 0, len(shape), *TRIPLES[dtype], *dims, 0)
    if versioned:
        flags = FLAG_READ_ONLY if readonly else 0
        packed = _VERSIONED.pack(1, 3, 0, _DELETER, flags, *tensor)
    else:
        packed = _LEGACY.pack(*tensor, 0, _DELETER)
    managed = c.create_string_buffer(packed, len(packed))
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


def _int64s(address: int, count: int) -> tuple[int, ...]:
    return struct.unpack(f"={count}q", c.string_at(address, 8 * count)) if count else ()


def elements(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: tuple[int, int, int]
) -> tuple[float | int | bool, ...]:
    """Return the elements in row-major order; strides count elements."""
    _, bits, lanes = dtype
    steps = [stride * bits * lanes // 8 for stride in strides]
    return tuple(
        _element(address + sum(map(operator.mul, index, steps)), dtype)
        for index in itertools.product(*map(range, shape))
    )


def read_capsule(capsule: object) -> Contents:
    """Read an unconsumed capsule without consuming it; ValueError for any other."""
    flags = 0
    if _capsule_is_valid(capsule, LEGACY):
        at = _capsule_pointer(capsule, LEGACY)
        *fields, _, _ = _LEGACY.unpack(c.string_at(at, _LEGACY.size))
        versioned = False
    elif _capsule_is_valid(capsule, VERSIONED):
        at = _capsule_pointer(capsule, VERSIONED)
        _, _, _, _, flags, *fields = _VERSIONED.unpack(c.string_at(at, _VERSIONED.size))
        versioned = True
    else:
        raise ValueError(f"not an unconsumed DLPack capsule: {capsule!r}")
    data, _, _, ndim, code, bits, lanes, shape_at, strides_at, offset = fields
    shape = _int64s(shape_at, ndim)
    strides = _int64s(strides_at, ndim) if strides_at else row_major(shape)
    if not data and 0 not in shape:
        raise ValueError("the capsule has elements and no data")
    first = (data or 0) + offset
    return Contents(
        versioned=versioned,
        address=first,
        shape=shape,
        dtype=(code, bits, lanes),
        values=elements(first, shape, strides, (code, bits, lanes)),
        readonly=bool(flags & FLAG_READ_ONLY),
    )
