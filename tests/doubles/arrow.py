"""A consumer of Arrow's C data interface: it moves the structs out of the capsules, as all do."""

from __future__ import annotations

import ctypes as C
import itertools
import math
import struct
from collections.abc import Callable
from typing import Any

SCHEMA, ARRAY = "arrow_schema", "arrow_array"
NULLABLE = 2

_api = C.pythonapi
_get_pointer = C.PYFUNCTYPE(C.c_void_p, C.py_object, C.c_char_p)(("PyCapsule_GetPointer", _api))
_new = C.PYFUNCTYPE(C.py_object, C.c_void_p, C.c_char_p, C.c_void_p)(("PyCapsule_New", _api))


class ArrowSchema(C.Structure):
    _fields_ = [
        ("format", C.c_char_p),
        ("name", C.c_char_p),
        ("metadata", C.c_void_p),
        ("flags", C.c_int64),
        ("n_children", C.c_int64),
        ("children", C.c_void_p),
        ("dictionary", C.c_void_p),
        ("release", C.c_void_p),
        ("private_data", C.c_void_p),
    ]


class ArrowArray(C.Structure):
    _fields_ = [
        ("length", C.c_int64),
        ("null_count", C.c_int64),
        ("offset", C.c_int64),
        ("n_buffers", C.c_int64),
        ("n_children", C.c_int64),
        ("buffers", C.c_void_p),
        ("children", C.c_void_p),
        ("dictionary", C.c_void_p),
        ("release", C.c_void_p),
        ("private_data", C.c_void_p),
    ]


def held(capsule: Any, name: str) -> Any:
    """The struct in a capsule, borrowed."""
    kind = ArrowSchema if name == SCHEMA else ArrowArray
    return kind.from_address(_get_pointer(capsule, name.encode()))


def move(source: Any) -> Any:
    """A copy of the struct, which now owns what `source` owned."""
    moved = type(source).from_buffer_copy(source)
    source.release = None
    return moved


def children(parent: Any) -> list[Any]:
    """The structs of the level below, borrowed."""
    at = (C.c_void_p * parent.n_children).from_address(parent.children or 0)
    return [type(parent).from_address(address) for address in at] if parent.n_children else []


def release(moved: Any) -> None:
    """Without the GIL, and only once: a second call would be a jump to NULL."""
    assert moved.release, "released already"
    C.CFUNCTYPE(None, C.c_void_p)(moved.release)(C.addressof(moved))
    assert not moved.release


def release_on_c_thread(moved: Any) -> None:
    """On a thread that Python has never seen."""
    libc = C.CDLL(None)
    thread = C.c_ulong()
    libc.pthread_create.argtypes = [C.c_void_p] * 4
    libc.pthread_join.argtypes = [C.c_ulong, C.c_void_p]
    assert libc.pthread_create(C.addressof(thread), None, moved.release, C.addressof(moved)) == 0
    assert libc.pthread_join(thread, None) == 0
    assert not moved.release


def free(address: int) -> None:
    """Free a struct that its capsule no longer frees."""
    C.CFUNCTYPE(None, C.c_void_p)(("free", C.CDLL(None)))(address)


def levels(top: Any) -> list[Any]:
    """The structs from the outermost to the one with the elements."""
    found = [top]
    while found[-1].n_children:
        found += children(found[-1])
    return found


class Column:
    """What came of ``__arrow_c_array__``, moved out of the capsules."""

    def __init__(self, x: Any, requested: Any = None) -> None:
        schema, array = x.__arrow_c_array__(requested)
        self.schema, self.array = move(held(schema, SCHEMA)), move(held(array, ARRAY))

    @property
    def formats(self) -> list[str]:
        return [level.format.decode() for level in levels(self.schema)]

    @property
    def lengths(self) -> list[int]:
        return [level.length for level in levels(self.array)]

    @property
    def address(self) -> int | None:
        last = levels(self.array)[-1]
        return C.c_void_p.from_address(last.buffers + C.sizeof(C.c_void_p)).value

    def values(self) -> list[Any]:
        letter = self.formats[-1]
        letter = {"c": "b", "C": "B", "s": "h", "S": "H", "l": "q", "L": "Q", "g": "d"}.get(
            letter, letter
        )
        count = self.lengths[-1]
        memory = C.string_at(self.address or 0, count * struct.calcsize(letter)) if count else b""
        return list(struct.unpack(f"={count}{letter}", memory))

    def release(self, end: Callable[[Any], None] = release) -> None:
        release(self.schema)
        end(self.array)


def request(*formats: str, fields: int = 1, released: bool = False) -> Any:
    """A capsule with a schema of these levels, for `requested_schema`; it owns nothing."""
    made = [ArrowSchema(format=each.encode() or None, name=b"") for each in formats]
    kept: list[Any] = [*made]
    for parent, child in itertools.pairwise(made):
        pointers = (C.c_void_p * fields)(*[C.addressof(child)] * fields)
        kept.append(pointers)
        parent.n_children, parent.children = fields, C.addressof(pointers)
    if not released:
        made[0].release = C.cast(C.CDLL(None).abs, C.c_void_p).value  # nobody may call it
    _kept.append(kept)
    return _new(C.addressof(made[0]), _NAME, None)


_NAME = C.c_char_p(SCHEMA.encode())
_kept: list[list[Any]] = []  # of all requests


def row_major(shape: tuple[int, ...]) -> list[int]:
    """The lengths that a column of this shape has, level by level."""
    return [math.prod(shape[: k + 1]) for k in range(len(shape))]
