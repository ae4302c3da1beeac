"""Who gives arrays away: one adapter per library.

An adapter says which element types and layouts its library can make, makes them, and tells the
facts about what it made: where element zero lies, how the elements lie, whether the memory may be
written. Facts are read from the library itself or follow from how the array was made; they are
what the model expects from, so nothing here asks DLPack.
"""

from __future__ import annotations

import array
import ctypes
import importlib
import mmap
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from . import nanobind_modules, versions
from .cases import (
    DTYPES,
    LAYOUTS,
    ML,
    PLAIN,
    DType,
    Layout,
    backing,
    pattern,
    room,
    row_major,
    strided,
)

WRITABLE, STATED, IMMUTABLE = "writable", "stated read-only", "immutable, not stated"


@dataclass(frozen=True)
class Facts:
    """What is known about one made array before anybody exchanges it."""

    producer: str
    dtype: DType
    """As DLPack will say it: a library that has no bool type of its own says uint8."""
    layout: Layout
    access: str
    address: int | None
    """Of element zero; None where the library gives no stable address."""
    legacy_dtype: DType | None = None
    """What dlshim tells legacy consumers instead, because the library's own capsule says it."""

    @property
    def negative(self) -> bool:
        """Strides that a consumer can walk backwards by: an extent below 2 is never walked."""
        if 0 in self.layout.shape:
            return False
        walks = zip(self.layout.shape, self.layout.strides, strict=True)
        return any(n > 1 and s < 0 for n, s in walks)

    @property
    def aligned(self) -> int | None:
        """The largest power of two up to 64 that divides the address."""
        return None if self.address is None else (self.address | 64) & -(self.address | 64)


@dataclass
class Made:
    obj: Any
    facts: Facts
    read: Callable[[], bytes] | None = None
    """Reads the elements through the source, in row-major order."""
    watch: Callable[[], Any] | None = None
    """A weak reference to what owns the memory: dead when nobody holds it any more."""
    keep: list = field(default_factory=list)


class Unmakeable(Exception):
    """The library cannot make this array, or refuses to say it in the asked form."""


class Producer:
    name: str
    library: str = "numpy"
    """The distribution whose version is reported."""
    modules: tuple[str, ...] = ()
    dtypes: frozenset[str] = frozenset(PLAIN)
    layouts: frozenset[str] = frozenset(LAYOUTS)
    capsule = False
    """Gives a raw capsule: usable once."""

    def __init__(self) -> None:
        self.imported = [importlib.import_module(m) for m in self.modules]
        self.setup()

    def setup(self) -> None:
        """What must be done once per process."""

    def can(self, dtype: DType, layout: Layout) -> bool:
        if dtype.name not in self.dtypes or layout.name not in self.layouts:
            return False
        return not (layout.shift and dtype.itemsize == 1)

    def make(self, dtype: DType, layout: Layout) -> Made:
        raise NotImplementedError

    def bare(self, made: Made) -> Any:
        """What a user hands to a consumer without dlshim."""
        return made.obj

    def facts(self, dtype, layout, address, access=None) -> Facts:
        if access is None:
            access = STATED if layout.readonly else WRITABLE
        return Facts(self.name, dtype, layout, access, address)


def contiguous(*, readonly: bool, ndim: tuple[int, ...] = (0, 1, 2, 3), offset=False) -> frozenset:
    return frozenset(
        name
        for name, layout in LAYOUTS.items()
        if layout.contiguous
        and len(layout.shape) in ndim
        and layout.strides == row_major(layout.shape)
        and not layout.shift
        and (offset or not layout.offset)
        and (readonly or not layout.readonly)
    )


NON_NEGATIVE = frozenset(n for n, v in LAYOUTS.items() if min((0, *v.strides)) == 0)
ALIGNED = frozenset(n for n, v in LAYOUTS.items() if not v.shift)
NOT_READONLY = frozenset(n for n, v in LAYOUTS.items() if not v.readonly)


def bytes_of(array_: np.ndarray) -> bytes:
    return np.ascontiguousarray(array_).tobytes()


# --- NumPy and what hangs on it --------------------------------------------------------------


