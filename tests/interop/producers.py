"""Who gives arrays away: what the adapters in ``libraries`` have in common.

An adapter says which element types and layouts its library can make, makes them, and tells the
facts about what it made: where element zero lies, how the elements lie, whether the memory may be
written. Facts are read from the library itself or follow from how the array was made; they are
what the model expects from, so nothing here asks DLPack.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .cases import (
    LAYOUTS,
    PLAIN,
    DType,
    Layout,
    row_major,
)

WRITABLE, STATED, IMMUTABLE = "writable", "stated read-only", "immutable, not stated"


@dataclass(frozen=True)
class Facts:
    """What is known about one made array before anybody exchanges it."""

    producer: str
    dtype: DType
    """As DLPack will say it: a library that has no bool type of its own says uint8."""
    layout: Layout
    access: str
    address: int | None
    """Of element zero; None where the library gives no stable address."""
    legacy_dtype: DType | None = None
    """What dlshim tells legacy consumers instead, because the library's own capsule says it."""

    @property
    def negative(self) -> bool:
        """Strides that a consumer can walk backwards by: an extent below 2 is never walked."""
        if 0 in self.layout.shape:
            return False
        walks = zip(self.layout.shape, self.layout.strides, strict=True)
        return any(n > 1 and s < 0 for n, s in walks)

    @property
    def aligned(self) -> int | None:
        """The largest power of two up to 64 that divides the address."""
        return None if self.address is None else (self.address | 64) & -(self.address | 64)


@dataclass
class Made:
    obj: Any
    facts: Facts
    read: Callable[[], bytes] | None = None
    """Reads the elements through the source, in row-major order."""
    watch: Callable[[], Any] | None = None
    """A weak reference to what owns the memory: dead when nobody holds it any more."""
    keep: list = field(default_factory=list)


class Unmakeable(Exception):
    """The library cannot make this array, or refuses to say it in the asked form."""


class Producer:
    name: str
    library: str = "numpy"
    """The distribution whose version is reported."""
    modules: tuple[str, ...] = ()
    dtypes: frozenset[str] = frozenset(PLAIN)
    layouts: frozenset[str] = frozenset(LAYOUTS)
    capsule = False
    """Gives a raw capsule: usable once."""

    def __init__(self) -> None:
        self.imported = [importlib.import_module(m) for m in self.modules]
        self.setup()

    def setup(self) -> None:
        """What must be done once per process."""

    def can(self, dtype: DType, layout: Layout) -> bool:
        if dtype.name not in self.dtypes or layout.name not in self.layouts:
            return False
        return not (layout.shift and dtype.itemsize == 1)

    def make(self, dtype: DType, layout: Layout) -> Made:
        raise NotImplementedError

    def bare(self, made: Made) -> Any:
        """What a user hands to a consumer without dlshim."""
        return made.obj

    def facts(self, dtype, layout, address, access=None) -> Facts:
        if access is None:
            access = STATED if layout.readonly else WRITABLE
        return Facts(self.name, dtype, layout, access, address)


def contiguous(*, readonly: bool, ndim: tuple[int, ...] = (0, 1, 2, 3), offset=False) -> frozenset:
    return frozenset(
        name
        for name, layout in LAYOUTS.items()
        if layout.contiguous
        and len(layout.shape) in ndim
        and layout.strides == row_major(layout.shape)
        and not layout.shift
        and (offset or not layout.offset)
        and (readonly or not layout.readonly)
    )


NON_NEGATIVE = frozenset(n for n, v in LAYOUTS.items() if min((0, *v.strides)) == 0)
ALIGNED = frozenset(n for n, v in LAYOUTS.items() if not v.shift)
NOT_READONLY = frozenset(n for n, v in LAYOUTS.items() if not v.readonly)


def bytes_of(array_: np.ndarray) -> bytes:
    return np.ascontiguousarray(array_).tobytes()
