"""Faults that were planted are found, each by the check and at the level that the table names."""

from __future__ import annotations

import ast
import ctypes as C
import gc
import importlib
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")  # the planted arrays are NumPy's with a fault

import numpy as np
from project.tree import ROOT, absent, read_toml

from dlshim_testing import check_consumer, check_producer
from dlshim_testing.every import checks
from dlshim_testing.partner import Producer
from drivers.library import compiler
from kit import planted
from kit.planted_more import Copies, GivesAnAddress
from kit.test_rules import books, impatient  # noqa: F401

ASKED = read_toml(ROOT / "tests" / "kit" / "asked.toml")["asked"]
FAULTS = read_toml(ROOT / "tests" / "kit" / "planted.toml")["fault"]
CHECK = {"producer": check_producer, "consumer": check_consumer}
MAKE = {"producer": planted.producer, "consumer": planted.consumer}


def label(row: dict[str, Any]) -> str:
    return f"{row['double'].partition(':')[2]}-{row['check']}"


def found(row: dict[str, Any]) -> Any:
    """What the check of a row finds of its double."""
    where, _, name = row["double"].partition(":")
    module = importlib.import_module(f"kit.{where}")
    if row.get("compiler") or row["check"].startswith("deleter-without-gil"):
        compiler()
    only, check = f"^{re.escape(row['check'])}$", CHECK[row["side"]]
    if row.get("crash"):
        (finding,) = check(f"{module.__file__}:{name}", only=only, isolate=True).findings
        return finding
    rules = getattr(module, "WRONG", {})
    double = rules[name] if name in rules else getattr(module, name)
    (finding,) = check(MAKE[row["side"]](double, **claims_of(row)), only=only).findings
    return finding


def claims_of(row: dict[str, Any]) -> dict[str, str]:
    return {"claims": row["claims"]} if "claims" in row else {}


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
@pytest.mark.parametrize("row", FAULTS, ids=label)
def test_a_planted_fault_is_found_at_its_level(row: dict[str, Any]) -> None:
    finding = found(row)
    assert finding.wrong and finding.level == row["level"], str(finding)


WITHOUT_THE_LOCK = [row for row in FAULTS if row["double"].endswith("_without_the_lock")]


@pytest.mark.parametrize("row", WITHOUT_THE_LOCK, ids=label)
def test_a_deleter_that_needs_the_lock_is_told_in_words(row: dict[str, Any]) -> None:
    assert "without holding the GIL" in found(row).evidence


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


class Warns(planted.Of):
    """Each export warns, and is right."""

    def give(self, **asked: Any) -> Any:
        warnings.warn(f"export {asked}", DeprecationWarning, stacklevel=3)
        return super().give(**asked)


def test_warnings_that_are_recorded_are_no_leak_of_the_library() -> None:
    """pytest records each: pyarrow, which warns of DLPack 0.x, seemed to free nothing."""
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        report = check_producer(planted.producer(Warns), only=r"^deleter-frees\[blocks")
        assert recorded
    assert not report.wrong and not report.errors, str(report)
    assert {each.status for each in report.findings} == {"pass"}, str(report)


class TakesAStreamAlone(planted.Of):
    """As NumPy before 2.1: it knows no max_version, and refuses objects by a BufferError."""

    def __dlpack__(self, *, stream: Any = None) -> Any:
        return self.array.__dlpack__(stream=stream)


def test_a_keyword_that_is_not_known_is_no_refusal_of_the_array() -> None:
    kind = TakesAStreamAlone
    target = Producer(kind, refused={"objects": lambda: kind((), array=np.array([None]))})
    report = check_producer(target, only=r"^refusals\[refused-0")
    told = {each.check: each.status for each in report.findings}
    assert told == {
        "refusals[refused-0-bare]": "pass",
        "refusals[refused-0-versioned]": "not applicable",
    }


def test_an_answer_that_is_no_capsule_is_judged() -> None:
    """It is no reason to say that the target is wrong, though the claim is asked by it."""
    report = check_producer(GivesAnAddress, only="^methods$")
    assert [each.evidence for each in report.failed] == ["__dlpack__ gave int, which is no capsule"]


def test_each_row_is_a_fault_of_its_own() -> None:
    for row in FAULTS:
        assert row["check"] in checks(row["side"]) and row["wrong"].endswith("."), row
    sentences = [(row["side"], row["wrong"]) for row in FAULTS]
    assert len(sentences) == len({*sentences})
    assert len({(row["double"], row["check"]) for row in FAULTS}) == len(FAULTS)


def test_what_other_suites_ask_is_asked_or_answered() -> None:
    names = {*checks("producer"), *checks("consumer")}
    for row in ASKED:
        assert ("check" in row) != ("answer" in row), row
        assert row.get("check", "") in names or row["answer"].endswith("."), row


def test_no_test_of_the_installed_numpy_is_left_out() -> None:
    where = Path(np.__file__).parent / "_core" / "tests" / "test_dlpack.py"
    if not where.exists():
        absent(f"this NumPy brings no tests: {where}")
    theirs = {
        each.name
        for each in ast.walk(ast.parse(where.read_text(encoding="utf-8")))
        if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")
    }
    assert theirs <= {row["test"] for row in ASKED if row["suite"] == "NumPy"}
