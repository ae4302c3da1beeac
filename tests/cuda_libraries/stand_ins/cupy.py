"""Passes for CuPy 14 (see standing.py)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

import standing

from doubles import device as fake
from doubles.producers import masquerade

__version__ = "14.0.0"
int32 = "int32"


class Stream(standing.Stream):
    def __init__(self, handle: int = 0, non_blocking: bool = False) -> None:
        super().__init__(handle or standing.make_stream(not non_blocking))
        self.entered: list[AbstractContextManager[Any]] = []

    @property
    def ptr(self) -> int:
        return 0 if self.handle == 1 else self.handle

    def __enter__(self) -> Stream:
        self.entered.append(_current.at(self))
        self.entered[-1].__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self.entered.pop().__exit__(*raised)


_current = standing.Current(Stream)


class _Memory(str):
    """What the double has as `data`, and CuPy's `MemoryPointer` beside it."""

    ptr: int


class _Array(fake.CupyLike):
    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.data: Any = _Memory(self.data)
        self.data.ptr = self.address


ndarray = masquerade(_Array, "ndarray", "cupy")


def full(shape: tuple[int], value: int, dtype: Any) -> Any:
    x = ndarray(standing.drv, _current.stream.handle, shape=shape, dtype="int32")
    return standing.fill(x, value)


cuda = SimpleNamespace(Stream=Stream, get_current_stream=lambda: _current.stream)
