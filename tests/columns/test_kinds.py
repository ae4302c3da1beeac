"""Every kind of column of kinds.toml: as it is, joined, or refused with a cure that is typed in."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import tomllib

import dlshim
from dlshim.habits import IN_MEMORY

np = pytest.importorskip("numpy", reason="NumPy is not in this environment")

TABLES = tomllib.loads(Path(__file__).with_name("kinds.toml").read_text())
KINDS = [
    {"library": library, "kind": kind, **row}
    for library, rows in TABLES.items()
    for kind, row in rows.items()
]
CURE = re.compile(r"pass (.+?) instead|(?:pass|such as) (\w+)=\"(\w+)\"")


def release(library: str) -> tuple[int, ...]:
    from importlib.metadata import version

    name = {"arro3.core": "arro3-core"}.get(library, library)
    return tuple(map(int, re.findall(r"\d+", version(name))[:3]))


def made(row: dict[str, Any]) -> Any:
    module = pytest.importorskip(row["library"], reason=f"{row['library']} is not installed here")
    if release(row["library"]) < tuple(row.get("since", ())):
        pytest.skip(f"{row['library']} {release(row['library'])} has no such columns")
    names = {"m": module, "np": np}
    if "pa." in row["x"]:
        names["pa"] = pytest.importorskip("pyarrow", reason="the column is made by pyarrow")
        absent = [
            name for name in re.findall(r"pa\.(\w+)", row["x"]) if not hasattr(names["pa"], name)
        ]
        if absent:
            pytest.skip(f"pyarrow {release('pyarrow')} has no {absent[0]}")
    return eval(row["x"], names)


def offers(x: Any) -> bool:
    """Whether a release has Arrow on this type; pandas' own rows need none."""
    names = ("__dlpack__", "__arrow_c_array__", "__arrow_c_stream__")
    return any(hasattr(type(x), name) for name in names) or type(x).__module__[:6] == "pandas"


def exported(x: Any, **options: Any) -> Any:
    tensor = dlshim.from_dlpack(x, **options)
    return np.asarray(tensor), tensor


def address(array: Any) -> int:
    return array.__array_interface__["data"][0]


def own_memory(x: Any) -> Any:
    """The array of NumPy that the library itself makes without a copy; None: it makes none."""
    if type(x).__module__.startswith("pyarrow"):
        if hasattr(x, "chunks"):
            x = next((chunk for chunk in x.chunks if len(chunk)), None)
        whole = getattr(x, "storage", x)
        while hasattr(whole, "flatten"):
            whole = whole.flatten()
        plain = whole is not None and not str(whole.type).startswith("fixed_size_binary")
        return whole.to_numpy(zero_copy_only=True) if plain and len(whole) else None
    if type(x).__module__.startswith(("polars", "pandas")) and len(x):
        return x.to_numpy()
    return None


def follow(x: Any, cures: int = 3, **options: Any) -> Any:
    """What comes out in the end, by the cures of the messages."""
    try:
        return exported(x, **options)[0]
    except (BufferError, dlshim.UnsupportedObjectError) as error:
        found = CURE.search(str(error))
        assert found and cures, error
        if found[2]:
            return follow(x, cures - 1, **{found[2]: found[3]})
        if "pyarrow" in found[1]:
            pytest.importorskip("pyarrow.compute", reason="the cure is pyarrow's")
        return follow(eval(found[1], {**sys.modules, "numpy": np, "x": x}), cures - 1)


@pytest.mark.parametrize("row", KINDS, ids=lambda row: f"{row['library']}-{row['kind']}")
def test_a_kind_of_column(row):
    x = made(row)
    wanted = repr(row["values"])
    if not offers(x):  # an old release
        said = "__arrow_c_array__|it cannot be exported, because "  # where the reason is known
        with pytest.raises(dlshim.UnsupportedObjectError, match=said):
            dlshim.from_dlpack(x)
        assert repr(follow(x).tolist()) == repr(row.get("flat", row["values"]))
        return
    if "refused" in row:
        with pytest.raises((BufferError, dlshim.UnsupportedObjectError)) as error:
            dlshim.from_dlpack(x)
        assert row["refused"] in str(error.value)
        assert repr(follow(x).tolist()) == wanted
        return
    if "joined" in row:
        with pytest.raises(BufferError, match="several chunks of memory\n  pass order="):
            dlshim.from_dlpack(x)
        array, tensor = exported(x, **row["joined"])
        assert repr(array.tolist()) == wanted and not tensor.readonly
        return
    own = own_memory(x)
    array, tensor = exported(x, **row.get("option", {}))
    assert repr(array.tolist()) == wanted
    assert own is None or address(own) == address(array), "it was copied"
    assert tensor.device == (1, 0)
    del x, own
    assert repr(array.tolist()) == wanted, "the memory ended with the column"


