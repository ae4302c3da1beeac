"""The numbers of the stream rules: what cites them finds them in docs/streams.rst."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from project.test_matrix import command
from project.tree import ROOT, SRC

from dlshim import stream_table

DOCS = ROOT / "docs" / "streams.rst"
FILES = sorted(
    path
    for folder in (SRC, ROOT / "tests", ROOT / "kit", ROOT / "docs")
    for path in folder.rglob("*")
    if path.suffix in (".c", ".h", ".def", ".py", ".rst")
)
CITED = re.compile(r"""(?<![\w"'.|])S([0-9]{1,2})\b(?!["'(=])""")


def stated() -> list[int]:
    """The numbers in the order of the page: "**S1. What is no stream ...**"."""
    return [int(n) for n in re.findall(r"^\*\*S([0-9]+)\. ", DOCS.read_text(), re.M)]


def cited(path: Path) -> set[int]:
    return {int(number) for number in CITED.findall(path.read_text())}


def test_every_rule_has_one_number_and_none_is_left_out() -> None:
    assert stated() == list(range(1, len(stated()) + 1))
    assert len(stated()) >= 24, "a number is never taken away: what cites it would lose it"


def test_citations_are_found_at_all() -> None:
    assert cited(SRC / "gpu" / "sync_rules.def") >= {3, 4, 5, 6, 7, 8, 9}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_cited_rule_exists(path: Path) -> None:
    assert cited(path) <= set(stated())


def test_the_command_tells_the_table_as_json() -> None:
    done = command("streams", "--json", "CUDA", "other")
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    for name in ("CUDA", "other"):
        cells = stream_table.cells(name)
        assert told[name] == {
            producer: {value: str(cell) for value, cell in row.items()}
            for producer, row in cells.items()
        }
    assert [*told] == ["CUDA", "other"]
