"""Draws small faults at random from C and Python text: see mutant_matrix.py.

A file yields its candidates by kind; a draw takes a file by its size, then a kind, then one of
them.  The same seed and the same text give the same draws.
"""

from __future__ import annotations

import ast
import copy
import random
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple


class Change(NamedTuple):
    """Bytes of a file, and what stands there instead."""

    kind: str
    begin: int
    end: int
    instead: bytes

    def apply(self, text: bytes) -> bytes:
        return text[: self.begin] + self.instead + text[self.end :]


SWAPS = {
    "==": "!=",
    "!=": "==",
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "&&": "||",
    "||": "&&",
    "+": "-",
    "-": "+",
    "&": "|",
    "|": "&",
    "<<": ">>",
    ">>": "<<",
    "+=": "-=",
    "-=": "+=",
    "|=": "&=",
    "&=": "|=",
}

# ---- C -----------------------------------------------------------------------------------------

#: What is no code of a function: comments, texts, directives with their continuations, and asserts,
#: of which one is the compiler's and the other is not in a wheel.
NO_CODE = re.compile(
    rb'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    rb"|^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*|\b(?:_?[Ss]tatic_)?assert\s*\([^;]*;",
    re.S | re.M,
)
#: clang-format sets spaces around the operators of two operands, and around no others.
OPERATOR = re.compile(rb"(?<=\s)(?:[=!<>+&|-]=|&&|\|\||<<|>>|[<>+&|-])(?=\s)")
CONSTANT = re.compile(rb"(?<![\w.])(?:\d+|true|false)(?![\w.])")
CALL = re.compile(rb"[;{}]\s*((?!(?:if|for|while|switch|return)\b)\w+\([^;{}]*\);)")
RETURN = re.compile(rb"\breturn\s+([^;{}]+);")
CONDITION = re.compile(rb"\b(?:if|while) \(")


def closing(text: bytes, begin: int) -> int:
    """Where the bracket closes that was opened just before."""
    depth = 1
    for at in range(begin, len(text)):
        depth += {40: 1, 41: -1}.get(text[at], 0)
        if depth == 0:
            return at
    return begin


def other_constant(word: bytes) -> bytes:
    if word.isdigit():
        return b"%d" % (int(word, 8 if word.startswith(b"0") else 10) + 1)
    return b"true" if word == b"false" else b"false"


def c_changes(text: bytes) -> Iterator[Change]:
    code = NO_CODE.sub(lambda found: re.sub(rb"[^\n]", b" ", found[0]), text)
    for found in OPERATOR.finditer(code):
        if swap := SWAPS.get(found[0].decode()):
            yield Change("operator", *found.span(), swap.encode())
    for found in CONSTANT.finditer(code):
        yield Change("constant", *found.span(), other_constant(found[0]))
    for found in CALL.finditer(code):
        yield Change("call dropped", *found.span(1), b";")
    for found in RETURN.finditer(code):
        value = found[1].strip()
        instead = {b"false": b"true", b"0": b"1"}.get(value, b"0")
        if value != b"NULL":
            yield Change("return", *found.span(1), instead)
    for found in CONDITION.finditer(code):
        begin, end = found.end(), closing(code, found.end())
        for instead in (b"!(" + text[begin:end] + b")", b"1", b"0"):
            yield Change("condition", begin, end, instead)


# ---- Python ------------------------------------------------------------------------------------

PY_SWAPS = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


def py_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Without texts that are made of parts (their positions are right since 3.12 only), and without
    annotations, which nothing reads."""
    yield node
    for name, value in ast.iter_fields(node):
        for each in value if isinstance(value, list) else [value]:
            skipped = name in ("annotation", "returns") or isinstance(each, ast.JoinedStr)
            if isinstance(each, ast.AST) and not skipped:
                yield from py_nodes(each)


def swapped(node: ast.AST) -> ast.AST | None:
    """The same with another operator."""
    new = copy.copy(node)
    if isinstance(new, ast.Compare) and type(new.ops[0]) in PY_SWAPS:
        new.ops = [PY_SWAPS[type(new.ops[0])](), *new.ops[1:]]
    elif isinstance(new, ast.BoolOp | ast.BinOp) and type(new.op) in PY_SWAPS:
        new.op = PY_SWAPS[type(new.op)]()
    else:
        return None
    return new


def py_instead(node: ast.AST) -> Iterator[tuple[str, ast.AST, str]]:
    """What can be done with a node: the kind, the part that goes, and what comes."""
    if new := swapped(node):
        yield "operator", node, f"({ast.unparse(new)})"
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        other = not node.value if isinstance(node.value, bool) else node.value + 1
        yield "constant", node, repr(other)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "call dropped", node, "None"
    if isinstance(node, ast.Return) and node.value and ast.unparse(node.value) != "None":
        yield "return", node.value, "None"
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        for instead in (f"(not ({ast.unparse(node.test)}))", "True", "False"):
            yield "condition", node.test, instead


def py_changes(text: bytes) -> Iterator[Change]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in py_nodes(ast.parse(text)):
        for kind, part, instead in py_instead(node):
            begin = starts[part.lineno - 1] + part.col_offset
            end = starts[part.end_lineno - 1] + part.end_col_offset
            yield Change(kind, begin, end, instead.encode())


# ---- the draw ----------------------------------------------------------------------------------


def changes(name: str, text: bytes) -> dict[str, list[Change]]:
    """By kind."""
    found: dict[str, list[Change]] = {}
    for each in (py_changes if name.endswith(".py") else c_changes)(text):
        found.setdefault(each.kind, []).append(each)
    return found


def draw(texts: Mapping[str, bytes], seed: int) -> Iterator[tuple[str, Change]]:
    """Changes of these files, none of them twice, until a thousand draws find no new one."""
    by_file = {name: changes(name, text) for name, text in sorted(texts.items())}
    names = [name for name, found in by_file.items() if found]
    weights = [len(texts[name]) for name in names]
    chance, seen, idle = random.Random(seed), set(), 0
    while idle < 1000:
        (name,) = chance.choices(names, weights)
        found = by_file[name]
        one = name, chance.choice(found[chance.choice(sorted(found))])
        idle = idle + 1 if one in seen else 0
        if not idle:
            seen.add(one)
            yield one
