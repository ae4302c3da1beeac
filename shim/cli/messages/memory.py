"""Memory that may not be written, and its layout."""

from __future__ import annotations

from .message import Message

ROWS = (
    Message(
        "readonly",
        patterns=(
            "export readonly array",
            "Legacy DLPack support",
            "it is read-only, and the consumer",
        ),
        versions="NumPy, pyarrow from 26, dlshim",
        cause=(
            "The array is read-only, and the consumer asks for DLPack 0.x, which cannot say so."
        ),
        cures=(
            'consumer(dlshim.upgrade(x, readonly="share"))  # if the consumer never writes',
            'consumer(dlshim.upgrade(x, readonly="copy"))  # a private, writable copy',
        ),
    ),
    Message(
        "numpy-readonly",
        patterns=("(assignment destination|output array|source array|: array) is read-only",),
        versions="NumPy",
        cause=(
            "Arrays of JAX, images of Pillow, bytes, columns of pandas 3 and broadcast arrays are "
            "read-only. NumPy also marks what came by DLPack 0.x so; before 2.2.5, by any DLPack."
        ),
        cures=(
            "numpy.from_dlpack(dlshim.upgrade(x))  # where x itself can be written to",
            'numpy.from_dlpack(dlshim.upgrade(x, readonly="copy"))  # a copy where it cannot',
        ),
    ),
    Message(
        "writeable-flag",
        patterns=("cannot set WRITEABLE flag to True",),
        versions="NumPy",
        cause="The memory belongs to another object, which says that it must not be written to.",
        cures=('numpy.from_dlpack(dlshim.upgrade(x, readonly="copy"))  # a copy of one\'s own',),
    ),
    Message(
        "torch-writes",
        patterns=(
            "given (NumPy array|buffer) is not writable",
            "it is read-only, and (torch|paddle)",
        ),
        versions="torch.from_numpy, torch.as_tensor",
        cause=(
            "torch and Paddle have no read-only tensors: writing to this one changes read-only "
            "memory."
        ),
        cures=(
            'torch.from_dlpack(dlshim.upgrade(x, readonly="copy"))',
            'torch.from_dlpack(dlshim.upgrade(x, readonly="share"))  # if nothing writes',
        ),
    ),
    Message(
        "negative",
        patterns=(
            "negative strides",
            "stride in the given numpy array is negative",
            "strides item is negative",
            "alloc memory of 18446744",
            "Storage size calculation",
            "terminate called .*c10::Error",
        ),
        versions="torch, where it does not end the process, MLX, pyarrow, mpi4py, Paddle",
        cause=(
            "The array has negative strides, which the consumer does not support. torch up to "
            "2.13 ends the process."
        ),
        cures=(
            'torch.from_dlpack(dlshim.upgrade(x, order="auto"))  # torch',
            'consumer(numpy.asarray(dlshim.upgrade(x, order="C")))  # any other one',
        ),
    ),
    Message(
        "layout",
        patterns=(
            r"\(compact\) striding",
            "non-default layout",
            "Invalid strides array",
            "only supports contiguous",
            "(tensor|ndarray) is not contiguous",
            "contiguous one dimensional",
        ),
        versions="JAX, TensorFlow, onnxruntime, Triton, nanoarrow, pyarrow.Array",
        cause=(
            "The memory layout is not one that the consumer takes. JAX wants data without gaps, "
            "the others want C-contiguous data, and pyarrow.Array has one dimension."
        ),
        cures=(
            'consumer(dlshim.upgrade(x, order="C"))',
            "consumer(dlshim.upgrade(x.reshape(-1)))  # pyarrow.Array, of more dimensions",
            'consumer(dlshim.to_capsule(x, order="C", align=64))  # TensorFlow',
        ),
    ),
    Message(
        "aligned",
        patterns=(r"Check failed: IsAligned\(\)",),
        versions="TensorFlow",
        cause=(
            "The first operation of TensorFlow on memory that is not aligned to 64 bytes ends the "
            "process. It takes such memory without a word."
        ),
        cures=("consumer(dlshim.to_capsule(x, align=64))  # copied only if needed",),
    ),
    Message(
        "odd-strides",
        patterns=("a multiple of itemsize",),
        versions="NumPy",
        cause=(
            "The array is a field of packed records. DLPack counts strides in whole elements, so "
            "it cannot describe them."
        ),
        cures=("consumer(numpy.ascontiguousarray(x))",),
    ),
    Message(
        "torch-asarray",
        patterns=("could not retrieve (a contiguous )?buffer",),
        versions="PyTorch, torch.asarray",
        cause=(
            "torch.asarray asks a dlshim.Tensor for bytes without a dtype, and would take them for "
            "float32."
        ),
        cures=("torch.asarray(dlshim.upgrade(x))",),
    ),
)