@pytest.mark.parametrize(
    ("library", "make"),
    [
        ("pyarrow", lambda m, names: m.table(dict(zip(names, ([1, 2], ["x", "y"]), strict=True)))),
        ("pyarrow", lambda m, names: m.array([{names[0]: 1}, {names[0]: 2}])),
        ("polars", lambda m, names: m.Series([{names[0]: 1}, {names[0]: 2}])),
        ("pandas", lambda m, names: m.DataFrame({names[0]: [1, 2], names[1]: ["x", "y"]})),
    ],
    ids=["pyarrow table", "pyarrow struct", "polars struct", "pandas frame"],
)
def test_a_cure_holds_the_whole_name_of_a_column(library, make):
    """Whatever is in the name: such words also lead from a cure to its reason."""
    module = pytest.importorskip(library, reason=f"{library} is not installed here")
    x = make(module, ("a, because b", "c"))
    if not offers(x):
        pytest.skip(f"{library} {release(library)} offers no Arrow on {type(x).__name__}")
    with pytest.raises((BufferError, dlshim.UnsupportedObjectError)) as error:
        dlshim.from_dlpack(x)
    assert "'a, because b'" in CURE.search(str(error.value))[1]
    assert follow(x).tolist() == [1, 2]


def test_every_library_is_in_the_table_three_ways():
    for library in ("polars", "pyarrow", "nanoarrow", "arro3.core"):
        outcomes = {("joined" in row, "refused" in row) for row in TABLES[library].values()}
        assert outcomes == {(False, False), (True, False), (False, True)}


def test_C10_the_cure_of_duckdb_works_on_the_connection_whose_relation_was_refused():
    """While the error is alive: only one result of a connection may be open."""
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed here")
    pytest.importorskip("pyarrow", reason="the table is pyarrow's")
    connection = duckdb.connect()
    relation = connection.sql("select i from range(5) t(i)")
    with pytest.raises((BufferError, dlshim.UnsupportedObjectError)) as error:
        dlshim.from_dlpack(relation)
    to_table = getattr(relation, "to_arrow_table", None) or relation.fetch_arrow_table
    assert follow(to_table()["i"], order="C").tolist() == [0, 1, 2, 3, 4]
    assert error.value


def test_C5_python_objects_of_polars_are_not_given_as_their_addresses():
    """Its Arrow schema says bytes of fixed size, and no more."""
    polars = pytest.importorskip("polars", reason="polars is not installed here")
    x = polars.Series([object(), object()], dtype=polars.Object)
    for options in ({}, {"reinterpret": "int64"}):
        with pytest.raises((BufferError, dlshim.UnsupportedObjectError)) as error:
            dlshim.from_dlpack(x, **options)
        assert "memory has their addresses" in str(error.value) or not offers(x)


STREAMS = {
    "nanoarrow": lambda m, table: m.ArrayStream(table.to_reader()),
    "arro3.core": lambda m, table: m.RecordBatchReader.from_arrow(table),
}


@pytest.mark.parametrize("library", STREAMS)
def test_C14_a_stream_that_was_used_up_is_to_be_made_anew(library):
    module = pytest.importorskip(library, reason=f"{library} is not installed here")
    pyarrow = pytest.importorskip("pyarrow", reason="the table is pyarrow's")
    table = pyarrow.table({"a": [1, 2]})
    try:
        x = STREAMS[library](module, table)
    except (AttributeError, TypeError):
        pytest.skip(f"{library} {release(library)} has no such streams")
    with pytest.raises(BufferError, match=r"a stream is read once: make it anew, and") as error:
        dlshim.from_dlpack(x)
    found = CURE.search(str(error.value))
    x = eval(found[1], {"x": STREAMS[library](module, table)})
    assert follow(x).tolist() == [1, 2]


#: Objects that give a stream of two chunks once, and what makes them of pyarrow's.
ONCE = {
    "nanoarrow": lambda m, column: m.ArrayStream(column),
    "arro3.core": lambda m, column: m.ArrayReader.from_stream(column),
    "pyarrow": lambda m, column: Handle(column),
}


class Handle:
    """A stream's handle: it has the stream's capsule until that is taken."""

    def __init__(self, column: Any) -> None:
        self.capsule = column.__arrow_c_stream__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.capsule


@pytest.mark.parametrize("library", ONCE)
def test_C14_chunks_of_a_stream_that_was_used_up_are_joined_of_one_made_anew(library):
    module = pytest.importorskip(library, reason=f"{library} is not installed here")
    pyarrow = pytest.importorskip("pyarrow", reason="the column is pyarrow's")
    column = pyarrow.chunked_array([[1, 2], [3]])
    if not hasattr(column, "__arrow_c_stream__"):
        pytest.skip("a ChunkedArray of this release has no Arrow stream")
    for options, cure, name in (({}, "C", "order"), ({"copy": False}, True, "copy")):
        try:
            x = ONCE[library](module, column)
        except (AttributeError, TypeError):
            pytest.skip(f"{library} {release(library)} has no such streams")
        typed = f'pass {name}="{cure}"' if cure == "C" else f"pass {name}={cure}"
        with pytest.raises(BufferError, match=f"a stream is read once: make it anew, and {typed}"):
            dlshim.from_dlpack(x, **options)
        with pytest.raises(BufferError):
            dlshim.from_dlpack(x, order="C")
        anew = ONCE[library](module, column)
        assert exported(anew, **{name: cure})[0].tolist() == [1, 2, 3]


