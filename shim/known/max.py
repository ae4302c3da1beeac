"""Modular MAX: Buffer."""

from __future__ import annotations

from typing import Any

from .arrays import (
    DENSE,
    Case,
    Consumer,
    Made,
    Producer,
    Seen,
    loaded,
    numpy_array,
    see_exported,
    shown,
)
from .rows import BF16, LEGACY, REAL, Fault, Known, Library, Source

LIBRARY = Library("max", "max.driver", ("max",), "Modular MAX")

SOURCES = (Source("max", "max", (26, 7), (26, 8)),)

FAULTS = (
    Fault(
        "max",
        "ignores strides",
        "wrong",
        since=(26, 7),
        upgraded='refused, or order="auto"',
        source="habits.py",
    ),
    Fault(
        "max",
        "ignores byte offsets",
        "wrong",
        since=(26, 7),
        upgraded="cured",
        source="habits.py",
    ),
    Fault(
        "max",
        "exports strided slices as contiguous",
        "wrong",
        since=(26, 7),
        upgraded="none",
        source="habits.py",
    ),
)

_FLOAT8 = frozenset(
    {"float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"}
)

FUNCTIONS = (
    Known(
        "max.driver.Buffer.from_dlpack",
        "max",
        (26, 7),
        (26, 8),
        asks=LEGACY,
        supports_negative=False,
        negative="",
        # NumPy's arrays are checked, and copied where they are read-only, before they are asked.
        converts=True,
        takes_own=True,
        dtypes=REAL | BF16 | _FLOAT8,
        limits=("ignores strides", "dtype"),
        layout="ignores strides",
    ),
)


def _max(case: Case) -> Made:
    made = loaded("max.driver").Buffer.from_numpy(numpy_array(case))
    return Made(made, made._data_ptr())


def _see_max(made: Any) -> Seen:
    if "bfloat16" in str(made.dtype):  # has no NumPy array
        return see_exported(made)
    return shown(made.shape, made.to_numpy().tolist(), made._data_ptr())


GIVES = (Producer("max", "max", "max", DENSE, _max, needs=("numpy",)),)

TAKES = (Consumer("max", "max", "max", "max.driver.Buffer.from_dlpack", _see_max),)
