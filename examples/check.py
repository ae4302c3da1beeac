"""Builds each example by the commands in its head, and tries it with the libraries at hand.

    python examples/check.py                the examples whose tools are installed
    python examples/check.py plain_c.c      one of them, which must succeed

What an example needs and this machine lacks is named; with DLSHIM_CI=1 nothing may be missing.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import gc
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import ModuleType

import dlshim

HERE = Path(__file__).resolve().parent
#: The commands and the modules that an example needs beside Python and dlshim.
NEEDS = {
    "plain_c.c": ("cc",),
    "nanobind_module.cpp": ("c++", "nanobind"),
    "pybind11_module.cpp": ("c++", "pybind11"),
    "cython_module.pyx": ("cc", "Cython"),
    "rust_module.rs": ("rustc",),
    "own_type.c": ("cc",),
}
#: Negative, or with more bytes than there can be; of 1 << 61 numbers a size_t counts 0 bytes.
WRONG_LENGTHS = (-1, 1 << 60, 1 << 61, (1 << 63) - 1)
TOOLS = ("cc", "c++", "rustc")


def missing(name: str) -> list[str]:
    return [
        need
        for need in NEEDS[name]
        if not (shutil.which(need) if need in TOOLS else importlib.util.find_spec(need))
    ]


def commands(text: str) -> str:
    """The indented lines of the comment at the head."""
    head = re.split(r'\*/|"""\n\n|\n\nmod ', text, maxsplit=1)[0]
    lines = re.findall(r"^(?://!| \*)? {3,}(\S.*)$", head, re.M)
    assert lines, "no commands in the head"
    return "\n".join(lines)


#: Where dlshim should be, an extension finds nothing, a release without a table, or a table of
#: another number or of too few functions, or what a mock has in its place.
WITHOUT = """
import sys, types, ctypes
sys.modules["dlshim"] = None
if {table}:
    module = sys.modules["dlshim"] = types.ModuleType("dlshim")
if {table} == (1,):
    module._c_api_v1 = object()
if len({table}) == 2:
    table = (ctypes.c_uint32 * 32)(*{table})
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    name = b"dlshim._c_api_v1"
    module._c_api_v1 = new(ctypes.addressof(table), name, None)
try:
    import {name}
except ImportError as error:
    while error.__cause__ is not None:  # nanobind puts an ImportError of its own before it
        error = error.__cause__
    print(error)
"""
SENTENCE = (
    "this module needs the Python package dlshim, {0} or newer{1}"
    'pip install --upgrade "dlshim>={0}"\n'
)
OTHER = (
    ", and something else has its name, <module 'dlshim'>\n  remove or rename that, or import "
    "dlshim before a test replaces it; if it is not installed: "
)


def import_without_dlshim(name: str, folder: Path) -> None:
    for table in ((), (0,), (1,), (2, 1 << 20), (1, 16)):
        program = WITHOUT.format(table=table, name=name)
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True
        )
        said = done.stdout + done.stderr
        expected = SENTENCE.format(dlshim.__version__, OTHER if table else "\n  ")
        assert said == expected, (name, table, done.returncode, said)


def build(name: str, folder: Path) -> ModuleType:
    shutil.copy(HERE / name, folder)
    env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env["PATH"]])
    script = "set -euo pipefail\n" + commands((HERE / name).read_text())
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=env, stderr=subprocess.PIPE, text=True
    )
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr
    (made,) = folder.glob("*.so")
    import_without_dlshim(made.name.partition(".")[0], folder)
    spec = importlib.util.spec_from_file_location(made.name.partition(".")[0], made)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def arrays() -> dict[str, object]:
    """Six float64 numbers of each library that is here."""
    made: dict[str, object] = {"array": array.array("d", range(6))}
    for library in ("numpy", "torch"):
        if importlib.util.find_spec(library):
            module = importlib.import_module(library)
            made[library] = module.arange(6, dtype=module.float64)
    return made


def refusal(function, *arguments: object) -> str:
    try:
        function(*arguments)
    except (BufferError, MemoryError, OverflowError, TypeError, ValueError) as error:
        return str(error)
    raise AssertionError(f"{arguments!r} was taken")


def misaligned() -> memoryview:
    """Two float64 numbers, none of them where a C compiler may look for one."""
    memory = bytearray(24)
    start = 1 - ctypes.addressof(ctypes.c_char.from_buffer(memory)) % 8
    return memoryview(memory)[start % 8 : start % 8 + 16].cast("d")


def replace(library: str, x: object) -> None:
    """Let x have other memory, or none, as far as its library allows that now.

    Not by torch's set_() and resize_(): they free memory without the GIL, and nobody else can guard
    it, torch's own functions included.
    """
    if library == "torch":
        import torch

        x.data = torch.empty(0, dtype=torch.float64)
        return
    with contextlib.suppress(BufferError, ValueError):  # it is in use
        x.resize(0) if library == "numpy" else x.append(0.0)


def try_total(example: ModuleType, library: str, x: object) -> None:
    """total() lets other threads run: of any strides, also of memory that may not be written."""
    assert example.total(x) == sum(map(float, x)), library
    if library != "array":
        reverse = x.flip(0) if library == "torch" else x[::-2]
        assert example.total(reverse) == sum(map(float, reverse)), library
        assert example.total(x[:0]) == 0.0, library
    assert example.total(memoryview(bytes(16)).cast("d")) == 0.0
    assert "x has dtype int32, not float64" in refusal(example.total, array.array("i", [1]))
    assert example.total(misaligned()) == 0.0  # of a copy, which is aligned
    for wrong in (None, "text", 1.5):
        refusal(example.total, wrong)


