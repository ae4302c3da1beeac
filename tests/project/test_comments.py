"""The installed Python files are the source's, without its comments (setup.py)."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import pytest
from project.tree import ROOT, installed_core

PACKAGE = ROOT / "shim"
FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def positions(text: str) -> list[str]:
    """Every node of the code with its line: tracebacks name the lines of the source."""
    tree = ast.parse(text)
    return [ast.dump(tree), *(str(getattr(node, "lineno", "")) for node in ast.walk(tree))]


@pytest.mark.parametrize("name", FILES)
def test_code_and_line_numbers_are_those_of_the_source(name: str) -> None:
    installed = (installed_core().parent / name).read_text(encoding="utf-8")
    assert positions(installed) == positions((PACKAGE / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", FILES)
def test_comments_stay_where_the_manual_reads_them(name: str) -> None:
    installed = (installed_core().parent / name).read_text(encoding="utf-8")
    tokens = tokenize.generate_tokens(io.StringIO(installed).readline)
    comments = [t.string for t in tokens if t.type == tokenize.COMMENT]
    kept = Path(name).stem in ("enums", "report")
    assert kept or all(text.startswith("# type:") for text in comments)
