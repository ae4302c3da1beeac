"""What an object has: values, shape, dtype and address, told by its own library.

Nothing here uses DLPack, so that it can judge what DLPack made of an object.
"""

from __future__ import annotations

import itertools
import math
import sys
from importlib import import_module
from typing import Any, NamedTuple

from ..look import dtype_name
from ..matrix.capsules import buffer_address

#: Of more elements than these only some are compared.
MOST = 100_000
SOME = 500


class Values(NamedTuple):
    """The elements of an object in row-major order; a missing or hidden one is None."""

    shape: tuple[int, ...] | None
    elements: list[Any]
    #: Who told them, where that is not the object itself.
    by: str = ""


class Untold(Exception):
    """Nobody tells the values of an object."""


def values_of(x: Any) -> Values:
    """Return the values of an object; Untold where nobody tells them."""
    shape = _shape(x)
    if shape is not None and math.prod(shape) > MOST:
        return Values(shape, _some(x, shape))
    try:
        listed, by = _listed(x)
    except Exception as error:
        raise Untold(f"{type(error).__name__}: {error}") from None
    listed = _plain(listed)
    nested = _shape_of(listed)
    # A column says how long it is, and its elements may be arrays.
    deeper = shape is not None and nested is not None and len(nested) > len(shape)
    found = nested if shape is None or by == "items" or deeper else shape
    return Values(found, _leaves(listed), "" if by == "items" else by)


def _shape(x: Any) -> tuple[int, ...] | None:
    try:
        return tuple(map(int, x.shape))
    except Exception:
        return None


def _some(x: Any, shape: tuple[int, ...]) -> list[Any]:
    """Return elements that are spread over a large array."""
    total = math.prod(shape)
    found = []
    for number in range(SOME):
        index, rest = [], number * (total - 1) // (SOME - 1)
        for extent in reversed(shape):
            rest, at = divmod(rest, extent)
            index.append(at)
        item = x[tuple(reversed(index)) if len(shape) > 1 else index[0]]
        found += _leaves(_plain(_listed(item)[0]))
    return found


def _listed(x: Any) -> tuple[Any, str]:
    """Return values as lists, and who told them."""
    if type(x).__module__.partition(".")[0] == "dlshim" and hasattr(x, "source"):
        return _listed(x.source)
    if isinstance(x, (list, tuple, range)):
        return [_listed(each)[0] for each in x], "items"
    if x is None or isinstance(x, (bool, int, float, complex, str)):
        return x, ""
    if isinstance(x, (bytes, bytearray)):
        return [*x], "items"
    for name in ("to_pylist", "to_list", "tolist"):
        if callable(getattr(x, name, None)):
            return getattr(x, name)(), ""
    if hasattr(type(x), "itertuples"):
        return [[*row] for row in x.itertuples(index=False)], ""
    if hasattr(type(x), "rows"):
        return [[*row] for row in x.rows()], ""
    if hasattr(type(x), "getdata") and hasattr(x, "getbands"):
        return _pixels(x), "items"
    if callable(getattr(x, "numpy", None)):
        return _listed(x.numpy())[0], ""
    if not _is_held(x):
        raise Untold("it is no array")
    return import_module("numpy").asanyarray(x).tolist(), "numpy.asanyarray"


def _is_held(x: Any) -> bool:
    """Whether NumPy takes it by a way that is not DLPack."""
    if any(hasattr(type(x), name) for name in ("__array__", "__array_interface__")):
        return True
    try:
        memoryview(x).release()
    except TypeError:
        return False
    return True


def _pixels(image: Any) -> list[Any]:
    width, height = image.size
    flat = [[*each] if isinstance(each, tuple) else each for each in image.getdata()]
    return [flat[row * width : (row + 1) * width] for row in range(height)]


def _plain(value: Any) -> Any:
    """Return the same with None for what is missing or hidden, however the library says that."""
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return [_plain(each) for each in value.values()]
    name = type(value).__name__
    if name in ("NAType", "NaTType", "MaskedConstant"):
        return None
    if name in ("ndarray", "Series") or hasattr(value, "to_pylist"):
        return _plain(_listed(value)[0])
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        return None if str(value) == "NaT" else value.item()
    return value


def _shape_of(values: Any) -> tuple[int, ...] | None:
    """Return the shape of lists; None: their lengths differ."""
    if not isinstance(values, list):
        return ()
    inner = {_shape_of(each) for each in values} or {()}
    return None if len(inner) > 1 or None in inner else (len(values), *(inner.pop() or ()))


def _leaves(values: Any) -> list[Any]:
    if not isinstance(values, list):
        return [values]
    return list(itertools.chain.from_iterable(map(_leaves, values)))


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) or bool(one != one and other != other)  # NaN


def difference(known: Values, seen: Values) -> str:
    """Say what is seen in the place of what is known; "": it is the same."""
    if known.shape != seen.shape:
        if None in (known.shape, seen.shape):
            return f"{len(seen.elements)} elements for {len(known.elements)}, in other rows"
        return f"shape {seen.shape} for {known.shape}"
    if len(known.elements) != len(seen.elements):
        return f"{len(seen.elements)} elements for {len(known.elements)}"
    for one, other in zip(known.elements, seen.elements, strict=True):
        if _same(one, other):
            continue
        if one is None:
            return f"{other!r} for a missing or hidden value"
        return f"{'a missing value' if other is None else repr(other)} for {one!r}"
    return ""


def is_near(known: Values, seen: Values) -> bool:
    """Whether the values are the same but for rounding."""
    if known.shape != seen.shape or len(known.elements) != len(seen.elements):
        return False
    for one, other in zip(known.elements, seen.elements, strict=True):
        try:
            if not (_same(one, other) or math.isclose(one, other, rel_tol=0.01)):
                return False
        except (TypeError, OverflowError):
            return False
    return True


_FORMATS = {"b": "int8", "B": "uint8", "h": "int16", "H": "uint16", "?": "bool"}
_FORMATS |= {"i": "int32", "I": "uint32", "q": "int64", "Q": "uint64", "l": "int64", "L": "uint64"}
_FORMATS |= {"e": "float16", "f": "float32", "d": "float64"}


def dtype_of(x: Any) -> str | None:
    """Return the name of its dtype; None: it tells none that is known."""
    if type(x).__module__.partition(".")[0] == "dlshim" and hasattr(x, "source"):
        return None  # its options may change it
    if isinstance(x, memoryview):
        return _FORMATS.get(x.format)
    if isinstance(x, (bytes, bytearray)):
        return "uint8"
    told = getattr(x, "dtype", None)
    told = getattr(x, "type", None) if told is None else told
    if told is None or (callable(told) and not isinstance(told, type)):
        return None
    text = str(told).lower().partition("[")[0]
    for each in (told, text, {"boolean": "bool"}.get(text, "")):
        try:
            if each and (name := dtype_name(each)):
                return name
        except Exception:
            continue
    return None


def address_of(x: Any) -> int | None:
    """Return the address of the first element, where its library tells it; else None."""
    try:
        if hasattr(type(x), "data_ptr"):
            return int(x.data_ptr())
        if hasattr(type(x), "unsafe_buffer_pointer"):
            return int(x.unsafe_buffer_pointer())
        if hasattr(type(x), "__array_interface__"):
            return int(x.__array_interface__["data"][0])
        if hasattr(type(x), "__arrow_c_array__") and hasattr(type(x), "buffers"):
            width = x.type.bit_width
            return int(x.buffers()[-1].address + x.offset * width // 8) if width % 8 == 0 else None
        with memoryview(x):
            return buffer_address(x)
    except Exception:
        return None
