"""NumPy breaks nothing, and dlshim nothing but what is listed with a reason."""

from __future__ import annotations

import csv
from typing import Any

import pytest
from project.tree import ROOT, read_toml

from dlshim_testing import check_consumer, check_producer, known, rules
from kit.test_rules import books  # noqa: F401

LISTED = read_toml(ROOT / "tests" / "kit" / "known.toml")
TARGETS = {
    "numpy": check_producer,
    "from_numpy": check_consumer,
    "dlshim": check_producer,
    "dlshim_tensor": check_producer,
    "from_dlshim": check_consumer,
}


@pytest.mark.parametrize("target", TARGETS)
def test_no_must_is_broken_but_what_is_known(target: str) -> None:
    pytest.importorskip("numpy", reason="these targets are made of NumPy's arrays")
    report = TARGETS[target](f"dlshim_testing.libraries:{target}")
    assert not report.errors, str(report)
    listed: dict[str, Any] = LISTED.get(report.side, {}) if "dlshim" in target else {}
    new = [
        each.check
        for each in report.failed
        if not any(known.matches(each.check, name) for name in listed)
        and not (each.rule == "other-device" and report.claims < "2025.12" and old_numpy())
    ]
    assert not new, str(report)
    stale = [
        name for name in listed if not any(known.matches(f.check, name) for f in report.failed)
    ]
    assert not stale, "what was mended is taken off the list"


def old_numpy() -> bool:
    """NumPy 2.1 to 2.3 breaks what tests/kit/known-numpy.toml says."""
    numpy = pytest.importorskip("numpy")
    return tuple(map(int, numpy.__version__.split(".")[:2])) < (2, 4)


def test_reproductions_name_rules_that_there_are() -> None:
    rows = read_toml(ROOT / "tests" / "kit" / "reproductions.toml")["row"]
    assert len(rows) > 20
    for row in rows:
        side = "consumer" if row["target"].startswith("from_") else "producer"
        assert (side, row["rule"]) in rules.BY_NAME
        compile(row["code"], row["target"], "exec")


def test_each_must_that_a_release_breaks_has_lines_that_show_it() -> None:
    """Of libraries other than dlshim; the manual shows what they gave."""
    results = ROOT / "docs" / "results"
    wanted = read_toml(ROOT / "tests" / "kit" / "reproductions.toml")["row"]
    with (results / "kit-shown.csv").open(encoding="utf-8", newline="") as file:
        shown = [*csv.DictReader(file)]
    with (results / "kit-broken.csv").open(encoding="utf-8", newline="") as file:
        broken = [*csv.DictReader(file)]
    has = {(row["target"], row["rule"], row["says"]) for row in shown}
    assert has == {(row["target"], row["rule"], row["says"]) for row in wanted}
    must = {
        (row["target"], row["rule"])
        for row in broken
        if row["level"] in ("MUST", "crash") and "dlshim" not in row["library"]
    }
    assert must - {row[:2] for row in has} == set()
    of = {row["target"]: row["library"] for row in broken}
    assert [row for row in shown if row["library"] != of[row["target"]]] == []


def test_without_the_distribution_the_module_says_what_to_install() -> None:
    import subprocess
    import sys

    code = "import sys; sys.modules['dlshim_testing'] = None\nimport dlshim.testing"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "ImportError: dlshim.testing is a distribution of its own" in done.stderr
    assert "pip install dlshim[testing]" in done.stderr and "pip install ./kit" in done.stderr


def test_the_module_forwards_to_the_distribution() -> None:
    import dlshim.testing

    assert dlshim.testing.check_producer is check_producer
    assert dlshim.testing.__version__ == __import__("dlshim").__version__
