"""Dr.Jit."""

from __future__ import annotations

from .rows import Source

SOURCES = (Source("drjit", "", until=(99,), immutable=True),)
