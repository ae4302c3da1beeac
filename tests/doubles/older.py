"""Objects that speak only an older protocol: array struct, array interface, buffer."""

from __future__ import annotations

import ctypes as C
import functools
from collections.abc import Sequence
from typing import Any

from . import capsules as caps

# numpy/ndarraytypes.h
C_CONTIGUOUS, ALIGNED, NOTSWAPPED, WRITEABLE, HAS_DESCR = 0x1, 0x100, 0x200, 0x400, 0x800

KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}


def typestr_of(dtype: str | tuple[int, int, int], order: str = "") -> str:
    code, bits, _ = caps.dtype_tuple(dtype)
    return f"{'|' if bits == 8 else order or caps.native('<')}{KINDS[code]}{bits // 8}"


class PyArrayInterface(C.Structure):
    _fields_ = [
        ("two", C.c_int),
        ("nd", C.c_int),
        ("typekind", C.c_char),
        ("itemsize", C.c_int),
        ("flags", C.c_int),
        ("shape", C.c_void_p),
        ("strides", C.c_void_p),
        ("data", C.c_void_p),
        ("descr", C.py_object),
    ]


_new = C.PYFUNCTYPE(C.py_object, C.c_void_p, C.c_char_p, C.c_void_p)(("PyCapsule_New", C.pythonapi))
_dying_pointer = C.PYFUNCTYPE(C.c_void_p, C.c_void_p, C.c_char_p)(
    ("PyCapsule_GetPointer", C.pythonapi)
)
_structs: dict[int, Any] = {}
freed: list[int] = []


@C.PYFUNCTYPE(None, C.c_void_p)
def _free(capsule: int) -> None:
    address = _dying_pointer(capsule, None)
    freed.append(address)
    for block in _structs.pop(address):
        if isinstance(block, C.Structure | C.Array):
            caps.poison(block)


caps.keep_for_ever(_free)


class Older:
    """Memory that counts up, and how it is laid out."""

    def __init__(
        self,
        shape: Sequence[int] = (2, 3),
        dtype: str = "float32",
        *,
        strides: Sequence[int] | None = None,
        start: int = 0,
        readonly: bool = False,
        changes: dict[str, Any] | None = None,
    ) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype
        self.strides = tuple(strides) if strides is not None else None
        self.start = start
        self.readonly = readonly
        self.changes = changes or {}
        self.memory = caps.filled(self.shape, dtype, self.strides, start)

    @property
    def element_zero(self) -> int:
        return caps.address_of(self.memory) + self.start * caps.itemsize_of(self.dtype)

    def values(self) -> list[Any]:
        return caps.numbers(self.shape, self.dtype, self.strides, self.start)

    def byte_strides(self) -> tuple[int, ...]:
        size = caps.itemsize_of(self.dtype)
        steps = caps.row_major(self.shape) if self.strides is None else self.strides
        return tuple(step * size for step in steps)


class StructOnly(Older):
    """`__array_struct__` and nothing else: Pillow of old, numarray-era extensions, h5py scalars.

    `changes` replace fields of the struct: two, nd, typekind, itemsize, flags, data.
    """

    @property
    def __array_struct__(self) -> Any:
        code, bits, _ = caps.dtype_tuple(self.dtype)
        shape = (C.c_ssize_t * max(1, len(self.shape)))(*self.shape)
        strides = (C.c_ssize_t * max(1, len(self.shape)))(*self.byte_strides())
        raw = PyArrayInterface()
        raw.two = 2
        raw.nd = len(self.shape)
        raw.typekind = KINDS[code].encode()
        raw.itemsize = bits // 8
        raw.flags = ALIGNED | NOTSWAPPED | (0 if self.readonly else WRITEABLE)
        raw.shape, raw.strides = C.addressof(shape), C.addressof(strides)
        raw.data = self.element_zero
        for name, value in self.changes.items():
            if name == "byte_strides":
                strides[: len(value)] = value
            else:
                setattr(raw, name, value)
        address = C.addressof(raw)
        _structs[address] = (raw, shape, strides, [self])
        return _new(address, None, C.cast(_free, C.c_void_p))


