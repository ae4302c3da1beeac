"""Dr.Jit."""

from __future__ import annotations

from .rows import Library, Source

LIBRARY = Library("drjit", "drjit", ("drjit",))

SOURCES = (
    Source(
        "drjit", "drjit", (1, 5), (1, 6), frozenset({"stream"}), versioned=False, immutable=True
    ),
)
