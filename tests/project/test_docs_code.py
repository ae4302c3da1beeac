"""What the manual shows of a session with Python is what Python answers."""

from __future__ import annotations

import doctest
import importlib.util

import pytest
from project.tree import ROOT, absent

PAGES = sorted(
    path.name for path in (ROOT / "docs").glob("*.rst") if ">>>" in path.read_text(encoding="utf-8")
)
#: Blocks that show a form of words, and have no object to be run with.
SHOWN = {"guide.rst"}


@pytest.mark.parametrize("page", sorted(set(PAGES) - SHOWN))
def test_a_session_of_the_manual_is_as_it_is_shown(page: str) -> None:
    if importlib.util.find_spec("numpy") is None:
        absent("the manual's sessions need numpy")
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, tried = doctest.testfile(
        str(ROOT / "docs" / page), module_relative=False, optionflags=flags
    )
    assert tried > 0 and failed == 0


def test_the_first_steps_are_among_them() -> None:
    assert "first_steps.rst" in PAGES
