"""``python -m dlshim streams``: the table of stream rules."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING

from ..stream_table import cells, families
from .output import Note, Parser, Table, columns, line, show

if TYPE_CHECKING:
    from .output import Block

STREAMS = """\
What a producer is passed as stream= and, after the arrow, what dlshim does itself.
P: the stream with the producer's unfinished work. S: the consumer's. L: the legacy default stream.
edge(P,S): S waits for what is in P now, the host does not. wait(P): the host waits.
wait: the option stream="wait", ready for every stream. D: a stream of dlshim's own.
sync(P,S): edge(P,S) if P is known or can be learned, else a device-wide edge or wait.
"""
_STREAMS_HELP = """\
Print the table of stream rules.

examples:
  python -m dlshim streams                     CUDA
  python -m dlshim streams ROCm "CUDA host"    other families of devices
  python -m dlshim streams --json              all, by device, producer and stream

"""


def _table(device: str) -> Table:
    """A row for each kind of producer; values of ``stream`` that come to the same are together."""
    told = "*stream: what it is passed -> what dlshim does"
    table = Table(line((device, "strong")), columns(["@producer", told]))
    for producer, row in cells(device).items():
        values = defaultdict(list)
        for value, cell in row.items():
            values[str(cell)].append(value)
        results = (f"{', '.join(them)}: {result}" for result, them in values.items())
        table.add(producer, "   ".join(results))
    return table


def main(arguments: list[str]) -> int:
    """Print the table; return the exit status."""
    parser = Parser("streams", _STREAMS_HELP + STREAMS)
    parser.add_argument("device", nargs="*", metavar="DEVICE", help=f"of: {', '.join(families())}")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    chosen = options.device or (families() if options.json else ["CUDA"])
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
    others = ", ".join(name for name in families() if name not in chosen)
    blocks: list[Block] = [
        Note([line(text) for text in STREAMS.splitlines()]),
        *map(_table, chosen),
    ]
    if others:
        blocks.append(Note([line((f"other devices: {others}", "dim"))]))
    show(blocks)
    return 0
