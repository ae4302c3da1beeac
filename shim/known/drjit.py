"""Dr.Jit: arrays and tensors of its host back ends, and of CUDA."""

from __future__ import annotations

from .rows import Fault, Library, unsaid_immutable

LIBRARY = Library("drjit", "drjit", ("drjit",))

FAULTS = (
    unsaid_immutable("drjit", (1, 5), source="habits.py"),
    Fault(
        "drjit",
        "scatter() writes to read-only memory",
        "wrong",
        since=(1, 5),
        upgraded='none, or readonly="copy"',
        source="habits.py",
    ),
)
