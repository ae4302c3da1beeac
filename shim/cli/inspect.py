"""``python -m dlshim inspect``: what an object offers, and what a consumer will do with it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from ..text import in_one_line, printable
from ..trial.expressions import evaluate
from .output import Parser

if TYPE_CHECKING:
    from ..report import Report

INSPECT = """\
Say what an object offers and, with --to, what a function makes of it: each line is tried.

examples:
  python -m dlshim inspect "numpy.arange(6.)[::-1]" --to torch    what works, and what to type
  python -m dlshim inspect "polars.Series([1, None])"             what an object offers
  python -m dlshim inspect "jax.numpy.ones(3)" --to "f.g(x, n=1)" any call, written out

EXPR is Python code that is evaluated; the modules that it names are imported.  With --to a child
process evaluates it anew for each line, about 20 times at most, and makes the call: a call that
ends the process is told, and so are values, dtypes and read-only marks that get lost.
The exit status is 0 if it works as it is, 1 if it does not or cannot be told, 2 for wrong usage.
"""


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _by_name(value: Any) -> Any:
    """Return the fields of records by name, at every depth."""
    if hasattr(value, "_asdict"):
        return {name: _by_name(each) for name, each in value._asdict().items()}
    return [*map(_by_name, value)] if isinstance(value, tuple) else value


def main(arguments: list[str]) -> int:
    """Print the report; return the exit status."""
    parser = Parser("inspect", INSPECT)
    parser.add_argument("expression", metavar="EXPR")
    parser.add_argument("--to", metavar="CONSUMER", help="a library, a function, or a call of x")
    parser.add_argument("--export", action="store_true", help="look at one export, too")
    parser.add_argument("--all", action="store_true", help="show each line that was tried")
    parser.add_argument("--first", metavar="CODE", default="", help="code to run before EXPR")
    parser.add_argument("--json", action="store_true", help="print JSON")
    chosen = parser.parse_args(arguments)
    report = _report(parser, chosen) if chosen.to is None else _tried(parser, chosen)
    if report is None:
        return 1
    if chosen.json:
        import json

        print(json.dumps(_by_name(report), indent=1, default=str))
    else:
        print(_screen(chosen, report))
    works = all(verdict.bare.result == "works" for verdict in report.verdicts)
    return 0 if works and report.plan else 1


def _report(parser: Parser, chosen: argparse.Namespace) -> Report | None:
    """Return the report; None: the object cannot be inspected, which is told."""
    from ..report import inspect  # the help needs none of it

    # SystemExit is caught too: it would end the process without a report.
    try:
        exec(chosen.first, {"__name__": "__main__"})
        obj = evaluate(chosen.expression)
    except (Exception, SystemExit) as error:
        parser.error(f"EXPR cannot be evaluated: {_told(error)}")
    try:
        return inspect(obj, export=chosen.export)
    except (Exception, SystemExit) as error:
        _unseen(parser, _told(error))
    return None


def _tried(parser: Parser, chosen: argparse.Namespace) -> Report | None:
    """The same with what a consumer makes of the object; this process evaluates nothing."""
    from ..trial.asked import Unmade, Unseen, of_expression

    try:
        return of_expression(chosen.expression, chosen.to, export=chosen.export, first=chosen.first)
    except Unseen as error:
        _unseen(parser, str(error))
    except Unmade as error:
        parser.error(f"EXPR cannot be evaluated: {error}")
    except ValueError as error:
        parser.error(str(error))
    return None


def _unseen(parser: Parser, why: str) -> None:
    told = printable(f"the object cannot be inspected: {in_one_line(why)}", kept="")
    print(f"{parser.prog}: {told}", file=sys.stderr)


def _screen(chosen: argparse.Namespace, report: Report) -> str:
    """Return the report, or what was tried and a line about the object."""
    if not report.verdicts:
        return str(report)
    facts = [report.type_name, report.dtype, report.shape, report.readonly and "read-only"]
    told = ", ".join(str(each) for each in facts if each not in (None, False))
    lines = [f"x = {chosen.expression.strip()}    {printable(told, kept='')}"]
    for verdict in report.verdicts:
        lines.append(verdict.text(verdict.tried) if chosen.all else str(verdict))
        known = _explained(verdict.bare.why) if verdict.bare.result == "refused" else ""
        lines += [f"    why:  {known}"] if known else []
    return printable("\n".join(lines))


def _explained(message: str) -> str:
    """Return what ``explain`` knows of an error of another library; "": nothing."""
    from .explain import find

    return next((row.cause for row in find(message)[:1] if row.key != "any"), "")
