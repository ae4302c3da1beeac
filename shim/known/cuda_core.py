"""cuda.core."""

from __future__ import annotations

from .rows import BF16, HONOURS, PLAIN, Fault, Known, Library, Source

LIBRARY = Library("cuda.core", "cuda.core", ("cuda-core",), "cuda.core")

SOURCES = (Source("cuda.core", "cuda.core", (1, 2), (1, 3), states=True),)

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

#: numba-cuda asks by it too, for every argument that is no array of NumPy.
FUNCTIONS = (
    Known(
        "cuda.core.utils.StridedMemoryView.from_dlpack",
        "cuda.core",
        (1, 2),
        (1, 3),
        keywords=("stream", "max_version"),
        flag=HONOURS,
        dtypes=PLAIN | BF16,
        limits=("dtype",),
        no_way=("AttributeError",),
        devices=(2, 3, 13),
        stream="stream_ptr=",
    ),
)