class NumPy(Producer):
    name = "numpy"
    modules = ("numpy",)

    def np_dtype(self, dtype: DType):
        return np.dtype(dtype.name)

    def array(self, dtype, layout) -> tuple[np.ndarray, Any]:
        made = strided(dtype, layout, self.np_dtype(dtype))
        return made, weakref.ref(made.base)

    def wrap(self, source: np.ndarray):
        """What is given away: the array itself, or something that holds it."""
        return source

    def make(self, dtype, layout):
        source, watch = self.array(dtype, layout)
        address = source.__array_interface__["data"][0]
        facts = self.facts(dtype, layout, address)
        obj = self.wrap(source)
        view = weakref.ref(source)
        return Made(obj, facts, lambda: bytes_of(view()) if view() is not None else b"", watch)


class NumPyMl(NumPy):
    """NumPy arrays of ml_dtypes' types, which NumPy itself refuses to export."""

    name = "numpy of ml_dtypes"
    library = "ml_dtypes"
    modules = ("ml_dtypes",)
    dtypes = frozenset(ML)

    def setup(self):
        (ml,) = self.imported
        self.dtypes = frozenset(n for n in ML if hasattr(ml, n))

    def np_dtype(self, dtype):
        return np.dtype(getattr(self.imported[0], dtype.name))


class NumPyScalar(Producer):
    """``np.float32(1.5)``: an immutable value; each look at it is a fresh array of no dimension."""

    name = "numpy scalar"
    layouts = frozenset({"scalar"})

    def make(self, dtype, layout):
        value = strided(dtype, layout, np.dtype(dtype.name))[()]
        return Made(value, self.facts(dtype, layout, None, IMMUTABLE), value.tobytes)


class MemoryView(NumPy):
    name = "memoryview"

    def wrap(self, source):
        return memoryview(source)


class OnlyInterface(NumPy):
    name = "__array_interface__ only"

    class Object:
        def __init__(self, source):
            self._source = source

        @property
        def __array_interface__(self):
            return self._source.__array_interface__

    def wrap(self, source):
        return self.Object(source)


class OnlyStruct(OnlyInterface):
    name = "__array_struct__ only"

    class Object:
        def __init__(self, source):
            self._source = source

        @property
        def __array_struct__(self):
            return self._source.__array_struct__


class NumPyCapsule(NumPy):
    name = "capsule of numpy"
    capsule = True
    keywords: dict = {}

    def wrap(self, source):
        try:
            return source.__dlpack__(**self.keywords)
        except (TypeError, BufferError) as error:
            raise Unmakeable(str(error)) from error

    def make(self, dtype, layout):
        made = super().make(dtype, layout)
        made.read = None
        return made


class NumPyVersionedCapsule(NumPyCapsule):
    name = "versioned capsule of numpy"
    keywords = {"max_version": (1, 0)}

    def setup(self):
        if versions.of("numpy") < (2, 1):
            raise ImportError("NumPy speaks versioned DLPack from 2.1 on")


class Strict(NumPy):
    name = "array-api-strict"
    library = "array-api-strict"
    modules = ("array_api_strict",)
    dtypes = frozenset(PLAIN - {"float16"})

    def setup(self):
        (xp,) = self.imported
        self.cls = type(xp.asarray(np.zeros(1)))

    def wrap(self, source):
        return self.cls._new(source, None) if self.takes_device else self.cls._new(source)

    @cached_property
    def takes_device(self):
        import inspect

        return "device" in inspect.signature(self.cls._new).parameters


# --- the standard library --------------------------------------------------------------------


class ByteArray(Producer):
    name = "bytearray"
    library = "python"
    dtypes = frozenset({"uint8"})
    layouts = frozenset({"empty-0", "contiguous-1d"})

    def new(self, data: bytes):
        return bytearray(data)

    def make(self, dtype, layout):
        data = pattern(dtype, layout.size)
        obj = self.new(data)
        address = ctypes.addressof(ctypes.c_char.from_buffer(obj)) if data else None
        return Made(obj, self.facts(dtype, layout, address), lambda: data)


class Mmap(ByteArray):
    name = "mmap"
    layouts = frozenset({"contiguous-1d"})

    def new(self, data):
        memory = mmap.mmap(-1, len(data))
        memory[:] = data
        return memory


