"""DLPack structs and capsules by ctypes: the makers, and what consumers do with them.

A :class:`Made` is the producer's side of one managed tensor.  Its deleter counts its calls
and poisons the struct but for the deleter, so that a second call, a call that never comes and
a read after the end all show.  :func:`accounts` tells what is still open; the suite closes the
books after every test.

A :class:`View` is what a consumer reads from a struct; an :class:`Import` is a consumer's
side: it owns what it took and gives it back when it dies.
"""

from __future__ import annotations

import ctypes as C
import functools
import itertools
import math
import os
import struct as _struct
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

# --- the ABI --------------------------------------------------------------------------


class DLTensor(C.Structure):
    _fields_ = [
        ("data", C.c_void_p),
        ("device_type", C.c_int32),
        ("device_id", C.c_int32),
        ("ndim", C.c_int32),
        ("code", C.c_uint8),
        ("bits", C.c_uint8),
        ("lanes", C.c_uint16),
        ("shape", C.c_void_p),
        ("strides", C.c_void_p),
        ("byte_offset", C.c_uint64),
    ]


class ManagedTensor(C.Structure):
    _fields_ = [
        ("dl_tensor", DLTensor),
        ("manager_ctx", C.c_void_p),
        ("deleter", C.c_void_p),
    ]


class ManagedTensorVersioned(C.Structure):
    _fields_ = [
        ("major", C.c_uint32),
        ("minor", C.c_uint32),
        ("manager_ctx", C.c_void_p),
        ("deleter", C.c_void_p),
        ("flags", C.c_uint64),
        ("dl_tensor", DLTensor),
    ]


LEGACY = "dltensor"
VERSIONED = "dltensor_versioned"
USED_LEGACY = "used_dltensor"
USED_VERSIONED = "used_dltensor_versioned"

# Capsules keep the address of their name: these bytes must live as long as the process.
_NAMES = {
    name: name.encode()
    for name in (LEGACY, VERSIONED, USED_LEGACY, USED_VERSIONED, "dlpack_exchange_api")
}
_USED = {LEGACY: USED_LEGACY, VERSIONED: USED_VERSIONED}

READ_ONLY = 1
IS_COPIED = 2
SUBBYTE_PADDED = 4

CPU = (1, 0)
CUDA = (2, 0)
PINNED = (3, 0)
OPENCL = (4, 0)
ROCM = (10, 0)
MANAGED = (13, 0)
ONEAPI = (14, 0)

# Where `data` is an address that offsets may be added to, and where it may be a handle (T5).
ADDRESS_DEVICES = (1, 2, 3, 10, 11, 13, 14)
HANDLE_DEVICES = (4, 7, 8, 9, 12, 15, 16, 17, 18, 19, 20, 21, 99)

DTYPES: dict[str, tuple[int, int, int]] = {
    "int8": (0, 8, 1),
    "int16": (0, 16, 1),
    "int32": (0, 32, 1),
    "int64": (0, 64, 1),
    "uint8": (1, 8, 1),
    "uint16": (1, 16, 1),
    "uint32": (1, 32, 1),
    "uint64": (1, 64, 1),
    "float16": (2, 16, 1),
    "float32": (2, 32, 1),
    "float64": (2, 64, 1),
    "bfloat16": (4, 16, 1),
    "complex64": (5, 64, 1),
    "complex128": (5, 128, 1),
    "bool": (6, 8, 1),
    "float8_e3m4": (7, 8, 1),
    "float8_e4m3": (8, 8, 1),
    "float8_e4m3b11fnuz": (9, 8, 1),
    "float8_e4m3fn": (10, 8, 1),
    "float8_e4m3fnuz": (11, 8, 1),
    "float8_e5m2": (12, 8, 1),
    "float8_e5m2fnuz": (13, 8, 1),
    "float8_e8m0fnu": (14, 8, 1),
}
_FORMATS = {
    (0, 8): "b",
    (0, 16): "h",
    (0, 32): "i",
    (0, 64): "q",
    (1, 8): "B",
    (1, 16): "H",
    (1, 32): "I",
    (1, 64): "Q",
    (2, 16): "e",
    (2, 32): "f",
    (2, 64): "d",
    (5, 64): "ff",
    (5, 128): "dd",
    (6, 8): "?",
}


