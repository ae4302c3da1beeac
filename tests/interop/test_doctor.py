"""What `python -m dlshim doctor` tries between the libraries of an environment."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "dlshim", "doctor", "--json"], capture_output=True, text=True
    )
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    if not found["pairs"]:
        pytest.skip("no two libraries that doctor knows")
    return found


def test_some_line_passes_at_least_what_works_bare(told: dict[str, Any]) -> None:
    worse = [pair for pair in told["pairs"] if pair["line"] < max(pair["bare"], pair["upgraded"])]
    assert worse == []


def test_the_ordinary_array_of_each_pair_passes(told: dict[str, Any]) -> None:
    fails = [(pair["from"], pair["into"]) for pair in told["pairs"] if not pair["ordinary"]]
    assert fails == [] or not told["works"]


def test_nothing_upgraded_ends_the_process_or_is_wrong(told: dict[str, Any]) -> None:
    """It is refused with a reason, or the function of the library refuses it."""
    bad = [
        (pair["into"], *limit)
        for pair in told["pairs"]
        for limit in pair["limits"]
        if limit[1].startswith("SIG")
    ]
    assert bad == []
