"""Expressions as users type them: evaluated, called, and put in the place of x."""

from __future__ import annotations

import ast
import re
import sys
from importlib import import_module
from typing import Any

#: Modules by the names that their users give them.
_NAMED = {"np": "numpy", "jnp": "jax.numpy", "tf": "tensorflow", "pa": "pyarrow", "cp": "cupy"}


def evaluate(text: str, **given: Any) -> Any:
    """Return the value of an expression; each module that it turns out to lack is imported."""
    space: dict[str, Any] = {"__name__": "__main__", **given}  # the name is for classes
    while True:
        try:
            return eval(text.strip(), space)
        except NameError as error:
            if error.name is None or error.name in space:
                raise
            space[error.name] = import_module(_NAMED.get(error.name, error.name))
        except AttributeError as error:
            module = getattr(error.obj, "__name__", "")
            if module not in sys.modules or f"{module}.{error.name}" in sys.modules:
                raise
            import_module(f"{module}.{error.name}")


def modules_in(text: str) -> list[str]:
    """Return the dotted names of an expression that may be modules, such as ``jax.numpy``."""
    try:
        nodes = [*ast.walk(ast.parse(text.strip(), mode="eval"))]
    except (SyntaxError, ValueError):
        return []
    found = []
    for node in nodes:
        if isinstance(node, (ast.Attribute, ast.Name)):
            name = ast.unparse(node)
            if re.fullmatch(r"[A-Za-z_][\w.]*", name) and name != "x":
                found.append(name)
    return sorted({*found})


def import_named(text: str) -> None:
    """Import the modules of an expression before it is evaluated.

    What cannot be imported is left to the expression, which tells the error.
    """
    for name in modules_in(text):
        head, _, rest = name.partition(".")
        if head in dir(sys.modules["builtins"]):
            continue
        whole = ".".join(filter(None, (_NAMED.get(head, head), rest)))
        while whole:
            try:
                import_module(whole)
                break
            except Exception:
                whole = whole.rpartition(".")[0]


def call_of(to: str) -> str:
    """Return the call of x that a function, given as text, stands for.

    An expression in which x occurs is the call itself.
    """
    text = re.sub(r"^([A-Za-z_][\w.]*):([A-Za-z_][\w.]*)$", r"\1.\2", to.strip())
    tree = ast.parse(text, mode="eval")
    if any(isinstance(node, ast.Name) and node.id == "x" for node in _free(tree.body)):
        return ast.unparse(tree)
    function = ast.unparse(tree)
    return f"({function})(x)" if isinstance(tree.body, ast.Lambda) else f"{function}(x)"


def _free(body: ast.AST) -> list[ast.AST]:
    return [] if isinstance(body, ast.Lambda) else [*ast.walk(body)]


class _Put(ast.NodeTransformer):
    def __init__(self, given: str) -> None:
        self.given = given

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.parse(self.given, mode="eval").body if node.id == "x" else node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node


def line_of(cure: str, call: str) -> str:
    """Return a cure as the line that a user types; "": it cannot be tried.

    ``consumer(...)`` in it is the call of x; without one ("") only a cure that needs none is tried.
    """
    try:
        body = ast.parse(cure.strip(), mode="eval").body
    except SyntaxError:
        return ""
    names = {node.id for node in ast.walk(body) if isinstance(node, ast.Name)}
    if "consumer" not in names:
        return ast.unparse(body) if "x" in names else ""
    if not call or not isinstance(body, ast.Call) or ast.unparse(body.func) != "consumer":
        return ""
    return put(call, ast.unparse(body.args[0])) if len(body.args) == 1 > len(body.keywords) else ""


def put(call: str, given: str) -> str:
    """Return a call with another expression in the place of x."""
    return ast.unparse(_Put(given).visit(ast.parse(call, mode="eval")))
