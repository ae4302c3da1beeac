"""A learned plain exchange runs through few files (docs/architecture.rst says which).

A build without optimisation reports each function that is called, those of headers too, and the
debug information tells where it is written.  A source and its header are one file here.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from project.objects import Objects
from project.tree import SRC, absent, compiler, tool

FILES = 10
#: Exchanges that are more than handing on; these numbers may only fall.
MORE = {"legacy, translated": 13, "to a Tensor": 14, "of a Tensor": 9}
CHILD = Path(__file__).with_name("road.py")
TRACE = Path(__file__).with_name("trace.c")


def written_in(library: Path, offsets: list[int]) -> list[tuple[str, str]]:
    """(function, file of src/) of each call; Python's own inline functions are left out."""
    command = [tool("addr2line"), "-f", "-e", str(library), *map(hex, offsets)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    calls = []
    for function, line in zip(lines[::2], lines[1::2], strict=True):
        file = Path(line.rpartition(":")[0])
        assert file.is_absolute(), f"no debug information for {function}"
        if file.is_relative_to(SRC):
            calls.append((function, file.relative_to(SRC).as_posix()))
    return calls


@pytest.fixture(scope="module")
def roads(objects: Objects, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Exchange -> the files that it enters, in order, without their endings."""
    if sys.platform != "linux":
        absent("the child looks into /proc")
    if importlib.util.find_spec("numpy") is None:
        absent("no NumPy to exchange with")
    library = tmp_path_factory.mktemp("road") / "_core.so"
    # The C library has these two functions as well, which do nothing: ours are to be called.
    command = [compiler(), "-shared", "-fPIC", "-Wl,-Bsymbolic", "-o", str(library), str(TRACE)]
    subprocess.run([*command, *map(str, objects.files.values()), "-ldl", "-lpthread"], check=True)
    done = subprocess.run(
        [sys.executable, str(CHILD), str(library)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": ""},
    )
    assert done.returncode == 0, done.stderr
    found = {}
    for name, offsets in json.loads(done.stdout).items():
        calls = written_in(library, offsets)
        found[name] = list(dict.fromkeys(str(Path(file).with_suffix("")) for _, file in calls))
        print(f"{name}: {len(calls)} calls in {len(found[name])} files: {' '.join(found[name])}")
    return found


def test_exchanges_are_seen(roads: dict[str, list[str]]) -> None:
    assert len(roads) == 5
    assert roads["versioned, handed on"][0] == "module/producer"
    assert {"acquire/call", "export/fast_path"} <= set(roads["versioned, handed on"])
    assert "core/alloc" in roads["legacy, translated"], "a block is made"


@pytest.mark.parametrize("name", ["versioned, handed on", "legacy, handed on"])
def test_a_learned_plain_exchange_runs_through_few_files(
    roads: dict[str, list[str]], name: str
) -> None:
    assert len(roads[name]) <= FILES, roads[name]


@pytest.mark.parametrize("name", MORE)
def test_an_exchange_runs_through_no_more_files_than_before(
    roads: dict[str, list[str]], name: str
) -> None:
    assert len(roads[name]) <= MORE[name], roads[name]
