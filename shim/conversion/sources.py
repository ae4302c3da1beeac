"""What an object is that is brought into a library: an array, a column, a table, or what holds one.

Nothing here imports a library: classes are known by their names.
"""

from __future__ import annotations

from .._core import Producer
from ..habits import TAKES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Types of Python's that arrays are made of.
_PYTHON = (bool, int, float, complex, list, tuple, range)


def top(cls: type) -> str:
    """The package that a class names."""
    return str(getattr(cls, "__module__", "")).partition(".")[0]


def is_of(x: Any, *packages: str) -> bool:
    """Whether the class of x, or one below it, is of one of these packages."""
    return not {top(cls) for cls in type(x).__mro__}.isdisjoint(packages)


def is_a(x: Any, names: str, *packages: str) -> bool:
    """Whether its class, or one below it, has one of these names and is of one of the packages."""
    known = names.split()
    return any(cls.__name__ in known and top(cls) in packages for cls in type(x).__mro__)


def held(x: Any) -> Any:
    """What an object holds, where reading it does no work: files, labels, variables."""
    if is_a(x, "Dataset Array Variable", "h5py", "zarr", "netCDF4"):
        return x[...]
    if is_a(x, "DataArray Variable", "xarray"):
        return x.data
    if is_of(x, "tensorflow") and hasattr(x, "read_value"):
        return x.read_value()
    grad = getattr(x, "requires_grad", None) is True or getattr(x, "stop_gradient", None) is False
    return x.detach() if grad and is_of(x, "torch", "paddle") else x


def of_older_release(x: Any) -> Any:
    """A column that offers nothing yet, as an array of PyArrow; None: it is no such column."""
    if hasattr(type(x), "__arrow_c_stream__"):
        return None
    if is_a(x, "Series", "polars"):  # before 1.3
        return x.to_arrow()
    return x.combine_chunks() if is_a(x, "ChunkedArray", "pyarrow") else None  # before 15


def undone(x: Any) -> str | None:
    """The call that does the work which an object stands for."""
    if is_a(x, "LazyFrame", "polars"):
        return "x.collect()"
    return "x.compute()" if hasattr(x, "dask") and hasattr(x, "compute") else None


def is_fixed(x: Any) -> bool:
    """Whether it must not change although its memory does not say so."""
    row = TAKES.get(top(type(x.source if isinstance(x, Producer) else x)))
    return row is not None and "LATE_ITSELF" in row.words


def is_table(x: Any) -> bool:
    return is_a(x, "DataFrame Table RecordBatch", "pandas", "polars", "pyarrow")


def is_column(x: Any) -> bool:
    cls = type(x)
    arrow = hasattr(cls, "__arrow_c_array__") or hasattr(cls, "__arrow_c_stream__")
    return (arrow and not hasattr(cls, "__array_interface__")) or is_a(x, "Series Index", "pandas")


def is_python(x: Any) -> bool:
    """Whether it is a number, a list or a tuple of Python's, and nothing more."""
    if type(x) in _PYTHON:
        return True
    offers = hasattr(type(x), "__dlpack__") or hasattr(type(x), "__array_interface__")
    return isinstance(x, _PYTHON) and not offers


def is_array(x: Any) -> bool:
    """Whether it is an array and no scalar of NumPy, which lists may have as numbers."""
    cls = type(x)
    offers = hasattr(cls, "__dlpack__") or hasattr(cls, "__array_interface__")
    return offers and not (is_of(x, "numpy") and not hasattr(cls, "__setitem__"))


def is_dates(x: Any) -> bool:
    """Whether it is one axis of NumPy's dates or texts."""
    return is_of(x, "numpy") and getattr(x, "ndim", 0) == 1 and x.dtype.kind in "MmUST"
