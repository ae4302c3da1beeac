"""Who takes arrays in: one adapter per library and way of asking.

An adapter imports (``take``), tells what it got by the library's own means (``look``), and says
what the library can hold (``limit``: None, or the name of a row in ``refusals``). How the library
asks and what it holds is read from the table that ``dlshim.inspect`` answers from, where ``known``
names the function; else the class attributes say it. Both are written from sources and
documentation (and checked by ``test_calls.py`` with a spy), not from the results of the matrix.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dlshim import consumers, look
from dlshim.known.rows import (
    COPIES,
    COPIES_UNALIGNED,
    HONOURS,
    IGNORES,
    LEGACY,
    SHARES,
    VERSIONED,
    Known,
)

from . import nanobind_modules, refusals, versions
from .cases import BY_TRIPLE, DTYPES, PLAIN, DType, Layout, row_major, truth
from .producers import Facts, read_torch

FROM_THE_TABLE = (
    "asks", "reads_table", "bears_negative", "never_writes", "memory", "buffer_next", "flag",
    "dtypes",
)  # fmt: skip


@dataclass
class Seen:
    """What a consumer has got."""

    shape: tuple[int, ...]
    dtype: str
    data: bytes
    """The elements in row-major order, read by the consumer's own means."""
    address: int | None
    writable: bool | None
    """None: the library has no way to say it."""


class Consumer:
    name: str
    library: str
    modules: tuple[str, ...] = ()
    known = ""
    """The function's name in ``dlshim.consumers``."""
    inspected = True
    """What ``dlshim.inspect`` says of that function is about this very call."""
    buffer = False
    """Never asks for DLPack: upgraded it is given ``dlshim.from_dlpack(x)``, for its buffer."""
    capsule = False
    """Takes raw capsules only: bare it is given ``x.__dlpack__()``."""
    asks = VERSIONED
    """Of objects without a C table."""
    reads_table = False
    """Calls the functions of a C table where the type has one: versioned."""
    bears_negative = True
    """Asks in one of the ways that are known to bear negative strides (N9)."""
    never_writes = False
    """Code of its library asks, and is known to write to no memory (T8)."""
    memory = SHARES
    asks_copy = False
    """Passes copy=True: then dlshim makes the copy (T8)."""
    buffer_first = False
    """Looks for the buffer protocol before DLPack. A Producer has none, so it is asked for DLPack
    all the same; a Tensor has one, and then the exchange is not DLPack's any more."""
    buffer_next = False
    """Tries the buffer protocol, and accepts read-only memory there, where DLPack is refused."""
    flag = IGNORES
    """What it does with READ_ONLY."""
    keeps_shape = True
    raises: tuple[str, ...] = ("BufferError",)
    """What the caller sees when the wrapper raises a BufferError."""
    dtypes: frozenset[str] = frozenset(DTYPES)
    dtype_row = ""

    def __init__(self) -> None:
        self.imported = [importlib.import_module(m) for m in self.modules]
        if self.known:
            self.read(consumers.row_of(self.known, self.version())[0])
        self.setup()

    def read(self, row: Known) -> None:
        self.row = row
        self.capsule, self.buffer = row.wants == "capsule", row.wants == "buffer"
        for name in FROM_THE_TABLE:
            setattr(self, name, getattr(row, name))

    def version(self) -> tuple[int, ...]:
        return versions.of(self.library)

    def setup(self) -> None:
        """What must be done once per process."""

    def take(self, obj: Any) -> Any:
        raise NotImplementedError

    def look(self, result: Any) -> Seen:
        raise NotImplementedError

    def limit(self, facts: Facts) -> str | None:
        """Which documented limit of the library this array meets; None: it can hold it."""
        if self.known:
            layout = facts.layout
            array = look.Array(facts.dtype.name, layout.shape, layout.strides)
            met = self.row.limit(array)
            return refusals.key(self.row, met) if met else self.layout_limit(facts)
        if facts.dtype.name not in self.dtypes:
            return self.dtype_row
        return self.layout_limit(facts)

    def layout_limit(self, facts: Facts) -> str | None:
        return None

    def copies(self, facts: Facts) -> bool:
        if self.memory == COPIES_UNALIGNED:
            return facts.aligned is not None and facts.aligned < 64
        return self.memory == COPIES

    def waits(self) -> Iterable[None]:
        """How often it is worth asking again whether everything has been let go of."""
        return ()

    def want(self, dtype: DType, layout: Layout) -> bytes:
        """What ``look`` must read."""
        return truth(dtype, layout)


