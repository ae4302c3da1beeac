"""Runs the core suite on a debug build of CPython, which asserts what it takes for granted and
counts every reference.

    python tools/debug.py [pytest arguments]

needs Debian's python3.11-dbg and python3.11-venv.  The package is built with its asserts, for that
interpreter, into an environment made for this run.  First tests/debug measures that no scenario
leaves references or blocks behind; then comes the core suite.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import variant

PYTHON = "python3.11-dbg"
NEEDS = ["pytest>=9", "hypothesis", "setuptools>=77"]
#: What is not so on a debug build, with the reason.
NOT_HERE = [
    # A destructor leaves an exception behind: _Py_Dealloc asserts that none does.
    "tests/core/test_ctable.py::test_T9_a_destructor_that_leaves_an_error_behind",
    # A debug build looks up the codec by which it encodes the name of any extension module.
    "tests/core/test_imports.py::test_importing_dlshim_alone_loads_next_to_nothing",
]


def main(arguments: list[str]) -> int:
    python = shutil.which(PYTHON)
    if python is None:
        sys.exit(f"{PYTHON} is not here: apt-get install {PYTHON} python3.11-venv")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        inner = variant.environment(folder / "environment", python, NEEDS)
        site = variant.build(folder, ["-O1", "-g"], [], asserts=True, python=inner)
        variant.put_into(folder / "environment", site)
        core = ["tests/core", "--hand-on=on", *(f"--deselect={test}" for test in NOT_HERE)]
        for tests in (["tests/debug", "-rP"], [*core, *arguments]):
            command = [inner, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
            if status := subprocess.run(command, cwd=variant.ROOT).returncode:
                return status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
