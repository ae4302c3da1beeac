"""pandas: Series of NumPy's numbers, and of Arrow's."""

from __future__ import annotations

from .arrays import Case, Made, Producer, loaded, numpy_address
from .rows import Library

LIBRARY = Library("pandas", "pandas", ("pandas",))


def _pandas(case: Case) -> Made:
    made = loaded("pandas").Series(case.values, dtype=case.dtype)
    return Made(made, numpy_address(made))


def _pandas_arrow(case: Case) -> Made:
    dtype = {"float32": "float[pyarrow]", "uint8": "uint8[pyarrow]"}[case.dtype]
    made = loaded("pandas").Series(case.values, dtype=dtype)
    return Made(made, numpy_address(made))


GIVES = (
    Producer(
        "pandas",
        "pandas Series",
        "pandas",
        ("line", "bool", "uint8"),
        _pandas,
        immutable=True,
        dlpack=False,
    ),
    Producer(
        "pandas.Arrow",
        "pandas Series, Arrow",
        "pandas",
        ("line", "uint8"),
        _pandas_arrow,
        needs=("pyarrow",),
        immutable=True,
        dlpack=False,
    ),
)
