"""awkward, which takes arrays of one length by NumPy."""

from __future__ import annotations

from .rows import Known, Library

LIBRARY = Library("awkward", "awkward", ("awkward",))

#: It asks for the device, and then calls numpy.from_dlpack; for CUDA and ROCm cupy.from_dlpack.
FUNCTIONS = (
    Known(
        "awkward.from_dlpack",
        "awkward",
        (2, 14),
        (2, 15),
        through="numpy.from_dlpack",
        limits=("scalar",),
        raises=("TypeError",),
        no_way=("TypeError",),
    ),
)
