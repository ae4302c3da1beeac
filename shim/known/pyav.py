"""PyAV: planes of video frames."""

from __future__ import annotations

from .rows import Library

LIBRARY = Library("av", "av", ("av",), "PyAV")
