"""Who takes arrays in: what adapters in ``libraries`` have in common; each has one way of asking.

An adapter imports (``take``), tells what it got by the library's own means (``look``), and says
what the library can hold (``limit``: None, or the name of a row in ``refusals``). How the library
asks and what it holds is read from the rows of ``functions``, where ``known``
names the function; else the class attributes say it. Both are written from sources and
documentation (and checked by ``test_calls.py`` with a spy), not from the results of the matrix.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dlshim import look

from . import functions, refusals, versions
from .cases import BY_TRIPLE, DTYPES, DType, Layout, row_major, truth
from .functions import (
    COPIES,
    COPIES_UNALIGNED,
    IGNORES,
    LIMITS,
    SHARES,
    VERSIONED,
    Function,
)
from .producers import Facts

FROM_THE_TABLE = (
    "asks", "reads_table", "supports_negative", "never_writes", "memory", "buffer_next", "flag",
    "dtypes", "layout",
)  # fmt: skip


@dataclass
class Seen:
    """What a consumer has got."""

    shape: tuple[int, ...]
    dtype: str
    data: bytes
    """The elements in row-major order, read by the consumer's own means."""
    address: int | None
    writable: bool | None
    """None: the library has no way to say it."""


class Consumer:
    name: str
    library: str
    modules: tuple[str, ...] = ()
    known = ""
    """The function's name in ``functions``."""
    buffer = False
    """Never asks for DLPack: upgraded it is given ``dlshim.from_dlpack(x)``, for its buffer."""
    capsule = False
    """Takes raw capsules only: bare it is given ``x.__dlpack__()``."""
    asks = VERSIONED
    """Of objects without a C table."""
    reads_table = False
    """Calls the functions of a C table where the type has one: versioned."""
    supports_negative = True
    """Asks in one of the ways that are known to support negative strides (N9)."""
    never_writes = False
    """Code of its library asks, and is known to write to no memory (T8)."""
    memory = SHARES
    layout = ""
    """The limit of its layout that dlshim knows too, and refuses (N9)."""
    asks_copy = False
    """Passes copy=True: then dlshim makes the copy (T8)."""
    buffer_first = False
    """Looks for the buffer protocol before DLPack. A Producer has none, so it is asked for DLPack
    all the same; a Tensor has one, and then the exchange is not DLPack's any more."""
    buffer_next = False
    """Tries the buffer protocol, and accepts read-only memory there, where DLPack is refused."""
    flag = IGNORES
    """What it does with READ_ONLY."""
    blind_to: tuple[str, ...] = ()
    """Planted faults (``faults``) that it cannot notice in any of its releases."""
    keeps_shape = True
    flat = False
    """Its elements have no shape."""
    calls: ClassVar[dict[str, str]] = {}
    """Its names of element types that it does not know."""
    raises: tuple[str, ...] = ("BufferError",)
    """What the caller sees when the wrapper raises a BufferError."""
    dtypes: frozenset[str] = frozenset(DTYPES)
    dtype_row = ""

    def __init__(self) -> None:
        self.imported = [importlib.import_module(m) for m in self.modules]
        if self.known:
            self.read(functions.row_of(self.known, self.version()))
        self.setup()

    def read(self, row: Function) -> None:
        self.row = row
        self.capsule, self.buffer = row.wants == "capsule", row.wants == "buffer"
        for name in FROM_THE_TABLE:
            setattr(self, name, getattr(row, name))

    def version(self) -> tuple[int, ...]:
        return versions.of(self.library)

    def setup(self) -> None:
        """What must be done once per process."""

    def take(self, obj: Any) -> Any:
        raise NotImplementedError

    def look(self, result: Any) -> Seen:
        raise NotImplementedError

    def limit(self, facts: Facts) -> str | None:
        """Which documented limit of the library this array meets; None: it can hold it."""
        if self.known:
            layout = facts.layout
            array = look.Array(facts.dtype.name, layout.shape, layout.strides)
            met = self.row.limit(array)
            return refusals.key(self.row, met) if met else self.layout_limit(facts)
        if facts.dtype.name not in self.dtypes:
            return self.dtype_row
        return self.layout_limit(facts)

    def is_known_to_refuse(self, layout: Layout) -> bool:
        """By the limit of its row that dlshim knows too; the element type does not count."""
        meets = LIMITS[self.layout].meets if self.layout else None
        return bool(meets and meets(look.Array("", layout.shape, layout.strides)))

    def layout_limit(self, facts: Facts) -> str | None:
        return None

    def copies(self, facts: Facts) -> bool:
        if self.memory == COPIES_UNALIGNED:
            return facts.aligned is not None and facts.aligned < 64
        return self.memory == COPIES

    def waits(self) -> Iterable[None]:
        """How often it is worth asking again whether everything has been let go of."""
        return ()

    def want(self, dtype: DType, layout: Layout) -> bytes:
        """What ``look`` must read."""
        return truth(dtype, layout)


def see_numpy(array: np.ndarray) -> Seen:
    return Seen(
        array.shape,
        array.dtype.name,
        np.ascontiguousarray(array).tobytes(),
        array.__array_interface__["data"][0],
        bool(array.flags.writeable),
    )


def columns(layout: Layout) -> Layout | None:
    """The layout with its axes reversed, if it is column-major contiguous."""
    turned = replace(layout, shape=layout.shape[::-1], strides=layout.strides[::-1])
    return turned if turned.contiguous and not layout.contiguous else None


def see_dlpack(obj) -> Seen:
    """For libraries that give no other way to the memory: through their own DLPack export, read
    with ctypes (the export is theirs, the reading is ours; dlshim takes no part)."""
    capsule = obj.__dlpack__()
    t = legacy_struct(capsule)
    said = BY_TRIPLE.get((t.code, t.bits, t.lanes))
    shape = tuple(t.shape[i] for i in range(t.ndim))
    strides = tuple(t.strides[i] for i in range(t.ndim)) if t.strides else row_major(shape)
    address = (t.data or 0) + t.byte_offset
    data = read_memory(address, said.itemsize if said else 1, shape, strides)
    return Seen(shape, said.name if said else "?", data, address, None)


class LegacyStruct(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def legacy_struct(capsule) -> LegacyStruct:
    return LegacyStruct.from_address(_pointer(capsule, b"dltensor"))


def read_memory(address: int, itemsize: int, shape, strides) -> bytes:
    places = [address]
    for extent, stride in zip(shape, strides, strict=True):
        places = [p + k * stride * itemsize for p in places for k in range(extent)]
    return b"".join(ctypes.string_at(p, itemsize) for p in places)
