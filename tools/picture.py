"""Draws what the matrix command found: which exchanges work without dlshim, and which with it.

python -m dlshim matrix --no-cost --json FILE
python tools/picture.py FILE docs/results/matrix.svg
"""

from __future__ import annotations

import datetime
import json
import sys
from html import escape
from pathlib import Path
from typing import NamedTuple

CELL, LABEL, HEAD, GAP = 22, 128, 124, 48
COLOURS = ("#f1c9c5", "#f6dcc0", "#f7ebc0", "#dcebc4", "#a9d8a8")
HARM = "#b3202a"


class Pair(NamedTuple):
    producer: str
    consumer: str
    cases: int
    bare: int
    upgraded: int
    with_option: int
    harmful: int  # silently wrong bare, or the end of the process


def pairs_of(told: dict) -> list[Pair]:
    """The sums of each pair of libraries; Python's buffers and raw capsules are left out."""
    groups: dict[tuple[str, str], list[dict]] = {}
    for cell in told["cells"]:
        groups.setdefault((cell["producer"], cell["consumer"]), []).append(cell)
    pairs = []
    for (producer, consumer), cells in groups.items():
        outcomes = [(cell["bare"]["outcome"], cell["upgraded"]) for cell in cells]
        pairs.append(
            Pair(
                producer,
                consumer,
                len(cells),
                sum(bare == "works" for bare, _ in outcomes),
                sum(now["outcome"] == "works" for _, now in outcomes),
                sum(bool(now.get("cure")) for _, now in outcomes),
                sum(bare in ("wrong", "died") for bare, _ in outcomes),
            )
        )
    return pairs


def colour(works: int, cases: int) -> str:
    return COLOURS[(len(COLOURS) - 1) * works // cases]


def heat_map(x: int, title: str, pairs: list[Pair], names: tuple[list, list], now: bool) -> list:
    rows, columns = names
    middle = x + LABEL + CELL * len(columns) / 2
    parts = [f'<text x="{middle}" y="18" class="t" text-anchor="middle">{escape(title)}</text>']
    for number, name in enumerate(columns):
        at = x + LABEL + CELL * number + CELL / 2 + 4
        parts.append(
            f'<text transform="translate({at},{HEAD - 6}) rotate(-60)">{escape(name)}</text>'
        )
    for number, name in enumerate(rows):
        y = HEAD + CELL * number + 15
        parts.append(f'<text x="{x + LABEL - 6}" y="{y}" text-anchor="end">{escape(name)}</text>')
    for pair in pairs:
        left = x + LABEL + CELL * columns.index(pair.consumer)
        top = HEAD + CELL * rows.index(pair.producer)
        works = pair.upgraded + pair.with_option if now else pair.bare
        harm = pair.harmful and not now
        fill = HARM if harm else colour(works, pair.cases)
        parts.append(
            f'<rect x="{left}" y="{top}" width="{CELL - 1}" height="{CELL - 1}" fill="{fill}"/>'
            f'<text x="{left + CELL / 2 - 0.5}" y="{top + 15}" text-anchor="middle" '
            f'fill="{"#fff" if harm else "#333"}">{works}</text>'
        )
    return parts


def draw(pairs: list[Pair], date: str, versions: str) -> str:
    rows = list(dict.fromkeys(pair.producer for pair in pairs))
    columns = list(dict.fromkeys(pair.consumer for pair in pairs))
    one = LABEL + CELL * len(columns)
    width, height = 2 * one + GAP + 60, HEAD + CELL * len(rows) + 58
    sums = [sum(pair[index] for pair in pairs) for index in (2, 3, 4, 5)]
    legend = (
        f"From (left) to (above): how many of {sums[0]} small arrays arrive whole, {date}: "
        f"{sums[1]} without dlshim, {sums[2]} with it, and {sums[3]} more with an option.",
        "Dark red: silently wrong, or the end of the process.  What is missing with dlshim the "
        "consumer cannot hold, or misreads.",
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img" aria-label="{escape(legend[0])}">',
            f"<desc>{escape(versions)}</desc>",
            "<style>text { font: 11px system-ui, sans-serif; } .t { font: 600 14px system-ui; }"
            "</style>",
            f'<rect width="{width}" height="{height}" fill="#fff"/>',
            *heat_map(0, "without dlshim", pairs, (rows, columns), now=False),
            *heat_map(one + GAP, "with dlshim", pairs, (rows, columns), now=True),
            f'<text x="8" y="{height - 28}">{escape(legend[0])}</text>',
            f'<text x="8" y="{height - 12}">{escape(legend[1])}</text>',
            "</svg>",
        ]
    )


def main(file: str, picture: str) -> None:
    told = json.loads(Path(file).read_text(encoding="utf-8"))
    built_in = {"bytearray", "array.array", "memoryview", "capsule 0.x", "capsule 1.x"}
    pairs = [pair for pair in pairs_of(told) if not built_in & set(pair[:2])]
    versions = ", ".join(f"{name} {version}" for name, version in told["versions"].items())
    drawn = draw(pairs, datetime.date.today().isoformat(), f"CPython {told['python']}, {versions}")
    Path(picture).write_text(f"{drawn}\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
