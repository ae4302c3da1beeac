"""The page of ``matrix --html``: one file of HTML, made by Jinja2, that needs nothing else."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..cli.output import Box, Table
from .consumers import CONSUMERS
from .pairs import by_pair, complaint
from .producers import PRODUCERS
from .screen import full

if TYPE_CHECKING:
    from .pairs import Cell, Report


@dataclass(frozen=True)
class Spot:
    """A pair in the heat map: what works of it, bare and upgraded, and why not the rest."""

    cases: int
    bare: int
    upgraded: int
    cured: int
    wrong: tuple[int, int]
    why: list[str]

    @classmethod
    def of(cls, cells: list[Cell]) -> Spot:
        return cls(
            cases=len(cells),
            bare=sum(cell.works_bare for cell in cells),
            upgraded=sum(cell.works_upgraded for cell in cells),
            cured=sum(bool(cell.cure) for cell in cells),
            wrong=(_wrong(cell.bare for cell in cells), _wrong(cell.upgraded for cell in cells)),
            why=[line for cell in cells if (line := _why(cell))],
        )

    def style(self, now: bool) -> str:
        """The class of its colour, upgraded or bare: how many tenths of its cases work."""
        works = self.upgraded + self.cured if now else self.bare
        return "bad" if self.wrong[now] else f"t{10 * works // self.cases}"

    def shown(self, now: bool) -> str:
        """How many work; those that work with an option are added apart."""
        if not now:
            return str(self.bare)
        return f"{self.upgraded}+{self.cured}" if self.cured else str(self.upgraded)


def _wrong(results: Iterable[dict[str, Any]]) -> int:
    """How many were silently wrong or killed the process."""
    return sum(told["outcome"] in ("wrong", "died") for told in results)


def _why(cell: Cell) -> str:
    """What is to be known of one exchange: the reason and the cure; "" where all is well."""
    told = []
    if not cell.works_bare:
        told.append(f"bare: {complaint(cell.bare)}")
    if not cell.works_upgraded:
        told.append(f"upgraded: {complaint(cell.upgraded)}")
        if cell.cure:
            told.append(f"works with {cell.cure}")
    return f"{cell.exchange.case.title}: {'; '.join(told)}" if told else ""


def _heat(report: Report) -> dict[str, Any]:
    pairs = by_pair(report.cells)
    rows = [p for p in PRODUCERS if any(key[0] == p.key for key in pairs)]
    columns = [c for c in CONSUMERS if any(key[1] == c.key for key in pairs)]
    spots = {key: Spot.of(cells) for key, cells in pairs.items()}
    return {"rows": rows, "columns": columns, "spots": spots}


def write_page(report: Report, file: Path) -> None:
    """Write the page; OSError where the file cannot be written."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    blocks = full(report)
    page = environment.get_template("page.html").render(
        version=__version__,
        date=time.strftime("%Y-%m-%d"),
        platform=f"{platform.system()} {platform.machine()}",
        report=report,
        heat=_heat(report),
        box=next(block for block in blocks if isinstance(block, Box)),
        tables=[b for b in blocks if isinstance(b, Table) and "\\" not in b.columns[0].name],
    )
    file.write_text(page, encoding="utf-8")
