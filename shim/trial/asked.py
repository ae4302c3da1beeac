"""What came of trials, as the verdicts of ``inspect``: from Python, and for its command."""

from __future__ import annotations

import ast
import atexit
import base64
import os
import pickle
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..locks import changing
from ..report import Outcome, Report, Verdict
from ..text import in_one_line
from . import remake, ways
from .expressions import call_of, line_of
from .parent import Child

if TYPE_CHECKING:
    Make = dict[str, Any]

#: The line that an object which cannot be remade is asked about with.
_PASTE = 'type  python -m dlshim inspect "<how you make it>" --to {}'


class Unmade(Exception):
    """The object cannot be made in the child."""


# ---- trials -------------------------------------------------------------------------------------


class Trial:
    """An object and a call that are tried, and the outcome of each line."""

    def __init__(self, child: Child, make: Make, call: str) -> None:
        self.child, self.make, self.call = child, make, call
        self.outcomes: list[Outcome] = []
        self.deaths = 0

    def attempt(self, line: str) -> Outcome:
        """Try a line; Unmade: the object cannot be made."""
        answer = self.child.ask(do="attempt", make=self.make, line=line, call=self.call)
        outcome = outcome_of(line, answer)
        self.deaths += outcome.result == "dies"
        if outcome.result == "hangs":
            self.deaths = ways.DEATHS
        self.outcomes.append(outcome)
        return outcome

    def with_dlshim(self) -> None:
        """Try the lines of dlshim, the plain one first: before any look at what dlshim learns."""
        lines = ways.lines(self.call)
        line: str | None = next(lines)
        while line is not None and self.deaths < ways.DEATHS:
            outcome = self.attempt(line)
            try:
                line = lines.send(outcome)
            except StopIteration:
                line = None

    def bare(self) -> None:
        """Try the lines without dlshim, which may harm the child."""
        good = any(map(ways.is_good, self.outcomes))
        for line in ways.bare_lines(self.call, good):
            if line == self.call or self.deaths < ways.DEATHS:
                self.attempt(line)

    def verdict(self, name: str, version: str | None, remade: str = "") -> Verdict:
        by_line = {each.line: each for each in self.outcomes}
        bare, upgraded = by_line[self.call], self.outcomes[0]
        best = ways.best(self.outcomes)
        fine = ways.is_good(bare) and ways.is_good(upgraded)
        faults = [in_one_line(each.why) for each in (bare, upgraded) if each.why]
        return Verdict(
            name,
            version,
            bare,
            upgraded,
            what="; ".join(dict.fromkeys([*bare.what, *upgraded.what])),
            why="; upgraded: ".join(dict.fromkeys(faults)),
            cure="" if fine or best is None else best.line,
            tried=tuple(self.outcomes),
            remade=remade,
        )


def outcome_of(line: str, answer: dict[str, Any]) -> Outcome:
    """Return the outcome that an answer of the child tells."""
    if "unmade" in answer or "failed" in answer:
        raise Unmade(answer.get("unmade") or answer["failed"])
    step = answer.get("step")
    if step in ("import", "make"):
        raise Unmade(f"it ends the process: {answer.get('died') or answer['hangs']}")
    ended = answer.get("died") or answer.get("hangs")
    kept = step in ("write", "end") and "result" in answer
    what = list(answer.get("what", ()))
    if ended and kept:  # the call itself was all right
        what.append(f"a write into the result ends the process: {ended}")
    result = answer.get("result", "works") if not ended or kept else ""
    if not result:
        return Outcome(
            line,
            "dies" if "died" in answer else "hangs",
            why=f"{ended}, {ways.IN_OPERATION}" if step == "operation" else str(ended),
        )
    return Outcome(
        line,
        result,
        copied=answer.get("copied"),
        writable=answer.get("writable"),
        raises=tuple(answer.get("raises", ())),
        why=answer.get("why", ""),
        what=tuple(what),
        warnings=tuple(answer.get("warnings", ())),
        compared=answer.get("compared", ""),
    )


def try_all(trials: Iterable[Trial]) -> None:
    """Carry out trials; what is bare comes last of all."""
    trials = list(trials)
    for each in trials:
        each.with_dlshim()
    for each in trials:
        each.bare()


# ---- consumers ----------------------------------------------------------------------------------


def function_of(child: Child, consumer: str) -> tuple[str, str, str | None]:
    """Return the name, the call and the release of a consumer that text names.

    ValueError: it is no function that can be imported here.
    """
    try:
        call = call_of(consumer)
    except (SyntaxError, ValueError):
        raise ValueError(
            f"consumer {consumer!r} is no library, function or expression of x"
        ) from None
    name = consumer.strip()
    if call != f"{name.replace(':', '.')}(x)":
        head = _head(call)
        version = child.ask(do="version", name=head).get("version") if head else None
        return name, call, version
    usual = "." not in name and ":" not in name
    told = child.ask(do="function", name=name.replace(":", "."), usual=usual)
    if told.get("missing") and name in ("mlx.core", "jax.numpy"):
        told = child.ask(do="function", name=name, usual=True)
    if "unmade" in told:  # by the code that is run first
        raise Unmade(told["unmade"])
    if "name" not in told:
        why = told.get("missing") or told.get("died") or told.get("hangs") or told.get("failed")
        raise ValueError(f"consumer {consumer!r} cannot be used: {why}")
    return told["name"], f"{told['name']}(x)", told["version"]


