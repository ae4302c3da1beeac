"""Reads replays.toml, and finds the tests that it names."""

from __future__ import annotations

import ast
import csv
import functools
import re
import sys
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
TABLE = FOLDER / "replays.toml"
RESULTS = ROOT / "docs" / "results" / "replays.csv"
KINDS = ("real", "double", "own")


@dataclass(frozen=True)
class Case:
    id: str
    subject: str
    title: str
    reference: tuple[str, ...]
    broke: str
    cure: str
    test: str = ""
    kind: str = ""
    also: tuple[str, ...] = ()
    note: str = ""
    why_not: str = ""

    @property
    def tests(self) -> tuple[str, ...]:
        return (self.test, *self.also) if self.test else ()


@functools.cache
def load() -> tuple[Case, ...]:
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))["case"]
    return tuple(
        Case(**{k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}) for row in rows
    )


def split(node: str) -> tuple[Path, str, str]:
    """The file, the function and the parameters of a node id."""
    found = re.fullmatch(r"(tests/\w+/test_\w+\.py)::(test_\w+)(?:\[(.+)\])?", node)
    if found is None:
        raise ValueError(f"no node id: {node}")
    return ROOT / found[1], found[2], found[3] or ""


@functools.cache
def functions(file: Path) -> dict[str, ast.FunctionDef]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}


def exists(node: str) -> bool:
    """A test function of that name is there; the parameters name a check of the same file."""
    file, name, parameters = split(node)
    if not file.is_file() or name not in functions(file):
        return False
    return not parameters or f"check_{parameters.partition('-')[2]}" in functions(file)


def needs(node: str) -> tuple[str, ...]:
    """The requirements that the function states by `needs(...)`."""
    file, name, _ = split(node)
    return tuple(
        argument.value
        for decorator in functions(file)[name].decorator_list
        if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "needs"
        for argument in decorator.args
        if isinstance(argument, ast.Constant)
    )


def results() -> list[dict[str, str]]:
    """What ``report`` has written: tests, and the sessions in which they passed and failed."""
    return list(csv.DictReader(RESULTS.read_text(encoding="utf-8").splitlines()))
