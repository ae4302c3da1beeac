"""VALI: surfaces of video frames on a GPU."""

from __future__ import annotations

from .rows import Fault, Library

LIBRARY = Library("vali", "python_vali", ("python-vali",))

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
