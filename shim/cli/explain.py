"""``python -m dlshim explain``: what an error message means, and what to type instead."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..text import printable
from .messages import GENERAL, MESSAGES, Message
from .output import WIDTH, Parser

if TYPE_CHECKING:
    import argparse

    from ..report import Outcome

#: More matches than these are not told.
MOST = 3
#: The members of a row that JSON has.
TOLD = ("key", "versions", "cause", "cures")

EXPLAIN = """\
Say what an error message around arrays means, and what to type instead.

examples:
  python -m dlshim explain "Cannot export readonly array since signalling readonly ..."
  python my_program.py 2>&1 | python -m dlshim explain -
  python -m dlshim explain --json "..."     every row that fits, the best first, for a program
  python -m dlshim explain "..." --with "numpy.arange(6.)[::-1]" --to torch    and try the cures

TEXT is the message, a whole traceback, or - to read it from standard input.  With --with a child
process evaluates EXPR, anew for each cure, and types the cure; --to names the function that failed.
The exit status is 0 if the message is known, 1 if it is not.
"""

UNKNOWN = """\
This message is not known.  What to do next:
  consumer(dlshim.upgrade(x))              errors of dlshim name their cure
  dlshim.to(x, "torch")                    an array of a library that you name, of any array
  print(dlshim.inspect(x, export=True))    what an object offers
  python -m dlshim doctor                  known faults of the libraries that are installed
"""

#: The beginning of an exception's text; the last one of a traceback is the exception raised.
_ERROR = re.compile(r"^(?:[\w.]+(?:Error|Exception|Warning)\b|terminate called)", re.M)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def find(text: str) -> list[Message]:
    """The rows that match a text, the best first: those of its last error, then the others."""
    text = _COLOUR.sub("", text)
    last = [found.start() for found in _ERROR.finditer(text)][-1:]
    rows: dict[str, Message] = {}
    for part in (text[last[0] if last else 0 :], text):
        one_line = " ".join(part.split())
        rows |= {row.key: row for row in MESSAGES if row.key not in rows and row.matches(one_line)}
    return [row for row in rows.values() if row not in GENERAL] or [*rows.values()][:1]


def _told(row: Message, tried: Mapping[str, Outcome]) -> list[str]:
    lines = []
    for head, text in ("why      ", row.cause), ("said by  ", row.versions):
        lines += textwrap.wrap(text, WIDTH, initial_indent=head, subsequent_indent=" " * 9)
    heads = ["type     ", *["or type  "] * len(row.cures)]
    for head, cure in zip(heads, row.cures, strict=False):
        lines.append(head + cure)
        if outcome := tried.get(cure):
            lines += [f"           {outcome.mark} {outcome.line}", f"             {outcome}"]
    return lines


def _try(
    parser: Parser, rows: list[Message], options: argparse.Namespace
) -> Mapping[str, Outcome] | None:
    """Return what came of the cures of some rows, each tried once; None: nothing is to be tried."""
    if options.expression is None:
        if options.to is not None:
            parser.error("--to names the function of the expression that --with gives")
        return None
    from ..trial.asked import Unmade, of_cures  # the help needs none of it

    cures = dict.fromkeys(cure for row in rows for cure in row.cures)
    try:
        return of_cures([*cures], options.expression, options.to)
    except Unmade as error:
        parser.error(f"EXPR cannot be evaluated: {error}")
    except ValueError as error:
        parser.error(str(error))
    return None


def main(arguments: list[str]) -> int:
    """Explain a message; return the exit status."""
    parser = Parser("explain", EXPLAIN)
    parser.add_argument("text", nargs="+", metavar="TEXT")
    parser.add_argument("--with", dest="expression", metavar="EXPR", help="try the cures on this")
    parser.add_argument("--to", metavar="CONSUMER", help="the function that failed")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    given = options.text
    text = sys.stdin.read() if given == ["-"] else " ".join(given)
    if not text.strip():
        parser.error("the text is empty")
    rows = find(text)
    if not rows:
        print("[]" if options.json else UNKNOWN, end="\n" if options.json else "")
        return 1
    tried = _try(parser, rows if options.json else rows[:MOST], options)
    if options.json:
        told = [{name: getattr(row, name) for name in TOLD} for row in rows]
        for row, each in zip(rows, told, strict=True):
            if tried is not None:
                each["tried"] = {cure: tried[cure].result for cure in row.cures if cure in tried}
        print(json.dumps(told, indent=1))
        return 0
    lines = _told(rows[0], tried or {})
    for row in rows[1:MOST]:
        lines += ["", "It may also be this:", *_told(row, tried or {})]
    names = "consumer: the function that failed; x: what it was given"
    if tried is not None and options.to is None:
        names += "; --to FUNCTION tries the lines with consumer, too"
    print(printable("\n".join([*lines, "", names])))
    return 0
