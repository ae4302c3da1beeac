"""Real compiled functions, called bare, upgraded and as kernels, with the arrays of each library.

    python -m interop.kernel_cases FILE         from tests/: writes the table of the manual

A case is a function of the way to call; an outcome is a word or two, which the table shows.
"""

from __future__ import annotations

import csv
import ctypes
import functools
import gc
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

import dlshim
from dlshim.kernels import is_argument, replace

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
TABLE = ROOT / "docs" / "results" / "kernels.csv"
VALUES = np.arange(6, dtype="f4").reshape(2, 3)


# ---- arrays ------------------------------------------------------------------------------------


class Own:
    """An array of a user's own library."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    @classmethod
    def from_dlpack(cls, x: Any) -> Own:
        return cls(np.from_dlpack(x))

    def __dlpack__(self, **asked: Any) -> Any:
        return self.values.__dlpack__(**asked)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def _pyarrow(values: np.ndarray) -> Any:
    return sys.modules["pyarrow"].Tensor.from_numpy(values)


#: Library: the module, and what makes an array of a NumPy array of float32.
LIBRARIES: dict[str, tuple[str, Callable[[ModuleType, np.ndarray], Any]]] = {
    "torch": ("torch", lambda m, v: m.from_numpy(v)),
    "NumPy": ("numpy", lambda m, v: v),
    "JAX": ("jax.numpy", lambda m, v: m.array(v)),
    "MLX": ("mlx.core", lambda m, v: m.array(v)),
    "pyarrow": ("pyarrow", lambda m, v: _pyarrow(v)),
    "Warp": ("warp", lambda m, v: m.array(v, dtype=m.float32)),
    "array-api-strict": ("array_api_strict", lambda m, v: m.asarray(v)),
    "a user's class": ("", lambda m, v: Own(v)),
}


def make(library: str, values: np.ndarray = VALUES) -> Any:
    module, maker = LIBRARIES[library]
    return maker(importlib.import_module(module) if module else sys, values.copy("K"))


def bf16(library: str) -> Any:
    """The numbers as bfloat16; None: the library has no such dtype."""
    x = make(library)
    if library == "torch":
        return x.bfloat16()
    if library in ("JAX", "MLX"):
        return x.astype(importlib.import_module(LIBRARIES[library][0]).bfloat16)
    if library == "NumPy" and importlib.util.find_spec("ml_dtypes"):
        return VALUES.astype(importlib.import_module("ml_dtypes").bfloat16)
    return None


def of_dtype(library: str, dtype: str) -> Any:
    """An array of another dtype; None: the library has none, or no maker here."""
    x = np.ones((2, 3), dtype)
    if library == "array-api-strict" and dtype == "float16":
        return None
    if library == "MLX":
        mlx = importlib.import_module("mlx.core")
        return mlx.array(x)
    if library == "Warp":
        return None if dtype == "complex64" else importlib.import_module("warp").array(x)
    if library == "pyarrow" and dtype in ("bool", "complex64"):
        return None
    return make(library, x)


def unexportable(library: str) -> Any:
    """An array of the library that has no DLPack form; None: it has none such."""
    if library == "torch":
        return importlib.import_module("torch").eye(2).to_sparse()
    if library == "NumPy":
        return np.array([None])
    if library == "JAX":
        x = make("JAX")
        x.delete()
        return x
    return Own([None]) if library == "a user's class" else None


def here() -> list[str]:
    """The libraries that are installed here."""
    return [
        name
        for name, (module, _) in LIBRARIES.items()
        if not module or importlib.util.find_spec(module.partition(".")[0])
    ]


def values(x: Any) -> np.ndarray:
    return np.asarray(dlshim.from_dlpack(x))


# ---- compiled functions ------------------------------------------------------------------------


def commands(name: str) -> str:
    """The commands at the head of an example."""
    head = (EXAMPLES / name).read_text().split("In Python")[0]
    return "\n".join(re.findall(r"^ \* {3,}(\S.*)$", head, re.M))


def build(name: str, folder: Path) -> Path:
    shutil.copy(EXAMPLES / name, folder)
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", f"set -euo pipefail\n{commands(name)}"],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / name.replace(".cpp", ".so").replace(".c", ".so")


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _ctypes(path: Path) -> SimpleNamespace:
    library = ctypes.CDLL(str(path))
    library.total.restype = ctypes.c_double
    arguments = [ctypes.c_void_p, ctypes.c_ssize_t]
    library.total.argtypes = library.add_one.argtypes = arguments

    def of(function: Any) -> Callable[[Any], Any]:
        def call(x: Any) -> Any:
            if "float32" not in str(x.dtype):  # torch and Warp say more
                raise TypeError(f"x has dtype {x.dtype}, not float32")
            return function(x.data_ptr(), x.size)

        return call

    return SimpleNamespace(total=of(library.total), add_one=of(library.add_one))


def functions(folder: Path) -> SimpleNamespace:
    """What could be built here: None stands for what was not, with the reason in `why`."""
    import tvm_ffi

    found = SimpleNamespace(why={}, nanobind=None, pybind11=None)
    found.tvm = tvm_ffi.load_module(str(build("kernel_tvm_ffi.cpp", folder)))
    for name in ("nanobind", "pybind11"):
        if importlib.util.find_spec(name):
            setattr(found, name, _module(build(f"kernel_{name}.cpp", folder)))
        else:
            found.why[name] = f"{name} is not installed"
    found.ctypes = _ctypes(build("kernel_ctypes.c", folder))
    found.second = tvm_ffi.convert(lambda a, b: b)
    found.echo = tvm_ffi.convert(lambda x: x)
    return found


# ---- ways to call ------------------------------------------------------------------------------

Way = Callable[..., Callable[..., Any]]


def bare(f: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return f


def upgraded(f: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    takes = options.pop("takes", None)
    options.pop("writes", None)
    make = {"tensor": dlshim.from_dlpack, "capsule": dlshim.to_capsule}.get(takes, dlshim.upgrade)

    def change(x: Any, place: str) -> Any:
        return make(x, **options)

    return lambda *args: f(*replace([*args], is_argument, change, "arguments", {}))


WAYS: dict[str, Way] = {"bare": bare, "upgrade": upgraded, "kernel": dlshim.kernel}


# ---- cases -------------------------------------------------------------------------------------
#: Each gets the functions, the way and the library's name; it returns the outcome.

CASES: dict[str, Callable[[SimpleNamespace, Way, str], str]] = {}
#: Case: what it is about.
AXES: dict[str, str] = {}


class Missing(Exception):
    """There is no such array or function here."""


def case(axis: str, text: str) -> Callable[[Any], Any]:
    def note(function: Any) -> Any:
        CASES[text] = function
        AXES[text] = axis
        return function

    return note


def in_threads(*functions: Callable[[], None]) -> None:
    """Run them side by side; the first error is raised here."""
    errors: list[BaseException] = []

    def guarded(function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=guarded, args=(function,)) for function in functions]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if errors:
        raise errors[0]


def _whose(result: Any) -> str:
    told = type(result).__module__.partition(".")[0]
    return "a user's class" if isinstance(result, Own) else f"{told}'s"


def _kind(result: Any, library: str, expected: Any, like: Any = None) -> str:
    """Whose array came out, with the right numbers."""
    same = isinstance(result, type(make(library) if like is None else like))
    assert np.array_equal(values(result).astype("f4"), np.asarray(expected, "f4")), result
    return "its own" if same else _whose(result)


# ---- arguments -----------------------------------------------------------------------------------


@case("arguments", "writes into its argument")
def in_place(f: SimpleNamespace, way: Way, library: str) -> str:
    x = make(library)
    assert way(f.tvm.add_one)(x) is None
    assert np.array_equal(values(x), VALUES + 1)
    return "written"


@case("arguments", "the same, read-only memory")
def in_place_read_only(f: SimpleNamespace, way: Way, library: str) -> str:
    if library not in ("NumPy", "a user's class"):
        raise Missing
    memory = VALUES.copy()
    memory.flags.writeable = False
    x = memory if library == "NumPy" else Own(memory)
    way(f.tvm.add_one)(x)
    return "written" if memory[0, 0] == 1 else "lost"


@case("arguments", "the same, with writes=")
def in_place_refused(f: SimpleNamespace, way: Way, library: str) -> str:
    x = make(library)
    way(f.tvm.add_one, writes=0)(x)
    return "written" if np.array_equal(values(x), VALUES + 1) else "lost"


@case("arguments", "writes into an output argument")
def output(f: SimpleNamespace, way: Way, library: str) -> str:
    out = make(library, np.zeros((2, 3), "f4"))
    way(f.tvm.add)(make(library), make("NumPy"), out)
    assert np.array_equal(values(out), 2 * VALUES)
    return "written"


@case("arguments", "takes a strided argument")
def strided(f: SimpleNamespace, way: Way, library: str) -> str:
    wide = np.arange(12, dtype="f4").reshape(3, 4)[:, ::2]
    if library == "pyarrow":  # no copy of the gaps
        x = _pyarrow(wide)
    elif library == "a user's class":
        x = Own(wide)
    else:
        x = make(library, np.arange(12, dtype="f4").reshape(3, 4))[:, ::2]
    assert way(f.tvm.total)(x) == wide.sum()
    return "right"


@case("arguments", "takes and returns bfloat16")
def bfloat16(f: SimpleNamespace, way: Way, library: str) -> str:
    x = bf16(library)
    if x is None:
        raise Missing
    result = way(f.tvm.negative)(x)
    told = dlshim.from_dlpack(result)
    assert told.dtype == "bfloat16"
    bits = np.asarray(dlshim.from_dlpack(result, reinterpret="uint16")).astype("u4") << 16
    assert np.array_equal(bits.view("f4"), -VALUES)
    return "its own" if isinstance(result, type(x)) else f"{type(result).__module__}'s"


@case("arguments", "takes arrays of no axes and of no elements")
def odd_shapes(f: SimpleNamespace, way: Way, library: str) -> str:
    if library == "pyarrow":  # it has no such tensors
        raise Missing
    for shape in ((), (0, 3))[library == "Warp" :]:  # which has an axis in every array
        x = make(library, np.ones(shape, "f4"))
        result = way(f.tvm.twice)(x)
        told = _kind(result, library, np.full(shape, 2.0))
    return told


@case("arguments", "takes bool, int32, float16 and complex64")
def dtypes(f: SimpleNamespace, way: Way, library: str) -> str:
    told = set()
    for dtype in ("bool", "int32", "float16", "complex64"):
        x = of_dtype(library, dtype)
        if x is not None:
            result = way(f.echo)(x)
            assert dlshim.from_dlpack(result).dtype == dtype, (result, dtype)
            told.add("its own" if isinstance(result, type(x)) else _whose(result))
    return ", ".join(sorted(told))


@case("arguments", "takes a list of arrays, and returns one")
def in_a_list(f: SimpleNamespace, way: Way, library: str) -> str:
    given = [make(library), make("NumPy")]
    results = way(f.tvm.twice_each)(given)
    assert len(given) == len(results) == 2
    return _kind(results[1], library, 2 * VALUES)


# ---- outputs -------------------------------------------------------------------------------------


@case("outputs", "returns new memory")
def allocates(f: SimpleNamespace, way: Way, library: str) -> str:
    return _kind(way(f.tvm.twice)(make(library)), library, 2 * VALUES)


@case("outputs", "returns several arrays")
def several(f: SimpleNamespace, way: Way, library: str) -> str:
    twice, half = way(f.tvm.twice_and_half)(make(library))
    assert np.array_equal(values(half), VALUES / 2)
    return _kind(twice, library, 2 * VALUES)


@case("outputs", "the first of two libraries is this one, the kernel returns the second argument")
def mixed(f: SimpleNamespace, way: Way, library: str) -> str:
    other = Own(VALUES) if library == "NumPy" else VALUES.copy()
    return _kind(way(f.second)(make(library), other), library, VALUES)


@case("outputs", "a function in Python returns its results in a dict, a tuple and a list")
def nested_results(f: SimpleNamespace, way: Way, library: str) -> str:
    result = way(lambda x: {"a": (f.tvm.twice(x), [f.tvm.twice(x)]), "b": 1})(make(library))
    assert result["b"] == 1 and type(result["a"]) is tuple
    assert np.array_equal(values(result["a"][1][0]), 2 * VALUES)
    return _kind(result["a"][0], library, 2 * VALUES)


@case("outputs", "returns its argument, which is then written")
def same_memory(f: SimpleNamespace, way: Way, library: str) -> str:
    if library == "JAX":  # nothing may write into its arrays
        raise Missing
    x = make(library)
    told = _kind(result := way(f.echo)(x), library, VALUES)
    way(f.tvm.add_one)(x)
    return told if np.array_equal(values(result), VALUES + 1) else f"{told}, a copy"


@case("outputs", "memory of a result outlives all")
def outlives(f: SimpleNamespace, way: Way, library: str) -> str:
    result = way(f.echo)(make(library, np.full((300, 300), 7.0, "f4")))
    gc.collect()
    kept = [np.full((300, 300), 8.0, "f4") for _ in range(5)]
    assert len(kept) == 5
    return _kind(result, library, np.full((300, 300), 7.0))


# ---- exceptions ----------------------------------------------------------------------------------


@case("exceptions", "raises an error")
def error(f: SimpleNamespace, way: Way, library: str) -> str:
    way(f.tvm.fail)(make(library))
    return "nothing"


@case("exceptions", "a callback raises, after the kernel has made memory")
def callback_raises(f: SimpleNamespace, way: Way, library: str) -> str:
    def called(x: Any) -> Any:
        raise KeyError("from the callback")

    x = make(library)
    try:
        way(f.tvm.apply)(called, x)
    except KeyError:
        return _kind(way(f.tvm.twice)(x), library, 2 * VALUES)
    return "nothing"


@case("exceptions", "one of its arguments cannot be exported; the next call")
def refused(f: SimpleNamespace, way: Way, library: str) -> str:
    bad = unexportable(library)
    if bad is None:
        raise Missing
    call = way(f.tvm.add)
    out = make(library, np.zeros((2, 3), "f4"))
    for given in ((make(library), bad, out), (bad, make(library), out)):
        try:
            call(*given)
        except Exception:
            continue
        return "nothing is raised"
    call(make(library), make(library), out)
    return "written" if np.array_equal(values(out), 2 * VALUES) else "lost"


# ---- nesting -------------------------------------------------------------------------------------


@case("nesting", "calls back with new memory, and returns what it gets")
def callback(f: SimpleNamespace, way: Way, library: str) -> str:
    def called(x: Any) -> Any:
        seen.append(values(x).copy())
        return x

    seen: list[np.ndarray] = []
    result = way(f.tvm.apply)(called, make(library))
    assert np.array_equal(seen[0], 3 * VALUES)
    return _kind(result, library, 3 * VALUES)


@case("nesting", "another kernel runs in the callback, with another library")
def nested(f: SimpleNamespace, way: Way, library: str) -> str:
    other = "NumPy" if library != "NumPy" else "a user's class"

    def called(x: Any) -> Any:
        inner.append(_kind(way(f.tvm.twice)(make(other)), other, 2 * VALUES))
        return x

    inner: list[str] = []
    outer = _kind(way(f.tvm.apply)(called, make(library)), library, 3 * VALUES)
    return outer if inner == ["its own"] else f"{outer}; inside: {inner[0]}"


@case("nesting", "a kernel calls itself by a callback, three times")
def recursive(f: SimpleNamespace, way: Way, library: str) -> str:
    def called(x: Any) -> Any:
        depth.append(1)
        return x if len(depth) > 3 else way(f.tvm.apply)(called, x)

    depth: list[int] = []
    return _kind(way(f.tvm.apply)(called, make(library)), library, 81 * VALUES)


@case("nesting", "the inner kernel fails, and the outer goes on")
def inner_fails(f: SimpleNamespace, way: Way, library: str) -> str:
    other = "NumPy" if library != "NumPy" else "a user's class"

    def called(x: Any) -> Any:
        try:
            way(f.tvm.fail)(make(other))
        except ValueError:
            return x

    return _kind(way(f.tvm.apply)(called, make(library)), library, 3 * VALUES)


# ---- threads -------------------------------------------------------------------------------------


@case("threads", "returns arrays that another thread reads, when the argument has gone")
def later(f: SimpleNamespace, way: Way, library: str) -> str:
    results = way(f.tvm.twice_and_half)(make(library))
    outcome: list[str] = []
    thread = threading.Thread(target=lambda: outcome.append(_kind(results[0], library, 2 * VALUES)))
    thread.start()
    thread.join()
    return outcome[0]


@case("threads", "runs in four threads, with two libraries")
def threads(f: SimpleNamespace, way: Way, library: str) -> str:
    other = "NumPy" if library != "NumPy" else "a user's class"
    outcomes: set[str] = set()

    def run(name: str) -> None:
        call = way(f.tvm.twice)
        for _ in range(50):
            outcomes.add(_kind(call(make(name)), name, 2 * VALUES))

    in_threads(*[functools.partial(run, name) for name in (library, other) * 2])
    return ", ".join(sorted(outcomes))


@case("threads", "fails in two threads, and runs in two others")
def threads_with_errors(f: SimpleNamespace, way: Way, library: str) -> str:
    def fails() -> None:
        for _ in range(50):
            try:
                way(f.tvm.fail)(make(library))
            except ValueError:
                continue
            raise AssertionError

    def runs() -> None:
        call = way(f.tvm.twice)
        for _ in range(50):
            outcomes.add(_kind(call(make(library)), library, 2 * VALUES))

    outcomes: set[str] = set()
    in_threads(fails, runs, fails, runs)
    return ", ".join(sorted(outcomes))


# ---- functions of nanobind, pybind11 and C -------------------------------------------------------


def _needs(found: Any) -> Any:
    if found is None:
        raise Missing
    return found


@case("other functions", "nanobind: reads")
def nanobind_reads(f: SimpleNamespace, way: Way, library: str) -> str:
    assert way(_needs(f.nanobind).total)(make(library)) == VALUES.sum()
    return "right"


@case("other functions", "nanobind: writes")
def nanobind_writes(f: SimpleNamespace, way: Way, library: str) -> str:
    x = make(library)
    way(_needs(f.nanobind).add_one)(x)
    return "written" if np.array_equal(values(x), VALUES + 1) else "lost"


@case("other functions", "nanobind: returns a NumPy array")
def nanobind_returns(f: SimpleNamespace, way: Way, library: str) -> str:
    return _kind(way(_needs(f.nanobind).twice)(make(library)), library, 2 * VALUES)


@case("other functions", "pybind11: reads a capsule")
def pybind11_reads(f: SimpleNamespace, way: Way, library: str) -> str:
    call = way(_needs(f.pybind11).total, takes="capsule", readonly="share")
    assert call(make(library)) == VALUES.sum()
    return "right"


@case("other functions", "ctypes: reads a pointer")
def ctypes_reads(f: SimpleNamespace, way: Way, library: str) -> str:
    assert way(f.ctypes.total, takes="tensor", order="C")(make(library)) == VALUES.sum()
    return "right"


# ---- the table ---------------------------------------------------------------------------------


def outcome(f: SimpleNamespace, text: str, way: str, library: str) -> str:
    """A word or two, or the class of the error."""
    try:
        return CASES[text](f, WAYS[way], library)
    except Missing:
        return "-"
    except AssertionError:
        raise
    except Exception as error:
        return type(error).__name__


def rows(f: SimpleNamespace, libraries: list[str]) -> Iterator[list[str]]:
    for text in CASES:
        for way in WAYS:
            found = [outcome(f, text, way, library) for library in libraries]
            yield [AXES[text], text, way, *found]


def recorded() -> tuple[list[str], dict[tuple[str, str], dict[str, str]]]:
    """The libraries of the table in the manual, and its outcomes by case and way."""
    with TABLE.open(newline="") as file:
        head, *body = csv.reader(file)
    return head[3:], {(row[1], row[2]): dict(zip(head[3:], row[3:], strict=True)) for row in body}


def main(path: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        f = functions(Path(folder))
        with open(path, "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["", "the function", "called", *here()])
            writer.writerows(rows(f, here()))


if __name__ == "__main__":
    main(sys.argv[1])
