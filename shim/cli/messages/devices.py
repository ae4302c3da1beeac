"""Devices, copies between them, and streams."""

from __future__ import annotations

from .message import Message

ROWS = (
    Message(
        "device-type",
        patterns=(
            r"Unsupported device_type: ?\d+",
            "Unsupported device in DLTensor",
            r"Unsupported array type: \d+",
        ),
        versions="torch, NumPy, CuPy",
        cause=(
            "The consumer does not take this kind of memory. Number 2 is CUDA, 3 is pinned, 13 is"
            " managed, 14 is oneAPI."
        ),
        cures=(
            'consumer(dlshim.upgrade(x, device="cpu"))  # host libraries can read pinned memory',
            'consumer(dlshim.upgrade(x, assume_device="cuda"))  # managed memory, on its device',
        ),
    ),
    Message(
        "device-number",
        patterns=(
            "kDLCPUPinned",
            r"\(DLDeviceType",
            "local_hardware_id",
            "Unsupported source device",
        ),
        versions="JAX, Warp",
        cause=(
            "The consumer does not understand what __dlpack_device__ says: pinned memory, a value"
            " of its library's own enum (Open3D), or no number at all (Paddle)."
        ),
        cures=(
            "consumer(dlshim.upgrade(x))",
            'consumer(dlshim.upgrade(x, device="cpu"))  # pinned memory',
        ),
    ),
    Message(
        "move",
        patterns=(
            r"cannot move \(i\.e\. copy=False",
            "unsupported device requested",
            "Device not understood",
            r"Specified device \S+ does not match",
        ),
        versions="torch from 2.9, NumPy from 2.1, CuPy",
        cause=(
            "The data are on another device than the one asked for, and the array API standard "
            "defines copies to the host only."
        ),
        cures=(
            'consumer(dlshim.upgrade(x, device="cpu"))',
            'consumer(x.to("cuda"))  # torch moves itself',
        ),
    ),
    Message(
        "copy-refused",
        patterns=(
            "copy=True only supported",
            "copy not yet supported",
            "Sorry, not supported:",
            "copy argument is not supported",
            "export with a (copy=True|non-None dl_device)",
        ),
        versions="CuPy, apache-tvm-ffi, cuda.core, pyarrow, TensorFlow, as producers",
        cause=(
            "The producer cannot copy or move its data when it exports them. dlshim makes the "
            "copy itself."
        ),
        cures=(
            "consumer(dlshim.upgrade(x, copy=True))",
            'consumer(dlshim.upgrade(x, device="cpu"))',
        ),
    ),
    Message(
        "host-stream",
        patterns=(
            "only supports stream=None",
            "stream should be None",
            "Only stream=None is supported",
            "export with a non-None stream",
            r"stream must be None( or -1 for|\.)",
            "BufferReadyOnStream",
        ),
        versions="NumPy, torch, TensorFlow, pyarrow, Paddle, Warp, nanoarrow, JAX, nanobind",
        cause=("A stream was passed, but the data are in host memory, where there are no streams."),
        cures=(
            "dlshim.upgrade(x).__dlpack__(stream=-1, max_version=(1, 0))",
            "consumer(dlshim.upgrade(x))",
        ),
    ),
    Message(
        "stream-zero",
        patterns=("stream for the DLPack protocol",),
        versions="torch and CuPy on CUDA",
        cause=(
            "Stream 0 is not allowed on CUDA, because it could mean two streams. The legacy "
            "default stream is 1."
        ),
        cures=("dlshim.upgrade(x).__dlpack__(stream=1)",),
    ),
    Message(
        "stream-none",
        patterns=("stream=None is ambiguous",),
        versions="cuda.core",
        cause=(
            "cuda.core does not take None as a stream. Pass the pointer of your stream, or -1 if "
            "nothing has to be waited for."
        ),
        cures=("StridedMemoryView.from_dlpack(dlshim.upgrade(x), stream_ptr=-1)",),
    ),
)
