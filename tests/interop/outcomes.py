"""What the arrays of ``doctor`` come to, beside the record in docs/results/outcomes.csv.

    python -m interop.outcomes      (in tests/) tries them here, and writes their rows anew

A row is what came of an array and a function in two releases, on a day.  Rows of others stay
as they are, so that environments can be recorded one after the other; what differs is reviewed in
the commit.
"""

from __future__ import annotations

import csv
import datetime
import json
import subprocess
import sys
from typing import Any

from project.tree import ROOT

RECORD = ROOT / "docs" / "results" / "outcomes.csv"
COLUMNS = ("from", "into", "object", "function", "bare", "upgraded", "line", "date")
#: By what a row is found.
KEY = COLUMNS[:4]

Rows = dict[tuple[str, ...], dict[str, str]]


def doctor() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "dlshim", "doctor", "--json"], capture_output=True, text=True
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def rows_of(told: dict[str, Any]) -> Rows:
    """The rows of what doctor has tried; a build of torch is no release of its own."""
    versions = {each["name"]: each["version"].partition("+")[0] for each in told["libraries"]}
    today = datetime.date.today().isoformat()
    found = {}
    for pair in told["pairs"]:
        releases = [f"{key} {versions[key]}" for key in (pair["from"], pair["library"])]
        for each in pair["arrays"]:
            values = [each["array"], pair["into"], each["bare"], each["upgraded"], each["line"]]
            row = dict(zip(COLUMNS, [*releases, *values, today], strict=True))
            found[tuple(row[name] for name in KEY)] = row
    return found


def recorded() -> Rows:
    if not RECORD.exists():
        return {}
    with RECORD.open(newline="", encoding="utf-8") as file:
        return {tuple(row[name] for name in KEY): row for row in csv.DictReader(file)}


def differences(now: Rows, then: Rows) -> list[str]:
    """Which outcomes differ from those of the record.

    Of the line only whether there is one: which is best may depend on where memory lies.
    """

    def told(row: dict[str, str]) -> str:
        line = "some line" if row["line"] else "no line"
        return f"bare {row['bare']}, upgraded {row['upgraded']}, {line}"

    return [
        f"{' | '.join(key)}: {told(now[key])}; recorded: {told(then[key])}"
        for key in now.keys() & then.keys()
        if told(now[key]) != told(then[key])
    ]


def asking(told: dict[str, Any]) -> set[str]:
    """Libraries whose function asks objects for DLPack: others hold any object as it is."""
    return {each["name"] for each in told["asked"] if each["asks_for"]}


def red(now: Rows, asks: set[str]) -> list[str]:
    """What is wrong whatever the record says: worse than bare, or harm that dlshim adds.

    asks: only of these a wrong result is dlshim's; pandas.Series makes one element of an object
    that it does not know.
    """
    return [
        f"{' | '.join(key)}: bare {row['bare']}, upgraded {row['upgraded']}"
        for key, row in now.items()
        if (row["bare"] == "works" and not row["line"])
        or (row["bare"] != row["upgraded"] and row["upgraded"] in ("dies", "hangs"))
        or (row["bare"] != row["upgraded"] == "wrong" and key[1].partition(" ")[0] in asks)
    ]


def main() -> None:
    rows = recorded() | rows_of(doctor())
    with RECORD.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[key] for key in sorted(rows))


if __name__ == "__main__":
    main()
