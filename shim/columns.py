"""Columns of Arrow: what the C code has to know to read one, or to say why it does not.

The C code calls these functions by name.  ``import dlshim`` imports this module.
"""

from __future__ import annotations

import sys

from .locks import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: More than the parameters of any fixed_shape_tensor have: an object, and a list each for shape,
#: permutation and names of the axes.  Brackets in each other without end would need all the stack.
MANY_BRACKETS = 200


def values_of_pandas(column: Any) -> Any:
    """The array of NumPy behind a pandas column, or the method __arrow_c_stream__ of the column of
    PyArrow that it has, or makes of values and a mask; None where it has neither.

    The Series' own method has PyArrow convert the column, which is slower and gives the same.
    """
    if type(column.dtype).__module__.partition(".")[0] == "numpy":
        return column.to_numpy()
    if type(column.dtype).__name__ == "BooleanDtype" and not column.hasnans:
        values = column.to_numpy(dtype="bool").view()  # Arrow would pack them into bits
        values.flags.writeable = False
        return values
    make = getattr(column.array, "__arrow_array__", None)
    if make is None:
        return None
    made = make()
    if not hasattr(made, "__arrow_c_stream__"):
        made = sys.modules["pyarrow"].chunked_array([made])
    return getattr(made, "__arrow_c_stream__", None)


def tensor_axes(parameters: bytes, items: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of one value in memory, and for each axis that is shown the axis of the memory."""
    if parameters.count(b"[") + parameters.count(b"{") > MANY_BRACKETS:
        raise ValueError(f"there are more than {MANY_BRACKETS} brackets in them")
    said = import_module("json").loads(parameters)
    shape = said["shape"]
    permutation = said.get("permutation") or [*range(len(shape))]
    numbers = all(type(each) is int and each >= 0 for each in (*shape, *permutation))
    product = 1
    for extent in shape if numbers else ():
        product *= extent
    if not numbers or product != items:
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
