"""ctypes-dlpack: structs for libraries that are called by ctypes."""

from __future__ import annotations

from .rows import Fault, Library

LIBRARY = Library("ctypes_dlpack", "ctypes_dlpack", ("ctypes-dlpack",))

FAULTS = (
    Fault(
        "ctypes_dlpack",
        "exports read-only memory as writable in 0.x",
        "wrong",
        since=(0, 1),
        upgraded="refused",
        source="habits.py",
    ),
)
