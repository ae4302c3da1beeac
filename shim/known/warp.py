"""Warp."""

from __future__ import annotations

from typing import Any

from .arrays import Case, Consumer, Made, Producer, laid_out, loaded, shown
from .rows import ARROW, BF16, LEGACY, REAL, Fault, Known, Library, old, spans

LIBRARY = Library("warp", "warp", ("warp-lang",), "Warp")

SOURCES = (old("warp", "warp", (1, 9), (1, 20)),)

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

_WARP = spans(
    (1, 20),
    Known(
        "warp.from_dlpack",
        "warp",
        (1, 9),
        asks=LEGACY,
        keywords=("stream",),
        retries=False,
        dtypes=ARROW,
        limits=("scalar", "dtype"),
        raises=("IndexError", "RuntimeError", "TypeError"),
        no_way=("AttributeError", "TypeError", "AssertionError"),
        takes_capsules=True,
        devices=(2, 3, 13),
    ),
    ((1, 13), {"dtypes": ARROW | BF16, "no_way": ("AttributeError", "TypeError")}),
    ((1, 16), {"dtypes": REAL | BF16}),
)

FUNCTIONS = (*_WARP,)


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
