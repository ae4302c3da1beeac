"""producer/dlpack_producer.h: a type that exports by it alone passes the kit, without dlshim."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from project.tree import ROOT, absent, compiler, read_toml, tool

PRODUCER = ROOT / "producer"
#: A library and the file that makes it; the head of the file has the commands.
EXAMPLES = {"example": "example.c", "example_cpp": "example.cpp", "example_rust": "example.rs"}
#: What the checks are put to: arrays of an example, and those that nobody may write.
TARGET = """
import {name} as example
from dlshim_testing import Producer

def read_only():
    return example.zeros((2, 3), "float32", readonly=True)

zeros = Producer(example.zeros, read_only=read_only{dtypes})
"""
#: What else is said of a target: the examples in C++ and Rust have images of one dtype.
ONE_DTYPE = ', dtypes=("float32",)'
WARNINGS = "-Wall -Wextra -Werror"
SANITIZERS = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined"
NEW_PRODUCERS = [
    row for row in read_toml(ROOT / "tests" / "kit" / "faults.toml")["fault"] if "year" in row
]


def build(name: str, place: Path, options: str = WARNINGS) -> Path:
    """The folder with the example, made by the commands in its head."""
    if EXAMPLES[name].endswith(".rs") and not shutil.which("rustc"):
        absent("rustc is not here")
    for file in PRODUCER.iterdir():
        (place / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    head = (PRODUCER / EXAMPLES[name]).read_text(encoding="utf-8")
    script = "\n".join(
        re.findall(r"^(?: \*|//!) +(INCLUDES=.*|(?:cc|c\+\+|rustc) .*)$", head, re.M)
    )
    script = re.sub(r"^cc ", f"{compiler()} {options} ", script, flags=re.M)
    script = re.sub(r"^c\+\+ ", f"c++ {options} ", script, flags=re.M)
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-ec", script], cwd=place, env=env, capture_output=True, text=True
    )
    if "Python.h: No such file" in done.stderr:
        absent("Python.h is not here")
    assert done.returncode == 0, done.stderr
    dtypes = "" if name == "example" else ONE_DTYPE
    (place / "target.py").write_text(TARGET.format(name=name, dtypes=dtypes))
    return place


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("example", tmp_path_factory.mktemp("producer"))


def run(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), str(ROOT / "kit")])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path} | env,
        capture_output=True,
        text=True,
    )


def judged(folder: Path, **env: str) -> dict[str, str]:
    """Each check that was put to the target, and what it came to; all hold at every level."""
    report = folder / "report.json"
    target = ("--producer", "target:zeros", "--json", str(report))
    done = run(folder, "-m", "dlshim_testing", *target, **env)
    assert done.returncode == 0, done.stdout + done.stderr
    must, of, should, of_should = map(
        int, re.findall(r"MUST (\d+)/(\d+) \| SHOULD (\d+)/(\d+)", done.stdout)[0]
    )
    assert (must, should) == (of, of_should), done.stdout
    (told,) = json.loads(report.read_text())
    return {found["check"]: found["status"] for found in told["findings"]}


def passed(found: dict[str, str]) -> int:
    return list(found.values()).count("pass")


def test_it_passes_every_rule_of_the_kit(folder: Path) -> None:
    found = judged(folder)
    assert passed(found) > 600
    assert len(NEW_PRODUCERS) >= 5  # what producers that were new in 2026 had wrong
    assert {found[row["check"]] for row in NEW_PRODUCERS} == {"pass"}


@pytest.mark.parametrize("name", ["example_cpp", "example_rust"])
def test_shared_memory_of_other_languages_passes(name: str, tmp_path: Path) -> None:
    assert passed(judged(build(name, tmp_path))) > 150


@pytest.mark.parametrize("name", ["example", "example_cpp"])
def test_it_passes_under_sanitizers(name: str, tmp_path: Path) -> None:
    runtimes = [
        subprocess.run(
            [compiler(), f"-print-file-name={name}"], capture_output=True, text=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    if not all(map(os.path.isabs, runtimes)):
        absent("the compiler has no runtimes of its sanitizers")
    place = build(name, tmp_path, f"{WARNINGS} {SANITIZERS}")
    env = {"ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
    assert passed(judged(place, LD_PRELOAD=" ".join(runtimes), **env)) > 150


LIVES = """
import gc, sys, threading, weakref
import numpy as np
import example

x = example.zeros((3, 4), "float64")
y = np.from_dlpack(x[::2, ::-1])
assert (y.shape, y.strides) == ((2, 4), (64, -8)), (y.shape, y.strides)
y[...] = 7
x = None
gc.collect()
assert y.tolist() == [[7.0] * 4] * 2  # the export keeps the memory
before = sys.getrefcount(example.Array)
threads = [threading.Thread(target=lambda: [np.from_dlpack(example.zeros(4)) for _ in range(500)])
           for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
assert sys.getrefcount(example.Array) == before
fixed = example.zeros(3, "int32", readonly=True)
assert not np.from_dlpack(fixed).flags.writeable
try:
    fixed.__dlpack__()
except BufferError as error:
    assert "read-only" in str(error)
else:
    raise AssertionError
copy = np.from_dlpack(fixed, copy=True)
assert copy.flags.writeable and copy.ctypes.data % 64 == 0
assert "dlshim" not in sys.modules
far = example.zeros((2**31 + 16,), "uint8")  # offsets of more than 31 bits
offset = np.from_dlpack(far[2**31 :]).ctypes.data - np.from_dlpack(far).ctypes.data
assert offset == 2**31, offset
kept = fixed.__dlpack__(max_version=(1, 0))  # an export that is alive at the end
del sys.modules["example"], example, far, fixed, x  # a deleter outlives its module
gc.collect()
assert y.tolist() == [[7.0] * 4] * 2
del y
gc.collect()
print("done")
"""


def test_exports_live_as_long_as_their_consumers(folder: Path) -> None:
    done = run(folder, "-c", LIVES)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.parametrize("standard", ["c99", "c11", "c++11", "c++17"])
def test_the_header_compiles_without_a_warning(standard: str, tmp_path: Path) -> None:
    import sysconfig

    use = tmp_path / ("use.cpp" if "+" in standard else "use.c")
    use.write_text(
        '#include "dlpack_producer.h"\n'
        "static int describe(PyObject *self, dlpack_array *array)\n"
        "{ (void)self; array->ndim = 0; return 0; }\n"
        "static PyObject *take(PyObject *capsule) { return PyCapsule_GetContext(capsule)"
        " ? NULL : capsule; }\n"
        "DLPACK_PRODUCER(thing, describe)\nDLPACK_PRODUCER_TABLE(thing, describe, take)\n"
        "PyMethodDef methods[] = {DLPACK_PRODUCER_METHODS(thing), {NULL, NULL, 0, NULL}};\n"
        "int add(PyTypeObject *type);\n"
        "int add(PyTypeObject *type) { return thing_add_table(type); }\n"
    )
    places = [f"-isystem{sysconfig.get_path('include')}", f"-I{PRODUCER}"]
    strict = ["-Wall", "-Wextra", "-Wconversion", "-Werror", "-fsyntax-only"]
    program = tool("c++") if "+" in standard else compiler()
    command = [program, f"-std={standard}", *strict, *places, str(use)]
    done = subprocess.run(command, capture_output=True, text=True)
    if "Python.h: No such file" in done.stderr:
        absent("Python.h is not here")
    assert done.returncode == 0, done.stderr
