"""Upgraded arrays of old producers through a real MPI (Open MPI, from the PyPI package)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from . import environments

name = os.environ.get("DLSHIM_INTEROP_ENV", "")
required = environments.load()[name].required if name else ()
if not {"mpi4py.MPI", "jax", "warp"} <= set(required):
    pytest.skip(f"environment {name or 'unknown'!r} has no MPI", allow_module_level=True)

SCRIPT = Path(__file__).with_name("mpi_two_ranks.py")
MPIRUN = Path(sys.executable).with_name("mpirun")
SECONDS = 180


def test_two_ranks() -> None:
    command = [str(MPIRUN), "--oversubscribe", "-n", "2"]
    if os.geteuid() == 0:
        command.append("--allow-run-as-root")
    command += [sys.executable, str(SCRIPT)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert run.returncode == 0, run.stdout + run.stderr
    ranks = re.findall(r"^rank (\d): (\d+) exchanges checked, \d+ translated$", run.stdout, re.M)
    assert sorted(rank for rank, _ in ranks) == ["0", "1"], run.stdout + run.stderr
    assert ranks[0][1] == ranks[1][1]
    print(run.stdout)
