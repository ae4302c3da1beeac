"""What dlshim does otherwise for a library: rows with their reasons, and the place for them.

C reads these rows (``src/types/library.c``), and so do ``inspect``, the tests and the manual.  What
is shown and tested of a library, release by release, stands in ``known/``.

The C code takes what it needs at the import of ``_core``, and keeps it: code may ask while the
interpreter ends, when the names of this module say nothing any more.  So nothing of dlshim is
imported here but the functions that ask libraries, and `of` keeps what it looks at.
"""

from __future__ import annotations

import sys

from . import library_calls as calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    #: A package with a dot, traits, what a plan keeps, releases.
    Row = tuple[str, int, tuple[Any, ...], tuple[Any, ...]]
    #: Traits, the place of the row in the MRO or -1, what a plan keeps, releases.
    Answer = tuple[int, int, tuple[Any, ...], tuple[Any, ...]]

# ---- words -------------------------------------------------------------------------------------

#: What may be known of a library's objects.  The first is bit 0; C has the same words in the same
#: order (``DLS_LIB_*`` in ``src/types/library.h``).
TRAITS = {
    "OWNS": "the struct alone keeps the memory alive (T10)",
    "DOES_NOT_OWN": "the capsule does not keep the memory alive (T3, T10)",
    "IMMUTABLE": "data never change, but legacy capsules cannot say so (T8)",
    "LEGACY_TRUTHFUL": "its legacy answer is as truthful and cheaper (N3)",
    "OLDER_AFTER_REFUSAL": "older protocols describe what __dlpack__ refuses (N2)",
    "LAZY_BITS": "requires_grad, conjugate and negative bits are checked here (T12)",
    "BASE_TELLS": "host memory where the last .base is None: not asked (N5)",
    "CPU_ONLY": "objects cannot be elsewhere: the device is not asked (N5)",
    "SCALAR_IS_1D": "exports scalars with shape (1,)",
    "LEARN_ANY_REFUSAL": "keyword refusals of any class are learned (N1)",
    "NO_MINUS_ONE": "takes stream -1 for a handle, and waits for None (S3)",
    "IGNORES_STREAM": "takes the stream and orders nothing",
    "WAITS": "waits for the device itself before it returns",
    "REFUSES_TWO": "refuses stream 2, the per-thread default stream",
    "NO_WORK_STREAM": "its table has no current stream to tell",
    "COPIES_UNFLAGGED": "obeys copy=True, whatever its flags say (T8)",
    "INTERFACE_WAITS": "waits itself before it shows its array interface",
    "WRITABLE": "its memory is writable, whatever its array interface says",
    "ZERO_UNSAID": "its current stream is 0 also where nobody has set one",
    "IS_CPU_TELLS": "host memory where .is_cpu is true: not asked (N5)",
    "ABORTS": "ends the process when asked for elements that are no numbers",
    "STOP_GRADIENT": "its table does not check .stop_gradient: checked here (T12)",
    "MASKED": "its mask may hide elements: checked here (T12)",
    "BOOL_AS_UINT8": "exports booleans as uint8: .data_type() tells",
    "NONE_IS_UNSAID": "no stream in its CUDA array interface says that none was chosen (S11)",
    "LABEL_CHECKED": "its device may be wrong: the driver is asked (S26)",
    "WRAPS_READ_ONLY": (
        "a read-only wrapper whose hook refuses questions: asked past the hook (T12)"
    ),
    "REFUSES_MINUS_ONE": "refuses stream -1: gets None (N6)",
    "VALUES": "its values are NumPy's or PyArrow's, and are read as such (C12)",
    "BUFFER_FIRST": "its buffer is cheaper than __dlpack__, or copies nothing: tried first (N2)",
    "STATES_READ_ONLY": "its __dlpack__ states READ_ONLY, and so its buffer (T8)",
    "HOLDS_ARRAY": "holds an array, and makes a table of it for Arrow: not asked for one (C10)",
    "IN_MEMORY": "the chunks of its Arrow stream are in memory: the GIL is kept (C11)",
    "MADE_ANEW": "its array interface shows memory that is made for the call: a copy (T8)",
}

