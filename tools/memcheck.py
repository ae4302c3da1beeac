"""Runs a part of the core suite under valgrind's memcheck.

    python tools/memcheck.py [pytest arguments]

needs valgrind, and pytest, hypothesis and setuptools in the running interpreter, which is left as
it is: the package is built with its asserts into a folder of its own.  CPython allocates by malloc
(PYTHONMALLOC), so that every block is watched.  An error counts when dlshim's extension is in its
stack; what the interpreter does by itself is not ours to judge, and needs no suppressions then.
Leaks are not looked for: what lives when the interpreter ends is left there on purpose (T10), and
tools/sanitize.py finds what is lost before.
Before the suite, three planted faults must be found, else the run proves nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

import variant

CORE = "tests/core"
#: The ways in and out and the life of capsules; no tests that start processes, which valgrind
#: would not follow, or that repeat a thing thousands of times.
TESTS = [
    f"{CORE}/test_{name}.py" for name in ("capsule_life", "odd_answers", "odd_partners", "ways_out")
]
VALGRIND = ["valgrind", "--tool=memcheck", "--xml=yes", "--num-callers=40"]
FLAGS = ["-O1", "-g", "-fno-omit-frame-pointer"]

FAULTS = """
#include <stdlib.h>
int overread(int n) { char *volatile p = malloc(8); int c = p[n]; free(p); return c; }
int freed(int n) { char *volatile p = malloc(8); free(p); return p[n - 8]; }
int unset(int n) { int *volatile p = malloc(32); int c = p[n - 8] ? 1 : 2; free(p); return c; }
"""
CALL = """
import ctypes, sys
getattr(ctypes.CDLL(sys.argv[1]), sys.argv[2])(8)
"""
FOUND = {"overread": "InvalidRead", "freed": "InvalidRead", "unset": "UninitCondition"}


def run(command: list[str], folder: Path, env: dict[str, str]) -> int:
    """Runs it under memcheck, and its children that are not forked without; the exit status."""
    report = f"--xml-file={folder / 'report.%p.xml'}"
    return subprocess.run([*VALGRIND, report, *command], env=env, cwd=variant.ROOT).returncode


def errors(folder: Path, library: Path) -> list[str]:
    """What was reported with the library in its stack; the reports are taken away."""
    found = []
    for report in sorted(folder.glob("report.*.xml")):
        for error in ET.parse(report).iter("error"):
            frames = list(error.iter("frame"))
            kind = error.findtext("kind") or ""
            ours = any(frame.findtext("obj") == str(library) for frame in frames)
            if ours and not kind.startswith("Leak_"):
                found.append("\n  ".join([kind, *map(shown, frames)]))
        report.unlink()
    return found


def shown(frame: ET.Element) -> str:
    place = f"{frame.findtext('file')}:{frame.findtext('line')}"
    return f"{frame.findtext('fn')} ({place if 'None' not in place else frame.findtext('obj')})"


def find_planted_faults(folder: Path, env: dict[str, str]) -> None:
    source, library = folder / "faults.c", folder / "faults.so"
    source.write_text(FAULTS)
    subprocess.run(["gcc", "-g", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    for name, kind in FOUND.items():
        run([sys.executable, "-c", CALL, str(library), name], folder, env)
        if not any(error.startswith(kind) for error in errors(folder, library)):
            sys.exit(f"the planted fault {name!r} was not found: this run would prove nothing")
    print(f"{len(FOUND)} planted faults found", flush=True)


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        env = {**os.environ, "PYTHONMALLOC": "malloc"}
        find_planted_faults(folder, env)
        site = variant.build(folder, FLAGS, [], asserts=True)
        # Tests that need a library are skipped, as under the sanitizers.
        env |= {"PYTHONPATH": str(site), "DLSHIM_SANITIZED": "1"}
        options = ["--hand-on=on", "-q", "-p", "no:cacheprovider"]
        tests = [argument for argument in arguments if not argument.startswith("-")] or TESTS
        options += [argument for argument in arguments if argument.startswith("-")]
        status = run([sys.executable, "-m", "pytest", *options, *tests], folder, env)
        found = errors(folder, variant.library(site))
    for error in found:
        print(error, file=sys.stderr)
    print(f"{len(found)} errors of memcheck, pytest ended with {status}")
    return status or bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
