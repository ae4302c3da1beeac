"""PyAV: planes of video frames."""

from __future__ import annotations

from .rows import LEGACY, Known, Library, Source

LIBRARY = Library("av", "av", ("av",), "PyAV")

#: A plane keeps its frame, and writes to both are seen in both.
SOURCES = (Source("pyav", "av", (17,), (20,), frozenset({"stream"}), versioned=False),)

FUNCTIONS = (
    # One plane, in a list or alone, of a format that has one.
    Known(
        "av.VideoFrame.from_dlpack",
        "av",
        (18,),
        (20,),
        asks=LEGACY,
        takes_capsules=True,
        dtypes=frozenset({"uint8", "uint16"}),
        limits=("dtype", "two", "last axis"),
        raises=("TypeError", "ValueError"),
        no_way=("TypeError",),
        devices=(2,),
        stream="stream=, None where it was not given",
    ),
)
