"""Faults that were planted are found, each by the check and at the level that the table names."""

from __future__ import annotations

import ctypes as C
import gc
import re
from typing import Any

import pytest

pytest.importorskip("numpy")  # the planted arrays are NumPy's with a fault

from dlshim_testing import check_consumer, check_producer
from dlshim_testing.every import checks
from drivers.library import compiler
from kit import planted
from kit.planted import PLANTED, Planted
from kit.planted_more import MORE, Copies, GivesAnAddress
from kit.test_rules import books, impatient  # noqa: F401

CHECK = {"producer": check_producer, "consumer": check_consumer}
MAKE = {"producer": planted.producer, "consumer": planted.consumer}


def label(row: Planted) -> str:
    return f"{row.name}-{row.check}"


@pytest.fixture(autouse=True)
def nothing_kept() -> Any:
    """Memory that earlier tests have freed goes back to the system: what is kept would lie there,
    and the process would not grow."""
    gc.collect()
    if trim := getattr(C.CDLL(None), "malloc_trim", None):
        trim(0)
    yield
    planted.KEPT.clear()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("row", [*PLANTED, *MORE], ids=label)
def test_a_planted_fault_is_found_at_its_level(row: Planted) -> None:
    only = f"^{re.escape(row.check)}$"
    if isinstance(row.target, str):
        compiler()
        report = CHECK[row.side](f"{planted.__file__}:{row.target}", only=only, isolate=True)
    else:
        report = CHECK[row.side](MAKE[row.side](row.target), only=only)
    (found,) = report.findings
    assert found.wrong and found.level == row.level, str(found)


@pytest.mark.parametrize("row", [each for each in PLANTED if each.crash], ids=label)
def test_a_deleter_that_needs_the_lock_is_told_in_words(row: Planted) -> None:
    compiler()
    only = f"^{re.escape(row.check)}$"
    report = CHECK[row.side](f"{planted.__file__}:{row.target}", only=only, isolate=True)
    assert "without holding the GIL" in report.findings[0].evidence


@pytest.mark.parametrize(
    ("side", "target", "rules"),
    [
        ("producer", planted.right, {"data-of-empty"}),
        ("consumer", planted.slices, set()),
    ],
)
def test_the_doubles_without_a_fault_break_nothing(side: str, target: Any, rules: set[str]) -> None:
    """NumPy gives arrays without elements a data pointer, which is all that is found of it."""
    report = CHECK[side](target)
    assert {each.rule for each in report.wrong} == rules and not report.errors, str(report)


def test_a_copy_of_what_may_not_be_written_needs_no_flag() -> None:
    """A library that copies for each export gives memory that may be written."""
    report = check_producer(planted.producer(Copies), only="^read-only-")
    assert not report.wrong and not report.errors, str(report)


def test_an_answer_that_is_no_capsule_is_judged() -> None:
    """It is no reason to say that the target is wrong, though the claim is asked by it."""
    report = check_producer(GivesAnAddress, only="^methods$")
    assert [each.evidence for each in report.failed] == ["__dlpack__ gave int, which is no capsule"]


def test_the_table_names_checks() -> None:
    assert {row.check for row in (*PLANTED, *MORE)} <= {*checks("producer"), *checks("consumer")}
