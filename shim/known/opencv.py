"""OpenCV: matrices on a GPU."""

from __future__ import annotations

from .rows import Fault, Library

LIBRARY = Library(
    "opencv",
    "cv2",
    (
        "opencv-python",
        "opencv-python-headless",
        "opencv-contrib-python",
        "opencv-contrib-python-headless",
    ),
)


FAULTS = (
    Fault(
        "opencv",
        "GpuMatND gives its strides in bytes",
        "wrong",
        since=(4, 13),
        upgraded="none",
        source="habits.py",
    ),
    Fault(
        "opencv",
        "never gives back what from_dlpack took",
        "leaks",
        since=(4, 13),
        upgraded="none",
        source="habits.py",
    ),
)