#: What may be known of the code that asks, by the bits of ``DLS_ASKER_*``.
ASKERS = {
    "NEVER_WRITES": "writes to no memory, but cannot be told that it may not (T8)",
    "HEEDS_NOT": "is told READ_ONLY, and lets its user write all the same (T8)",
    "DROPS_STREAM": "does not wait for the stream that a CUDA array interface names (S20)",
    "LOSES_SCALARS": "takes an array without dimensions for one without elements (N9)",
    "WANTS_ELEMENTS": "ends in a panic over a column whose rows have no elements (N9)",
}

#: Layouts that such code takes, by the numbers of ``DLS_LAYOUT_*`` (``src/core/tensor.h``).
LAYOUTS = ("ANY", "NO_NEGATIVE", "COMPACT", "ROW_MAJOR")

#: What a library is asked for: ``DLS_CALL_*``.  "methods" are names of methods that give a capsule
#: where ``__dlpack__`` is missing; the first that the object has is called.  The others are
#: functions of ``library_calls``; a stream may stand there itself.
CALLS = (
    *("methods", "capsule", "CUDA stream", "oneAPI stream", "device guard"),
    *("plain calls", "read-only table", "Metal wait"),
)

# ---- classes of libraries ----------------------------------------------------------------------

# fmt: off
#: (name, module, class, traits).  The name is what messages and `inspect` call the row.  The module
#: is the package, or a longer part of the name, of the class's ``__module__``; the class is its
#: ``__qualname__``.  The classes of an object's MRO are looked up one after the other, so that
#: subclasses are found too; of several rows that fit a class the first counts.
#: OWNS: the struct alone keeps the memory alive, so an export needs no reference to the source
#: (measured: source dropped, memory read).
LIBRARIES: tuple[tuple[str, str, str, str], ...] = (
    # NumPy refuses read-only arrays in the legacy generation itself (TypeError before 1.24), and it
    # refuses dtypes that its array struct describes (ml_dtypes, old bool).  Pinned memory that it
    # was given by a capsule stays pinned: that hangs on the last base.
    ("numpy", "numpy", "ndarray", "OWNS LEGACY_TRUTHFUL OLDER_AFTER_REFUSAL BASE_TELLS"),
    # The memory has no mask.  A row of its own stands before ndarray in their MRO.
    ("numpy.ma", "numpy.ma", "MaskedArray", "OWNS LEGACY_TRUTHFUL OLDER_AFTER_REFUSAL MASKED"),
    ("astropy Masked", "astropy.utils.masked", "MaskedNDArray",
     "OWNS LEGACY_TRUTHFUL OLDER_AFTER_REFUSAL MASKED"),
    # Its buffer is its own memory; its interfaces show that of an array which they make.  Scalars
    # of ml_dtypes have the latter alone.
    ("numpy scalar", "numpy", "generic", "CPU_ONLY IMMUTABLE BUFFER_FIRST MADE_ANEW"),
    ("Pillow", "PIL", "Image", "MADE_ANEW"),
    # The C table checks neither autograd nor the conjugate bit, and even __dlpack__ forgets the
    # negative bit.  Pinned tensors answer (3, 0) but export (1, 0), and is_cpu is true.
    ("torch", "torch", "Tensor",
     "OWNS LAZY_BITS REFUSES_TWO COPIES_UNFLAGGED IS_CPU_TELLS"),  # mutant: torch refuses 2
    # The wrapper of torch.utils.dlpack, since torch 2.14: its hook refuses every call but the two
    # of DLPack, and its C table checks as little as torch's.  A bare __dlpack__() of it answers
    # 1.x.
    ("torch", "torch.utils.dlpack", "ReadOnlyTensorWrapper",
     "OWNS LAZY_BITS REFUSES_TWO COPIES_UNFLAGGED WRAPS_READ_ONLY"),
    # Before 0.12 half-modern: takes max_version, answers legacy, cannot say that its memory is
    # immutable, and flags no copy.  From 0.12 on it states READ_ONLY, of its copies too, which it
    # flags.  A bare call answers legacy in every release.  -1 is no stream to it.  Its __dlpack__
    # is Python code that costs ten times as much as its buffer, which waits for the values as well.
    # The buffer is refused where the memory is elsewhere, in shards or deleted, and for dtypes that
    # it has no format for.
    ("jax", "jaxlib", "ArrayImpl", "OWNS IMMUTABLE NO_MINUS_ONE COPIES_UNFLAGGED BUFFER_FIRST"),
    ("jax", "jaxlib", "Array", "OWNS IMMUTABLE NO_MINUS_ONE COPIES_UNFLAGGED BUFFER_FIRST"),
    # Scalars are exported with shape (1,).  Text, resources and variants end the process: the
    # address is fetched before the dtype is judged (tensorflow/c/eager/dlpack.cc,
    # TFE_HandleToDLPack), and Tensor::tensor_data() checks that elements may be copied as bytes.
    # The device there is TensorFlow's own number, which set_visible_devices and virtual devices
    # change; and int32 "on the GPU" lies on the host.
    ("tensorflow", "tensorflow", "_EagerTensorBase",
     "OWNS IMMUTABLE SCALAR_IS_1D WAITS ABORTS LABEL_CHECKED"),
    ("tensorflow", "tensorflow", "EagerTensor",
     "OWNS IMMUTABLE SCALAR_IS_1D WAITS ABORTS LABEL_CHECKED"),
    ("pyarrow.Array", "pyarrow", "Array", "OWNS IMMUTABLE"),
    ("pyarrow.Tensor", "pyarrow", "Tensor", "OWNS"),
    # It has a __dlpack__ of its own, that of its Tensor; so has one of its elements.
    ("pyarrow.FixedShapeTensorArray", "pyarrow", "FixedShapeTensorArray", "OWNS IMMUTABLE"),
    ("pyarrow.FixedShapeTensorArray", "pyarrow", "FixedShapeTensorScalar", "OWNS IMMUTABLE"),
    ("paddle", "paddle", "Tensor", "STOP_GRADIENT"),
    # Their Arrow stream makes nulls of NaN and bits of bool, and an Index has none.
    ("pandas", "pandas", "Series", "VALUES"),
    ("pandas", "pandas", "Index", "VALUES"),
    # These take `stream` and do nothing with it.
    ("tvm-ffi", "tvm_ffi", "Tensor", "OWNS IGNORES_STREAM ZERO_UNSAID"),
    ("nanobind", "nanobind", "nb_ndarray", "IGNORES_STREAM"),
    # It says device 0 of what it was given by the CUDA array interface.
    ("cv-cuda", "nvcv", "ExternalBuffer",
     "IGNORES_STREAM LABEL_CHECKED"),  # mutant: CV-CUDA ignores the stream
    # 0.19 has no nvcv any more.  Its method takes max_version too.
    ("cv-cuda", "cvcuda", "ExternalBuffer", "IGNORES_STREAM LABEL_CHECKED"),
    # The stream is a C int, so None is a TypeError.  The device is always 0.
    ("opencv", "cv2.cuda", "GpuMat", "OWNS IGNORES_STREAM LABEL_CHECKED"),
    ("opencv", "cv2.cuda", "GpuMatND", "OWNS IGNORES_STREAM LABEL_CHECKED"),
    # The capsule does not keep the surface.
    ("vali", "python_vali", "Surface", "IGNORES_STREAM DOES_NOT_OWN"),
    ("vali", "python_vali", "SurfacePlane", "IGNORES_STREAM DOES_NOT_OWN"),
    ("jax.ffi", "jaxlib", "Buffer", "IGNORES_STREAM"),
    ("warp", "warp", "array", "OWNS"),
    # Evaluates the array and waits for that (mlx/array.cpp, array::eval).  It computes later: what
    # is written to an array changes what was computed of it before, and is not evaluated yet.
    ("mlx", "mlx", "array", "OWNS WAITS IMMUTABLE"),
    # -1 is a TypeError to it, as a negative number is to any unsigned parameter of nanobind.
    # Slices with gaps are exported as if they had none (26.7); it forgets the byte offset of what
    # it takes.
    ("max", "max", "Buffer", "REFUSES_MINUS_ONE"),
    # Keyword refusals of array-api-strict on NumPy < 2.1 are NotImplementedError or ValueError, and
    # always the same for the type.
    ("array-api-strict", "array_api_strict", "Array", "LEARN_ANY_REFUSAL LEGACY_TRUTHFUL CPU_ONLY"),
    # The capsule dangles when the OrtValue dies.  Booleans are uint8 in it up to 1.31.
    ("onnxruntime", "onnxruntime", "OrtValue", "DOES_NOT_OWN CPU_ONLY BOOL_AS_UINT8"),
    ("open3d", "open3d", "Tensor", ""),
    ("mxnet", "mxnet", "NDArray", ""),
    ("mxnet", "mxnet", "ndarray", ""),
    ("cuda.core", "cuda.core", "StridedMemoryView", "IGNORES_STREAM NO_WORK_STREAM"),
    ("cuda.core", "cuda.core", "Buffer", "IGNORES_STREAM NO_WORK_STREAM"),
    # Its CUDA frames refuse every stream but None, and sync nothing.
    ("pyav", "av", "VideoPlane", "IGNORES_STREAM"),
    # Have no __dlpack__: the CUDA array interface is their only word.  "stream": None says there
    # that no stream was chosen (NONE_IS_UNSAID), and the work is in the default one.
    ("numba", "numba", "DeviceNDArray", "NONE_IS_UNSAID"),
    ("numba", "numba", "DeviceRecord", "NONE_IS_UNSAID"),
    ("pycuda", "pycuda", "GPUArray", "NONE_IS_UNSAID"),
    # RAPIDS.  The dicts are of any version from 0 to 3 and never name a stream.
    ("rmm", "rmm", "DeviceBuffer", "NONE_IS_UNSAID"),
    ("cudf", "cudf", "Buffer", "NONE_IS_UNSAID"),
    ("cudf", "cudf", "SpillableBufferCAIWrapper", "NONE_IS_UNSAID"),
    ("cudf", "cudf", "ColumnBase", "NONE_IS_UNSAID"),
    ("cudf", "cudf", "MaskCAIWrapper", "NONE_IS_UNSAID"),
    ("cudf", "cudf", "SingleColumnFrame", "NONE_IS_UNSAID"),
    ("pylibcudf", "pylibcudf", "gpumemoryview", "NONE_IS_UNSAID"),
    ("pylibcudf", "pylibcudf", "OwnerWithCAI", "NONE_IS_UNSAID"),
    ("pylibcudf", "pylibcudf", "OwnerMaskWithCAI", "NONE_IS_UNSAID"),
    ("cuml", "cuml", "CumlArray", "NONE_IS_UNSAID"),
    ("pylibraft", "pylibraft", "device_ndarray", "NONE_IS_UNSAID"),
    ("cuvs", "cuvs", "DeviceTensorView", "NONE_IS_UNSAID"),
    ("cupy", "cupy", "ndarray", "OWNS"),
    # An array serves once, and refuses every stream but None.  The struct is its producer's.
    ("ctypes-dlpack", "ctypes_dlpack", "DLPackArray", "OWNS IGNORES_STREAM"),
    # Arrays are values: copies share memory until one of them is changed.  As a consumer it asks
    # for 1.x where a legacy export was refused, and then scatter() writes to memory whose READ_ONLY
    # is set.  It asks from C, so that no module tells who asks.
    ("drjit", "drjit", "ArrayBase", "IMMUTABLE"),
    ("nanoarrow", "nanoarrow", "CBufferView", "CPU_ONLY"),
    # SYCL.  The interface of an array waits for its queue, its __dlpack__ does not.  Memory objects
    # wait for nothing, have no __dlpack__, and say that they are read-only.
    ("dpctl.tensor", "dpctl.tensor", "usm_ndarray", "OWNS INTERFACE_WAITS"),
    ("dpnp.tensor", "dpnp.tensor", "usm_ndarray", "OWNS INTERFACE_WAITS"),
    ("dpnp", "dpnp", "dpnp_array", "OWNS INTERFACE_WAITS"),
    ("dpctl.memory", "dpctl.memory", "_Memory", "WRITABLE"),
)

