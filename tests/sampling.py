"""The sample that ``python -m pytest`` runs, and when all cases run instead.

The sample holds every test function of FOLDERS, with CASES of its generated cases.  A digest of
their ids chooses them: nothing changes from run to run, and a new case moves no other function's.
A check of a fake driver (``drivers.checks``) counts as a function.  The checks of a file are
sampled on the same variants, because each variant takes a process.  ``tests/conftest.py`` asks.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import pytest

FOLDERS = ("core", "device")
#: Cases of one test function.
CASES = 1
#: Set where a sample runs, for its child processes too.
VARIABLE = "DLSHIM_SAMPLE"

Thing = TypeVar("Thing")


def fewer(usual: Thing, in_a_sample: Thing) -> Thing:
    """How often a test repeats what it makes up itself."""
    return in_a_sample if os.environ.get(VARIABLE) == "1" else usual


def turns(usual: int, in_a_sample: int) -> int:
    """How often a loop runs at whose end a test judges what has grown.  Under a sanitizer it is
    short, because each turn is several times as slow; a run without a sanitizer takes all turns."""
    return in_a_sample if os.environ.get("DLSHIM_SANITIZED") else fewer(usual, in_a_sample)


def every(step: int, things: Iterable[Thing]) -> Iterator[Thing]:
    """All things; in a sample the first of each `step`."""
    step = fewer(1, step)
    return (thing for number, thing in enumerate(things) if number % step == 0)


def told_of(value: object) -> str:
    """The id of a case: what repr says of the value, without an address."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


# --- which cases --------------------------------------------------------------------------


def rank(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def function_of(item: pytest.Item) -> tuple[str, str]:
    """The name of the item's test function, or of its check; and what the case is ranked by."""
    name = getattr(item, "originalname", None) or item.name
    function = f"{item.parent.nodeid}::{name}"  # type: ignore[union-attr]
    params = item.callspec.params if hasattr(item, "callspec") else {}
    check = params.get("name")
    if isinstance(check, str) and check.startswith("check_"):
        return f"{function}::{check}", f"{function}[{params['variant']}]"
    return function, item.nodeid


def choose(items: list[pytest.Item]) -> list[pytest.Item]:
    """The sample, in the order of the items."""
    cases: dict[str, list[tuple[bytes, str]]] = {}
    for item in items:
        function, case = function_of(item)
        cases.setdefault(function, []).append((rank(case), item.nodeid))
    chosen = {nodeid for found in cases.values() for _, nodeid in sorted(found)[:CASES]}
    return [item for item in items if item.nodeid in chosen]


# --- what was asked for -------------------------------------------------------------------

#: For each mode what the head of the output says.
HEADS = {
    "sample": [
        "tests: a sample: every test function of {folders}, {cases} of its generated cases",
        "tests: everything: python -m pytest --all; all cases of a part: name a path, or use -k",
    ],
    "all": ["tests: everything (python -m pytest alone is a sample)"],
    "named": ["tests: all cases of what is named (python -m pytest alone is a sample)"],
    "kit": [],
}


def mode_of(config: pytest.Config) -> str:
    """Which of HEADS a command line asks for."""
    if config.pluginmanager.has_plugin("dlpack-conformance"):
        return "kit"  # the checks of other objects, and no test of ours
    option = config.option
    if config.args_source.name != "TESTPATHS":
        return "named"
    if option.all:
        return "all"
    return (
        "named" if option.keyword or option.markexpr or getattr(option, "lf", False) else "sample"
    )


def head(mode: str) -> list[str]:
    folders = " and ".join(f"tests/{name}" for name in FOLDERS)
    cases = "one" if CASES == 1 else f"at most {CASES}"
    return [line.format(folders=folders, cases=cases) for line in HEADS[mode]]
