"""Fake drivers: libraries that pass for libcuda.so.1 or libamdhip64, and judge by clocks which
work comes after which.

They know nothing of dlshim.  ``model.c`` holds vector clocks, streams, events and captures and
knows no vendor; ``shadow.c`` the memory and who touched it last; ``journal.c`` log and counts;
``control.c`` what tests drive it by; ``cuda*.c`` and ``hip*.c`` are the fronts: the functions of
the driver, and ``front.c`` what they share.  ``building.py`` compiles them with the C compiler that
there is.

Which library answers to the name libcuda.so.1 is decided once for a whole process, so it is mapped
before anything looks for it: ``pytest --dlpack-producer mylib:zeros --dlpack-driver 13.0`` does so
in the process that imports ``mylib``, where ``drivers.current()`` is the loaded
:class:`~dlshim_testing.drivers.control.Driver`.
"""

from __future__ import annotations

from pathlib import Path

from .building import (
    ALL_LIVE,
    CUDA_LIVE,
    HIP_LIVE,
    HIP_VARIANTS,
    VARIANTS,
    Unavailable,
    build,
    built,
)
from .control import Driver, Entry, Fake, HipDriver, NoFunction, load, load_hip

__all__ = [
    "ALL_LIVE",
    "CUDA_LIVE",
    "HIP_LIVE",
    "HIP_VARIANTS",
    "VARIANTS",
    "Driver",
    "Entry",
    "Fake",
    "HipDriver",
    "NoFunction",
    "Unavailable",
    "build",
    "built",
    "current",
    "load",
    "load_hip",
    "missing",
    "named",
    "start",
]

_current: Fake | None = None


def named(variant: str) -> str:
    """The variant itself, where it is one with devices."""
    if variant not in ALL_LIVE:
        raise ValueError(f"{variant!r} is no fake driver; they are {', '.join(ALL_LIVE)}")
    return variant


def missing(option: str) -> str:
    """What is said where only checks are chosen that need a driver, and none is named."""
    return (
        "every check that is chosen is one of device memory, which needs a fake driver: "
        f"add {option} 13.0 (CUDA) or {option} hip6 (ROCm)"
    )


def start(variant: str, path: Path | str) -> Fake:
    """Maps the built library of a variant, and makes it what `current` gives."""
    global _current
    _current = load_hip(path) if variant in HIP_VARIANTS else load(path)
    _current.start()
    return _current


def current() -> Fake | None:
    """The fake driver of this process; None where none was named."""
    return _current
