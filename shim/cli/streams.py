"""``python -m dlshim streams``: the table of stream rules."""

from __future__ import annotations

import json
from collections.abc import Iterable

from ..stream_table import cells, families
from .output import Parser

STREAMS = """\
What a producer is passed as stream= and, after the arrow, what dlshim does itself.
P: the stream with the producer's unfinished work. S: the consumer's. L: the legacy default stream.
edge(P,S): S waits for what is in P now, the host does not. wait(P): the host waits.
wait: the option stream="wait", ready for every stream. D: a stream of dlshim's own.
sync(P,S): edge(P,S) if P is known or can be learned, else a device-wide edge or wait.
"""
_STREAMS_EXAMPLES = """
examples:
  python -m dlshim streams            all families of devices
  python -m dlshim streams CUDA       one of them
  python -m dlshim streams --json     by device, producer and stream, for a program
"""


def _lines(device: str) -> Iterable[str]:
    table = cells(device)
    values = next(iter(table.values()))
    rows = [["", *values], *([name, *map(str, row.values())] for name, row in table.items())]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    yield f"{device}:"
    for row in rows:
        yield "  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()


def main(arguments: list[str]) -> int:
    """Print the table; return the exit status."""
    parser = Parser("streams", STREAMS + _STREAMS_EXAMPLES)
    parser.add_argument("device", nargs="*", metavar="DEVICE", help=f"of: {', '.join(families())}")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    chosen = options.device or families()
    if unknown := [name for name in chosen if name not in families()]:
        parser.error(f"no device {unknown[0]!r}; there are: {', '.join(families())}")
    if options.json:
        told = {
            name: {
                producer: {value: str(cell) for value, cell in row.items()}
                for producer, row in cells(name).items()
            }
            for name in chosen
        }
        print(json.dumps(told, indent=1))
        return 0
    print(STREAMS)
    print("\n\n".join("\n".join(_lines(device)) for device in chosen))
    return 0
