"""nanoarrow: buffers and their views."""

from __future__ import annotations

from typing import Any

from .arrays import Case, Consumer, Made, Producer, Seen, exported_address, loaded, shown
from .rows import Fault, Library

LIBRARY = Library("nanoarrow", "nanoarrow", ("nanoarrow",), "nanoarrow")

FAULTS = (
    Fault(
        "nanoarrow",
        "reads past the end of 2-D data",
        "wrong",
        since=(0, 5),
        upgraded="refused",
        source="M10",
    ),
)


def _nanoarrow(case: Case) -> Made:
    nanoarrow = loaded("nanoarrow")
    types = {"float32": nanoarrow.float32(), "uint8": nanoarrow.uint8()}
    made = nanoarrow.c_array(case.values, types[case.dtype]).view().buffer(1)
    return Made(made, exported_address(made))


def _see_nanoarrow(made: Any) -> Seen:
    values = list(made.elements())
    return shown((len(values),), values, made._addr())


def _nanoarrow_column(case: Case) -> Made:
    nanoarrow = loaded("nanoarrow")
    types = {"float32": nanoarrow.float32(), "uint8": nanoarrow.uint8()}
    made = nanoarrow.Array(case.values, types[case.dtype])
    return Made(made, made.buffer(1)._addr())


GIVES = (
    Producer("nanoarrow", "nanoarrow", "nanoarrow", ("line", "uint8"), _nanoarrow),
    Producer(
        "nanoarrow.Array",
        "nanoarrow Array",
        "nanoarrow",
        ("line", "uint8"),
        _nanoarrow_column,
        immutable=True,
        dlpack=False,
    ),
)

TAKES = (
    Consumer(
        "nanoarrow", "nanoarrow", "nanoarrow", "nanoarrow.c_buffer", _see_nanoarrow, flat=True
    ),
)
