"""``python -m dlshim inspect``: what an object offers, and what a consumer will do with it."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING, Any

from ..text import printable
from .output import WIDTH, Parser

if TYPE_CHECKING:
    from ..report import Report

INSPECT = """\
Say what an object offers and, with --to, what a consumer will do with it, and the cure.

examples:
  python -m dlshim inspect "numpy.arange(6.)[::-1]" --to torch    will it work, and what cures it
  python -m dlshim inspect "polars.Series([1, None])"             what an object offers
  python -m dlshim inspect "b'bytes'" --to numpy.from_dlpack --json

EXPR is Python code that is evaluated; the modules that it names are imported.
The exit status is 0 if it works as it is, 1 if it does not or cannot be told, 2 for wrong usage.

consumers, and their functions:
"""
_NAMED = {"np": "numpy", "jnp": "jax.numpy", "tf": "tensorflow", "pa": "pyarrow", "cp": "cupy"}


def evaluate(text: str) -> Any:
    """Return the value of an expression; each module that it turns out to lack is imported."""
    from importlib import import_module

    space: dict[str, Any] = {"__name__": "__main__"}  # of classes that are made
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
    """A line for each library: its name, and its functions, which may be named too."""
    from ..consumers import CONSUMERS, family_of

    functions: dict[str, list[str]] = {}
    for row in CONSUMERS:
        known = functions.setdefault(family_of(row), [])
        if row.name not in known and row.name != family_of(row):
            known.append(row.name)
    width = max(map(len, functions)) + 2
    lines = []
    for name, theirs in sorted(functions.items()):
        told = ", ".join(f'"{each}"' if "," in each else each for each in theirs)
        head = f"  {name:<{width}}"
        fold = textwrap.TextWrapper(WIDTH, initial_indent=head, subsequent_indent=" " * len(head))
        fold.break_long_words = fold.break_on_hyphens = False
        lines += fold.wrap(told) or [head.rstrip()]
    return "\n".join(lines)


def unseen(report: Report) -> bool:
    """Whether only an export tells what a consumer will do, and it waits for no device."""
    from ..arrays import HOST_DEVICES

    on_host = report.device is None or report.device[0] in HOST_DEVICES
    known = {each.version and each.upgraded.result for each in report.verdicts}
    return on_host and "unknown" in known and report.shape is None


def _by_name(value: Any) -> Any:
    """Return the fields of records by name, at every depth."""
    if hasattr(value, "_asdict"):
        return {name: _by_name(each) for name, each in value._asdict().items()}
    return [*map(_by_name, value)] if isinstance(value, tuple) else value


def main(arguments: list[str]) -> int:
    """Print the report; return the exit status."""
    parser = Parser("inspect", INSPECT, _consumers)
    parser.add_argument("expression", metavar="EXPR")
    parser.add_argument("--to", metavar="CONSUMER", help="a library or one of its functions")
    parser.add_argument("--export", action="store_true", help="look at one export, too")
    parser.add_argument("--json", action="store_true", help="print JSON")
    chosen = parser.parse_args(arguments)

    from ..report import inspect  # the help needs none of it

    # SystemExit is caught too: it would end the process without a report.
    try:
        obj = evaluate(chosen.expression)
    except (Exception, SystemExit) as error:
        parser.error(f"EXPR cannot be evaluated: {_told(error)}")
    try:
        report = inspect(obj, export=chosen.export, consumer=chosen.to)
        if not chosen.export and unseen(report):
            report = inspect(obj, export=True, consumer=chosen.to)
    except ValueError as error:
        parser.error(str(error))
    except (Exception, SystemExit) as error:
        told = printable(f"the object cannot be inspected: {_told(error)}", kept="")
        print(f"{parser.prog}: {told}", file=sys.stderr)
        return 1
    if chosen.json:
        import json

        print(json.dumps(_by_name(report), indent=1, default=str))
    else:
        print(report)
    works = all(verdict.bare.result == "works" for verdict in report.verdicts)
    return 0 if works and report.plan else 1
