"""ctypes-dlpack: structs for libraries that are called by ctypes."""

from __future__ import annotations

from .rows import HONOURS, Fault, Known, Library, Source

LIBRARY = Library("ctypes_dlpack", "ctypes_dlpack", ("ctypes-dlpack",))

#: An array serves once.
SOURCES = (Source("ctypes-dlpack", "ctypes_dlpack", (0, 1, 1), (0, 1, 2), states=True),)

FAULTS = (
    Fault(
        "ctypes_dlpack",
        "exports read-only memory as writable in 0.x",
        "wrong",
        since=(0, 1),
        upgraded="refused",
        source="habits.py",
    ),
)

FUNCTIONS = (
    # It asks for the generation that its caller names.
    Known(
        "ctypes_dlpack.array_as_dlpack",
        "ctypes_dlpack",
        (0, 1, 1),
        (0, 1, 2),
        keywords=("stream", "max_version", "dl_device", "copy"),
        flag=HONOURS,
        no_way=("AttributeError",),
        stream="the caller's, which most refuse",
    ),
)
