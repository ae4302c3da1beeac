"""Which lines are tried, the next one by what came of the last, and which of them is advised."""

from __future__ import annotations

import ast
import re
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from .expressions import put

if TYPE_CHECKING:
    from ..report import Outcome

#: An object and a function are not tried with more lines than these.
MOST = 18
#: After so many deaths of one object and function no other line is tried.
DEATHS = 4

_OPTION = re.compile(
    r"""\b(?:order|readonly|reinterpret|device|stream)=["']\w+["']|\b(?:detach|copy)=True"""
    r"""|\breadonly=False"""
)
#: Where a message names an expression: "pass x.detach() instead".
_BEFORE = re.compile(r"(?:\bpass|\bcall|\bor|\bwith|\be\.g\.|[:;]|\n ) (?=[\w(\[])")

#: The end of what is said of a process that ended after the call.
IN_OPERATION = "in its first operation"

#: Options that may help where a message names none.
_OPTIONS = ("order='auto'", "order='C'", "device='cpu'")
#: Other objects that a function may take, between the two that have options.
_OTHERS = ("numpy.asarray(dlshim.upgrade(x))", "dlshim.from_dlpack(x)")
#: Errors by which a function says that it takes no such object, whatever its options.
_NO_SUCH = ("TypeError", "AttributeError")


def is_good(outcome: Outcome) -> bool:
    """Whether a line keeps everything, and nothing is to be said of it."""
    return outcome.result == "works" and not outcome.what and not outcome.warnings


def options_in(said: str) -> list[str]:
    return list(dict.fromkeys(each.replace('"', "'") for each in _OPTION.findall(said)))


def expressions_in(said: str) -> list[str]:
    """Return the expressions of x that a message names, with values for what it leaves open."""
    found = []
    for match in _BEFORE.finditer(said):
        rest = said[match.end() :]
        for end in reversed([each.end() for each in re.finditer(r"[\w)\]]", rest)]):
            if _is_of_x(rest[:end]):
                found.append(_filled(rest[:end]))
                break
    return list(dict.fromkeys(found))


def _is_of_x(text: str) -> bool:
    try:
        body = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return False
    names = {each.id for each in ast.walk(body) if isinstance(each, ast.Name)}
    return isinstance(body, (ast.Call, ast.Subscript, ast.Attribute)) and "x" in names


def _filled(text: str) -> str:
    return re.sub(r"\((?:\.\.\.|value)\)", "(0)", text)


def given(function: str, expression: str, options: tuple[str, ...] = ()) -> str:
    return f"dlshim.{function}({', '.join((expression, *options))})"


def lines(call: str) -> Generator[str, Outcome, None]:
    """Yield lines to try, and take the outcome of each; the bare one comes last, elsewhere."""
    tried: set[str] = set()
    if (yield from search(call, "upgrade", tried)):
        return
    for other in _OTHERS:
        if is_good((yield put(call, other))):
            return
    # TensorFlow, which takes capsules alone, dies of memory that is aligned by chance only.
    yield from search(call, "to_capsule", tried, ("align=64",))


def search(
    call: str, function: str, tried: set[str], always: tuple[str, ...] = ()
) -> Generator[str, Outcome, bool]:
    """Yield lines with a function of dlshim, the plain one first; return whether one is good."""
    todo: list[tuple[str, tuple[str, ...]]] = [("x", ())]
    while todo and len(tried) < MOST - len(_OTHERS) - 2:
        expression, options = todo.pop(0)
        line = put(call, given(function, expression, (*options, *always)))
        if line in tried or {*options} & {*always}:
            continue
        tried.add(line)
        outcome = yield line
        if is_good(outcome):
            return True
        if len(options) < 2 and expression.count("(") < 3:
            todo[:0] = _next(expression, options, outcome)
    return False


def _next(
    expression: str, options: tuple[str, ...], outcome: Outcome
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what may do better than a line: what its message names first."""
    if outcome.result == "works":  # it warns, or writes into read-only memory
        yield expression, (*options, "readonly='copy'")
        yield expression, (*options, "copy=True")
        return
    if outcome.result != "refused":
        if not options and outcome.why.endswith(IN_OPERATION):  # as unaligned memory does
            yield expression, ("align=64",)
        elif not options and expression == "x" and outcome.result in ("dies", "wrong"):
            yield expression, ("order='C'",)
        return
    known = [option.partition("=")[0] for option in options]
    named = [each for each in options_in(outcome.why) if each.partition("=")[0] not in known]
    for each in named:
        yield expression, (*options, each)
    found = expressions_in(outcome.why)
    for each in found:
        yield (each if expression == "x" else put(each, expression)), options
    if not named and not found and not options and outcome.raises[0] not in _NO_SUCH:
        for each in _OPTIONS:
            yield expression, (each,)


def bare_lines(call: str, good: bool) -> list[str]:
    """Return the lines without dlshim: they may harm the child, so they are tried last."""
    return [call] if good else [call, put(call, "numpy.asarray(x)")]


def best(outcomes: list[Outcome]) -> Outcome | None:
    """Return the line to use, the shortest of those that keep the most; None: none does."""
    works = [each for each in outcomes if each.result == "works"]
    return min(works, key=_rank, default=None)


def _rank(outcome: Outcome) -> tuple[bool, bool, bool, int]:
    return (bool(outcome.what), bool(outcome.warnings), outcome.copied is True, len(outcome.line))
