"""NumPy: its arrays, its scalars, and its functions that take arrays."""

from __future__ import annotations

from .arrays import STRIDED, Consumer, Producer, made_by_numpy, see_numpy
from .rows import (
    Fault,
    Library,
)

LIBRARY = Library("numpy", "numpy", ("numpy",), "NumPy")

FAULTS = (
    Fault(
        "numpy",
        "its deleters need the GIL",
        "kills",
        since=(1, 22),
        until=(1, 24),
        upgraded="cured",
        source="numpy/numpy#22507",
    ),
    Fault(
        "numpy",
        "whatever it takes is read-only",
        "refuses",
        since=(1, 22),
        until=(2, 2, 5),
        upgraded="none",
        source="numpy/numpy#28599",
    ),
)


GIVES = (
    Producer(
        "numpy",
        "numpy",
        "numpy",
        (*STRIDED, "reversed", "readonly"),
        made_by_numpy,
    ),
)

TAKES = (Consumer("numpy", "numpy", "numpy", "numpy.from_dlpack", see_numpy, since=(1, 22)),)
