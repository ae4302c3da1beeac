"""The C function of the manual's recipes compiles without a warning, and adds up."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from project import pages
from project.tree import ROOT, absent, compiler

MODULE = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>

%s
static PyMethodDef methods[] = {{"total", total, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef def = {PyModuleDef_HEAD_INIT, "recipe", NULL, -1, methods};
PyMODINIT_FUNC PyInit_recipe(void);
PyMODINIT_FUNC PyInit_recipe(void) { return PyModule_Create(&def); }
"""


@pytest.fixture(scope="module")
def total(tmp_path_factory: pytest.TempPathFactory):
    (text,) = (
        block.text
        for part in pages.parts(ROOT / "docs" / "recipes.rst")
        for block in part.blocks
        if block.kind == "c"
    )
    headers = sysconfig.get_path("include")
    if not Path(headers, "Python.h").is_file():
        absent("the headers of CPython")
    folder = tmp_path_factory.mktemp("recipe")
    source, made = folder / "recipe.c", folder / "recipe.so"
    source.write_text(MODULE % text)
    flags = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    flags += ["-Wno-unused-parameter", "-Wno-missing-field-initializers"]
    subprocess.run([compiler(), *flags, f"-I{headers}", str(source), "-o", str(made)], check=True)
    spec = importlib.util.spec_from_file_location("recipe", made)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.total


def test_it_takes_arrays_and_buffers(total) -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    assert total(numpy.arange(6.0)) == 15.0
    assert total(memoryview(bytes(16)).cast("d")) == 0.0


def test_it_refuses_what_it_cannot_read(total) -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    with pytest.raises(TypeError, match="not format"):
        total(numpy.arange(3, dtype="int32"))
    with pytest.raises(BufferError):
        total(numpy.arange(6.0)[::2])
    with pytest.raises(TypeError):
        total({})


def test_it_keeps_nothing(total) -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    x = numpy.arange(6.0)
    before = sys.getrefcount(x)
    for _ in range(10):
        total(x)
    assert sys.getrefcount(x) == before
