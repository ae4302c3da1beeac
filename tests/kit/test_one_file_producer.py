"""producer/dlpack_producer.h: a type that exports by it alone passes the kit, without dlshim."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from project.tree import ROOT, absent, compiler, read_toml, tool

PRODUCER = ROOT / "producer"
PROGRAMS = ROOT / "tests" / "programs"
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


def run(
    folder: Path, *arguments: str, timeout: int | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), str(ROOT / "kit")])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path} | env,
        capture_output=True,
        text=True,
        timeout=timeout,
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


def test_exports_live_as_long_as_their_consumers(folder: Path) -> None:
    done = run(folder, str(PROGRAMS / "exports_of_the_one_file_producer.py"))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


IN_A_SUBINTERPRETER = """
import example
export = example.zeros(3).__dlpack__()
del export
print("done", flush=True)
"""
SUBINTERPRETER = f"""
try:
    import _xxsubinterpreters as interpreters
    name = interpreters.create(isolated=False)
except ImportError:
    import _interpreters as interpreters
    name = interpreters.create("legacy")
interpreters.run_string(name, {IN_A_SUBINTERPRETER!r})
"""


@pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="a build without a GIL loads no module of the example's kind in a subinterpreter",
)
def test_an_export_that_nobody_takes_ends_in_a_subinterpreter(folder: Path) -> None:
    """Before CPython 3.12 a capsule's destructor that asked for the GIL waited for ever."""
    done = run(folder, "-c", SUBINTERPRETER, timeout=60)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_extents_without_elements_do_not_overflow(tmp_path: Path) -> None:
    trap = ["-fsanitize=signed-integer-overflow", "-fsanitize-undefined-trap-on-error"]
    options = [*WARNINGS.split(), *trap, "-shared", "-fPIC", *places()]
    source = PROGRAMS / "extents_that_overflow.c"
    compiled(compiler(), *options, str(source), "-o", str(tmp_path / "far.so"))
    done = run(tmp_path, str(PROGRAMS / "extents_that_overflow.py"))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("standard", ["c++11", "c++17", "c++23"])
def test_it_has_no_cast_that_cpp_warns_of(standard: str, tmp_path: Path) -> None:
    """It had C's own, which -Wold-style-cast names."""
    warnings = ["-Wpedantic", "-Wconversion", "-Wold-style-cast", "-Wuseless-cast", "-Wcast-qual"]
    options = [f"-std={standard}", "-fsyntax-only", *WARNINGS.split(), *warnings, *places()]
    compiled(tool("g++"), *options, str(PROGRAMS / "casts_of_the_producer.cpp"))


def places() -> list[str]:
    return [f"-isystem{sysconfig.get_path('include')}", f"-I{PRODUCER}"]


def compiled(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if "Python.h: No such file" in done.stderr:
        absent("Python.h is not here")
    assert done.returncode == 0, done.stderr


STRICT = ["-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wcast-qual", "-Werror"]


@pytest.mark.parametrize("program", ["usual", "clang"])
@pytest.mark.parametrize(
    ("standard", "more"),
    [
        ("c99", ""),
        ("c99", "-DPy_LIMITED_API=0x03080000"),
        ("c99", "-DPy_LIMITED_API=0x030d0000"),
        ("c11", "-O2 -fanalyzer"),
        ("c++11", ""),
        ("c++20", ""),
    ],
)
def test_the_header_compiles_without_a_warning(
    standard: str, more: str, program: str, tmp_path: Path
) -> None:
    use = tmp_path / ("use.cpp" if "+" in standard else "use.c")
    use.write_text((PROGRAMS / "use_of_the_producer.c").read_text())
    if program == "clang":
        found = shutil.which("clang++" if "+" in standard else "clang") or ""
        if not found:
            pytest.skip("clang is not here")
    else:
        found = tool("c++") if "+" in standard else compiler()
    if "LIMITED" in more and sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip("this build has no limited API")
    if "-fanalyzer" in more and (program == "clang" or "clang" in found):
        pytest.skip("-fanalyzer is gcc's")
    options = [f"-std={standard}", *more.split(), *STRICT, "-c", "-o", str(tmp_path / "use.o")]
    compiled(found, *options, *places(), str(use))
