"""Every kind of column that the manual's table has (columns.toml): what comes, or which cure.

A cure is typed as the message has it.  A library that is not installed here is skipped.
"""

from __future__ import annotations

import gc
import importlib
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy
import pytest
import tomllib

import dlshim
from dlshim.trial.ways import options_in

TABLES = tomllib.loads(Path(__file__).with_name("columns.toml").read_text(encoding="utf-8"))
NEEDED = ("pyarrow", "pyarrow.compute", "polars", "pandas", "duckdb", "arro3.core", "nanoarrow")


def names(library: str) -> dict[str, Any]:
    """What the texts of rows and cures may use."""
    if find_spec(library.partition(".")[0]) is None:
        pytest.skip(f"{library} is not installed")
    found: dict[str, Any] = {"numpy": numpy, "ODD": 2**53 + 1, "dlshim": dlshim}
    for name in NEEDED:
        if find_spec(name.partition(".")[0]) is not None:
            found[name.partition(".")[0]] = importlib.import_module(name.partition(".")[0])
            importlib.import_module(name)
    return found | {"m": importlib.import_module(library)}


def shows(x: Any, array: Any) -> bool:
    """Whether an array lies in the memory of a column, as PyArrow or NumPy sees that."""
    if type(x).__module__.startswith("pandas") and type(x.dtype).__module__.startswith("numpy"):
        return numpy.shares_memory(array, x.to_numpy())
    if str(getattr(x, "dtype", "")) == "boolean":
        return numpy.shares_memory(array, x.to_numpy("bool"))
    pyarrow = importlib.import_module("pyarrow")
    if hasattr(type(x), "__arrow_c_stream__"):
        x = pyarrow.chunked_array(x)
    chunks = getattr(x, "chunks", None) or [pyarrow.array(x)]
    at = array.__array_interface__["data"][0]
    buffers = [buffer for chunk in chunks for buffer in chunk.buffers() if buffer is not None]
    return any(each.address <= at < each.address + each.size for each in buffers)


def same(got: Any, want: Any) -> bool:
    """Values with their kinds: 1, 1.0 and True differ, and NaN is NaN."""
    return repr(got) == repr(want)


def read(x: Any, **options: Any) -> Any:
    return numpy.from_dlpack(dlshim.upgrade(x, **options))


COLUMNS = pytest.mark.parametrize("name", TABLES["column"])


def row_of(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A row, and what its texts may use."""
    return TABLES["column"][name], names(name.partition(": ")[0])


@COLUMNS
def test_each_kind(name: str) -> None:
    row, space = row_of(name)
    x = space["x"] = eval(row["x"], space)
    want = eval(row.get("values", "None"), space)
    if "gives" not in row:
        got = read(x)
        assert same(got.tolist(), want)
        assert not got.flags.writeable and (not want or shows(x, got))
        return
    with pytest.raises((BufferError, dlshim.UnsupportedObjectError)) as error:
        read(x)
    text, cure = str(error.value), row.get("cure", "convert them to numbers first")
    assert text.startswith(f"'{type(x).__module__}.{type(x).__qualname__}' object"), text
    assert cure in text and row.get("says", "") in text, text
    if "cure" not in row:
        return
    option = re.fullmatch(r'(\w+)="(\w+)"', cure)
    got = read(x, **{option[1]: option[2]}) if option else read(eval(cure, space))
    assert same(got.tolist(), want)
    if option:
        assert shows(x, got) is (row["gives"] == "refused"), "only joining copies"


@COLUMNS
def test_inspect_says_so_and_exports_nothing(name: str) -> None:
    """Where the dtype is seen, shape and access are; the options that a refusal names work."""
    row, space = row_of(name)
    x = eval(row["x"], space)
    gc.collect()  # what other tests have left
    before = dlshim.stats()
    report = dlshim.inspect(x)
    assert dlshim.stats() == before
    if report.dtype is None:
        return
    if "gives" not in row:
        assert report.readonly and report.shape == numpy.from_dlpack(dlshim.upgrade(x)).shape
        return
    with pytest.raises((BufferError, dlshim.UnsupportedObjectError)) as refused:
        numpy.from_dlpack(dlshim.upgrade(x))
    joined = row["gives"] == "joined on request"
    named = options_in(str(refused.value))
    assert not joined or "order='C'" in named
    for each in named:
        upgraded = eval(f"dlshim.upgrade(x, {each})")
        assert same(numpy.from_dlpack(upgraded).tolist(), eval(row["values"], space))


def own_ids(row: dict[str, Any]) -> str:
    return f"{row['what']}: {row['call']}"


@pytest.mark.parametrize("row", TABLES["own"], ids=own_ids)
def test_the_libraries_own_ways(row: dict[str, Any]) -> None:
    """What the manual says of them beside dlshim."""
    space = names(row["x"].partition(".")[0])
    if row.get("needs") and find_spec(row["needs"]) is None:
        pytest.skip(f"{row['needs']} is not installed")
    x = space["x"] = eval(row["x"], space)
    if "raises" in row:
        with pytest.raises(Exception) as error:
            eval(row["call"], space)
        assert type(error.value).__name__ == row["raises"]
        return
    got = eval(row["call"], space)
    array = got if isinstance(got, numpy.ma.MaskedArray) else numpy.asarray(got)
    if "dtype" in row:
        assert str(array.dtype) == row["dtype"]
    else:
        assert same(array.tolist(), eval(row["values"], space))
    if "copies" in row:
        assert shows(x, array) is not row["copies"]


@pytest.mark.parametrize(("call", "memory"), TABLES["into"].items(), ids=TABLES["into"])
def test_arrays_as_columns(call: str, memory: str) -> None:
    space = names(call.partition(".")[0])
    array = numpy.arange(3.0)
    space["t"] = dlshim.from_dlpack(array)
    got = eval(call, space)
    assert [*map(float, getattr(got, "to_pylist", lambda: got)())] == [0.0, 1.0, 2.0]
    if memory:
        assert shows(got, array) is (memory == "shared")
