"""Nothing is done otherwise than it was recorded: see the package's docstring."""

from __future__ import annotations

import itertools
import os

import pytest

from transcript import running, store, witness
from transcript.pairs import pairwise

pytestmark = pytest.mark.skipif(
    bool(os.environ.get("DLSHIM_SANITIZED")),
    reason="what is recorded here runs under a sanitizer in tests/core and tests/device",
)


@pytest.fixture(scope="module")
def now() -> dict[str, store.Bodies]:
    return running.now(running.ALL)


def test_every_group_is_recorded_and_no_other():
    assert {path.stem for path in store.RECORDED.iterdir()} == {*running.ALL, *witness.COMMANDS}


@pytest.mark.parametrize("group", running.ALL)
def test_nothing_differs(now, group):
    if told := list(store.differences(store.read(group), now[group])):
        told.append(f"if this is wanted: python tests/transcript --write {group}")
        pytest.fail("\n".join(told), pytrace=False)


def test_a_difference_is_told():
    recorded = {"a": ["> x", "= 1"], "b": ["> x", "= 1"], "gone": []}
    now = {"a": ["> x", "= 2"], "b": ["> x", "= 2"], "new": []}
    told = "\n".join(store.differences(recorded, now))
    assert told.splitlines()[-1] == "2 of 3 differ, 1 gone, 1 new"
    assert all(text in told for text in ("-= 1", "+= 2", "a (and 1 more", "gone: gone", "new: new"))
    assert not list(store.differences(recorded, recorded))


def test_what_is_written_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "RECORDED", tmp_path)
    bodies = {"b'x'": ["> a: 1", "  b"], "[1]": [], "c": ["x"], "d": ["> a: 1", "  b"], "e": []}
    store.write("some", bodies)
    assert store.read("some") == bodies


def test_every_two_values_that_can_stand_together_do_so_in_few_cases():
    def pairs(cases):
        return {pair for case in cases for pair in itertools.combinations(enumerate(case), 2)}

    cases = [
        case for case in itertools.product("abcd", "efg", "hi", "jk") if case[:2] != ("a", "e")
    ]
    drawn = pairwise(cases)
    assert pairs(drawn) == pairs(cases) and len(drawn) < 16
    assert drawn == pairwise(cases) and drawn == [case for case in cases if case in drawn]
    assert pairwise([(0, "a"), (0, "b")]) == [(0, "a"), (0, "b")]


def test_a_person_can_read_it():
    """A group that is added may say what others do not; more cases of each say the same."""
    recorded = [store.read(group) for group in (*running.ALL, *witness.COMMANDS)]
    assert sum(map(len, recorded)) <= 6000
    assert sum(path.stat().st_size for path in store.RECORDED.iterdir()) < 3_500_000
