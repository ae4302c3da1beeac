"""Which libraries a replay needs, and how it runs in a process of its own."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

TESTS = Path(__file__).resolve().parent.parent


def needs(*requirements: str) -> pytest.MarkDecorator:
    """Skip the replay, and say why, unless these distributions are installed in these versions."""
    return pytest.mark.needs(*requirements)


def missing(requirement: str) -> str | None:
    """Why this environment does not have it, or None."""
    wanted = Requirement(requirement)
    try:
        version = metadata.version(wanted.name)
    except metadata.PackageNotFoundError:
        return f"{wanted.name} is not in this environment"
    # A build of torch calls itself 2.13.0+cpu.
    if not wanted.specifier.contains(version.split("+")[0], prereleases=True):
        return f"{requirement} is needed, this is {version}"
    return None


def _child(function: Callable[[], None]) -> subprocess.CompletedProcess[str]:
    module = Path(function.__code__.co_filename).stem
    code = f"from replays import {module}; {module}.{function.__name__}()"
    paths = [str(TESTS), os.environ.get("PYTHONPATH", "")]
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    environment.pop("PYTHONFAULTHANDLER", None)
    environment[_INSIDE] = "1"
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        check=False,
    )


_INSIDE = "DLSHIM_REPLAY_CHILD"


def alone(replay: Callable[[], None]) -> Callable[[], None]:
    """Run a replay in a process of its own: some libraries do not live together in one."""
    if os.environ.get(_INSIDE):
        return replay

    @functools.wraps(replay)
    def run() -> None:
        done = _child(replay)
        assert done.returncode == 0, f"ended with {done.returncode}\n{done.stdout}{done.stderr}"

    return run


def ends_with(function: Callable[[], None]) -> int:
    """Run a function of this folder in a child process: its exit status, negative for a signal.

    The child prints "alive" first, so that one which cannot even import does not count.
    """
    done = _child(function)
    assert "alive" in done.stdout, f"ended with {done.returncode}\n{done.stdout}{done.stderr}"
    return done.returncode


def alive() -> None:
    """Called by a function that :func:`ends_with` runs, when all that it needs is imported."""
    print("alive", flush=True)