ARROW_TYPES = {"halffloat": "float16", "float": "float32", "double": "float64"}
ARROW_TYPES["half_float"] = "float16"
ARROW_DTYPES = frozenset(n for n in PLAIN if not n.startswith("complex") and n != "bool")


def see_numpy(array: np.ndarray) -> Seen:
    return Seen(
        array.shape,
        array.dtype.name,
        np.ascontiguousarray(array).tobytes(),
        array.__array_interface__["data"][0],
        bool(array.flags.writeable),
    )


def columns(layout: Layout) -> Layout | None:
    """The layout with its axes reversed, if it is column-major contiguous."""
    turned = replace(layout, shape=layout.shape[::-1], strides=layout.strides[::-1])
    return turned if turned.contiguous and not layout.contiguous else None


# --- NumPy and what hangs on it --------------------------------------------------------------


class NumPy(Consumer):
    name = "numpy"
    library = "numpy"
    modules = ("numpy",)
    known = "numpy.from_dlpack"

    def version(self):
        return versions.of("numpy")

    def setup(self):
        self.function = getattr(np, "from_dlpack", None) or np._from_dlpack

    def take(self, obj):
        return self.function(obj)

    def look(self, result):
        return see_numpy(result)


class NumPyCopy(NumPy):
    name = "numpy(copy=True)"
    inspected = False
    asks_copy = True

    def setup(self):
        super().setup()
        if self.asks == LEGACY:
            raise ImportError("numpy.from_dlpack has no copy= before 2.1")

    def take(self, obj):
        return self.function(obj, copy=True)


class NumPyDevice(NumPyCopy):
    name = "numpy(device='cpu')"
    asks_copy = False

    def take(self, obj):
        return self.function(obj, device="cpu")


class NumPyAsArray(NumPy):
    name = "numpy.asarray"
    known = "numpy.asarray"

    def setup(self):
        super().setup()
        # It takes bfloat16 and float8 where this is imported: in every worker, or in none.
        with contextlib.suppress(ImportError):
            importlib.import_module("ml_dtypes")

    def take(self, obj):
        return np.asarray(obj)


class Strict(NumPy):
    """Asks as the NumPy below it."""

    name = "array-api-strict"
    inspected = False
    library = "array-api-strict"
    modules = ("array_api_strict",)

    def limit(self, facts):
        return None if facts.dtype.name in PLAIN - {"float16"} else "strict-dtype"

    def take(self, obj):
        return self.imported[0].from_dlpack(obj)

    def look(self, result):
        return see_numpy(result._array)


class Awkward(NumPy):
    name = "awkward"
    inspected = False
    library = "awkward"
    modules = ("awkward",)

    def take(self, obj):
        return self.imported[0].from_dlpack(obj)

    def look(self, result):
        return see_numpy(result.layout.data)

    def layout_limit(self, facts):
        return "awkward-scalar" if facts.layout.shape == () else None


# --- torch -----------------------------------------------------------------------------------


