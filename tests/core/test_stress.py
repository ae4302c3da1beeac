"""The programs of tests/stress, each for a moment: threads that share what dlshim shares."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[1] / "stress" / "__main__.py"
PROGRAMS = (
    *("upgrade", "exchange", "from_dlpack", "attributes", "release", "eviction"),
    *("inspect", "to_capsule", "capsules", "table", "copies", "caches"),
    *("classes", "tracking", "forks"),
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
def test_a_report_says_what_was_run_and_what_came_of_it(tmp_path):
    file = tmp_path / "report.json"
    done = run("--seconds", "0.1", "--threads", "3", "--report", str(file), "upgrade", "caches")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(file.read_text())
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", report["date"])
    assert platform.python_version() in report["interpreter"]
    assert (report["threads"], report["seconds"]) == (3, 0.1)
    gil_off = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    assert report["free_threaded"] is gil_off and report["gil"] == ("off" if gil_off else "on")
    assert list(report["programs"]) == ["upgrade", "caches"]
    for told in report["programs"].values():
        assert told["rounds"] >= 3 and told["left"] == 0 and set(told) == {"rounds", "left"}


@pytest.mark.once
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_holds_for_a_moment(program):
    done = run("--seconds", "0.2", program)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 left" in done.stdout
