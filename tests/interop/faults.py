"""Six planted faults: each spoils what dlshim hands out, and cells must turn red for it.

A fault takes the capsule that dlshim has made and gives another one, spoilt in one way. It works
on copies: dlshim's own structs and shape arrays may belong to the producer.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from . import cells
from .cases import row_major
from .consumers import LegacyStruct

READ_ONLY = 1


class Managed(ctypes.Structure):
    pass


class Versioned(ctypes.Structure):
    pass


DELETER, VERSIONED_DELETER = (
    ctypes.CFUNCTYPE(None, ctypes.POINTER(s)) for s in (Managed, Versioned)
)
Managed._fields_ = [
    ("tensor", LegacyStruct),
    ("context", ctypes.c_void_p),
    ("deleter", DELETER),
]
Versioned._fields_ = [
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("context", ctypes.c_void_p),
    ("deleter", VERSIONED_DELETER),
    ("flags", ctypes.c_uint64),
    ("tensor", LegacyStruct),
]

_api = ctypes.pythonapi
_new, _name, _pointer = _api.PyCapsule_New, _api.PyCapsule_GetName, _api.PyCapsule_GetPointer
_new.restype = ctypes.py_object
_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_name.restype, _name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

_alive: dict[int, tuple] = {}
"""What the deleters of spoilt capsules hold until they are called."""
_names = {True: b"dltensor_versioned", False: b"dltensor"}


class Copy:
    """The fields of a capsule, to be changed and handed out again as a capsule of its own."""

    def __init__(self, capsule, made) -> None:
        self.source, self.made = capsule, made
        self.versioned = _name(capsule) == _names[True]
        kind = Versioned if self.versioned else Managed
        struct = kind.from_address(_pointer(capsule, _names[self.versioned]))
        tensor = struct.tensor
        self.flags = struct.flags if self.versioned else 0
        self.data = tensor.data
        self.type = (tensor.code, tensor.bits, tensor.lanes)
        self.shape = [tensor.shape[i] for i in range(tensor.ndim)]
        self.strides = list(row_major(self.shape))
        if tensor.strides:
            self.strides = [tensor.strides[i] for i in range(tensor.ndim)]
        self.itemsize = (tensor.bits * tensor.lanes + 7) // 8
        self.hold: list = [capsule]

    def capsule(self):
        ndim = len(self.shape)
        array = ctypes.c_int64 * max(ndim, 1)
        shape, strides = array(*self.shape), array(*self.strides)
        struct = Versioned() if self.versioned else Managed()
        if self.versioned:
            struct.major, struct.minor, struct.flags = 1, 3, self.flags
        tensor = struct.tensor
        tensor.data, tensor.device_type, tensor.ndim = self.data, 1, ndim
        tensor.code, tensor.bits, tensor.lanes = self.type
        integers = ctypes.POINTER(ctypes.c_int64)
        tensor.shape, tensor.strides = ctypes.cast(shape, integers), ctypes.cast(strides, integers)
        key = ctypes.addressof(struct)
        struct.deleter = _released[self.versioned]
        _alive[key] = (struct, shape, strides, self.hold)
        return _new(key, _names[self.versioned], _destructor_address)


def _release(pointer) -> None:
    _alive.pop(ctypes.addressof(pointer.contents), None)


_released = {False: DELETER(_release), True: VERSIONED_DELETER(_release)}


# Found here: a look-up in PyDLL while an exception is pending, as it may be in a destructor, would
# take __getattr__ from that class for good (CPython 3.11).
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _api)
)
_struct_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _destructor(capsule: int) -> None:
    for name in _names.values():
        if _is_valid(capsule, name):
            _alive.pop(_struct_of(capsule, name), None)


_destructor_address = ctypes.cast(_destructor, ctypes.c_void_p).value


# --- the six ---------------------------------------------------------------------------------


def flag_lost(copy: Copy) -> None:
    """READ_ONLY is dropped."""
    copy.flags &= ~READ_ONLY


def offset_lost(copy: Copy) -> None:
    """Element zero is taken to be where the memory begins."""
    copy.data -= copy.made.facts.layout.offset * copy.itemsize


def stride_wrong(copy: Copy) -> None:
    """Strides are taken to be row-major."""
    copy.strides = list(row_major(copy.shape))


def freed_early(copy: Copy) -> None:
    """The export holds nothing: neither the producer's struct nor the source."""
    copy.hold.clear()
    copy.source = None


def silent_copy(copy: Copy) -> None:
    """Other memory is handed out, and nothing says so."""
    reach = sum(max(0, (n - 1) * s) for n, s in zip(copy.shape, copy.strides, strict=True))
    low = sum(min(0, (n - 1) * s) for n, s in zip(copy.shape, copy.strides, strict=True))
    size = (reach - low + 1) * copy.itemsize
    room = ctypes.create_string_buffer(size + 64)
    start = ctypes.addressof(room)
    start += (copy.data + low * copy.itemsize - start) % 64
    ctypes.memmove(start, copy.data + low * copy.itemsize, size)
    copy.data = start - low * copy.itemsize
    copy.hold.append(room)


def wrong_generation(copy: Copy) -> None:
    """A versioned capsule for who wants a legacy one, and the reverse."""
    copy.versioned = not copy.versioned


FAULTS: dict[str, Callable[[Copy], None]] = {
    "flag lost": flag_lost,
    "offset lost": offset_lost,
    "wrong generation": wrong_generation,
    "stride wrong": stride_wrong,
    "freed early": freed_early,
    "silent copy": silent_copy,
}


class Faulty:
    """Stands where dlshim's Producer stands."""

    def __init__(self, inner, fault, made) -> None:
        self._inner, self._fault, self._made = inner, fault, made

    def __dlpack__(self, **keywords):
        return spoil(self._inner.__dlpack__(**keywords), self._fault, self._made)

    def __dlpack_device__(self):
        return self._inner.__dlpack_device__()


def spoil(capsule, fault, made):
    copy = Copy(capsule, made)
    if copy.made.facts.layout.size:
        fault(copy)
    copy.made = None
    return copy.capsule()


def shim(name: str):
    fault = FAULTS[name]

    class Planted(cells.Upgraded):
        def give(self, producer, consumer, made):
            given = super().give(producer, consumer, made)
            if consumer.capsule:
                return spoil(given, fault, made)
            return Faulty(given, fault, made)

    Planted.name = "fault:" + name
    return Planted
