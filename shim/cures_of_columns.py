"""Cures for columns and tables of pandas, Polars, PyArrow and DuckDB, whose values decide.

``cures_by_library.find`` asks them.  No library is imported, and attributes of the object may
raise.  A conversion that changes values is named only with the words that say so.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

from . import cures_of_items
from .columns import is_read_once
from .cure_texts import (
    CODES,
    CODES_OR_NONE,
    CONVERT,
    COUNTS,
    COUNTS_OR_NONE,
    FLAT,
    FLAT_AND_LEFT_OUT,
    LEFT_OUT,
    LEFT_OUT_LISTS,
    MISSING,
    NAN,
    NO_NUMBERS,
    ONE_COLUMN,
    ROUNDS,
    ROUNDS_OR_NAN,
    array,
    converted,
    given,
    instead,
    one_column,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def pandas(x: Any) -> str | None:
    if x.ndim == 2:
        names, kinds = x.columns, {*x.dtypes}  # a group has no columns, and warns of its dtypes
        plain = len(kinds) == 1 and _is_plain(kinds.pop())
        return None if plain else one_column(names, "x.iloc[:, 0]")
    if getattr(x, "nlevels", 1) > 1 and hasattr(x, "levels"):
        return instead("x.get_level_values(0)", "its elements have levels")
    kind, missing = x.dtype.kind, bool(x.isna().any())
    if type(x.dtype).__name__ == "CategoricalDtype":
        if _is_plain(x.dtype.categories.dtype) and not missing:
            return None
        return converted(_codes_of(x), CODES_OR_NONE if missing else CODES)
    if type(x.dtype).__name__ == "IntervalDtype":
        return instead("x.array.left", "its elements have two ends")
    if type(x.dtype).__name__ == "PeriodDtype":
        return _pandas_periods(missing)
    if kind in "iubf":
        return None if _is_plain(x.dtype) else _pandas_numbers(x, kind, missing)
    if kind == "M" and hasattr(x.dtype, "pyarrow_dtype"):
        return _pandas_times(x.dtype.pyarrow_dtype)
    if kind == "M" and getattr(x.dtype, "tz", None) is not None:
        dt = ".dt" if hasattr(type(x), "cat") else ""
        return converted(f"x{dt}.tz_convert(None).to_numpy()", "which is in UTC")
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
    return converted(f"x.to_numpy('datetime64[{kind.unit}]')", "which is in UTC")


def _pandas_periods(missing: bool) -> str:
    """The numbers of a missing one and of a period are alike, so the missing ones are left out."""
    numbers = array(f"x{'.dropna()' if missing else ''}.astype('int64')")
    counts = "which counts periods from 1970"
    return converted(numbers, f"{LEFT_OUT}, and counts periods from 1970" if missing else counts)


def _pandas_numbers(x: Any, kind: str, missing: bool) -> str:
    """Of a dtype that may have missing values; numpy.asarray gave objects before pandas 2.2."""
    if not missing:
        return instead(f"x.to_numpy('{x.dtype.numpy_dtype}')")
    value = {"b": "False", "f": NAN}.get(kind, "0")
    return instead(f"x.to_numpy('{x.dtype.numpy_dtype}', na_value={value})", MISSING)


def _codes_of(x: Any, more: str = "") -> str:
    """The codes of its categories: an Index has them as NumPy's, a Series as another one."""
    return f"x{more}.cat.codes.to_numpy()" if hasattr(type(x), "cat") else f"x{more}.codes"


