"""Measures which lines and branches of the C code the tests reach, by gcov.

    python tools/coverage.py [--python VERSION=PATH ...] [--results FILE] [--rewrite-list]

builds the extension with `gcc --coverage -O0` and without asserts: the failing branch of an assert
is no branch of the product, nor is a function that only asserts call.  Everything else in src/ is
counted.  The package goes into environments made for this run, one for each interpreter of RUNS,
so that the running interpreter and what is installed there are left alone.  Children of the tests,
forked ones too, add their counts to the same files.  The run fails below the limits, and where the
list of what is not reached (tools/uncovered.toml) differs from the measurement in either direction;
--rewrite-list brings the list up to date and leaves empty the reasons that a person has to write.
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
        coverage = gcov.read(folder / "tree", gcov.read_asserts())
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
        "left out, as only asserts call them": sorted(f"{f}: {n}" for f, n in gcov.read_asserts()),
        "branches listed with a reason": sum(coverage.uncovered().values()),
        "files": coverage.by_file(),
    }
    text = json.dumps(results, indent=1)
    text = re.sub(r"\[\s+([\d.,\s]+?)\s+\]", lambda m: f"[{' '.join(m[1].split())}]", text)
    text = re.sub(r"\{\s+(\"lines\": [^}]*?)\s+\}", lambda m: f"{{{' '.join(m[1].split())}}}", text)
    file.write_text(f"{text}\n")


def judge(coverage: gcov.Coverage) -> int:
    wrong = list(gcov.differences(coverage.uncovered(), gcov.read_list()))
    for what, limit in LIMITS.items():
        run, there = coverage.total(what)
        print(f"{what}: {run} of {there}, {percent(coverage, what):.2f} % (at least {limit:g} %)")
        if percent(coverage, what) < limit:
            wrong.append(f"too few {what} are reached")
    print(
        f"{len(gcov.read_list())} places are listed as not reached, {len(wrong)} things are wrong"
    )
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", action="append", default=[], metavar="VERSION=PATH")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--rewrite-list", action="store_true")
    options = parser.parse_args()
    coverage = measure(dict(each.split("=", 1) for each in options.python))
    if options.results:
        write_results(coverage, options.results)
    if options.rewrite_list:
        gcov.rewrite_list(coverage.uncovered())
    return judge(coverage)


if __name__ == "__main__":
    sys.exit(main())
