"""The adapters of all libraries: each module here has those of one, on both sides."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

MODULES = [importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)]


def every(kind: str) -> list[Any]:
    return [adapter for module in MODULES for adapter in getattr(module, kind, ())]


PRODUCERS, CONSUMERS = every("PRODUCERS"), every("CONSUMERS")

COUNTED = every("COUNTED")
"""Other functions of theirs, of which test_counted.py asks what rule T12 counts."""
