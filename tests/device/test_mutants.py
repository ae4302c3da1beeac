"""The rows of tools/mutants.py fit the markers in the source; ``nox -s mutants`` runs them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from project.tree import ROOT, SRC


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "tools" / "mutants.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


TOOL = tool()
MUTANTS = TOOL.MUTANTS
PLACES = TOOL.find_places(SRC)

CODE = """
static int
one(int a, int b)
{
    /* mutant: block */
    if (a == 1 && b > 2) {
        call(a, b(3), 4);
    }
    b = call(a, b); /* mutant: line */
    /* mutant: statement */
    return a ? two(b,
                   3)
             : 4;
}
ROW(A, "x", 3) /* mutant: row */
/* mutant: rows */
ROW(B, "z",
    4)
"""


def test_markers_and_mutants_fit_each_other() -> None:
    TOOL.check_markers(PLACES, MUTANTS)
    with pytest.raises(TOOL.Failed, match=r"no marker in src: edge of P$"):
        TOOL.check_markers({n: p for n, p in PLACES.items() if n != "edge of P"}, MUTANTS)
    with pytest.raises(TOOL.Failed, match=r"no mutant: another$"):
        TOOL.check_markers({**PLACES, "another": []}, MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_one_file(mutant: Any) -> None:
    file, text = TOOL.apply(mutant, PLACES, SRC)
    assert text != (SRC / file).read_text()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "gpu").mkdir()
    (tmp_path / "gpu" / "one.c").write_text(CODE)
    return tmp_path


@pytest.mark.parametrize(
    ("marker", "change", "old", "new"),
    [
        ("block", "", "if (a == 1 && b > 2) {\n        call(a, b(3), 4);\n    }", ""),
        ("block", TOOL.value("false"), "a == 1 && b > 2", "false"),
        ("block", TOOL.operand(2, "true"), "b > 2", "true"),
        ("line", TOOL.value("0"), "call(a, b)", "0"),
        ("line", TOOL.argument(2, "({}) + 1"), "call(a, b)", "call(a, (b) + 1)"),
        ("line", "{statement}", "b = call(a, b);", "return a ? two(b,\n  3)\n  : 4;"),
        ("statement", TOOL.operand(3, "5"), ": 4", ": 5"),
        ("statement", TOOL.operand(2, TOOL.argument(1, "a")), "two(b,", "two(a,"),
        ("row", TOOL.argument(3, "5"), '"x", 3', '"x", 5'),
        ("rows", "", 'ROW(B, "z",\n    4)', ""),
    ],
)
def test_marked_code_is_found_and_changed(
    tree: Path, marker: str, change: Any, old: str, new: str
) -> None:
    assert CODE.count(old) == 1
    mutant = TOOL.mutant("one", marker, change)
    file, text = TOOL.apply(mutant, TOOL.find_places(tree), tree)
    assert (file, text.split()) == ("gpu/one.c", CODE.replace(old, new).split())


def test_a_name_stands_in_one_file(tree: Path) -> None:
    (tree / "gpu" / "two.c").write_text("a = 1; /* mutant: line */\n")
    with pytest.raises(TOOL.Failed, match=r"'line' is in gpu/one\.c and gpu/two\.c"):
        TOOL.find_places(tree)


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
