"""The suite for a real GPU, tried out on the fake driver: what it does without a gate runs, with
the libraries of this environment as producers and consumers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cuda_libraries.real import VARIANTS

from drivers import built

GPU = Path(__file__).resolve().parent.parent / "gpu"


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_suite_for_a_gpu_runs(variant: str) -> None:
    """Gates are skipped, for operations of the fake run at once; each is rehearsed before."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rs", f"--gpu-driver={built(variant)}", str(GPU)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    last = done.stdout.splitlines()[-1]
    assert "passed" in last and "failed" not in last and "error" not in last, last
    for name in ("cuda.core", "tvm_ffi", "numba.cuda"):
        assert f"could not import '{name}'" not in done.stdout
