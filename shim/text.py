"""Texts of foreign objects and of errors: for a terminal, in one line, in their two parts."""

from __future__ import annotations


def printable(text: str, kept: str = "\n\t") -> str:
    """Return the text with an escape for each character that a terminal would obey, or not show."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in kept else char.encode("unicode_escape").decode()
        for char in text
    )


def reason_and_cure(said: str) -> tuple[str, str]:
    """Return the two lines of an error of dlshim; of another one the whole text, and no cure."""
    reason, _, cure = said.strip().partition("\n  ")
    ours = "\n" not in reason + cure and reason[-1:] not in ",:;" and cure[:1].strip()
    return (reason, cure) if ours else (said, "")


def in_one_line(said: str) -> str:
    """Return an error in one line, with its cure; of several lines of another one the first."""
    reason, cure = reason_and_cure(said)
    return f"{reason}; {cure}" if cure else reason.strip().partition("\n")[0]


def as_code(value: object) -> str:
    """Return what a value looks like in code, in one line, and not all of a long one."""
    return " ".join(repr(value).split())[:80]
