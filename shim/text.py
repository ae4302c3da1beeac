"""Text of foreign objects, for a terminal."""

from __future__ import annotations


def printable(text: str, kept: str = "\n\t") -> str:
    """Return the text with an escape for each character that a terminal would obey, or not show."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in kept else char.encode("unicode_escape").decode()
        for char in text
    )
