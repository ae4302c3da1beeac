"""What docs/results/threads.json says of threads without the GIL, and how it is made."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from project.tree import ROOT

sys.path.insert(0, str(ROOT / "tools"))
try:
    import thread_results
finally:
    sys.path.remove(str(ROOT / "tools"))

SEEN: dict[str, Any] = json.loads(thread_results.FILE.read_text())
PROGRAMS = thread_results.programs()


def report(*programs: str, **more: Any) -> dict[str, Any]:
    told = {name: {"rounds": 7, "left": 0} for name in programs}
    return {"date": "2026-11-24", "gil": "off", "sanitizer": None, "programs": told, **more}


@pytest.mark.parametrize("what", ["stress", "tsan"])
def test_each_program_ran_without_the_gil_and_left_nothing(what: str) -> None:
    assert SEEN[what]["gil"] == "off"
    assert [*SEEN[what]["programs"]] == PROGRAMS
    for name, part in SEEN[what]["programs"].items():
        assert part["rounds"] > 0 and part["left"] == 0 and "failed" not in part, name


def test_each_program_ran_ten_minutes() -> None:
    assert SEEN["stress"]["seconds"] == 600


def test_two_threads_make_nearly_twice_as_many_exchanges() -> None:
    scaling = SEEN["scaling"]
    assert scaling["gil"] == "off" and scaling["threads"] == 2
    assert scaling["times by the clock"] >= 1.8


def test_reports_of_one_kind_are_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_results, "FILE", tmp_path / "threads.json")
    thread_results.FILE.write_text(json.dumps({"scaling": {"threads": 2}}))
    first, second = report(*PROGRAMS[3:]), report(*PROGRAMS[:3], date="2026-11-25")
    sanitized = report(*PROGRAMS, sanitizer="thread")
    files = []
    for number, each in enumerate((first, sanitized, second)):
        files.append(str(tmp_path / f"{number}.json"))
        Path(files[-1]).write_text(json.dumps(each))
    assert thread_results.main(files) == 0
    told = json.loads(thread_results.FILE.read_text())
    assert told["scaling"] == {"threads": 2} and told["tsan"] == sanitized
    assert told["stress"] == report(*PROGRAMS, date="2026-11-25")
    assert [*told["stress"]["programs"]] == PROGRAMS


def test_a_part_of_the_programs_and_unlike_runs_are_refused() -> None:
    with pytest.raises(SystemExit, match=f"no report has {PROGRAMS[0]}"):
        thread_results.join([report(*PROGRAMS[1:])])
    with pytest.raises(SystemExit, match="differ in gil"):
        thread_results.join([report(*PROGRAMS[1:]), report(PROGRAMS[0], gil="on")])
