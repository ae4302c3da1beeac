"""Collects what the suites of suites.toml came to, from what the last sessions left.

    python tests/upstream/report.py docs/results/upstream.csv

What an earlier report says of a suite that has not run since is kept.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS.parent)]

from tests.upstream import suites  # noqa: E402

COLUMNS = ("suite", "files", "session", "tests", "skipped", "bare", "upgraded", "exchanged")


def origin(suite: suites.Suite) -> str:
    kind, _, rest = suite.source.partition(" ")
    package = f"{suite.package} {suite.files_version}"
    where = {"sdist": "the source distribution", "wheel": "the wheel"}.get(kind)
    return f"{where} of {package}" if where else f"Debian's source package, {rest}, {package}"


def figures(suite: suites.Suite) -> list[str] | None:
    """Tests, skipped ones, those that pass bare and upgraded, objects that were upgraded."""
    files = {mode: suites.BUILD / suite.name / f"{mode}.json" for mode in suites.MODES}
    if not all(file.is_file() for file in files.values()):
        return None
    told = {mode: json.loads(file.read_text()) for mode, file in files.items()}
    outcomes = list(told["bare"]["outcomes"].values())
    upgraded = sorted({suites.passed(told[mode]) for mode in ("upgraded", "translated")})
    counts = (len(outcomes), outcomes.count("skipped"), suites.passed(told["bare"]))
    exchanged = told["upgraded"]["counts"]["upgraded"]
    return [*map(str, counts), " to ".join(map(str, upgraded)), str(exchanged)]


def row(suite: suites.Suite, known: dict[str, list[str]]) -> list[str]:
    name = f"{suite.project} {suite.version}"
    told = figures(suite) or known.get(name, [])[3:]
    if not any(told):
        return [suite.project, suite.why_not or "not run yet", *6 * [""]]
    return [name, origin(suite), suite.session, *told]


def main(output: str) -> int:
    target = Path(output)
    lines = target.read_text().splitlines() if target.is_file() else []
    known = {each[0]: each for each in csv.reader(lines)}
    rows = [row(suite, known) for suite in suites.load()]
    with target.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
