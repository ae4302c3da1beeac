"""Draws the ratios that ``instructions.py --json FILE`` found.

    python benchmarks/plot.py FILE FOLDER

writes ``journeys.svg`` (each journey with dlshim, and with the floor probe, against the same
consumer without an adapter) and ``cases.svg`` (each case of dlshim against the floor probe).
"""

from __future__ import annotations

import argparse
import json
import pathlib
from collections.abc import Sequence
from html import escape

import instructions

LEFT, WIDTH, ROW, BAR, TOP = 210, 420, 30, 11, 64
OWN, FLOOR, LIMIT = "#2b6cb0", "#a0aec0", "#c53030"

# Label, dlshim's ratio, the floor's ratio (None: it is 1), the budget's ratio (None: none).
Row = tuple[str, float, float | None, float | None]


def _bar(y: float, length: float, colour: str) -> str:
    return f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>'


def _number(y: float, right: float, text: str) -> str:
    """Right of the bar and of the mark, so that neither is covered."""
    return f'<text x="{LEFT + right + 5:.1f}" y="{y + BAR - 2}" class="n">{text}</text>'


def _line(x: float, height: float, style: str) -> str:
    return f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{height - 8}" {style}/>'


def _legend(against: str, has_floor: bool) -> list[str]:
    """What colours and marks mean, in a line below the title."""
    entries = [("dlshim", f'<rect y="33" width="14" height="{BAR}" fill="{OWN}" x="%d"/>', 70)]
    if has_floor:
        box = f'<rect y="33" width="14" height="{BAR}" fill="{FLOOR}" x="%d"/>'
        entries.append(("the same without any check", box, 190))
    mark = f'<rect y="31" width="2" height="15" fill="{LIMIT}" x="%d"/>'
    entries.append(("budget", mark, 80))
    dashes = '<path d="M%d 31v15" stroke="#2d3748" stroke-dasharray="3 3"/>'
    entries.append((f"1 = {against}", dashes, 0))
    lines, x = [], 8
    for text, shape, width in entries:
        lines.append(shape % x)
        lines.append(f'<text x="{x + 20}" y="43" font-size="11">{escape(text)}</text>')
        x += 20 + width
    return lines


def draw(title: str, against: str, rows: Sequence[Row]) -> str:
    most = max(max(own, floor or 1, limit or 0) for _, own, floor, limit in rows)
    unit = WIDTH / most
    height = TOP + 4 + ROW * len(rows)
    width = LEFT + WIDTH + 60
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="12" role="img">',
        "<style>.n{font-size:10px;fill:#4a5568}</style>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="8" y="18" font-size="14">{escape(title)}</text>',
        *_legend(against, any(floor is not None for _, _, floor, _ in rows)),
        _line(LEFT + unit, height, 'stroke="#2d3748" stroke-dasharray="3 3"'),
    ]
    for i, (label, own, floor, limit) in enumerate(rows):
        y = TOP + ROW * i
        lines.append(f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{escape(label)}</text>')
        lines.append(_bar(y, own * unit, OWN))
        lines.append(_number(y, max(own, limit or 0) * unit, f"{own:.2f}"))
        if floor is not None:
            lines.append(_bar(y + BAR + 1, floor * unit, FLOOR))
            lines.append(_number(y + BAR + 1, floor * unit, f"{floor:.2f}"))
        if limit is not None:
            x = LEFT + limit * unit
            ends = f'y1="{y - 1}" y2="{y + BAR + 1}"'
            lines.append(f'<line x1="{x:.1f}" x2="{x:.1f}" {ends} stroke="{LIMIT}"/>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def journeys(budgets: dict, cost: dict[str, float]) -> list[Row]:
    rows = []
    for journey in budgets["journey"]:
        case = journey["case"]
        bare, own = cost.get(f"{case} | bare"), cost.get(f"{case} | dlshim")
        floor = cost.get(f"{case} | floor table", cost.get(f"{case} | floor"))
        if bare and own and floor:
            limit = journey["at_most"] + instructions.extra(journey, cost) / bare
            rows.append((case, own / bare, floor / bare, limit))
    return rows


def cases(budgets: dict, cost: dict[str, float]) -> list[Row]:
    rows: list[Row] = []
    for piece in budgets["piece"]:
        case = piece["case"]
        floor, own = cost.get(f"{case} | floor"), cost.get(f"{case} | dlshim")
        if floor and own and "over" not in piece:
            limit = (piece["budget"] + instructions.extra(piece, cost)) / floor
            rows.append((case, own / floor, None, limit))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    arguments = parser.parse_args()
    cost = json.loads(arguments.file.read_text())
    budgets = instructions.load_budgets()
    for name, title, against, rows in (
        ("journeys", "Instructions of a whole exchange", "without dlshim", journeys(budgets, cost)),
        ("cases", "Instructions of each step", "without any check", cases(budgets, cost)),
    ):
        told = f"{title} ({arguments.file.stem})"
        (arguments.folder / f"{name}.svg").write_text(draw(told, against, rows))


if __name__ == "__main__":
    main()