def _pandas_objects(x: Any, missing: bool) -> str:
    if str(getattr(x.dtype, "pyarrow_dtype", "")).startswith("extension"):
        return NO_NUMBERS
    try:
        held = sys.modules["pandas"].api.types.infer_dtype(x, skipna=True)
    except NotImplementedError:  # a type of Arrow's of which pandas makes no objects
        return NO_NUMBERS
    if held == "integer":
        return _pandas_integers(x, missing)
    if held == "boolean":
        return _pandas_converted("bool", "boolean", "False", missing)
    if held in ("floating", "mixed-integer-float", "decimal"):
        text = "x.astype('float64').to_numpy()"
        if held != "floating":
            return converted(text, ROUNDS_OR_NAN if missing else ROUNDS)
        return instead(text, MISSING) if missing else instead(text)
    if held == "string":
        return converted(_codes_of(x, ".astype('category')"), CODES_OR_NONE if missing else CODES)
    if missing or not type(x.dtype).__module__.startswith("numpy"):
        return NO_NUMBERS
    found = cures_of_items.of_list(x.tolist(), "x.tolist()")
    return NO_NUMBERS if found == cures_of_items.NO_ITEMS else found


def _pandas_integers(x: Any, missing: bool) -> str:
    found = x.dropna() if missing else x
    nullable = cures_of_items.fitting(found.min(), found.max())
    if nullable:
        return _pandas_converted(nullable.lower(), nullable, "0", missing)
    if not missing:
        return converted("x.to_numpy('float64')", ROUNDS)
    return converted(f"x.to_numpy('float64', na_value={NAN})", ROUNDS_OR_NAN)


def _pandas_converted(name: str, nullable: str, value: str, missing: bool) -> str:
    if not missing:
        return instead(f"x.astype('{name}').to_numpy()")
    return instead(f"x.astype('{nullable}').to_numpy('{name}', na_value={value})", MISSING)


#: The dtypes of integers that NumPy has not.
_POLARS_WIDE = ("Int128", "UInt128")


def polars(x: Any) -> str | None:
    if hasattr(x, "get_columns"):
        columns = x.get_columns()
        if not columns:
            return None
        kinds = {column.dtype for column in columns}
        missing = any(column.null_count() for column in columns)
        kind = kinds.pop()
        wide = type(kind).__name__ in _POLARS_WIDE
        plain = not kinds and kind.is_numeric() and not wide and not missing
        return None if plain else one_column(x.columns, "x.to_series(0)")
    return _polars_series(x) if hasattr(x, "to_physical") else None


def _polars_filler(x: Any) -> str:
    """Return the value that takes the place of a missing one, of the dtype's own kind."""
    name = type(x.dtype).__name__
    return "False" if name == "Boolean" else NAN if x.dtype.is_float() else "0"


def _polars_series(x: Any) -> str | None:
    name, missing = type(x.dtype).__name__, x.null_count() > 0
    if name in _POLARS_WIDE:
        return _polars_wide(x, missing)
    if name == "Boolean" or (x.dtype.is_numeric() and not x.dtype.is_decimal()):
        filled = f"x.fill_null({_polars_filler(x)})"
        filled = array(filled) if name == "Boolean" else given(x, filled)
        return instead(filled, MISSING) if missing else None
    if x.dtype.is_temporal():
        return _polars_times(x, missing)
    if name in ("Categorical", "Enum", "String"):
        cast = ".cast(polars.Categorical)" if name == "String" else ""
        codes = f"x{cast}.to_physical()"
        if not missing:
            return converted(given(x, codes), CODES)
        return converted(given(x, f"{codes}.cast(polars.Int64).fill_null(-1)"), CODES_OR_NONE)
    if name == "Decimal":
        return _polars_rounded(x, missing)
    if name == "Array":
        return _polars_arrays(x, missing)
    if name == "List":
        lengths = {*x.list.len()}
        if not missing and len(lengths) == 1 and hasattr(type(x), "__arrow_c_stream__"):
            return instead(f"x.list.to_array({lengths.pop()})")
        if missing:
            return converted("x.drop_nulls().explode()", FLAT_AND_LEFT_OUT)
        return converted("x.explode()", FLAT)
    if name == "Null":
        return instead("x.cast(polars.Int64).fill_null(0)", MISSING)
    if name == "Struct":
        return instead(f"x.struct.field({x.struct.fields[0]!r})", "its elements have fields")
    return NO_NUMBERS


