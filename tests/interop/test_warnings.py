"""No question of dlshim makes a library warn, and none changes what comes of an exchange where
warnings are errors: every array that the producers make, and columns that pyarrow refuses."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import dlshim
from interop.cases import DTYPES, LAYOUTS
from interop.libraries import PRODUCERS

TESTS = Path(__file__).parents[1]
NAMES = {adapter.name: adapter for adapter in PRODUCERS if not adapter.capsule}
#: The status of a child whose library is not in this environment.
ABSENT = 3

WAYS = {
    "legacy": lambda x: dlshim.upgrade(x).__dlpack__(),
    "versioned": lambda x: dlshim.upgrade(x).__dlpack__(max_version=(1, 0)),
    "device": lambda x: dlshim.upgrade(x).__dlpack_device__(),
    "Tensor": lambda x: dlshim.from_dlpack(x).shape,
}

#: Columns that the __dlpack__ of pyarrow refuses, each of a type that nobody has met.
COLUMNS = {
    "list": "pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2))",
    "null": "pa.array([1, None])",
    "bool": "pa.array([True, False])",
    "text": "pa.array(['a'])",
    "lists": "pa.array([[1], [2, 3]])",
    "time": "pa.array([1, 2], pa.time32('s'))",
    "dictionary": "pa.array(['a']).dictionary_encode()",
    "struct": "pa.array([{'a': 1}])",
    "nothing": "pa.nulls(2)",
}


def outcome(x: Any, way: str, action: Any) -> tuple[str, list[str]]:
    """The kind of the result, or the refusal, and the warnings."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter(action)
        try:
            result = WAYS[way](x)
            said = repr(result).partition(" at ")[0]
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
    return said, [str(each.message) for each in seen]


def compare(x: Any, told: str) -> None:
    for way in WAYS:
        strict = outcome(x, way, "error")
        loose = outcome(x, way, "always")
        assert strict == loose, (told, way, strict, loose)
        assert not loose[1], (told, way, loose)
        assert "pass x instead" not in loose[0], (told, way, loose)


def check_arrays(name: str) -> None:
    try:
        adapter = NAMES[name]()
    except ImportError as error:
        print(error)
        sys.exit(ABSENT)
    for dtype in DTYPES.values():
        for layout in LAYOUTS.values():
            if not adapter.can(dtype, layout):
                continue
            try:
                made = adapter.make(dtype, layout)
            except Exception as error:
                print(f"not made: {dtype.name} {layout.name}: {error}")
            else:
                compare(made.obj, f"{dtype.name} {layout.name}")


def check_column(name: str) -> None:
    try:
        import pyarrow
    except ImportError as error:
        print(error)
        sys.exit(ABSENT)
    compare(eval(COLUMNS[name], {"pa": pyarrow}), name)


def run(kind: str, name: str) -> None:
    line = [sys.executable, "-m", "interop.test_warnings", kind, name]
    env = os.environ | {"PYTHONPATH": str(TESTS), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(line, capture_output=True, text=True, env=env, cwd=TESTS)
    if done.returncode == ABSENT:
        pytest.skip(f"not in this environment: {done.stdout.strip()}")
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]


@pytest.mark.parametrize("name", NAMES)
def test_arrays(name):
    """Each in a process of its own: some libraries cannot live beside others."""
    run("arrays", name)


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_that_are_refused(name):
    run("column", name)


if __name__ == "__main__":
    {"arrays": check_arrays, "column": check_column}[sys.argv[1]](sys.argv[2])
