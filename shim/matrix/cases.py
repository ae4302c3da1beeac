"""The small arrays that are exchanged."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BY_KEY", "CASES", "COST_CASE", "Case"]


@dataclass(frozen=True)
class Case:
    key: str
    title: str
    shape: tuple[int, ...]
    #: Row-major values that every consumer must see.
    values: tuple[float | int | bool, ...]
    dtype: str = "float32"
    #: "dense" (C-contiguous), "transposed" (dense in another order), "step" (with gaps), "reversed"
    layout: str = "dense"
    readonly: bool = False


CASES = (
    Case("line", "float32, one dimension", (6,), (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)),
    Case("grid", "float32, two dimensions", (2, 3), (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)),
    Case(
        "transposed",
        "float32, transposed",
        (3, 2),
        (0.0, 3.0, 1.0, 4.0, 2.0, 5.0),
        layout="transposed",
    ),
    Case("step", "float32, every second element", (3,), (0.0, 2.0, 4.0), layout="step"),
    Case(
        "reversed",
        "float32, reversed (negative stride)",
        (6,),
        (5.0, 4.0, 3.0, 2.0, 1.0, 0.0),
        layout="reversed",
    ),
    Case("readonly", "float32, read-only", (6,), (0.0, 1.0, 2.0, 3.0, 4.0, 5.0), readonly=True),
    Case("scalar", "float32, no dimension", (), (7.0,)),
    Case("empty", "float32, no element", (0, 3), ()),
    Case("bool", "bool", (4,), (True, False, True, True), dtype="bool"),
    Case("uint8", "uint8", (4,), (1, 2, 3, 4), dtype="uint8"),
    Case("bfloat16", "bfloat16", (4,), (1.0, 2.0, 3.0, 4.0), dtype="bfloat16"),
)
BY_KEY = {case.key: case for case in CASES}
COST_CASE = "line"
