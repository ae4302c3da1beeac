"""Cures for lists, tuples and columns of Python objects, whose items decide.

``cures`` and ``cures_of_columns`` ask here.  All items are looked at, because one of them can make
another array of the whole list; nothing is computed, and no library is imported.
"""

from __future__ import annotations

import sys
from itertools import chain

from .cure_texts import MIXED, NO_NUMBERS, NONE, ROUNDS, array, converted, instead

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

#: The axes of an array of NumPy; a list that holds itself has more.
_AXES = 64
#: No more items of rows are looked at for the text of an error.
_LOOKED_AT = 10**6
_ROWS = {list, tuple}
_NUMBERS = {bool, int, float, complex}
#: Integers up to here are those that a float64 holds.
_EXACT = 2**53

SEVERAL_LENGTHS = ", because its rows differ in length\n  make them equal, or pass one of them"
SEVERAL_SHAPES = ", because its arrays differ in shape\n  make them equal, or pass one of them"
NO_ITEMS = (
    ", because its items are neither numbers nor arrays that go together\n  make an array of them"
)


def fitting(least: int, most: int) -> str:
    """Return the dtype of 64 bits that has all these integers, in the letters of pandas and Polars,
    or nothing."""
    if least >= -(2**63) and most < 2**63:
        return "Int64"
    return "UInt64" if least >= 0 and most < 2**64 else ""


def of_list(x: Collection[Any], name: str = "x") -> str:
    """The cure for a list, a tuple or a range, which the user knows by this name."""
    if isinstance(x, range):
        return _of_numbers([x[0], x[-1]] if x else [], name)
    items, depth = x, 1
    while items and {*map(type, items)} <= _ROWS and depth < _AXES:
        if len({*map(len, items)}) > 1:
            return SEVERAL_LENGTHS
        if len(items) * len(next(iter(items))) > _LOOKED_AT:
            return NO_ITEMS  # rows may be one and the same, and their items without number
        items, depth = [*chain.from_iterable(items)], depth + 1
    kinds = {*map(type, items)}
    if kinds & _ROWS:
        return SEVERAL_LENGTHS
    if kinds <= _NUMBERS:
        return _of_numbers(items, name)
    if all(hasattr(each, "shape") for each in items):
        return _of_arrays(items, name, depth)
    if all(kind is type(None) or hasattr(kind, "__float__") for kind in kinds):
        return converted(array(f"{name}, 'float64'"), NONE if type(None) in kinds else ROUNDS)
    return NO_NUMBERS if kinds <= {str, bytes} else NO_ITEMS


def _of_numbers(items: Collection[Any], name: str) -> str:
    """NumPy makes one dtype of them all: of integers that none of 64 bits has, or that stand beside
    fractions, it rounds some."""
    whole = [each for each in items if isinstance(each, int)]
    least, most = min(whole, default=0), max(whole, default=0)
    fits = fitting(least, most)
    if len(whole) == len(items) and fits:
        return instead(array(name if fits == "Int64" else f"{name}, 'uint64'"))
    if len(whole) < len(items) and least >= -_EXACT and most <= _EXACT:
        return instead(array(name))
    kind = "complex128" if complex in map(type, items) else "float64"
    return converted(array(f"{name}, '{kind}'"), ROUNDS)


def _of_arrays(items: Collection[Any], name: str, depth: int) -> str:
    """The function of their library that makes one array of them, with their dtype and mask."""
    libraries = {_library_of(each) for each in items}
    library = libraries.pop()
    if libraries or library is None:
        return NO_ITEMS
    if len({tuple(each.shape) for each in items}) > 1:
        return SEVERAL_SHAPES
    text = f"{library}.stack({name})"
    if depth > 1:
        if library != "numpy":
            return NO_ITEMS
        text = array(name)
    several = len({str(getattr(each, "dtype", "")) for each in items}) > 1
    return converted(text, MIXED) if several else instead(text)


def _library_of(item: Any) -> str | None:
    """The module that has a function ``stack`` for the item; None: it is not known."""
    if hasattr(item, "mask") or hasattr(item, "get_mask"):
        return "numpy.ma" if type(item).__module__.startswith("numpy.ma") else None
    if hasattr(type(item), "__array_namespace__"):
        module = item.__array_namespace__()
    else:
        module = sys.modules.get(type(item).__module__.partition(".")[0])
    return module.__name__ if hasattr(module, "stack") else None
