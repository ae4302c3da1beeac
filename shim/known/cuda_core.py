"""cuda.core."""

from __future__ import annotations

from .rows import Fault, Library

LIBRARY = Library("cuda.core", "cuda.core", ("cuda-core",), "cuda.core")

FAULTS = (
    Fault(
        "cuda.core",
        "ignores byte offsets",
        "wrong",
        since=(0, 1),
        until=(1, 2),
        upgraded="cured",
        source="NVIDIA/cuda-python#2592",
    ),
    Fault(
        "cuda.core",
        "exports read-only memory as writable",
        "wrong",
        since=(0, 1),
        upgraded="refused",
        source="M14",
    ),
)
