"""Passes for Warp 1.19 (see standing.py)."""

from __future__ import annotations

from typing import Any

import standing

from doubles import device as fake
from doubles.producers import masquerade

int32 = "int32"


class Stream(standing.Stream):
    def __init__(self, device: Any) -> None:
        super().__init__(device if isinstance(device, int) else standing.make_stream(True))

    @property
    def cuda_stream(self) -> int:
        return self.handle


_current = standing.Current(Stream)
ScopedStream = _current.at


class _Array(fake.WarpLike):
    @property
    def ptr(self) -> int:
        return self.address


array = masquerade(_Array, "array", "warp._src.types")


def is_cuda_available() -> bool:
    return True


def full(count: int, value: int, dtype: Any, device: str) -> Any:
    x = array(standing.drv, _current.stream.handle, shape=(count,), dtype="int32")
    return standing.fill(x, value)
