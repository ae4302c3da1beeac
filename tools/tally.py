"""Adds up nox runs: test cases of the sessions that ran pytest, one for every other session.

    python tools/tally.py REPORT.json ... RESULTS_FOLDER

prints a table, the end of what each failed test case says, and closes with
`N passed, N failed, N skipped`; exits with 1 when anything failed.
A session that failed counts as a failure even if it left no results or none that failed, and so
does a run without sessions or without a report.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

SHOWN_CASES = 20  # of each session
SHOWN_LINES = 15  # the last ones of each case


class Count(NamedTuple):
    passed: int
    failed: int
    skipped: int = 0


def count_cases(results: Path) -> Count:
    total = failed = skipped = 0
    for suite in ElementTree.parse(results).getroot().iter("testsuite"):
        total += int(suite.get("tests", 0))
        failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped += int(suite.get("skipped", 0))
    return Count(total - failed - skipped, failed, skipped)


def failed_cases(results: Path) -> list[str]:
    """Each failed case: its name, and the last lines of its traceback."""
    shown = []
    for case in ElementTree.parse(results).getroot().iter("testcase"):
        for problem in (*case.findall("failure"), *case.findall("error")):
            lines = (problem.text or "").splitlines()[-SHOWN_LINES:]
            name = f"{case.get('classname')}.{case.get('name')}"
            shown.append("\n".join([name, *(f"    {line}" for line in lines)]))
    return shown


def count_session(name: str, succeeded: bool, folder: Path) -> Count:
    results = folder / f"{name}.xml"
    if not results.is_file():
        return Count(1, 0) if succeeded else Count(0, 1)
    count = count_cases(results)
    if succeeded and count.passed == 0:
        return count._replace(failed=count.failed + 1)  # ran, and tested nothing
    if not succeeded and count.failed == 0:
        return count._replace(failed=1)
    return count


def sessions_of(report: Path) -> list[dict[str, str]]:
    sessions = json.loads(report.read_text())["sessions"] if report.is_file() else []
    return sessions or [{"name": report.stem, "result": "nothing ran"}]


def main(*given: str) -> int:
    *reports, folder = map(Path, given)
    sums = Count(0, 0)
    failures = []
    for entry in (entry for report in reports for entry in sessions_of(report)):
        count = count_session(entry["name"], entry["result"] == "success", folder)
        print(f"{entry['name']:<12} {count.passed:6} {count.failed:6} {count.skipped:6}")
        sums = Count(*(a + b for a, b in zip(sums, count, strict=True)))
        if count.failed and (results := folder / f"{entry['name']}.xml").is_file():
            cases = failed_cases(results)[:SHOWN_CASES]
            failures += [f"{entry['name']}: {case}" for case in cases]
    print(*failures, sep="\n", end="\n" if failures else "")
    print(f"{sums.passed} passed, {sums.failed} failed, {sums.skipped} skipped")
    return 1 if sums.failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
