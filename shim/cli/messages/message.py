"""One error message: its patterns, its cause and its cures."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Message:
    key: str
    #: The message must match one of these; its white space is single spaces.
    patterns: tuple[str, ...]
    #: The libraries that say it, and since or until which release.
    versions: str
    #: Why it is raised, in one or two sentences.
    cause: str
    #: Code; each is a cure by itself.  ``x`` is the object that was exchanged, ``consumer`` the
    #: function that it was given to.
    cures: tuple[str, ...]

    def matches(self, text: str) -> bool:
        return any(re.search(pattern, text) for pattern in self.patterns)
