"""A tidy hand-written ctypes shim: what a user writes when there is no dlshim.

It does what most such shims do: remember which types refuse ``max_version``, hand on what
needs no translation, and build a versioned struct around a legacy one with ctypes.  It is a
peer to measure against, with the gaps that such shims have (it checks no layout and asks a
modern producer for a legacy capsule, which loses the read-only flag).
"""

import ctypes

_api = ctypes.pythonapi


def _function(name, result, *arguments):
    """A prototype of our own: the attributes of pythonapi are shared by the whole process."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, _api))


_new = _function(
    "PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)
_pointer = _function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_rename = _function("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
# The same for a capsule that is dying: its address only, no reference.
_dying_is_valid = _function("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_dying_pointer = _function(
    "PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p
)

_LEGACY = b"dltensor"
_LEGACY_USED = b"used_dltensor"
_VERSIONED = b"dltensor_versioned"


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_uint32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Legacy(ctypes.Structure):
    _fields_ = (
        ("tensor", _Tensor),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


# Address of ours: ours, the address of theirs, the deleter of theirs.
_alive: dict[int, tuple[_Versioned, int, _Deleter]] = {}
_legacy_types: set[type] = set()


def _drop(address):
    _, inner, deleter = _alive.pop(address)
    deleter(inner)


_delete = _Deleter(_drop)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _destroy(capsule):
    if _dying_is_valid(capsule, _VERSIONED):
        _drop(_dying_pointer(capsule, _VERSIONED))


_destroy_address = ctypes.cast(_destroy, ctypes.c_void_p).value


def _to_versioned(capsule):
    inner = _pointer(capsule, _LEGACY)
    theirs = _Legacy.from_address(inner)
    ours = _Versioned(1, 0, None, _delete, 0, theirs.tensor)
    address = ctypes.addressof(ours)
    made = _new(address, _VERSIONED, _destroy_address)
    _alive[address] = (ours, inner, theirs.deleter)
    _rename(capsule, _LEGACY_USED)
    return made


class Shim:
    __slots__ = ("source",)

    def __init__(self, source):
        self.source = source

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        source = self.source
        if max_version is None or max_version[0] < 1:
            return source.__dlpack__()
        if type(source) not in _legacy_types:
            try:
                return source.__dlpack__(max_version=max_version)
            except TypeError:
                _legacy_types.add(type(source))
        return _to_versioned(source.__dlpack__())

    def __dlpack_device__(self):
        return self.source.__dlpack_device__()
