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
from .rows import Fault, Library

LIBRARY = Library("max", "max.driver", ("max",), "Modular MAX")

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


def _max(case: Case) -> Made:
    made = loaded("max.driver").Buffer.from_numpy(numpy_array(case))
    return Made(made, made._data_ptr())


def _see_max(made: Any) -> Seen:
    if "bfloat16" in str(made.dtype):  # has no NumPy array
        return see_exported(made)
    return shown(made.shape, made.to_numpy().tolist(), made._data_ptr())


GIVES = (Producer("max", "max", "max", DENSE, _max, needs=("numpy",)),)

TAKES = (Consumer("max", "max", "max", "max.driver.Buffer.from_dlpack", _see_max),)
