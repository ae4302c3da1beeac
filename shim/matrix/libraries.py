"""Which array libraries the matrix knows, and which of them are installed.

Nothing is imported here: a library is present when its distribution has metadata
and its module can be found.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import sys
from dataclasses import dataclass
from typing import Any

__all__ = [
    "BY_KEY",
    "LIBRARIES",
    "Library",
    "Version",
    "installed_versions",
    "loaded",
    "version_tuple",
]


Version = tuple[int, ...]


@dataclass(frozen=True)
class Library:
    key: str
    #: What is imported; submodules that it needs come with it.
    module: str
    distributions: tuple[str, ...]
    #: Function of the module that must be called before anything else.
    start: str | None = None


# In the order in which a child imports them: paddle before tensorflow, because the
# other order kills the process (paddlepaddle 3.3, tensorflow 2.21).
LIBRARIES = (
    Library("numpy", "numpy", ("numpy",)),
    Library("ml_dtypes", "ml_dtypes", ("ml_dtypes",)),
    Library("pyarrow", "pyarrow", ("pyarrow",)),
    Library("tvm_ffi", "tvm_ffi", ("apache-tvm-ffi",)),
    Library("array_api_strict", "array_api_strict", ("array-api-strict",)),
    Library("nanoarrow", "nanoarrow", ("nanoarrow",)),
    Library("torch", "torch", ("torch",)),
    Library("jax", "jax.numpy", ("jax",)),
    Library("warp", "warp", ("warp-lang",), start="init"),
    Library("mlx", "mlx.core", ("mlx",)),
    Library(
        "onnxruntime",
        "onnxruntime",
        ("onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino"),
    ),
    Library("paddle", "paddle", ("paddlepaddle", "paddlepaddle-gpu")),
    Library(
        "tensorflow",
        "tensorflow",
        ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tensorflow-macos"),
    ),
)
BY_KEY = {library.key: library for library in LIBRARIES}

#: Python's own buffers and raw capsules: always here.
BUILT_IN = ("stdlib", "capsule")


def loaded(module: str) -> Any:
    """Return a module that this process has imported."""
    return sys.modules[module]


def version_tuple(version: str) -> Version:
    """Return the first three numbers of a version; what is no number ends it."""
    found = re.match(r"\d+(?:\.\d+){0,2}", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _installed_version(library: Library) -> str | None:
    try:
        found = importlib.util.find_spec(library.module.partition(".")[0])
    except (ImportError, ValueError):
        found = None
    if found is None:
        return None
    for name in library.distributions:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def installed_versions() -> dict[str, str]:
    """Return the version of each known library that is installed, by its key."""
    versions = {library.key: _installed_version(library) for library in LIBRARIES}
    return {key: version for key, version in versions.items() if version is not None}
