"""The installed Python files are the source's, without comments and without the docstrings that
nobody is shown (setup.py)."""

from __future__ import annotations

import ast
import io
import re
import tokenize

import pytest
from project.tree import ROOT, installed_core

PACKAGE = ROOT / "shim"
FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


SHOWN = ("__init__.py", "arrays.py", "authors.py", "enums.py", "report.py", "tracking.py")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


def docstrings(tree: ast.AST) -> list[str]:
    """The names of what has one."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, DOCUMENTED)]
    return [getattr(node, "name", "") for node in nodes if ast.get_docstring(node) is not None]


def shown(name: str) -> list[str]:
    """The names of what keeps its docstring: what users see, by ``__all__`` where there is one."""
    tree = ast.parse((PACKAGE / name).read_text(encoding="utf-8"))
    if name not in SHOWN:
        return []
    listed = re.findall(r"^__all__ = (\[.*?\])", ast.unparse(tree), re.M)
    found = [""] if ast.get_docstring(tree) else []
    for top in tree.body:
        if not listed or getattr(top, "name", "") in ast.literal_eval(listed[0]):
            found += [each for each in docstrings(top) if not each.startswith("_")]
    return found


def code(text: str) -> str:
    """Every node of the code but types and docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
        if not isinstance(node, DOCUMENTED):
            continue
        if ast.get_docstring(node) is not None or isinstance(node.body[0], ast.Pass):
            del node.body[0]
    return ast.dump(tree)


@pytest.mark.parametrize("name", FILES)
def test_the_code_is_that_of_the_source(name: str) -> None:
    installed = (installed_core().parent / name).read_text(encoding="utf-8")
    source = (PACKAGE / name).read_text(encoding="utf-8")
    assert code(installed) == code(source)


def test_functions_that_users_see_keep_their_types() -> None:
    for name, line in (
        ("report.py", "def inspect(obj: Any, "),
        ("arrays.py", "value: Any) -> dtype:"),
    ):
        assert line in (installed_core().parent / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted({*FILES} - {*SHOWN}))
def test_private_functions_have_no_types(name: str) -> None:
    tree = ast.parse((installed_core().parent / name).read_text(encoding="utf-8"))
    arguments = [node for node in ast.walk(tree) if isinstance(node, ast.arg)]
    assert not any(each.annotation for each in arguments)


@pytest.mark.parametrize("name", FILES)
def test_docstrings_stay_where_somebody_is_shown_them(name: str) -> None:
    installed = docstrings(ast.parse((installed_core().parent / name).read_text(encoding="utf-8")))
    assert sorted(installed) == sorted(shown(name))


@pytest.mark.parametrize("name", FILES)
def test_no_comment_stays(name: str) -> None:
    installed = (installed_core().parent / name).read_text(encoding="utf-8")
    tokens = tokenize.generate_tokens(io.StringIO(installed).readline)
    assert [t.string for t in tokens if t.type == tokenize.COMMENT] == []
