"""Spellings that are no behaviour: the one place where the transcript is made to agree.

Names of internals are translated to the names of the recorded transcript, and texts that depend
on the interpreter to one of its versions.
"""

from __future__ import annotations

import re
from typing import Any

#: Keys of `_core._plan` and of its ways, as they are today: as they were when it was recorded.
PLAN_KEYS: dict[str, str] = {"protocol": "rung"}

#: Texts: what is found (a regular expression), what is recorded.
TEXTS: tuple[tuple[str, str], ...] = (
    (r"\bdlshim_testing\.doubles\.", "doubles."),
    (r"\bask for the other generation\b", "ask for the other flavour"),
    (r"0x[0-9a-fA-F]+", "0x..."),
    (r"\b\d{12,}\b", lambda found: found[0] if int(found[0]) in WHOLE else "<number>"),  # type: ignore
)
#: Numbers of many digits that are no addresses.
WHOLE = frozenset(
    n + d for n in (2**40, 2**62, 2**63, 2**64, 2**80, 2**32 * 2**32) for d in (-1, 0, 1)
)
_BORROWED = re.compile(r"\bborrowed\b")
_TEXTS = tuple((re.compile(found), recorded) for found, recorded in TEXTS)


def text(said: str) -> str:
    for found, recorded in _TEXTS:
        said = found.sub(recorded, said)
    return said


def entry(name: str) -> str:
    """The name of a way out, or of a scenario that has it in its name, as it was recorded."""
    return _BORROWED.sub("lent", name)


def plan(said: dict[str, Any]) -> str:
    """What is known of a type, in one line; what is false or missing is left out."""
    shown = []
    for key, value in said.items():
        name = PLAN_KEYS.get(key, key)
        if isinstance(value, dict):
            way = {PLAN_KEYS.get(k, k): v for k, v in value.items()}
            shown.append(f"{name}: {way['rung']} {way['keywords']}")
        elif isinstance(value, list):
            shown.append(f"{name}: {' '.join(value)}")
        elif value is True:
            shown.append(name)
        elif value:
            shown.append(f"{name}: {value}")
    return "; ".join(shown)
