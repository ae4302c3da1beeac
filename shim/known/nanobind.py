"""nanobind, which is compiled into others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .arrays import Consumer, Seen, shown
from .rows import LEGACY, LEGACY_FIRST, NOW_VERSIONED, Known, Library, spans

LIBRARY = Library("nanobind", "nanobind", ("nanobind",), "nanobind")

_NANOBIND = spans(
    (3, 2),
    Known(
        "nanobind, writable parameter",
        "",
        (2, 2),
        family="nanobind",
        asks=LEGACY,
        unchecked=True,
        takes_buffers=True,
        takes_capsules=True,
        passes_on="TypeError",
        no_way=("TypeError",),
    ),
    ((2, 10), {"wants_writable": True, **NOW_VERSIONED}),
)

FUNCTIONS = (
    *_NANOBIND,
    *spans(
        (3, 2),
        replace(_NANOBIND[0], name="nanobind, read-only parameter", buffer_next=True),
        ((2, 10), {"buffer_next": False, **NOW_VERSIONED}),
        ((2, 13), {"asks": LEGACY_FIRST, "keywords": ()}),
    ),
)


def _see_nanobind(made: Any) -> Seen:
    from ..matrix.capsules import elements

    address, shape, strides, dtype = made.told()
    return shown(shape, list(elements(address, shape, strides, dtype)), address)


# The functions are compiled by the matrix.
TAKES = tuple(
    Consumer(
        f"nanobind, {parameter}",
        label,
        "nanobind",
        f"nanobind, {parameter} parameter",
        _see_nanobind,
        path=f"dlshim_nanobind.{function}",
    )
    for parameter, label, function in (
        ("writable", "nanobind", "take"),
        ("read-only", "nanobind ro", "take_read_only"),
    )
)