def dtype_tuple(dtype: str | tuple[int, int, int]) -> tuple[int, int, int]:
    return DTYPES[dtype] if isinstance(dtype, str) else tuple(dtype)


def itemsize_of(dtype: str | tuple[int, int, int]) -> int:
    """Bytes an element takes when it is stored alone (sub-byte elements: one byte)."""
    _, bits, lanes = dtype_tuple(dtype)
    return (bits * lanes + 7) // 8


def encode(dtype: str | tuple[int, int, int], value: Any) -> bytes:
    """One element as bytes.  Dtypes without a Python counterpart take the value's low bytes."""
    code, bits, lanes = dtype_tuple(dtype)
    form = _FORMATS.get((code, bits)) if lanes == 1 else None
    if form is None:
        size = itemsize_of((code, bits, lanes))
        return (int(value) % 256**size).to_bytes(size, sys.byteorder)
    if code == 6:
        return _struct.pack("?", bool(value))
    if code in (0, 1):
        value = int(value) % 2**bits
        if code == 0 and value >= 2 ** (bits - 1):
            value -= 2**bits
    if len(form) == 2:
        value = complex(value)
        return _struct.pack(form, value.real, value.imag)
    return _struct.pack(form, value)


def decode(dtype: str | tuple[int, int, int], raw: bytes) -> Any:
    code, bits, lanes = dtype_tuple(dtype)
    form = _FORMATS.get((code, bits)) if lanes == 1 else None
    if form is None:
        return int.from_bytes(raw, sys.byteorder)
    parts = _struct.unpack(form, raw)
    return complex(*parts) if len(parts) == 2 else parts[0]


def native(text: str) -> str:
    """A format or typestr of a little-endian machine, in this machine's order: "<" and ">" change
    places on a big-endian one."""
    return text if sys.byteorder == "little" else text.translate({60: ">", 62: "<"})


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The exact row-major products, also across extents 0 and 1 (T4)."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def column_major(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(itertools.accumulate(shape[:-1], lambda a, b: a * b, initial=1)) if shape else ()


