"""Cures that name an array of the object: one that it holds, such as ``x.data``, or makes.

``cures`` asks here.  A property that is written in Python is not read: it may read a file or
compute.  What is read is compared with what the object says of itself: a view that has no dtype
for the elements shows others, or several in one element.  Of what is not read, the object's own
dtype and mask tell how it may differ.
"""

from __future__ import annotations

import re
from contextlib import suppress
from math import prod

from . import dtypes
from ._core import from_dlpack
from .cure_texts import ANOTHER, MIXED, NO_NUMBERS, UNDER_MASK, converted, instead

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: A short name of one digit may tell bytes, as NumPy's do: f4.
_SHORTEST = re.compile(r"[a-z]+\d")
_TEXTS = ("str", "string")
_CONVERT = "\n  convert it with its own library first"


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
            return _masked(x, text) or f"{instead(text)}, if that is an array"
        said = [_named(getattr(x, each)) for each in ("dtype", "element_type") if hasattr(x, each)]
        return of_elements(x, name, said[0] if said else None)
    except Exception:
        return None


def of_elements(x: Any, name: str, said: str | None) -> str | None:
    """The same for an object whose elements are, by its own word, of this dtype; None: no word."""
    text = f"x.{name}"
    if said in _TEXTS:
        return NO_NUMBERS
    value = getattr(x, name)
    if not is_array(value):
        return None
    own, shape, shown = _shape_of(x), _shape_of(value), _dtype_of(value)
    reshaped = None not in (own, shape) and own != shape
    if reshaped and prod(own or ()) != prod(shape or ()):
        of = f" of {said}" * (said is not None)
        return f", because its shape is {own}{of}, and that of {text} is {shape}{_CONVERT}"
    if said not in (None, shown) and shown is not None:
        return _another(value, text, said, shown)
    if reshaped:
        return converted(text, f"whose shape is {shape}")
    return _masked(x, text) or instead(text)


def as_numpy(x: Any, text: str) -> str:
    """The cure for an object that makes an array of NumPy by the expression `text`.

    A text with numpy.asanyarray keeps a mask, if the object makes a masked array.
    """
    shape, kinds = None, set()
    with suppress(Exception):
        shape = getattr(x, "shape", ())
        kinds = {x.dtype} if hasattr(x, "dtype") else {*getattr(x, "dtypes", ())}
    if shape is None:
        return ", because it has no elements, and no shape"
    if len(kinds) > 1:
        return converted(text, MIXED)
    kind = kinds.pop() if kinds else None
    names = getattr(kind, "names", None)
    if names:
        # Of a table of astropy the column has a mask.
        of = "x" if hasattr(x, "columns") else text
        return instead(f"{of}[{names[0]!r}]", "its elements have fields")
    if getattr(kind, "kind", "") in [*"OSUT"] or _named(kind) in _TEXTS:
        return NO_NUMBERS
    return _masked(x, text) or (instead(text) if _has_numpy(kind) else converted(text, ANOTHER))


def _has_numpy(kind: Any) -> bool:
    """Whether NumPy has the dtype of an object, or the object names none."""
    if kind is None or type(kind).__module__.partition(".")[0] in ("numpy", "ml_dtypes"):
        return True
    name = _named(kind)
    return bool(name) and _is_dtype(str(name)) and dtypes.dtype(str(name)).kind != "V"


def _masked(x: Any, text: str) -> str | None:
    """The cure that keeps the object's mask, which is another array of it; None: it has none."""
    mask = getattr(x, "mask", None)
    shape = (len(mask),) if isinstance(mask, list) else _shape_of(mask)
    if not shape or shape != (_shape_of(x) or shape):
        return None
    if isinstance(mask, list) or type(mask).__module__ == "numpy":
        return instead(f"numpy.ma.array({text}, mask=x.mask)", "it has a mask")
    return converted(text, UNDER_MASK)


def _another(value: Any, text: str, said: str, shown: str) -> str:
    """The same where the view shows another dtype than the object says."""
    if not _is_dtype(said):
        return converted(text, ANOTHER)
    alike = dtypes.dtype(said).itemsize == value.itemsize
    if not alike or (dtypes.dtype(said).kind != "V" and said != "bool"):
        return f", because its elements are {said}, and {text} shows them as {shown}{_CONVERT}"
    if said == "bool" or type(value).__module__ != "numpy":
        return f'\n  pass {text} with reinterpret="{said}" instead'
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
