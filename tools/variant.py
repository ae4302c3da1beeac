"""Builds the package in another way than the wheel, and runs tests on it that then find more.

    python tools/variant.py sanitize [PYTEST ARGUMENT ...]   under gcc's ASan and UBSan, with leaks
    python tools/variant.py memcheck [PYTEST ARGUMENT ...]   under valgrind's memcheck
    python tools/variant.py debug [PYTEST ARGUMENT ...]      on a debug build of CPython
    python tools/variant.py coverage [--python VERSION=PATH ...] [GCOVR ARGUMENT ...]

The installed package is left alone: each variant goes into a folder of its own.  Files among the
arguments take the place of the usual tests.  All but `coverage` keep dlshim's asserts; `sanitize`
and `memcheck` first find faults that are planted, else they would prove nothing.

Needs pytest, hypothesis and setuptools in the running interpreter; `memcheck` valgrind, `debug`
Debian's python3.11-dbg and python3.11-venv, `coverage` gcovr.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path

import fuzz

ROOT = Path(__file__).resolve().parent.parent
CORE = "tests/core"
#: Inputs by which the fuzzer of the boundary once reached new code, Arrow's structs among them.
BOUNDARY = "tests/fuzzing/test_corpora.py::test_the_boundary_passes_its_corpus"

# ---- building -----------------------------------------------------------------------------------


def copy_tree(folder: Path) -> Path:
    """A copy of the sources, for the compiler to write to."""
    leave_out = shutil.ignore_patterns(
        ".git", ".nox", ".venv", "build", "dist", "*.so", "*.egg-info", "__pycache__"
    )
    shutil.copytree(ROOT, folder, ignore=leave_out)
    return folder


def build(
    folder: Path,
    flags: Sequence[str],
    link_flags: Sequence[str] = (),
    *,
    asserts: bool = True,
    python: str = sys.executable,
) -> Path:
    """Makes folder/tree, a copy of the sources with what the compiler leaves there, and
    folder/site with the package, which is returned.  The interpreter needs setuptools."""
    site = folder / "site"
    env = {**os.environ, "CC": "gcc", "CFLAGS": " ".join(flags), "LDFLAGS": " ".join(link_flags)}
    env.pop("DLSHIM_ASSERT", None)
    if asserts:
        env["DLSHIM_ASSERT"] = "1"
    command = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    if subprocess.run([*command, "--target", site, copy_tree(folder / "tree")], env=env).returncode:
        sys.exit(f"the package does not build with {' '.join(flags)}")
    needs = subprocess.run(["nm", "-D", "-u", str(library(site))], capture_output=True, text=True)
    if ("__assert_fail" in needs.stdout) != asserts:
        sys.exit(f"the package was built {'without' if asserts else 'with'} the asserts")
    return site


def library(site: Path) -> Path:
    """The extension in a folder that build() has made."""
    (found,) = site.glob("dlshim/_core*.so")
    return found


def environment(folder: Path, python: str, packages: Sequence[str]) -> str:
    """Makes an environment with these packages; returns its interpreter."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    inner = str(folder / "bin" / "python")
    command = [inner, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, "--only-binary=:all:", *packages], check=True)
    return inner


def put_into(environment: Path, site: Path) -> None:
    """Lets an environment find what build() has made, in its children with -I too."""
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "variant.pth").write_text(f"{site}\n")


# ---- running ------------------------------------------------------------------------------------


