"""What must come out of each upgraded cell, written by hand.

Three sources and no other: facts about the array (``producers.Facts``), documented limits of the
consumer (``consumers``, ``refusals``) and the rules of dlshim that a user can read. Nothing in
here was taken from a run of the matrix.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from . import versions
from .cases import PLAIN, Layout, row_major
from .consumers import Consumer
from .functions import ALWAYS_READONLY, HONOURS, LEGACY, LEGACY_FIRST
from .producers import IMMUTABLE, STATED, WRITABLE, Facts
from .refusals import REFUSALS


@dataclass(frozen=True)
class Expected:
    row: str | None = None
    """The row of ``refusals`` that says why not; None: the exchange works."""
    raises: tuple[str, ...] = ()
    changes: bool = False
    """It arrives as something else than it was; the row says why."""
    leaks: bool = False
    """Whoever refuses it forgets the capsule; the row says why."""
    refused_by: str | None = None
    shares: bool | None = None
    """True: the address of element zero is that of the source. None: no matter (no elements)."""
    writable: bool | None = None

    @property
    def works(self) -> bool:
        return self.row is None


def told(facts: Facts, consumer: Consumer, shim: str) -> Facts:
    """A legacy consumer is told what the library's own capsules say of the elements."""
    first = consumer.asks in (LEGACY, LEGACY_FIRST) and not consumer.buffer
    legacy = first and not consumer.reads_table and shim == "upgraded"
    own = facts.legacy_dtype if legacy else None
    return replace(facts, dtype=own) if own is not None else facts


def arriving(facts: Facts, consumer: Consumer) -> Facts:
    """The array as the consumer meets it. Asked for a copy, dlshim makes a fresh one, contiguous,
    aligned and writable (T8), whatever the source was."""
    if not consumer.asks_copy:
        return facts
    old = facts.layout
    layout = Layout(old.name, old.shape, row_major(old.shape))
    return replace(facts, layout=layout, access=WRITABLE, address=None)


def expect(facts: Facts, consumer: Consumer, shim: str = "upgraded") -> Expected:
    met = arriving(facts, consumer)
    if consumer.buffer:  # a Tensor's buffer says read-only, and supports all strides
        return from_buffer(facts, consumer)
    if met.negative and not consumer.supports_negative:
        return refused("N9-negative", consumer.raises)
    if consumer.is_known_to_refuse(met.layout):
        return refused("N9-layout", consumer.raises)
    legacy = consumer.asks == LEGACY and not consumer.reads_table  # our types have a table
    told = consumer.never_writes or through_buffer(met, consumer, shim)
    if met.access == STATED and legacy and not told:
        return refused("T8-readonly", consumer.raises)
    row = consumer.limit(met)
    if row == "nanobind-readonly" and met.access == IMMUTABLE:
        row = "T8-immutable"
    if row is not None:
        return refused(row, REFUSALS[row].raises)
    return Expected(shares=shares(facts, met, consumer), writable=writable(met, consumer))


def from_buffer(facts: Facts, consumer: Consumer) -> Expected:
    row = consumer.limit(facts)
    strict = facts.producer == "array-api-strict" and versions.of("numpy") < (2, 1)
    if strict and facts.access == STATED:  # there is no way in
        return refused("strict-readonly", consumer.raises)
    if row is not None:
        return refused(row, REFUSALS[row].raises)
    return Expected(shares=shares(facts, facts, consumer), writable=writable(facts, consumer))


def through_buffer(met: Facts, consumer: Consumer, shim: str) -> bool:
    """A Tensor has the buffer protocol too, which can say read-only; a Producer has not."""
    return shim == "tensor" and consumer.buffer_next and met.dtype.name in PLAIN


def refused(row: str, raises: tuple[str, ...]) -> Expected:
    why = REFUSALS[row]
    return Expected(row, raises, why.changes, why.leaks, why.who)


def shares(facts: Facts, met: Facts, consumer: Consumer) -> bool | None:
    if facts.layout.size == 0 or facts.address is None:
        return None
    copies = consumer.copies(met)
    return None if copies is None else not (consumer.asks_copy or copies)


def writable(met: Facts, consumer: Consumer) -> bool | None:
    if consumer.flag == ALWAYS_READONLY:
        return False
    if consumer.flag == HONOURS:
        return met.access == WRITABLE
    return None
