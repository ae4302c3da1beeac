"""Collects where each replay passed from the JUnit files that sessions leave.

    python tests/replays/report.py build/results docs/results/replays.csv

tests/interop/environments.toml says which versions a session has; every session checks its pins.
What an earlier report says of sessions without a file here is kept, as far as the table still names
the test.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from xml.etree import ElementTree

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS)]

from replays import table  # noqa: E402

ENDS = ("passed", "failed")


def outcomes(file: Path) -> dict[str, str]:
    """Node id -> passed, skipped or failed."""
    found = {}
    for case in ElementTree.parse(file).getroot().iter("testcase"):
        told = {child.tag for child in case} & {"skipped", "failure", "error"}
        result = "passed" if not told else "skipped" if told == {"skipped"} else "failed"
        found[f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"] = result
    return found


def ended(node: str, found: dict[str, str]) -> str:
    """How a test ended: it failed if anything of it failed; "" where it did not run. It may have
    parameters that the table leaves out."""
    own = {how for name, how in found.items() if name == node or name.startswith(f"{node}[")}
    return next((how for how in ("failed", "passed") if how in own), "")


def known(file: Path) -> dict[str, dict[str, str]]:
    """Test -> how it ended in each session, by the file of an earlier report."""
    lines = file.read_text().splitlines() if file.is_file() else []
    return {
        row["test"]: {name: how for how in ENDS for name in row[how].split()}
        for row in csv.DictReader(lines)
    }


def main(folder: str, output: str) -> int:
    cases = table.load()
    before = known(Path(output))
    seen = {node: before.get(node, {}) for case in cases for node in case.tests}
    for file in sorted(Path(folder).glob("*.xml")):
        found = outcomes(file)
        now = {node: ended(node, found) for node in seen}
        if any(now.values()):  # the rows of an earlier run of this environment go
            for node, how in now.items():
                seen[node].pop(file.stem, None)
                seen[node] |= {file.stem: how} if how else {}
    replays = [case for case in cases if case.test]
    left = [case.id for case in replays if "passed" not in seen[case.test].values()]
    real = sum(case.kind == "real" for case in replays)
    print(f"{len(replays)} replays, {real} of them real; not seen to pass: {left or 'none'}")
    rows = [
        (node, *(" ".join(sorted(s for s in told if told[s] == how)) for how in ENDS))
        for node, told in sorted(seen.items())
        if told
    ]
    with Path(output).open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("test", *ENDS), *rows])
    return 1 if any("failed" in told.values() for told in seen.values()) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