class Bytes(Producer):
    name = "bytes"
    library = "python"
    dtypes = frozenset({"uint8"})
    layouts = frozenset({"readonly-1d"})

    def make(self, dtype, layout):
        obj = bytes(bytearray(pattern(dtype, layout.size)))
        address = np.frombuffer(obj, "u1").__array_interface__["data"][0]
        return Made(obj, self.facts(dtype, layout, address), lambda: bytes(obj))


class StdArray(Producer):
    name = "array.array"
    library = "python"
    codes = {"int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I"}
    codes.update(int64="q", uint64="Q", float32="f", float64="d")
    dtypes = frozenset(codes)
    layouts = frozenset({"empty-0", "contiguous-1d"})

    def make(self, dtype, layout):
        data = pattern(dtype, layout.size)
        obj = array.array(self.codes[dtype.name], data)
        address = obj.buffer_info()[0] if data else None
        return Made(obj, self.facts(dtype, layout, address), obj.tobytes, weakref.ref(obj))


class Ctypes(Producer):
    name = "ctypes array"
    library = "python"
    codes = {n: getattr(ctypes, "c_" + n) for n in PLAIN if n.startswith(("int", "uint"))}
    codes.update(bool=ctypes.c_bool, float32=ctypes.c_float, float64=ctypes.c_double)
    dtypes = frozenset(codes)
    layouts = contiguous(readonly=False)

    def make(self, dtype, layout):
        kind = self.codes[dtype.name]
        for extent in reversed(layout.shape):
            kind = kind * extent
        data = pattern(dtype, layout.size)
        obj = kind.from_buffer_copy(data) if data else kind()
        address = ctypes.addressof(obj) if data else None
        return Made(obj, self.facts(dtype, layout, address), lambda: data)


# --- libraries -------------------------------------------------------------------------------


class Torch(Producer):
    name = "torch"
    library = "torch"
    modules = ("torch",)
    layouts = NON_NEGATIVE & ALIGNED & NOT_READONLY

    def setup(self):
        (self.torch,) = self.imported
        self.dtypes = frozenset(n for n in DTYPES if hasattr(self.torch, n))
        if versions.of("torch") < (2, 10):
            # "float8 types are not supported by dlpack", says its export
            self.dtypes -= ML - {"bfloat16"}
        if versions.of("torch") < (2,):
            self.dtypes -= {"bool"}  # nor bool, at first

    def make(self, dtype, layout):
        torch = self.torch
        kind = getattr(torch, dtype.name)
        raw = torch.zeros(max(4096, room(dtype, layout) * dtype.itemsize), dtype=torch.uint8)
        data = bytearray(pattern(dtype, room(dtype, layout)))
        raw[: len(data)] = torch.frombuffer(data, dtype=torch.uint8)
        flat = raw.view(kind)
        tensor = torch.as_strided(flat, layout.shape, layout.strides, layout.offset)
        address = flat.data_ptr() + layout.offset * dtype.itemsize
        seen = weakref.ref(tensor)
        return Made(
            self.wrap(tensor), self.facts(dtype, layout, address), lambda: read_torch(torch, seen())
        )

    def wrap(self, tensor):
        return tensor


def read_torch(torch, tensor) -> bytes:
    flat = torch.clone(tensor.detach(), memory_format=torch.contiguous_format).reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


class TorchCapsule(Torch):
    name = "capsule of torch"
    capsule = True

    def wrap(self, tensor):
        return self.torch.utils.dlpack.to_dlpack(tensor)

    def make(self, dtype, layout):
        made = super().make(dtype, layout)
        made.read = None
        return made


class TorchVersionedCapsule(TorchCapsule):
    name = "versioned capsule of torch"

    def setup(self):
        super().setup()
        if versions.of("torch") < (2, 9):
            raise ImportError("torch speaks versioned DLPack from 2.9 on")

    def wrap(self, tensor):
        return tensor.__dlpack__(max_version=(1, 0))


