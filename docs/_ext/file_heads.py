"""What the source files of a folder say of themselves: the first sentence of each head comment."""

from __future__ import annotations

import re
from pathlib import Path


def sources(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.suffix in (".c", ".h", ".def")]


def first_sentence(path: Path) -> str:
    """Of the comment at the head of a file; "" where there is none."""
    comment = re.match(r"/\*(.*?)\*/", path.read_text(), re.S)
    if not comment:
        return ""
    words = re.sub(r"\s*\n(?: \*)? ?", " ", comment[1]).strip()
    return re.split(r"(?<=[\w)\]'`])\.(?: |$)", words)[0]


def files(folder: Path) -> list[tuple[list[str], str]]:
    """(files of one name, what they are), by name. A header speaks for all of its name."""
    named: dict[str, list[Path]] = {}
    for path in sorted(sources(folder), key=lambda path: (path.stem, path.suffix != ".h")):
        named.setdefault(path.stem, []).append(path)
    return [([path.name for path in group], first_sentence(group[0])) for group in named.values()]