def pytest(arguments: Sequence[str], *usual: str) -> list[str]:
    """The arguments of an interpreter that runs pytest, on the usual files where `arguments` name
    none."""
    named = any((ROOT / word.partition("::")[0]).exists() for word in arguments)
    files = () if named else usual
    return ["-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, *files]


FAULTS = """
#include <limits.h>
#include <stdlib.h>
int overread(int n) { char *volatile p = malloc(8); int c = p[n]; free(p); return c; }
int overflow(int n) { return INT_MAX + n; }
int leak(int n) { char *volatile p = malloc(8); p[0] = (char)n; p = NULL; return 0; }
int freed(int n) { char *volatile p = malloc(8); free(p); return p[n - 8]; }
int unset(int n) { int *volatile p = malloc(32); int c = p[n - 8] ? 1 : 2; free(p); return c; }
"""
CALL = """
import ctypes, sys
getattr(ctypes.CDLL(sys.argv[1]), sys.argv[2])(8)
"""


class Planted:
    """A library with faults, each of which must be found."""

    def __init__(self, folder: Path, flags: Sequence[str]) -> None:
        source, self.library = folder / "faults.c", folder / "faults.so"
        source.write_text(FAULTS)
        command = ["gcc", *flags, "-shared", "-fPIC", "-o", str(self.library), str(source)]
        subprocess.run(command, check=True)

    def call(self, name: str) -> list[str]:
        """The command that meets a fault."""
        return [sys.executable, "-c", CALL, str(self.library), name]

    @staticmethod
    def judge(found: Mapping[str, bool]) -> None:
        if lost := [name for name, good in found.items() if not good]:
            sys.exit(f"planted faults were not found, so this proves nothing: {', '.join(lost)}")
        print(f"{len(found)} planted faults found", flush=True)


# ---- ASan and UBSan -----------------------------------------------------------------------------

SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
#: The exit status of a process that a sanitizer ends; pytest has no such status.
ENDED = 77
#: LeakSanitizer stops all threads at the end, to look for leaks.  Rarely it cannot, and writes
#: this, which says nothing of the program: the suite then runs once more.
NOT_LOOKED = "LeakSanitizer has encountered a fatal error"
SANITIZERS_FIND = {
    "overread": "heap-buffer-overflow",
    "overflow": "signed integer overflow",
    "leak": "detected memory leaks",
}


def runtime(name: str) -> str:
    """The full path of a sanitizer's shared library."""
    out = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True)
    path = out.stdout.strip()
    if out.returncode or not os.path.isabs(path):
        sys.exit(f"gcc has no {name}: install the sanitizer runtimes that belong to it")
    return path


