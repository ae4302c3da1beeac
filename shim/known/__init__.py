"""What is known of array libraries, one module for each; nothing here imports a library.

``LIBRARY``
    Its key, module and distributions.
``FAULTS``
    Its known faults, by release.
``GIVES``, ``TAKES``
    How the matrix makes arrays of it, and sees what its functions have taken.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: In the order in which a child of the matrix imports them: paddle before tensorflow, because the
#: other order kills the process (paddlepaddle 3.3, tensorflow 2.21).
_NAMES = (
    "numpy",
    "ml_dtypes",
    "pyarrow",
    "tvm_ffi",
    "array_api_strict",
    "nanoarrow",
    "torch",
    "jax",
    "warp",
    "mlx",
    "onnxruntime",
    "paddle",
    "tensorflow",
    "max",
    "cupy",
    "cuda_core",
    "mpi4py",
    "nanobind",
    "drjit",
    "polars",
    "pandas",
    "duckdb",
    "arro3",
    "pyav",
    "ctypes_dlpack",
    "opencv",
    "vali",
    "cvcuda",
    "awkward",
    "cutlass",
    "numba_cuda",
)
MODULES = [import_module(f"{__name__}.{name}") for name in _NAMES]


def rows(kind: str, first: tuple[str, ...] = ()) -> list[Any]:
    """Return the rows of all libraries, those of the libraries `first` in that order before."""
    found = [row for module in MODULES for row in getattr(module, kind, ())]
    place = {key: number for number, key in enumerate(first)}
    return sorted(found, key=lambda row: place.get(row.library, len(place))) if first else found
