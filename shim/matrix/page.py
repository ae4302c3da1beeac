"""Writes the results as one HTML page that needs nothing else and no network (Jinja2)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

import dlshim

from . import run, story
from .blocks import Box, Table
from .consumers import CONSUMERS
from .producers import PRODUCERS
from .run import Cell, Report

__all__ = ["write"]


@dataclass(frozen=True)
class Spot:
    """A pair in the heat map: what works of it, bare and upgraded, and why not the rest."""

    cases: int
    bare: int
    upgraded: int
    cured: int
    wrong: int
    why: list[str]

    @classmethod
    def of(cls, cells: list[Cell]) -> Spot:
        return cls(
            cases=len(cells),
            bare=sum(cell.works_bare for cell in cells),
            upgraded=sum(cell.works_upgraded for cell in cells),
            cured=sum(cell.works_with_option for cell in cells),
            wrong=sum(cell.bare["outcome"] in ("wrong", "died") for cell in cells),
            why=[line for cell in cells if (line := _why(cell))],
        )

    def style(self, works: int, wrong: int = 0) -> str:
        """The class of its colour: how many tenths of its cases work."""
        return "bad" if wrong else f"t{10 * works // self.cases}"


def _why(cell: Cell) -> str:
    """What is to be known of one exchange: the reason and the cure; "" where all is well."""
    told = []
    if not cell.works_bare:
        told.append(f"bare: {story.complaint(cell.bare)}")
    if not cell.works_upgraded:
        told.append(f"upgraded: {story.complaint(cell.upgraded)}")
        if cell.limit:
            told.append(f"reason: {cell.limit.reason}")
        if cell.limit and cell.limit.cure:
            told.append(f"works with {run.options_text(cell.limit.cure)}")
    return f"{cell.exchange.case.title}: {'; '.join(told)}" if told else ""


def _heat(report: Report) -> dict[str, Any]:
    pairs = story.by_pair(report.cells)
    rows = [p for p in PRODUCERS if any(key[0] == p.key for key in pairs)]
    columns = [c for c in CONSUMERS if any(key[1] == c.key for key in pairs)]
    spots = {key: Spot.of(cells) for key, cells in pairs.items()}
    return {"rows": rows, "columns": columns, "spots": spots}


def write(report: Report, file: Path) -> None:
    """Write the page; OSError where the file cannot be written."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    blocks = story.full(report)
    page = environment.get_template("page.html").render(
        version=dlshim.__version__,
        report=report,
        heat=_heat(report),
        box=next(block for block in blocks if isinstance(block, Box)),
        tables=[b for b in blocks if isinstance(b, Table) and "\\" not in b.columns[0].name],
    )
    file.write_text(page, encoding="utf-8")
