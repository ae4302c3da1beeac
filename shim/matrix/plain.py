"""Draws blocks and progress as plain text, where rich is not installed."""

from __future__ import annotations

import sys
import textwrap

from . import run
from .blocks import WIDTH, Block, Box, Column, Line, Table, width_of
from .run import Cell, Report

__all__ = ["show", "watch"]

GAP = "  "


def watch(versions: dict[str, str], cells: list[Cell], *, cost: bool) -> Report:
    """Carry out the exchanges; on a terminal one line tells how far it is."""
    done, total, last = 0, 2 * len(cells), ""
    told = sys.stderr.isatty()

    def step(mode: str, producer: str) -> None:
        nonlocal done, last
        done += 1
        if told and f"{mode} {producer}" != last:
            last = f"{mode} {producer}"
            print(f"\r{done:>6} of {total}  {last:<40}", end="", file=sys.stderr, flush=True)

    report = run.run(versions, cells, cost=cost, progress=step)
    if told:
        print(f"\r{'':<60}\r", end="", file=sys.stderr, flush=True)
    return report


def _text(of: Line) -> str:
    return "".join(text for text, _ in of)


def _row(cells: list[str], columns: list[Column], widths: list[int], *, one_line: bool) -> None:
    parts = [textwrap.wrap(cell, width) or [""] for cell, width in zip(cells, widths, strict=True)]
    if one_line:
        parts = [
            [cell if len(cell) <= width else cell[: width - 1] + "…"]
            for cell, width in zip(cells, widths, strict=True)
        ]
    for number in range(max(map(len, parts))):
        told = [part[number] if number < len(part) else "" for part in parts]
        aligned = [
            text.rjust(width) if column.right else text.ljust(width)
            for text, column, width in zip(told, columns, widths, strict=True)
        ]
        print(GAP.join(aligned).rstrip())


def _show_table(block: Table) -> None:
    print(_text(block.title))
    widths = block.widths(WIDTH, len(GAP))
    _row([column.name for column in block.columns], block.columns, widths, one_line=True)
    print("-" * min(WIDTH, sum(widths) + len(GAP) * (len(widths) - 1)))
    for row in block.rows:
        _row(list(map(_text, row)), block.columns, widths, one_line=block.one_line)
    print()
    if block.note:
        print(textwrap.fill(block.note, WIDTH) + "\n")


def show(blocks: list[Block]) -> None:
    """Print the blocks."""
    for block in blocks:
        if isinstance(block, Table):
            _show_table(block)
        elif isinstance(block, Box):
            width = max(map(width_of, block.lines))
            print(f"--- {block.title} ".ljust(width, "-"))
            for each in block.lines:
                print(_text(each))
            print("-" * width)
        else:
            for each in block.lines:
                print("\n".join(textwrap.wrap(_text(each), WIDTH)))
            print()
