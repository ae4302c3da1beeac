"""Cures for objects whose values decide: columns, tables, and arrays of JAX and awkward.

``cures.cure`` asks the function of the object's library before its own rows.  An answer follows "it
cannot be exported," or a semicolon; None: the rows of ``cures`` have the answer.  No library is
imported, and attributes of the object may raise.  A conversion that changes values is named only
with the words that say so.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

_NAN = "float('nan')"
_MISSING = "it has missing values"
_ONE_COLUMN = "a table is exchanged one column at a time"
_ROUNDS = "which rounds to 53 bits"
_FLAT = "which has its elements in one dimension"
_CODES = "which numbers its different values"
_LEFT_OUT = "which leaves out what is missing"
_UNSURE = "in which integers become floats where values are missing"
_CONVERT = "convert them to numbers first"
_NO_NUMBERS = f"because its elements are no numbers: {_CONVERT}"


def instead(text: str, why: str = "") -> str:
    return f"pass {text} instead{why and f', because {why}'}"


def _converted(text: str, how: str) -> str:
    """The same for a cure that gives other values than the object has."""
    return f"pass {text} instead, {how}"


def _array(text: str) -> str:
    return f"numpy.asarray({text})"


def _given(x: Any, text: str) -> str:
    """A column of the class of x: exported by itself, or, from old releases, as NumPy's."""
    return text if hasattr(type(x), "__arrow_c_stream__") else _array(text)


def _column(names: Iterable[object], other: str) -> str | None:
    """One column of a table: the first; other: how it is reached where its name does not tell."""
    found = list(names)
    if not found:
        return None
    tells = isinstance(found[0], (str, int)) and found.count(found[0]) == 1
    text = f"x[{found[0]!r}]" if tells else other
    return instead(text, _ONE_COLUMN)


# ---- torch -------------------------------------------------------------------------------------


def _torch(x: Any) -> str | None:
    """Its bools, which releases before 2.0 do not export."""
    plain = type(x).__name__ in ("Tensor", "Parameter") and str(x.layout) == "torch.strided"
    if not plain or x.is_meta or str(x.dtype) != "torch.bool":
        return None
    return 'pass x.view(torch.uint8) with reinterpret="bool" instead'


# ---- JAX ---------------------------------------------------------------------------------------


def _jax(x: Any) -> str | None:
    bases = {cls.__name__ for cls in type(x).__mro__}
    if "Tracer" in bases:
        return (
            "because a tracer has no values: make the exchange outside of jax.jit, jax.vmap and "
            "jax.grad, or in a function that is given to jax.pure_callback"
        )
    if "PRNGKeyArray" in bases:
        return instead("jax.random.key_data(x)")
    if x.is_deleted():
        return (
            "because its memory was deleted, or donated to a function: pass what the function "
            "returned, or a copy that x.copy() made before"
        )
    if not x.is_fully_addressable:
        return instead("x.addressable_shards[0].data", "other processes have the other shards")
    return None


# ---- TensorFlow --------------------------------------------------------------------------------


def _tensorflow(x: Any) -> str | None:
    name = type(x).__name__
    if name == "KerasTensor":
        return "because a KerasTensor has no values: pass what the model computes from an array"
    if name != "SymbolicTensor":
        return None
    return (
        "because a symbolic tensor has no values: make the exchange outside of tf.function, or in "
        "a function that is given to tf.numpy_function"
    )


# ---- columns -----------------------------------------------------------------------------------


def _pandas(x: Any) -> str | None:
    if x.ndim == 2:
        kinds = {*x.dtypes}
        plain = len(kinds) == 1 and _is_plain(kinds.pop())
        return None if plain else _column(x.columns, "x.iloc[:, 0]")
    if getattr(x, "nlevels", 1) > 1 and hasattr(x, "levels"):
        return instead("x.get_level_values(0)", "its elements have levels")
    kind, missing = x.dtype.kind, bool(x.isna().any())
    if type(x.dtype).__name__ == "CategoricalDtype":
        if _is_plain(x.dtype.categories.dtype) and not missing:
            return None
        return _converted(_codes_of(x), _CODES)
    if kind in "iubf":
        return None if _is_plain(x.dtype) else _pandas_numbers(x, kind, missing)
    if kind == "M" and hasattr(x.dtype, "pyarrow_dtype"):
        return _pandas_times(x.dtype.pyarrow_dtype)
    if kind == "M" and getattr(x.dtype, "tz", None) is not None:
        dt = ".dt" if hasattr(type(x), "cat") else ""
        return _converted(f"x{dt}.tz_convert(None).to_numpy()", "which is in UTC")
    return _pandas_objects(x, missing) if kind not in "Mmc" else None


