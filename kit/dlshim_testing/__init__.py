"""Does my library follow DLPack?  Named checks for producers and consumers of arrays.

``check_producer("mylib:zeros")`` and ``check_consumer("mylib:from_dlpack")`` run several hundred
checks, each with the sentence of the standard that it tests, and give a `Report`.  The same as
tests: ``pytest --dlpack-producer mylib:zeros --dlpack-consumer mylib:from_dlpack``.  Strategies for
hypothesis are in ``strategies``, fake producers and consumers in ``doubles``.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

#: Nothing is imported before it is used: pytest loads this package for everybody who has it.
_LAZY = {
    "Consumer": "partner",
    "Finding": "catalogue",
    "Producer": "partner",
    "RULES": "rules",
    "Report": "running",
    "Rule": "rules",
    "check_consumer": "running",
    "check_producer": "running",
    "doubles": "",
    "drivers": "",
    "strategies": "",
}
__all__ = list(_LAZY)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_LAZY[name] or name}")
    return getattr(module, name) if _LAZY[name] else module


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
