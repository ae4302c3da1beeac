"""DLPack itself: keywords, versions and names of capsules; an object where a capsule is wanted."""

from __future__ import annotations

from .message import Message

ROWS = (
    Message(
        "used",
        patterns=(
            "got .*used_dltensor",
            "capsule was consumed",
            "consumed by another holder",
        ),
        versions="TensorFlow, dlshim",
        cause=(
            "A capsule can be used only once. dlshim.upgrade(capsule), made before that, can be "
            "used often."
        ),
        cures=("consumer(dlshim.to_capsule(x, align=64))  # x: the array, not its capsule",),
    ),
    Message(
        "keyword",
        patterns=(
            r"__dlpack__\(\) (takes no|got an unexpected) keyword argument",
            "max_version argument",
        ),
        versions="NumPy before 2.1, torch before 2.9, MLX before 0.32, Warp, onnxruntime, JAX",
        cause=(
            "The consumer passes a keyword that the producer does not know, and does not try "
            "again without it."
        ),
        cures=("consumer(dlshim.upgrade(x))",),
    ),
    Message(
        "positional-stream",
        patterns=(r"__dlpack__\(\) takes (1|exactly 0|0) positional",),
        versions="torch from 2.9, CuPy, NumPy, as producers",
        cause=("The stream was passed by position, but the producer takes it by keyword only."),
        cures=("dlshim.upgrade(x).__dlpack__(None)  # takes both",),
    ),
    Message(
        "consumer-keyword",
        patterns=(r"from_dlpack\(\) (takes no|got an unexpected) keyword argument",),
        versions="NumPy before 2.1, torch before 2.9, CuPy before 13.4",
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
        versions="pyarrow from 26, mpi4py 4, NumPy before 2.1, nanoarrow, JAX, apache-tvm-ffi",
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
        versions="torch, Paddle, Open3D, onnxruntime, Warp, apache-tvm-ffi, CuPy",
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
        versions="NumPy, pyarrow, array-api-strict, nanoarrow, JAX from 0.7.2, MLX from 0.32",
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
        versions="every consumer",
        cause=(
            "The object has no __dlpack__. dlshim also takes objects that have a buffer, an array "
            "interface, or the values of a column."
        ),
        cures=(
            "consumer(dlshim.upgrade(x))",
            "consumer(numpy.asarray(x))  # where values are missing, integers become floats",
        ),
    ),
    Message(
        "capsule-wanted",
        patterns=("TFE_FromDlpackCapsule",),
        versions="TensorFlow",
        cause="The consumer takes only raw capsules of DLPack 0.x.",
        cures=("consumer(dlshim.to_capsule(x, align=64))",),
    ),
    Message(
        "nanobind",
        patterns=(
            # pybind11 has "Invoked with:", and shows the arguments themselves.
            r"incompatible function arguments.*Invoked with types:.*(ndarray|Producer)",
            r"incompatible function arguments\. \(ndarray\)",
        ),
        versions="functions made with nanobind",
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
        "drjit",
        patterns=("Unable to initialize from an array of type.*following configuration",),
        versions="Dr.Jit",
        cause=(
            "Dr.Jit takes its own dtype and row-major memory; it converts NumPy's arrays, and no "
            "others."
        ),
        cures=(
            'consumer(dlshim.upgrade(x, order="C"))  # other strides',
            "consumer(numpy.from_dlpack(dlshim.upgrade(x)))  # another dtype",
        ),
    ),
    Message(
        "jax-to-dlpack",
        patterns=(
            r"jax\.dlpack.? has no attribute 'to_dlpack'",
            "to_dlpack was deprecated",
        ),
        versions="JAX from 0.6",
        cause=(
            "JAX has deprecated and then removed this function. Its arrays give capsules by "
            "__dlpack__."
        ),
        cures=(
            "dlshim.to_capsule(x)",
            'dlshim.to_capsule(x, readonly="share")  # from JAX 0.12 on, for who never writes',
        ),
    ),
    Message(
        "unversioned",
        patterns=("Exporting an unversioned DLPack capsule is deprecated",),
        versions="pyarrow from 26",
        cause="The consumer asks for DLPack 0.x, and pyarrow is to stop giving that.",
        cures=('consumer(dlshim.upgrade(x, readonly="share"))  # if the consumer never writes',),
    ),
)