def offsets(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Where each element lies, in elements from element zero, in row-major order."""
    if 0 in shape:  # another extent may be so long that it cannot be counted
        return []
    places = [0]
    for extent, step in zip(shape, strides, strict=True):
        places = [place + i * step for place in places for i in range(extent)]
    return places


# --- CPython's capsule functions, with prototypes of our own --------------------------


def _api(name: str, result: Any, *arguments: Any) -> Any:
    return C.PYFUNCTYPE(result, *arguments)((name, C.pythonapi))


_new = _api("PyCapsule_New", C.py_object, C.c_void_p, C.c_char_p, C.c_void_p)
_get_name = _api("PyCapsule_GetName", C.c_char_p, C.py_object)
_get_pointer = _api("PyCapsule_GetPointer", C.c_void_p, C.py_object, C.c_char_p)
_set_name = _api("PyCapsule_SetName", C.c_int, C.py_object, C.c_char_p)
destructor_of = _api("PyCapsule_GetDestructor", C.c_void_p, C.py_object)
_set_destructor = _api("PyCapsule_SetDestructor", C.c_int, C.py_object, C.c_void_p)
# For a capsule that is dying: no reference may be made to it.
_dying_is_valid = _api("PyCapsule_IsValid", C.c_int, C.c_void_p, C.c_char_p)
_dying_get_pointer = _api("PyCapsule_GetPointer", C.c_void_p, C.c_void_p, C.c_char_p)

Capsule = type(_new(1, b"x", None))

_Deleter = C.CFUNCTYPE(None, C.c_void_p)  # called without the GIL: ctypes takes it for us
_DeleterHeld = C.PYFUNCTYPE(None, C.c_void_p)
_Destructor = C.PYFUNCTYPE(None, C.c_void_p)


def new_capsule(address: int, name: str | bytes, destructor: Any = None) -> Any:
    raw = name if isinstance(name, bytes) else _NAMES.setdefault(name, name.encode())
    return _new(address, raw, C.cast(destructor, C.c_void_p) if destructor else None)


def name_of(capsule: Any) -> str:
    return _get_name(capsule).decode()


def pointer_of(capsule: Any) -> int:
    """The struct's address, under whatever name the capsule bears now."""
    return _get_pointer(capsule, _get_name(capsule))


def rename(capsule: Any) -> None:
    """Mark a capsule as consumed; the name it gets lives for ever."""
    _set_name(capsule, _NAMES[_USED[name_of(capsule)]])


def clear_destructor(capsule: Any) -> None:
    _set_destructor(capsule, None)


# --- the producer's side --------------------------------------------------------------

POISON = 0xDD
_records: dict[int, Made] = {}
_written_off: dict[int, Made] = {}  # left open by tests that failed
_stray: list[str] = []  # deleter calls that no record explains
_keep_dead = True


# While the interpreter ends, modules lose their names before the last capsule dies.  So these
# two callbacks keep what they need in their defaults, and are never freed themselves: a Python
# deleter that is gone before its struct is a crash whoever calls it.


@_Deleter
def _delete(
    address: int,
    records: dict[int, Made] = _records,
    written_off: dict[int, Made] = _written_off,
    stray: list[str] = _stray,
) -> None:
    record = records.get(address) or written_off.get(address)
    if record is None:
        stray.append(f"deleter called for {address:#x}, which nobody made")
        return
    try:
        record._end()
    except (NameError, TypeError):
        if "poison" in globals():
            raise


@_Destructor
def _destroy(
    capsule: int,
    kinds: Any = ((_NAMES[LEGACY], ManagedTensor), (_NAMES[VERSIONED], ManagedTensorVersioned)),
    is_valid: Any = _dying_is_valid,
    get_pointer: Any = _dying_get_pointer,
    call: Any = _DeleterHeld,
) -> None:
    """As the DLPack specification writes it: acts on the unused name only."""
    for name, kind in kinds:
        if is_valid(capsule, name):
            address = get_pointer(capsule, name)
            deleter = kind.from_address(address).deleter
            if deleter:
                call(deleter)(address)


#: Whether the last capsule of a double stays until the next one is given.  Its destructor is
#: Python, and CPython cannot call that while an exception is on its way without losing it: whoever
#: refuses a capsule, and drops it with the exception set, would raise a SystemError.
linger = True
_lingering: list[Any] = []


def lingering(capsule: Any) -> Any:
    """Keep this capsule until the next one is given, and return it."""
    _lingering[:] = [capsule] if linger else []
    return capsule


@contextmanager
def without_lingering() -> Iterator[None]:
    """For code that looks at when a capsule goes."""
    global linger
    before, linger = linger, False
    _lingering.clear()
    try:
        yield
    finally:
        linger = before


def keep_for_ever(*objects: Any) -> None:
    for obj in objects:
        C.pythonapi.Py_IncRef(C.py_object(obj))


keep_for_ever(_delete, _destroy)


_set_slice = _api("PyList_SetSlice", C.c_int, C.py_object, C.c_ssize_t, C.c_ssize_t, C.c_void_p)


def let_go(only: list[Any]) -> None:
    """Empties a list that alone has a capsule, and raises what its destructor leaves behind.

    A `del` would let that exception come up somewhere later, where nobody knows whose it is.
    """
    _set_slice(only, 0, len(only), None)


def call_deleter(address: int, name: str, *, held: bool) -> None:
    """Call the struct's deleter; `held` says whether this thread keeps the GIL meanwhile."""
    kind = ManagedTensor if name in (LEGACY, USED_LEGACY) else ManagedTensorVersioned
    deleter = kind.from_address(address).deleter
    if deleter:
        (_DeleterHeld if held else _Deleter)(deleter)(address)


OWN_CONTEXT = 0x5EED  # manager_ctx of every struct that is made here


class Made:
    """One managed tensor as its producer sees it."""

    def __init__(
        self,
        shape: Sequence[int] = (2, 3),
        dtype: str | tuple[int, int, int] = "float32",
        *,
        version: tuple[int, int] | None = None,
        flags: int = 0,
        strides: Sequence[int] | str | None = "row-major",
        start: int = 0,
        byte_offset: int = 0,
        device: tuple[int, int] = CPU,
        memory: Any = None,
        data: int | str | None = "memory",
        null_shape: bool = False,
        ndim: int | None = None,
        deleter: bool = True,
        owner: Any = None,
        on_delete: Callable[[], None] | None = None,
    ) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype_tuple(dtype)
        self.name = LEGACY if version is None else VERSIONED
        steps = row_major(self.shape) if isinstance(strides, str) else strides
        self.owner = owner
        self.on_delete = on_delete
        self.has_deleter = deleter
        self.handed_out = False
        self.deleted = 0
        self.deleted_by: list[int] = []
        self._own_memory = memory is None
        if memory is None:
            lawful = all(extent >= 0 for extent in self.shape)
            memory = (
                filled(self.shape, self.dtype, steps, start) if lawful else filled((1,), "int8")
            )
        self.memory = memory
        self.struct = ManagedTensor() if version is None else ManagedTensorVersioned()
        tensor = self.struct.dl_tensor
        size = itemsize_of(self.dtype)
        if data == "memory":
            tensor.data = address_of(memory) + start * size - byte_offset
        else:
            tensor.data = data
        tensor.device_type, tensor.device_id = device
        tensor.ndim = len(self.shape) if ndim is None else ndim
        tensor.code, tensor.bits, tensor.lanes = self.dtype
        tensor.byte_offset = byte_offset
        width = max(1, len(self.shape))
        self._shape = (C.c_int64 * width)(*self.shape)
        self._strides = None if steps is None else (C.c_int64 * width)(*steps)
        tensor.shape = None if null_shape else C.addressof(self._shape)
        tensor.strides = None if self._strides is None else C.addressof(self._strides)
        if version is not None:
            self.struct.major, self.struct.minor = version
            self.struct.flags = flags
        self.struct.manager_ctx = OWN_CONTEXT
        self.struct.deleter = C.cast(_delete, C.c_void_p).value if deleter else None
        self.address = C.addressof(self.struct)
        _records[self.address] = self

    def capsule(self, *, destructor: bool = True, name: str | None = None) -> Any:
        self.handed_out = True
        return new_capsule(self.address, name or self.name, _destroy if destructor else None)

    def snapshot(self) -> bytes:
        """Every byte that the producer owns of this struct, to prove it was not touched."""
        strides = bytes(self._strides) if self._strides is not None else b""
        return bytes(self.struct) + bytes(self._shape) + strides

    @property
    def data(self) -> int:
        return self.struct.dl_tensor.data or 0

    @property
    def element_zero(self) -> int:
        return self.data + self.struct.dl_tensor.byte_offset

    def _end(self) -> None:
        self.deleted += 1
        self.deleted_by.append(threading.get_native_id())
        if self.deleted > 1:
            return
        if self.on_delete is not None:
            self.on_delete()
        self.owner = self.on_delete = None
        deleter = self.struct.deleter
        poison(self.struct)
        self.struct.deleter = deleter  # so that a second call is counted, and does not crash
        poison(self._shape)
        if self._strides is not None:
            poison(self._strides)
        if self._own_memory:
            poison(self.memory)
        if not _keep_dead:
            _records.pop(self.address, None)


def poison(block: Any) -> None:
    C.memset(C.addressof(block), POISON, C.sizeof(block))


def make(*arguments: Any, destructor: bool = True, name: str | None = None, **fields: Any) -> Any:
    """A capsule in one go; the :class:`Made` behind it is ``made_of(capsule)``."""
    return Made(*arguments, **fields).capsule(destructor=destructor, name=name)


def made_of(capsule: Any) -> Made:
    return _records[pointer_of(capsule)]


def made_at(address: int) -> Made | None:
    """The record whose struct lies there: tells whether a capsule was handed on."""
    return _records.get(address)


def forget(made: Made) -> None:
    """Strike a record whose struct was never handed out."""
    _records.pop(made.address, None)


def accounts() -> list[str]:
    """What is wrong with the deleters of everything that was handed out so far."""
    wrong = list(_stray)
    for record in list(_records.values()):
        what = f"{record.name} {record.shape} of {type(record.owner).__name__}"
        if record.deleted > 1:
            wrong.append(f"{what}: deleter called {record.deleted} times")
        elif record.handed_out and record.has_deleter and not record.deleted:
            wrong.append(f"{what}: deleter never called")
    return wrong


def close_accounts() -> None:
    _records.clear()
    _stray.clear()


def write_off() -> None:
    """After a failure: what is still open may end later, and is nobody's business any more."""
    _written_off.update(_records)
    close_accounts()


@contextmanager
def short_memory() -> Iterator[None]:
    """Forget structs as soon as they are deleted: for loops that make very many."""
    global _keep_dead
    _keep_dead = False
    try:
        yield
    finally:
        _keep_dead = True


# --- memory ---------------------------------------------------------------------------


def address_of(memory: Any) -> int:
    """Address of a ctypes object, or of any writable buffer."""
    if isinstance(memory, C.Array | C.Structure):
        return C.addressof(memory)
    return C.addressof(C.c_char.from_buffer(memory))


@functools.lru_cache(maxsize=32)
def _counted(dtype: tuple[int, int, int], count: int) -> bytes:
    return b"".join(encode(dtype, k) for k in range(count))


def room(size: int) -> Any:
    """A block of so many bytes, and some behind them."""
    return (C.c_char * (max(1, size) + 64))()


def filled(
    shape: Sequence[int],
    dtype: str | tuple[int, int, int],
    strides: Sequence[int] | None = None,
    start: int = 0,
) -> Any:
    """A block whose k-th element has the value k, wide enough for this layout."""
    steps = row_major(shape) if strides is None else strides
    last = start
    if 0 not in shape:
        last += sum((n - 1) * s for n, s in zip(shape, steps, strict=True) if s > 0)
    raw = _counted(dtype_tuple(dtype), last + 1)
    block = room(len(raw))
    C.memmove(C.addressof(block), raw, len(raw))
    return block


def numbers(
    shape: Sequence[int],
    dtype: str | tuple[int, int, int],
    strides: Sequence[int] | None = None,
    start: int = 0,
) -> list[Any]:
    """What a consumer must read from :func:`filled` memory, in row-major order."""
    steps = row_major(shape) if strides is None else strides
    return [decode(dtype, encode(dtype, start + offset)) for offset in offsets(shape, steps)]


# --- the consumer's side --------------------------------------------------------------


class View:
    """All fields of a managed tensor, read without touching it."""

    def __init__(self, address: int, name: str) -> None:
        self.address = address
        self.name = name
        self.versioned = name in (VERSIONED, USED_VERSIONED)
        kind = ManagedTensorVersioned if self.versioned else ManagedTensor
        raw = kind.from_address(address)
        self.version = (raw.major, raw.minor) if self.versioned else None
        self.flags = raw.flags if self.versioned else None
        self.deleter = raw.deleter or 0
        self.manager_ctx = raw.manager_ctx or 0
        self.tensor = bytes(raw.dl_tensor)
        self._read(raw.dl_tensor)

    def _read(self, tensor: DLTensor) -> None:
        self.data = tensor.data or 0
        self.device = (tensor.device_type, tensor.device_id)
        self.ndim = tensor.ndim
        self.dtype = (tensor.code, tensor.bits, tensor.lanes)
        self.shape = read_int64s(tensor.shape, self.ndim) or ()
        self.strides = read_int64s(tensor.strides, self.ndim)
        self.shape_address = tensor.shape or 0
        self.strides_address = tensor.strides or 0
        self.byte_offset = tensor.byte_offset

    @property
    def readonly(self) -> bool:
        return bool((self.flags or 0) & READ_ONLY)

    @property
    def copied(self) -> bool:
        return bool((self.flags or 0) & IS_COPIED)

    @property
    def element_zero(self) -> int:
        return self.data + self.byte_offset

    def fields(self) -> dict[str, Any]:
        """What a consumer can tell from outside, the addresses of the arrays left out."""
        return {
            key: getattr(self, key)
            for key in ("name", "version", "flags", "data", "device", "dtype", "shape", "strides")
        } | {"byte_offset": self.byte_offset}

    def elements(self) -> list[bytes]:
        size = itemsize_of(self.dtype)
        steps = row_major(self.shape) if self.strides is None else self.strides
        return [
            C.string_at(self.element_zero + offset * size, size)
            for offset in offsets(self.shape, steps)
        ]

    def values(self) -> list[Any]:
        return [decode(self.dtype, raw) for raw in self.elements()]

    def write(self, position: int, value: Any) -> None:
        """Write to one element, as a consumer does that believes the memory is its own."""
        self.put(position, encode(self.dtype, value))

    def put(self, position: int, raw: bytes) -> None:
        steps = row_major(self.shape) if self.strides is None else self.strides
        where = self.element_zero + offsets(self.shape, steps)[position] * itemsize_of(self.dtype)
        C.memmove(where, raw, len(raw))


def read_int64s(address: int | None, count: int) -> tuple[int, ...] | None:
    return None if not address else tuple((C.c_int64 * max(0, count)).from_address(address))


def look(capsule: Any) -> View:
    """Read an unconsumed capsule without consuming it."""
    return View(pointer_of(capsule), name_of(capsule))


class Import:
    """A consumer's own side of an import.  Gives back what it took when it dies."""

    def __init__(self, view: View, *, capsule: Any = None, owned: bool = True, keep: Any = None):
        self.view = view
        self.capsule = capsule  # held by consumers that free through the capsule
        self.keep = keep  # held by consumers that keep only the exporting object
        self._owned = owned  # this side calls the deleter

    @property
    def name(self) -> str:
        return self.view.name

    @property
    def flags(self) -> int | None:
        return self.view.flags

    def values(self) -> list[Any]:
        return self.view.values()

    def release(self, how: str = "held") -> None:
        """Give the tensor back: with the GIL held, released, or on a thread of C."""
        self.capsule = self.keep = None
        if not self._owned:
            return
        self._owned = False
        if how == "c-thread":
            delete_on_c_thread(self.view.address, self.view.name)
        else:
            call_deleter(self.view.address, self.view.name, held=how == "held")

    def forget(self) -> None:
        """A consumer that never gives back."""
        self._owned = False

    def __enter__(self) -> Import:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        if getattr(self, "_owned", False):
            self.release()


def take(capsule: Any) -> Import:
    """Rename the capsule and own the tensor, as NumPy, torch and CuPy do."""
    view = look(capsule)
    if view.name not in _USED:
        raise ValueError(f"PyCapsule_GetPointer called with incorrect name ({view.name})")
    rename(capsule)
    return Import(view)


def take_and_clear(capsule: Any) -> Import:
    """Rename and remove the destructor, as JAX, tvm-ffi and nanobind <= 2.12 do."""
    imported = take(capsule)
    clear_destructor(capsule)
    return imported


def seize(capsule: Any) -> Import:
    """Remove the destructor without renaming, as nanobind >= 2.13 does."""
    view = look(capsule)
    clear_destructor(capsule)
    return Import(view)


def hold(capsule: Any) -> Import:
    """Never rename; the capsule's own destructor frees: mpi4py >= 4.1, nanoarrow."""
    return Import(look(capsule), capsule=capsule, owned=False)


def take_by_used_name(capsule: Any) -> Import:
    """Rename, keep the capsule, fetch the pointer by the used name later: cuda.core."""
    name = name_of(capsule)
    rename(capsule)
    used = _USED[name]
    return Import(View(_get_pointer(capsule, _NAMES[used]), used), keep=capsule)


def gulp(capsule: Any, exporter: Any) -> Import:
    """Delete at once and keep only the exporting object alive: mpi4py 3.1 to 4.0."""
    view = look(capsule)
    rename(capsule)
    call_deleter(view.address, view.name, held=True)
    return Import(view, owned=False, keep=exporter)


def blind(capsule: Any) -> Import:
    """Read the legacy struct whatever the name says, as CuTe DSL's plain path does."""
    address = pointer_of(capsule)
    _set_name(capsule, _NAMES[USED_LEGACY])
    return Import(View(address, LEGACY))


# --- threads and memory of C ----------------------------------------------------------

_libc = C.CDLL(None)


def delete_on_c_thread(address: int, name: str) -> None:
    """Call the deleter on a thread that Python has never seen, without the GIL."""
    kind = ManagedTensor if name in (LEGACY, USED_LEGACY) else ManagedTensorVersioned
    deleter = kind.from_address(address).deleter
    if not deleter:
        return
    thread = C.c_ulong()
    create = _libc.pthread_create
    create.argtypes = [C.c_void_p, C.c_void_p, C.c_void_p, C.c_void_p]
    # A deleter returns nothing where a thread's start returns a pointer: nobody reads it.
    if create(C.addressof(thread), None, deleter, address):
        raise OSError("pthread_create failed")
    _libc.pthread_join.argtypes = [C.c_ulong, C.c_void_p]
    if _libc.pthread_join(thread, None):
        raise OSError("pthread_join failed")


def has_c_threads() -> bool:
    return os.name == "posix" and hasattr(_libc, "pthread_create")


def make_of_c(
    shape: Sequence[int] = (2, 3),
    dtype: str = "float32",
    *,
    version: tuple[int, int] | None = None,
    flags: int = 0,
    destructor: bool = True,
) -> Any:
    """A capsule without any Python in it: one malloc'ed block, and free() is its deleter.

    With `destructor` False nobody frees an unconsumed capsule but whoever takes it.
    """
    kind = ManagedTensor if version is None else ManagedTensorVersioned
    size, count = itemsize_of(dtype), math.prod(shape)
    head = C.sizeof(kind) + 2 * 8 * max(1, len(shape))
    _libc.malloc.restype = C.c_void_p
    _libc.malloc.argtypes = [C.c_size_t]
    base = _libc.malloc(head + max(1, count * size))
    raw = kind.from_address(base)
    C.memset(base, 0, C.sizeof(kind))
    tensor = raw.dl_tensor
    tensor.shape = base + C.sizeof(kind)
    tensor.strides = tensor.shape + 8 * max(1, len(shape))
    C.memmove(tensor.shape, bytes((C.c_int64 * len(shape))(*shape)), 8 * len(shape))
    C.memmove(tensor.strides, bytes((C.c_int64 * len(shape))(*row_major(shape))), 8 * len(shape))
    tensor.data = base + head
    data = b"".join(encode(dtype, k) for k in range(count))
    C.memmove(tensor.data, data, len(data))
    tensor.device_type, tensor.ndim = 1, len(shape)
    tensor.code, tensor.bits, tensor.lanes = dtype_tuple(dtype)
    if version is not None:
        raw.major, raw.minor = version
        raw.flags = flags
    raw.deleter = C.cast(_libc.free, C.c_void_p).value
    return new_capsule(
        base, LEGACY if version is None else VERSIONED, _destroy if destructor else None
    )


def blocks_in_use() -> int:
    """Python's own count of live memory blocks."""
    return sys.getallocatedblocks()


class _Allocated(C.Structure):
    """`struct mallinfo2` of glibc; the bytes in use are its eighth member."""

    _fields_ = [(name, C.c_size_t) for name in "abcdefg"] + [
        ("used", C.c_size_t),
        ("i", C.c_size_t * 2),
    ]


def bytes_of_malloc() -> int:
    """The bytes that C has by malloc(), in its main arena; 0 where the C library does not tell."""
    if not hasattr(_libc, "mallinfo2"):
        return 0
    _libc.mallinfo2.restype = _Allocated
    return int(_libc.mallinfo2().used)


def resident_bytes() -> int:
    """What this process occupies now; 0 where the system does not tell, or where a sanitizer
    keeps freed memory back (it looks for leaks itself)."""
    if os.environ.get("DLSHIM_SANITIZED") or hasattr(_libc, "__asan_init"):
        return 0
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def flat(values: Iterable[Any]) -> list[Any]:
    """Nested lists (memoryview.tolist, ndarray.tolist) as one flat list."""
    result: list[Any] = []
    for value in values if isinstance(values, list | tuple) else [values]:
        result.extend(flat(value) if isinstance(value, list | tuple) else [value])
    return result
