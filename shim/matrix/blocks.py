"""The parts of an output: tables, notes and boxes of styled text, for every way of drawing them."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["WIDTH", "Block", "Box", "Column", "Line", "Note", "Span", "Table", "line", "width_of"]

#: Everything is laid out for a terminal of so many columns.
WIDTH = 100

#: A piece of text and its style: "good", "bad", "limit", "dim", "name", "strong", or "".
Span = tuple[str, str]
Line = tuple[Span, ...]


def line(*pieces: str | Span) -> Line:
    """Put pieces of text together; a plain str has no style."""
    return tuple((piece, "") if isinstance(piece, str) else piece for piece in pieces)


def width_of(of: Line) -> int:
    return sum(len(text) for text, _ in of)


@dataclass(frozen=True)
class Column:
    name: str
    right: bool = False
    #: Takes the width that the others leave; what is longer is wrapped, or cut where `one_line`.
    wide: bool = False
    style: str = ""


@dataclass
class Table:
    title: Line
    columns: list[Column]
    rows: list[list[Line]] = field(default_factory=list)
    #: What stands under it.
    note: str = ""
    #: A row takes one line; what is too long is cut.
    one_line: bool = False

    def add(self, *cells: str | Line) -> None:
        self.rows.append([line(cell) if isinstance(cell, str) else cell for cell in cells])

    def widths(self, width: int, gap: int) -> list[int]:
        """Of each column.  What is too much is taken from the wide one, down to a third, and then
        from the widest."""
        widths = [
            max([len(column.name), *(width_of(row[number]) for row in self.rows)])
            for number, column in enumerate(self.columns)
        ]
        least = [
            min(widths[number], width // 3) if column.wide else widths[number]
            for number, column in enumerate(self.columns)
        ]
        while (over := sum(widths) + gap * (len(widths) - 1) - width) > 0:
            spare = [number for number, column in enumerate(self.columns) if column.wide]
            widest = [number for number in spare if widths[number] > least[number]] or [
                widths.index(max(widths))
            ]
            room = widths[widest[0]] - least[widest[0]]
            widths[widest[0]] -= min(over, room) if room > 0 else 1
        return widths


@dataclass
class Note:
    lines: list[Line]


@dataclass
class Box:
    title: str
    lines: list[Line]


Block = Table | Note | Box
