"""The installed Python files are the source's, without comments and without the docstrings that
nobody is shown (setup.py)."""

from __future__ import annotations

import ast
import io
import tokenize

import pytest
from project.tree import ROOT, installed_core

import dlshim

PACKAGE = ROOT / "shim"
FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def is_rewritten() -> bool:
    """Whether the package was built by an interpreter that writes the files anew (setup.py)."""
    name = "arrays.py"
    return (installed_core().parent / name).read_bytes() != (PACKAGE / name).read_bytes()


rewritten = pytest.mark.skipif(
    not is_rewritten(), reason="CPython 3.12 or newer built it, and left the files as they are"
)

SHOWN = ("__init__.py", "arrays.py", "decorator.py", "enums.py", "known.py")
#: What users see: what the package lists, what `inspect` gives and what `track` gives.
NAMES = {*dlshim.__all__, "Protocol", "Tracking"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


def docstrings(tree: ast.AST) -> list[str]:
    """The names of what has one."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, DOCUMENTED)]
    return [getattr(node, "name", "") for node in nodes if ast.get_docstring(node) is not None]


def shown(name: str) -> list[str]:
    """The names of what keeps its docstring: what users see."""
    if name not in SHOWN:
        return []
    tree = ast.parse((PACKAGE / name).read_text(encoding="utf-8"))
    found = [""] if name == "__init__.py" else []
    for top in tree.body:
        if getattr(top, "name", "") in NAMES:
            found += [each for each in docstrings(top) if not each.startswith("_")]
    return found


#: What only types need.
TYPING = ("__future__", "typing", "collections.abc")


class Bare(ast.NodeTransformer):
    """Takes out types, what is imported for them, and docstrings."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom | None:
        return None if node.module in TYPING else node

    def visit_If(self, node: ast.If) -> ast.If | None:
        self.generic_visit(node)
        return None if ast.unparse(node.test) == "TYPE_CHECKING" else node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        """Fields stay fields, whatever their types."""
        for each in node.body:
            if isinstance(each, ast.AnnAssign):
                each.annotation = ast.Name("object")
            else:
                self.visit(each)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        return ast.Assign([node.target], node.value) if node.value else ast.Pass()

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.returns = None
        self.generic_visit(node)
        return node


def without_names(function: ast.FunctionDef) -> None:
    """Numbers what a function sets: variables have shorter names (setup.py)."""
    nodes = list(ast.walk(function))
    kept = {node.arg for node in nodes if isinstance(node, ast.arg)}
    kept |= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    kept |= {node.asname or node.name for node in nodes if isinstance(node, ast.alias)}
    names = [node for node in nodes if isinstance(node, ast.Name)]
    caught = [node for node in nodes if isinstance(node, ast.ExceptHandler) and node.name]
    own = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    own |= {str(node.name) for node in caught}
    number = {name: f"{at}th" for at, name in enumerate(dict.fromkeys(node.id for node in names))}
    for node in names:
        if node.id in own - kept:
            node.id = number[node.id]
    for node in caught:
        node.name = number.get(str(node.name), "")


def code(text: str) -> str:
    """Every node of the code but types, docstrings and the names of variables in functions."""
    tree = Bare().visit(ast.parse(text))
    for node in tree.body:
        for each in (node, *getattr(node, "body", ())):
            if isinstance(each, ast.FunctionDef):
                without_names(each)
    for node in ast.walk(tree):
        if not isinstance(node, DOCUMENTED):
            continue
        if node.body and ast.get_docstring(node) is not None:
            del node.body[0]
        node.body = [each for each in node.body if not isinstance(each, ast.Pass)]
    return ast.dump(tree)


@pytest.mark.parametrize("name", FILES)
def test_the_code_is_that_of_the_source(name: str) -> None:
    installed = (installed_core().parent / name).read_text(encoding="utf-8")
    source = (PACKAGE / name).read_text(encoding="utf-8")
    assert code(installed) == code(source)


@rewritten
def test_the_stub_is_that_of_the_source() -> None:
    """But for private functions, which have a name alone."""
    texts = [(folder / "_core.pyi").read_text() for folder in (installed_core().parent, PACKAGE)]
    installed, source = (ast.parse(text).body for text in texts)
    private = 0
    for at, node in enumerate(source):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("_"):
            (source[at],) = ast.parse(f"{node.name}: Any").body
            private += 1
    assert private
    assert [*map(ast.dump, installed)] == [*map(ast.dump, source)]


def test_functions_that_users_see_keep_their_types() -> None:
    for name, line in (
        ("known.py", "def inspect(obj: Any, "),
        ("arrays.py", "value: Any) -> dtype:"),
    ):
        installed = (installed_core().parent / name).read_text(encoding="utf-8")
        assert line in ast.unparse(ast.parse(installed))


@rewritten
@pytest.mark.parametrize("name", sorted({*FILES} - {*SHOWN}))
def test_what_is_private_has_no_types(name: str) -> None:
    tree = ast.parse((installed_core().parent / name).read_text(encoding="utf-8"))
    arguments = [node for node in ast.walk(tree) if isinstance(node, ast.arg)]
    assert not any(each.annotation for each in arguments)
    fields = [node for node in ast.walk(tree) if isinstance(node, ast.AnnAssign)]
    assert {ast.unparse(each.annotation) for each in fields} <= {"object"}


@rewritten
@pytest.mark.parametrize("name", FILES)
def test_docstrings_stay_where_somebody_is_shown_them(name: str) -> None:
    installed = docstrings(ast.parse((installed_core().parent / name).read_text(encoding="utf-8")))
    assert sorted(installed) == sorted(shown(name))


@rewritten
@pytest.mark.parametrize("name", FILES)
def test_no_comment_stays(name: str) -> None:
    installed = (installed_core().parent / name).read_text(encoding="utf-8")
    tokens = tokenize.generate_tokens(io.StringIO(installed).readline)
    assert [t.string for t in tokens if t.type == tokenize.COMMENT] == []
