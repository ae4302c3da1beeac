"""Rows about libraries: each was seen in a release, and none speaks of a newer one."""

from __future__ import annotations

import csv
import datetime
import importlib
import sys
from typing import Any

import pytest
from project.tree import ROOT, read_toml

from dlshim import consumers, facts, libraries, sources, verdicts

sys.path.insert(0, str(ROOT / "docs" / "_ext"))
seen: Any = importlib.import_module("seen")

FUNCTIONS = sorted({row.name for row in consumers.CONSUMERS if row.library})
OBJECTS = sorted({row.name for row in sources.SOURCES})


def release(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))


def end_of(rows: list[Any]) -> str:
    """The first release after a list of rows."""
    return release(max(row.until for row in rows) or (999,))


@pytest.mark.parametrize("row", [*seen.rows(), *seen.library_rows()], ids=str)
def test_every_row_was_seen_in_a_release_on_a_day(row: Any) -> None:
    assert row.release, (
        "say in docs/results/rows-read.csv where it was read (KEY of the library,RELEASE,DATE,how)"
        ", or run nox -s newest"
    )
    assert "2026-11-01" <= row.date <= datetime.date.today().isoformat() and row.how


@pytest.mark.parametrize("name", FUNCTIONS)
def test_of_a_newer_release_the_tables_say_that_it_is_not_verified(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = end_of(consumers.rows_of(name))
    monkeypatch.setattr(verdicts, "version_of", lambda key: newer)
    (verdict,) = verdicts.expected(bytearray(4), name)
    assert verdict.why.startswith("not verified: the table has releases from")
    assert verdict.bare.result == verdict.upgraded.result == "unknown"


@pytest.mark.parametrize("name", OBJECTS)
def test_of_objects_of_a_newer_release_nothing_is_told_by_the_row(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row for row in sources.SOURCES if row.name == name]
    assert all(row.library in libraries.BY_KEY for row in rows), "its release cannot be known"
    newer = end_of(rows)
    assert not sources.source_of(name, libraries.version_tuple(newer))[1]
    monkeypatch.setattr(facts, "version_of", lambda key: newer)
    assert facts._source(name, object())[0] is None
    monkeypatch.setattr(facts, "version_of", lambda key: release(rows[-1].since))
    assert facts._source(name, object())[0] is rows[-1]


def test_nox_compares_every_library_or_says_why_not() -> None:
    told = read_toml(ROOT / "tests" / "interop" / "newest.toml")
    lacking = "each library of shim/known has a table in tests/interop/newest.toml: pip, or why"
    assert set(told) == set(libraries.BY_KEY), lacking
    text = (ROOT / "docs" / "results" / "rows.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    compared = {row["library"] for row in rows}
    known = {row.library or row.family for row in consumers.CONSUMERS}
    known |= {row.library for row in sources.SOURCES}
    wanted = known - {key for key, each in told.items() if "why" in each}
    assert wanted == compared, "run nox -s newest -- NAME --write, or say why in newest.toml"
