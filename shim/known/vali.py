"""VALI: surfaces of video frames on a GPU."""

from __future__ import annotations

from .rows import LEGACY, Fault, Known, Library, Source

LIBRARY = Library("vali", "python_vali", ("python-vali",))

SOURCES = (
    Source("vali", "vali", (4, 8), (4, 9), frozenset({"stream"}), versioned=False, sound=False),
)

FAULTS = (
    Fault(
        "vali",
        "capsules do not keep the memory",
        "wrong",
        since=(4,),
        upgraded="kept alive",
        source="habits.py",
    ),
    Fault(
        "vali",
        "from_dlpack does not take the capsule over, so keep it as long as the surface",
        "wrong",
        since=(4,),
        upgraded="none",
        source="habits.py",
    ),
)

FUNCTIONS = (
    Known(
        "python_vali.Surface.from_dlpack",
        "vali",
        (4, 8),
        (4, 9),
        wants="capsule",
        family="vali",
        asks=LEGACY,
        host=False,
        raises=("RuntimeError", "TypeError"),
        devices=(2,),
        stream="no stream",
    ),
)
