"""Draws blocks and progress with rich."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from rich.text import Text

from . import run
from .blocks import WIDTH, Block, Box, Line, Table
from .run import Cell, Report

__all__ = ["show", "watch"]

STYLES = {
    "good": "green", "bad": "bold red", "limit": "yellow", "dim": "dim", "name": "cyan",
    "strong": "bold", "": "",
}  # fmt: skip


class _Console(Console):
    """Leaves a reader that went away to the command line."""

    def on_broken_pipe(self) -> None:
        raise


def _console() -> Console:
    console = _Console(highlight=False)
    if not console.is_terminal:
        console = _Console(highlight=False, width=WIDTH)
    elif console.width > WIDTH:
        console.width = WIDTH
    return console


def watch(versions: dict[str, str], cells: list[Cell], *, cost: bool) -> Report:
    """Carry out the exchanges behind a progress bar."""
    columns = (
        TextColumn("{task.description}", style="cyan"),
        BarColumn(bar_width=40),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("importing".ljust(31), total=2 * len(cells))

        def step(mode: str, producer: str) -> None:
            bar.update(task, advance=1, description=f"{mode:<8} {producer:<22}")

        return run.run(versions, cells, cost=cost, progress=step)


def _text(of: Line) -> Text:
    return Text.assemble(*((text, STYLES[style]) for text, style in of))


def _table(block: Table, room: int) -> RichTable:
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    for column, width in zip(block.columns, block.widths(room - 2, 3), strict=True):
        table.add_column(
            column.name,
            justify="right" if column.right else "left",
            width=width,
            no_wrap=block.one_line or not column.wide,
            overflow="ellipsis" if block.one_line or not column.wide else "fold",
            style=STYLES[column.style],
        )
    for row in block.rows:
        table.add_row(*map(_text, row))
    return table


def show(blocks: list[Block]) -> None:
    """Print the blocks."""
    console = _console()
    for block in blocks:
        if isinstance(block, Table):
            console.print(_text(block.title))
            console.print(_table(block, console.width))
            if block.note:
                console.print(f"{block.note}\n", style="dim")
        elif isinstance(block, Box):
            lines = Text("\n").join(map(_text, block.lines))
            console.print(Panel(lines, title=block.title, title_align="left", expand=False))
        else:
            console.print(Text("\n").join(map(_text, block.lines)))
