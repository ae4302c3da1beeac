"""numba-cuda, whose kernels take arrays."""

from __future__ import annotations

from .rows import Known, Library

LIBRARY = Library("numba.cuda", "numba_cuda", ("numba-cuda",))

FUNCTIONS = (
    # An array of NumPy is copied to the device and back; all else that has __dlpack__ is taken by
    # cuda.core, when the argument is typed with stream=-1, and at the launch with its stream.
    Known(
        "numba.cuda, kernel argument",
        "numba.cuda",
        (0, 30),
        (0, 31),
        family="numba.cuda",
        through="cuda.core.utils.StridedMemoryView.from_dlpack",
        converts=True,
        limits=("host",),
        no_way=("TypeError",),
        stream="the launch's stream",
    ),
    # It reads the CUDA array interface alone, which a Tensor has.
    Known(
        "numba.cuda.as_cuda_array",
        "numba.cuda",
        (0, 30),
        (0, 31),
        family="numba",
        wants="buffer",
        host=False,
        no_way=("TypeError",),
        devices=(2, 3, 13),
        stream="no stream, and waits for that of the interface",
    ),
)
