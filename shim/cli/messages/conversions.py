"""Arrays where a function, a file or a process wants something else."""

from __future__ import annotations

from .message import Message

ROWS = (
    Message(
        "other-array",
        patterns=(
            r"must be Tensor, not (numpy|jaxlib|cupy|pandas|polars|PIL|mlx|tensorflow)",
            r"expected Tensor as element \d+ in argument \d+, but got",
            r"The problematic value is of type <class '(torch|cupy|mlx|tensorflow|paddle)",
            "is not a numpy array, neither a scalar",
            "annot determine Numba type of",
        ),
        versions="torch, JAX, OpenCV, numba",
        cause="The function takes arrays of its own library, or of NumPy, and no others.",
        cures=(
            "consumer(torch.from_dlpack(dlshim.upgrade(x)))  # a function of torch",
            "consumer(jax.numpy.from_dlpack(dlshim.upgrade(x)))  # of JAX",
            "consumer(numpy.asarray(dlshim.upgrade(x)))  # of OpenCV, numba, scikit-learn",
        ),
    ),
    Message(
        "other-method",
        patterns=(
            r"'numpy\.ndarray' object has no attribute "
            r"'(to|cpu|cuda|detach|numpy|unsqueeze|permute|dim|float|long|requires_grad)'",
            r"'Tensor' object has no attribute '(astype|copy|tobytes)'",
            r"ArrayImpl' object has no attribute '(numpy|cpu|to|detach)'",
        ),
        versions="Python, where an array is of another library than the code expects",
        cause="The method is one of another library's arrays.",
        cures=(
            "torch.from_dlpack(dlshim.upgrade(x))  # has .to(), .cpu(), .unsqueeze()",
            "numpy.asarray(dlshim.upgrade(x))  # has .astype(), .copy()",
        ),
    ),
    Message(
        "array-copy",
        patterns=("__array__ implementation doesn't accept a copy keyword",),
        versions="NumPy from 2, of torch and of classes that were written before",
        cause="NumPy asks the object's __array__, which does not know whether it is to copy.",
        cures=("numpy.array(dlshim.upgrade(x), copy=False)  # or copy=True",),
    ),
    Message(
        "symbolic",
        patterns=("Cannot convert a symbolic", "'SymbolicTensor' object has no attribute"),
        versions="TensorFlow, inside tf.function",
        cause="Inside tf.function a tensor has no memory yet.",
        cures=("tf.numpy_function(consumer, [x], x.dtype)  # or exchange outside of it",),
    ),
    Message(
        "random-key",
        patterns=("PRNGKey dtype cannot be converted",),
        versions="JAX",
        cause="A random key is no array of numbers. Its numbers are asked for by a function.",
        cures=("consumer(jax.random.key_data(x))",),
    ),
    Message(
        "jax-immutable",
        patterns=("JAX arrays are immutable",),
        versions="JAX",
        cause="An array of JAX never changes. A changed copy is another array.",
        cures=(
            "x.at[0].set(7)  # a new array of JAX",
            'numpy.from_dlpack(dlshim.upgrade(x, readonly="copy"))  # a copy that can be changed',
        ),
    ),
    Message(
        "never-copy",
        patterns=("Unable to avoid copy while creating an array",),
        versions="NumPy from 2.0",
        cause="Since NumPy 2, copy=False means never. Before, it meant only where it must be.",
        cures=("numpy.asarray(x)  # copies only where it must",),
    ),
    Message(
        "unknown-dtype",
        patterns=(r"data type '(bfloat16|float8_\w+|int4|uint4)' not understood",),
        versions="NumPy; safetensors and others that ask it",
        cause="NumPy learns the names of these dtypes when ml_dtypes is imported.",
        cures=("import ml_dtypes; consumer(x)",),
    ),
    Message(
        "exported",
        patterns=(
            "Existing exports of data",
            "cannot close exported pointers exist",
            "cannot resize an array that (references|is exporting buffers)",
        ),
        versions="Python (bytearray, array.array, mmap, shared_memory), NumPy",
        cause=(
            "An array still lies over this memory. Delete that array first, or let it have a copy."
        ),
        cures=("consumer(dlshim.upgrade(x, copy=True))  # then nothing holds x",),
    ),
    Message(
        "pickle",
        patterns=(r"cannot pickle '(PyCapsule|dlshim\.Producer)' object",),
        versions="Python: multiprocessing, Ray, dask, joblib",
        cause="A capsule and a Producer belong to their process. A Tensor carries its values.",
        cures=("consumer(dlshim.from_dlpack(x))  # x: the array",),
    ),
    Message(
        "json",
        patterns=(
            r"type '?(ndarray|Tensor|ArrayImpl|EagerTensor|array|bfloat16|u?int\d+|float\d+)'? is "
            "not JSON serializable",
        ),
        versions="Python",
        cause="JSON has lists of numbers, and no arrays.",
        cures=(
            "consumer(x.tolist())",
            "consumer(numpy.asarray(dlshim.upgrade(x)).tolist())  # of any library",
        ),
    ),
    Message(
        "no-buffer",
        patterns=(
            r"a bytes-like object is required, not '(Tensor|ArrayImpl|EagerTensor|Series|"
            r"pyarrow[\w.]+)'",
        ),
        versions="Python: memoryview, bytes, files, sockets, zlib",
        cause="The array has no buffer. A Tensor of dlshim has one, over the same memory.",
        cures=(
            "consumer(dlshim.from_dlpack(x))  # memoryview, bytes",
            'consumer(memoryview(dlshim.from_dlpack(x)).cast("B"))  # files, sockets, zlib',
        ),
    ),
    Message(
        "buffer-format",
        patterns=(
            "PEP 3118 buffer format string",
            r"cannot include dtype '[^Mm]' in a buffer",
            r"Buffers of type B?F\w+ are not supported by the Python buffer protocol",
        ),
        versions="MLX, NumPy with ml_dtypes, JAX",
        cause="Buffers of Python have no code for bfloat16 and float8. DLPack has.",
        cures=(
            "import ml_dtypes; numpy.asarray(dlshim.upgrade(x))",
            'memoryview(numpy.from_dlpack(dlshim.upgrade(x, reinterpret="uint16")))  # its bits',
        ),
    ),
    Message(
        "buffer-dates",
        patterns=(r"cannot include dtype '[Mm]' in a buffer",),
        versions="NumPy",
        cause="Buffers of Python have no code for dates and durations. Their numbers pass.",
        cures=("consumer(x.view('int64'))",),
    ),
    Message(
        "opencv-layout",
        patterns=("is incompatible with cv::Mat",),
        versions="OpenCV",
        cause=(
            "OpenCV draws into rows without gaps. A flipped, cropped or read-only image has none; "
            "the copy gets the drawing, and x stays as it is."
        ),
        cures=("consumer(numpy.ascontiguousarray(x))", "consumer(x.copy())"),
    ),
    Message(
        "image-dtype",
        patterns=("Cannot handle this data type",),
        versions="Pillow",
        cause=(
            "An image has bytes of shape (height, width, channels). This array has another dtype, "
            "or its channels stand first."
        ),
        cures=(
            "Image.fromarray((numpy.asarray(x) * 255).astype('uint8'))  # values from 0 to 1",
            "Image.fromarray(numpy.moveaxis(numpy.asarray(x), 0, -1))  # channels first",
        ),
    ),
    Message(
        "image-interface",
        patterns=("has no attribute '__array_interface__'",),
        versions="Pillow and others that take NumPy's interface only",
        cause="The consumer takes arrays of NumPy, and does not ask for DLPack.",
        cures=("consumer(numpy.asarray(dlshim.upgrade(x)))",),
    ),
    Message(
        "one-dimension",
        patterns=("only handle 1-dimensional arrays",),
        versions="pyarrow",
        cause="A column has one dimension. pyarrow has another type for arrays with more.",
        cures=("pyarrow.Tensor.from_numpy(numpy.asarray(x))",),
    ),
    Message(
        "contiguous",
        patterns=(
            "view size is not compatible with input tensor's size",
            "last axis must be contiguous",
            "restricted to C-contiguous",
            "(ndarray|underlying buffer) is not C-contiguous",
        ),
        versions="torch's .view(), NumPy's .view(), memoryview.cast, hashlib, Cython",
        cause=(
            "The array is transposed or cut out of another, and this operation wants its elements "
            "one after the other."
        ),
        cures=(
            "numpy.ascontiguousarray(x)",
            'consumer(dlshim.upgrade(x, order="C"))  # a consumer of DLPack, before the operation',
        ),
    ),
)
