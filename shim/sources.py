"""How the objects of each library answer ``__dlpack__``, by release, and the known faults.

tests/interop compares these rows with what happens.
"""

from __future__ import annotations

from . import known
from .known.rows import Fault, Source, Version
from .libraries import nearest

SOURCES: list[Source] = known.rows("SOURCES")
FAULTS: list[Fault] = known.rows("FAULTS")


def source_of(name: str | None, version: Version) -> tuple[Source | None, bool]:
    """Return the row of a library's objects nearest to a release, and whether it speaks of it."""
    rows = [row for row in SOURCES if row.name == name]
    return nearest(rows, version) if rows else (None, False)


def faults(library: str, version: Version) -> list[Fault]:
    """Return the faults of a release."""
    return [
        fault
        for fault in FAULTS
        if fault.library == library
        and version >= fault.since
        and (not fault.until or version < fault.until)
    ]
