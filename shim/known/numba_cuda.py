"""numba-cuda, whose kernels take arrays."""

from __future__ import annotations

from .rows import Library

LIBRARY = Library("numba.cuda", "numba_cuda", ("numba-cuda",))
