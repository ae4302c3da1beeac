"""The exchanges of the matrix: which are tried, what is expected of each, and what came of it.

Known limits of consumers, and what dlshim refuses on purpose, follow from the rows of
``dlshim.consumers``, as for ``inspect``; of a release that has no row the nearest one counts.  What
is left are the rows of ``LIMITS``.  None was taken from a run of the matrix.  Where it is not known
in which release a limit fell, the row covers all releases up to one without it: an exchange that
works is never held against a row.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..arrays import row_major
from ..counted import NO_DATA, Counted, counted
from ..facts import Facts
from ..known.arrays import Case, Consumer, Producer
from ..libraries import BUILT_IN, nearest, version_tuple
from ..options import AS_BOOL, AS_TAKEN, BUFFERS, Option
from ..sources import source_of
from ..verdicts import Expected, cure_of, outcomes
from .consumers import CONSUMERS, asks_as
from .producers import CASE_BY_KEY, COST_CASE, PRODUCERS

if TYPE_CHECKING:
    from ..known.rows import Known

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


def options(cure: str) -> dict[str, Any]:
    return {cure.name: cure.value} if isinstance(cure, Option) else BUFFERS.get(cure, {})


@dataclass(frozen=True)
class Exchange:
    """The facts that the limits speak about."""

    producer: Producer
    consumer: Consumer
    case: Case
    versions: Mapping[str, str]

    def is_old(self, library: str, *below: int) -> bool:
        """Whether a library's release is below another."""
        return version_tuple(self.versions.get(library, "0")) < below

    def made_by(self, library: str, *below: int) -> bool:
        """Whether the array is made by a library, in a release below another."""
        return self.producer.library == library and (not below or self.is_old(library, *below))

    def row(self) -> Known:
        """The consumer's row for the release that is here, or the nearest one."""
        consumer = self.consumer
        version = self.versions.get(consumer.asks_through or consumer.library, "0")
        row: Known = nearest(asks_as(consumer), version_tuple(version))[0]
        return row

    def facts(self) -> Facts:
        producer, case = self.producer, self.case
        version = version_tuple(self.versions.get(producer.library, "0"))
        source = source_of(producer.key.replace("_", "-"), version)[0]
        strides = {"transposed": (1, 3), "step": (2,), "reversed": (-1,)}.get(case.layout)
        readonly: bool | None = case.readonly or producer.immutable
        if producer.key == "capsule 0.x":
            readonly = None
        return Facts(
            library=producer.key,
            source=source if source and source.since <= version else None,
            immutable=producer.immutable,
            kind="capsule" if producer.library == "capsule" else "object",
            has_dlpack=producer.dlpack,
            has_buffer=producer.library in ("stdlib", "numpy", "jax"),
            dtype=case.dtype,
            shape=case.shape,
            strides=strides or row_major(case.shape),
            readonly=readonly,
            aligned_to=64,
            device=(1, 0),
        )

    def expected(self) -> tuple[Expected, Expected]:
        """What comes of it bare, and upgraded."""
        facts, row = self.facts(), self.row()
        bare = row
        if row.wants == "capsule":  # it is handed x.__dlpack__()
            bare = replace(row, wants="object", keywords=())
        return outcomes(facts, bare)[0], outcomes(facts, row)[1]


if TYPE_CHECKING:
    Covered = tuple[Expected, Callable[[Exchange], bool]]


def _limit(why: str, covers: Callable[[Exchange], bool], cure: str = "") -> Covered:
    return Expected("wrong" if cure else "refused", why=why, cure=cure), covers


#: Limits of producers, and faults of consumers, that ``inspect`` does not tell.  Of those that are
#: "wrong", nothing on the way can notice it: the consumer shows something else, without an error.
LIMITS: tuple[Covered, ...] = (
    _limit(
        "Arrow packs booleans into bits, which DLPack cannot describe",
        lambda e: e.case.dtype == "bool" and e.made_by("pyarrow"),
    ),
    _limit(
        "torch before 2.6 exports no booleans",
        lambda e: e.case.dtype == "bool" and e.made_by("torch", 2, 6),
    ),
    _limit(
        "this release of the producer labels its booleans as uint8",
        lambda e: (
            e.case.dtype == "bool"
            and (
                e.made_by("onnxruntime", 1, 32)
                or e.made_by("jax", 0, 4, 24)
                or e.made_by("tensorflow", 2, 19)
                or e.made_by("paddle", 3)
            )
        ),
        AS_BOOL,
    ),
    _limit(
        NO_DATA,
        lambda e: (
            e.case.readonly
            and e.producer.key == "pyarrow.Tensor"
            and e.made_by("pyarrow", 26)
            and not e.made_by("pyarrow", 21)
        ),
    ),
    _limit(
        "jax before 0.8 computes wrong values from transposed data, or misreads them",
        lambda e: (
            e.case.layout == "transposed" and e.consumer.library == "jax" and e.is_old("jax", 0, 8)
        ),
        AS_TAKEN,
    ),
)


def limit_of(exchange: Exchange) -> Expected | None:
    """Return the first limit that covers the exchange; None: it should work."""
    own = next((limit for limit, covers in LIMITS if covers(exchange)), None)
    if own and not own.cure:
        return own
    limit = exchange.expected()[1]
    told = own if limit.result == "works" else limit
    if told and exchange.case.dtype == "bool":
        told = told._replace(result="wrong")  # labelled uint8 on the way, or taken for it
    return told and told._replace(cure=cure_of(exchange.facts(), exchange.row(), told))


@dataclass
class Cell:
    """One exchange: what it is, what is expected of it, what came of it."""

    exchange: Exchange
    limit: Expected | None
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
    def lost(self) -> bool:
        """Whether it worked bare, and does not upgraded."""
        return self.works_bare and not self.works_upgraded

    @property
    def counted(self) -> Counted | None:
        """The row of rule T12 for which it may be lost."""
        return counted(self.limit.why) if self.limit else None

    @property
    def fault(self) -> str | None:
        """What is wrong with the upgraded exchange; None when all is as stated."""
        outcome = self.upgraded["outcome"]
        if outcome == "works":
            return None
        limit = self.limit
        stated = limit is not None and (outcome == "refused" or outcome == limit.result == "wrong")
        if limit is None or not stated:
            return str(self.upgraded["detail"])
        if self.lost and self.counted is None:
            return f"works bare, and rule T12 does not count it: {limit.why}"
        if limit.cure and not self.works_with_option:
            return f"with {limit.cure}: {self.upgraded['cured']['detail']}"
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
            "cure": options(self.limit.cure) if self.limit else {},
            "as_buffer": self.limit is not None and self.limit.cure in BUFFERS,
            "libraries": self.libraries,
            "cost": cost and self.exchange.case.key == COST_CASE,
        }

    def as_json(self) -> dict[str, Any]:
        return {
            "producer": self.exchange.producer.key,
            "consumer": self.exchange.consumer.key,
            "case": self.exchange.case.key,
            "limit": self.limit.why if self.limit else None,
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
                exchange = Exchange(producer, consumer, CASE_BY_KEY[key], versions)
                cells.append(Cell(exchange, limit_of(exchange)))
    return cells
