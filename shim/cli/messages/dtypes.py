"""Element types that one side does not have, and byte orders."""

from __future__ import annotations

from .message import Message

ROWS = (
    Message(
        "numpy-dtype",
        patterns=("only supports signed/unsigned",),
        versions="NumPy, as producer",
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
        versions="NumPy, as consumer",
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
        "registered-dtype",
        patterns=("dtype='numeric' is not compatible with arrays of bytes",),
        versions="scikit-learn",
        cause="It takes bfloat16 and float8 of ml_dtypes for bytes, and has no such numbers.",
        cures=("consumer(numpy.asarray(dlshim.upgrade(x)).astype('float32'))",),
    ),
    Message(
        "cython-dtype",
        patterns=("Buffer dtype mismatch, expected",),
        versions="Cython",
        cause="The compiled function takes one dtype alone, and an exchange converts no values.",
        cures=("consumer(numpy.asarray(dlshim.upgrade(x)).astype('float64'))  # if 'double'",),
    ),
    Message(
        "byte-order",
        patterns=(
            "only supports native byte order",
            "has byte order different from the native",
            "Big-endian buffer not supported",
        ),
        versions="NumPy, torch, pandas",
        cause="DLPack cannot describe numbers in another byte order than the machine's.",
        cures=("consumer(x.astype(x.dtype.newbyteorder('=')))",),
    ),
    Message(
        "longdouble",
        patterns=("only supports IEEE",),
        versions="NumPy",
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
        versions="torch before 2.6, JAX before 0.4.24, Warp before 1.16, onnxruntime, pyarrow",
        cause=(
            "The consumer does not have this dtype. Code 4 is bfloat16, 5 is complex, 6 is bool, "
            "7 and above are float8 and smaller."
        ),
        cures=(
            'consumer(dlshim.upgrade(x, reinterpret="uint8"))  # bool, float8: the bytes',
            'consumer(dlshim.upgrade(x, reinterpret="uint16"))  # bfloat16: the bits',
        ),
    ),
)