def _polars_wide(x: Any, missing: bool) -> str:
    fits = cures_of_items.fitting(x.min() or 0, x.max() or 0)
    if not fits:
        return _polars_rounded(x, missing)
    if missing:
        return instead(given(x, f"x.cast(polars.{fits}).fill_null(0)"), MISSING)
    return instead(given(x, f"x.cast(polars.{fits})"))


def _polars_rounded(x: Any, missing: bool) -> str:
    if not missing:
        return converted(given(x, "x.cast(polars.Float64)"), ROUNDS)
    return converted(given(x, f"x.cast(polars.Float64).fill_null({NAN})"), ROUNDS_OR_NAN)


def _polars_times(x: Any, missing: bool) -> str:
    physical = "x.to_physical()"
    if missing:
        return converted(given(x, f"{physical}.fill_null(0)"), COUNTS_OR_NONE)
    return converted(given(x, physical), COUNTS)


def _polars_arrays(x: Any, missing: bool) -> str | None:
    if missing:
        return converted("x.drop_nulls()", LEFT_OUT)
    flat, lists = x, False
    for _ in x.dtype.shape:
        lists = lists or flat.null_count() > 0
        flat = flat.explode()
    explode = ".explode()" * len(x.dtype.shape)
    numbers = flat.dtype.is_numeric() and not flat.dtype.is_decimal()
    if not (numbers or flat.dtype.is_temporal() or type(flat.dtype).__name__ == "Boolean"):
        return converted(f"x{explode}", FLAT)
    if lists:  # an inner one that is missing has no elements that could be filled
        return converted("x.explode()", FLAT)
    if not flat.null_count():
        return None
    shape = (-1, *x.dtype.shape)
    physical = ".to_physical()" if flat.dtype.is_temporal() else ""
    fill = f".fill_null({_polars_filler(flat)})"
    filled = f"x{explode}{physical}{fill}"
    if type(flat.dtype).__name__ == "Boolean" or given(x, filled) != filled:
        filled = array(filled)
    if physical:
        return converted(f"{filled}.reshape({shape})", COUNTS_OR_NONE)
    return instead(f"{filled}.reshape({shape})", MISSING)


