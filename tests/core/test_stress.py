"""The programs of tools/stress.py, each for a moment: threads that share what dlshim shares."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "stress.py"
PROGRAMS = (
    *("upgrade", "exchange", "from_dlpack", "attributes", "release", "eviction"),
    *("inspect", "to_capsule", "capsules", "table", "copies", "caches"),
    *("classes", "tracking"),
)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, str(TOOL), *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    return subprocess.run(line, capture_output=True, text=True, timeout=600, env=environment)


@pytest.mark.once
def test_the_programs_are_these():
    listed = run("--list").stdout.splitlines()
    assert tuple(line.split()[0] for line in listed) == PROGRAMS
    assert all(len(line.split()) > 1 for line in listed), "a program does not say what it shares"


@pytest.mark.once
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_holds_for_a_moment(program):
    done = run("--seconds", "0.2", program)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 left" in done.stdout
