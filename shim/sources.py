"""How the objects of each library answer ``__dlpack__``, by release, and the known faults.

``inspect``, ``doctor`` and the matrix answer from these rows, and tests/interop compares them with
what happens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .consumers import BOOL, PLAIN
from .libraries import Version, nearest
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


@dataclass(frozen=True)
class Fault:
    """A known fault of a library, from `since` on and before `until`; (): it is not mended."""

    library: str
    what: str
    #: It "kills" the process, gives something "wrong", "leaks" or "refuses".
    harm: str
    since: Version
    until: Version = ()
    #: What becomes of it with dlshim.
    upgraded: str = field(kw_only=True)
    #: A public issue, a case of tests/replays/replays.toml, or libraries.def.
    source: str = field(kw_only=True)


FAULTS = (
    Fault(
        "numpy",
        "its deleters need the GIL",
        "kills",
        since=(1, 22),
        until=(1, 24),
        upgraded="cured",
        source="numpy/numpy#22507",
    ),
    Fault(
        "numpy",
        "whatever it takes is read-only",
        "refuses",
        since=(1, 22),
        until=(2, 2, 5),
        upgraded="none",
        source="numpy/numpy#28599",
    ),
    Fault(
        "torch",
        "negative strides",
        "kills",
        since=(1, 10),
        until=(2, 14),
        upgraded='refused, or order="C"',
        source="pytorch/pytorch#188023",
    ),
    Fault(
        "torch",
        "ignores byte offsets",
        "wrong",
        since=(1, 0),
        until=(2, 10),
        upgraded="cured",
        source="pytorch/pytorch#168177",
    ),
    Fault(
        "torch",
        "writes to read-only memory",
        "wrong",
        since=(2, 9),
        upgraded='warned; readonly="copy"',
        source="M12",
    ),
    Fault(
        "torch",
        "exports the negative bit without the sign",
        "wrong",
        since=(1, 10),
        upgraded="refused",
        source="M7",
    ),
    Fault(
        "torch",
        "arrays without elements",
        "leaks",
        since=(1, 10),
        until=(2, 3),
        upgraded="cured",
        source="pytorch/pytorch#117058",
    ),
    Fault(
        "torch",
        "the tensor of an export that fails",
        "leaks",
        since=(1, 10),
        upgraded="none",
        source="pytorch/pytorch#171820",
    ),
    Fault(
        "jax",
        "calls immutable arrays writable",
        "wrong",
        since=(0, 1),
        upgraded='marked; readonly="copy"',
        source="M13",
    ),
    Fault(
        "tensorflow",
        "exports of text and resources",
        "kills",
        since=(2, 2),
        upgraded="refused",
        source="libraries.def",
    ),
    Fault(
        "tensorflow",
        "calls immutable arrays writable",
        "wrong",
        since=(2, 2),
        upgraded='marked; readonly="copy"',
        source="M13",
    ),
    Fault(
        "tensorflow",
        "exports scalars with shape (1,)",
        "wrong",
        since=(2, 2),
        upgraded="cured",
        source="M17",
    ),
    Fault(
        "pyarrow",
        "calls immutable arrays writable",
        "wrong",
        since=(15,),
        until=(26,),
        upgraded='marked; readonly="copy"',
        source="M13",
    ),
    Fault(
        "pyarrow",
        "copy=True of a strided Tensor",
        "wrong",
        since=(26,),
        upgraded="cured",
        source="M8",
    ),
    Fault(
        "paddle",
        "negative strides, when read",
        "refuses",
        since=(3,),
        upgraded='refused, or order="C"',
        source="M19",
    ),
    Fault(
        "onnxruntime",
        "its capsules do not keep their memory alive",
        "wrong",
        since=(1, 26),
        upgraded="cured",
        source="M1",
    ),
    Fault(
        "onnxruntime", "ignores byte offsets", "wrong", since=(1, 26), upgraded="cured", source="M6"
    ),
    Fault(
        "warp",
        "ignores byte offsets",
        "wrong",
        since=(0, 2),
        upgraded="cured",
        source="NVIDIA/warp#1573",
    ),
    Fault(
        "nanoarrow",
        "reads past the end of 2-D data",
        "wrong",
        since=(0, 5),
        upgraded="refused",
        source="M10",
    ),
    Fault(
        "tvm_ffi",
        "copy=True without max_version does not copy",
        "wrong",
        since=(0, 1),
        upgraded="cured",
        source="M15",
    ),
    Fault(
        "cupy",
        "toDlpack() gives 1.x, which most refuse",
        "refuses",
        since=(14,),
        upgraded="cured",
        source="cupy/cupy#9011",
    ),
    Fault(
        "cupy",
        "copy=True on the device",
        "refuses",
        since=(10,),
        upgraded="none",
        source="cupy/cupy#9842",
    ),
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
    Fault(
        "mpi4py",
        "what answers 0.x to max_version (JAX)",
        "refuses",
        since=(4,),
        upgraded="cured",
        source="NVIDIA/DALI#6307",
    ),
    Fault(
        "array_api_strict",
        "max_version, not by a TypeError",
        "refuses",
        since=(1,),
        until=(2, 2),
        upgraded="cured",
        source="case 5",
    ),
)


def faults(library: str, version: Version) -> list[Fault]:
    """Return the faults of a release."""
    return [
        fault
        for fault in FAULTS
        if fault.library == library
        and version >= fault.since
        and (not fault.until or version < fault.until)
    ]
