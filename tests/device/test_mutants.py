"""The mutants of tools/mutants.py fit the source as it is now; ``nox -s mutants`` runs them."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

import pytest
from project.tree import ROOT, SRC


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "tools" / "mutants.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = tool()
MUTANTS = TOOL.MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_what_a_mutant_replaces_is_there_once(mutant: tuple[str, ...]) -> None:
    _, file, old, new, *_ = mutant
    found = re.findall(TOOL.pattern_of(old), (SRC / file).read_text())
    assert len(found) == 1, f"bring tools/mutants.py up to date: {old}"
    assert old != new


def test_every_action_is_taken_away_by_some_mutant() -> None:
    names = {mutant.name for mutant in MUTANTS}
    assert len(names) == len(MUTANTS)
    assert names >= {
        "no edge",
        "an edge from L instead of P",
        "no context is pushed",
        "the memory's context for any stream",
        "an event is given back before it is waited for",
        "an event is destroyed before it is waited for",
        "no capture probe",
        "the host does not wait for P",
        "a copy is not synced",
    }