_ARROW_FLOATS = ("halffloat", "float", "double")
_ARROW_NUMBERS = (
    *_ARROW_FLOATS,
    *(f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u")),
)


#: By problem, what a column of PyArrow's has in the place of its elements, and how that differs.
#: Of lists that are refused for their type, nobody has asked whether some are missing.
BY_PYARROW = {
    "missing": ("fill_null(0)", ""),
    "missing rows": ("drop_null()", LEFT_OUT),
    "missing inside": ("flatten().fill_null(0)", FLAT),
    "bits": ("fill_null(False).cast('uint8')", "which has 0 for what is missing"),
    "dictionary": ("indices", CODES),
    "text": ("dictionary_encode().indices", CODES),
    "decimals": ("cast('float64')", ROUNDS),
    "lists": ("flatten()", FLAT_AND_LEFT_OUT),
    "inside": ("flatten()", FLAT_AND_LEFT_OUT),
    "maps": ("items", "which are the values of all its maps"),
    "null": ("cast('int64').fill_null(0)", ""),
    # flatten() keeps a missing struct missing; field() would show what lies under it.
    "fields": ("flatten()[0]", ""),
}


#: The words for a conversion that fills up what is missing, too.
WITH_FILLER = {CODES: CODES_OR_NONE, ROUNDS: ROUNDS_OR_NAN}
#: Codes may be unsigned, which have no -1.
FILLED_CODES = {"dictionary": ".cast('int64').fill_null(-1)", "text": ".fill_null(-1)"}


def by_pyarrow(column: str, problem: str, fill: str = "") -> str:
    """Return the cure for a column that is PyArrow's, or becomes one by the text `column`."""
    method, how = BY_PYARROW[problem]
    how = WITH_FILLER.get(how, how) if fill else how
    text = f"{column}.{method}{fill}"
    return converted(text, how) if how else instead(text)


_ARROW_LISTS = ("list", "large_list", "fixed_size_list", "list_view", "large_list_view")


def pyarrow(x: Any) -> str | None:
    if hasattr(x, "read_all"):
        return instead(f"x.read_all()[{x.schema.names[0]!r}]", ONE_COLUMN)
    if hasattr(x, "column_names"):
        kinds = {str(column.type) for column in x.columns}
        missing = any(column.null_count for column in x.columns)
        plain = len(kinds) == 1 and kinds.pop() in _ARROW_NUMBERS and not missing
        takes_all = plain and hasattr(type(x), "__array__")
        return None if takes_all else one_column(x.column_names, "x.column(0)")
    if not hasattr(x, "null_count"):
        return None
    whole = "x.combine_chunks()" if hasattr(x, "combine_chunks") else "x"
    kind, missing = str(x.type), x.null_count > 0
    if kind in _ARROW_NUMBERS or kind == "bool":
        if not missing:
            return None
        filled = f"{whole}.fill_null({_pyarrow_filler(kind)})"
        return instead(array(filled) if kind == "bool" else filled, MISSING)
    return _pyarrow_other(x, kind.partition("<")[0].partition("[")[0], whole, missing)


def _pyarrow_other(x: Any, kind: str, whole: str, missing: bool) -> str | None:
    if kind in ("date32", "date64", "time32", "time64", "timestamp", "duration"):
        cast = f"{whole}.cast('int{x.type.bit_width}')"
        if missing:
            return converted(f"{cast}.fill_null(0)", COUNTS_OR_NONE)
        return converted(cast, COUNTS)
    if kind == "run_end_encoded":
        return instead("pyarrow.compute.run_end_decode(x)")
    if kind == "dictionary":
        return by_pyarrow(whole, "dictionary", FILLED_CODES["dictionary"] if missing else "")
    if kind in ("string", "large_string", "string_view", "binary", "large_binary", "binary_view"):
        whole += ".cast('binary')" if kind == "binary_view" else ""
        return by_pyarrow(whole, "text", FILLED_CODES["text"] if missing else "")
    if kind.startswith("decimal"):
        fill = f".fill_null({NAN})" if missing else ""
        return by_pyarrow(whole, "decimals", fill)
    if kind in _ARROW_LISTS:
        return _pyarrow_lists(x, kind, whole, missing)
    if kind == "struct" and x.type.num_fields:
        if missing:
            return by_pyarrow("x", "fields")
        return instead(f"{whole}.field({x.type.field(0).name!r})", "its elements have fields")
    if kind == "extension":
        return _pyarrow_extension(x, whole, missing)
    if kind == "fixed_size_binary" and missing:
        return by_pyarrow(whole, "missing rows")
    if kind == "null":
        return by_pyarrow(whole, "null")
    if kind == "map":
        return by_pyarrow(whole, "maps")
    return NO_NUMBERS


def _pyarrow_extension(x: Any, whole: str, missing: bool) -> str:
    storage = x.type.storage_type
    if "fixed_size_list" in str(storage):
        # A FixedShapeTensorArray: its missing rows are left out, its booleans are of NumPy.
        flat = "x.storage.flatten()"
        return converted(array(flat) if str(storage.value_type) == "bool" else flat, FLAT)
    if missing and str(storage) in _ARROW_NUMBERS:
        return instead(f"{whole}.storage.fill_null({_pyarrow_filler(str(storage))})", MISSING)
    if missing and str(storage).startswith("fixed_size_binary"):
        return by_pyarrow(whole, "missing rows")
    return instead(f"{whole}.storage")


def _pyarrow_filler(kind: str) -> str:
    return "False" if kind == "bool" else NAN if kind in _ARROW_FLOATS else "0"


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
            return converted(lists, LEFT_OUT_LISTS) if missing else instead(lists, MISSING)
        if missing:
            return converted(rows, LEFT_OUT)
        return converted("x.flatten()", FLAT) if rows == "x" else instead(rows)
    alike = numbers and not missing and not kind.endswith("view")
    lengths: set[Any] = {*column.value_lengths()} if alike else set()
    if len(lengths) == 1:
        return instead(f"{whole}.cast(pyarrow.list_(x.type.value_type, {lengths.pop()}))")
    return converted(f"{whole}.flatten()", FLAT_AND_LEFT_OUT if missing else FLAT)


#: Objects of these libraries may be arrays of NumPy in a release that is not known.
AS_NUMPY = (pandas, polars, pyarrow)


#: The types of which fetchnumpy makes Python objects, or nothing.
_DUCKDB_OBJECTS = (
    *("VARCHAR", "STRING", "ENUM", "BLOB", "BIT", "UUID", "STRUCT", "MAP", "UNION", "VARIANT"),
    *("TIME", "TIME_NS", "TIME WITH TIME ZONE", "BIGNUM", "VARINT", '"NULL"'),
)
_DUCKDB_WIDE = {"HUGEINT": ("BIGINT", "int64"), "UHUGEINT": ("UBIGINT", "uint64")}


def duckdb(x: Any) -> str | None:
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
        # The table's column passes, or is refused with a cure of its own.  That of a result which
        # is no relation makes DuckDB warn.
        if hasattr(x, "types") and ("pyarrow" in sys.modules or find_spec("pyarrow")):
            return instead(f"x.{_duckdb_table(x)}()[{name!r}]", ONE_COLUMN)
        return f", because the elements of its column {name!r} are no numbers ({kind}){CONVERT}"
    name, kind = numbers[0]
    column = f"x.fetchnumpy()[{name!r}]"
    if kind == "DECIMAL":
        return converted(column, ROUNDS)
    if kind in _DUCKDB_WIDE:  # PyArrow has them as decimals
        column = _duckdb_narrowed(x, name, *_DUCKDB_WIDE[kind])
    elif "pyarrow" in sys.modules and hasattr(x, "types"):  # and fetchnumpy masks what is missing
        column = f"x.{_duckdb_table(x)}()[{name!r}]"
    return instead(column, ONE_COLUMN)


def _duckdb_kind(kind: object) -> str:
    """DECIMAL of DECIMAL(10,2), but INTEGER[] as it is."""
    text = str(kind)
    return text if text.endswith("]") else text.partition("(")[0]


def _duckdb_narrowed(x: Any, name: str, bigint: str, kind: str) -> str:
    """Its 128-bit integers in 64 bits, where fetchnumpy makes floats of them, or refuses."""
    if hasattr(x, "select"):
        quoted = '"' + name.replace('"', '""') + '"'
        return f"x.select({f'{quoted}::{bigint} as {quoted}'!r}).fetchnumpy()[{name!r}]"
    return f"x.{_duckdb_table(x)}()[{name!r}].cast('{kind}')"


def _duckdb_table(x: Any) -> str:
    return "to_arrow_table" if hasattr(x, "to_arrow_table") else "fetch_arrow_table"


def _anew(end: str) -> str:
    return f"\n  a stream is read once: make it anew, and {end.strip()}"


def of_any_library(x: Any, problem: str) -> str | None:
    if hasattr(type(x), "read_all"):
        return _anew(instead("x.read_all()"))
    if problem == "fields" and hasattr(x, "column_names"):
        table = "x.to_arrow()" if hasattr(x, "to_arrow") else "x"  # x['a'] of daft has no values
        return instead(f"{table}[{x.column_names[0]!r}]")
    chunked = not hasattr(type(x), "__arrow_c_array__") or getattr(x, "n_chunks", 1) > 1
    column = "pyarrow.chunked_array(x).combine_chunks()" if chunked else "pyarrow.array(x)"
    if hasattr(x, "array") and not hasattr(type(x), "__arrow_c_stream__"):  # pandas' Index
        column = "x.array.__arrow_array__().combine_chunks()"
    ends = _anew if chunked and is_read_once(x) else str
    if problem == "extension":  # whose message names what is below the type
        return ends(instead(column))
    if problem == "runs":
        return ends(instead(f"pyarrow.compute.run_end_decode({column})"))
    if problem not in BY_PYARROW:
        return None
    # Nobody was asked what is missing.
    return ends(by_pyarrow(column, problem, FILLED_CODES.get(problem, "")))