#: Traits of releases: name of the rows -> (module, release, traits before, traits from then on) of
#: the module that is imported.
RELEASES: dict[str, tuple[tuple[str, tuple[int, int], str, str], ...]] = {
    # Any stream but None makes the host wait for paddle's own (PaddlePaddle/Paddle#76840).
    "paddle": (
        ("paddle", (3, 3), "IGNORES_STREAM", ""),  # mutant: paddle before 3.3
    ),
    "jax": (("jax", (0, 12), "", "STATES_READ_ONLY"),),
}

#: (module, class) of columns: objects of this class or of a subclass have HOLDS_ARRAY.
HOLDS_ARRAY = (
    # Since 2026.9: a row for each value, with its coordinates.  A variable that lies in a file is
    # read for that.
    ("xarray", "DataArray"),
)
#: The class that an imported module has under this name, and no subclass of it and no other class
#: of the same name, has IN_MEMORY: its stream runs no query and waits for no thread.
IN_MEMORY = (
    # The stream goes over the vector of chunks (ExportChunkedArray in Arrow's bridge.cc,
    # series_to_stream in polars' to_py.rs).
    ("pyarrow", "ChunkedArray"),
    ("polars", "Series"),
)

#: Extension types of Arrow whose integers count periods of time (C5).
PERIODS = (b"pandas.period",)

