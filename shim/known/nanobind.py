"""nanobind, which is compiled into others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .arrays import Consumer, Seen, shown
from .rows import LEGACY, LEGACY_FIRST, NOW_VERSIONED, Known, Library, also, spans

LIBRARY = Library("nanobind", "nanobind", ("nanobind",), "nanobind")

_NANOBIND = spans(
    (2, 10),
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
)

_NANOBIND += spans(
    (3, 2), replace(_NANOBIND[0], since=(3, 1), wants_writable=True, **NOW_VERSIONED)
)

FUNCTIONS = (
    *_NANOBIND,
    *also("nanobind, read-only parameter", _NANOBIND[:1], buffer_next=True),
    *also(
        "nanobind, read-only parameter",
        _NANOBIND[1:],
        asks=LEGACY_FIRST,
        keywords=(),
        wants_writable=False,
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
