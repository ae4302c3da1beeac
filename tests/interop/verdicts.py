"""What the tables expect of each cell, and whether the run agrees.

A verdict may say that something cannot be told. What it does say must be what happens, bare and
upgraded: works or not, by which error, copied or not, writable or not.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

from dlshim.known.rows import COPIES_UNALIGNED
from dlshim.verdicts import Expectation, Expected, expected

from . import cells
from .consumers import Consumer
from .producers import Producer, Unmakeable

SHIM = "verdict"
PARTS = ("bare", "upgraded")
KINDS = {
    "works": cells.WORKS,
    "refused": (cells.ERROR,),
    "wrong": (cells.WRONG,),
    "dies": (cells.CRASH,),
}


def tell(producer: Producer, consumer: Consumer, dtype, layout) -> str | None:
    """The verdicts without and with an export, as JSON; None where nothing could be made."""
    try:
        made = producer.make(dtype, layout)
    except Unmakeable:
        return None
    told = []
    for export in (False, True):
        verdict = verdict_of(expected(made.obj, consumer.known, export=export), consumer)
        told.append([as_told(getattr(verdict, part), made, consumer) for part in PARTS])
    return json.dumps([told, made.facts.address is None, consumer.capsule])


def as_told(outcome: Expected, made, consumer: Consumer) -> dict:
    """What may differ between two arrays of a cell is compared at once: where the memory lies."""
    if consumer.memory == COPIES_UNALIGNED and outcome.copied is not None:
        here = made.facts.address  # None: each export lies elsewhere
        if here is None or outcome.copied == consumer.copies(made.facts):
            outcome = outcome._replace(copied=None)
        else:
            outcome = Expected("contradicts the address")
    return outcome._asdict()


def verdict_of(found: tuple[Expectation, ...], consumer: Consumer):
    """nanobind is told by spans of releases, each in one verdict; all others have one."""
    if len(found) == 1:
        return found[0]
    return next(v for v in found if is_within(v.version, consumer.version()))


def is_within(span: str, version: tuple[int, ...]) -> bool:
    """Whether a span such as "2.2 to 2.9" has this release."""
    first, last = (tuple(map(int, end.split("."))) for end in span.split(" to "))
    return first <= version[:2] <= last


@dataclass
class Compared:
    """Verdicts that the run contradicts, and how many there were of each kind."""

    wrong: list[str]
    counts: Counter
    unknown: Counter
    """How often something could not be told: (part, why, consumer)."""


def compare(summary) -> Compared:
    """Hold each verdict against the cell of the run that it is about."""
    wrong: dict[tuple, list] = {}
    counts: Counter = Counter()
    unknown: Counter = Counter()
    for key, cell in summary.shim(SHIM).items():
        told, no_address, capsules_only = json.loads(cell.detail)
        for export, parts in zip(("", " after an export"), told, strict=True):
            for part, said in zip(PARTS, parts, strict=True):
                if part == "bare" and capsules_only:
                    continue  # the matrix gives these x.__dlpack__(), the verdict is about x
                seen = summary.shim(part).get(key)
                if seen is None or seen.kind in (cells.NA, cells.LEAK):
                    continue
                outcome = Expected(**said)
                counts[part + export, outcome.result] += 1
                if outcome.result == "unknown":
                    unknown[part + export, outcome.why, key[1]] += 1
                if problem := contradiction(outcome, seen, no_address):
                    where = (key[0], key[1], part + export, problem)
                    wrong.setdefault(where, []).append(key[2:])
    lines = []
    for (producer, consumer, part, problem), keys in sorted(wrong.items()):
        some = ", ".join(" ".join(key) for key in keys[:3])
        lines.append(f"{len(keys)} x {producer} -> {consumer} ({part}): {problem}: {some}")
    return Compared(lines, counts, unknown)


def contradiction(said: Expected, seen, no_address: bool) -> str:
    """Why the verdict is wrong; "" if it is not."""
    if said.result == "unknown":
        return ""
    raised = seen.detail.partition(":")[0]
    if said.result == "wrong" and seen.kind == cells.ERROR and raised in said.raises:
        return ""
    if seen.kind not in KINDS.get(said.result, ()):
        return f"said {said}, seen {seen.kind}: {seen.detail[:80]}"
    if said.result == "refused":
        return "" if raised in said.raises else f"said {said}, raised {seen.detail[:80]}"
    if said.result != "works":
        return ""
    if said.copied is not None and not no_address and said.copied != (seen.kind == cells.COPIED):
        return f"said {said}, seen {seen.kind}"
    if None not in (said.writable, seen.writable) and said.writable != seen.writable:
        return f"said {said}, seen writable: {seen.writable}"
    return ""
