"""How the objects of each library answer ``__dlpack__``, by release, and the known faults.

``inspect``, ``doctor`` and the matrix answer from these rows, and tests/interop compares them with
what happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .consumers import BOOL, PLAIN
from .libraries import Version, nearest, version_tuple
from .look import ALL


@dataclass(frozen=True)
class Source:
    """How objects answer ``__dlpack__``, from `since` on and before `until`."""

    #: The row's name in ``inspect``'s report.
    name: str
    library: str
    since: Version = ()
    until: Version = ()
    #: Keywords that give no TypeError.
    takes: frozenset[str] = frozenset({"stream", "max_version", "dl_device", "copy"})
    #: They give DLPack 1.x where it is asked for.
    versioned: bool = True
    immutable: bool = False
    #: They say READ_ONLY in DLPack 1.x.
    states: bool = False
    #: What they raise for read-only memory in DLPack 0.x; "": they give it.
    refuses_readonly: str = ""
    #: What they call booleans in DLPack 0.x.
    legacy_bool: str = "bool"
    #: Their own capsules keep the memory alive, and every consumer reads them rightly.
    sound: bool = True
    #: Libraries that do not understand what its ``__dlpack_device__`` gives.
    refused_by: tuple[str, ...] = ()
    dtypes: frozenset[str] = ALL


def _old(name: str, library: str, since: Version, until: Version, **more: Any) -> Source:
    """The row of objects that take stream= alone, and give DLPack 0.x."""
    return Source(name, library, since, until, frozenset({"stream"}), versioned=False, **more)


_NUMPY_SAYS: dict[str, Any] = {"states": True, "refuses_readonly": "BufferError", "dtypes": PLAIN}
SOURCES = [
    _old(
        "numpy",
        "numpy",
        (1, 22),
        (1, 24),
        **_NUMPY_SAYS | {"refuses_readonly": "TypeError", "dtypes": PLAIN - BOOL},
    ),
    _old("numpy", "numpy", (1, 24), (2, 1), **_NUMPY_SAYS),
    Source("numpy", "numpy", (2, 1), (2, 6), **_NUMPY_SAYS),
    Source("numpy scalar", "numpy", until=(99,), immutable=True),
    Source("drjit", "", until=(99,), immutable=True),
    _old("torch", "torch", (1, 13), (2, 9)),
    Source("torch", "torch", (2, 9), (2, 16)),
    _old("jax", "jax", (0, 4, 26), (0, 4, 27), immutable=True),
    Source("jax", "jax", (0, 4, 27), (0, 11), versioned=False, immutable=True),
    Source("jax", "jax", (0, 12), (0, 13), immutable=True, states=True),
    Source("tensorflow", "tensorflow", (2, 12), (2, 22), versioned=False, immutable=True),
    _old("pyarrow.Array", "pyarrow", (15,), (26,), immutable=True),
    Source("pyarrow.Array", "pyarrow", (26,), (27,), immutable=True, states=True),
    Source(
        "pyarrow.Tensor",
        "pyarrow",
        (26,),
        (27,),
        states=True,
        refuses_readonly="ArrowNotImplementedError",
    ),
    _old("warp", "warp", (1, 9), (1, 20)),
    Source("tvm-ffi", "tvm_ffi", (0, 1, 15), (0, 1, 16)),
    _old("paddle", "paddle", (3,), (3, 3), refused_by=("jax",)),
    Source("paddle", "paddle", (3, 3), (3, 4), refused_by=("jax",)),
    Source("mlx", "mlx", (0, 14), (0, 32), frozenset(), versioned=False, sound=False),
    Source("mlx", "mlx", (0, 32), (0, 33), versioned=False, sound=False),
    _old("onnxruntime", "onnxruntime", (1, 31), (1, 33), legacy_bool="uint8", sound=False),
    _old("nanoarrow", "nanoarrow", (0, 6), (0, 10)),
]


def source_of(name: str | None, version: Version) -> tuple[Source | None, bool]:
    """Return the row of a library's objects nearest to a release, and whether it speaks of it."""
    rows = [row for row in SOURCES if row.name == name]
    return nearest(rows, version) if rows else (None, False)


# Library, first release, first one without (- is none), harm | what | with dlshim
# Beside it stands its source: a public issue, or the id of a case of tests/replays/replays.toml.
# fmt: off
_FAULTS = (
    "numpy 1.22 1.24 kills | its deleters need the GIL | cured",  # numpy/numpy#22507
    "numpy 1.22 2.2.5 refuses | whatever it takes is read-only | none",  # numpy/numpy#28599
    'torch 1.10 2.14 kills | negative strides | refused, or order="C"',  # pytorch/pytorch#188023
    "torch 1.0 2.10 wrong | ignores byte offsets | cured",  # pytorch/pytorch#168177
    'torch 2.9 - wrong | writes to read-only memory | warned; readonly="copy"',  # M12
    "torch 1.10 - wrong | exports the negative bit without the sign | refused",  # M7
    "torch 1.10 2.3 leaks | arrays without elements | cured",  # pytorch/pytorch#117058
    "torch 1.10 - leaks | the tensor of an export that fails | none",  # pytorch/pytorch#171820
    'jax 0.1 - wrong | calls immutable arrays writable | marked; readonly="copy"',  # M13
    "tensorflow 2.2 - kills | exports of text and resources | refused",  # libraries.def
    'tensorflow 2.2 - wrong | calls immutable arrays writable | marked; readonly="copy"',  # M13
    "tensorflow 2.2 - wrong | exports scalars with shape (1,) | cured",  # M17
    'pyarrow 15 26 wrong | calls immutable arrays writable | marked; readonly="copy"',  # M13
    "pyarrow 26 - wrong | copy=True of a strided Tensor | cured",  # M8
    'paddle 3 - refuses | negative strides, when read | refused, or order="C"',  # M19
    "onnxruntime 1.26 - wrong | its capsules do not keep their memory alive | cured",  # M1
    "onnxruntime 1.26 - wrong | ignores byte offsets | cured",  # M6
    "warp 0.2 - wrong | ignores byte offsets | cured",  # NVIDIA/warp#1573
    "nanoarrow 0.5 - wrong | reads past the end of 2-D data | refused",  # M10
    "tvm_ffi 0.1 - wrong | copy=True without max_version does not copy | cured",  # M15
    "cupy 14 - refuses | toDlpack() gives 1.x, which most refuse | cured",  # cupy/cupy#9011
    "cupy 10 - refuses | copy=True on the device | none",  # cupy/cupy#9842
    "cuda.core 0.1 1.2 wrong | ignores byte offsets | cured",  # NVIDIA/cuda-python#2592
    "cuda.core 0.1 - wrong | exports read-only memory as writable | refused",  # M14
    "mpi4py 4 - refuses | what answers 0.x to max_version (JAX) | cured",  # NVIDIA/DALI#6307
    "array_api_strict 1 2.2 refuses | max_version, not by a TypeError | cured",  # case 5
)
# fmt: on
FAULTS = [[*where.split(), *told] for where, *told in (row.split(" | ") for row in _FAULTS)]


def faults(library: str, version: Version) -> list[list[str]]:
    """Harm, what, and what dlshim does, of each fault of a release."""
    return [
        told
        for name, since, below, *told in FAULTS
        if name == library
        and version >= version_tuple(since)
        and (below == "-" or version < version_tuple(below))
    ]
