"""A consumer of DLPack's C exchange API (the C table), by ctypes, as tvm-ffi and cuda.core use it.

tvm-ffi looks the capsule up once for each type, calls `managed_tensor_from_py_object_no_sync`
or `dltensor_from_py_object_no_sync` for each argument, `current_work_stream` for the first that
is not on the CPU, and turns results back by `managed_tensor_to_py_object_no_sync`.
"""

from __future__ import annotations

import ctypes as C
from typing import Any

from . import capsules as caps
from .producers import ExchangeTable

NAME = b"dlpack_exchange_api"
#: void SetError(void *context, const char *kind, const char *message)
SetError = C.CFUNCTYPE(None, C.c_void_p, C.c_char_p, C.c_char_p)
_FromObject = C.PYFUNCTYPE(C.c_int, C.py_object, C.c_void_p)
_ToObject = C.PYFUNCTYPE(C.c_int, C.c_void_p, C.POINTER(C.py_object))
_Stream = C.PYFUNCTYPE(C.c_int, C.c_int32, C.c_int32, C.POINTER(C.c_void_p))
#: Not a PyDLL function: an allocator is called without the interpreter's lock.
_Allocate = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_void_p, C.c_void_p, C.c_void_p)

_pointer = C.PYFUNCTYPE(C.c_void_p, C.py_object, C.c_char_p)(("PyCapsule_GetPointer", C.pythonapi))
_destructor = C.PYFUNCTYPE(C.c_void_p, C.py_object)(("PyCapsule_GetDestructor", C.pythonapi))


def demand(holds: bool, what: str = "") -> None:
    """An assertion that stands under ``python -O``, which leaves out an assert with its calls."""
    if not holds:
        raise AssertionError(what)


class Refused(Exception):
    """What the allocator said through SetError: (kind, message)."""


class Borrowed(caps.View):
    """A DLTensor that was borrowed: no flags, no deleter, no version."""

    def __init__(self, tensor: caps.DLTensor) -> None:
        self.name, self.versioned, self.version, self.flags = "borrowed", False, None, None
        self._read(tensor)


class Table:
    """The functions behind a type's `__dlpack_c_exchange_api__`."""

    def __init__(self, owner: type) -> None:
        self.capsule = owner.__dlpack_c_exchange_api__
        self.address = _pointer(self.capsule, NAME)
        self.has_destructor = bool(_destructor(self.capsule))
        self.struct = ExchangeTable.from_address(self.address)
        self._owned = self._function(_FromObject, "managed_tensor_from_py_object_no_sync")
        self._borrow = self._function(_FromObject, "dltensor_from_py_object_no_sync")
        self._to_object = self._function(_ToObject, "managed_tensor_to_py_object_no_sync")
        self._stream = self._function(_Stream, "current_work_stream")
        self._allocate = self._function(_Allocate, "managed_tensor_allocator")

    def _function(self, kind: Any, name: str) -> Any:
        """What the table has under this name; None for NULL."""
        address = getattr(self.struct, name)
        return kind(address) if address else None

    def owned(self, x: Any) -> caps.Import:
        out = C.c_void_p()
        try:
            demand(self._owned(x, C.addressof(out)) == 0)
        except BaseException:
            # A consumer may delete whatever is there after a failure.
            demand(out.value is None, "a failure gave something")
            raise
        return caps.Import(caps.View(out.value, caps.USED_VERSIONED))

    def borrow(self, x: Any) -> Borrowed:
        """Valid as long as x."""
        out = caps.DLTensor()
        demand(self._borrow(x, C.addressof(out)) == 0)
        return Borrowed(out)

    def to_object(self, address: int | None) -> Any:
        """Steals the tensor, but only when it succeeds."""
        out = C.py_object()
        demand(self._to_object(address, C.byref(out)) == 0)
        made = out.value  # a new reference of its own: the one that was returned goes
        C.pythonapi.Py_DecRef(C.py_object(made))
        return made

    def stream(self, device: tuple[int, int]) -> int | None:
        out = C.c_void_p(0xDEAD)
        demand(self._stream(*device, C.byref(out)) == 0)
        return out.value

    def allocate(
        self,
        shape: tuple[int, ...],
        dtype: tuple[int, int, int] = (2, 32, 1),
        device: tuple[int, int] = caps.CPU,
        **lies: Any,
    ) -> caps.Import:
        dims = (C.c_int64 * len(shape))(*shape)
        prototype = caps.DLTensor(
            device_type=device[0],
            device_id=device[1],
            ndim=len(shape),
            code=dtype[0],
            bits=dtype[1],
            lanes=dtype[2],
            shape=C.addressof(dims) if shape else None,
        )
        for name, value in lies.items():
            setattr(prototype, name.removesuffix("_address"), value)
        said: list[tuple[str, str]] = []

        @SetError
        def set_error(context: int, kind: bytes, message: bytes) -> None:
            demand(context == 0x1234)
            said.append((kind.decode(), message.decode()))

        out = C.c_void_p()
        tell = C.cast(set_error, C.c_void_p)
        code = self._allocate(C.addressof(prototype), C.addressof(out), 0x1234, tell)
        if code != 0:
            demand(code == -1 and out.value is None and len(said) == 1)
            raise Refused(*said[0])
        demand(not said)
        return caps.Import(caps.View(out.value, caps.USED_VERSIONED))