def _is_plain(dtype: Any) -> bool:
    """Whether it is a dtype of NumPy's own, whose arrays numpy.asarray gives as they are."""
    return type(dtype).__module__.startswith("numpy") and dtype.kind in "iubfc"


def _pandas_times(kind: Any) -> str | None:
    """Arrow's: numpy.asarray gives objects for days, and for times of a timezone."""
    if str(kind).startswith("date"):
        return instead("x.astype('datetime64[s]').to_numpy()")
    if kind.tz is None:
        return None
    return _converted(f"x.to_numpy('datetime64[{kind.unit}]')", "which is in UTC")


def _pandas_numbers(x: Any, kind: str, missing: bool) -> str:
    """Of a dtype that may have missing values; numpy.asarray gave objects before pandas 2.2."""
    if not missing:
        return instead(f"x.to_numpy('{x.dtype.numpy_dtype}')")
    value = {"b": "False", "f": _NAN}.get(kind, "0")
    return instead(f"x.to_numpy('{x.dtype.numpy_dtype}', na_value={value})", _MISSING)


def _fitting(least: int, most: int) -> str:
    """The dtype of 64 bits that has all these integers, or nothing."""
    if least >= -(2**63) and most < 2**63:
        return "Int64"
    return "UInt64" if least >= 0 and most < 2**64 else ""


def _codes_of(x: Any, more: str = "") -> str:
    """The codes of its categories: an Index has them as NumPy's, a Series as another one."""
    return f"x{more}.cat.codes.to_numpy()" if hasattr(type(x), "cat") else f"x{more}.codes"


def _pandas_objects(x: Any, missing: bool) -> str:
    held = sys.modules["pandas"].api.types.infer_dtype(x, skipna=True)
    if held == "integer":
        return _pandas_integers(x, missing)
    if held == "boolean":
        return _pandas_converted("bool", "boolean", "False", missing)
    if held in ("floating", "mixed-integer-float", "decimal"):
        text = "x.astype('float64').to_numpy()"
        return instead(text) if held == "floating" else _converted(text, _ROUNDS)
    if held == "string":
        return _converted(_codes_of(x, ".astype('category')"), _CODES)
    return _NO_NUMBERS


def _pandas_integers(x: Any, missing: bool) -> str:
    found = x.dropna() if missing else x
    nullable = _fitting(found.min(), found.max())
    if nullable:
        return _pandas_converted(nullable.lower(), nullable, "0", missing)
    value = f", na_value={_NAN}" if missing else ""
    return _converted(f"x.to_numpy('float64'{value})", _ROUNDS)


def _pandas_converted(name: str, nullable: str, value: str, missing: bool) -> str:
    if not missing:
        return instead(f"x.astype('{name}').to_numpy()")
    return instead(f"x.astype('{nullable}').to_numpy('{name}', na_value={value})", _MISSING)


#: The dtypes of integers that NumPy has not.
_POLARS_WIDE = ("Int128", "UInt128")


def _polars(x: Any) -> str | None:
    if hasattr(x, "get_columns"):
        columns = x.get_columns()
        if not columns:
            return None
        kinds = {column.dtype for column in columns}
        missing = any(column.null_count() for column in columns)
        kind = kinds.pop()
        wide = type(kind).__name__ in _POLARS_WIDE
        plain = not kinds and kind.is_numeric() and not wide and not missing
        return None if plain else _column(x.columns, "x.to_series(0)")
    return _polars_series(x) if hasattr(x, "to_physical") else None


def _polars_filler(x: Any) -> str:
    """What stands in the place of a missing value, of the dtype's own kind."""
    name = type(x.dtype).__name__
    return "False" if name == "Boolean" else _NAN if x.dtype.is_float() else "0"