class Jax(Producer):
    name = "jax"
    library = "jax"
    modules = ("jax", "jax.numpy")
    layouts = contiguous(readonly=False)

    def setup(self):
        jax, self.jnp = self.imported
        jax.config.update("jax_enable_x64", True)
        # DLPack has float8 since 2025; older releases make such arrays and cannot export them
        names = DTYPES if versions.of("jax") >= (0, 6) else PLAIN | {"bfloat16"}
        self.bool = DTYPES["bool" if versions.of("jax") >= (0, 4, 24) else "uint8"]
        # versioned capsules, and with them the flag, came between 0.10 and 0.12
        self.access = STATED if versions.of("jax") >= (0, 12) else IMMUTABLE
        try:
            ml = importlib.import_module("ml_dtypes")
        except ImportError:
            ml = None
        self.kinds = {n: getattr(ml, n, None) if n in ML else n for n in names}
        self.dtypes = frozenset(n for n, kind in self.kinds.items() if kind is not None)

    def make(self, dtype, layout):
        source = strided(dtype, layout, np.dtype(self.kinds[dtype.name]))
        obj = self.jnp.array(source, copy=True)
        if dtype.name == "bool":
            dtype = self.bool
        facts = self.facts(dtype, layout, obj.unsafe_buffer_pointer(), self.access)
        return Made(obj, facts, lambda: np.asarray(obj).tobytes())


class TensorFlow(Producer):
    name = "tensorflow"
    library = "tensorflow-cpu"
    modules = ("tensorflow",)
    layouts = contiguous(readonly=False)

    def setup(self):
        (self.tf,) = self.imported
        self.kinds = {n: n for n in PLAIN} | {"bfloat16": self.tf.bfloat16.as_numpy_dtype}
        self.dtypes = frozenset(self.kinds)

    def make(self, dtype, layout):
        obj = self.tf.constant(strided(dtype, layout, np.dtype(self.kinds[dtype.name])))
        view = obj._numpy()  # numpy() is this and a copy; of no dimension it is a NumPy scalar
        address = view.__array_interface__["data"][0] if layout.shape else None
        if dtype.name == "bool" and versions.of("tensorflow-cpu") < (2, 13):
            dtype = DTYPES["uint8"]
        facts = self.facts(dtype, layout, address, IMMUTABLE)
        return Made(obj, facts, lambda: obj.numpy().tobytes())


class Paddle(Producer):
    name = "paddle"
    library = "paddlepaddle"
    modules = ("paddle",)
    layouts = NON_NEGATIVE & ALIGNED & NOT_READONLY

    def setup(self):
        (self.paddle,) = self.imported
        # to_tensor, by which they are made, takes no unsigned type above 8 bits from NumPy
        names = PLAIN - {"uint16", "uint32", "uint64"} | {"bfloat16"}
        self.dtypes = frozenset(n for n in names if hasattr(self.paddle, n))
        if versions.of("paddlepaddle") < (3,):
            self.layouts = contiguous(readonly=False)

    def make(self, dtype, layout):
        paddle = self.paddle
        count = max(room(dtype, layout), 512)
        if dtype.name == "bfloat16":
            source = np.frombuffer(pattern(dtype, count), "u2")
        else:
            source = np.frombuffer(pattern(dtype, count), dtype.name)
        flat = paddle.to_tensor(source, dtype=dtype.name, place=paddle.CPUPlace())
        if self.layouts == contiguous(readonly=False):
            obj = paddle.to_tensor(source[: layout.size], place=paddle.CPUPlace())
            obj = obj.reshape(list(layout.shape))
        else:
            size = dtype.itemsize
            obj = paddle.as_strided(
                flat, list(layout.shape), list(layout.strides), layout.offset * size
            )
        if dtype.name == "bool" and versions.of("paddlepaddle") < (3,):
            dtype = DTYPES["uint8"]
        return Made(obj, self.facts(dtype, layout, obj.data_ptr() or None), None)


class Warp(Producer):
    name = "warp"
    library = "warp-lang"
    modules = ("warp",)
    dtypes = frozenset(n for n in PLAIN if not n.startswith("complex"))
    layouts = frozenset(n for n in NOT_READONLY & ALIGNED if LAYOUTS[n].shape)

    def setup(self):
        (self.warp,) = self.imported
        self.warp.config.quiet = True
        self.warp.init()
        self.dtypes = frozenset(n for n in self.dtypes if hasattr(self.warp, n))
        if hasattr(self.warp, "bfloat16"):
            self.dtypes |= {"bfloat16"}

    def make(self, dtype, layout):
        wp = self.warp
        kind = getattr(wp, dtype.name)
        count = max(room(dtype, layout), 512)
        flat = wp.zeros(count, dtype=kind, device="cpu")
        memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(flat.ptr)
        memory.raw = pattern(dtype, count)
        size = dtype.itemsize
        address = flat.ptr + layout.offset * size
        obj = wp.array(
            ptr=address if layout.size else None,
            dtype=kind,
            shape=layout.shape,
            strides=tuple(s * size for s in layout.strides),
            device="cpu",
        )
        obj._ref = flat
        return Made(obj, self.facts(dtype, layout, address), None, weakref.ref(flat))


