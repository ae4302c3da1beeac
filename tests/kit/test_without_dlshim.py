"""The kit runs where dlshim is not installed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from project.tree import ROOT, read_toml

from doubles import child
from kit.test_plugin import KIT, TESTS


@pytest.fixture(scope="module")
def told() -> Any:
    return json.loads(child.program("kit_without_dlshim", paths=(str(KIT), TESTS)))


def test_every_check_runs_without_dlshim(told: Any) -> None:
    assert len(told) > 1500
    assert not [each for each in told if each[1] not in ("pass", "not applicable")]


def test_what_needs_dlshim_says_so(told: Any) -> None:
    needs = {check.split("[")[0] for check, _, why in told if "dlshim" in why}
    assert needs == {"error-kept"}
    (why,) = {why for _, _, why in told if "dlshim" in why}
    assert why.endswith("is made by dlshim, which is not installed: pip install dlshim")


def test_the_distribution_asks_for_nothing() -> None:
    project = read_toml(ROOT / "kit" / "pyproject.toml")["project"]
    assert project["dependencies"] == []
    assert project["optional-dependencies"]["dlshim"] == ["dlshim>=0.1.0"]
