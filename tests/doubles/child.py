"""Run Python in a process of its own: a file of ``tests/programs``, or a few lines of code."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

TESTS = str(Path(__file__).resolve().parent.parent)
#: Seconds after which a process is said to hang.  It ends a hang and judges no speed, so it is far
#: beyond what a busy machine takes; pytest ends a run after 600 (``faulthandler_timeout``).
HANGS = 500


# For tests whose child must die of a signal, or must not see the path of the build.
not_sanitized = pytest.mark.skipif(
    bool(os.environ.get("DLSHIM_SANITIZED")),
    reason="under a sanitizer an expected crash is a report, and isolated children lack its build",
)


def program(name: str, *arguments: object, **how: Any) -> str:
    """Run that Python file of ``tests/programs`` with these arguments, as ``ended`` has it."""
    return ended([f"{TESTS}/programs/{name}.py", *map(str, arguments)], **how)


def run(code: str, **how: Any) -> str:
    """Run `code`, as ``ended`` has it."""
    return ended(["-c", textwrap.dedent(code)], **how)


def ended(
    command: list[str],
    *,
    returncode: int = 0,
    options: tuple[str, ...] = (),
    paths: tuple[str, ...] = (TESTS,),
    timeout: float = HANGS,
    silent: bool = False,
) -> str:
    """Run Python with this command, insist on how it ends, and return what it printed.

    With `silent` it must write nothing to stderr.
    """
    environment = dict(os.environ)
    # What is tested may itself be on the path (a sanitizer's build): the child needs it too.
    given = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = os.pathsep.join([*paths, given] if given else paths)
    if "ASAN_OPTIONS" in environment:
        # What a child holds when its interpreter ends is leaked on purpose (T10); leaks are
        # looked for in the process that runs the tests.
        environment["ASAN_OPTIONS"] += ":detect_leaks=0"
    try:
        done = subprocess.run(
            [sys.executable, *options, *command],
            capture_output=True,
            text=True,
            timeout=timeout,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise AssertionError(f"hangs: no end after {timeout} seconds") from None
    told = f"\n--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}"
    assert done.returncode == returncode, f"ended with {done.returncode}{told}"
    assert "Fatal Python error" not in done.stderr, told
    assert not silent or not done.stderr, told
    return done.stdout
