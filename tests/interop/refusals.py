"""Every refusal that is accepted, each with the one documented reason.

``who`` refuses: "dlshim" on purpose (design rule T12), or the consumer because it cannot hold the
array. ``raises`` names classes; an exception is accepted if one of its bases bears the name
(libraries have classes of their own, so names and not objects). A refusal that no row covers is a
failure of the matrix; so is an array that arrives although a row says that it cannot.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    who: str
    raises: tuple[str, ...]
    reason: str
    changes: bool = False
    """It is not refused but arrives as something else: the consumer's own doing."""
    leaks: bool = False
    """Refusing it, the consumer forgets what it had taken already."""


ANY = ("TypeError", "ValueError", "RuntimeError", "BufferError", "NotImplementedError")

REFUSALS: dict[str, Row] = {
    # --- dlshim, on purpose ---
    "N9-negative": Row(
        "dlshim",
        ("BufferError",),
        "torch up to 2.13 aborts the process on negative strides and Paddle breaks on first use; "
        "a raw capsule may go to either. Ways of asking that are not known to bear them are "
        "refused (rule N9); order='C' copies.",
    ),
    "T8-readonly": Row(
        "dlshim",
        ("BufferError",),
        "A legacy capsule cannot say read-only, so stated read-only memory is refused to whoever "
        "asks for one (rule T8); legacy_readonly='strip' or 'copy' decides otherwise.",
    ),
    "T8-immutable": Row(
        "dlshim",
        ("TypeError",),
        "JAX and TensorFlow arrays never change, which their own legacy capsules cannot say; "
        "dlshim says it to whoever asks for a versioned one (option readonly, rule T8), and a "
        "parameter that must be writable refuses it. readonly=False vouches for the caller.",
    ),
    # --- NumPy and what imports through it ---
    "numpy-dtype": Row(
        "numpy",
        ("RuntimeError", "BufferError"),
        "NumPy has no bfloat16 or float8 type of its own; its DLPack importer knows the codes "
        "int, uint, float, complex and (from 1.25) bool.",
    ),
    "strict-dtype": Row(
        "array-api-strict",
        ("RuntimeError", "BufferError", "TypeError"),
        "The array API standard has no float16, bfloat16 or float8; the strict namespace refuses "
        "every type that is not in the standard.",
    ),
    "awkward-scalar": Row(
        "awkward",
        ("TypeError", "ValueError"),
        "Awkward arrays have at least one dimension.",
    ),
    # --- compiled libraries ---
    "torch-dtype": Row(
        "torch",
        ("RuntimeError", "BufferError", "ValueError"),
        "torch has no such element type (float8_e3m4, e4m3 and e4m3b11fnuz never; the other "
        "float8 types, unsigned 16 to 64 bit and bool in old versions only not through DLPack).",
    ),
    "jax-dtype": Row("jax", ANY, "XLA's DLPack importer has no such element type."),
    "jax-strides": Row(
        "jax",
        ("JaxRuntimeError", "XlaRuntimeError", "RuntimeError"),
        "XLA buffers are dense: strides must be a permutation of a compact layout.",
    ),
    "warp-dtype": Row(
        "warp",
        ("RuntimeError", "TypeError"),
        "Warp has no complex and no float8 types (bool through DLPack from 1.16, bfloat16 later).",
    ),
    "warp-scalar": Row(
        "warp",
        ("IndexError", "RuntimeError"),
        "Warp arrays have one to four dimensions.",
    ),
    "mlx-dtype": Row("mlx", ("ValueError", "TypeError"), "MLX has no float8 types."),
    "mlx-narrows": Row(
        "mlx",
        (),
        "MLX turns float64 into float32 and complex128 into complex64 on import.",
        changes=True,
    ),
    "mlx-negative": Row(
        "mlx",
        ("ValueError",),
        "MLX says so: cannot convert DLPack arrays with negative strides.",
    ),
    "paddle-dtype": Row(
        "paddle",
        ANY,
        "Paddle's DLPack importer knows no such element type (unsigned ones above 8 bits from 3 "
        "on).",
    ),
    "paddle2-dtype": Row(
        "paddle",
        ANY,
        "Paddle 2 knows no bool (its own goes out as uint8), no unsigned type above 8 bits and no "
        "float8 in DLPack. It renames the capsule before it looks, and then nobody frees it.",
        leaks=True,
    ),
    "paddle2-strides": Row(
        "paddle",
        (),
        "Paddle 2 copies on import and ignores strides; order='C' gives it what it can read.",
        changes=True,
    ),
    "paddle-uint16": Row(
        "paddle",
        (),
        "Paddle says bfloat16 of whatever is uint16, as in paddle.to_tensor; the bits are kept.",
        changes=True,
    ),
    "tensorflow-dtype": Row(
        "tensorflow",
        ("InvalidArgumentError", "RuntimeError"),
        "TensorFlow's DLPack importer knows bool, int, uint, float, bfloat16 and complex.",
    ),
    "tensorflow-strides": Row(
        "tensorflow",
        ("InvalidArgumentError",),
        "TensorFlow takes compact row-major memory only.",
    ),
    "onnxruntime-dtype": Row(
        "onnxruntime",
        ("RuntimeError",),
        "ONNX Runtime's DLPack converter has no complex and no float8 types; bool it knows only "
        "as uint8 with a word of its own beside it.",
    ),
    "onnxruntime-strides": Row(
        "onnxruntime",
        ("RuntimeError",),
        "ONNX Runtime takes contiguous row-major memory only.",
    ),
    "open3d-dtype": Row(
        "open3d",
        ("RuntimeError",),
        "Open3D tensors hold bool, integers, float32 and float64.",
    ),
    "mxnet-dtype": Row(
        "mxnet",
        ("MXNetError", "RuntimeError", "TypeError", "KeyError", "UnicodeDecodeError"),
        "MXNet arrays hold int8, int32, int64, uint8, float16, float32 and float64. (Its message "
        "about complex128 has a byte in it that its own Python part cannot decode.)",
    ),
    "mxnet-strides": Row("mxnet", ("MXNetError",), "MXNet takes compact row-major memory only."),
    # --- columnar memory ---
    "pyarrow-dtype": Row(
        "pyarrow",
        ("ArrowInvalid", "ArrowTypeError", "ArrowNotImplementedError"),
        "Arrow's primitive types are integers and floats of 16 to 64 bits; bool is one bit wide, "
        "complex, bfloat16 and float8 do not exist.",
    ),
    "pyarrow-negative": Row(
        "pyarrow", ("ArrowInvalid",), "Arrow tensors have no negative strides; it says so."
    ),
    "pyarrow-array": Row(
        "pyarrow",
        ("ArrowInvalid",),
        "An Arrow array is one contiguous dimension; it names Tensor for everything else.",
    ),
    "nanoarrow-dtype": Row(
        "nanoarrow",
        ("ValueError", "NotImplementedError"),
        "Arrow's primitive types are integers and floats of 16 to 64 bits. (Strides are looked at "
        "first, so what has no dimension may meet nanoarrow-scalar instead.)",
    ),
    "nanoarrow-layout": Row(
        "nanoarrow",
        ("NotImplementedError", "ValueError"),
        "nanoarrow buffers are one contiguous dimension; its stride check is not implemented for "
        "other than one.",
    ),
    "nanoarrow-warp": Row(
        "nanoarrow",
        ("ValueError", "NotImplementedError", "SystemError"),
        "nanoarrow buffers are contiguous. It lets go of the capsule while its exception is under "
        "way; the destructor of Warp's capsules is Python code, which fails then, and Warp's array "
        "is never released (the same without dlshim, which hands Warp's capsule on).",
        leaks=True,
    ),
    "nanoarrow-scalar": Row(
        "nanoarrow",
        ("NotImplementedError",),
        "nanoarrow makes a buffer of no or one element of what has no dimension; where the "
        "exporter gives strides for it (Open3D), its stride check is not implemented.",
        changes=True,
    ),
    "mpi4py-strides": Row(
        "mpi4py",
        ("BufferError",),
        "A message buffer is one contiguous piece of memory.",
    ),
    # --- views ---
    "cuda-core-dtype": Row(
        "cuda.core",
        ("TypeError", "ValueError", "RuntimeError"),
        "StridedMemoryView names types by NumPy dtypes; it has no float8.",
    ),
    "nanobind-readonly": Row(
        "nanobind",
        ("TypeError",),
        "A writable ndarray parameter refuses read-only memory.",
    ),
}
