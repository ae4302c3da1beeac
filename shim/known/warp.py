"""Warp."""

from __future__ import annotations

from typing import Any

from .arrays import Case, Consumer, Made, Producer, laid_out, loaded, shown
from .rows import Fault, Library

LIBRARY = Library("warp", "warp", ("warp-lang",), "Warp")

FAULTS = (
    Fault(
        "warp",
        "ignores byte offsets",
        "wrong",
        since=(0, 2),
        upgraded="cured",
        source="NVIDIA/warp#1573",
    ),
)


def _warp(case: Case) -> Made:
    warp = loaded("warp")
    dtype = getattr(warp, case.dtype)

    def make(values: list[Any]) -> Any:
        return warp.array(values, dtype=dtype, device="cpu")

    if case.key == "empty":
        made = warp.empty(case.shape, dtype=dtype, device="cpu")
    else:
        made = laid_out(case, make, lambda made: made.transpose())
    return Made(made, made.ptr)


GIVES = (
    Producer(
        "warp",
        "warp",
        "warp",
        ("line", "grid", "empty", "bool", "uint8", "transposed", "step"),
        _warp,
    ),
)

TAKES = (
    Consumer(
        "warp",
        "warp",
        "warp",
        "warp.from_dlpack",
        lambda made: shown(made.shape, made.numpy().tolist(), made.ptr),
    ),
)
