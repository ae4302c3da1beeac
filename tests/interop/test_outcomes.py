"""What arrays come to between the libraries of an environment, and the record."""

from __future__ import annotations

from typing import Any

import pytest

from interop import outcomes


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    found = outcomes.tried()
    if not found["pairs"]:
        pytest.skip("no two libraries that take part")
    return found


def test_what_comes_out_is_what_was_recorded_of_these_releases(told) -> None:
    """If the library does otherwise now: python -m interop.outcomes, and review what differs."""
    found = outcomes.differences(outcomes.rows_of(told), outcomes.recorded())
    assert not found, "\n".join(found)


def test_nothing_is_worse_with_dlshim(told) -> None:
    found = outcomes.red(outcomes.rows_of(told), outcomes.asking(told))
    assert not found, "\n".join(found)


def row(bare: str, upgraded: str, line: str = "f(x)") -> outcomes.Rows:
    key = ("numpy 2", "torch 2", "x", "f")
    return {key: {"bare": bare, "upgraded": upgraded, "line": line}}


def test_a_new_release_is_compared_with_the_last_one_that_was_recorded() -> None:
    def of(release: str, bare: str) -> outcomes.Rows:
        told = {"from": "numpy 2.4", "into": f"torch {release}", "object": "x", "function": "f"}
        key = tuple(told.values())
        return {key: {**told, "bare": bare, "upgraded": "works", "line": "f(x)"}}

    then = of("2.9", "works") | of("2.13", "dies")
    assert outcomes.differences(of("2.14", "works"), then) == []
    now = of("2.14", "works")
    (differs,) = outcomes.differences(now, outcomes.newest_before(now, then))
    assert "bare works" in differs and "recorded: bare dies" in differs
    assert outcomes.newest_before(of("3", "works"), {}) == {}


def test_differences_and_harm_are_found() -> None:
    right = row("works", "works")
    assert outcomes.differences(right, row("works", "works", "f(dlshim.upgrade(x))")) == []
    assert outcomes.differences(right, {}) == []
    assert len(outcomes.differences(right, row("works", "refused"))) == 1
    assert len(outcomes.differences(right, row("works", "works", ""))) == 1
    harmed = row("works", "harms")
    for bad in (row("works", "refused", ""), row("refused", "dies"), row("works", "wrong"), harmed):
        assert len(outcomes.red(bad, {"torch"})) == 1
    for fine in (right, row("wrong", "wrong", ""), row("dies", "refused", "")):
        assert outcomes.red(fine, {"torch"}) == []
    assert outcomes.red(row("works", "wrong"), {"numpy"}) == []
