"""An object of C whose buffer says whatever a test wants: any item size, shape and stride.

No Python object can do that: memoryview and the ndarray of CPython's `_testbuffer` check what they
are told.  The type is made by PyType_FromSpec, through ctypes.
"""

from __future__ import annotations

import ctypes as C
from typing import Any

from . import capsules as caps

GET_BUFFER, RELEASE_BUFFER = 1, 2  # Py_bf_getbuffer, Py_bf_releasebuffer of typeslots.h
HEAP_TYPE_FLAGS = 1 << 10 | 1 << 18  # Py_TPFLAGS_BASETYPE, Py_TPFLAGS_DEFAULT's version tag


class Buffer(C.Structure):
    """Py_buffer, with addresses for all pointers."""

    _fields_ = [
        ("buf", C.c_void_p),
        ("obj", C.c_void_p),
        ("len", C.c_ssize_t),
        ("itemsize", C.c_ssize_t),
        ("readonly", C.c_int),
        ("ndim", C.c_int),
        ("format", C.c_char_p),
        ("shape", C.c_void_p),
        ("strides", C.c_void_p),
        ("suboffsets", C.c_void_p),
        ("internal", C.c_void_p),
    ]


class _Slot(C.Structure):
    _fields_ = [("slot", C.c_int), ("function", C.c_void_p)]


class _Spec(C.Structure):
    _fields_ = [
        ("name", C.c_char_p),
        ("basicsize", C.c_int),
        ("itemsize", C.c_int),
        ("flags", C.c_uint),
        ("slots", C.POINTER(_Slot)),
    ]


@C.PYFUNCTYPE(C.c_int, C.py_object, C.c_void_p, C.c_int)
def _get_buffer(exporter: Any, view: int, flags: int) -> int:
    exporter.views += 1
    exporter.description.obj = id(exporter)
    C.pythonapi.Py_IncRef(C.py_object(exporter))
    C.memmove(view, C.addressof(exporter.description), C.sizeof(Buffer))
    return 0


@C.PYFUNCTYPE(None, C.py_object, C.c_void_p)
def _release_buffer(exporter: Any, view: int) -> None:
    exporter.views -= 1


def _make_type() -> type:
    functions = {GET_BUFFER: _get_buffer, RELEASE_BUFFER: _release_buffer}
    slots = [_Slot(slot, C.cast(function, C.c_void_p)) for slot, function in functions.items()]
    array = (_Slot * 3)(*slots, _Slot(0, None))
    spec = _Spec(b"doubles.Base", object.__basicsize__, 0, HEAP_TYPE_FLAGS, array)
    make = C.PYFUNCTYPE(C.py_object, C.c_void_p)(("PyType_FromSpec", C.pythonapi))
    caps.keep_for_ever(_get_buffer, _release_buffer, spec, array)
    return make(C.addressof(spec))


class Exporter(_make_type()):  # type: ignore[misc]
    """`views` counts the buffers that are held."""

    def __init__(self, **members: Any) -> None:
        self.views = 0
        self.arrays = {}
        self.description = Buffer()
        for name, value in members.items():
            if name in ("shape", "strides", "suboffsets") and value is not None:
                self.arrays[name] = (C.c_ssize_t * max(1, len(value)))(*value)
                value = C.addressof(self.arrays[name])
            setattr(self.description, name, value)
