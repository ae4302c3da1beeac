"""Debuggers, profilers, crash handlers and C++ exceptions find their way through our frames."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from bisect import bisect
from pathlib import Path

import pytest
from project.tree import ROOT, absent, installed_core, tool

import dlshim

if sys.platform != "linux":
    pytest.skip("reads ELF, and asks the loader of Linux", allow_module_level=True)

SOURCE = ROOT / "tests" / "programs" / "unwinding.cpp"
#: Dropping the array calls its deleter, through dlshim.
DROP = "one = [unwinding.{}()]; told = unwinding.call(one.clear)"
#: The producer is asked through dlshim.
ASK = """
class Producer:
    def __dlpack__(self, **keywords):
        unwinding.look_here()
        raise BufferError("not today")
    def __dlpack_device__(self):
        return 1, 0
def ask():
    try:
        dlshim.upgrade(Producer()).__dlpack__()
    except BufferError:
        pass
told = unwinding.call(ask)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the module of tests/programs is, built."""
    include = sysconfig.get_path("include")
    if not Path(include, "Python.h").is_file():
        absent("no Python.h: the headers of this Python are not installed")
    made = tmp_path_factory.mktemp("unwinding")
    command = [tool("g++"), "-std=c++17", "-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    command += [f"-I{include}", f"-I{dlshim.get_include()}", str(SOURCE)]
    subprocess.run([*command, "-o", str(made / "unwinding.so"), "-ldl"], check=True)
    return made


def run(folder: Path, code: str) -> tuple[str | None, list[tuple[str, int]]]:
    """What a child was told, and the stack that it saw: file and offset, innermost first."""
    code = f"import dlshim, json, unwinding\n{code}\nprint(json.dumps([told, unwinding.seen()]))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    told, stack = json.loads(done.stdout)
    return told, [(file, offset) for file, offset in stack]


def functions(file: Path) -> list[tuple[int, int, str]]:
    """(address, size, name) of each function of a library, sorted."""
    done = subprocess.run(
        [tool("nm"), "-S", "--defined-only", str(file)], capture_output=True, text=True, check=True
    )
    rows = [line.split() for line in done.stdout.splitlines()]
    rows = [row for row in rows if len(row) == 4 and row[2] in "tT"]
    return sorted((int(row[0], 16), int(row[1], 16), row[3]) for row in rows)


def names(file: Path, offsets: list[int]) -> list[str]:
    """The functions that these places are in; "" where no name is known."""
    known = functions(file)
    found = []
    for offset in offsets:
        address, size, name = known[bisect(known, (offset, sys.maxsize, "")) - 1]
        found.append(name if address <= offset < address + size else "")
    return found


@pytest.mark.parametrize(
    ("code", "function"),
    [(DROP.format("looks"), "dealloc"), (ASK, "dlpack")],
    ids=["a deleter", "a producer"],
)
def test_a_stack_goes_on_through_our_frames(folder: Path, code: str, function: str) -> None:
    """Under ours are the interpreter's and the module's that called it; ours have names."""
    told, stack = run(folder, code)
    assert told is None
    core, module = str(installed_core()), str(folder / "unwinding.so")
    files = [os.path.realpath(file) for file, _ in stack]
    ours = [i for i, file in enumerate(files) if file == os.path.realpath(core)]
    theirs = [i for i, file in enumerate(files) if file == os.path.realpath(module)]
    assert ours and theirs[0] < ours[0] and ours[-1] < theirs[-1], files
    assert files[ours[-1] + 1 : theirs[-1]], "the interpreter's own frames"
    assert len(files) > theirs[-1] + 2, "what called the module"
    called = names(Path(core), [stack[i][1] for i in ours])
    assert all(called) and any(function in name for name in called), called


def test_an_exception_of_cpp_goes_through_our_frames(folder: Path) -> None:
    """Those of plain CPython let it through, too; what is thrown there is its author's affair."""
    told, _ = run(folder, DROP.format("throws"))
    assert told == "the owner is angry"


def test_each_function_can_be_unwound() -> None:
    core = installed_core()
    done = subprocess.run(
        [tool("readelf"), "--debug-dump=frames", str(core)],
        capture_output=True,
        text=True,
        check=True,
    )
    ranges = [
        tuple(int(part, 16) for part in word.removeprefix("pc=").split(".."))
        for line in done.stdout.splitlines()
        if " FDE " in line
        for word in line.split()
        if word.startswith("pc=")
    ]
    # What the compiler's own start-up code brings has none.
    ours = [row for row in functions(core) if row[1] > 0 and not row[2].startswith("_")]
    without = [
        name
        for address, size, name in ours
        if not any(begin <= address and address + size <= end for begin, end in ranges)
    ]
    assert len(ours) > 400 and without == []