def test_C14_what_is_missing_in_a_stream_that_was_used_up_is_filled_in_one_made_anew():
    pyarrow = pytest.importorskip("pyarrow", reason="the column is pyarrow's")
    column = pyarrow.chunked_array([[1, 2], [None]])
    if not hasattr(column, "__arrow_c_stream__"):
        pytest.skip("a ChunkedArray of this release has no Arrow stream")
    said = r"values are missing .*\n  a stream is read once: make it anew, and"
    with pytest.raises(BufferError, match=said) as error:
        dlshim.from_dlpack(Handle(column), order="C")
    found = CURE.search(str(error.value))
    x = eval(found[1], {"pyarrow": pyarrow, "x": Handle(column)})
    assert exported(x)[0].tolist() == [1, 2, 0]


def test_C12_each_column_of_pandas_is_looked_at():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed here")
    if release("pandas") < (3,):
        pytest.skip("a Series of this release has no Arrow stream")
    for _ in range(2):
        assert exported(pandas.Series([1, 2]))[0].tolist() == [1, 2]
        assert exported(pandas.Series([3, 4], dtype="Int64"))[0].tolist() == [3, 4]
        assert exported(pandas.Index([5]))[0].tolist() == [5]
        with pytest.raises(BufferError, match="values are missing"):
            dlshim.from_dlpack(pandas.Series([1, None], dtype="Int64"))


def test_C12_what_came_of_one_column_of_pandas_decides_nothing_for_the_next():
    """A Series of Python objects went out by Arrow after one of Arrow's, and else was refused."""
    pandas = pytest.importorskip("pandas", reason="pandas is not installed here")
    pytest.importorskip("pyarrow", reason="the first column is pyarrow's")
    for first in ("int64[pyarrow]", "Int64", "float64"):
        dlshim._core._hook("forget_plans")
        with suppress(BufferError, dlshim.UnsupportedObjectError):  # by PyArrow before 16
            dlshim.from_dlpack(pandas.Series([1, 2], dtype=first))
        with pytest.raises((BufferError, dlshim.UnsupportedObjectError), match="no dtype of DLP"):
            dlshim.from_dlpack(pandas.Series([1, 2], dtype=object))


@pytest.mark.parametrize("dtype", ["int64[pyarrow]", "Int64"])
@pytest.mark.parametrize("kind", ["Series", "Index"])
def test_C12_columns_of_pyarrow_in_pandas_are_read_without_a_conversion(kind, dtype, monkeypatch):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed here")
    pyarrow = pytest.importorskip("pyarrow", reason="the columns are pyarrow's")
    if not hasattr(pyarrow.ChunkedArray, "__arrow_c_stream__"):
        pytest.skip("a ChunkedArray of this release has no Arrow stream")

    def refuses(self, requested_schema=None):
        raise AssertionError("pandas was asked to convert the column")

    monkeypatch.setattr(pandas.Series, "__arrow_c_stream__", refuses, raising=False)
    dlshim._core._hook("forget_plans")
    x = getattr(pandas, kind)([1, 2, 3], dtype=dtype)
    array, tensor = exported(x)
    own = x.array._pa_array.chunk(0).buffers()[1].address if "pyarrow" in dtype else None
    assert array.tolist() == [1, 2, 3] and tensor.readonly
    assert own in (None, address(array)), "it was copied"
    with pytest.raises(BufferError, match="values are missing in it") as error:
        dlshim.from_dlpack(getattr(pandas, kind)([1, None], dtype=dtype))
    assert str(error.value).startswith(f"'pandas.{kind}' object: ")
    assert follow(getattr(pandas, kind)([1, None], dtype=dtype)).tolist() == [1, 0]


TO_OTHERS = {
    "torch": lambda m, x: m.from_dlpack(dlshim.upgrade(x, readonly="share")).tolist(),
    "jax.numpy": lambda m, x: m.from_dlpack(dlshim.upgrade(x)).tolist(),
}


@pytest.mark.parametrize("library", TO_OTHERS)
def test_a_column_of_polars_becomes_an_array_of(library):
    polars = pytest.importorskip("polars", reason="polars is not installed here")
    if not hasattr(polars.Series, "__arrow_c_stream__"):
        pytest.skip("a Series of this release has no Arrow stream")
    try:
        module = import_module(library)
    except ImportError:
        pytest.skip(f"{library} is not installed here")
    assert TO_OTHERS[library](module, polars.Series([1.5, 2.5], dtype=polars.Float32)) == [1.5, 2.5]


@pytest.mark.parametrize(("module", "name"), IN_MEMORY)
def test_C11_the_rows_of_columns_in_memory_name_the_classes_of_this_release(module, name):
    """Else the GIL is let go of for their streams, which costs more and harms nothing."""
    found = getattr(pytest.importorskip(module, reason=f"{module} is not installed here"), name)
    assert (found.__module__.partition(".")[0], found.__qualname__) == (module, name)


def test_C11_there_are_rows_of_columns_in_memory():
    assert len(IN_MEMORY) == 2
