"""Long sequences, compared in a way that can fail soon.

Where a plain ``==`` in an assert fails, pytest shows how the two differ.  For thousands of numbers
that takes minutes with ``CI=true``, where nothing is cut short.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def first_difference(found: Sequence[Any], wanted: Sequence[Any]) -> tuple[Any, ...] | None:
    """The first place that differs, with what is there and what should be; None: there is none."""
    if found == wanted:
        return None
    if len(found) != len(wanted):
        return "length", len(found), len(wanted)
    for place, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if a != b:
            return place, a, b
    return "type", type(found), type(wanted)  # a list is never equal to a tuple
