"""T10: interpreters that end while exports live, modules that are imported anew, and a program that
starts and ends Python several times."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from project.tree import ROOT, compiler

import dlshim
from doubles import child

pytestmark = pytest.mark.once

# --- subinterpreters of the old kind, which share the GIL ------------------------------


def needs_subinterpreters():
    testcapi = pytest.importorskip("_testcapi", reason="this Python has no _testcapi")
    if not hasattr(testcapi, "run_in_subinterp"):
        pytest.skip("this _testcapi has no run_in_subinterp")


@pytest.mark.parametrize("held", [1, 0], ids=["held", "released"])
def test_T10_exports_outlive_the_subinterpreter_that_made_them(held):
    """Read and given back in the main one, with and without the GIL."""
    needs_subinterpreters()
    assert child.program("subinterpreters", "outward", held).strip() == "end"


@pytest.mark.parametrize(
    ("imports", "held"),
    [
        pytest.param("", 1, id="without-held"),
        pytest.param("", 0, id="without-released"),
        pytest.param("import dlshim", 1, id="with-held"),
        pytest.param("import dlshim", 0, id="with-released"),
    ],
)
def test_T10_a_subinterpreter_gives_back_what_the_main_one_made(imports, held):
    """One that has imported dlshim, or has not."""
    needs_subinterpreters()
    assert child.program("subinterpreters", "inward", held, imports).strip() == "end"


@pytest.mark.parametrize("held", [1, 0], ids=["held", "released"])
@pytest.mark.parametrize("first", ["export", "interpreter"])
def test_T10_exports_of_an_interpreter_with_an_allocator_of_its_own(first, held):
    """Given back in the main one, before that interpreter ends or after."""
    pytest.importorskip("_interpreters", reason="ctypes loads in isolated ones from 3.13 on")
    assert child.program("isolated_interpreters", first, held).strip() == "end"


# --- modules --------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["reload", "anew", "core_alone"])
def test_T10_objects_of_a_module_that_is_imported_anew(how):
    """Objects of the old and of the new one exchange with each other, and both with others."""
    out = child.program("imported_anew", how, options=("-W", "error"), silent=True)
    assert out.strip() == "end"


def test_T10_imports_use_up_no_thread_local_keys():
    """A process has some 1000 of them; the modules share theirs."""
    assert child.program("thread_local_keys").strip() == "end"


# --- dlshim.track() ---------------------------------------------------------------------


def test_tracking_is_of_one_interpreter_and_of_one_import():
    needs_subinterpreters()
    assert child.program("subinterpreters", "tracking", silent=True).strip() == "end"


# --- a program that embeds Python -----------------------------------------------------

SCRIPT = ROOT / "tests" / "programs" / "embedded.py"
ROUNDS = 4


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    """The program, linked with the shared library of this Python."""
    library, folder = (sysconfig.get_config_var(name) for name in ("LDLIBRARY", "LIBDIR"))
    if not sysconfig.get_config_var("Py_ENABLE_SHARED") or not Path(folder, library).exists():
        pytest.skip("no shared library of this Python to embed")
    program = tmp_path_factory.mktemp("programs") / "embedded"
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror"]
    link = [f"-L{folder}", f"-Wl,-rpath,{folder}", f"-l{library[3:].partition('.so')[0]}"]
    source = ROOT / "tests" / "programs" / "embedded.c"
    command = [compiler(), *flags, f"-I{sysconfig.get_path('include')}", str(source), *link]
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    built = subprocess.run(
        [*command, "-o", str(program)], capture_output=True, text=True, env=plain
    )
    if "Python.h" in built.stderr:
        pytest.skip("Python.h is not here")
    assert built.returncode == 0, built.stderr
    return program


def run_embedded(program, when):
    """What it printed, once it has ended without a word."""
    packages = [str(Path(dlshim.__file__).parent.parent)]
    # ASan's own runtime must come first in whatever loads an extension built with it.
    env = {**os.environ, "PYTHONHOME": sys.base_prefix, "PYTHONPATH": os.pathsep.join(packages)}
    if "ASAN_OPTIONS" in env:
        env["ASAN_OPTIONS"] += ":detect_leaks=0"
    command = [str(program), SCRIPT.read_text(), str(ROUNDS), when]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=child.HANGS)
    assert (done.returncode, done.stderr) == (0, ""), (done.stdout, done.stderr)
    return done.stdout.splitlines()


def test_T10_python_ends_and_starts_again(embedded):
    """What was exported is given back after the end; the copies can still be read there."""
    told = run_embedded(embedded, "ended")
    assert told == [f"round {k}, 0 kept" for k in range(1, ROUNDS + 1)]


def test_T10_python_starts_again_while_exports_of_before_live(embedded):
    told = run_embedded(embedded, "never")
    assert told == [f"round {k}, {5 * k} kept" for k in range(1, ROUNDS + 1)]


def test_T10_exports_of_before_are_given_back_once_python_runs_again(embedded):
    told = run_embedded(embedded, "again")
    assert told == [f"round {k}, 5 kept" for k in range(1, ROUNDS + 1)]