def run_sanitized(
    reports: Path, env: Mapping[str, str], arguments: list[str]
) -> tuple[int, list[str], bool]:
    """Runs the suite; its exit status, what the sanitizers report, and whether they have looked for
    leaks.  They write to files, because pytest holds stderr."""
    reports.mkdir()
    log = f":log_path={reports / 'report'}"
    env = {**env, **{name: env[name] + log for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS")}}
    command = [sys.executable, *pytest(arguments, CORE, BOUNDARY)]
    status = subprocess.run(command, cwd=ROOT, env=env).returncode
    texts = [path.read_text(errors="replace") for path in sorted(reports.iterdir())]
    found = [text for text in texts if "ERROR: " in text or "runtime error: " in text]
    for text in texts if status == ENDED else found:
        print(text, file=sys.stderr)
    print(f"{len(found)} sanitizer reports, pytest ended with {status}", flush=True)
    return status, found, not any(NOT_LOOKED in text for text in texts)


#: Test files that need NumPy, because all results are its arrays.
NUMPY_S = [f"{CORE}/test_{name}.py" for name in ("homes", "importers", "kernel")]


def sanitize_beside(numpy: str, folder: Path, env: Mapping[str, str]) -> int:
    """The tests of homes and kernels beside NumPy.  It loses memory when it is imported, so nobody
    looks for leaks: these tests count what is left themselves."""
    there = str(folder / "numpy")
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--target", there, numpy]
    subprocess.run([sys.executable, *install], check=True)
    options = env["ASAN_OPTIONS"].replace("detect_leaks=1", "detect_leaks=0")
    path = os.pathsep.join([env["PYTHONPATH"], there])
    beside = {**env, "ASAN_OPTIONS": options, "PYTHONPATH": path}
    status, found, _ = run_sanitized(folder / "reports-numpy", beside, NUMPY_S)
    return status or bool(found)


def sanitize(folder: Path, arguments: list[str]) -> int:
    """The fuzzers' corpora, and the core suite; with the argument numpy==VERSION the tests of homes
    and kernels besides.

    There are no suppressions: CPython 3.11, pytest and hypothesis are clean.  Array libraries are
    not, so the tests that need one are skipped in the core suite.
    """
    numpy = [word for word in arguments if word.startswith("numpy==")]
    arguments = [word for word in arguments if word not in numpy]
    flags = [*SANITIZE, "-fno-omit-frame-pointer", "-g", "-O1"]
    env = {
        **os.environ,
        "LD_PRELOAD": f"{runtime('libasan.so')} {runtime('libubsan.so')}",
        "PYTHONMALLOC": "malloc",
        # Absurd sizes are among the tests: they get a MemoryError, not a report.
        "ASAN_OPTIONS": f"detect_leaks=1:allocator_may_return_null=1:exitcode={ENDED}",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "DLSHIM_SANITIZED": "1",
    }
    planted, seen = Planted(folder, flags), {}
    for name, report in SANITIZERS_FIND.items():
        run = subprocess.run(planted.call(name), env=env, capture_output=True, text=True)
        seen[name] = run.returncode != 0 and report in run.stderr
    planted.judge(seen)
    fuzz.replay([*fuzz.CORE])
    site = build(folder, flags, SANITIZE)
    headers = subprocess.run(["objdump", "-p", library(site)], capture_output=True, text=True)
    if "libasan" not in headers.stdout or "libubsan" not in headers.stdout:
        sys.exit("the package was built without the sanitizers")
    env["PYTHONPATH"] = str(site)
    status, found, looked = run_sanitized(folder / "reports", env, arguments)
    if status == ENDED and not found and not looked:
        print("nobody has looked for leaks: once more", flush=True)
        status, found, _ = run_sanitized(folder / "reports-again", env, arguments)
    beside = [sanitize_beside(each, folder, env) for each in numpy]
    return status or bool(found) or any(beside)


# ---- memcheck -----------------------------------------------------------------------------------

#: The ways in and out and the life of capsules; no tests that start processes, which valgrind
#: would not follow, or that repeat a thing thousands of times.
PART = [
    f"{CORE}/test_{name}.py" for name in ("capsule_life", "odd_answers", "odd_partners", "ways_out")
]
MEMCHECK_FINDS = {"overread": "InvalidRead", "freed": "InvalidRead", "unset": "UninitCondition"}


def run_memcheck(command: list[str], folder: Path, env: Mapping[str, str]) -> int:
    """Runs it under memcheck, and its children that are not forked without; the exit status."""
    valgrind = ["valgrind", "--tool=memcheck", "--xml=yes", "--num-callers=40"]
    valgrind.append(f"--xml-file={folder / 'report.%p.xml'}")
    return subprocess.run([*valgrind, *command], env=env, cwd=ROOT).returncode


def errors(folder: Path, library: Path) -> list[str]:
    """What was reported with the library in its stack; the reports are taken away.  What the
    interpreter does by itself is not dlshim's, and needs no suppressions then."""

    def shown(frame: ET.Element) -> str:
        place = f"{frame.findtext('file')}:{frame.findtext('line')}"
        return f"{frame.findtext('fn')} ({place if 'None' not in place else frame.findtext('obj')})"

    found = []
    for report in sorted(folder.glob("report.*.xml")):
        for _, error in ET.iterparse(report):
            if error.tag != "error":
                continue
            frames = list(error.iter("frame"))
            kind = error.findtext("kind") or ""
            ours = any(frame.findtext("obj") == str(library) for frame in frames)
            if ours and not kind.startswith("Leak_"):
                found.append("\n  ".join([kind, *map(shown, frames)]))
            error.clear()  # a report has hundreds of megabytes
        report.unlink()
    return found


def memcheck(folder: Path, arguments: list[str]) -> int:
    """Leaks are not looked for: what lives when the interpreter ends is left there on purpose
    (T10), and `sanitize` finds what is lost before."""
    # Every block is watched.  Tests that need a library are skipped, as under the sanitizers.
    env = {**os.environ, "PYTHONMALLOC": "malloc", "DLSHIM_SANITIZED": "1"}
    planted, found = Planted(folder, ["-g"]), {}
    for name, kind in MEMCHECK_FINDS.items():
        run_memcheck(planted.call(name), folder, env)
        found[name] = any(error.startswith(kind) for error in errors(folder, planted.library))
    planted.judge(found)
    site = build(folder, ["-O1", "-g", "-fno-omit-frame-pointer"])
    env["PYTHONPATH"] = str(site)
    command = [sys.executable, *pytest(["--hand-on=on", *arguments], *PART)]
    status = run_memcheck(command, folder, env)
    wrong = errors(folder, library(site))
    for error in wrong:
        print(error, file=sys.stderr)
    print(f"{len(wrong)} errors of memcheck, pytest ended with {status}")
    return status or bool(wrong)


# ---- a debug build of CPython -------------------------------------------------------------------

DEBUG = "python3.11-dbg"
#: What is not so on a debug build, with the reason.
NOT_HERE = [
    # A destructor leaves an exception behind: _Py_Dealloc asserts that none does.
    "tests/core/test_ctable.py::test_T9_a_destructor_that_leaves_an_error_behind",
    # A debug build looks up the codec by which it encodes the name of any extension module.
    "tests/core/test_imports.py::test_importing_dlshim_alone_loads_next_to_nothing",
]


def debug(folder: Path, arguments: list[str]) -> int:
    """CPython asserts what it takes for granted, and counts every reference: first tests/debug
    measures that no scenario leaves references or blocks behind, then comes the core suite."""
    python = shutil.which(DEBUG)
    if python is None:
        sys.exit(f"{DEBUG} is not here: apt-get install {DEBUG} python3.11-venv")
    needs = ["pytest>=9", "hypothesis", "setuptools>=77"]
    inner = environment(folder / "environment", python, needs)
    put_into(folder / "environment", build(folder, ["-O1", "-g"], python=inner))
    core = ["--hand-on=on", *(f"--deselect={test}" for test in NOT_HERE), *arguments]
    for words in (pytest(["-rP"], "tests/debug"), pytest(core, CORE)):
        if status := subprocess.run([inner, *words], cwd=ROOT).returncode:
            return status
    return 0


# ---- coverage -----------------------------------------------------------------------------------

LIMITS = {"line": 97, "branch": 92}
#: What runs on which interpreter: everything on one, and on others what differs there.
RUNS = {
    "3.11": [CORE, "tests/device", "tests/transcript"],
    "3.10": ["--hand-on=on", *(f"{CORE}/test_{name}.py" for name in ("fast_path", "options"))],
    "3.13": [
        "--hand-on=on",
        *(f"{CORE}/test_{name}.py" for name in ("lifetime", "threads", "fallbacks")),
    ],
}
#: A process that leaves by os._exit writes no counts unless it is told to.
CUSTOMIZE = """
import ctypes, os, sys

def leave(status, leave=os._exit):
    if "dlshim._core" in sys.modules:
        ctypes.CDLL(sys.modules["dlshim._core"].__file__).__gcov_dump()
    leave(status)

os._exit = leave
"""


def coverage(folder: Path, arguments: list[str]) -> int:
    """Lines and branches of src/ that the tests reach.  Children of the tests, forked ones too, add
    their counts to the same files.  There are no asserts: the failing branch of an assert is no
    branch of the product."""
    parser = argparse.ArgumentParser(prog="variant.py coverage")
    parser.add_argument("--python", action="append", default=[], metavar="VERSION=PATH")
    options, words = parser.parse_known_args(arguments)
    pythons = dict(each.split("=", 1) for each in options.python)
    # Inlining would join functions, and count the branches of a forced one (DLS_INLINE) for each
    # caller; threads must not lose counts.  The last link flag is for CUSTOMIZE.
    flags = ["--coverage", "-O0", "-g0", "-fprofile-update=atomic", "-Dalways_inline=unused"]
    site = build(folder, flags, ["--coverage", "-Wl,-u,__gcov_dump"], asserts=False)
    (site / "sitecustomize.py").write_text(CUSTOMIZE)
    needs = ["pytest>=9", "hypothesis", "rich", "numpy", "ml_dtypes", "apache-tvm-ffi"]
    for version, tests in RUNS.items():
        python = environment(folder / version, pythons.get(version, f"python{version}"), needs)
        put_into(folder / version, site)
        print(f"Python {version}: {' '.join(tests)}", flush=True)
        if status := subprocess.run([python, *pytest(tests)], cwd=ROOT).returncode:
            sys.exit(f"pytest ended with {status}: what was counted would prove nothing")
    gcovr = [sys.executable, "-m", "gcovr", "--filter", "src/", "--print-summary"]
    gcovr += [f"--fail-under-{what}={limit}" for what, limit in LIMITS.items()]
    # A list that is included several times (.def) has other functions on the same lines each time.
    gcovr += ["--merge-mode-functions=separate", *words]
    return subprocess.run(gcovr, cwd=folder / "tree").returncode


TASKS = {task.__name__: task for task in (sanitize, memcheck, debug, coverage)}


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] not in TASKS:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as name:
        return int(TASKS[sys.argv[1]](Path(name).resolve(), sys.argv[2:]))


if __name__ == "__main__":
    sys.exit(main())
