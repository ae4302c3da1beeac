"""Error messages around DLPack: how each is recognised, its cause, and the code that cures it.

The troubleshooting page of the manual is made from these rows too; tests/interop/messages.toml has
an example of each, and its origin.  Special rows stand before general ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Message:
    key: str
    #: The message must match one of these; its white space is single spaces.
    patterns: tuple[str, ...]
    #: Why it is raised, in one or two sentences.
    cause: str
    #: Code; each is a cure by itself.  ``x`` is the object that was exchanged, ``consumer`` the
    #: function that it was given to.
    cures: tuple[str, ...]

    def matches(self, text: str) -> bool:
        return any(re.search(pattern, text) for pattern in self.patterns)


MESSAGES = (
    Message(
        "readonly",
        patterns=(
            "export readonly array",
            "Legacy DLPack support",
            "it is read-only, and the consumer",
        ),
        cause=(
            "The array is read-only, and the consumer asks for DLPack 0.x, which cannot say so."
        ),
        cures=(
            'consumer(dlshim.upgrade(x, readonly="share"))  # if the consumer never writes',
            'consumer(dlshim.upgrade(x, readonly="copy"))  # a private, writable copy',
        ),
    ),
    Message(
        "own-negative",
        patterns=("has negative strides, and this consumer",),
        cause=("torch up to 2.13 ends the process on them, and the consumer asks as torch does."),
        cures=(
            'consumer(dlshim.upgrade(x, order="auto"))',
            'consumer(dlshim.upgrade(x, order="C"))',
            'consumer(dlshim.upgrade(x, order="K"))  # if the consumer takes them',
        ),
    ),
    Message(
        "own-layout",
        patterns=("leave gaps, repeat elements or are negative", "ignores strides: it would read"),
        cause=(
            "JAX refuses such memory, and MAX reads it as if it were row-major. A row-major copy "
            "passes."
        ),
        cures=(
            'consumer(dlshim.upgrade(x, order="auto"))',
            'consumer(dlshim.upgrade(x, order="C"))',
        ),
    ),
    Message(
        "grad",
        patterns=("that requires? gradient", "it requires grad,"),
        cause="An export would bypass autograd, so the producer refuses it.",
        cures=("consumer(dlshim.upgrade(x, detach=True))", "consumer(x.detach())"),
    ),
    Message(
        "lazy-bit",
        patterns=("(conjugate|negative) bit (is )?set",),
        cause=(
            "torch applies the bit when it reads values; other libraries read the memory as it is."
        ),
        cures=("consumer(x.resolve_conj().resolve_neg())",),
    ),
    Message(
        "missing",
        patterns=("it has missing values", "values are missing in (it|its lists)"),
        cause=(
            "DLPack cannot describe missing values, and numpy.asarray makes floats of the integers "
            "beside them. Fill them first."
        ),
        cures=(
            "consumer(dlshim.upgrade(x.fill_null(0)))  # pyarrow, Polars",
            "consumer(dlshim.upgrade(x.to_numpy('int64', na_value=0)))  # pandas",
        ),
    ),
    Message(
        "own-chunks",
        patterns=("its values lie in several chunks",),
        cause=(
            'The column is in several pieces of memory, and an array is one. order="C" joins them, '
            "and copies nothing where there is one."
        ),
        cures=(
            'consumer(dlshim.upgrade(x, order="C"))',
            "consumer(dlshim.upgrade(x.rechunk()))  # Polars",
            "consumer(dlshim.upgrade(x.combine_chunks()))  # pyarrow, arro3",
        ),
    ),
    Message(
        "own-column",
        patterns=(
            "memory holds (codes|runs), not the values",
            "booleans are packed into bits",
            "its lists may differ in length",
            "it has fields or columns",
            "its decimals have",
        ),
        cause=(
            "The memory of this column is no array of numbers. The message names the call that "
            "makes one."
        ),
        cures=(
            "consumer(dlshim.upgrade(x.to_physical()))  # Polars, categories: their codes",
            "consumer(dlshim.upgrade(x.indices))  # pyarrow, categories: their codes",
            "consumer(dlshim.upgrade(numpy.asarray(x)))  # booleans",
            "consumer(dlshim.upgrade(x['a']))  # a table: one column",
        ),
    ),
    Message(
        "column-copy",
        patterns=(
            "copy not allowed: cannot convert to a NumPy array",
            "but zero_copy_only was True",
            "Zero copy conversions not possible with boolean",
        ),
        cause=(
            "NumPy cannot show this column where it lies: values are missing, it has several "
            "chunks, or its booleans are bits."
        ),
        cures=(
            'numpy.from_dlpack(dlshim.upgrade(x, order="C"))  # several chunks: joined',
            "numpy.from_dlpack(dlshim.upgrade(x.fill_null(0)))  # missing values",
            "numpy.asarray(x)  # booleans",
        ),
    ),
    Message(
        "column-missing",
        patterns=(
            "array with missing values. Specify an appropriate 'na_value'",
            "numpy array from arrow array with nulls",
        ),
        cause="Values are missing, and an array of integers cannot say so. Fill them first.",
        cures=(
            "consumer(dlshim.upgrade(x.to_numpy('int64', na_value=0)))  # pandas",
            "consumer(dlshim.upgrade(pyarrow.array(x).fill_null(0)))  # arro3",
        ),
    ),
    Message(
        "column-torch",
        patterns=("cannot convert List dtype to Tensor",),
        cause=(
            "torch has no lists of several lengths. Lists of one length have a dtype of their own."
        ),
        cures=('torch.from_dlpack(dlshim.upgrade(x.list.to_array(2), readonly="share"))',),
    ),
    Message(
        "own-nothing",
        patterns=("offers none of __dlpack__",),
        cause=(
            "The object offers no array protocol and no buffer, so there is no memory to share."
        ),
        cures=(
            "consumer(numpy.asarray(x))  # if that gives numbers, and the message names no other",
        ),
    ),
    Message(
        "used",
        patterns=(
            "got .*used_dltensor",
            "capsule was consumed",
            "consumed by another holder",
        ),
        cause=(
            "A capsule can be used only once. dlshim.upgrade(capsule), made before that, can be "
            "used often."
        ),
        cures=("consumer(dlshim.to_capsule(x))  # x: the array, not its capsule",),
    ),
    Message(
        "own-kind",
        patterns=("its elements are (of a kind|Python objects|text|structs|bit fields)",),
        cause="DLPack describes numbers only. The message names the conversion.",
        cures=('consumer(dlshim.upgrade(x, reinterpret="int64"))  # dates and durations',),
    ),
    Message(
        "own-capture",
        patterns=("graph capture is running",),
        cause="While a CUDA graph is being captured, nothing may be waited for.",
        cures=(
            "consumer(dlshim.upgrade(x, stream=s, producer_stream=s))  # s: the capturing stream",
        ),
    ),
    Message(
        "keyword",
        patterns=(
            r"__dlpack__\(\) (takes no|got an unexpected) keyword argument",
            "max_version argument",
        ),
        cause=(
            "The consumer passes a keyword that the producer does not know, and does not try "
            "again without it."
        ),
        cures=("consumer(dlshim.upgrade(x))",),
    ),
    Message(
        "positional-stream",
        patterns=(r"__dlpack__\(\) takes (1|exactly 0|0) positional",),
        cause=("The stream was passed by position, but the producer takes it by keyword only."),
        cures=("dlshim.upgrade(x).__dlpack__(None)  # takes both",),
    ),
    Message(
        "consumer-keyword",
        patterns=(r"from_dlpack\(\) (takes no|got an unexpected) keyword argument",),
        cause="This release of the consumer does not take device= or copy=.",
        cures=("consumer(dlshim.upgrade(x, copy=True))",),
    ),
    Message(
        "other-generation",
        patterns=(
            "called with incorrect name",
            "invalid capsule object",
            "(got|produce a) .?dltensor_versioned",
            "a dltensor field",
        ),
        cause=(
            "The producer gave the generation of DLPack (0.x or 1.x) that the consumer does not "
            "take."
        ),
        cures=("consumer(dlshim.upgrade(x))",),
    ),
    Message(
        "invalid-capsule",
        patterns=(
            "received an invalid capsule",
            "a valid DLPack capsule",
            "Expect from_dlpack to take",
            "be consumed multiple times",
        ),
        cause=(
            "The consumer did not get a fresh capsule that it understands. It got an object "
            "without __dlpack__, a used capsule, or one of DLPack 1.x, which torch before 2.9 "
            "does not take."
        ),
        cures=("consumer(dlshim.upgrade(x))",),
    ),
    Message(
        "object-wanted",
        patterns=(
            "PyCapsule'? (object )?has no attribute '__dlpack__'",
            "must have __dlpack__ and",
            "object of type PyCapsule to",
            "incompatible function arguments.*DLPackCompatible",
        ),
        cause=(
            "The consumer wants an object with __dlpack__ that it understands, and got something "
            "else."
        ),
        cures=("consumer(dlshim.upgrade(x))",),
    ),
    Message(
        "no-dlpack",
        patterns=(
            "no (attribute|field named) '__dlpack(_device)?__'",
            "any data exchange protocol",
        ),
        cause=(
            "The object has no __dlpack__. dlshim also takes objects that have a buffer or an "
            "array interface."
        ),
        cures=(
            "consumer(dlshim.upgrade(x))",
            "consumer(numpy.asarray(x))  # floats of integers where values are missing",
        ),
    ),
    Message(
        "capsule-wanted",
        patterns=("TFE_FromDlpackCapsule",),
        cause="The consumer takes only raw capsules of DLPack 0.x.",
        cures=("consumer(dlshim.to_capsule(x))",),
    ),
    Message(
        "torch-asarray",
        patterns=("could not retrieve (a contiguous )?buffer",),
        cause=(
            "torch.asarray asks a dlshim.Tensor for bytes without a dtype, and would take them for "
            "float32."
        ),
        cures=("torch.asarray(dlshim.upgrade(x))",),
    ),
    Message(
        "nanobind",
        patterns=("incompatible function arguments.*(ndarray|Producer)",),
        cause=(
            "The dtype, the layout or the read-only mark is not as the function declares. "
            "nanobind does not say which."
        ),
        cures=(
            "consumer(dlshim.upgrade(x, readonly=False))  # if the function never writes",
            "consumer(x.copy())",
        ),
    ),
    Message(
        "jax-to-dlpack",
        patterns=(
            r"jax\.dlpack.? has no attribute 'to_dlpack'",
            "to_dlpack was deprecated",
        ),
        cause=(
            "JAX has deprecated and then removed this function. Its arrays give capsules by "
            "__dlpack__."
        ),
        cures=("dlshim.to_capsule(x)",),
    ),
    Message(
        "numpy-readonly",
        patterns=("assignment destination is read-only",),
        cause=(
            "NumPy marks every array that came by DLPack 0.x as read-only; before 2.2.5, every "
            "one that came by DLPack."
        ),
        cures=(
            "numpy.from_dlpack(dlshim.upgrade(x))",
            'numpy.from_dlpack(dlshim.upgrade(x, readonly="copy"))  # where x is immutable',
        ),
    ),
    Message(
        "torch-writes",
        patterns=(
            "given (NumPy array|buffer) is not writable",
            "it is read-only, and (torch|paddle)",
        ),
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
        "numpy-dtype",
        patterns=("only supports signed/unsigned",),
        cause=(
            "NumPy does not export this dtype: bfloat16, float8, dates, text or structs; before "
            "1.25, bool."
        ),
        cures=(
            "consumer(dlshim.upgrade(x))",
            'consumer(dlshim.upgrade(x, reinterpret="int64"))  # datetime64, timedelta64',
        ),
    ),
    Message(
        "numpy-import",
        patterns=("Unsupported (dtype|lanes) in DLTensor", "from_dlpack> returned NULL"),
        cause=(
            "The array has a dtype that NumPy does not have (bfloat16, float8). ml_dtypes has them."
        ),
        cures=(
            "import ml_dtypes; numpy.asarray(dlshim.upgrade(x))",
            'numpy.from_dlpack(dlshim.upgrade(x, reinterpret="uint16"))  # the bits of bfloat16',
            'numpy.from_dlpack(dlshim.upgrade(x, reinterpret="uint8"))  # the bits of float8',
        ),
    ),
    Message(
        "byte-order",
        patterns=("only supports native byte order",),
        cause="DLPack cannot describe numbers in another byte order than the machine's.",
        cures=("consumer(x.astype(x.dtype.newbyteorder('=')))",),
    ),
    Message(
        "longdouble",
        patterns=("only supports IEEE",),
        cause="DLPack cannot describe longdouble, which has 80 bits in 16 bytes.",
        cures=("consumer(x.astype('float64'))  # rounds to 53 bits",),
    ),
    Message(
        "type-code",
        patterns=(
            r"Unsupported code \d",
            "invalid DLPack type code",
            "Unknown DLPack datatype",
            r"unsupported DLPack type \d",
            "Can't convert dlpack data type",
        ),
        cause=(
            "The consumer does not have this dtype. Code 4 is bfloat16, 5 is complex, 6 is bool, "
            "7 and above are float8 and smaller."
        ),
        cures=(
            'consumer(dlshim.upgrade(x, reinterpret="uint8"))  # bool, float8: the bytes',
            'consumer(dlshim.upgrade(x, reinterpret="uint16"))  # bfloat16: the bits',
        ),
    ),
    Message(
        "sparse",
        patterns=(r"other than torch\.strided",),
        cause="A sparse tensor is not one block of memory, so it cannot be shared.",
        cures=("consumer(x.to_dense())",),
    ),
    Message(
        "meta",
        patterns=("pack tensors on meta", r"Unknown device type \w+ for Dlpack"),
        cause=(
            "The tensor has no memory (meta), or this release does not export memory of its "
            "device (mps)."
        ),
        cures=("consumer(x.cpu())  # mps; a meta tensor has no values to share",),
    ),
    Message(
        "traced",
        patterns=("called on traced array",),
        cause="Inside jit, vmap or grad an array has no memory yet.",
        cures=(
            "jax.pure_callback(consumer, result_shape, x)  # or exchange outside of the function",
        ),
    ),
    Message(
        "arrow-nulls",
        patterns=("arrays with no nulls",),
        cause="DLPack cannot describe missing values.",
        cures=("consumer(x.drop_null())", "consumer(x.fill_null(0))"),
    ),
    Message(
        "arrow-type",
        patterns=("Bit-packed boolean", "not compatible with DLPack spec"),
        cause=(
            "Arrow packs eight booleans into a byte, and text, dates and lists are not numbers. "
            "DLPack can describe neither."
        ),
        cures=("consumer(x.cast('uint8'))  # booleans",),
    ),
    Message(
        "negative",
        patterns=(
            "negative strides",
            "strides item is negative",
            "alloc memory of 18446744",
            "Storage size calculation",
            "terminate called .*c10::Error",
        ),
        cause=(
            "The array has negative strides, which the consumer does not support. torch up to "
            "2.13 ends the process."
        ),
        cures=('consumer(dlshim.from_dlpack(dlshim.upgrade(x, order="C")))',),
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
        cause=(
            "The memory layout is not one that the consumer takes. JAX wants data without gaps, "
            "the others want C-contiguous data, and pyarrow.Array has one dimension."
        ),
        cures=(
            'consumer(dlshim.upgrade(x, order="C"))',
            'consumer(dlshim.to_capsule(x, order="C"))  # TensorFlow',
        ),
    ),
    Message(
        "odd-strides",
        patterns=("a multiple of itemsize",),
        cause=(
            "The array is a field of packed records. DLPack counts strides in whole elements, so "
            "it cannot describe them."
        ),
        cures=("consumer(numpy.ascontiguousarray(x))",),
    ),
    Message(
        "device-type",
        patterns=(
            r"Unsupported device_type: ?\d+",
            "Unsupported device in DLTensor",
            r"Unsupported array type: \d+",
        ),
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
        cause=("A stream was passed, but the data are in host memory, where there are no streams."),
        cures=(
            "dlshim.upgrade(x).__dlpack__(stream=-1, max_version=(1, 0))",
            "consumer(dlshim.upgrade(x))",
        ),
    ),
    Message(
        "stream-zero",
        patterns=("stream for the DLPack protocol",),
        cause=(
            "Stream 0 is not allowed on CUDA, because it could mean two streams. The legacy "
            "default stream is 1."
        ),
        cures=("dlshim.upgrade(x).__dlpack__(stream=1)",),
    ),
    Message(
        "stream-none",
        patterns=("stream=None is ambiguous",),
        cause=(
            "cuda.core does not take None as a stream. Pass the pointer of your stream, or -1 if "
            "nothing has to be waited for."
        ),
        cures=("StridedMemoryView.from_dlpack(dlshim.upgrade(x), stream_ptr=-1)",),
    ),
    Message(
        "own",
        patterns=(r"'[\w.]+' object: \S",),
        cause=(
            "The message of dlshim names the reason and the cure. If another library raised an "
            "error first, it is the __cause__."
        ),
        cures=("print(dlshim.inspect(x, export=True))",),
    ),
)
