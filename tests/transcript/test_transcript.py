"""Nothing is done otherwise than it was recorded: see the package's docstring."""

from __future__ import annotations

import os

import pytest

from transcript import running, store

pytestmark = pytest.mark.skipif(
    bool(os.environ.get("DLSHIM_SANITIZED")),
    reason="what is recorded here runs under a sanitizer in tests/core and tests/device",
)


@pytest.fixture(scope="module")
def now() -> dict[str, store.Bodies]:
    return running.now(running.ALL)[0]


def test_every_group_is_recorded_and_no_other():
    assert {path.name for path in store.RECORDED.iterdir()} == {f"{g}.gz" for g in running.ALL}


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
    assert store.bodies_of(store.text_of(recorded)) == recorded