# ---- what libraries are asked for --------------------------------------------------------------

#: Where a library says on which stream it works now; its own ``__dlpack__`` syncs from there too
#: (S11).  These work on the default stream, unless the user chose another one for a call.  Where
#: they work on that of each thread (raft; cudf with CUDF_PER_THREAD_STREAM=1), L comes after that
#: of every thread.
_DEFAULT: dict[str, Any] = {"CUDA stream": 0}

#: Name of the rows -> what is asked for, and how (CALLS).
CALLS_OF: dict[str, dict[str, Any]] = {
    "torch": {
        "capsule": calls.torch_capsule,
        "CUDA stream": calls.torch_stream,
        "oneAPI stream": calls.torch_xpu_stream,
        # On CUDA 12 a device without a context is only noted as the current one when a guard is
        # left (MaybeSetDevice in c10/cuda/CUDAFunctions.cpp), and the driver does not hear of it.
        "device guard": calls.torch_device_guard,  # mutant: torch's device
        "plain calls": calls.torch_plain_calls,
        "read-only table": calls.torch_read_only_table,
        # Streams of Metal are no part of DLPack, and torch ignores what it is passed for them.
        "Metal wait": calls.torch_mps_wait,
    },
    "jax": {"capsule": calls.jax_capsule},
    "tensorflow": {"capsule": calls.tensorflow_capsule},
    "paddle": {
        "capsule": calls.paddle_capsule,
        "CUDA stream": calls.paddle_stream,
        # It makes its event on the stream of its own current device, whatever the array's: a race,
        # and an error where that device is the CPU (Tensor.__dlpack__ of 3.3.1,
        # PaddlePaddle/Paddle#76840).
        "device guard": calls.paddle_device_guard,  # mutant: paddle's device
    },
    "onnxruntime": {"capsule": calls.onnxruntime_capsule},
    "open3d": {"methods": ("to_dlpack",)},
    "mxnet": {"methods": ("to_dlpack_for_write", "to_dlpack_for_read")},
    "cupy": {"methods": ("toDlpack",), "CUDA stream": calls.cupy_stream},
    "warp": {"CUDA stream": calls.stream_of_device},
    "numba": {"CUDA stream": calls.stream_of_array},
    "cv-cuda": {"CUDA stream": calls.nvcv_stream},
    "tvm-ffi": {"CUDA stream": calls.tvm_ffi_stream},
    # An array's work is in its own queue.
    "dpctl.tensor": {"oneAPI stream": calls.queue_of_array},
    "dpnp.tensor": {"oneAPI stream": calls.queue_of_array},
    "dpnp": {"oneAPI stream": calls.queue_of_array},
    "pycuda": _DEFAULT,  # mutant: stream of PyCUDA
    "rmm": _DEFAULT,
    "cudf": _DEFAULT,
    "pylibcudf": _DEFAULT,
    "cuml": _DEFAULT,
    "pylibraft": _DEFAULT,
    "cuvs": _DEFAULT,
}
#: The same for objects of libraries without a row: methods that their types have.
UNKNOWN = {"methods": ("to_dlpack", "toDlpack", "to_dlpack_for_write", "to_dlpack_for_read")}