def _head(call: str) -> str:
    """Return the name of the function of a call; "": it is another expression."""
    body = ast.parse(call, mode="eval").body
    return ast.unparse(body.func) if isinstance(body, ast.Call) else ""


# ---- from Python --------------------------------------------------------------------------------

_warm: tuple[dict[str, Any], Child] | None = None


def _child() -> Child:
    """Return the child of this process, which is kept while it lives."""
    global _warm
    state = remake.state()
    with changing:
        if _warm is not None and _warm[0] != state:
            with _warm[1].busy:
                _close()
        if _warm is None:
            _warm = state, Child(**state)
        return _warm[1]


def _close() -> None:
    global _warm
    warm, _warm = _warm, None
    if warm is not None:
        warm[1].close()


def _forget() -> None:
    """Leave the child to the process that was forked."""
    global _warm
    warm, _warm = _warm, None
    if warm is not None:
        warm[1].forget()


atexit.register(_close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def verdicts(obj: Any, report: Report, consumer: Any) -> tuple[Verdict, ...]:
    """Return the verdict of a consumer on an object of this process, which is made anew."""
    if isinstance(consumer, type(os)):
        consumer = consumer.__name__
    if not isinstance(consumer, str) and not callable(consumer):
        kind = type(consumer).__name__
        raise ValueError(f"consumer {consumer!r} of type {kind} is no library and no function")
    name = consumer if isinstance(consumer, str) else _called(consumer)
    child, version = _child(), None
    with child.busy:
        try:
            remake.check(report)
            if not isinstance(consumer, str):
                name = remake.path_of(consumer)
            name, call, version = function_of(child, name)
            make, unlike = remake.remake(obj)
            told = child.ask(do="report", make=make, export=False)
            if "report" not in told:
                why = told.get("unmade") or told.get("unseen") or told.get("died")
                raise remake.NotRemade(f"it cannot be made in a new process: {why}")
            trial = Trial(child, make, call)
            try_all([trial])
        except (remake.NotRemade, Unmade) as error:
            return (_untried(name, version, str(error)),)
        except (OSError, RuntimeError) as error:  # such as an interpreter that may have no threads
            why = f"no child process can be had ({type(error).__name__}: {error})"
            return (_untried(name, version, why),)
    other = pickle.loads(base64.b64decode(told["report"]))
    if not unlike:
        unlike = remake.differences(obj, report, other, told["more"])
        unlike = unlike and f"a copy that is unlike x: {unlike}"
    return (trial.verdict(name, version, unlike),)


def _called(consumer: Any) -> str:
    return f"{getattr(consumer, '__module__', '?')}.{getattr(consumer, '__qualname__', '?')}"


def _untried(name: str, version: str | None, why: str) -> Verdict:
    line = Outcome("", "not tried", why=f"{why}: {_PASTE.format(name)}")
    return Verdict(name, version, line, line, why=line.why)


# ---- for the command ----------------------------------------------------------------------------


def of_expression(expression: str, consumer: str, *, export: bool, first: str = "") -> Report:
    """Return the report of an expression and the verdict of a consumer; a child makes all.

    ValueError: the consumer cannot be used; Unmade: the expression cannot be evaluated.
    """
    child = Child(first=first)
    try:
        name, call, version = function_of(child, consumer)
        make = {"expression": expression}
        trial = Trial(child, make, call)
        trial.with_dlshim()
        told = child.ask(do="report", make=make, export=export)
        trial.bare()
    finally:
        child.close()
    if "unmade" in told:
        raise Unmade(told["unmade"])
    if "report" not in told:
        raise Unseen(told.get("unseen") or told.get("died") or told.get("hangs"))
    report: Report = pickle.loads(base64.b64decode(told["report"]))
    return report._replace(verdicts=(trial.verdict(name, version),))


class Unseen(Exception):
    """The object cannot be inspected."""


def of_cures(cures: Sequence[str], expression: str, consumer: str | None) -> dict[str, Outcome]:
    """Return what came of the cures of an error, by their text; those that can be tried.

    consumer: the function that failed, or None.  ValueError: it cannot be used; Unmade: the
    expression cannot be evaluated.
    """
    child = Child()
    try:
        call = function_of(child, consumer)[1] if consumer is not None else ""
        found = {}
        for cure in cures:
            if line := line_of(cure, call):
                found[cure] = Trial(child, {"expression": expression}, call or "x").attempt(line)
        return found
    finally:
        child.close()
