"""Look at an array without an export: dtype, shape, strides, access and address.

Only attributes that are plain data are read: no library is imported, and nothing waits.
"""

from __future__ import annotations

from types import WrapperDescriptorType
from typing import Any, NamedTuple

from .arrays import row_major

# By name: CPython 3.11 and 3.12 crash on an attribute of a module that the collector has emptied.
from .dtypes import dtype_name as name_of

#: Name -> DLPack's code, bits and lanes.
TRIPLES = {"bool": (6, 8, 1), "bfloat16": (4, 16, 1)}
TRIPLES |= {f"int{n}": (0, n, 1) for n in (8, 16, 32, 64)}
TRIPLES |= {f"uint{n}": (1, n, 1) for n in (8, 16, 32, 64)}
TRIPLES |= {f"float{n}": (2, n, 1) for n in (16, 32, 64)}
TRIPLES |= {f"complex{n}": (5, n, 1) for n in (64, 128)}
_FLOAT8 = ["e3m4", "e4m3", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu"]
TRIPLES |= {f"float8_{name}": (7 + n, 8, 1) for n, name in enumerate(_FLOAT8)}

_KINDS = dict.fromkeys("bhilqn", "int") | dict.fromkeys("BHILQN", "uint")
_FORMATS = {"?": "bool", "e": "float16", "f": "float32", "d": "float64"}
_FORMATS |= {"Zf": "complex64", "Zd": "complex128"}
_OTHER_NAMES = {"halffloat": "float16", "float": "float32", "double": "float64"}


class Array(NamedTuple):
    """What follows from shape and strides, which count elements."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def steps(self) -> list[tuple[int, int]]:
        """The (stride, extent) pairs that are walked: an extent below two never is."""
        if 0 in self.shape:
            return []
        pairs = zip(self.strides, self.shape, strict=True)
        return [(stride, extent) for stride, extent in pairs if extent > 1]

    @property
    def negative(self) -> bool:
        return any(stride < 0 for stride, _ in self.steps)

    @property
    def contiguous(self) -> bool:
        return _compact(self.steps[::-1])

    @property
    def dense(self) -> bool:
        """Whether some order of the axes makes it contiguous."""
        return _compact(sorted(self.steps))


def _compact(steps: list[tuple[int, int]]) -> bool:
    expected = 1
    for stride, extent in steps:
        if stride != expected:
            return False
        expected *= extent
    return True


def dtype_name(value: Any) -> str | None:
    text = name_of(value)
    text = _OTHER_NAMES.get(text, text)
    return text if text in TRIPLES else None


def visible(obj: Any, library: str | None, offers: tuple[str, ...]) -> dict[str, Any]:
    """Return dtype (a name), shape, strides (in elements), readonly, address, as far as seen."""
    look = _LOOKS.get(library or "")
    if look is None and any(offer.startswith("__arrow_c_") for offer in offers):
        look = _COLUMNS.get(type(obj).__module__.partition(".")[0])
    if look is None and offers == ("buffer protocol",) and _in_c(obj):
        look = _buffer
    if look is None:
        return {}
    try:
        found: dict[str, Any] = look(obj)
    except Exception:  # an object that only looks like one of the library
        return {}
    return {name: value for name, value in found.items() if value is not None}


def _in_c(obj: Any) -> bool:
    """Whether its buffer is given by C code, not by a method written in Python."""
    made = (vars(cls)["__buffer__"] for cls in type(obj).__mro__ if "__buffer__" in vars(cls))
    return isinstance(next(made, None), (type(None), WrapperDescriptorType))


def _in_elements(strides: Any, size: int) -> tuple[int, ...] | None:
    if any(stride % size for stride in strides):
        return None
    return tuple(stride // size for stride in strides)


def _common(obj: Any, strides: Any, **more: Any) -> dict[str, Any]:
    shape = tuple(map(int, obj.shape))
    found = {"dtype": dtype_name(obj.dtype), "shape": shape, "strides": strides, "readonly": False}
    return found | more


def _buffer(obj: Any) -> dict[str, Any]:
    with memoryview(obj) as view:
        code = view.format.lstrip("@=<")
        name = _FORMATS.get(code)
        if code in _KINDS:
            name = f"{_KINDS[code]}{8 * view.itemsize}"
        if hasattr(obj, "dtype") and dtype_name(obj.dtype) != name:
            return {}  # its own word may count (T7)
        strides = _in_elements(view.strides or (), view.itemsize)
        return {"dtype": name, "shape": view.shape, "strides": strides, "readonly": view.readonly}


def _numpy(obj: Any) -> dict[str, Any]:
    return _common(
        obj,
        _in_elements(obj.strides, obj.itemsize),
        readonly=not obj.flags.writeable,
        address=obj.__array_interface__["data"][0],
    )


def _torch(obj: Any) -> dict[str, Any]:
    return _common(obj, tuple(obj.stride()), address=obj.data_ptr() if obj.is_cpu else None)


def _paddle(obj: Any) -> dict[str, Any]:
    return _common(obj, tuple(obj.strides))


def _tensorflow(obj: Any) -> dict[str, Any]:
    return _common(obj, row_major(tuple(map(int, obj.shape))), readonly=True)


def _jax(obj: Any) -> dict[str, Any]:
    # Arrays of more dimensions may have another layout, which only an export tells.
    return _common(obj, row_major(obj.shape) if len(obj.shape) < 2 else None, readonly=True)


def _in_bytes(obj: Any) -> dict[str, Any]:
    size = TRIPLES[dtype_name(obj.dtype) or ""][1] // 8
    return _common(obj, _in_elements(obj.strides, size))


def _arrow_tensor(obj: Any) -> dict[str, Any]:
    size = obj.type.bit_width // 8
    return {
        "dtype": dtype_name(obj.type),
        "shape": tuple(obj.shape),
        "strides": _in_elements(obj.strides, size),
        "readonly": not obj.is_mutable,
    }


# ---- columns ------------------------------------------------------------------------------------
# They have one dimension, and never change.  Lists are not seen: values may be missing inside.


def _of_column(obj: Any, dtype: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"dtype": dtype_name(str(dtype).lower()), "readonly": True}
    return found | {"shape": (len(obj),), "strides": (1,)} if found["dtype"] else {}


def _arrow_array(obj: Any) -> dict[str, Any]:
    return _of_column(obj, obj.type)


def _polars_column(obj: Any) -> dict[str, Any]:
    return _of_column(obj, "bool" if str(obj.dtype) == "Boolean" else obj.dtype)


def _arro3_column(obj: Any) -> dict[str, Any]:
    return _of_column(obj, str(obj.type).strip().removesuffix(">").rpartition("<")[2])


def _pandas(obj: Any) -> dict[str, Any]:
    if type(obj.dtype).__module__.startswith("numpy"):
        return _numpy(obj.to_numpy())
    return _of_column(obj, getattr(obj.dtype, "pyarrow_dtype", None) or obj.dtype.numpy_dtype)


_LOOKS = {
    "numpy": _numpy,
    "numpy.ma": _numpy,
    "torch": _torch,
    "paddle": _paddle,
    "tensorflow": _tensorflow,
    "jax": _jax,
    "warp": _in_bytes,
    "cupy": _in_bytes,
    "pyarrow.Tensor": _arrow_tensor,
    "pyarrow.Array": _arrow_array,
    "pandas": _pandas,
}
#: Columns, by the package of their type.
_COLUMNS = {"pyarrow": _arrow_array, "polars": _polars_column, "arro3": _arro3_column}
_COLUMNS["pandas"] = _pandas
