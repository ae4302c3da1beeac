"""The installed Python files are the source's, without comments and without the docstrings that
nobody is shown (setup.py)."""

from __future__ import annotations

import ast
import io
import tokenize

import pytest
from project.tree import ROOT, installed_core

PACKAGE = ROOT / "shim"
FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


SHOWN = ("__init__.py", "arrays.py", "enums.py", "report.py")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


def docstrings(tree: ast.Module) -> list[str]:
    """The names of what has one."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, DOCUMENTED)]
    return [getattr(node, "name", "") for node in nodes if ast.get_docstring(node) is not None]


def positions(text: str) -> list[str]:
    """Every node of the code with its line: tracebacks name the lines of the source."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if not isinstance(node, DOCUMENTED):
            continue
        if ast.get_docstring(node) is not None or isinstance(node.body[0], ast.Pass):
            del node.body[0]
    return [ast.dump(tree), *(str(getattr(node, "lineno", "")) for node in ast.walk(tree))]


@pytest.mark.parametrize("name", FILES)
def test_code_and_line_numbers_are_those_of_the_source(name: str) -> None:
    installed = (installed_core().parent / name).read_text(encoding="utf-8")
    assert positions(installed) == positions((PACKAGE / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", FILES)
def test_docstrings_stay_where_somebody_is_shown_them(name: str) -> None:
    installed = docstrings(ast.parse((installed_core().parent / name).read_text(encoding="utf-8")))
    had = docstrings(ast.parse((PACKAGE / name).read_text(encoding="utf-8")))
    shown = [each for each in had if not each.startswith("_")]
    assert installed == (shown if name in SHOWN else [])


@pytest.mark.parametrize("name", FILES)
def test_comments_stay_where_the_manual_reads_them(name: str) -> None:
    installed = (installed_core().parent / name).read_text(encoding="utf-8")
    tokens = tokenize.generate_tokens(io.StringIO(installed).readline)
    comments = [t.string for t in tokens if t.type == tokenize.COMMENT]
    kept = ("# type:", "#:") if name in SHOWN else ("# type:",)
    assert all(text.startswith(kept) for text in comments)
