"""What docs/results/threads.json says of the programs of tools/stress.py without the GIL."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from project.tree import ROOT

SEEN: dict[str, Any] = json.loads((ROOT / "docs" / "results" / "threads.json").read_text())


@pytest.mark.parametrize("what", sorted({*SEEN} - {"scaling"}))
def test_each_program_ran_without_the_gil_and_left_nothing(what: str) -> None:
    line = [sys.executable, str(ROOT / "tools" / "stress.py"), "--list"]
    listed = subprocess.run(line, check=True, capture_output=True, text=True).stdout
    programs = {row.split()[0] for row in listed.splitlines()}
    assert SEEN[what]["gil"] == "off"
    assert {*SEEN[what]["programs"]} == programs
    for name, part in SEEN[what]["programs"].items():
        assert part["rounds"] > 0 and part["left"] == 0 and "failed" not in part, name


def test_two_threads_make_nearly_twice_as_many_exchanges() -> None:
    assert SEEN["scaling"]["two threads"] >= 1.8