class TvmFfi(NumPy):
    name = "tvm-ffi"
    library = "apache-tvm-ffi"
    modules = ("tvm_ffi",)
    layouts = NOT_READONLY

    def wrap(self, source):
        return self.imported[0].from_dlpack(source)


class CudaCore(NumPy):
    """A view of host memory; it keeps the read-only flag of what it views."""

    name = "cuda.core"
    library = "cuda-core"
    modules = ("cuda.core.utils",)

    def wrap(self, source):
        return self.imported[0].StridedMemoryView.from_dlpack(source, stream_ptr=-1)


class Mlx(Producer):
    name = "mlx"
    library = "mlx"
    modules = ("mlx.core",)
    layouts = NON_NEGATIVE & ALIGNED & NOT_READONLY

    def setup(self):
        (self.mx,) = self.imported
        names = {"bool": "bool_"}
        self.kinds = {n: getattr(self.mx, names.get(n, n), None) for n in DTYPES}
        self.dtypes = frozenset(n for n, kind in self.kinds.items() if kind is not None)
        self.mx.set_default_device(self.mx.cpu)

    def make(self, dtype, layout):
        mx = self.mx
        count = max(room(dtype, layout), 512)
        source = np.frombuffer(pattern(dtype, count), "u1")
        flat = mx.array(source).view(self.kinds[dtype.name])
        mx.eval(flat)
        obj = mx.as_strided(flat, layout.shape, layout.strides, layout.offset)
        mx.eval(obj)
        start = np.frombuffer(memoryview(flat).cast("B"), "u1").__array_interface__["data"][0]
        address = start + layout.offset * dtype.itemsize
        return Made(obj, self.facts(dtype, layout, address), None)


class ArrowArray(Producer):
    name = "pyarrow.Array"
    library = "pyarrow"
    modules = ("pyarrow",)
    dtypes = frozenset(n for n in PLAIN if not n.startswith("complex") and n != "bool")
    layouts = frozenset({"empty-0", "contiguous-1d", "offset-1d"})

    def make(self, dtype, layout):
        (pa,) = self.imported
        # pyarrow takes the memory as it lies; JAX shares only what is aligned to 64 bytes.
        memory = backing(dtype, layout)
        memory.flags.writeable = False
        whole = pa.array(memory.view(dtype.name))
        obj = whole.slice(layout.offset, layout.size)
        address = obj.buffers()[1].address + obj.offset * dtype.itemsize
        access = STATED if versions.of("pyarrow") >= (26,) else IMMUTABLE
        facts = self.facts(dtype, layout, address, access)
        return Made(obj, facts, lambda: obj.to_numpy(zero_copy_only=False).tobytes())


class ArrowTensor(NumPy):
    name = "pyarrow.Tensor"
    library = "pyarrow"
    modules = ("pyarrow",)
    dtypes = ArrowArray.dtypes | {"bool"}
    layouts = NON_NEGATIVE

    def setup(self):
        if versions.of("pyarrow") < (21,):
            raise ImportError("pyarrow.Tensor speaks DLPack from 21 on")
        if versions.of("pyarrow") < (26,):
            # a read-only tensor exports NULL data (refused, see tests/core)
            self.layouts = NON_NEGATIVE & NOT_READONLY

    def make(self, dtype, layout):
        made = super().make(dtype, layout)
        if dtype.name == "bool":
            made.facts = replace(made.facts, dtype=DTYPES["uint8"])
        return made

    def wrap(self, source):
        return self.imported[0].Tensor.from_numpy(source)


class NanoarrowView(NumPy):
    """nanoarrow's buffer view: one dimension, contiguous, legacy DLPack."""

    name = "nanoarrow"
    library = "nanoarrow"
    modules = ("nanoarrow",)
    dtypes = ArrowArray.dtypes
    layouts = frozenset({"contiguous-1d", "offset-1d"})

    def setup(self):
        view = self.wrap(np.zeros(1))
        if not hasattr(view, "__dlpack__"):
            raise ImportError("this nanoarrow gives no DLPack")

    def wrap(self, source):
        return self.imported[0].c_buffer(source).view()


