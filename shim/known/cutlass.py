"""CUTLASS's CuTe DSL, whose kernels take arrays."""

from __future__ import annotations

from .rows import Library

LIBRARY = Library("cutlass", "cutlass", ("nvidia-cutlass-dsl",))
