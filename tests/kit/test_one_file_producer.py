"""producer/dlpack_producer.h: a type that exports by it alone passes the kit, without dlshim."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from project.tree import ROOT, absent, compiler

PRODUCER = ROOT / "producer"
#: What the checks are put to: arrays of the example, and those that nobody may write.
TARGET = """
import example
from dlshim_testing import Producer

def read_only():
    return example.zeros((2, 3), "float32", readonly=True)

zeros = Producer(example.zeros, read_only=read_only)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, built by the commands in its head."""
    place = tmp_path_factory.mktemp("producer")
    for file in PRODUCER.iterdir():
        (place / file.name).write_text(file.read_text())
    head = (PRODUCER / "example.c").read_text().partition("*/")[0]
    script = "\n".join(re.findall(r"^ \*   (INCLUDES.*|cc .*)$", head, re.M))
    strict = "-std=c11 -Wall -Wextra -Werror"
    script = script.replace("cc -O2", f"{compiler()} {strict} -O2")
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-ec", script], cwd=place, env=env, capture_output=True, text=True
    )
    if "Python.h: No such file" in done.stderr:
        absent("Python.h is not here")
    assert done.returncode == 0, done.stderr
    (place / "target.py").write_text(TARGET)
    return place


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), str(ROOT / "kit")])
    env = os.environ | {"PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=env, capture_output=True, text=True
    )


def test_it_passes_every_rule_of_the_kit(folder: Path) -> None:
    report = folder / "report.json"
    done = run(folder, "-m", "dlshim_testing", "--producer", "target:zeros", "--json", str(report))
    assert done.returncode == 0, done.stdout + done.stderr
    must, of, should, of_should = map(
        int, re.findall(r"MUST (\d+)/(\d+) \| SHOULD (\d+)/(\d+)", done.stdout)[0]
    )
    assert (must, should) == (of, of_should) and of > 500 and of_should > 60, done.stdout
    assert json.loads(report.read_text())


LIVES = """
import gc, sys, threading, weakref
import numpy as np
import example

x = example.zeros((3, 4), "float64")
y = np.from_dlpack(x[::2, ::-1])
assert (y.shape, y.strides) == ((2, 4), (64, -8)), (y.shape, y.strides)
y[...] = 7
del x
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
kept = fixed.__dlpack__(max_version=(1, 0))  # an export that is alive at the end
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
    command = ["g++" if "+" in standard else "gcc", f"-std={standard}", *strict, *places, str(use)]
    done = subprocess.run(command, capture_output=True, text=True)
    if "Python.h: No such file" in done.stderr:
        absent("Python.h is not here")
    assert done.returncode == 0, done.stderr
