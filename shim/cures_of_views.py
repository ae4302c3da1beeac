"""Cures that name an attribute that holds the object's array, such as ``x.data``.

``cures`` asks here.  A property that is written in Python is not read: it may read a file or
compute.  What is read is compared with what the object says of itself: a view that has no dtype
for the elements shows others, or several in one element.
"""

from __future__ import annotations

import re
from contextlib import suppress
from math import prod

from . import dtypes
from ._core import from_dlpack
from .cure_texts import NO_NUMBERS, converted, instead

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: A short name of one digit may tell bytes, as NumPy's do: f4.
_SHORTEST = re.compile(r"[a-z]+\d")
_CONVERT = "convert it with its own library first"


def is_lazy(cls: type, name: str) -> bool:
    """Whether reading the attribute runs Python code of the object."""
    found = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
    functions = (
        getattr(found, "fget", None),
        getattr(found, "func", None),
        getattr(type(found), "__get__", None),
    )
    return any(hasattr(function, "__code__") for function in functions)


def is_array(value: Any) -> bool:
    return hasattr(type(value), "__dlpack__") or memoryview(value) is not None


def held(x: Any, name: str) -> str | None:
    """The cure for an object that holds its array under this name; None: it holds none there."""
    text = f"x.{name}"
    try:
        if is_lazy(type(x), name):
            return f"{instead(text)}, if that is an array"
        said = [_named(getattr(x, each)) for each in ("dtype", "element_type") if hasattr(x, each)]
        return of_elements(x, name, said[0] if said else None)
    except Exception:
        return None


def of_elements(x: Any, name: str, said: str | None) -> str | None:
    """The same for an object whose elements are, by its own word, of this dtype; None: no word."""
    text = f"x.{name}"
    if said in ("str", "string"):
        return NO_NUMBERS
    value = getattr(x, name)
    if not is_array(value):
        return None
    own, shape, shown = _shape_of(x), _shape_of(value), _dtype_of(value)
    reshaped = None not in (own, shape) and own != shape
    if reshaped and prod(own or ()) != prod(shape or ()):
        of = f" of {said}" * (said is not None)
        return f"because its shape is {own}{of}, and that of {text} is {shape}: {_CONVERT}"
    if said not in (None, shown) and shown is not None:
        return _another(value, text, said, shown)
    return converted(text, f"whose shape is {shape}") if reshaped else instead(text)


def _another(value: Any, text: str, said: str, shown: str) -> str:
    """The same where the view shows another dtype than the object says."""
    if not _is_dtype(said):
        return converted(text, "whose elements may be of another type than the object's")
    alike = dtypes.dtype(said).itemsize == value.itemsize
    if not alike or (dtypes.dtype(said).kind != "V" and said != "bool"):
        return f"because its elements are {said}, and {text} shows them as {shown}: {_CONVERT}"
    if said == "bool" or type(value).__module__ != "numpy":
        return f'pass {text} with reinterpret="{said}" instead'
    return instead(f"{text}.view(ml_dtypes.{said})", f"{text} shows its {said} as {shown}")


def _named(kind: Any) -> str | None:
    """The name of a dtype of any library, DLPack's where it has one."""
    if kind is None:
        return None
    name = kind if isinstance(kind, str) else dtypes.dtype_name(kind)
    if isinstance(name, tuple):
        return str(dtypes.dtype(name))
    return name if not name or _SHORTEST.fullmatch(name) else dtypes.long_name(name)


def _is_dtype(name: str) -> bool:
    with suppress(TypeError, ValueError):
        return bool(dtypes.dtype(name))
    return False


def _dtype_of(value: Any) -> str | None:
    if hasattr(value, "dtype"):
        return _named(value.dtype)
    # A buffer; an array without a dtype is not exported for this.
    return None if hasattr(type(value), "__dlpack__") else str(from_dlpack(value).dtype)


def _shape_of(x: Any) -> tuple[int, ...] | None:
    """Its shape, or a buffer's; None where it tells none."""
    with suppress(Exception):
        shape: Any = x.shape if hasattr(x, "shape") else memoryview(x).shape
        return tuple(map(int, shape))
    return None