def try_beside_others(example: ModuleType, library: str) -> None:
    """Another thread replaces the memory while scale() runs: it must not be freed under the loop.

    So much memory goes back to the system at once, where a later write ends the process.
    """
    for _ in range(5):
        x = array.array("d", bytes(64 << 20))
        if library != "array":
            module = importlib.import_module(library)
            x = module.zeros(8 << 20, dtype=module.float64)
        begins = threading.Event()

        def work(x: object = x, begins: threading.Event = begins) -> None:
            begins.set()
            example.scale(x, 2.0)
            if library != "torch" and hasattr(example, "total"):
                example.total(x)  # not torch's: its export keeps no memory that it replaces

        worker = threading.Thread(target=work)
        worker.start()
        begins.wait()
        replace(library, x)
        del x
        worker.join()


def try_overloads(example: ModuleType) -> None:
    """trace() has an overload for float64 and one for float32, of two dimensions."""
    for dtype in ("float64", "float32"):
        assert f'"{dtype}[:, :]"' in str(example.trace.__doc__), example.trace.__doc__
    for code in "df":
        memory = memoryview(array.array(code, range(6))).cast("B").cast(code, (2, 3))
        assert example.trace(memory) == 4.0, code
    integers = memoryview(array.array("i", range(6))).cast("B").cast("i", (2, 3))
    assert example.trace(integers) == 4.0
    for wrong in (None, "text"):
        assert "incompatible function arguments" in refusal(example.trace, wrong)
    for code in "di":
        assert "has 1 dimension, not 2" in refusal(example.trace, array.array(code, [1]))


class Raises:
    """An array whose library is interrupted, or has no memory."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **_: object) -> object:
        raise self.error


def try_interruptions(example: ModuleType) -> None:
    """What says nothing of the object ends the call."""
    for kind in (KeyboardInterrupt, SystemExit, MemoryError):
        error = kind("of the library")
        try:
            example.trace(Raises(error))
        except BaseException as caught:
            assert caught is error, caught
        else:
            raise AssertionError(f"{kind} was lost")
    refusal(example.trace, Raises(RuntimeError("of the library")))


def try_out_type(example: ModuleType) -> list[str]:
    """The same of a type with objects for other libraries."""
    made = arrays()
    for length in WRONG_LENGTHS:
        refusal(example.Ramp, length)
    for library in made:
        x = example.Ramp(3)
        if library == "array":
            y = dlshim.from_dlpack(x)
            assert memoryview(y).tolist() == [0, 1, 2]
            assert type(x).__dlpack_c_exchange_api__ and type(x).__c_dlpack_exchange_api__
        else:
            y = importlib.import_module(library).from_dlpack(x)
            before = sys.getrefcount(x)
            del y
            assert sys.getrefcount(x) == before - 1, library
            y = importlib.import_module(library).from_dlpack(x)
            del x
            gc.collect()
            assert y.tolist() == [0, 1, 2], (library, y)
    return sorted(made)


def try_out(example: ModuleType) -> list[str]:
    """What worked; AssertionError where something did not."""
    if hasattr(example, "Ramp"):
        return try_out_type(example)
    made = arrays()
    for library, x in made.items() if hasattr(example, "total") else ():
        try_total(example, library, x)
    for library, x in made.items():
        for _ in range(3):  # the first call of a type finds out how it is asked
            example.scale(x, 2.0)
        assert [*map(float, x)] == [0, 8, 16, 24, 32, 40], (library, x)
    said = refusal(example.scale, array.array("i", [1]), 2.0)
    cure = "numpy.asarray(dlshim.from_dlpack(x), 'float64')"
    assert said == f"scale(): x has dtype int32, not float64\n  keep and pass {cure}", said
    said = refusal(example.scale, misaligned(), 2.0)
    assert "memory that is not aligned to 8 bytes" in said, said
    assert "scale(): x is read-only" in refusal(example.scale, memoryview(bytes(8)).cast("d"), 1.0)
    if hasattr(example, "trace"):
        try_overloads(example)
        try_interruptions(example)
    for length in WRONG_LENGTHS:
        refusal(example.ramp, length)
    for library in made:
        if library == "array":
            assert memoryview(example.ramp(4)).tolist() == [0, 1, 2, 3]
        else:
            y = importlib.import_module(library).from_dlpack(example.ramp(4))
            gc.collect()
            assert y.tolist() == [0, 1, 2, 3], (library, y)
            example.scale(y, 3.0)
            assert y.tolist() == [0, 3, 6, 9], (library, y)
        try_beside_others(example, library)
    return sorted(made)


def main(names: list[str]) -> int:
    absent = 0
    for name in names or NEEDS:
        lacks = missing(name)
        if lacks:
            print(f"{name}: not built, {', '.join(lacks)} is not installed", flush=True)
            absent += 1
            continue
        with tempfile.TemporaryDirectory() as folder:
            worked = try_out(build(name, Path(folder)))
        print(f"{name}: built, tried with {', '.join(worked)}", flush=True)
    return 1 if absent and (names or os.environ.get("DLSHIM_CI") == "1") else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
