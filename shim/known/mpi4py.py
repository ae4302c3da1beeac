"""mpi4py, which holds no arrays."""

from __future__ import annotations

from .rows import Fault, Library

LIBRARY = Library("mpi4py", "mpi4py", ("mpi4py",), "mpi4py")

FAULTS = (
    Fault(
        "mpi4py",
        "what answers 0.x to max_version (JAX)",
        "refuses",
        since=(4,),
        upgraded="cured",
        source="NVIDIA/DALI#6307",
    ),
)
