"""``python -m dlshim explain``: what an error message means, and what to type instead."""

from __future__ import annotations

import json
import re
import sys
import textwrap

from .messages import GENERAL, MESSAGES, Message
from .output import WIDTH, Parser

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

TEXT is the message, a whole traceback, or - to read it from standard input.
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


def _told(row: Message) -> list[str]:
    lines = []
    for head, text in ("why      ", row.cause), ("said by  ", row.versions):
        lines += textwrap.wrap(text, WIDTH, initial_indent=head, subsequent_indent=" " * 9)
    heads = ["type     ", *["or type  "] * len(row.cures)]
    return lines + [head + cure for head, cure in zip(heads, row.cures, strict=False)]


def main(arguments: list[str]) -> int:
    """Explain a message; return the exit status."""
    parser = Parser("explain", EXPLAIN)
    parser.add_argument("text", nargs="+", metavar="TEXT")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    given = options.text
    text = sys.stdin.read() if given == ["-"] else " ".join(given)
    if not text.strip():
        parser.error("the text is empty")
    rows = find(text)
    if options.json:
        told = [{name: getattr(row, name) for name in TOLD} for row in rows]
        print(json.dumps(told, indent=1))
        return 0 if rows else 1
    if not rows:
        print(UNKNOWN, end="")
        return 1
    lines = _told(rows[0])
    for row in rows[1:MOST]:
        lines += ["", "It may also be this:", *_told(row)]
    print(*lines, "", "consumer: the function that failed; x: what it was given", sep="\n")
    return 0
