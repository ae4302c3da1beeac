"""docs/suites.rst says what each folder of tests is for, and which file decides on each rule."""

from __future__ import annotations

import re

from project import test_citations, test_stream_rules
from project.tree import ROOT

PAGE = (ROOT / "docs" / "suites.rst").read_text(encoding="utf-8")


def rows(page: str) -> list[list[str]]:
    """The cells of each row of its tables."""
    found = re.findall(r"^   \* - ((?:.+\n|     .+\n)+?)(?=   \* - |\n|$)", page, re.M)
    return [re.split(r"\n     - ", row.rstrip()) for row in found]


def rules_of(fact: str) -> set[str]:
    """Those in brackets at the end of a fact: "(T4 to T7)", "(S2, S10 to S16)"."""
    brackets = re.search(r"\(([A-Z]\d[^)]*)\)$", " ".join(fact.split()))
    told = re.findall(r"([A-Z])(\d+)(?: to [A-Z](\d+))?", brackets[1]) if brackets else []
    return {
        f"{kind}{number}"
        for kind, first, last in told
        for number in range(int(first), int(last or first) + 1)
    }


def test_every_rule_has_a_file_that_decides() -> None:
    judges = {rule: row[1] for row in rows(PAGE) for rule in rules_of(row[0])}
    stated = {*test_citations.stated(), *(f"S{n}" for n in test_stream_rules.stated())}
    stated |= {*re.findall(r"^\*\*(C\d+)\.", test_citations.RULES.read_text(), re.M)}
    assert judges.keys() == stated
    assert all("tests/" in judge for judge in judges.values())


def test_rules_of_a_fact_are_found() -> None:
    page = "   * - a (T1)\n     - x\n   * - which\n       (S2, S10 to S12)\n     - y\n       z\n"
    assert [rules_of(row[0]) for row in rows(page)] == [{"T1"}, {"S2", "S10", "S11", "S12"}]
    assert rows(page)[1] == ["which\n       (S2, S10 to S12)", "y\n       z"]


def test_every_folder_of_tests_is_told_once() -> None:
    terms = re.findall(r"^``tests/\w+``(?:, ``tests/\w+``)*(?=\n    )", PAGE, re.M)
    told = re.findall(r"tests/(\w+)", "\n".join(terms))
    folders = {path.parent for path in (ROOT / "tests").glob("*/[!_.]*.*")}
    assert sorted(told) == sorted(each.name for each in folders if each.name != "__pycache__")
