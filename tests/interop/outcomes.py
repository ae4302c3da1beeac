"""What arrays come to in functions of other libraries, beside docs/results/outcomes.csv.

    python -m interop.outcomes             (in tests/) tries them here, and writes their rows anew
    python -m interop.outcomes FILE        writes what was tried, and what differs, to FILE as JSON

The engine is that of ``inspect`` and ``doctor``.  A row is what came of an array and a function in
two releases, on a day.  Rows of others stay as they are, so that environments can be recorded one
after the other; what differs is reviewed in the commit.
"""

from __future__ import annotations

import csv
import datetime
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dlshim.libraries import BY_KEY, installed_versions, version_tuple
from dlshim.trial.samples import SAMPLES, quick

RECORD = Path(__file__).parents[2] / "docs" / "results" / "outcomes.csv"
COLUMNS = ("from", "into", "object", "function", "bare", "upgraded", "line", "date")
#: By what a row is found.
KEY = COLUMNS[:4]

#: Arrays beside those of doctor.
ARRAYS = {
    "numpy": (
        "numpy.frombuffer(bytes(16), 'float32')",
        "numpy.arange(12, dtype='float32').reshape(3, 4)[:, :3]",
        "numpy.arange(6, dtype='float32')[::2]",
        "numpy.array(1, 'float32')",
        "numpy.empty((0, 3), 'float32')",
        "numpy.arange(6, dtype='float32').reshape(2, 3)",
        "numpy.array([2**40, -1])",
        "numpy.array([1, 2], 'uint16')",
        "numpy.array([1, 2], 'float16')",
        "numpy.array([1 + 2j, 3], 'complex64')",
        "numpy.array([1, 2], '>f4')",
        "numpy.array(['2026-01-01'], 'M8[D]')",
        "numpy.ma.masked_array([1., 2.], [False, True])",
    ),
    "torch": ("torch.tensor([1 + 2j]).conj()", "torch.arange(6.).reshape(2, 3).T"),
    "jax": ("jax.numpy.arange(6.).reshape(2, 3)",),
    "pyarrow": (
        "pyarrow.chunked_array([[1., 2.], [3.]])",
        "pyarrow.Tensor.from_numpy(numpy.arange(6.).reshape(2, 3))",
    ),
    "polars": ("polars.Series([[1., 2.]], dtype=polars.Array(polars.Float64, 2))",),
    "pandas": ("pandas.Series([1, None], dtype='Int64')",),
    "ml_dtypes": ("numpy.array([1, 2], ml_dtypes.bfloat16)",),
    "nanoarrow": ("nanoarrow.c_array([1., 2.], nanoarrow.float32())",),
    "onnxruntime": (
        "onnxruntime.OrtValue.ortvalue_from_numpy(numpy.arange(3, dtype='float32'))",
        "onnxruntime.OrtValue.ortvalue_from_numpy(numpy.array([True, False]))",
    ),
    "duckdb": ("duckdb.sql('select 1.5::float a')",),
    "arro3": ("arro3.core.Array([1., 2.], arro3.core.DataType.float32())",),
    "awkward": ("awkward.Array([1., 2.])",),
    "drjit": ("drjit.scalar.ArrayXf([1, 2])",),
}
#: Functions beside the usual one of each of doctor's libraries, whose name alone stands for it.
FUNCTIONS = {
    "numpy": ("numpy", "numpy.asarray"),
    "torch": ("torch", "torch.asarray", "torch.as_tensor"),
    "jax": ("jax", "jax.numpy.asarray"),
    "pyarrow": ("pyarrow.array", "pyarrow.Tensor.from_dlpack", "pyarrow.Array.from_dlpack"),
    "mlx": ("mlx", "mlx.core.array"),
    "nanoarrow": ("nanoarrow.c_buffer",),
    "onnxruntime": ("onnxruntime.OrtValue.from_dlpack",),
    "max": ("max.driver.Buffer.from_dlpack",),
    "awkward": ("awkward.from_dlpack",),
    "av": ("av.VideoFrame.from_dlpack([x], format='gray')",),
    "ctypes_dlpack": ("ctypes_dlpack.array_as_dlpack(x, max_version=(1, 0))",),
    "drjit": ("drjit.scalar.TensorXf",),
    "cutlass": ("cutlass.cute.runtime.from_dlpack",),
    "cuda.core": ("cuda.core.utils.StridedMemoryView.from_dlpack(x, stream_ptr=-1)",),
}
LIBRARIES = dict.fromkeys((*SAMPLES, *ARRAYS, *FUNCTIONS))
#: The packages of the libraries that take part.
MODULES = {BY_KEY[key].module.partition(".")[0] for key in LIBRARIES}

Rows = dict[tuple[str, ...], dict[str, str]]


