"""``python -m dlshim streams``: the stream table, as the code has it."""

from __future__ import annotations

from argparse import RawDescriptionHelpFormatter
from collections.abc import Iterable

from . import _core
from .arguments import Parser

_ABOUT = """\
What a producer is passed as stream= and, after the arrow, what dlshim does itself.
P: the stream with the producer's unfinished work. S: the consumer's. L: the legacy default stream.
edge(P,S): S waits for what is in P now, the host does not. wait(P): the host waits.
wait: the option stream="wait", ready for every stream. D: a stream of dlshim's own.
sync(P,S): edge(P,S) if P is known or can be learned, else a device-wide edge or wait.
"""


def cells(device: str) -> dict[str, dict[str, str]]:
    """producer -> value of ``stream`` -> what happens, for one family of devices."""
    table: dict[str, dict[str, str]] = {}
    for row in _core._sync_rules():
        if row["device"] == device:
            refused = row["task"].endswith("Error")
            task = "" if row["task"] == "-" else row["task"]
            cell = task if refused else " -> ".join(filter(None, (row["passed"], task)))
            table.setdefault(row["producer"], {})[row["stream"]] = cell
    return table


def families() -> list[str]:
    """The families of devices that share rules, in the table's order."""
    return list(dict.fromkeys(row["device"] for row in _core._sync_rules()))


def _lines(device: str) -> Iterable[str]:
    table = cells(device)
    values = next(iter(table.values()))
    rows = [["", *values], *([name, *row.values()] for name, row in table.items())]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    yield f"{device}:"
    for row in rows:
        yield "  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()


def main(arguments: list[str]) -> int:
    """Print the table; return the exit status."""
    parser = Parser(
        prog="python -m dlshim streams",
        description=_ABOUT,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("device", nargs="*", metavar="DEVICE", help=f"of: {', '.join(families())}")
    chosen = parser.parse_args(arguments).device or families()
    if unknown := [name for name in chosen if name not in families()]:
        parser.error(f"no device {unknown[0]!r}; there are: {', '.join(families())}")
    print(_ABOUT)
    print("\n\n".join("\n".join(_lines(device)) for device in chosen))
    return 0
