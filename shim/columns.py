"""Columns of Arrow: the axes of a fixed_shape_tensor, and cures for columns that are refused.

The C code calls these functions by name, and imports this module when it first needs one.
"""

from __future__ import annotations

import sys
from math import prod

from . import cures, cures_of_columns
from .cure_texts import CONVERT, NO_NUMBERS, Reasoned, instead
from .cures_by_library import BY_LIBRARY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def values_of_pandas(column: Any) -> Any:
    """The array of NumPy behind a pandas column, or the method __arrow_c_stream__ of the column of
    PyArrow that it has, or makes of values and a mask; None where it has neither.

    The Series' own method has PyArrow convert the column, which is slower and gives the same.
    """
    if type(column.dtype).__module__.partition(".")[0] == "numpy":
        return column.to_numpy()
    make = getattr(column.array, "__arrow_array__", None)
    if make is None:
        return None
    made = make()
    if not hasattr(made, "__arrow_c_stream__"):
        made = sys.modules["pyarrow"].chunked_array([made])
    return getattr(made, "__arrow_c_stream__", None)


def tensor_axes(parameters: bytes, items: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of one value in memory, and for each axis that is shown the axis of the memory."""
    from json import loads

    said = loads(parameters)
    shape = said["shape"]
    permutation = said.get("permutation") or [*range(len(shape))]
    numbers = all(type(each) is int and each >= 0 for each in (*shape, *permutation))
    if not numbers or prod(shape) != items:
        raise ValueError(f"the shape {shape} does not have the {items} elements of a value")
    if sorted(permutation) != [*range(len(shape))]:
        raise ValueError(f"{permutation} is no permutation of {len(shape)} axes")
    return tuple(shape), tuple(permutation)


def holds_objects(column: Any) -> bool:
    """Whether the column has Python objects: polars gives their addresses, as bytes."""
    return str(getattr(column, "dtype", "")) == "Object"


def is_read_once(column: Any) -> bool:
    """Whether its stream may be gone after one reading, as that of a reader or of a handle is.

    A column that is kept has a length; a stream has none.
    """
    return not hasattr(type(column), "__len__")


def _of_any_library(x: Any, problem: str) -> str | None:
    once = "a stream is read once: make it anew, and "
    if hasattr(type(x), "read_all"):
        return once + instead("x.read_all()")
    if problem == "fields" and hasattr(x, "column_names"):
        table = "x.to_arrow()" if hasattr(x, "to_arrow") else "x"  # x['a'] of daft has no values
        return instead(f"{table}[{x.column_names[0]!r}]")
    chunked = not hasattr(type(x), "__arrow_c_array__") or getattr(x, "n_chunks", 1) > 1
    column = "pyarrow.chunked_array(x).combine_chunks()" if chunked else "pyarrow.array(x)"
    if hasattr(x, "array") and not hasattr(type(x), "__arrow_c_stream__"):  # pandas' Index
        column = "x.array.__arrow_array__().combine_chunks()"
    anew = once if chunked and is_read_once(x) else ""
    if problem == "extension":  # whose message names what is below the type
        return anew + instead(column)
    if problem == "runs":
        return anew + instead(f"pyarrow.compute.run_end_decode({column})")
    if problem not in cures_of_columns.BY_PYARROW:
        return None
    # Nobody was asked what is missing.
    fill = ".fill_null(-1)" if problem in ("dictionary", "text") else ""
    return anew + cures_of_columns.by_pyarrow(column, problem, fill)


def cure(x: Any, problem: str) -> str | None:
    """Say "pass ... instead", for a column of any library; the message says the problem before."""
    known = any(each.__module__.partition(".")[0] in BY_LIBRARY for each in type(x).__mro__)
    if not known:
        return _of_any_library(x, problem)
    said = cures.cure(x, f"{type(x).__module__}.{type(x).__qualname__}", False)
    if said == NO_NUMBERS:
        return _of_any_library(x, problem) or CONVERT
    return said.way if isinstance(said, Reasoned) else said
