"""Measures which lines and branches of the C code the tests reach, by gcov.

    python tools/coverage.py [--python VERSION=PATH ...] [--results FILE] [--missing]

builds the extension with `gcc --coverage -O0` and without asserts: the failing branch of an assert
is no branch of the product.  Everything in src/ is counted.  The package goes into environments
made for this run, one for each interpreter of RUNS, so that the running interpreter and what is
installed there are left alone.  Children of the tests, forked ones too, add their counts to the
same files.  The run fails below LIMITS; --missing prints what is not reached.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import gcov
import variant

ROOT = variant.ROOT
LIMITS = {"lines": 97.0, "branches": 92.0}
#: Inlining would join functions; threads must not lose counts.
FLAGS = ["--coverage", "-O0", "-g0", "-fprofile-update=atomic"]
#: The last is for CUSTOMIZE.
LINK_FLAGS = ["--coverage", "-Wl,-u,__gcov_dump"]
CORE = "tests/core"
#: What runs on which interpreter: everything on one, and on others what differs there.
RUNS = {
    "3.11": [CORE, "tests/device", "tests/transcript"],
    "3.10": ["--hand-on=on", *(f"{CORE}/test_{name}.py" for name in ("fast_path", "options"))],
    "3.13": [
        "--hand-on=on",
        *(f"{CORE}/test_{name}.py" for name in ("lifetime", "threads", "fallbacks")),
    ],
}
NEEDS = ["pytest>=9", "hypothesis", "rich", "numpy", "ml_dtypes", "apache-tvm-ffi"]
#: A process that leaves by os._exit writes no counts unless it is told to.
CUSTOMIZE = """
import ctypes, os, sys

def leave(status, leave=os._exit):
    if "dlshim._core" in sys.modules:
        ctypes.CDLL(sys.modules["dlshim._core"].__file__).__gcov_dump()
    leave(status)

os._exit = leave
"""


def run_tests(folder: Path, pythons: dict[str, str], site: Path) -> None:
    for version, tests in RUNS.items():
        given = pythons.get(version, f"python{version}")
        python = variant.environment(folder / version, given, NEEDS)
        variant.put_into(folder / version, site)
        print(f"Python {version}: {' '.join(tests)}", flush=True)
        command = [python, "-m", "pytest", "-q", "-r", "fE", "-p", "no:cacheprovider", *tests]
        if status := subprocess.run(command, cwd=ROOT).returncode:
            sys.exit(f"pytest ended with {status}: what was counted would prove nothing")


def measure(pythons: dict[str, str]) -> gcov.Coverage:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        site = variant.build(folder, FLAGS, LINK_FLAGS, asserts=False)
        (site / "sitecustomize.py").write_text(CUSTOMIZE)
        run_tests(folder, pythons, site)
        coverage = gcov.read(folder / "tree")
        coverage.tree = ROOT
        return coverage


def percent(coverage: gcov.Coverage, what: str) -> float:
    run, there = coverage.total(what)
    return 100 * run / there


def write_results(coverage: gcov.Coverage, file: Path) -> None:
    version = subprocess.run(["gcov", "--version"], capture_output=True, text=True, check=True)
    results = {
        "command": "python tools/coverage.py",
        "gcov": version.stdout.splitlines()[0],
        "runs": {version: " ".join(tests) for version, tests in RUNS.items()},
        **{what: [*coverage.total(what), round(percent(coverage, what), 2)] for what in LIMITS},
        "files": coverage.by_file(),
    }
    text = json.dumps(results, indent=1)
    text = re.sub(r"\[\s+([\d.,\s]+?)\s+\]", lambda m: f"[{' '.join(m[1].split())}]", text)
    text = re.sub(r"\{\s+(\"lines\": [^}]*?)\s+\}", lambda m: f"{{{' '.join(m[1].split())}}}", text)
    file.write_text(f"{text}\n")


def judge(coverage: gcov.Coverage) -> int:
    failed = 0
    for what, limit in LIMITS.items():
        run, there = coverage.total(what)
        reached = percent(coverage, what)
        print(f"{what}: {run} of {there}, {reached:.2f} % (at least {limit:g} %)")
        if reached < limit:
            print(f"too few {what} are reached", file=sys.stderr)
            failed = 1
    return failed


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", action="append", default=[], metavar="VERSION=PATH")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--missing", action="store_true", help="print what is not reached")
    options = parser.parse_args()
    coverage = measure(dict(each.split("=", 1) for each in options.python))
    if options.results:
        write_results(coverage, options.results)
    if options.missing:
        print("\n".join(coverage.not_reached()))
    return judge(coverage)


if __name__ == "__main__":
    sys.exit(main())
