"""Every fault that was known before the kit was run is found, by the check that the table names."""

from __future__ import annotations

import csv
import functools
import importlib
import re
from pathlib import Path
from typing import Any

import pytest
from project.tree import ROOT, read_toml

from dlshim_testing import check_consumer, check_producer
from dlshim_testing.doubles import producers
from dlshim_testing.every import checks
from dlshim_testing.partner import Consumer, Producer
from drivers.library import compiler
from kit.test_rules import books, impatient  # noqa: F401

FAULTS = read_toml(ROOT / "tests" / "kit" / "faults.toml")["fault"]
SEEN = [row for row in FAULTS if "target" in row]
OLDER = [row for row in FAULTS if "double" in row]
CHECK = {"producer": check_producer, "consumer": check_consumer}

#: What the kit says of the newest NumPy, and nothing else: each was looked at, and is true.
OF_NUMPY = {
    "numpy": {"data-of-empty"},
    "from_numpy": {"major-zero", "asks-device", "missing-data"},
}


@functools.cache
def broken(target: str) -> list[dict[str, str]]:
    """What the newest run found of a target."""
    file = ROOT / "docs" / "results" / "kit-broken.csv"
    rows = csv.DictReader(file.read_text(encoding="utf-8").splitlines(keepends=True))
    return [row for row in rows if row["target"] == target]


def side_of(row: dict[str, Any]) -> str:
    name = row.get("target") or row["double"]
    return "consumer" if name.startswith(("from_", "wrong_consumers")) else "producer"


def label(row: dict[str, Any]) -> str:
    return f"{row['library']}-{row['check']}"


@pytest.mark.parametrize("row", FAULTS, ids=label)
def test_a_row_names_one_check_and_one_witness(row: dict[str, Any]) -> None:
    assert row["check"] in checks(side_of(row))
    assert ("target" in row) != ("double" in row)
    assert row["says"].endswith(".") and row["releases"]


@pytest.mark.parametrize("row", SEEN, ids=label)
def test_the_newest_run_found_it(row: dict[str, Any]) -> None:
    told = broken(row["target"])
    failed = {check for each in told for check in (each["check"], *each["known"].split())}
    assert row["check"] in failed, told[0]["library"]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("row", OLDER, ids=label)
def test_the_named_check_finds_the_fault_in_its_double(row: dict[str, Any]) -> None:
    side, (where, name) = side_of(row), row["double"].split(":")
    module = producers if where == "producers" else importlib.import_module(f"kit.{where}")
    double, options = getattr(module, name), {}
    if isinstance(double, type):
        double = make(side, double)
    if row.get("crash") or "driver" in row:
        double, options = f"{module.__file__}:{name}", {"isolate": True}
    if "driver" in row:
        compiler()
        options["driver"] = row["driver"]
    report = CHECK[side](double, only=f"^{re.escape(row['check'])}$", **options)
    (found,) = report.findings
    assert found.check == row["check"] and found.wrong, str(found)


#: A thread of C that calls the deleter while the checking thread happens to hold the GIL.
HELD = """
from dlshim_testing.doubles import capsules
from kit.wrong_producers import crashing

def on_a_thread_of_c(address, name):
    capsules.call_deleter(address, name, held=True)

capsules.delete_on_c_thread = on_a_thread_of_c
"""


@pytest.mark.usefixtures("impatient")
def test_a_deleter_that_needs_the_gil_is_found_whoever_holds_it(tmp_path: Path) -> None:
    """Python took the call of that thread for the other one's, and the check passed."""
    (tmp_path / "held.py").write_text(HELD)
    only = r"^deleter-without-gil\[float32-bare\]$"
    report = check_producer(f"{tmp_path / 'held.py'}:crashing", only=only, isolate=True)
    (found,) = report.findings
    assert found.wrong, str(found)


def make(side: str, kind: Any) -> Producer | Consumer:
    return (
        Producer(kind, claims="2025.12")
        if side == "producer"
        else Consumer(kind(), claims="2025.12")
    )


def library_of(target: str) -> str:
    name = target.removeprefix("from_")
    return "pyarrow" if name.startswith("pyarrow") else name


#: What is true of older releases, and not of the newest.
OF_OLDER = {
    name: {"other-device"}
    for name in ("numpy", "from_numpy", "array_api_strict", "from_array_api_strict")
}
#: Libraries whose arrays the kit takes for right, where they are installed.
CONTROLS = ["numpy", "array_api_strict", "pyarrow_tensor", "pyarrow_array"]


#: pyarrow drops a capsule while its refusal is on its way, and the destructors of the doubles are
#: Python, which reports that exception.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("isolate", [True, False], ids=["child", "in-process"])
@pytest.mark.parametrize("target", [*CONTROLS, *(f"from_{name}" for name in CONTROLS)])
def test_nothing_but_what_is_recorded_is_said_of_a_right_library(
    target: str, isolate: bool
) -> None:
    """The rows were looked at one by one: whatever else is said would be a false alarm."""
    pytest.importorskip(library_of(target))
    side = "consumer" if target.startswith("from_") else "producer"
    report = CHECK[side](f"dlshim_testing.libraries:{target}", isolate=isolate)
    older = OF_OLDER.get(target, set())
    known = {each["rule"] for each in broken(target)} | older
    assert {each.rule for each in report.wrong} <= known and not report.errors, str(report)
    assert {each.rule for each in report.failed} <= older, str(report)


@pytest.mark.parametrize("target", OF_NUMPY)
def test_nothing_false_is_said_of_numpy(target: str) -> None:
    told = broken(target)
    assert {each["rule"] for each in told} == OF_NUMPY[target]
    assert "MUST" not in {each["level"] for each in told}