class InterfaceOnly(Older):
    """`__array_interface__` version 3 and nothing else.

    `changes` replace entries of the dict; an entry set to DROP is left out.
    """

    DROP = object()

    @property
    def __array_interface__(self) -> Any:
        entries: dict[str, Any] = {
            "shape": self.shape,
            "typestr": typestr_of(self.dtype),
            "data": (self.element_zero, self.readonly),
            "strides": None if self.strides is None else self.byte_strides(),
            "version": 3,
        }
        entries |= self.changes
        return {key: value for key, value in entries.items() if value is not self.DROP}


@functools.cache
def deep() -> list[Any]:
    """Lists and tuples in each other, deeper than any stack: they cannot be shown."""
    made: list[Any] = []
    for _ in range(50_000):
        made = [(made,)]
    return made


class Broken:
    """Its older protocol raises, or is no dict, no capsule, of another name."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Named(bytearray):
    """A buffer of plain numbers, whose dtype says what they are."""

    def __init__(self, data: bytes, dtype: Any) -> None:
        super().__init__(data)
        self.dtype = dtype


# --- the buffer protocol, flag by flag ------------------------------------------------


class PyBuffer(C.Structure):
    _fields_ = [
        ("buf", C.c_void_p),
        ("obj", C.py_object),
        ("len", C.c_ssize_t),
        ("itemsize", C.c_ssize_t),
        ("readonly", C.c_int),
        ("ndim", C.c_int),
        ("format", C.c_char_p),
        ("shape", C.POINTER(C.c_ssize_t)),
        ("strides", C.POINTER(C.c_ssize_t)),
        ("suboffsets", C.POINTER(C.c_ssize_t)),
        ("internal", C.c_void_p),
    ]


SIMPLE, WRITABLE, FORMAT, ND = 0, 0x1, 0x4, 0x8
STRIDES = 0x10 | ND
C_CONTIG = 0x20 | STRIDES
F_CONTIG = 0x40 | STRIDES
ANY_CONTIG = 0x80 | STRIDES
INDIRECT = 0x100 | STRIDES
FULL = INDIRECT | WRITABLE | FORMAT
FULL_RO = INDIRECT | FORMAT
RECORDS = STRIDES | WRITABLE | FORMAT
RECORDS_RO = STRIDES | FORMAT
STRIDED_RO = STRIDES

_get = C.PYFUNCTYPE(C.c_int, C.py_object, C.c_void_p, C.c_int)(("PyObject_GetBuffer", C.pythonapi))
_release = C.PYFUNCTYPE(None, C.c_void_p)(("PyBuffer_Release", C.pythonapi))


class Request:
    """One buffer request with exact flags; a context manager that releases it."""

    def __init__(self, obj: Any, flags: int) -> None:
        self._obj, self._flags = obj, flags

    def __enter__(self) -> Answer:
        # Raw bytes, not a PyBuffer: ctypes would read `obj` as an object of its own.
        self._raw = (C.c_char * C.sizeof(PyBuffer))()
        _get(self._obj, C.addressof(self._raw), self._flags)
        return Answer(PyBuffer.from_buffer(self._raw))

    def __exit__(self, *_: object) -> None:
        _release(C.addressof(self._raw))


class Answer:
    """What the exporter filled in, as Python values."""

    def __init__(self, raw: PyBuffer) -> None:
        self.address, self.len, self.itemsize = raw.buf or 0, raw.len, raw.itemsize
        self.readonly, self.ndim = bool(raw.readonly), raw.ndim
        self.format = raw.format.decode() if raw.format is not None else None
        self.shape = tuple(raw.shape[: raw.ndim]) if raw.shape else None
        self.strides = tuple(raw.strides[: raw.ndim]) if raw.strides else None
        self.suboffsets = bool(raw.suboffsets)
