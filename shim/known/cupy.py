"""CuPy."""

from __future__ import annotations

from .rows import Fault, Library

LIBRARY = Library("cupy", "cupy", ("cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x"))

FAULTS = (
    Fault(
        "cupy",
        "toDlpack() gives 1.x, which most refuse",
        "refuses",
        since=(14,),
        upgraded="cured",
        source="cupy/cupy#9011",
    ),
    Fault(
        "cupy",
        "copy=True on the device",
        "refuses",
        since=(10,),
        upgraded="none",
        source="cupy/cupy#9842",
    ),
)
