"""Polars: Series, which give their memory by Arrow."""

from __future__ import annotations

from .arrays import Case, Made, Producer, loaded, nested, numpy_address
from .rows import Library

LIBRARY = Library("polars", "polars", ("polars",))


def _polars(case: Case) -> Made:
    polars = loaded("polars")
    dtype = {"float32": polars.Float32, "uint8": polars.UInt8}[case.dtype]
    if len(case.shape) > 1:
        dtype = polars.Array(dtype, case.shape[1:])
    made = polars.Series(nested(case), dtype=dtype)
    return Made(made, numpy_address(made))


GIVES = (
    Producer(
        "polars",
        "Polars Series",
        "polars",
        ("line", "grid", "uint8"),
        _polars,
        needs=("numpy",),
        immutable=True,
        dlpack=False,
    ),
)
