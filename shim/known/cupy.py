"""CuPy."""

from __future__ import annotations

from .rows import Fault, Known, Library, also

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

_CUPY = [Known("cupy.from_dlpack", "cupy", devices=(2, 3, 10, 13))]

FUNCTIONS = (
    *_CUPY,
    *also("cupy.asarray", _CUPY, wants="buffer", takes_own=True),
)
