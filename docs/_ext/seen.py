"""Where each row about a library was last seen to be true: a release, a date, and how.

The data: ``rows.csv``, which ``nox -s newest`` writes; ``interop*.csv``, of the interop sessions,
for rows of older releases; ``rows-read.csv``, by hand, for what no machine here can run.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from dlshim.consumers import CONSUMERS
from dlshim.habits import LIBRARIES
from dlshim.libraries import BY_KEY, version_tuple
from dlshim.sources import FAULTS, SOURCES

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
NEWEST, RUN = "compared", "the interop suite"


class Seen(NamedTuple):
    """A row, and the newest release that it speaks of and was seen in; "": in none."""

    library: str
    row: str
    kind: str
    span: str
    release: str = ""
    date: str = ""
    how: str = ""


def _table(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((RESULTS / f"{name}.csv").read_text(encoding="utf-8").splitlines()))


class Evidence:
    """The tables, read once."""

    def __init__(self) -> None:
        self.newest = {(row["kind"], row["row"]): row for row in _table("rows")}
        dates = {row["environment"]: row["date"] for row in _table("interop")}
        self.runs = [(row, dates.get(row["environment"], "")) for row in _table("interop-versions")]
        self.read = _table("rows-read")

    def of(self, kind: str, row: Any, name: str) -> tuple[str, str, str]:
        """Of the newest row what was compared; else the newest release that was tried or read."""
        told = self.newest.get((kind, name))
        if told and told["tried"] == "yes" and _within(row, told["release"]):
            return told["release"], told["date"], NEWEST
        key = row.library or getattr(row, "family", "") or name
        names = BY_KEY[key].distributions if key in BY_KEY else ()
        found = [
            (version_tuple(run["version"]), run["version"], date, RUN)
            for run, date in self.runs
            if run["library"] in names and _within(row, run["version"])
        ]
        found += [
            (version_tuple(each["release"]), each["release"], each["date"], each["how"])
            for each in self.read
            if each["row"] == key and _within(row, each["release"])
        ]
        return max(found)[1:] if found else ("", "", "")


def _within(row: Any, release: str) -> bool:
    if not re.match(r"\d+\.", release):  # a commit, of which only one row can speak
        return not row.since or row.since < (1,)
    number = version_tuple(release)
    return bool(row.since <= number and (not row.until or number < row.until))


def _span(row: Any) -> str:
    first, end = (".".join(map(str, each)) for each in (row.since, row.until))
    return " ".join(filter(None, (first and f"from {first}", end and f"before {end}"))) or "all"


def rows() -> Iterator[Seen]:
    """Every row of functions, objects and faults."""
    evidence = Evidence()
    for kind, found in ("function", CONSUMERS), ("objects", SOURCES), ("fault", FAULTS):
        for row in found:
            name = row.what if kind == "fault" else row.name
            library = row.library or getattr(row, "family", "") or name
            yield Seen(library, name, kind, _span(row), *evidence.of(kind, row, name))


def library_rows() -> Iterator[Seen]:
    """The rows LIBRARIES of shim/habits.py, by name."""
    evidence = Evidence()
    by_name = {row.name: row for row in SOURCES}
    for name in dict.fromkeys(row[0] for row in LIBRARIES):
        key = name.replace("-", "_")
        if name in by_name or key in BY_KEY or name in BY_KEY:
            row = by_name.get(name)
            if row is not None:
                yield Seen(name, name, "library", "", *evidence.of("objects", row, name))
                continue
        read = [each for each in evidence.read if each["row"] == name]
        runs = [
            (run["version"], date, RUN)
            for run, date in evidence.runs
            if run["library"] in (name, *(BY_KEY[key].distributions if key in BY_KEY else ()))
        ]
        told = [(each["release"], each["date"], each["how"]) for each in read] + runs
        yield Seen(name, name, "library", "", *(told[-1] if told else ("", "", "")))
