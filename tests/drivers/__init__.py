"""The fake drivers of the kit (``kit/dlshim_testing/drivers``), and tests that run beside one.

    from drivers import VARIANTS, build, load, run_with_driver, run_checks

Which library answers to the name libcuda.so.1 is decided once for a whole process, so every
variant runs in a child: ``run_with_driver("13.0", code)`` runs a piece of Python in which ``drv``
is the loaded :class:`~drivers.control.Driver`; ``run_checks("13.0", __file__)`` runs every
``check_*(drv)`` function of a file in one child and tells how each went.  A program of
``tests/programs`` is given the library as an argument, ``built("13.0")``, and calls ``load_any``.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import doubles  # noqa: F401  (it puts the kit on the path)

#: Modules of the kit that tests import as ``drivers.NAME``.
OF_THE_KIT = ("control", "prototypes")

for _name in OF_THE_KIT:
    _module = importlib.import_module(f"dlshim_testing.drivers.{_name}")
    sys.modules[f"{__name__}.{_name}"] = globals()[_name] = _module

from dlshim_testing.drivers.building import (  # noqa: E402
    ALL_LIVE,
    CUDA_LIVE,
    HIP_LIVE,
    HIP_VARIANTS,
    VARIANTS,
)

from .control import Driver, Entry, Fake, HipDriver, load, load_hip  # noqa: E402

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
    "load_any",
    "load_hip",
    "run_checks",
    "run_with_driver",
]


def load_any(path: str) -> Driver:
    """Load the fake driver of this file, of either vendor: an argument of a program."""
    return (load_hip if "amdhip64" in path else load)(path)


def __getattr__(name: str) -> Any:
    """The names of ``library``, which imports pytest: children that only load a driver are many."""
    if name in ("build", "built", "run_checks", "run_with_driver"):
        return getattr(importlib.import_module(f"{__name__}.library"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