#: Memory of oneAPI can be copied where this module has this function: it makes a memory object of
#: what shows its interface.  All else that copies take is named in ``oneapi``.
SYCL_COPIES = ("dpctl.memory", "as_usm_memory")

# ---- who asks ----------------------------------------------------------------------------------

#: (module, what is known of its code); the module is that of the code that called dlshim.
MODULES = (
    # Its arrays never change.  Before 0.12 it asks for legacy capsules and forgets the mark.
    ("jax._src.dlpack", "NEVER_WRITES"),
    # torch.from_dlpack, torch.utils.dlpack.from_dlpack, torch.asarray and torch.as_tensor ask from
    # this module; torch has no read-only tensors.
    ("torch.utils.dlpack", "HEEDS_NOT"),
    ("paddle.utils.dlpack", "HEEDS_NOT"),
    # jaxlib/py_array.cc drops 1 and 2; CreateViewOfDeviceBuffer finds no handle that is not XLA's
    # own (LocalDeviceState::GetStreamFromExternalStream).  The module of jnp.array since 0.6, and
    # before.
    ("jax._src.numpy.array_constructors", "DROPS_STREAM"),
    ("jax._src.numpy.lax_numpy", "DROPS_STREAM"),
)
#: (package, what is known of code in it, the layout that it takes where it passes no keywords, the
#: same with keywords, (release, layout)).  It refuses or misreads all other layouts (N9).  Before
#: that release it takes more than this layout, but does not compute right values from it:
#: order="auto" copies the rest.
PACKAGES: tuple[tuple[str, str, str, str, tuple[tuple[int, int], str] | None], ...] = (
    # max.driver.Buffer.from_dlpack, which reads the elements one after the other.
    ("max", "", "ROW_MAJOR", "ANY", None),
    # Refused by all releases from 0.4.13 to 0.12 (UNIMPLEMENTED: trivial (compact) striding).
    # Transposed arrays look right up to 0.4.26, but sums of them are wrong; up to 0.4.38 such sums
    # are an AssertionError; 0.6 to 0.7.1 misread the arrays where they are aligned to 64 bytes;
    # 0.7.2 refuses them.
    ("jax", "", "COMPACT", "COMPACT", ((0, 8), "ROW_MAJOR")),
    # nanoarrow.c_buffer: the product of no extents is 0 to it.
    ("nanoarrow", "LOSES_SCALARS", "ANY", "ANY", None),
    # polars.Series, from Arrow's lists of fixed size: "the offset of the new Buffer cannot exceed
    # the existing length", a PanicException, which is no Exception.
    ("polars", "WANTS_ELEMENTS", "ANY", "ANY", None),
)
# fmt: on

