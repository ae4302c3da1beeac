"""nanobind, which is compiled into others."""

from __future__ import annotations

from typing import Any

from .arrays import Consumer, Seen, shown
from .rows import Library

LIBRARY = Library("nanobind", "nanobind", ("nanobind",), "nanobind")


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
