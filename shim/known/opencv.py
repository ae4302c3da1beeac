"""OpenCV: matrices on a GPU."""

from __future__ import annotations

from .rows import LEGACY, Fault, Known, Library, Source, also

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

#: max_version, dl_device and copy are taken and not heeded.
SOURCES = (Source("opencv", "opencv", (4, 13), (5, 1), versioned=False),)

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

_GPU_MAT = [
    Known(
        "cv2.cuda.GpuMat.from_dlpack",
        "opencv",
        (4, 13),
        (5, 1),
        family="opencv",
        asks=LEGACY,
        takes_capsules=True,
        host=False,
        raises=("BufferError", "SystemError"),
        devices=(2,),
        stream="no stream",
    )
]

FUNCTIONS = (*_GPU_MAT, *also("cv2.cuda.GpuMatND.from_dlpack", _GPU_MAT))
