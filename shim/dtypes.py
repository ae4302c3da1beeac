"""The dtype of a Tensor, and the names under which other libraries have it.

The C code calls ``dtype_name`` by name, and looks dtypes up in ``dtypes``.
"""

from __future__ import annotations

import sys

from ._core import _dtype
from .text import as_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_Text = str  # the class below has a member of that name


class dtype:
    """The dtype of a Tensor; ``dlshim.dtype("float32")`` makes one.

    It equals its name, ``(code, bits, lanes)`` and NumPy's dtype.  NumPy reads it.
    """

    __slots__ = ("bits", "code", "itemsize", "kind", "lanes", "name", "str")

    bits: int
    code: int
    itemsize: int
    kind: _Text
    lanes: int
    name: _Text
    str: _Text

    def __new__(cls, value: Any) -> dtype:
        """Find the dtype of a name, of ``(code, bits, lanes)`` or of another library's dtype."""
        if isinstance(value, int):
            raise TypeError(f'{as_code(value)} names no dtype\n  pass a name such as "float32"')
        code, bits, lanes, *_ = _dtype(value)
        return dtypes[lanes << 16 | bits << 8 | code]

    def __setattr__(self, *_: object) -> None:
        raise AttributeError("a dtype cannot be changed")

    __delattr__ = __setattr__

    @property
    def byteorder(self) -> _Text:
        """``"="``, or ``"|"`` where an element has one byte."""
        return "|" if self.itemsize == 1 else "="

    @property
    def __numpy_dtype__(self) -> Any:
        """NumPy's dtype; ml_dtypes' where NumPy has none of its own."""
        np, ml = sys.modules.get("numpy"), sys.modules.get("ml_dtypes")
        if np is None:
            raise AttributeError("numpy is not imported")
        found = self.str if self.kind != "V" else getattr(ml, self.name, None)
        if found is None:
            raise AttributeError(f"NumPy has no dtype {self.name} (ml_dtypes may, if imported)")
        return np.dtype(found)

    dtype = __numpy_dtype__  # older NumPy asks for this

    def __dlpack_data_type__(self) -> tuple[int, int, int]:
        """Tell ``(code, bits, lanes)`` to functions that take a dtype (tvm-ffi, Paddle)."""
        return self.code, self.bits, self.lanes

    def __iter__(self) -> Iterator[int]:
        return iter((self.code, self.bits, self.lanes))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _Text):
            return self.name == other
        if isinstance(other, (dtype, tuple)):
            return tuple(self) == tuple(other)
        np = sys.modules.get("numpy")
        if np is None or not isinstance(other, (np.dtype, type)):
            return NotImplemented
        return getattr(self, "dtype", None) == other  # NumPy compares its classes of scalars too

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __str__(self) -> _Text:
        return self.name

    def __repr__(self) -> _Text:
        return f"dlshim.dtype({self.name!r})"

    def __reduce__(self) -> Any:
        return dtype, (tuple(self),)


class _Dtypes(dict[int, dtype]):
    """Every dtype that was met."""

    def __missing__(self, key: int) -> dtype:
        code, bits, lanes, name, typestr = _dtype(key)
        size = (bits * lanes + 7) // 8
        made = object.__new__(dtype)
        facts = (bits, code, size, typestr[1], lanes, name, typestr)
        for fact, value in zip(dtype.__slots__, facts, strict=True):
            object.__setattr__(made, fact, value)
        return self.setdefault(key, made)


dtypes = _Dtypes()
dtype.__module__ = "dlshim"


#: Names of dtypes by which OpenVINO and others have them; its float8 are these.
_SHORT = {"bf": "bfloat", "f": "float", "i": "int", "u": "uint"}
_OTHER_NAMES = {"boolean": "bool", "half": "float16", "single": "float32", "double": "float64"}
_OTHER_NAMES |= {"f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "f8e8m0": "float8_e8m0fnu"}


def long_name(name: str) -> str:
    """The name that DLPack's dtype has here, of one that tells its bits: bf16, f32, u4."""
    letters = name.rstrip("0123456789")
    short = letters in _SHORT and letters != name
    return _SHORT[letters] + name[len(letters) :] if short else _OTHER_NAMES.get(name, name)


#: OpenVINO's words for elements, beside those of letters and bits.
_ELEMENTS = {*_OTHER_NAMES, "nf4", "f4e2m1", "string"}


def element_type(x: Any) -> str | None:
    """The name of the elements of an object that has ``get_element_type``, as OpenVINO's have.

    None: it is none of OpenVINO's words.
    """
    name = x.get_element_type().get_type_name()
    if not isinstance(name, str):
        return None
    known = long_name(name)
    return known if name in _ELEMENTS or known != name else None


def dtype_name(value: Any) -> Any:
    """Tell as which dtype an object of another library reads, by name; None: as none."""
    if isinstance(value, dtype) or hasattr(type(value), "__dlpack_data_type__"):
        return tuple(value.__dlpack_data_type__())
    if not getattr(value, "isnative", True):
        return None
    name = getattr(value, "name", None) or getattr(value, "__name__", None)
    # A scalar type of NumPy 1 is called "bool_"; a dtype of torch has a str() alone.
    name = name or str(value).rpartition(".")[2]
    return name.rstrip("_") if isinstance(name, str) else None
