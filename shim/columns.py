"""Columns of Arrow: the axes of a fixed_shape_tensor, and cures for columns that are refused.

The C code calls these functions by name, and imports this module when it first needs one.
"""

from __future__ import annotations

import sys
from math import prod

from . import cures, cures_by_library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def numpy_values(column: Any) -> Any:
    """The array behind a pandas column, or None where it is no array of NumPy."""
    numpy = sys.modules["numpy"]
    return column.to_numpy() if isinstance(column.dtype, numpy.dtype) else None


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


# By problem, the method of a column of pyarrow's that leaves it behind.  No row: there is none.
_BY_PYARROW = {
    "missing": "fill_null(0)",
    "bits": "fill_null(False).cast('uint8')",
    "dictionary": "indices.fill_null(-1)",
    "decimals": "cast('float64')",
    "lists": "flatten()",
    "inside": "flatten()",
    "missing inside": "flatten().fill_null(0)",
}
_HOW = {
    "dictionary": "which numbers its different values",
    "decimals": "which rounds to 53 bits",
    "lists": "which has its elements in one dimension",
    "inside": "which has its elements in one dimension",
    "missing inside": "which has its elements in one dimension",
}


def cure(x: Any, problem: str) -> str | None:
    """Say "pass ... instead", for a column of any library; the message says the problem before."""
    library = type(x).__module__.partition(".")[0]
    if library in cures_by_library.BY_LIBRARY:
        said = cures.cure(x, f"{type(x).__module__}.{type(x).__qualname__}", False)
        return said and said.partition(", because ")[0]
    method = _BY_PYARROW.get(problem)
    if method is None:
        return None
    chunked = hasattr(type(x), "__arrow_c_stream__")
    column = "pyarrow.chunked_array(x).combine_chunks()" if chunked else "pyarrow.array(x)"
    how = _HOW.get(problem)
    return f"pass {column}.{method} instead" + (f", {how}" if how else "")
