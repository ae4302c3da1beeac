"""The suite for a real GPU on the fake driver in its asynchronous mode: operations wait for gates
and for each other, with the libraries of this environment as producers and consumers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cuda_libraries.real import VARIANTS

from drivers import built

GPU = Path(__file__).resolve().parent.parent / "gpu"
#: Why a test may be skipped there: the library has no CPU package that is small, or the driver is
#: older than what is tested.
ABSENT = r"could not import '(torch|cupy|jax)'|warp-lang is not installed"
OLD = r"before CUDA 12\.5|takes CUDA 12\.5|no pools, or no event of a whole context"
ORDER = {"12.2": 70, "13.0": 110}  # so many tests hand over behind a gate, at least


def run(variant: str, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(GPU), f"--gpu-driver={built(variant)}", *more]
    return subprocess.run(
        [*command, f"--gpu-results={folder}", "-v"],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_suite_for_a_gpu_runs(variant: str, tmp_path: Path) -> None:
    done = run(variant, tmp_path)
    assert done.returncode == 0, done.stdout[-4000:]
    last = done.stdout.splitlines()[-1]
    assert "passed" in last and "failed" not in last and "error" not in last, last
    allowed = ABSENT if variant == "13.0" else f"{ABSENT}|{OLD}"
    skips = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert not [line for line in skips if not re.search(allowed, line)], skips
    gated = re.findall(r"test_s_waits_for_p\S+ PASSED|test_arrays_of\S+ PASSED", done.stdout)
    assert len(gated) >= ORDER[variant], len(gated)
    (file,) = tmp_path.glob("dlshim-gpu-*.md")
    assert str(file) in done.stdout
    text = file.read_text()
    for told in ("* card: Fake 0", "* driver: API ", "* dlshim ", "CPython", "* numba-cuda "):
        assert told in text, text
    assert re.search(r"stale reads of 1000, stream=-1: 1000", text), "a control that shows nothing"
    assert re.search(r"stale reads of 1000, stream=S: 0", text)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_tests_of_other_libraries_run_on_stand_ins(
    variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch, CuPy, JAX and Warp need CUDA's runtime: what is executed here is the tests."""
    paths = [str(GPU.parent / "cuda_libraries" / "stand_ins"), str(GPU.parent)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    done = run(variant, tmp_path, "-k", "torch or cupy or jax or warp")
    assert done.returncode == 0, done.stdout[-4000:]
    skips = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert not skips, skips
    assert len(re.findall(" PASSED", done.stdout)) == 24


def test_a_card_without_gates_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is under WDDM and on some virtual GPUs: a run that proves nothing is not green."""
    plugin = tmp_path / "without_gates.py"
    plugin.write_text(
        "from gpu.device import Device\n"
        "before = Device.__init__\n"
        "def start(self, library):\n"
        "    before(self, library)\n"
        "    self.lib.fake_asynchronous(0)\n"
        "Device.__init__ = start\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(GPU.parent)]))
    done = run("13.0", tmp_path, "-p", "without_gates", "-k", "s_waits_for_p")
    assert done.returncode == 1, done.stdout[-3000:]
    assert "nothing is proved of order" in done.stdout
    (file,) = tmp_path.glob("dlshim-gpu-*.md")
    assert "nothing is proved of order" in file.read_text()
