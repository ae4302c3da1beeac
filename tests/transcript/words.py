"""Spellings that are no behaviour: the one place where the transcript is made to agree.

Addresses are left out.  A name that changes, and a text that depends on the interpreter, can be
translated to the recorded one here.
"""

from __future__ import annotations

import re
from typing import Any

#: Texts: what is found (a regular expression), what is recorded.
TEXTS: tuple[tuple[str, str], ...] = (
    (r"\bdlshim_testing\.doubles\.", "doubles."),
    (r"0x[0-9a-fA-F]+", "0x..."),
    (r"\b\d{12,}\b", lambda found: found[0] if int(found[0]) in WHOLE else "<number>"),  # type: ignore
)
#: Numbers of many digits that are no addresses.
WHOLE = frozenset(
    n + d for n in (2**40, 2**62, 2**63, 2**64, 2**80, 2**32 * 2**32) for d in (-1, 0, 1)
)
_TEXTS = tuple((re.compile(found), recorded) for found, recorded in TEXTS)


def text(said: str) -> str:
    for found, recorded in _TEXTS:
        said = found.sub(recorded, said)
    return said


def plan(said: dict[str, Any]) -> str:
    """What is known of a type, in one line; what is false or missing is left out."""
    shown = []
    for name, value in said.items():
        if isinstance(value, dict):
            shown.append(f"{name}: {value['protocol']} {value['keywords']}")
        elif isinstance(value, list):
            shown.append(f"{name}: {' '.join(value)}")
        elif value is True:
            shown.append(name)
        elif value:
            shown.append(f"{name}: {value}")
    return "; ".join(shown)