def _polars_series(x: Any) -> str | None:
    name, missing = type(x.dtype).__name__, x.null_count() > 0
    if name in _POLARS_WIDE:
        return _polars_wide(x, missing)
    if name == "Boolean" or (x.dtype.is_numeric() and not x.dtype.is_decimal()):
        filled = f"x.fill_null({_polars_filler(x)})"
        filled = _array(filled) if name == "Boolean" else _given(x, filled)
        return instead(filled, _MISSING) if missing else None
    fill = ".fill_null(-1)" if missing else ""
    if x.dtype.is_temporal():
        return _polars_times(x, missing)
    if name in ("Categorical", "Enum", "String"):
        cast = ".cast(polars.Categorical)" if name == "String" else ""
        codes = f"x{cast}.to_physical()"
        return _converted(_given(x, f"{codes}.cast(polars.Int64){fill}" if fill else codes), _CODES)
    if name == "Decimal":
        fill = f".fill_null({_NAN})" if missing else ""
        return _converted(_given(x, f"x.cast(polars.Float64){fill}"), _ROUNDS)
    if name == "Array":
        return _polars_arrays(x, missing)
    if name == "List":
        lengths = {*x.list.len()}
        if not missing and len(lengths) == 1 and hasattr(type(x), "__arrow_c_stream__"):
            return instead(f"x.list.to_array({lengths.pop()})")
        return _converted(f"x{'.drop_nulls()' if missing else ''}.explode()", _FLAT)
    if name == "Struct":
        return instead(f"x.struct.field({x.struct.fields[0]!r})", "its elements have fields")
    return _NO_NUMBERS


def _polars_wide(x: Any, missing: bool) -> str:
    fits = _fitting(x.min() or 0, x.max() or 0)
    if not fits:
        fill = f".fill_null({_NAN})" if missing else ""
        return _converted(_given(x, f"x.cast(polars.Float64){fill}"), _ROUNDS)
    if missing:
        return instead(_given(x, f"x.cast(polars.{fits}).fill_null(0)"), _MISSING)
    return instead(_given(x, f"x.cast(polars.{fits})"))


def _polars_times(x: Any, missing: bool) -> str:
    physical = "x.to_physical()"
    if missing:
        return instead(_given(x, f"{physical}.fill_null(0)"), _MISSING)
    return _converted(_given(x, physical), "which counts from 1970 or from midnight")


def _polars_arrays(x: Any, missing: bool) -> str | None:
    if missing:
        return instead("x.drop_nulls()", _MISSING)
    flat = x
    for _ in x.dtype.shape:
        flat = flat.explode()
    if not flat.null_count():
        return None
    shape = (-1, *x.dtype.shape)
    explode = ".explode()" * len(x.dtype.shape)
    physical = ".to_physical()" if flat.dtype.is_temporal() else ""
    fill = f".fill_null({_polars_filler(flat)})"
    filled = f"x{explode}{physical}{fill}"
    if type(flat.dtype).__name__ == "Boolean" or _given(x, filled) != filled:
        filled = _array(filled)
    return instead(f"{filled}.reshape({shape})", _MISSING)


