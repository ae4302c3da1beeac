"""The rows of libraries that the matrix does not exchange, or not in full, beside what they do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dlshim import libraries
from interop import runner

KEYS = ("av", "awkward", "ctypes_dlpack", "cutlass", "drjit", "jax", "numba.cuda", "numpy")
KEYS += ("opencv", "pyarrow")


@pytest.mark.parametrize("key", KEYS)
def test_the_rows_say_what_happens(key: str, tmp_path: Path) -> None:
    if libraries.version_of("av") is None:
        pytest.skip("the environment py312 has these; the matrix holds the rows of the others")
    if libraries.version_of(key) is None:
        pytest.skip(f"{key} is not in this environment")
    file = tmp_path / "rows.json"
    line = [sys.executable, "-m", "interop.rows", key, str(file)]
    done = subprocess.run(line, cwd=runner.TESTS, capture_output=True, text=True, timeout=300)
    assert file.exists(), done.stderr
    told = json.loads(file.read_text())
    assert [(row["row"], each) for row in told for each in row["findings"]] == []
    assert any(not row["untried"] for row in told)
