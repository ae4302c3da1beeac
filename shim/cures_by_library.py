"""Cures for objects whose values or parts decide: of torch, JAX, TensorFlow, xarray and others.

``cures.cure`` asks the function of the object's library before its own rows.  An answer is the end
of a message (``cure_texts``); None: the rows of ``cures`` have the answer.  No library is imported,
and attributes of the object may raise.  A conversion that changes values is named only with the
words that say so.
"""

from __future__ import annotations

import sys

from . import cures_of_columns, cures_of_views, dtypes
from .cure_texts import (
    FLAT,
    LEFT_OUT,
    MISSING,
    NAN,
    NO_NUMBERS,
    ONE_COLUMN,
    UNSURE,
    array,
    converted,
    instead,
    one_column,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# ---- torch -------------------------------------------------------------------------------------


def _torch(x: Any) -> str | None:
    """Its storages, and its bools, which releases before 2.0 do not export."""
    name = type(x).__name__
    if name.endswith("Storage"):
        kind = "torch.uint8" if name == "UntypedStorage" else x.dtype
        where = "" if str(x.device) == "cpu" else f", device='{x.device}'"
        return instead(f"torch.empty(0, dtype={kind}{where}).set_(x)")
    plain = name in ("Tensor", "Parameter") and str(x.layout) == "torch.strided"
    if not plain or x.is_meta or str(x.dtype) != "torch.bool":
        return None
    return '\n  pass x.view(torch.uint8) with reinterpret="bool" instead'


# ---- JAX ---------------------------------------------------------------------------------------


def _jax(x: Any) -> str | None:
    bases = {cls.__name__ for cls in type(x).__mro__}
    if "Tracer" in bases:
        return (
            ", because a tracer has no values\n  make the exchange outside of jax.jit, jax.vmap "
            "and jax.grad, or in a function that is given to jax.pure_callback"
        )
    if "PRNGKeyArray" in bases:
        return instead("jax.random.key_data(x)")
    if x.is_deleted():
        return (
            ", because its memory was deleted, or donated to a function\n  pass what the "
            "function returned, or a copy that x.copy() made before"
        )
    if not x.is_fully_addressable:
        return instead("x.addressable_shards[0].data", "other processes have the other shards")
    return None


# ---- TensorFlow --------------------------------------------------------------------------------


def _tensorflow(x: Any) -> str | None:
    name = type(x).__name__
    if name == "KerasTensor":
        return ", because a KerasTensor has no values\n  pass what the model computes from an array"
    if name != "SymbolicTensor":
        return None
    return (
        ", because a symbolic tensor has no values\n  make the exchange outside of tf.function, or "
        "in a function that is given to tf.numpy_function"
    )


def _xarray(x: Any) -> str | None:
    """Its data are not touched: a variable of a file would be read, and kept in memory."""
    if not hasattr(x, "data_vars"):
        if not hasattr(type(x), "data"):
            return None
        # An array of dask has chunks, and is computed by this.
        return instead(array("x") if getattr(x, "chunks", None) else "x.data")
    kinds = {(each.dtype, each.dims) for each in x.data_vars.values()}  # others are repeated
    whole = next((each for each in ("to_dataarray", "to_array") if hasattr(type(x), each)), None)
    if len(kinds) > 1 or not whole:
        return one_column(x.data_vars, "one of x.data_vars.values()")
    return instead(f"x.{whole}()")


def _awkward(x: Any) -> str | None:
    kind = str(x.type)
    if x.fields:
        return instead(f"x[{x.fields[0]!r}]", "its elements have fields")
    if "union[" in kind and not _is_regular(x):
        return ", because its elements are of several types\n  convert them to one first"
    if "option[" in kind:
        return converted("awkward.drop_none(x)", LEFT_OUT)
    filled, text = x, "x"
    if "?" in kind:
        leaf = kind.rpartition("?")[2].partition("[parameters")[0].replace("unknown", "int64")
        if leaf in ("string", "bytes"):
            return NO_NUMBERS
        text = f"awkward.fill_none(x, {_value_of(leaf)})"
        zero = sys.modules["numpy"].zeros((), leaf)[()]
        filled = sys.modules["awkward"].fill_none(x, zero)
    if " var " in kind and not _is_regular(filled):
        flat = array(f"awkward.flatten({text}, axis=None)")
        return converted(flat, FLAT)
    return instead(array(text), MISSING) if "?" in kind else None


def _value_of(leaf: str) -> str:
    """For what is missing, a value of the same dtype: of another one, awkward converts them all."""
    name, _, unit = leaf.rstrip("]").partition("[")
    if name == "bool":
        return "False"
    if unit:
        return f"numpy.{name}('nat', {unit!r})"
    return f"numpy.{name}({0 if name[0] in 'iu' else NAN})"


def _is_regular(x: Any) -> bool:
    try:
        return bool(sys.modules["numpy"].asarray(x).dtype.kind in "iubfcMm")
    except (TypeError, ValueError):
        return False


# ---- datasets ----------------------------------------------------------------------------------


def _datasets(x: Any) -> str | None:
    """Its columns lie in Arrow's memory; without a format they are made lists."""
    if isinstance(x, dict):
        return one_column(x, "one of x.values()", "it holds several data sets")
    if hasattr(x, "column_name") and hasattr(type(x.source), "with_format"):
        return instead(f"x.source.with_format('arrow')[:][{x.column_name!r}]")
    if not hasattr(type(x), "num_rows") or not x.column_names:
        return None  # rows that come one by one
    return instead(f"x.with_format('arrow')[:][{x.column_names[0]!r}]", ONE_COLUMN)


# ---- OpenVINO and pint -------------------------------------------------------------------------


def _openvino(x: Any) -> str | None:
    if not hasattr(type(x), "data"):
        return None
    return cures_of_views.of_elements(x, "data", dtypes.element_type(x))


def _pint(x: Any) -> str | None:
    """Its magnitude: numpy.asarray of a quantity warns."""
    is_array = hasattr(type(x), "magnitude") and cures_of_views.is_array(x.magnitude)
    return instead("x.magnitude") if is_array else None


BY_LIBRARY: dict[str, Callable[[Any], str | None]] = {
    "torch": _torch,
    "jax": _jax,
    "jaxlib": _jax,
    "tensorflow": _tensorflow,
    "keras": _tensorflow,
    "pandas": cures_of_columns.pandas,
    "polars": cures_of_columns.polars,
    "pyarrow": cures_of_columns.pyarrow,
    "duckdb": cures_of_columns.duckdb,
    "_duckdb": cures_of_columns.duckdb,
    "xarray": _xarray,
    "datasets": _datasets,
    "openvino": _openvino,
    "pint": _pint,
    "awkward": _awkward,
}


def find(x: Any) -> str | None:
    """Ask the library that made the object's class, or a class below it."""
    look = None
    try:
        for cls in type(x).__mro__:
            look = look or BY_LIBRARY.get(cls.__module__.partition(".")[0])
        return look(x) if look is not None else None
    except Exception:  # an object of another release, or one that only looks so
        column = look in cures_of_columns.AS_NUMPY and hasattr(type(x), "__array__")
        return converted(array("x"), UNSURE) if column else None
