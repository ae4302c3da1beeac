"""Loads an installed test module with `dlshim.upgrade` put around every object it exchanges.

The source is rewritten, not the libraries: NumPy's and pyarrow's types are immutable, and their
tests call ``x.__dlpack__(...)`` themselves as often as they hand ``x`` to ``from_dlpack``. What is
rewritten is exactly

    x.__dlpack__, x.__dlpack_device__   to   upgrade(x).__dlpack__, ...
    anything.from_dlpack(x, ...)        to   anything.from_dlpack(upgrade(x), ...)
    from_dlpack(x, ...)                 to   from_dlpack(upgrade(x), ...)

but for ``super()``, where a test builds a producer of its own. A suite whose library takes arrays
by other functions names them, and every argument of those is upgraded that offers DLPack.
"""

from __future__ import annotations

import ast
import re
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import dlshim

UPGRADE = "_upgraded"
PROTOCOL = {"__dlpack__", "__dlpack_device__"}


class Amendment(NamedTuple):
    """One expectation of a foreign test that is replaced, and why."""

    reason: str
    old: str
    new: str
    times: int = 1


class Tally:
    """How many objects one module had upgraded."""

    def __init__(self) -> None:
        self.places = 0
        self.upgraded = 0

    def upgrade(self, obj: Any) -> dlshim.Producer:
        producer = dlshim.upgrade(obj)
        self.upgraded += 1
        return producer


class PutUpgradeIn(ast.NodeTransformer):
    def __init__(self, taking: str = "") -> None:
        """``taking`` matches the text of functions whose arguments are all wrapped."""
        self.places = 0
        self.taking = taking

    def wrap(self, node: ast.expr) -> ast.expr:
        self.places += 1
        return ast.Call(ast.Name(UPGRADE, ast.Load()), [node], [])

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        on_super = (
            isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Name)
            and node.value.func.id == "super"
        )
        if node.attr in PROTOCOL and isinstance(node.ctx, ast.Load) and not on_super:
            node.value = self.wrap(node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        called = ast.unparse(node.func)
        if self.taking and re.fullmatch(self.taking, called):
            wrapped = len(node.args)
        else:
            wrapped = int(called.rpartition(".")[2] == "from_dlpack")
        for at, argument in enumerate(node.args[:wrapped]):
            if not isinstance(argument, (ast.Constant, ast.Starred)):
                node.args[at] = self.wrap(argument)
        return node


def amend(source: str, amendments: list[Amendment], where: str) -> str:
    for reason, old, new, times in amendments:
        if source.count(old) != times:
            raise AssertionError(
                f"{where} has {source.count(old)} times, not {times}, what is amended because "
                f"{reason!r}:\n{old}"
            )
        source = source.replace(old, new)
    return source


def load(name: str, amendments: list[Amendment]) -> tuple[ModuleType, Tally]:
    spec = util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{name} is not installed: its package ships no tests")
    source = amend(Path(spec.origin).read_text(encoding="utf-8"), amendments, name)
    tree, rewriter, tally = ast.parse(source), PutUpgradeIn(), Tally()
    tree = ast.fix_missing_locations(rewriter.visit(tree))
    tally.places = rewriter.places
    module = ModuleType(f"upgraded.{name}")
    module.__file__ = spec.origin
    setattr(module, UPGRADE, tally.upgrade)
    exec(compile(tree, spec.origin, "exec"), vars(module))
    return module, tally
