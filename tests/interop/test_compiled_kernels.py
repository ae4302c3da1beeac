"""Compiled functions with the arrays of every library: the table of the manual is what happens."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest

import dlshim
from dlshim import _core

from . import kernel_cases, versions
from .kernel_cases import CASES, VALUES, WAYS, make, values

tvm_ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not in this environment")
if versions.of("apache-tvm-ffi") < (0, 1, 15):
    pytest.skip("this apache-tvm-ffi asks __dlpack__", allow_module_level=True)

HERE = kernel_cases.here()


@pytest.fixture(scope="module")
def f(tmp_path_factory):
    return kernel_cases.functions(tmp_path_factory.mktemp("kernels"))


@pytest.mark.parametrize("library", HERE)
@pytest.mark.parametrize("text", CASES)
def test_the_table(f, text, library):
    """Each cell of the manual's table; "-" here: no such function could be built, or array made."""
    _, table = kernel_cases.recorded()
    for way in WAYS:
        found = kernel_cases.outcome(f, text, way, library)
        if found != "-" or not f.why:
            assert found == table[text, way][library], (way, found)


def test_the_table_is_whole():
    libraries, table = kernel_cases.recorded()
    assert list(table) == [(text, way) for text in CASES for way in WAYS]
    assert libraries == list(kernel_cases.LIBRARIES)


#: JAX's arrays never change: writing into them is refused where it is heeded.  MLX copies what it
#: imports.
DIFFERENT = {
    ("the same, with writes=", "JAX"),
    ("nanobind: writes", "JAX"),
    ("returns its argument, which is then written", "MLX"),
}


def test_every_library_is_served_as_torch_is():
    _, table = kernel_cases.recorded()
    for text in CASES:
        row = table[text, "kernel"]
        served = row["torch"] if row["torch"] != "-" else "written"
        for library, found in row.items():
            expected = found not in (served, "-")
            assert expected == ((text, library) in DIFFERENT), (text, library, found)


def test_upgraded_arguments_are_never_worse_than_torch_s():
    _, table = kernel_cases.recorded()
    for text in CASES:
        row = table[text, "upgrade"]
        for library, found in row.items():
            fails = found.endswith("Error") and not row["torch"].endswith("Error")
            assert fails == (library == "JAX" and text == "nanobind: writes"), (text, library)


def test_no_bare_call_gets_worse():
    """But for memory that is read-only where nanobind or `writes` heed it."""
    bad = ("Error", "lost")
    _, table = kernel_cases.recorded()
    worse = set()
    for text in CASES:
        for library, bare in table[text, "bare"].items():
            for way in ("upgrade", "kernel"):
                if table[text, way][library].endswith(bad) and not bare.endswith(bad):
                    worse.add((text, way, library))
    assert worse == {
        ("the same, with writes=", "kernel", "JAX"),
        ("nanobind: writes", "upgrade", "JAX"),
        ("nanobind: writes", "kernel", "JAX"),
    }


@pytest.mark.parametrize("library", HERE)
def test_ten_thousand_calls_leave_nothing(f, library):
    x = make(library)
    kernels = [dlshim.kernel(f.tvm.twice), dlshim.kernel(f.tvm.twice_and_half)]
    kernels += [dlshim.kernel(f.tvm.total), dlshim.kernel(f.tvm.apply)]
    kernels += [dlshim.kernel(f.ctypes.total, takes="tensor")]

    def run(times):
        for _ in range(times):
            for k in kernels[:3]:
                k(x)
            kernels[3](lambda y: y, x)
            kernels[4](x)

    run(10)
    gc.collect()
    before = sys.getrefcount(x), _core._counters()["live"]
    with dlshim.track():
        run(2000)
        gc.collect()
        assert dlshim.live() == []
    assert (sys.getrefcount(x), _core._counters()["live"]) == before


@pytest.mark.parametrize("library", HERE)
def test_results_outlive_all(f, library):
    results = dlshim.kernel(f.tvm.twice_and_half)(make(library))
    twice = results[0]
    del results
    gc.collect()
    assert (values(twice) == 2 * VALUES).all()


@pytest.mark.parametrize("dtype", ["float64", "int32", "uint8", "float16"])
def test_no_example_reads_elements_of_another_dtype(f, dtype):
    """They are written for float32, which they took for granted, and read behind the array."""
    x, good = np.ones((2, 3), dtype), np.ones((2, 3), "f4")
    calls = {
        "twice": lambda: dlshim.kernel(f.tvm.twice)(x),
        "total": lambda: dlshim.kernel(f.tvm.total)(x),
        "add_one": lambda: dlshim.kernel(f.tvm.add_one)(x),
        "add, in": lambda: dlshim.kernel(f.tvm.add)(good, x, np.ones((2, 3), "f4")),
        "add, out": lambda: dlshim.kernel(f.tvm.add)(good, good, x),
        "negative": lambda: dlshim.kernel(f.tvm.negative)(x),
        "ctypes": lambda: dlshim.kernel(f.ctypes.total, takes="tensor", order="C")(x),
    }
    if f.nanobind is not None:
        calls["nanobind"] = lambda: dlshim.kernel(f.nanobind.total)(x)
    if f.pybind11 is not None:
        calls["pybind11"] = lambda: dlshim.kernel(f.pybind11.total, takes="capsule")(x)
        calls["pybind11, out"] = lambda: dlshim.kernel(f.pybind11.add_one, takes="capsule")(x)
    for name, call in calls.items():
        with pytest.raises(TypeError):
            print(name, call())
    assert (x == 1).all()


def test_an_output_of_another_size_is_not_written(f):
    good = np.ones((2, 3), "f4")
    for wrong in (np.ones(5, "f4"), np.ones((3, 2), "f4").T, np.ones((2, 3), "f4")[:, ::-1]):
        with pytest.raises(ValueError, match="one size"):
            dlshim.kernel(f.tvm.add)(good, good, wrong)
        assert (wrong == 1).all()