# ---- what is brought into a library ------------------------------------------------------------

_FLOAT8 = ("e3m4", "e4m3", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")
FLOAT8 = frozenset(f"float8_{name}" for name in _FLOAT8)
COMPLEX = frozenset({"complex64", "complex128"})
#: Dtypes that Arrow, and so a column, does not have.
NOT_IN_ARROW = FLOAT8 | COMPLEX | {"bfloat16"}
#: Dtypes that the array API standard does not have.
NOT_IN_STANDARD = FLOAT8 | {"bfloat16", "float16"}

#: What `dlshim.to` may know of a library.  Of one that is not here it knows nothing: its arrays may
#: be written, lie anywhere, have any dtype.
TAKER = {
    "HEEDS": "its arrays cannot be written, or not where READ_ONLY is set",
    "LATE": "computes later, from the memory as it is then",
    "LATE_ITSELF": "the same of its own arrays, though nothing marks them: they must not change",
    "COPIES": "copies whatever it takes",
    "HOST": "has host memory alone",
    "DIRECT": "its from_dlpack makes the same of what an upgraded exchange gives",
    "PACKS": "makes bits of booleans",
    "NO_SCALARS": "its arrays have axes",
    "NO_EMPTY_ROWS": "takes no rows without elements",
    "KEEPS_NONE": "its constructor makes missing values of None",
}


class Takes:
    """What `dlshim.to` knows of a library: what it must do before it hands memory to it."""

    def __init__(
        self,
        own: str,
        words: str = "",
        *,
        constructor: str = "",
        clone: str = "",
        module: str = "",
        package: str = "",
        layout: str = "NO_NEGATIVE",
        align: int = 1,
        lacks: frozenset[str] = frozenset(),
        halves: str = "",
        unless: str = "",
        column: str = "",
        axes: int = 64,
        table: str = "x.to_pandas()",
    ) -> None:
        #: The classes of its arrays and tables, which go through as they are.
        self.own = tuple(own.split())
        #: Words of TAKER.
        self.words = frozenset(words.split())
        #: The function that makes an array of Python's lists and numbers; "": by way of NumPy, and
        #: integers stay exact.
        self.constructor = constructor
        #: The method that copies an array of its own; "": an exchange does.
        self.clone = clone
        #: The module that has these; "": that of its name.
        self.module = module
        #: The package that its classes name, where that is another.
        self.package = package
        #: The strides that it takes, of LAYOUTS; PACKAGES may say it of a release.
        self.layout = layout
        #: Memory that is not so aligned is copied, by dlshim or by the library.
        self.align = align
        #: Dtypes that it does not have.
        self.lacks = lacks
        #: Dtypes that become half as wide in it, unless this option of its config is set.
        self.halves, self.unless = frozenset(halves.split()), unless
        #: The function that makes a column of dates and texts; "": its arrays are no columns.
        self.column = column
        #: The number of axes that its arrays may have.
        self.axes = axes
        #: What makes a table of a table.
        self.table = table


#: By the name of the package.  What makes an array of a Tensor is a function of
#: ``conversion/making.py``, or the library's own ``from_dlpack``.
TAKES: dict[str, Takes] = {
    "numpy": Takes("ndarray", "HEEDS HOST DIRECT", clone="copy", layout="ANY"),
    "torch": Takes("Tensor", "DIRECT", constructor="tensor", clone="clone"),
    # Below 64 bytes of alignment JAX copies by itself.
    "jax": Takes(
        "ndarray",
        "HEEDS LATE",
        constructor="asarray",
        clone="copy",
        module="jax.numpy",
        package="jaxlib",
        align=64,
        halves="float64 int64 uint64 complex128",
        unless="jax_enable_x64",
    ),
    # The first operation on memory that is not aligned to 64 bytes ends the process.
    "tensorflow": Takes(
        "Tensor SparseTensor RaggedTensor",
        "HEEDS",
        constructor="constant",
        layout="ROW_MAJOR",
        align=64,
        lacks=FLOAT8,
    ),
    "cupy": Takes("ndarray", constructor="asarray", clone="copy"),
    # `b = a + 1` reads a when b is looked at, and a may be written by who shares its memory.
    "mlx": Takes(
        "array",
        "HEEDS COPIES LATE_ITSELF",
        constructor="array",
        module="mlx.core",
        lacks=FLOAT8,
        halves="complex128",
    ),
    "paddle": Takes("Tensor", constructor="to_tensor", clone="clone"),
    "warp": Takes("array", "NO_SCALARS", constructor="array", lacks=FLOAT8 | COMPLEX),
    "tvm_ffi": Takes("Tensor"),
    "array_api_strict": Takes(
        "_array_object.Array",
        "HEEDS HOST",
        layout="ANY",
        lacks=NOT_IN_STANDARD,
    ),
    # PyArrow and Polars compute when they are called.  Their own constructors share memory, too.
    "pyarrow": Takes(
        "Array ChunkedArray Tensor Table RecordBatch",
        "HEEDS HOST NO_SCALARS KEEPS_NONE PACKS",
        constructor="array",
        layout="ROW_MAJOR",
        lacks=NOT_IN_ARROW,
        column="array",
        table="pyarrow.table(x)",
    ),
    "polars": Takes(
        "Series DataFrame",
        "HEEDS HOST NO_SCALARS NO_EMPTY_ROWS KEEPS_NONE PACKS",
        constructor="Series",
        layout="ROW_MAJOR",
        lacks=NOT_IN_ARROW,
        column="Series",
        table="polars.DataFrame(x)",
    ),
    "pandas": Takes(
        "Series Index DataFrame",
        "HOST NO_SCALARS",
        clone="copy",
        layout="ANY",
        column="Series",
        axes=2,
    ),
    "dlshim": Takes("Tensor", "HEEDS", layout="ANY"),
}
#: (package, class) where the class is asked for itself, and its library has others too.
TAKES_OF_CLASSES = {
    ("pyarrow", "Tensor"): Takes(
        "Tensor", "HEEDS HOST", layout="ANY", lacks=NOT_IN_ARROW | {"bool"}
    ),
}

# ---- for the C code ----------------------------------------------------------------------------


def _bits(words: str, known: Iterable[str]) -> int:
    """The words as bits; one that is not known is an error."""
    places = [*known]
    return sum(1 << places.index(word) for word in words.split())


def _asker(
    key: str,
    name: str,
    words: str,
    bare: str = "ANY",
    keywords: str = "ANY",
    older: tuple[tuple[int, int], str] | None = None,
) -> tuple[Any, ...]:
    release, before = older or ((0, 0), "ANY")
    layouts = (LAYOUTS.index(bare), LAYOUTS.index(keywords))
    return (key, _bits(words, ASKERS), *layouts, *release, LAYOUTS.index(before), name)


#: Who asks, modules and packages with a dot after them: (module or package, bits, layout, layout
#: with keywords, release, layout before it, its name).  It is read in the middle of exchanges.
WHO = (
    tuple(_asker(module, module, words) for module, words in MODULES),
    tuple(_asker(f"{row[0]}.", *row) for row in PACKAGES),
)


def _habits(name: str | None, asked: dict[str, Any]) -> tuple[Any, ...]:
    """What a plan keeps: the name of its row, and how the library is asked."""
    return (name, asked.get("methods", ()), *(asked.get(call) for call in CALLS[1:]))


def _rows() -> dict[str, list[Row]]:
    """By the name of the class: the package with a dot, traits, what a plan keeps, releases."""
    rows: dict[str, list[Row]] = {}
    for name, module, cls, traits in LIBRARIES:
        releases = tuple(
            (of, *release, _bits(before, TRAITS), _bits(since, TRAITS))
            for of, release, before, since in RELEASES.get(name, ())
        )
        kept = _habits(name, CALLS_OF.get(name, {}))
        rows.setdefault(cls, []).append((f"{module}.", _bits(traits, TRAITS), kept, releases))
    return rows


def _make_of() -> Callable[[type, tuple[tuple[str, str], ...], int, bool], Answer]:
    rows, unknown, modules = _rows(), _habits(None, UNKNOWN), sys.modules
    holders, columns = HOLDS_ARRAY, IN_MEMORY
    holds, in_memory = (_bits(word, TRAITS) for word in ("HOLDS_ARRAY", "IN_MEMORY"))

    def of_column(cls: type, names: tuple[tuple[str, str], ...]) -> int:
        traits = 0
        for package, name in holders:
            for module, each in names:
                if each == name and f"{module}.".startswith(f"{package}."):
                    traits |= holds
        for module, name in columns:
            if getattr(modules.get(module), name, None) is cls:
                traits |= in_memory
        return traits

    def of(cls: type, names: tuple[tuple[str, str], ...], own: int, streams: bool) -> Answer:
        """Look up what is known of a class.

        names: of each class of the MRO its module and its qualified name.  own: the place of the
        class there that has ``__dlpack__``, or -1.  streams: it gives a stream of Arrow.

        No code of others runs here but ``__getattr__`` of a module.  An exception that comes all
        the same, say of a signal handler, ends this one exchange, and nothing is learned of it.
        """
        traits = of_column(cls, names) if streams else 0
        for at, (module, name) in enumerate(names):
            for package, found, kept, releases in rows.get(name, ()):
                if f"{module}.".startswith(package):
                    if 0 <= own < at:  # a subclass that exports its own way
                        return traits, -1, unknown, ()
                    return found | traits, at, kept, releases
        return traits, -1, unknown, ()

    return of


#: It keeps what it looks at, whatever becomes of the names of this module.
of = _make_of()
