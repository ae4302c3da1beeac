"""Runs the exchanges of the matrix in child processes, and survives their death.

A child (``matrix/child.py``) reads one JSON object: ``{"mode": "bare" | "upgraded", "cells":
[...]}``, and which libraries and which file of nanobind's functions to import.  Each cell has the
keys of its producer, consumer and case, its libraries, the cure to repeat it with when it does not
work (options of ``upgrade``, or a Tensor's buffer), and whether to time it.  The child writes a
line of JSON for each, and before it a line ``{"begin": number}``, so that the parent knows which
exchange killed the process.
"""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from . import nanobind_module
from .pairs import Cell, Report

#: A child that says nothing for so long is ended, and its exchange counts as hanging.
SILENCE_SECONDS = 180.0


def _lines(process: subprocess.Popen[str]) -> Iterator[dict[str, Any] | None]:
    """Yield what a child says; None once when it stays silent for too long."""
    said: queue.SimpleQueue[str] = queue.SimpleQueue()
    assert process.stdout is not None
    stdout = process.stdout

    def listen() -> None:
        with stdout:
            for line in stdout:
                said.put(line)
        said.put("")

    threading.Thread(target=listen, daemon=True).start()
    while True:
        try:
            line = said.get(timeout=SILENCE_SECONDS)
        except queue.Empty:
            yield None
            return
        if not line:
            return
        yield json.loads(line)


def _death(process: subprocess.Popen[str], errors: str) -> str:
    code = process.wait()
    try:
        name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
    except ValueError:
        name = f"signal {-code}"
    last = next((line for line in reversed(errors.splitlines()) if line.strip()), "")
    return f"{name}: {last.strip()}" if last else name


class _Child:
    """One child process and the cells that it was given."""

    def __init__(
        self, mode: str, todo: Sequence[Cell], *, cost: bool, nanobind: str | None
    ) -> None:
        self.mode, self.todo = mode, todo
        self.answered = 0
        self.begun: int | None = None
        self.broken: dict[str, str] = {}
        keys = {key for cell in todo for key in cell.libraries}
        self.job = {
            "mode": mode,
            "libraries": sorted(keys),
            "nanobind": nanobind if "nanobind" in keys else None,
            "cells": [cell.job(cost=cost) for cell in todo],
        }

    def talk(self, done: Callable[[Cell], None]) -> str | None:
        """Run until the child ends; return how it died, None when it finished."""
        command = [sys.executable, "-m", "dlshim.matrix.child"]
        with tempfile.TemporaryFile("w+", errors="replace") as errors:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
            assert process.stdin is not None
            # A child that died at once is told by its end, below.
            with contextlib.suppress(BrokenPipeError), process.stdin as its_input:
                its_input.write(json.dumps(self.job))
            silent = False
            for line in _lines(process):
                if line is None:
                    silent = True
                    process.kill()
                    break
                self._hear(line, done)
            errors.seek(0)
            death = _death(process, errors.read())
        if silent:
            return "hangs"
        return None if process.returncode == 0 else death

    def _hear(self, line: dict[str, Any], done: Callable[[Cell], None]) -> None:
        if "broken" in line:
            self.broken = line["broken"]
        elif "begin" in line:
            self.begun = line["begin"]
        else:
            number = line.pop("number")
            setattr(self.todo[number], self.mode, line)
            self.begun = None
            done(self.todo[number])


def _run_group(
    mode: str,
    cells: Sequence[Cell],
    broken: dict[str, str],
    done: Callable[[Cell], None],
    *,
    cost: bool,
    nanobind: str | None,
) -> None:
    """Carry out cells in as few children as deaths allow."""
    todo = list(cells)
    while todo:
        child = _Child(mode, todo, cost=cost, nanobind=nanobind)
        death = child.talk(done)
        broken.update(child.broken)
        todo = [cell for cell in todo if not getattr(cell, mode)]
        todo = [cell for cell in todo if not broken.keys() & set(cell.libraries)]
        if death is None:
            return
        # Without a begun exchange the imports themselves died: nothing can be done.
        victim = child.todo[child.begun] if child.begun is not None else None
        victims = [victim] if victim else todo
        for cell in victims:
            setattr(cell, mode, {"outcome": "died", "detail": death})
            done(cell)
        todo = [cell for cell in todo if cell not in victims]


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
