"""The table of replays is whole, names tests that exist, and says what was seen."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from packaging.requirements import Requirement
from project.tree import ROOT

from interop import environments
from replays import table

CASES = table.load()
REPLAYED = [case for case in CASES if case.test]
IDS = [str(n) for n in range(1, 93)] + [f"M{n}" for n in range(1, 22)]
HERE = ROOT / "tests" / "replays"


def test_every_case_has_one_row() -> None:
    assert sorted(Counter(case.id for case in CASES).items()) == sorted((id, 1) for id in IDS)


def test_there_are_enough_of_them() -> None:
    kinds = Counter(case.kind for case in REPLAYED)
    print(f"{len(REPLAYED)} replays, {dict(kinds)}, of {len(CASES)} cases")
    assert len(REPLAYED) >= 75 and kinds["real"] >= 40


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_row(case: table.Case) -> None:
    assert bool(case.test) != bool(case.why_not), "a replay, or why there is none"
    assert (case.kind in table.KINDS) if case.test else not (case.kind or case.also)
    for text in (case.title, case.broke, case.cure, case.note, case.why_not):
        assert text == text.strip()
    assert all(text.endswith((".", "?")) for text in (case.broke, case.cure))
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", cited) for cited in case.reference)
    assert bool(case.reference) or case.id.startswith("M")
    assert [node for node in case.tests if not table.exists(node)] == []


def test_a_wrong_node_is_seen() -> None:
    good = "tests/device/test_release.py::test_release[13.0-tensors]"
    assert table.exists(good)
    for old, new in (("tensors", "nothing"), ("::test_release", "::test_x"), ("_release.", "_y.")):
        assert not table.exists(good.replace(old, new))


def test_every_test_of_the_folder_is_in_the_table() -> None:
    cited = {node for case in CASES for node in case.tests}
    written = {
        f"tests/replays/{file.name}::{name}"
        for file in HERE.glob("test_*.py")
        for name in table.functions(file)
        if name.startswith("test_")
    }
    assert written - cited == set()


def offers(env: environments.Environment, requirement: str) -> bool:
    wanted = Requirement(requirement)
    pins = {name.replace("_", "-").lower(): pin for name, pin in env.pins.items()}
    pin = pins.get(wanted.name.replace("_", "-").lower())
    return pin is not None and wanted.specifier.contains(pin, prereleases=True)


REAL = [case for case in REPLAYED if case.kind == "real"]
WITH_REPLAYS = [env for env in environments.load().values() if env.replays]


@pytest.mark.parametrize("case", REAL, ids=lambda case: case.id)
def test_a_real_replay_runs_somewhere(case: table.Case) -> None:
    """Some session has all that one of its tests needs.  TensorFlow 2.12 brings its own NumPy."""
    nodes = [node for node in case.tests if node.startswith("tests/replays/")]
    brought = {"tf212": ("numpy", "jax")}
    for node in nodes:
        stated = table.needs(node)
        assert stated or node != case.test, f"{node} says which libraries it needs"
        assert any(
            all(offers(env, r) or Requirement(r).name in brought.get(env.name, ()) for r in stated)
            for env in WITH_REPLAYS
        ), f"no session has {stated}"


def test_what_the_results_say() -> None:
    """Every replay was seen to pass, and none failed where it ran."""
    told = table.results()
    assert {row["test"]: row["failed"] for row in told if row["failed"]} == {}
    seen = {row["test"] for row in told if row["passed"]}
    assert [case.id for case in REPLAYED if case.test not in seen] == []


def test_the_page_has_every_subject() -> None:
    page = (ROOT / "docs" / "replays.rst").read_text()
    on_page = re.findall(r"^\.\. dlshim-replays:: (.+)$", page, re.M)
    assert on_page == list(dict.fromkeys(case.subject for case in CASES))