def tried(only: str = "") -> dict[str, Any]:
    """What comes of all arrays and functions here; only: of and in one library."""
    versions = installed_versions(LIBRARIES)
    arrays = {key: (*SAMPLES.get(key, ()), *ARRAYS.get(key, ())) for key in LIBRARIES}
    functions = {
        key: FUNCTIONS.get(key, (key,) if key in SAMPLES else ())
        for key in LIBRARIES
        if not only or key in (only, "numpy")
    }
    found = quick(versions, lambda what: None, arrays, functions)
    return {**found, "versions": versions}


def rows_of(told: dict[str, Any]) -> Rows:
    """The rows of what was tried; a build of torch is no release of its own.

    Where the bare call works, what is written into without a warning by the upgraded one alone,
    although it is read-only, "harms".  When JAX reads is luck, bare too.
    """
    versions = {key: version.partition("+")[0] for key, version in told["versions"].items()}
    today = datetime.date.today().isoformat()
    found = {}
    for pair in told["pairs"]:
        releases = [f"{key} {versions[key]}" for key in (pair["from"], pair["library"])]
        for each in pair["arrays"]:
            if "bfloat16" in each["array"] and "ml_dtypes" not in versions:
                continue  # NumPy has such elements by ml_dtypes alone
            harms = each["bare"] == "works" and "WRITES" in each["harm_added"]
            upgraded = "harms" if harms else each["upgraded"]
            values = [each["array"], pair["into"], each["bare"], upgraded, each["line"]]
            row = dict(zip(COLUMNS, [*releases, *values, today], strict=True))
            found[tuple(row[name] for name in KEY)] = row
    return found


def recorded() -> Rows:
    if not RECORD.exists():
        return {}
    with RECORD.open(newline="", encoding="utf-8") as file:
        return {tuple(row[name] for name in KEY): row for row in csv.DictReader(file)}


def write(rows: Rows) -> None:
    """Rows of these releases instead of those that were there."""
    rows = recorded() | rows
    with RECORD.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[key] for key in sorted(rows))


def _release(name: str) -> tuple[str, tuple[int, ...]]:
    library, _, version = name.partition(" ")
    return library, version_tuple(version)


def newest_before(now: Rows, then: Rows) -> Rows:
    """What was last recorded of the same objects and functions, whatever their releases were."""
    latest: dict[tuple[str, ...], dict[str, str]] = {}
    ordered = sorted(then.values(), key=lambda row: (_release(row["from"]), _release(row["into"])))
    for row in ordered:
        latest[_without_releases(row)] = row
    told = {key: latest.get(_without_releases(row)) for key, row in now.items()}
    return {key: row for key, row in told.items() if row is not None}


def _without_releases(row: dict[str, str]) -> tuple[str, ...]:
    libraries = (row[side].partition(" ")[0] for side in ("from", "into"))
    return (*libraries, row["object"], row["function"])


def differences(now: Rows, then: Rows) -> list[str]:
    """Which outcomes differ from those of the record.

    Of the line only whether there is one: which is best may depend on where memory lies.
    """

    def told(row: dict[str, str]) -> str:
        line = "some line" if row["line"] else "no line"
        return f"bare {row['bare']}, upgraded {row['upgraded']}, {line}"

    return [
        f"{' | '.join(key)}: {told(now[key])}; recorded: {told(then[key])}"
        for key in now.keys() & then.keys()
        if told(now[key]) != told(then[key])
    ]


def asking(told: dict[str, Any]) -> set[str]:
    """Libraries whose function asks objects for DLPack: others hold any object as it is."""
    return {each["name"] for each in told["asked"] if each["asks_for"]}


def red(now: Rows, asks: Iterable[str]) -> list[str]:
    """What is wrong whatever the record says: worse than bare, or harm that dlshim adds.

    asks: only of these a wrong result is dlshim's; pandas.Series makes one element of an object
    that it does not know.
    """
    return [
        f"{' | '.join(key)}: bare {row['bare']}, upgraded {row['upgraded']}"
        for key, row in now.items()
        if (row["bare"] == "works" and not row["line"])
        or (row["bare"] != row["upgraded"] and row["upgraded"] in ("dies", "hangs", "harms"))
        or (row["bare"] != row["upgraded"] == "wrong" and key[1].partition(" ")[0] in asks)
    ]


def main(file: str = "", only: str = "") -> None:
    told = tried(only)
    rows = rows_of(told)
    if not file:
        write(rows)
        return
    then = recorded()
    found = {
        "rows": [*rows.values()],
        "differs": differences(rows, newest_before(rows, then) | then),
        "red": red(rows, asking(told)),
        "left_out": told["left_out"],
    }
    Path(file).write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
