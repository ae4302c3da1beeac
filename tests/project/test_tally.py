"""The sum of a CI run: what failed, or did not run, is counted as failed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from project.tree import ROOT

sys.path.insert(0, str(ROOT / "tools"))
try:
    import tally
finally:
    sys.path.remove(str(ROOT / "tools"))

RESULTS = "<testsuites><testsuite tests='9' failures='{}' errors='0' skipped='2'/></testsuites>"


def report(folder: Path, name: str, **sessions: str) -> str:
    listed = [{"name": session, "result": result} for session, result in sessions.items()]
    (folder / name).write_text(json.dumps({"sessions": listed}))
    return str(folder / name)


def closing_line(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.splitlines()[-1]


def test_reports_are_added_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "suite.xml").write_text(RESULTS.format(0))
    first = report(tmp_path, "first.json", suite="success")
    second = report(tmp_path, "second.json", lint="success")
    assert tally.main(first, second, str(tmp_path)) == 0
    assert closing_line(capsys) == "8 passed, 0 failed, 2 skipped"
    (tmp_path / "suite.xml").write_text(RESULTS.format(1))
    assert tally.main(first, second, str(tmp_path)) == 1
    assert closing_line(capsys) == "7 passed, 1 failed, 2 skipped"


def test_a_run_without_a_report_or_a_session_has_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = report(tmp_path, "good.json", lint="success")
    for other in (str(tmp_path / "missing.json"), report(tmp_path, "empty.json")):
        assert tally.main(good, other, str(tmp_path)) == 1
        assert closing_line(capsys) == "1 passed, 1 failed, 0 skipped"
    bad = report(tmp_path, "bad.json", lint="failed")
    assert tally.main(good, bad, str(tmp_path)) == 1


def test_what_failed_is_named_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = "<testcase classname='tests.core.test_a' name='test_b'>{}</testcase>"
    problem = "<failure message='short'>" + "\n".join(f"line {n}" for n in range(30)) + "</failure>"
    cases = case.format("") + case.format(problem)
    (tmp_path / "suite.xml").write_text(
        f"<testsuites><testsuite tests='2' failures='1'>{cases}</testsuite></testsuites>"
    )
    assert tally.main(report(tmp_path, "suite.json", suite="failed"), str(tmp_path)) == 1
    table, name, *lines, sums = capsys.readouterr().out.splitlines()
    assert table.split() == ["suite", "1", "1", "0"]
    assert name == "suite: tests.core.test_a.test_b"
    assert lines == [f"    line {n}" for n in range(15, 30)]
    assert sums == "1 passed, 1 failed, 0 skipped"