class Torch(Consumer):
    name = "torch"
    library = "torch"
    modules = ("torch",)
    known = "torch.from_dlpack"

    def setup(self):
        (self.torch,) = self.imported

    def take(self, obj):
        return self.torch.from_dlpack(obj)

    def look(self, result):
        name = str(result.dtype).removeprefix("torch.")
        size = result.element_size()
        if result.data_ptr() % size:
            # torch holds it, but its kernels for complex128 kill the process on such addresses
            data = read_memory(result.data_ptr(), size, result.shape, result.stride())
        else:
            data = read_torch(self.torch, result)
        return Seen(tuple(result.shape), name, data, result.data_ptr(), None)


class TorchCopy(Torch):
    name = "torch(copy=True)"
    inspected = False
    asks_copy = True

    def setup(self):
        super().setup()
        if versions.of("torch") < (2, 9):
            raise ImportError("torch.from_dlpack has no copy= before 2.9")

    def take(self, obj):
        return self.torch.from_dlpack(obj, copy=True)


class TorchNoCopy(TorchCopy):
    """Asks exactly as mpi4py does."""

    name = "torch(copy=False)"
    asks_copy = False

    def take(self, obj):
        return self.torch.from_dlpack(obj, copy=False)


class TorchDevice(TorchNoCopy):
    name = "torch(device='cpu')"

    def take(self, obj):
        return self.torch.from_dlpack(obj, device="cpu")


class TorchAsArray(Torch):
    name = "torch.asarray"
    inspected = True
    known = "torch.asarray"
    buffer_first = True

    def setup(self):
        super().setup()
        self.capsule = versions.of("torch") < (2,)  # at first it knew capsules only

    def take(self, obj):
        return self.torch.asarray(obj)


class TorchAsTensor(TorchAsArray):
    name = "torch.as_tensor"
    known = "torch.as_tensor"

    def take(self, obj):
        return self.torch.as_tensor(obj)


# --- compiled array libraries ----------------------------------------------------------------


