"""ml_dtypes: NumPy arrays of bfloat16."""

from __future__ import annotations

from .arrays import Producer, made_by_numpy
from .rows import Library

LIBRARY = Library("ml_dtypes", "ml_dtypes", ("ml_dtypes",))

GIVES = (
    Producer(
        "ml_dtypes", "numpy+ml_dtypes", "ml_dtypes", ("bfloat16",), made_by_numpy, needs=("numpy",)
    ),
)
