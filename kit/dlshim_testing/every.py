"""All checks of a side: loads the modules that register them in ``catalogue``."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator

from .catalogue import REGISTERED, Check

MODULES = {
    "producer": (
        *("question_checks", "lifetime_checks", "field_checks", "copy_checks"),
        *("device_checks", "table_checks"),
    ),
    "consumer": (
        *("taking_checks", "reading_checks", "owning_checks", "version_checks"),
        *("refusal_checks", "option_checks", "own_checks"),
    ),
}


def checks(side: str) -> dict[str, Check]:
    """Every check of a side by its name, in the order of the files."""
    for module in MODULES[side]:
        importlib.import_module(f"{__package__}.{module}")
    return REGISTERED[side]


def select(side: str, pattern: str | re.Pattern[str] = "") -> Iterator[Check]:
    """Those whose name holds the pattern (a regular expression)."""
    return (each for each in checks(side).values() if re.search(pattern, each.name))
