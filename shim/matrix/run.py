"""Runs the exchanges of the matrix in the child process of trials, and survives its death.

A job has the keys of a cell's producer, consumer and case, and whether to time it;
``matrix/child.py`` answers it.  Where the plain call of dlshim does not work, the lines are tried
that its error names, as trials do.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..counted import counted
from ..report import Outcome
from ..trial.parent import Child
from ..trial.ways import search
from . import nanobind_module
from .consumers import made_by
from .pairs import Cell, Report, cure_in

_MODULE = "dlshim.matrix.child"
#: What came of a line that is right only where nothing writes, which is not looked at.
_UNSEEN = {"outcome": "wrong", "detail": "whether the function writes is not seen"}


class _Group:
    """Exchanges of one mode, carried out in as few children as deaths allow."""

    def __init__(self, mode: str, broken: dict[str, str], nanobind: str | None) -> None:
        self.mode, self.broken, self.nanobind = mode, broken, nanobind
        self.child = Child()
        #: How the imports ended the process; nothing can be done then.
        self.death = ""

    def import_libraries(self, cells: Sequence[Cell]) -> None:
        """Let a new child import what the exchanges need."""
        keys = {key for cell in cells for key in cell.libraries} - self.broken.keys()
        told = self.child.ask(
            do="other",
            step="import",
            module=_MODULE,
            function="libraries",
            keys=sorted(keys),
            nanobind=self.nanobind if "nanobind" in keys else None,
        )
        self.broken.update(told.get("broken", {}))
        self.death = "" if "broken" in told else _death(told)

    def carry_out(self, cell: Cell, *, cost: bool) -> dict[str, Any]:
        """Return what came of an exchange, and the line that cures it."""
        told = self._ask(cell, cost=cost)
        if self.mode == "upgraded" and told["outcome"] in ("refused", "wrong"):
            told["cure"] = self._cure(cell, told)
        return told

    def _ask(self, cell: Cell, *, cost: bool = False, line: str | None = None) -> dict[str, Any]:
        job = {"mode": self.mode, "cell": cell.job(cost=cost), "line": line}
        told = self.child.ask(do="other", step="call", module=_MODULE, function="exchange", **job)
        return told if "outcome" in told else {"outcome": "died", "detail": _death(told)}

    def _cure(self, cell: Cell, told: dict[str, Any]) -> str:
        """Try lines, the next one by what came of the last; return one that works, "": none."""
        plain = made_by(cell.exchange.consumer)
        for function in dict.fromkeys((plain, "from_dlpack")):
            lines = search("take(x)", function, set())
            line = next(lines)
            came = told if function == plain else self._ask(cell, line=line)
            while came["outcome"] != "works":
                if self.child.process is None:  # a new child has imported nothing
                    return ""
                try:
                    line = lines.send(_outcome(line, came))
                except StopIteration:
                    break
                came = self._ask(cell, line=line) if "'share'" not in line else _UNSEEN
            else:
                return cure_in(line)
        return ""


def _outcome(line: str, came: dict[str, Any]) -> Outcome:
    """Return what came of a line, in the words of trials, with what rule T12 names, too."""
    why = str(came.get("detail", ""))
    if row := counted(why):
        why = f"{why}; {row.cure}"
    return Outcome(line, came["outcome"], raises=(came.get("error", ""),), why=why)


def _death(told: dict[str, Any]) -> str:
    return "hangs" if "hangs" in told else str(told.get("died") or told.get("failed"))


def _run_group(
    mode: str,
    cells: Sequence[Cell],
    broken: dict[str, str],
    done: Callable[[Cell], None],
    *,
    cost: bool,
    nanobind: str | None,
) -> None:
    group = _Group(mode, broken, nanobind)
    try:
        for number, cell in enumerate(cells):
            if group.child.process is None and not group.death:
                group.import_libraries(cells[number:])
            if broken.keys() & set(cell.libraries):
                continue
            told = {"outcome": "died", "detail": group.death}
            setattr(cell, mode, told if group.death else group.carry_out(cell, cost=cost))
            done(cell)
    finally:
        group.child.close()


@contextlib.contextmanager
def _nanobind_module(cells: list[Cell], left_out: dict[str, str]) -> Iterator[str | None]:
    """Build nanobind's functions where exchanges need them; None: `left_out` says why not."""
    if not any("nanobind" in cell.libraries for cell in cells):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="dlshim-nanobind-") as folder:
        try:
            file = str(nanobind_module.build(Path(folder)))
        except nanobind_module.Unbuilt as error:
            left_out["into nanobind"] = str(error)
            file = None
        yield file


def run(
    versions: dict[str, str],
    cells: list[Cell],
    *,
    cost: bool = True,
    progress: Callable[[str], None] = lambda what: None,
) -> Report:
    """Carry out all exchanges, bare and upgraded; ``progress`` is called after each."""
    broken: dict[str, str] = {}
    left_out: dict[str, str] = {}
    with _nanobind_module(cells, left_out) as nanobind:
        if nanobind is None:
            cells = [cell for cell in cells if "nanobind" not in cell.libraries]

        def group(mode: str) -> None:
            def done(cell: Cell) -> None:
                progress(f"{mode:<8} {cell.exchange.producer.label:<22}")

            _run_group(mode, cells, broken, done, cost=cost, nanobind=nanobind)

        # Apart, because a bare exchange may harm its process without killing it.
        group("bare")
        group("upgraded")
    kept = [cell for cell in cells if not broken.keys() & set(cell.libraries)]
    for cell in kept:
        exchange, told = cell.exchange, cell.bare
        if told["outcome"] == "unmade":
            left_out[f"from {exchange.producer.label}, {exchange.case.title}"] = told["detail"]
        elif told["outcome"] == "unoffered":
            left_out[f"into {exchange.consumer.label}"] = told["detail"]
    kept = [cell for cell in kept if cell.bare["outcome"] not in ("unmade", "unoffered")]
    return Report(versions, kept, broken, left_out)
