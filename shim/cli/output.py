"""The output of a command: tables, notes and boxes of styled text, and the progress of a long run.

``show`` draws them by rich where it is installed, else as plain text.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NoReturn

from ..text import printable

if TYPE_CHECKING:
    #: A piece of text and its style, one of STYLES.
    Span = tuple[str, str]
    Line = tuple[Span, ...]

#: Everything is laid out for a terminal of so many columns.
WIDTH = 100

#: One screen has so many lines at most.
HEIGHT = 40

#: The styles, as rich has them.
STYLES = {
    "good": "green",
    "bad": "bold red",
    "limit": "yellow",
    "dim": "dim",
    "name": "cyan",
    "strong": "bold",
    "": "",
}


class Parser(argparse.ArgumentParser):
    """argparse's parser; where help cannot be written, the command hears of it."""

    def __init__(self, command: str, about: str, more: Callable[[], str] = str) -> None:
        super().__init__(
            prog=f"python -m dlshim {command}",
            description=about,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        #: Makes the end of the description, when the help is asked for.
        self.more = more

    def print_help(self, file: Any = None) -> None:
        """Write the help to a file or to stdout.

        Newer argparse ignores that it could not write: a command whose output is not buffered
        would end with 0, and one whose output is buffered, and lost by the last flush, would not.
        """
        self.description = f"{self.description}{self.more()}"
        print(self.format_help(), end="", file=file)

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def line(*pieces: str | Span) -> Line:
    """Put pieces of text together; a plain str has no style."""
    return tuple((piece, "") if isinstance(piece, str) else piece for piece in pieces)


def text_of(of: Line) -> str:
    return "".join(printable(text) for text, _ in of)


def width_of(of: Line) -> int:
    return len(text_of(of))


@dataclass(frozen=True)
class Column:
    name: str
    right: bool = False
    #: It takes the width that the others leave; a longer text is wrapped, or cut by `one_line`.
    wide: bool = False
    style: str = ""


_MARKS: dict[str, dict[str, Any]] = {
    "*": {"wide": True},
    ">": {"right": True},
    "@": {"style": "name"},
    "+": {"style": "good"},
    "~": {"style": "dim"},
}


def columns(heads: Iterable[str]) -> list[Column]:
    """Columns by their names; marks before a name say how it is drawn."""
    made = []
    for head in heads:
        name = head.lstrip("".join(_MARKS))
        how: dict[str, Any] = {}
        for mark in head.removesuffix(name):
            how |= _MARKS[mark]
        made.append(Column(name, **how))
    return made


@dataclass
class Table:
    title: Line
    columns: list[Column]
    rows: list[list[Line]] = field(default_factory=list)
    #: The text under the table.
    note: str = ""
    #: A row takes one line; a text that is too long is cut.
    one_line: bool = False

    def add(self, *cells: str | Line) -> None:
        self.rows.append([line(cell) if isinstance(cell, str) else cell for cell in cells])

    def widths(self, width: int, gap: int) -> list[int]:
        """Return the width of each column.  The excess is taken from the wide column, down to a
        sixth, and then from the widest."""
        widths = [
            max([len(column.name), *(width_of(row[number]) for row in self.rows)])
            for number, column in enumerate(self.columns)
        ]
        least = [
            min(had, width // 6) if column.wide else had
            for had, column in zip(widths, self.columns, strict=True)
        ]
        while (over := sum(widths) + gap * (len(widths) - 1) - width) > 0:
            room, number = max((widths[n] - least[n], n) for n in range(len(widths)))
            if room <= 0:
                room, number = 1, widths.index(max(widths))
            widths[number] -= min(over, room)
        return widths


@dataclass
class Note:
    lines: list[Line]


@dataclass
class Box:
    title: str
    lines: list[Line]


if TYPE_CHECKING:
    Block = Table | Note | Box


def show(blocks: list[Block]) -> None:
    """Print the blocks."""
    draw = _draw if find_spec("rich") else _print
    draw(blocks)


def height(blocks: list[Block]) -> int:
    """Return how many lines the blocks take."""
    drawn = io.StringIO()
    with contextlib.redirect_stdout(drawn):
        show(blocks)
    return drawn.getvalue().count("\n")


GAP = "  "


def _row(cells: list[str], columns: list[Column], widths: list[int], *, one_line: bool) -> None:
    parts = [
        [cell if len(cell) <= width else cell[: width - 1] + "…"]
        if one_line
        else textwrap.wrap(cell, width) or [""]
        for cell, width in zip(cells, widths, strict=True)
    ]
    for number in range(max(map(len, parts))):
        told = [part[number] if number < len(part) else "" for part in parts]
        aligned = [
            text.rjust(width) if column.right else text.ljust(width)
            for text, column, width in zip(told, columns, widths, strict=True)
        ]
        print(GAP.join(aligned).rstrip())


def _print_table(block: Table) -> None:
    print(text_of(block.title))
    widths = block.widths(WIDTH, len(GAP))
    _row([column.name for column in block.columns], block.columns, widths, one_line=True)
    print("-" * min(WIDTH, sum(widths) + len(GAP) * (len(widths) - 1)))
    for row in block.rows:
        _row(list(map(text_of, row)), block.columns, widths, one_line=block.one_line)
    print()
    if block.note:
        print(textwrap.fill(block.note, WIDTH) + "\n")


def _print(blocks: list[Block]) -> None:
    for block in blocks:
        if isinstance(block, Table):
            _print_table(block)
        elif isinstance(block, Box):
            width = max(map(width_of, block.lines))
            print(f"--- {block.title} ".ljust(width, "-"))
            print(*map(text_of, block.lines), "-" * width, sep="\n")
        else:
            for each in block.lines:
                print("\n".join(textwrap.wrap(text_of(each), WIDTH)))
            print()


def _text(of: Line) -> Any:
    from rich.text import Text

    return Text.assemble(*((printable(text), STYLES[style]) for text, style in of))


def _rich_table(block: Table, room: int) -> Any:
    from rich import box, table

    made = table.Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column, width in zip(block.columns, block.widths(room - 2, 3), strict=True):
        cut = block.one_line or not column.wide
        made.add_column(
            column.name,
            justify="right" if column.right else "left",
            width=width,
            no_wrap=cut,
            overflow="ellipsis" if cut else "fold",
            style=STYLES[column.style],
        )
    for row in block.rows:
        made.add_row(*map(_text, row))
    return made


def _draw(blocks: list[Block]) -> None:
    from rich.console import Console
    from rich.panel import Panel
    from rich.text import Text

    class Teller(Console):
        """Leaves a reader that went away to the command line."""

        def on_broken_pipe(self) -> None:
            raise

    console = Teller(highlight=False)
    if not console.is_terminal or console.width > WIDTH:
        console = Teller(highlight=False, width=WIDTH)
    for block in blocks:
        if isinstance(block, Table):
            console.print(_text(block.title))
            console.print(_rich_table(block, console.width))
            console.print()
            if block.note:
                console.print(f"{block.note}\n", style="dim")
            continue
        lines = Text("\n").join(map(_text, block.lines))
        if isinstance(block, Box):
            console.print(Panel(lines, title=block.title, title_align="left", expand=False))
        else:
            console.print(lines)


@contextlib.contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """Yield a function to call after each step; on a terminal it shows the progress."""
    done, told = 0, sys.stderr.isatty()

    def step(what: str) -> None:
        nonlocal done
        done += 1
        if told and done % 10 == 1:
            print(f"\r{done:>6} of {total}  {what:<40}", end="", file=sys.stderr, flush=True)

    yield step
    if told:
        print(f"\r{'':<60}\r", end="", file=sys.stderr, flush=True)


def some_of(names: Iterable[str], most: int) -> str:
    """Join distinct names; names beyond ``most`` of them are only counted."""
    distinct = list(dict.fromkeys(names))
    rest = f" and {len(distinct) - most} more" if len(distinct) > most else ""
    return ", ".join(distinct[:most]) + rest
