"""References and blocks on a debug build of CPython, which counts all of them (nox -s debug).

Each scenario of tests/doubles/scenarios.py is repeated; a reference or a block that stays behind
each time shows in the sum of all.
"""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Callable

import pytest

import dlshim
from doubles import capsules as caps
from doubles import older, scenarios
from doubles.producers import P2

REPEATS = 200
#: What the tests' own doubles and CPython's caches may keep; what stays behind in each repetition
#: is beyond it.
SLACK = REPEATS // 2


def sums() -> tuple[int, int]:
    """All references and all blocks there are."""
    caps.close_accounts()
    older.freed.clear()
    gc.collect()
    return sys.gettotalrefcount(), sys.getallocatedblocks()  # type: ignore


def grown(action: Callable[[], object]) -> tuple[int, int]:
    """How many references and blocks REPEATS of the action leave behind: the smallest of three
    measurements, as tables of CPython grow now and then."""
    for _ in range(50):
        action()
    found = [sums()]
    for _ in range(3):
        for _ in range(REPEATS):
            action()
        found.append(sums())
    grown = [(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(found)]
    return min(references for references, _ in grown), min(blocks for _, blocks in grown)


@pytest.mark.parametrize("action", scenarios.ALL.values(), ids=scenarios.ALL)
def test_nothing_grows(action: Callable[[], object]) -> None:
    with caps.short_memory():
        references, blocks = grown(action)
    print(f"{references} references, {blocks} blocks after {REPEATS} repeats")
    assert references < SLACK
    assert blocks < SLACK


def test_a_lost_reference_is_seen() -> None:
    """The measurement itself: an action that loses one reference each time."""
    lost: list[object] = []
    source = P2()

    def loses_one() -> None:
        dlshim.upgrade(source).__dlpack__()
        lost.append(source)

    with caps.short_memory():
        references, _ = grown(loses_one)
    assert references >= REPEATS


def test_a_lost_block_is_seen() -> None:
    kept: list[object] = []

    def keeps_one() -> None:
        scenarios.legacy_producer()
        kept.append(bytearray(64))

    with caps.short_memory():
        _, blocks = grown(keeps_one)
    assert blocks >= REPEATS
