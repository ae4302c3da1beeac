"""One array of what lies in many places: Python's lists and numbers, lists of arrays, tables."""

from __future__ import annotations

from ..locks import import_module
from .single import array
from .sources import is_of, of_older_release
from .targets import find
from .texts import copy_needed, kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .targets import Target


# ---- lists and numbers ---------------------------------------------------------------------------


def leaves(x: Any, above: tuple[int, ...] = ()) -> list[Any]:
    """What stands in lists and tuples, and in those inside of them."""
    if not isinstance(x, (list, tuple)):
        return [x]
    if id(x) in above:
        raise ValueError("to(): the list contains itself, so it is no array")
    above += (id(x),)
    return [leaf for each in x for leaf in leaves(each, above)]


def constructed(make: Any, x: Any, name: str) -> Any:
    """By the constructor of a library, whose errors are told with its name."""
    try:
        made = make(list(x) if isinstance(x, (range, tuple)) else x)
    except Exception as error:
        raise ValueError(
            f"to(): {name}.{make.__name__} refuses the list: {type(error).__name__}: {error}"
        ) from error
    if str(getattr(made, "dtype", "")).lower() == "object":
        raise ValueError(f"to(): {name} has no dtype for what is in the list\n  convert it first")
    return made


def numbers(x: Any, found: list[Any]) -> Any:
    """An array of NumPy; integers stay exact."""
    make = import_module("numpy").array
    made = constructed(make, x, "numpy")
    if made.dtype.kind != "f" or not found or not all(isinstance(each, int) for each in found):
        return made
    # NumPy has chosen float64, though uint64 may do.  A negative one would be wrapped by NumPy 1.
    if min(found) < 0 or max(found) >= 2**64:
        raise ValueError(
            "to(): numpy has no dtype for the integers in the list\n  convert them first"
        )
    return make(x, "uint64")


def stacked(arrays: list[Any]) -> Any:
    """Arrays along a new axis, as those of a batch."""
    for what, cure in {"shape": "pad", "dtype": "convert"}.items():
        told = {str(getattr(each, what)): None for each in arrays}
        if len(told) > 1:
            raise ValueError(
                f"to(): the arrays in the list have different {what}s ({', '.join(told)}), so they "
                f"are no array\n  pass them one by one, or {cure} them"
            )
    return import_module("numpy").stack(arrays)


# ---- tables --------------------------------------------------------------------------------------


def table(x: Any, target: Target, copy: bool | None) -> tuple[Any, bool]:
    """Two axes, of the columns of a table that have one dtype, and whether they were made here."""
    if target.row.column:
        raise BufferError(
            f"{kind(x)}: a table is no column\n  pass {target.row.table} or one of its columns"
        )
    block = _block(x)
    if block is not None:
        return block, False
    columns = _columns(x)
    if not columns:
        raise BufferError(f"{kind(x)}: it has no columns")
    dtypes = [str(getattr(each, "dtype", None) or each.type) for _, each in columns]
    if len(set(dtypes)) > 1:
        raise BufferError(
            f"{kind(x)}: its columns have different dtypes ({', '.join(dict.fromkeys(dtypes))})\n"
            f"  pass {columns[0][0]}, or convert them to one dtype"
        )
    if copy is False:
        raise copy_needed(x, "its columns lie in memory of their own")
    made = [_of_column(*each) for each in columns]
    return import_module("numpy").stack(made, axis=1), True


def _block(x: Any) -> Any:
    """The single block of a frame of pandas, whose columns are NumPy's and of one dtype."""
    if not is_of(x, "pandas"):
        return None
    dtypes = set(x.dtypes)
    if len(dtypes) != 1 or type(dtypes.pop()).__module__.partition(".")[0] != "numpy":
        return None
    found = x.to_numpy()
    return found if found.dtype.kind in "iufcb" else None


def _columns(x: Any) -> list[tuple[str, Any]]:
    """What to type for each column, and the column: by its place, as a name may be there twice."""
    if is_of(x, "pandas"):
        names, place, at = list(x.columns), "x.iloc[:, {}]", lambda i: x.iloc[:, i]
    elif is_of(x, "pyarrow"):
        names, place, at = x.schema.names, "x.column({})", x.column
    else:
        names, place, at = x.columns, "x.to_series({})", x.to_series
    plain = [isinstance(name, (str, int)) and names.count(name) == 1 for name in names]
    return [
        (f"x[{name!r}]" if plain[i] else place.format(i), at(i)) for i, name in enumerate(names)
    ]


def _of_column(typed: str, x: Any) -> Any:
    try:
        older = of_older_release(x)
        return array(x if older is None else older, find("numpy"))
    except BufferError as error:
        text = str(error).replace("(x", f"({typed}").replace(" x.", f" {typed}.")
        raise BufferError(f"column {typed}: {text}") from error.__cause__