class OnnxRuntime(Producer):
    """Shares the memory of a NumPy array; its capsule does not keep it alive."""

    name = "onnxruntime"
    library = "onnxruntime"
    modules = ("onnxruntime",)
    layouts = contiguous(readonly=False)
    dtypes = frozenset(n for n in PLAIN if not n.startswith("complex"))

    def setup(self):
        self.cls = self.imported[0].OrtValue
        if not hasattr(self.cls, "__dlpack__"):
            raise ImportError("this onnxruntime gives no DLPack from Python")

    def make(self, dtype, layout):
        source = strided(dtype, layout, np.dtype(dtype.name))
        obj = self.cls.ortvalue_from_numpy(source)
        address = obj.data_ptr()
        facts = self.facts(dtype, layout, address)
        if dtype.name == "bool" and versions.of("onnxruntime") < (1, 32):
            facts = replace(facts, legacy_dtype=DTYPES["uint8"])
        return Made(obj, facts, lambda: obj.numpy().tobytes())


class Open3d(NumPy):
    name = "open3d"
    library = "open3d-cpu"
    modules = ("open3d", "open3d.core")
    dtypes = frozenset(PLAIN - {"float16", "complex64", "complex128"})
    # It reads the buffer protocol's format; NumPy's of what is not aligned ("=f") it does not know.
    layouts = NON_NEGATIVE & NOT_READONLY & ALIGNED

    def wrap(self, source):
        return self.imported[1].Tensor.from_numpy(source)


class Nanobind31(NumPy):
    """An object that nanobind makes around foreign memory."""

    name = "nanobind 3.1"
    library = "nanobind"
    generation = "3.1.0"
    dtypes = frozenset(DTYPES)

    def setup(self):
        self.module = nanobind_modules.load(self.generation)

    def make(self, dtype, layout):
        source = strided(dtype, layout)
        owner = source.base
        address = source.__array_interface__["data"][0]
        shape, strides = layout.shape, layout.strides
        obj = self.module.give(address, shape, strides, dtype.triple, layout.readonly, source)
        facts = self.facts(dtype, layout, address)
        view, watch = weakref.ref(source), weakref.ref(owner)
        return Made(obj, facts, lambda: bytes_of(view()), watch)


class Nanobind22(Nanobind31):
    """Older generations give a raw legacy capsule, also of constant memory."""

    name = "capsule of nanobind 2.2"
    generation = "2.2.0"
    capsule = True
    layouts = NOT_READONLY

    def make(self, dtype, layout):
        made = super().make(dtype, layout)
        made.read = None
        return made


class Nanobind29(Nanobind22):
    name = "capsule of nanobind 2.9"
    generation = "2.9.2"


class MxNet(Producer):
    """Has methods that give a capsule, no ``__dlpack__``."""

    name = "mxnet"
    library = "mxnet"
    modules = ("mxnet",)
    dtypes = frozenset({"int8", "int32", "int64", "uint8", "float16", "float32", "float64"})
    layouts = contiguous(readonly=False, ndim=(1, 2, 3)) - {"empty-0", "empty-0x3", "empty-3x0x4"}

    def make(self, dtype, layout):
        (mx,) = self.imported
        source = strided(dtype, layout, np.dtype(dtype.name))
        obj = mx.nd.array(source, dtype=dtype.name)
        obj.wait_to_read()
        return Made(obj, self.facts(dtype, layout, None), lambda: obj.asnumpy().tobytes())

    def bare(self, made):
        return made.obj.to_dlpack_for_write()


ALL = [
    NumPy, NumPyMl, NumPyScalar, MemoryView, OnlyInterface, OnlyStruct, NumPyCapsule,
    NumPyVersionedCapsule, Strict, ByteArray, Mmap, Bytes, StdArray, Ctypes, Torch, TorchCapsule,
    TorchVersionedCapsule, Jax, TensorFlow, Paddle, Warp, TvmFfi, CudaCore, Mlx, ArrowArray,
    ArrowTensor, NanoarrowView, OnnxRuntime, Open3d, MxNet, Nanobind31, Nanobind22, Nanobind29,
]  # fmt: skip
