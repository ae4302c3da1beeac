"""What the programs of threads have shown: reports into docs/results/threads.json.

    python tools/thread_results.py build/results/stress*.json build/results/scaling.json

Reports are what tools/stress.py and benchmarks/threads.py write with --report. Those of programs
may be several, each with some of the programs, if they ran in the same way; of a program that two
reports have, the later report counts. The three parts of the file are programs without a sanitizer,
programs under ThreadSanitizer, and how exchanges scale; a part that no report is of stays as it
was. Part of the programs is not taken for all of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "docs" / "results" / "threads.json"
Report = dict[str, Any]


def programs() -> list[str]:
    line = [sys.executable, str(ROOT / "tools" / "stress.py"), "--list"]
    listed = subprocess.run(line, check=True, capture_output=True, text=True).stdout
    return [row.split()[0] for row in listed.splitlines()]


def part_of(report: Report) -> str:
    if "programs" not in report:
        return "scaling"
    return "tsan" if report.get("sanitizer") else "stress"


def join(reports: list[Report]) -> Report:
    """One report of all programs, of the last day."""
    first, *others = ({**report, "date": "", "programs": {}} for report in reports)
    for other in others:
        if unlike := [word for word in first if other.get(word) != first[word]]:
            sys.exit(f"these runs differ in {', '.join(unlike)}")
    told = {name: seen for report in reports for name, seen in report["programs"].items()}
    if missing := [name for name in programs() if name not in told]:
        sys.exit(f"no report has {', '.join(missing)}")
    date = max(report["date"] for report in reports)
    return {**first, "date": date, "programs": {name: told[name] for name in programs()}}


def main(files: list[str]) -> int:
    given: dict[str, list[Report]] = {}
    for file in files:
        report = json.loads(Path(file).read_text())
        given.setdefault(part_of(report), []).append(report)
    known = json.loads(FILE.read_text())
    for part, reports in given.items():
        known[part] = reports[-1] if part == "scaling" else join(reports)
    FILE.write_text(json.dumps(known, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) if sys.argv[1:] else __doc__)
