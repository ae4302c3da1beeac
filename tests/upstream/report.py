"""Collects what the suites of suites.toml came to, from what the last sessions left.

    python tests/upstream/report.py docs/results/upstream-2026-11-22.json

What an earlier report says of a suite that has not run since is kept.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS.parent)]

from tests.upstream import suites  # noqa: E402


def figures(suite: suites.Suite) -> dict[str, Any] | None:
    files = {mode: suites.BUILD / suite.name / f"{mode}.json" for mode in suites.MODES}
    if not all(file.is_file() for file in files.values()):
        return None
    told = {mode: json.loads(file.read_text()) for mode, file in files.items()}
    outcomes = list(told["bare"]["outcomes"].values())
    return {
        "tests": len(outcomes),
        "skipped": outcomes.count("skipped"),
        "passed": {mode: suites.passed(told[mode]) for mode in suites.MODES},
        "exchanged": told["upgraded"]["counts"]["upgraded"],
        "not upgraded": suites.lost(told),
        "only upgraded": sorted(suites.gained(told)),
    }


def main(output: str) -> int:
    target = Path(output)
    known = json.loads(target.read_text()) if target.is_file() else {}
    report = {}
    for suite in suites.load():
        report[suite.name] = {
            "project": suite.project,
            "package": suite.package,
            "version": suite.version,
            "source": suite.source,
            "files": sorted(suite.targets),
            "files of": suite.files_version,
            "session": suite.session,
            "why not": suite.why_not,
            "fails bare": suite.fails_bare,
            "amended": suite.amended,
            "figures": figures(suite) or known.get(suite.name, {}).get("figures"),
        }
        print(suite.name, (report[suite.name]["figures"] or {}).get("passed", "not run"))
    target.write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
