"""Ends of messages that name what to pass in the place of a refused object.

An end follows the reason that the message has: the cure on a line of its own, and before it, where
the object has a reason of its own, ", because ..." on the line of the reason.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

NAN = "float('nan')"
MISSING = "it has missing values"
ONE_COLUMN = "a table is exchanged one column at a time"
ROUNDS = "which rounds to 53 bits"
FLAT = "which has its elements in fewer dimensions"
CODES = "which numbers its different values"
CODES_OR_NONE = f"{CODES}, and has -1 for what is missing"
ROUNDS_OR_NAN = f"{ROUNDS}, and has NaN for what is missing"
COUNTS = "which counts from 1970 or from midnight"
COUNTS_OR_NONE = f"{COUNTS}, and has 0 for what is missing"
LEFT_OUT = "which leaves out what is missing"
LEFT_OUT_LISTS = "which leaves out the lists that are missing"
FLAT_AND_LEFT_OUT = f"{FLAT}, and leaves out what is missing"
#: Of arrays and columns of several dtypes.
MIXED = "which makes one dtype of several, and may round"
NONE = "in which NaN stands for None, and which rounds to 53 bits"
PADDED = "which fills shorter rows up with zeros"
ANOTHER = "whose elements may be of another type than the object's"
UNDER_MASK = "which shows what its mask hides"
UNSURE = "in which integers become floats where values are missing"
CONVERT = "\n  convert them to numbers first"
NO_NUMBERS = f", because its elements are no numbers{CONVERT}"


class Reasoned(str):
    """An end with the reason ``why``; ``way`` is the cure alone, for messages that say the reason
    before."""

    way: str
    why: str


def _passed(text: str) -> str:
    if text == "x":
        raise ValueError("the object that was refused is no cure")
    return f"\n  pass {text} instead"


def instead(text: str, why: str = "") -> str:
    """The end of a message that names what to pass, and why; never the object itself."""
    way = _passed(text)
    if not why:
        return way
    said = Reasoned(f", because {why}{way}")
    said.way, said.why = way, why
    return said


def converted(text: str, how: str) -> str:
    """The same for a cure that gives other values than the object has."""
    return f"{_passed(text)}, {how}"


def array(text: str) -> str:
    return f"numpy.asarray({text})"


def given(x: Any, text: str) -> str:
    """A column of the class of x: exported by itself, or, from old releases, as NumPy's."""
    return text if hasattr(type(x), "__arrow_c_stream__") else array(text)


def one_column(names: Iterable[object], other: str, why: str = ONE_COLUMN) -> str | None:
    """One column of a table: the first; other: how it is reached where its name does not tell."""
    found = list(names)
    if not found:
        return None
    tells = isinstance(found[0], (str, int)) and found.count(found[0]) == 1
    text = f"x[{found[0]!r}]" if tells else other
    return instead(text, why)