class Jax(Consumer):
    name = "jax"
    library = "jax"
    modules = ("jax", "jax.numpy")
    known = "jax.numpy.from_dlpack"

    def setup(self):
        jax, self.jnp = self.imported
        jax.config.update("jax_enable_x64", True)
        self.capsule = versions.of("jax") < (0, 4, 16)
        if self.capsule:  # before the table
            self.never_writes = self.bears_negative = False
        self.function = getattr(self.jnp, "from_dlpack", None)
        if self.capsule:
            self.function = importlib.import_module("jax.dlpack").from_dlpack

    def take(self, obj):
        return self.function(obj)

    def look(self, result):
        host = np.asarray(result)
        return Seen(
            tuple(result.shape),
            result.dtype.name,
            host.tobytes(),
            result.unsafe_buffer_pointer(),
            None,
        )

    def waits(self):
        """XLA copies in a thread of its own and lets go of the source there."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            yield


class JaxAsArray(Jax):
    name = "jax.numpy.asarray"
    known = "jax.numpy.asarray"

    def take(self, obj):
        return self.jnp.asarray(obj)

    def copies(self, facts):
        return None


class TvmFfi(Consumer):
    name = "tvm-ffi"
    library = "apache-tvm-ffi"
    modules = ("tvm_ffi",)
    known = "tvm_ffi.from_dlpack"

    def take(self, obj):
        return self.imported[0].from_dlpack(obj)

    def look(self, result):
        return see_dlpack(result)


def see_dlpack(obj) -> Seen:
    """For libraries that give no other way to the memory: through their own DLPack export, read
    with ctypes (the export is theirs, the reading is ours; dlshim takes no part)."""
    capsule = obj.__dlpack__()
    t = legacy_struct(capsule)
    said = BY_TRIPLE.get((t.code, t.bits, t.lanes))
    shape = tuple(t.shape[i] for i in range(t.ndim))
    strides = tuple(t.strides[i] for i in range(t.ndim)) if t.strides else row_major(shape)
    address = (t.data or 0) + t.byte_offset
    data = read_memory(address, said.itemsize if said else 1, shape, strides)
    return Seen(shape, said.name if said else "?", data, address, None)


class LegacyStruct(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def legacy_struct(capsule) -> LegacyStruct:
    return LegacyStruct.from_address(_pointer(capsule, b"dltensor"))


def read_memory(address: int, itemsize: int, shape, strides) -> bytes:
    places = [address]
    for extent, stride in zip(shape, strides, strict=True):
        places = [p + k * stride * itemsize for p in places for k in range(extent)]
    return b"".join(ctypes.string_at(p, itemsize) for p in places)


class Warp(Consumer):
    name = "warp"
    library = "warp-lang"
    modules = ("warp",)
    known = "warp.from_dlpack"

    def setup(self):
        (self.warp,) = self.imported
        self.warp.config.quiet = True
        self.warp.init()

    def take(self, obj):
        return self.warp.from_dlpack(obj)

    def look(self, result):
        name = result.dtype.__name__
        size = self.warp.types.type_size_in_bytes(result.dtype)
        strides = tuple(s // size for s in result.strides)
        data = read_memory(result.ptr or 0, size, result.shape, strides)
        return Seen(tuple(result.shape), name, data, result.ptr, None)


class Mlx(Consumer):
    name = "mlx"
    library = "mlx"
    modules = ("mlx.core",)
    known = "mlx.core.from_dlpack"

    def setup(self):
        (self.mx,) = self.imported
        self.mx.set_default_device(self.mx.cpu)

    def take(self, obj):
        return self.mx.from_dlpack(obj)

    def look(self, result):
        mx = self.mx
        name = str(result.dtype).removeprefix("mlx.core.").rstrip("_")
        if result.size == 0:
            return Seen(tuple(result.shape), name, b"", None, None)
        flat = mx.contiguous(result).reshape(-1).view(mx.uint8)
        return Seen(tuple(result.shape), name, bytes(memoryview(flat)), None, None)


class MlxArray(Mlx):
    name = "mlx.core.array"
    known = "mlx.core.array"

    def take(self, obj):
        return self.mx.array(obj)


class Paddle(Consumer):
    name = "paddle"
    library = "paddlepaddle"
    modules = ("paddle",)
    known = "paddle.utils.dlpack.from_dlpack"

    def setup(self):
        (self.paddle,) = self.imported

    def take(self, obj):
        return self.paddle.utils.dlpack.from_dlpack(obj)

    def look(self, result):
        name = str(result.dtype).removeprefix("paddle.")
        host = result.numpy()
        return Seen(tuple(result.shape), name, host.tobytes(), result.data_ptr(), None)


class TensorFlow(Consumer):
    name = "tensorflow"
    library = "tensorflow-cpu"
    modules = ("tensorflow",)
    known = "tensorflow.experimental.dlpack.from_dlpack"

    def setup(self):
        (self.tf,) = self.imported
        self.tf.constant(0.0)  # the context must be there
        self.function = self.tf.experimental.dlpack.from_dlpack

    def take(self, obj):
        return self.function(obj)

    def look(self, result):
        host = result._numpy()  # numpy() is this and a copy
        if result.shape.rank:
            address = host.__array_interface__["data"][0]
        else:  # a NumPy scalar, so a copy after all
            capsule = self.tf.experimental.dlpack.to_dlpack(result)
            address = legacy_struct(capsule).data
        return Seen(tuple(result.shape), result.dtype.name, host.tobytes(), address, None)


class OnnxRuntime(Consumer):
    name = "onnxruntime"
    library = "onnxruntime"
    modules = ("onnxruntime",)
    known = "onnxruntime.OrtValue.from_dlpack"
    onnx = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64"}
    onnx.update({9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64"})
    onnx.update({16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz"})
    onnx.update({19: "float8_e5m2", 20: "float8_e5m2fnuz"})

    def setup(self):
        self.cls = self.imported[0].OrtValue
        if not hasattr(self.cls, "from_dlpack"):
            raise ImportError("this onnxruntime takes no DLPack from Python")

    def take(self, obj):
        return self.cls.from_dlpack(obj)

    def look(self, result):
        name = self.onnx[result.element_type()]
        shape = tuple(result.shape())
        size = DTYPES[name].itemsize
        data = read_memory(result.data_ptr(), size, shape, row_major(shape))
        return Seen(shape, name, data, result.data_ptr(), None)


class Open3d(Consumer):
    name = "open3d"
    library = "open3d-cpu"
    modules = ("open3d", "open3d.core")
    capsule = True
    asks = LEGACY
    bears_negative = False
    dtype_row = "open3d-dtype"
    dtypes = frozenset(PLAIN - {"float16", "complex64", "complex128"})

    def take(self, obj):
        return self.imported[1].Tensor.from_dlpack(obj)

    def look(self, result):
        return see_numpy(result.numpy())


class MxNet(Consumer):
    name = "mxnet"
    library = "mxnet"
    modules = ("mxnet",)
    capsule = True
    asks = LEGACY
    bears_negative = False
    dtype_row = "mxnet-dtype"
    dtypes = frozenset({"int8", "int32", "int64", "uint8", "float16", "float32", "float64"})

    def take(self, obj):
        return self.imported[0].nd.from_dlpack(obj)

    def look(self, result):
        address = ctypes.c_void_p()
        from mxnet.base import _LIB, check_call

        check_call(_LIB.MXNDArrayGetData(result.handle, ctypes.byref(address)))
        host = result.asnumpy()
        return Seen(host.shape, host.dtype.name, host.tobytes(), address.value, None)

    def layout_limit(self, facts):
        return None if facts.layout.contiguous else "mxnet-strides"


# --- columnar memory -------------------------------------------------------------------------


class ArrowTensor(Consumer):
    name = "pyarrow.Tensor"
    library = "pyarrow"
    modules = ("pyarrow",)
    known = "pyarrow.Tensor.from_dlpack"

    def setup(self):
        (self.pa,) = self.imported
        if not hasattr(self.pa.Tensor, "from_dlpack"):
            raise ImportError("pyarrow takes DLPack from 26 on")

    def take(self, obj):
        return self.pa.Tensor.from_dlpack(obj)

    def look(self, result):
        seen = see_numpy(result.to_numpy())
        # of a tensor without elements it says immutable, whatever it was
        seen.writable = result.is_mutable if seen.data else None
        return seen


class ArrowArray(ArrowTensor):
    name = "pyarrow.Array"
    known = "pyarrow.Array.from_dlpack"

    def take(self, obj):
        return self.pa.Array.from_dlpack(obj)

    def look(self, result):
        name = ARROW_TYPES.get(str(result.type), str(result.type))
        size = DTYPES[name].itemsize
        buffer = result.buffers()[1]
        address = (buffer.address if buffer else 0) + result.offset * size
        data = ctypes.string_at(address, len(result) * size) if len(result) else b""
        return Seen((len(result),), name, data, address, buffer.is_mutable if buffer else None)


class Nanoarrow(Consumer):
    name = "nanoarrow"
    library = "nanoarrow"
    modules = ("nanoarrow",)
    known = "nanoarrow.c_buffer"
    buffer_first = True

    def limit(self, facts):
        row = super().limit(facts)
        warp = facts.producer == "warp" and not facts.layout.contiguous
        return "nanoarrow-warp" if warp else row

    def take(self, obj):
        return self.imported[0].c_buffer(obj)

    def look(self, result):
        name = ARROW_TYPES.get(result.data_type, result.data_type)
        address = result._addr()
        return Seen(
            (result.n_elements,), name, ctypes.string_at(address, result.size_bytes), address, None
        )


class Mpi4py(Consumer):
    """A message buffer: the bytes of contiguous memory, no shape and no element type."""

    name = "mpi4py"
    library = "mpi4py"
    buffer_first = True
    modules = ("mpi4py",)
    flag = HONOURS
    keeps_shape = False
    bears_negative = False

    def setup(self):
        self.imported[0].rc.initialize = False
        self.buffer = importlib.import_module("mpi4py.MPI").buffer

    def take(self, obj):
        return self.buffer.frombuffer(obj, readonly=True)

    def look(self, result):
        data = bytes(memoryview(result))
        return Seen((), "", data, result.address, None)

    def layout_limit(self, facts):
        flat = facts.layout.contiguous or columns(facts.layout)
        return None if flat else "mpi4py-strides"

    def want(self, dtype, layout):
        """The memory as it lies: of column-major data that is the transposed order."""
        return truth(dtype, columns(layout) or layout)


# --- cuda.core, nanobind ---------------------------------------------------------------------


class CudaCore(Consumer):
    name = "cuda.core"
    library = "cuda-core"
    modules = ("cuda.core.utils",)
    flag = HONOURS
    dtype_row = "cuda-core-dtype"
    dtypes = frozenset(PLAIN | {"bfloat16"})

    def take(self, obj):
        view = self.imported[0].StridedMemoryView.from_dlpack(obj, stream_ptr=-1)
        view.dtype  # noqa: B018  (found out at the first question: what it cannot name, it refuses)
        return view

    def look(self, result):
        size = result.dtype.itemsize
        strides = result.strides or row_major(result.shape)
        data = read_memory(result.ptr, size, result.shape, strides)
        return Seen(tuple(result.shape), result.dtype.name, data, result.ptr, not result.readonly)


class Nanobind(Consumer):
    library = "nanobind"
    generation: str
    function = "take_rw"
    known = "nanobind, writable parameter"
    raises = ("TypeError",)

    def version(self):
        return tuple(int(part) for part in self.generation.split("."))

    def setup(self):
        self.module = nanobind_modules.load(self.generation)

    def take(self, obj):
        return getattr(self.module, self.function)(obj)

    def look(self, result):
        code, bits, lanes = result.dtype()
        dtype = BY_TRIPLE.get((code, bits, lanes))
        return Seen(
            tuple(result.shape()),
            dtype.name if dtype else "?",
            result.read(),
            result.address(),
            None,
        )


class Nanobind22(Nanobind):
    name = "nanobind 2.2 rw"
    generation = "2.2.0"


class Nanobind22ro(Nanobind22):
    name = "nanobind 2.2 ro"
    function = "take_ro"
    known = "nanobind, read-only parameter"


class Nanobind29(Nanobind22):
    name = "nanobind 2.9 rw"
    generation = "2.9.2"


class Nanobind29ro(Nanobind29):
    name = "nanobind 2.9 ro"
    function = "take_ro"
    known = "nanobind, read-only parameter"


class Nanobind31(Nanobind):
    name = "nanobind 3.1 rw"
    generation = "3.1.0"

    def layout_limit(self, facts):
        return "nanobind-readonly" if facts.access != "writable" else None


class Nanobind31ro(Nanobind):
    name = "nanobind 3.1 ro"
    generation = "3.1.0"
    function = "take_ro"
    known = "nanobind, read-only parameter"


ALL = [
    NumPy, NumPyCopy, NumPyDevice, Strict, Awkward, Torch, TorchCopy, TorchNoCopy, TorchDevice,
    TorchAsArray, Jax, TvmFfi, Warp, Mlx, Paddle, TensorFlow, OnnxRuntime, Open3d, MxNet,
    ArrowTensor, ArrowArray, Nanoarrow, Mpi4py, CudaCore, Nanobind22, Nanobind22ro, Nanobind29,
    Nanobind29ro, Nanobind31, Nanobind31ro,
]  # fmt: skip

INSPECTED = [NumPyAsArray, TorchAsTensor, JaxAsArray, MlxArray]
"""Other functions of theirs that ``dlshim.inspect`` knows: few element types are exchanged."""

__all__ = ["ALL", "INSPECTED", "Consumer", "DType", "Seen"]
