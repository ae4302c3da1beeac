"""The exchanges of the matrix: which are tried, and what came of each.

Nothing is expected of a library: what an upgraded exchange must not be is worse than the bare one,
but for what rule T12 counts, which the error tells.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..counted import Counted, counted
from ..known.arrays import Case, Consumer, Producer
from ..libraries import BUILT_IN, version_tuple
from .consumers import CONSUMERS
from .producers import CASE_BY_KEY, COST_CASE, PRODUCERS

if TYPE_CHECKING:
    Pairs = dict[tuple[str, str], list["Cell"]]


def between_libraries(cells: Iterable[Cell]) -> list[Cell]:
    """The exchanges in which neither side is a buffer of Python's or a raw capsule."""
    built_in = set(BUILT_IN)
    return [
        cell
        for cell in cells
        if not built_in & {cell.exchange.producer.library, cell.exchange.consumer.library}
    ]


def by_pair(cells: Iterable[Cell]) -> Pairs:
    pairs: Pairs = defaultdict(list)
    for cell in cells:
        pairs[cell.exchange.producer.key, cell.exchange.consumer.key].append(cell)
    return pairs


_OPTIONS = re.compile(r"dlshim\.(?:upgrade|to_capsule)\(x, (.*)\)")
#: What an error of dlshim says before the reason, and the end of the reason.
_REASON = re.compile(r"\w+: '[\w.]+' object: ([^;]*)")
#: What differs each time, and the line of C++ that a check of onnxruntime stands in.
_NOISE = re.compile(r"0x[0-9a-f]+|\d{4,}")
_CHECK = re.compile(r"/\S+:\d+ .* was false\. ")


def cure_in(line: str) -> str:
    """Return what a user adds to the plain call, or passes instead: ``order='auto'``."""
    passed = line.removeprefix("take(").removesuffix(")")
    found = _OPTIONS.fullmatch(passed)
    return found[1] if found else passed


def without_noise(text: str) -> str:
    """Return what was said without what differs each time."""
    return _NOISE.sub("…", _CHECK.sub("", text))


def complaint(told: Mapping[str, object]) -> str:
    """Why an exchange failed."""
    detail = str(told.get("detail", "")) or "?"
    if told["outcome"] == "died":
        detail = f"process killed, {detail}"
    return without_noise(detail)


@dataclass(frozen=True)
class Exchange:
    """An array, and the function that takes it."""

    producer: Producer
    consumer: Consumer
    case: Case


@dataclass
class Cell:
    """One exchange, and what came of it."""

    exchange: Exchange
    bare: dict[str, Any] = field(default_factory=dict)
    upgraded: dict[str, Any] = field(default_factory=dict)

    @property
    def works_bare(self) -> bool:
        return self.bare.get("outcome") == "works"

    @property
    def works_upgraded(self) -> bool:
        return self.upgraded.get("outcome") == "works"

    @property
    def cure(self) -> str:
        """What makes it work although the plain call does not; "": nothing that was tried."""
        return str(self.upgraded.get("cure", ""))

    @property
    def lost(self) -> bool:
        """Whether it worked bare, and does not upgraded."""
        return self.works_bare and not self.works_upgraded

    @property
    def reason(self) -> str:
        """Why it does not work upgraded, in the words of the error; "": it does."""
        if self.works_upgraded:
            return ""
        ours = _REASON.match(str(self.upgraded.get("detail", "")))
        return ours[1] if ours else complaint(self.upgraded)

    @property
    def counted(self) -> Counted | None:
        """The row of rule T12 for which it may be lost."""
        refused = self.upgraded.get("outcome") == "refused"
        return counted(str(self.upgraded["detail"])) if refused else None

    @property
    def fault(self) -> str | None:
        """What is wrong with the upgraded exchange; None: it works, or is no worse than bare."""
        outcome, detail = self.upgraded["outcome"], str(self.upgraded.get("detail", ""))
        if outcome == "refused":
            if not self.lost or (self.counted and self.cure):
                return None
            how = "no line that was tried works" if self.counted else "rule T12 does not count it"
            return f"works bare, and {how}: {detail}"
        same = outcome == "wrong" == self.bare.get("outcome") and detail == self.bare.get("detail")
        return None if outcome == "works" or same else detail

    @property
    def libraries(self) -> tuple[str, ...]:
        producer, consumer = self.exchange.producer, self.exchange.consumer
        return tuple(dict.fromkeys((producer.library, *producer.needs, consumer.library)))

    def job(self, *, cost: bool) -> dict[str, Any]:
        return {
            "producer": self.exchange.producer.key,
            "consumer": self.exchange.consumer.key,
            "case": self.exchange.case.key,
            "cost": cost and self.exchange.case.key == COST_CASE,
        }

    def as_json(self) -> dict[str, Any]:
        return {
            "producer": self.exchange.producer.key,
            "consumer": self.exchange.consumer.key,
            "case": self.exchange.case.key,
            "reason": self.reason,
            "counted": self.counted.what if self.lost and self.counted else None,
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


def plan(versions: Mapping[str, str], chosen: set[str]) -> list[Cell]:
    """Return every exchange among the chosen libraries (and what is built in)."""
    here = chosen & (set(versions) | set(BUILT_IN))

    def present(consumer: Consumer) -> bool:
        version = version_tuple(versions.get(consumer.library, "0"))
        fits = version >= consumer.since and (consumer.until is None or version < consumer.until)
        return consumer.library in here and fits

    cells = []
    for producer in PRODUCERS:
        if producer.library not in here or not versions.keys() >= set(producer.needs):
            continue
        for consumer in filter(present, CONSUMERS):
            for key in producer.cases:
                cells.append(Cell(Exchange(producer, consumer, CASE_BY_KEY[key])))
    return cells
