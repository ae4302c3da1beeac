"""awkward, which takes arrays of one length by NumPy."""

from __future__ import annotations

from .rows import Library

LIBRARY = Library("awkward", "awkward", ("awkward",))