_ARROW_FLOATS = ("halffloat", "float", "double")
_ARROW_NUMBERS = (
    *_ARROW_FLOATS,
    *(f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u")),
)


def _pyarrow(x: Any) -> str | None:
    if hasattr(x, "read_all"):
        return instead(f"x.read_all()[{x.schema.names[0]!r}]", _ONE_COLUMN)
    if hasattr(x, "column_names"):
        kinds = {str(column.type) for column in x.columns}
        missing = any(column.null_count for column in x.columns)
        plain = len(kinds) == 1 and kinds.pop() in _ARROW_NUMBERS and not missing
        takes_all = plain and hasattr(type(x), "__array__")
        return None if takes_all else _column(x.column_names, "x.column(0)")
    if not hasattr(x, "null_count"):
        return None
    whole = "x.combine_chunks()" if hasattr(x, "combine_chunks") else "x"
    kind, missing = str(x.type), x.null_count > 0
    if kind in _ARROW_NUMBERS or kind == "bool":
        if not missing:
            return None
        filled = f"{whole}.fill_null({_pyarrow_filler(kind)})"
        return instead(_array(filled) if kind == "bool" else filled, _MISSING)
    return _pyarrow_other(x, kind.partition("<")[0].partition("[")[0], whole, missing)


def _pyarrow_other(x: Any, kind: str, whole: str, missing: bool) -> str | None:
    fill = ".fill_null(-1)" if missing else ""
    if kind in ("date32", "date64", "time32", "time64", "timestamp", "duration"):
        cast = f"{whole}.cast('int{x.type.bit_width}')"
        if missing:
            return instead(f"{cast}.fill_null(0)", _MISSING)
        return _converted(cast, "which counts from 1970 or from midnight")
    if kind == "run_end_encoded":
        return instead("pyarrow.compute.run_end_decode(x)")
    if kind == "dictionary":
        return _converted(f"{whole}.indices{fill}", _CODES)
    if kind in ("string", "large_string", "string_view", "binary", "large_binary"):
        return _converted(f"{whole}.dictionary_encode().indices{fill}", _CODES)
    if kind.startswith("decimal"):
        fill = f".fill_null({_NAN})" if missing else ""
        return _converted(f"{whole}.cast('float64'){fill}", _ROUNDS)
    if kind in ("list", "large_list", "fixed_size_list"):
        return _pyarrow_lists(x, kind, whole, missing)
    if kind == "struct" and x.type.num_fields:
        # flatten() keeps a missing struct missing; field() would show what lies under it.
        field = "x.flatten()[0]" if missing else f"{whole}.field({x.type.field(0).name!r})"
        return instead(field, "its elements have fields")
    if kind == "extension" and "fixed_size_list" in str(x.type.storage_type):
        # A FixedShapeTensorArray: its missing rows are left out, its booleans are of NumPy.
        flat = "x.storage.flatten()"
        numbers = x.storage.type.value_type
        return _converted(_array(flat) if str(numbers) == "bool" else flat, _FLAT)
    return None if kind == "extension" else _NO_NUMBERS


def _pyarrow_filler(kind: str) -> str:
    return "False" if kind == "bool" else _NAN if kind in _ARROW_FLOATS else "0"


def _pyarrow_lists(x: Any, kind: str, whole: str, missing: bool) -> str:
    """Lists of numbers, all of one length, stay lists: they are rows of an array."""
    column = x.combine_chunks() if hasattr(x, "combine_chunks") else x
    items = str(x.type.value_type)
    numbers = items in _ARROW_NUMBERS and hasattr(type(column), "__arrow_c_array__")
    if numbers and kind == "fixed_size_list":
        rows = f"{whole}.drop_null()" if missing else whole
        if column.drop_null().flatten().null_count:
            filled = f"{rows}.flatten().fill_null({_pyarrow_filler(items)})"
            lists = f"pyarrow.FixedSizeListArray.from_arrays({filled}, {x.type.list_size})"
            return instead(lists, _MISSING)
        return _converted(rows, _LEFT_OUT)
    lengths: set[Any] = {*column.value_lengths()} if numbers and not missing else set()
    if len(lengths) == 1:
        return instead(f"{whole}.cast(pyarrow.list_(x.type.value_type, {lengths.pop()}))")
    return _converted(f"{whole}.flatten()", _FLAT + (f", and {_LEFT_OUT[6:]}" if missing else ""))


# ---- tables of other libraries, lists ----------------------------------------------------------


#: The types of which fetchnumpy makes Python objects, or nothing.
_DUCKDB_OBJECTS = (
    *("VARCHAR", "STRING", "ENUM", "BLOB", "BIT", "UUID", "STRUCT", "MAP", "UNION", "VARIANT"),
    *("TIME", "TIME_NS", "TIME WITH TIME ZONE", "BIGNUM", "VARINT", '"NULL"'),
)
_DUCKDB_WIDE = {"HUGEINT": ("BIGINT", "int64"), "UHUGEINT": ("UBIGINT", "uint64")}


def _duckdb(x: Any) -> str | None:
    if not hasattr(x, "fetchnumpy"):
        return None
    if hasattr(x, "types"):
        columns = [*zip(x.columns, map(_duckdb_kind, x.types), strict=False)]
    else:
        columns = [(name, _duckdb_kind(kind)) for name, kind, *_ in x.description or ()]
    numbers = [
        (name, kind)
        for name, kind in columns
        if kind not in _DUCKDB_OBJECTS and not kind.endswith("]")
    ]
    if not columns:
        return None
    if not numbers:
        name, kind = columns[0]
        return f"because the elements of its column {name!r} are no numbers ({kind}): {_CONVERT}"
    name, kind = numbers[0]
    column = f"x.fetchnumpy()[{name!r}]"
    if kind == "DECIMAL":
        return _converted(column, _ROUNDS)
    if kind in _DUCKDB_WIDE:
        column = _duckdb_narrowed(x, name, *_DUCKDB_WIDE[kind])
    return instead(column, _ONE_COLUMN)


def _duckdb_kind(kind: object) -> str:
    """DECIMAL of DECIMAL(10,2), but INTEGER[] as it is."""
    text = str(kind)
    return text if text.endswith("]") else text.partition("(")[0]


def _duckdb_narrowed(x: Any, name: str, bigint: str, kind: str) -> str:
    """Its 128-bit integers in 64 bits, where fetchnumpy makes floats of them, or refuses."""
    if hasattr(x, "select"):
        quoted = '"' + name.replace('"', '""') + '"'
        return f"x.select({f'{quoted}::{bigint} as {quoted}'!r}).fetchnumpy()[{name!r}]"
    table = "to_arrow_table" if hasattr(x, "to_arrow_table") else "fetch_arrow_table"
    return f"x.{table}()[{name!r}].cast('{kind}')"


def _xarray(x: Any) -> str | None:
    if not hasattr(x, "data_vars"):
        return None
    kinds = {each.dtype for each in x.data_vars.values()}
    return _column(x.data_vars, "one of x.data_vars.values()") if len(kinds) > 1 else None


def _awkward(x: Any) -> str | None:
    kind = str(x.type)
    if x.fields:
        return instead(f"x[{x.fields[0]!r}]", "its elements have fields")
    if "union[" in kind and not _is_regular(x):
        return "because its elements are of several types: convert them to one first"
    if "option[" in kind:
        return _converted("awkward.drop_none(x)", _LEFT_OUT)
    filled, text = x, "x"
    if "?" in kind:
        leaf = kind.rpartition("?")[2].partition("[parameters")[0].replace("unknown", "int64")
        if leaf in ("string", "bytes"):
            return _NO_NUMBERS
        text = f"awkward.fill_none(x, {_value_of(leaf)})"
        zero = sys.modules["numpy"].zeros((), leaf)[()]
        filled = sys.modules["awkward"].fill_none(x, zero)
    if " var " in kind and not _is_regular(filled):
        flat = _array(f"awkward.flatten({text}, axis=None)")
        return _converted(flat, _FLAT)
    return instead(_array(text), _MISSING) if "?" in kind else None


def _value_of(leaf: str) -> str:
    """For what is missing, a value of the same dtype: of another one, awkward converts them all."""
    name, _, unit = leaf.rstrip("]").partition("[")
    if name == "bool":
        return "False"
    if unit:
        return f"numpy.{name}('nat', {unit!r})"
    return f"numpy.{name}({0 if name[0] in 'iu' else _NAN})"


def _is_regular(x: Any) -> bool:
    try:
        return bool(sys.modules["numpy"].asarray(x).dtype.kind in "iubfcMm")
    except (TypeError, ValueError):
        return False


BY_LIBRARY: dict[str, Callable[[Any], str | None]] = {
    "torch": _torch,
    "jax": _jax,
    "jaxlib": _jax,
    "tensorflow": _tensorflow,
    "keras": _tensorflow,
    "pandas": _pandas,
    "polars": _polars,
    "pyarrow": _pyarrow,
    "duckdb": _duckdb,
    "_duckdb": _duckdb,
    "xarray": _xarray,
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
        column = look in (_pandas, _polars, _pyarrow) and hasattr(type(x), "__array__")
        return _converted(_array("x"), _UNSURE) if column else None
