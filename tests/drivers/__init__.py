"""Fake drivers: libraries that pass for libcuda.so.1 or libamdhip64, and judge by clocks which
work comes after which.

They know nothing of dlshim.  ``model.c`` holds vector clocks, streams, events and captures and
knows no vendor; ``shadow.c`` the memory and who touched it last; ``journal.c`` log and counts;
``control.c`` what tests drive it by; ``cuda*.c`` and ``hip*.c`` are the fronts: the functions of
the driver, and ``front.c`` what they share.

    from drivers import VARIANTS, build, load, run_with_driver, run_checks

Which library answers to the name libcuda.so.1 is decided once for a whole process, so every
variant runs in a child: ``run_with_driver("13.0", code)`` runs a piece of Python in which ``drv``
is the loaded :class:`~drivers.control.Driver`; ``run_checks("13.0", __file__)`` runs every
``check_*(drv)`` function of a file in one child and tells how each went.
"""

from .control import Driver, Entry, Fake, HipDriver, load, load_hip
from .library import (
    ALL_LIVE,
    CUDA_LIVE,
    HIP_LIVE,
    HIP_VARIANTS,
    VARIANTS,
    build,
    built,
    run_checks,
    run_with_driver,
)

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
    "build",
    "built",
    "load",
    "load_hip",
    "run_checks",
    "run_with_driver",
]
