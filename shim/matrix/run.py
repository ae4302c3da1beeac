"""Starts children, survives their death, collects what they say."""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import cases, consumers, libraries, model, producers

__all__ = ["Cell", "Report", "plan", "run"]

#: A child that says nothing for so long is ended, and its exchange counts as hanging.
SILENCE_SECONDS = 180.0


@dataclass
class Cell:
    """One exchange: what it is, what is expected of it, what came of it."""

    exchange: model.Exchange
    limit: model.Limit | None
    bare: dict[str, Any] = field(default_factory=dict)
    upgraded: dict[str, Any] = field(default_factory=dict)

    @property
    def works_bare(self) -> bool:
        return self.bare.get("outcome") == "works"

    @property
    def works_upgraded(self) -> bool:
        return self.upgraded.get("outcome") == "works"

    @property
    def works_with_option(self) -> bool:
        return self.upgraded.get("cured", {}).get("outcome") == "works"

    @property
    def fault(self) -> str | None:
        """What is wrong with the upgraded exchange; None when all is as stated."""
        outcome = self.upgraded["outcome"]
        if outcome == "works":
            return None
        limit = self.limit
        stated = limit is not None and (
            outcome == "refused" or (outcome == "wrong" and limit.silent)
        )
        if limit is None or not stated:
            return str(self.upgraded["detail"])
        if limit.cure and not self.works_with_option:
            return f"with {options_text(limit.cure)}: {self.upgraded['cured']['detail']}"
        return None

    @property
    def libraries(self) -> tuple[str, ...]:
        producer, consumer = self.exchange.producer, self.exchange.consumer
        return tuple(dict.fromkeys((producer.library, *producer.needs, consumer.library)))

    def job(self, *, cost: bool) -> dict[str, Any]:
        return {
            "producer": self.exchange.producer.key,
            "consumer": self.exchange.consumer.key,
            "case": self.exchange.case.key,
            "cure": dict(self.limit.cure) if self.limit else {},
            "libraries": self.libraries,
            "cost": cost and self.exchange.case.key == cases.COST_CASE,
        }

    def as_json(self) -> dict[str, Any]:
        return {
            "producer": self.exchange.producer.key,
            "consumer": self.exchange.consumer.key,
            "case": self.exchange.case.key,
            "limit": self.limit.reason if self.limit else None,
            "bare": self.bare,
            "upgraded": self.upgraded,
            "fault": self.fault,
        }


@dataclass
class Report:
    """All that came of a run."""

    versions: dict[str, str]
    cells: list[Cell]
    #: Libraries that are installed but cannot be imported, with the error.
    broken: dict[str, str] = field(default_factory=dict)
    #: What a library could not make, or has no function to take, with the reason.
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def faults(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.fault]

    def as_json(self) -> dict[str, Any]:
        return {
            "python": sys.version.split()[0],
            "versions": self.versions,
            "broken": self.broken,
            "left_out": self.left_out,
            "faults": len(self.faults),
            "cells": [cell.as_json() for cell in self.cells],
        }


def options_text(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in options.items())


def plan(versions: Mapping[str, str], chosen: set[str]) -> list[Cell]:
    """Return every exchange among the chosen libraries (and what is built in)."""
    here = chosen & (set(versions) | set(libraries.BUILT_IN))

    def present(consumer: consumers.Consumer) -> bool:
        version = libraries.version_tuple(versions.get(consumer.library, "0"))
        fits = version >= consumer.since and (consumer.until is None or version < consumer.until)
        return consumer.library in here and fits

    cells = []
    for producer in producers.PRODUCERS:
        if producer.library not in here or not versions.keys() >= set(producer.needs):
            continue
        for consumer in filter(present, consumers.CONSUMERS):
            for key in producer.cases:
                exchange = model.Exchange(producer, consumer, cases.BY_KEY[key], versions)
                cells.append(Cell(exchange, model.limit_of(exchange)))
    return cells


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

    def __init__(self, mode: str, todo: Sequence[Cell], *, cost: bool) -> None:
        self.mode, self.todo = mode, todo
        self.answered = 0
        self.begun: int | None = None
        self.broken: dict[str, str] = {}
        keys = {key for cell in todo for key in cell.libraries}
        self.job = {
            "mode": mode,
            "libraries": sorted(keys),
            "cells": [cell.job(cost=cost) for cell in todo],
        }

    def talk(self, done: Callable[[Cell], None]) -> str | None:
        """Run until the child ends; return how it died, None when it finished."""
        command = [sys.executable, "-m", f"{__package__}.worker"]
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
) -> None:
    """Carry out cells in as few children as deaths allow."""
    todo = list(cells)
    while todo:
        child = _Child(mode, todo, cost=cost)
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


def run(
    versions: dict[str, str],
    cells: list[Cell],
    *,
    cost: bool = True,
    progress: Callable[[str, str], None] = lambda mode, producer: None,
) -> Report:
    """Carry out all exchanges, bare and upgraded; ``progress`` is called after each."""
    broken: dict[str, str] = {}

    def group(mode: str, members: list[Cell]) -> None:
        def done(cell: Cell) -> None:
            progress(mode, cell.exchange.producer.label)

        _run_group(mode, members, broken, done, cost=cost)

    # Apart, because a bare exchange may harm its process without killing it.
    group("bare", cells)
    group("upgraded", cells)
    kept = [cell for cell in cells if not broken.keys() & set(cell.libraries)]
    left_out = {}
    for cell in kept:
        exchange, told = cell.exchange, cell.bare
        if told["outcome"] == "unmade":
            left_out[f"from {exchange.producer.label}, {exchange.case.title}"] = told["detail"]
        elif told["outcome"] == "unoffered":
            left_out[f"into {exchange.consumer.label}"] = told["detail"]
    kept = [cell for cell in kept if cell.bare["outcome"] not in ("unmade", "unoffered")]
    return Report(versions, kept, broken, left_out)
