"""The programs of tests/stress, each for a moment: threads that share what dlshim shares."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PROGRAMS = (
    *("upgrade", "exchange", "from_dlpack", "attributes", "release", "eviction"),
    *("inspect", "to_capsule", "capsules", "table", "copies", "caches"),
    *("classes", "tracking", "forks"),
)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "stress", *arguments]
    return subprocess.run(line, capture_output=True, text=True, timeout=600, cwd=TESTS)


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
