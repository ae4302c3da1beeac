"""Array libraries: their keys, modules and distributions, and the versions that are installed.

Nothing here imports a library.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

Version = tuple[int, ...]


@dataclass(frozen=True)
class Library:
    key: str
    #: The module that is imported; submodules that it needs come with it.
    module: str
    distributions: tuple[str, ...]


#: In the order in which a child of the matrix imports them: paddle before tensorflow, because the
#: other order kills the process (paddlepaddle 3.3, tensorflow 2.21).
_LIBRARIES = (
    Library("numpy", "numpy", ("numpy",)),
    Library("ml_dtypes", "ml_dtypes", ("ml_dtypes",)),
    Library("pyarrow", "pyarrow", ("pyarrow",)),
    Library("tvm_ffi", "tvm_ffi", ("apache-tvm-ffi",)),
    Library("array_api_strict", "array_api_strict", ("array-api-strict",)),
    Library("nanoarrow", "nanoarrow", ("nanoarrow",)),
    Library("torch", "torch", ("torch",)),
    Library("jax", "jax.numpy", ("jax",)),
    Library("warp", "warp", ("warp-lang",)),
    Library("mlx", "mlx.core", ("mlx",)),
    Library(
        "onnxruntime", "onnxruntime", ("onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino")
    ),
    Library("paddle", "paddle", ("paddlepaddle", "paddlepaddle-gpu")),
    Library(
        "tensorflow",
        "tensorflow",
        ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tensorflow-macos"),
    ),
    Library("cupy", "cupy", ("cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x")),
    Library("cuda.core", "cuda.core", ("cuda-core",)),
    Library("mpi4py", "mpi4py", ("mpi4py",)),
)
BY_KEY = {library.key: library for library in _LIBRARIES}

#: Libraries among which the matrix exchanges arrays; the others need a device or hold no arrays.
MATRIX = tuple(BY_KEY)[:-3]

#: Python's own buffers and raw capsules: always here.
BUILT_IN = ("stdlib", "capsule")


def loaded(module: str) -> Any:
    """Return a module that this process has imported."""
    return sys.modules[module]


def version_tuple(version: str) -> Version:
    """Return the first three numbers of a version; a part that is no number ends it."""
    found = re.match(r"\d+(?:\.\d+){0,2}", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def version_of(key: str) -> str | None:
    """Return a library's version, as its module or its metadata have it; None: not installed."""
    library = BY_KEY.get(key)
    if library is None:
        return None
    name = library.module.partition(".")[0]
    told = getattr(sys.modules.get(name), "__version__", None)
    if isinstance(told, str):
        return told
    try:
        found = find_spec(name)
    except (ImportError, ValueError):
        found = None
    for distribution in library.distributions if found else ():
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def installed_versions(keys: Iterable[str] = BY_KEY) -> dict[str, str]:
    """Return the version of each library that is installed, by its key."""
    return {key: version for key in keys if (version := version_of(key)) is not None}


def nearest(rows: list[Any], version: Version) -> tuple[Any, bool]:
    """Return the row nearest to a release, and whether it speaks of this release."""
    row = next((row for row in reversed(rows) if row.since <= version), rows[0])
    return row, row.since <= version < row.until
