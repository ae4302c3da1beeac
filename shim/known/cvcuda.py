"""CV-CUDA: images and tensors on a GPU."""

from __future__ import annotations

from .rows import LEGACY, Known, Library, Source

LIBRARY = Library("cv-cuda", "cvcuda", ("cvcuda-cu12", "cvcuda-cu13", "cvcuda-cu11", "cvcuda"))

SOURCES = (
    Source("cv-cuda", "cv-cuda", (0, 3), (0, 18), frozenset({"stream"}), versioned=False),
    # Its method names max_version; what it gives for it was not tried without a GPU.
    Source("cv-cuda", "cv-cuda", (0, 19), (0, 20), frozenset({"stream", "max_version"})),
)

FUNCTIONS = (
    # It looks for the CUDA array interface first, and passes 1 without a name.
    Known(
        "cvcuda.as_tensor",
        "cv-cuda",
        (0, 3),
        (0, 18),
        family="cv-cuda",
        asks=LEGACY,
        host=False,
        raises=("RuntimeError", "TypeError"),
        devices=(2, 3, 13),
        stream="1",
    ),
)
