"""CV-CUDA: images and tensors on a GPU."""

from __future__ import annotations

from .rows import Library

LIBRARY = Library("cv-cuda", "cvcuda", ("cvcuda-cu12", "cvcuda-cu13", "cvcuda-cu11", "cvcuda"))
