"""Columns of Arrow: the axes of a fixed_shape_tensor, and cures for columns that are refused.

The C code calls these functions by name, and imports this module when it first needs one.
"""

from __future__ import annotations

from math import prod

from . import cures, cures_by_library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def numpy_values(column: Any) -> Any:
    """The array behind a pandas column, or None where it is no array of NumPy."""
    is_numpys = type(column.dtype).__module__.partition(".")[0] == "numpy"
    return column.to_numpy() if is_numpys else None


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


# By problem, the method of a column of pyarrow's that leaves it behind, and how the values differ.
_NO_NUMBERS = "because its elements are no numbers"
_NUMBERS = "which numbers its different values"
_FLAT = "which has its elements in one dimension"
_BY_PYARROW = {
    "missing": ("fill_null(0)", ""),
    "bits": ("fill_null(False).cast('uint8')", ""),
    "dictionary": ("indices.fill_null(-1)", _NUMBERS),
    "text": ("dictionary_encode().indices.fill_null(-1)", _NUMBERS),
    "decimals": ("cast('float64')", "which rounds to 53 bits"),
    "lists": ("flatten()", _FLAT),
    "inside": ("flatten()", _FLAT),
    "missing inside": ("flatten().fill_null(0)", _FLAT),
    "fields": ("field(0)", ""),
}


def _of_any_library(x: Any, problem: str) -> str | None:
    if problem == "fields" and hasattr(x, "column_names"):
        return cures_by_library.instead(f"x[{x.column_names[0]!r}]")
    if problem == "runs":
        return cures_by_library.instead("pyarrow.compute.run_end_decode(pyarrow.array(x))")
    method, how = _BY_PYARROW.get(problem, ("", ""))
    if not method:
        return None
    chunked = not hasattr(type(x), "__arrow_c_array__") or getattr(x, "n_chunks", 1) > 1
    column = "pyarrow.chunked_array(x).combine_chunks()" if chunked else "pyarrow.array(x)"
    return cures_by_library.instead(f"{column}.{method}") + (how and f", {how}")


def cure(x: Any, problem: str) -> str | None:
    """Say "pass ... instead", for a column of any library; the message says the problem before."""
    library = type(x).__module__.partition(".")[0]
    if library not in cures_by_library.BY_LIBRARY:
        return _of_any_library(x, problem)
    said = cures.cure(x, f"{type(x).__module__}.{type(x).__qualname__}", False)
    return said and said.removeprefix(f"{_NO_NUMBERS}: ").partition(", because ")[0]
