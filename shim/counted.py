"""What works bare and not with a plain ``upgrade``: the list of rule T12, and nothing else.

docs/promises.rst prints it, and the matrix finds the row of an exchange in the error that it
raised.
"""

from __future__ import annotations

from typing import NamedTuple


class Counted(NamedTuple):
    """Exchanges that work bare and not upgraded; texts have code in single marks."""

    #: In a few words.
    what: str
    #: In which cases, and why.
    why: str
    #: The way that works.
    cure: str
    #: The rule that it follows from; "": it is not dlshim that refuses it.
    rule: str
    #: What its errors say; () where no exchange of the matrix can raise them.
    says: tuple[str, ...] = ()


COUNTED = (
    Counted(
        "negative strides for consumers that are not known to support them",
        "torch up to 2.13 aborts the process on them, and Paddle misreads them",
        '`order="auto"`',
        "N9",
        ("it has negative strides, and this consumer may not",),
    ),
    Counted(
        "missing data",
        "`NULL` with elements: NumPy would return random memory",
        "the object that it wraps, which the error names",
        "T6",
        ("its data are NULL though it has elements",),
    ),
    Counted("unknown flags", "a flag may change what the bytes mean", "a newer dlshim", "T7"),
    Counted(
        "read-only memory for DLPack 0.x, and for torch and Paddle where you make a "
        "`ReadOnlyWarning` an error",
        "0.x cannot say it. Bare it works where the library hands it out unmarked all the same "
        "(JAX from 0.12 and pyarrow, into PyAV or nanobind before 2.10), and where the consumer "
        "copies it or takes its buffer (MAX, nanoarrow, read-only parameters of nanobind before "
        "2.10)",
        '`readonly="copy"`, or `"share"` where the consumer does not write',
        "T8",
        ("which cannot say so", "is known to write to read-only memory"),
    ),
    Counted(
        "arrays that never change for functions that write: nanobind's plain `ndarray` parameters",
        "from nanobind 2.10 on; `nb::ro` and `const` take them. The types are known (JAX before "
        "0.12, TensorFlow, MLX), and their memory is marked, which the libraries themselves do not "
        "say",
        '`readonly="copy"`, or `readonly=False` where the function does not write',
        "T8",
        ("incompatible function arguments",),
    ),
    Counted(
        "arrays whose values are not what their memory holds (conjugate and negative bits, masks)",
        "the consumer would read other values. Masks are those of `numpy.ma` and astropy; one that "
        "hides nothing passes, and one inside a proxy is not seen",
        "`copy=True` for bits, `x.filled(value)` for masks, which the error names",
        "T12",
        ("conjugate bit is set", "negative bit is set", "its mask hides elements"),
    ),
    Counted(
        "tensors that require grad, which few consumers take bare (nanobind, MLX, "
        "`torch.as_tensor`)",
        "what they compute is not seen by autograd. torch itself refuses to export them, and "
        "these go past it; compiled functions that take a C table get them",
        "`detach=True`",
        "T12",
        ("it requires grad, and consumers",),
    ),
    Counted(
        "elements below 8 bits where DLPack 0.x meets 1.x",
        "0.x cannot say how they are packed",
        "the type's own conversion, which the error names",
        "T7",
        ("are below 8 bits, and how they are packed cannot be said",),
    ),
    Counted(
        "exchanges that would break a graph capture",
        "the stream of the producer, or the whole device, would have to be waited for",
        "`producer_stream=`, or the exchange before the capture",
        "S14",
    ),
    Counted(
        "the wait of Paddle before 3.3 for consumers that pass -1 as the stream (mpi4py)",
        "its documentation says that -1 synchronises nothing, and its code makes the host wait for "
        "every number. dlshim passes None instead; a consumer that passes -1 leaves the wait to "
        "its caller",
        '`stream="wait"`',
        "S10",
    ),
    Counted(
        "booleans, scalars and arrays of two dimensions or more for nanoarrow's `c_buffer`, which "
        "takes them by the buffer protocol alone",
        "it takes an array's buffer before DLPack, and a Producer has none",
        "`dlshim.from_dlpack(x)`",
        "",
        (
            "takes a scalar for an empty array",
            "Contiguous stride check not implemented",
            "Can't convert dlpack data type to Arrow type",
        ),
    ),
    Counted(
        "what a function does for the types that it knows: nanobind converts the dtype of NumPy's "
        "arrays, copies and returns its argument",
        "a Producer is none of these types, and has neither `astype()` nor `copy()`. So do "
        "`np.asarray` and `tf.constant`: of NumPy's own arrays they take dates, records and other "
        "byte orders, which DLPack does not have. Dr.Jit converts as nanobind does. A kernel of "
        "numba-cuda copies NumPy's arrays to the device and back, and no other arrays of the host. "
        "ONNX Runtime before 1.32 takes booleans as `uint8` alone, and tells them by its own class "
        "or a `dtype`: of its own values a Producer arrives as `uint8`, and a Tensor, whose "
        "capsules say bool, is refused",
        '`x.astype("float64")` or `numba.cuda.to_device(x)` before, and the `OrtValue` itself',
        "",
    ),
)


def counted(error: str) -> Counted | None:
    """Return the row that the text of an error belongs to; None: no rule counts it."""
    return next((row for row in COUNTED if any(said in error for said in row.says)), None)
