"""``python -m dlshim inspect``: what an object offers, and what a consumer will do with it."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

from ..report import inspect
from ..text import printable
from .output import Parser

INSPECT = """\
Say what an object offers and, with --to, what a consumer will do with it, and the cure.
EXPR is Python code that is evaluated; the modules that it names are imported.

exit status: 0 it works as it is, 1 it does not or cannot be told, 2 wrong usage

examples:
  python -m dlshim inspect "numpy.arange(6.)[::-1]" --to torch
  python -m dlshim inspect "b'bytes'" --to pyarrow --json

consumers: """
_NAMED = {"np": "numpy", "jnp": "jax.numpy", "tf": "tensorflow", "pa": "pyarrow", "cp": "cupy"}


def evaluate(text: str) -> Any:
    """Return the value of an expression; each module that it turns out to lack is imported."""
    from importlib import import_module

    space: dict[str, Any] = {}
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


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _consumers() -> str:
    from ..consumers import names

    return ", ".join(names())


def main(arguments: list[str]) -> int:
    """Print the report; return the exit status."""
    parser = Parser("inspect", INSPECT, _consumers)
    parser.add_argument("expression", metavar="EXPR")
    parser.add_argument("--to", metavar="CONSUMER", help="a library or one of its functions")
    parser.add_argument("--export", action="store_true", help="look at one export, too")
    parser.add_argument("--json", action="store_true", help="print JSON")
    chosen = parser.parse_args(arguments)
    # SystemExit is caught too: it would end the process without a report.
    try:
        obj = evaluate(chosen.expression)
    except (Exception, SystemExit) as error:
        parser.error(f"EXPR cannot be evaluated: {_told(error)}")
    try:
        report = inspect(obj, export=chosen.export, consumer=chosen.to)
    except ValueError as error:
        parser.error(str(error))
    except (Exception, SystemExit) as error:
        told = printable(f"the object cannot be inspected: {_told(error)}", kept="")
        print(f"{parser.prog}: {told}", file=sys.stderr)
        return 1
    if chosen.json:
        print(json.dumps(dataclasses.asdict(report), indent=1, default=str))
    else:
        print(report)
    works = all(verdict.bare.result == "works" for verdict in report.verdicts)
    return 0 if works and report.plan else 1
