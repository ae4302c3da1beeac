"""Every refusal that is accepted, each with the one documented reason.

``who`` refuses: "dlshim" on purpose (design rule T12), or the consumer because it cannot hold the
array. ``raises`` names classes; an exception is accepted if one of its bases bears the name
(libraries have classes of their own, so names and not objects). A refusal that no row covers is a
failure of the matrix; so is an array that arrives although a row says that it cannot.
"""

from __future__ import annotations

from dataclasses import dataclass

from .functions import AWKWARD, FUNCTIONS, LIMITS, Function, rows_of


@dataclass(frozen=True)
class Row:
    who: str
    raises: tuple[str, ...]
    reason: str
    #: It arrives as something else, which is the consumer's own doing.
    changes: bool = False
    #: Refusing it, the consumer forgets what it had taken already.
    leaks: bool = False


def key(consumer: Function, limit: str) -> str:
    """The name of the row about a limit of a consumer, in the releases of its row."""
    return "%s %s: %s" % (consumer.name, ".".join(map(str, consumer.since)), limit)


def of_the_table(consumer: Function, limit: str) -> Row:
    # Paddle 2 renames the capsule before it looks, and then nobody frees it.
    leaks = consumer.library == "paddle" and consumer.wants == "capsule" and limit == "dtype"
    told = LIMITS[limit]
    if told.refused:
        return Row("dlshim", ("BufferError",), told.reason)
    return Row(consumer.library, consumer.raises, told.reason, told.changes, leaks)


REFUSALS: dict[str, Row] = {
    **{
        key(each, limit): of_the_table(each, limit)
        for each in (*FUNCTIONS, *rows_of(AWKWARD))
        for limit in each.limits
    },
    # --- dlshim, on purpose ---
    "N9-negative": Row(
        "dlshim",
        ("BufferError",),
        "torch up to 2.13 aborts the process on negative strides and Paddle breaks on first use; "
        "a raw capsule may go to either. Ways of asking that are not known to support them are "
        "refused (rule N9); order='auto' and order='C' copy.",
    ),
    "N9-layout": Row(
        "dlshim",
        ("BufferError",),
        "JAX refuses memory with gaps and MAX misreads strided memory, so dlshim refuses it in "
        "words of its own (rule N9); order='auto' and order='C' copy.",
    ),
    "T8-readonly": Row(
        "dlshim",
        ("BufferError",),
        "A legacy capsule cannot say read-only, so stated read-only memory is refused to whoever "
        "asks for one (rule T8); readonly='share' or 'copy' decides otherwise.",
    ),
    "T8-immutable": Row(
        "dlshim",
        ("TypeError",),
        "JAX and TensorFlow arrays never change, which their own legacy capsules cannot say; "
        "dlshim says it to whoever asks for a versioned one (option readonly, rule T8), and a "
        "parameter that must be writable refuses it. readonly=False vouches for the caller.",
    ),
    # --- NumPy and what imports through it ---
    "strict-dtype": Row(
        "array-api-strict",
        ("RuntimeError", "BufferError", "TypeError"),
        "The array API standard has no float16, bfloat16 or float8; the strict namespace refuses "
        "every type that is not in the standard.",
    ),
    "strict-readonly": Row(
        "array-api-strict",
        ("BufferError",),
        "On NumPy before 2.1 the strict namespace exports no read-only array in any way.",
    ),
    # --- compiled libraries ---
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
    "nanoarrow-warp": Row(
        "nanoarrow",
        ("ValueError", "NotImplementedError", "SystemError"),
        "nanoarrow buffers are contiguous. It lets go of the capsule while its exception is under "
        "way; the destructor of Warp's capsules is Python code, which fails then, and Warp's array "
        "is never released (the same without dlshim, which hands Warp's capsule on).",
        leaks=True,
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
