"""Reads a fuzzer's bytes as numbers, texts and Python values.

Bytes that are missing read as 0, so that every input is a lawful one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")

EDGES = (
    *(2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, -(2**64), 2**62, 2**61 + 4, 2**60 + 1),
    *(2**32, 2**31, -(2**31), 2**31 - 1, 65535, 65536, 10**30),
)
WORDS = (
    *("cpu", "cuda:1", "K", "C", "error", "share", "copy", "auto", "same", "legacy", "float32"),
    *("int4", "bool", "<f4", "|u1", ">i2", "|V3", "<M8[ns]", "|O", "", "cuda:9999999999"),
    "\ud800",
)


class Input:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def raw(self, count: int) -> bytes:
        piece = self.data[self.at : self.at + count]
        self.at += len(piece)
        return piece

    def byte(self) -> int:
        return int.from_bytes(self.raw(1), "little")

    def pick(self, values: Sequence[T]) -> T:
        return values[self.byte() % len(values)]

    def int64(self) -> int:
        """Mostly a small number, often one at which arithmetic breaks, else any 8 bytes."""
        kind = self.byte()
        if kind == 255:
            return int.from_bytes(self.raw(8), "little", signed=True)
        value = EDGES[kind % len(EDGES)] if kind >= 0xE0 else kind % 24 - 4
        return value if -(2**63) <= value < 2**63 else -1

    def number(self) -> int:
        """Any int, of 64 bits or not."""
        return EDGES[self.byte() % len(EDGES)] if self.byte() >= 0xE0 else self.int64()

    def value(self, depth: int = 2) -> Any:
        """Any plain Python value: what a caller or a producer may pass where it should not."""
        makers = (
            lambda: None,
            self.number,
            self.number,
            lambda: tuple(self.value(depth - 1) for _ in range(self.byte() % 4)),
            lambda: self.pick(WORDS),
            lambda: self.raw(self.byte() % 24).decode("latin-1"),
            lambda: self.raw(self.byte() % 24),
            lambda: self.pick((True, False)),
            lambda: [self.value(depth - 1) for _ in range(self.byte() % 4)],
            lambda: self.number() / 3,
            lambda: {self.pick(WORDS): self.value(depth - 1)},
            lambda: self.pick((..., int, object(), 1j, float("nan"))),
        )
        kind = self.byte() % len(makers)
        return self.number() if depth <= 0 and kind in (3, 8, 10) else makers[kind]()
