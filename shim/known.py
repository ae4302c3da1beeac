"""What is known of array libraries and of their releases, and what can be seen of objects.

First the libraries and their versions, then elements, layouts and what attributes that are plain
data tell of an object: nothing here imports a library, waits or asks.  Then, by release, the
functions that take arrays (``CONSUMERS``) and how objects answer ``__dlpack__`` (``SOURCES``).
``inspect``, ``doctor`` and the matrix answer from these rows; tests/interop compares them with
what happens.  docs/development.rst says what the fields mean ("A consumer").

Then ``inspect``: what an object offers, what ``upgrade`` would do with it, and what a consumer will
do, which follows from the rows.  Nothing is asked of the consumer.  Last ``track``, ``live`` and
``stats``: what of dlshim's is alive, and where it was made.  The module is not called
``inspect``: the submodule would hide the function of that name in the package.
"""

from __future__ import annotations

import importlib.metadata
import inspect as _inspect
import os
import re
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from types import WrapperDescriptorType
from typing import Any, NamedTuple

from . import arrays

# By name: CPython 3.12 crashes on an attribute of a module that the collector has emptied.
from ._core import (
    Producer,
    Tensor,
    UnsupportedObjectError,
    _counters,
    _options,
    _peek,
    _plan,
    _sync_rules,
    _track,
    _true_device,
    to_capsule,
)
from .arrays import row_major

# ---- libraries ------------------------------------------------------------------------------

Version = tuple[int, ...]


@dataclass(frozen=True)
class Library:
    key: str
    #: What is imported; submodules that it needs come with it.
    module: str
    distributions: tuple[str, ...]


def _read(row: str) -> Library:
    key, module, *distributions = row.split()
    return Library(key, module, tuple(distributions))


# Key, module, distributions.  In the order in which a child of the matrix imports them: paddle
# before tensorflow, because the other order kills the process (paddlepaddle 3.3, tensorflow 2.21).
_ROWS = """\
numpy numpy numpy
ml_dtypes ml_dtypes ml_dtypes
pyarrow pyarrow pyarrow
tvm_ffi tvm_ffi apache-tvm-ffi
array_api_strict array_api_strict array-api-strict
nanoarrow nanoarrow nanoarrow
torch torch torch
jax jax.numpy jax
warp warp warp-lang
mlx mlx.core mlx
onnxruntime onnxruntime onnxruntime onnxruntime-gpu onnxruntime-openvino
paddle paddle paddlepaddle paddlepaddle-gpu
tensorflow tensorflow tensorflow tensorflow-cpu tensorflow-intel tensorflow-macos
cupy cupy cupy cupy-cuda11x cupy-cuda12x cupy-cuda13x
cuda.core cuda.core cuda-core
mpi4py mpi4py mpi4py
"""
BY_KEY = {library.key: library for library in map(_read, _ROWS.splitlines())}

#: Those that the matrix exchanges arrays among; the others need a device or hold no arrays.
MATRIX = tuple(BY_KEY)[:-3]

#: Python's own buffers and raw capsules: always here.
BUILT_IN = ("stdlib", "capsule")


def loaded(module: str) -> Any:
    """Return a module that this process has imported."""
    return sys.modules[module]


def version_tuple(version: str) -> Version:
    """Return the first three numbers of a version; what is no number ends it."""
    found = re.match(r"\d+(?:\.\d+){0,2}", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def version_of(key: str) -> str | None:
    """Return a library's version, as its module or its metadata have it; None: not installed."""
    library = BY_KEY.get(key)
    if library is None:
        return None
    name = library.module.partition(".")[0]
    told = getattr(sys.modules.get(name), "__version__", None)
    if isinstance(told, str):
        return told
    try:
        found = find_spec(name)
    except (ImportError, ValueError):
        found = None
    for distribution in library.distributions if found else ():
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def installed_versions(keys: Iterable[str] = BY_KEY) -> dict[str, str]:
    """Return the version of each library that is installed, by its key."""
    return {key: version for key in keys if (version := version_of(key)) is not None}


# ---- elements and layouts -------------------------------------------------------------------

#: Name -> DLPack's code, bits and lanes.
TRIPLES = {"bool": (6, 8, 1), "bfloat16": (4, 16, 1)}
TRIPLES |= {f"int{n}": (0, n, 1) for n in (8, 16, 32, 64)}
TRIPLES |= {f"uint{n}": (1, n, 1) for n in (8, 16, 32, 64)}
TRIPLES |= {f"float{n}": (2, n, 1) for n in (16, 32, 64)}
TRIPLES |= {f"complex{n}": (5, n, 1) for n in (64, 128)}
_FLOAT8 = ["e3m4", "e4m3", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu"]
TRIPLES |= {f"float8_{name}": (7 + n, 8, 1) for n, name in enumerate(_FLOAT8)}

NAMES = {triple: name for name, triple in TRIPLES.items()}
ALL = frozenset(TRIPLES)

_KINDS = dict.fromkeys("bhilqn", "int") | dict.fromkeys("BHILQN", "uint")
_FORMATS = {"?": "bool", "e": "float16", "f": "float32", "d": "float64"}
_FORMATS |= {"Zf": "complex64", "Zd": "complex128"}
_OTHER_NAMES = {"halffloat": "float16", "float": "float32", "double": "float64"}


@dataclass(frozen=True)
class Array:
    """What limits speak of; strides count elements."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def steps(self) -> list[tuple[int, int]]:
        """The (stride, extent) pairs that are walked: an extent below two never is."""
        if 0 in self.shape:
            return []
        pairs = zip(self.strides, self.shape, strict=True)
        return [(stride, extent) for stride, extent in pairs if extent > 1]

    @property
    def negative(self) -> bool:
        return any(stride < 0 for stride, _ in self.steps)

    @property
    def contiguous(self) -> bool:
        return _compact(self.steps[::-1])

    @property
    def dense(self) -> bool:
        """Whether some order of the axes makes it contiguous."""
        return _compact(sorted(self.steps))

    @property
    def odd(self) -> bool:
        """Whether strides that say nothing are not the row-major ones."""
        pairs = zip(self.shape, self.strides, row_major(self.shape), strict=True)
        return any(extent < 2 and stride != usual for extent, stride, usual in pairs)


def _compact(steps: list[tuple[int, int]]) -> bool:
    expected = 1
    for stride, extent in steps:
        if stride != expected:
            return False
        expected *= extent
    return True


def dtype_name(value: Any) -> str | None:
    text = arrays.dtype_name(value)
    text = _OTHER_NAMES.get(text, text)
    return text if text in TRIPLES else None


# ---- objects --------------------------------------------------------------------------------


def visible(obj: Any, library: str | None, offers: tuple[str, ...]) -> dict[str, Any]:
    """Return dtype (a name), shape, strides (in elements), readonly, address, as far as seen."""
    look = _LOOKS.get(library or "")
    if look is None and offers == ("buffer protocol",) and _in_c(obj):
        look = _buffer
    if look is None:
        return {}
    try:
        found: dict[str, Any] = look(obj)
    except Exception:  # an object that only looks like one of the library
        return {}
    return {name: value for name, value in found.items() if value is not None}


def _in_c(obj: Any) -> bool:
    """Whether its buffer is given by C code, not by a method written in Python."""
    made = (vars(cls)["__buffer__"] for cls in type(obj).__mro__ if "__buffer__" in vars(cls))
    return isinstance(next(made, None), (type(None), WrapperDescriptorType))


def _in_elements(strides: Any, size: int) -> tuple[int, ...] | None:
    if any(stride % size for stride in strides):
        return None
    return tuple(stride // size for stride in strides)


def _common(obj: Any, strides: Any, **more: Any) -> dict[str, Any]:
    shape = tuple(map(int, obj.shape))
    found = {"dtype": dtype_name(obj.dtype), "shape": shape, "strides": strides, "readonly": False}
    return found | more


def _buffer(obj: Any) -> dict[str, Any]:
    with memoryview(obj) as view:
        code = view.format.lstrip("@=<")
        name = _FORMATS.get(code)
        if code in _KINDS:
            name = f"{_KINDS[code]}{8 * view.itemsize}"
        strides = _in_elements(view.strides or (), view.itemsize)
        return {"dtype": name, "shape": view.shape, "strides": strides, "readonly": view.readonly}


def _numpy(obj: Any) -> dict[str, Any]:
    return _common(
        obj,
        _in_elements(obj.strides, obj.itemsize),
        readonly=not obj.flags.writeable,
        address=obj.__array_interface__["data"][0],
    )


def _torch(obj: Any) -> dict[str, Any]:
    found = _common(obj, tuple(obj.stride()), address=obj.data_ptr() if obj.is_cpu else None)
    if obj.requires_grad:
        found["refuses"] = ("it requires grad", "detach=True")
    elif obj.is_conj() or obj.is_neg():
        found["refuses"] = ("it has the conjugate or the negative bit: x.resolve_conj(), ...", "")
    return found


def _paddle(obj: Any) -> dict[str, Any]:
    return _common(obj, tuple(obj.strides))


def _dense(obj: Any) -> dict[str, Any]:
    return _common(obj, row_major(tuple(map(int, obj.shape))))


def _jax(obj: Any) -> dict[str, Any]:
    # Arrays of more dimensions may have another layout, which only an export tells.
    return _common(obj, row_major(obj.shape) if len(obj.shape) < 2 else None, readonly=True)


def _in_bytes(obj: Any) -> dict[str, Any]:
    size = TRIPLES[dtype_name(obj.dtype) or ""][1] // 8
    return _common(obj, _in_elements(obj.strides, size))


def _arrow_tensor(obj: Any) -> dict[str, Any]:
    size = obj.type.bit_width // 8
    return {
        "dtype": dtype_name(obj.type),
        "shape": tuple(obj.shape),
        "strides": _in_elements(obj.strides, size),
        "readonly": not obj.is_mutable,
    }


def _arrow_array(obj: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"dtype": dtype_name(obj.type), "shape": (len(obj),), "strides": (1,)}
    if obj.null_count:
        found["refuses"] = ("it has missing values: x.fill_null(...)", "")
    elif found["dtype"] == "bool":
        found["refuses"] = ("Arrow packs booleans into bits: x.cast('uint8')", "")
    return found | {"readonly": True}


_LOOKS = {
    "numpy": _numpy,
    "numpy.ma": _numpy,
    "torch": _torch,
    "paddle": _paddle,
    "tensorflow": _dense,
    "jax": _jax,
    "warp": _in_bytes,
    "cupy": _in_bytes,
    "pyarrow.Tensor": _arrow_tensor,
    "pyarrow.Array": _arrow_array,
}


# ---- functions that take arrays -----------------------------------------------------------------

LEGACY, VERSIONED, LEGACY_FIRST = "0.x", "1.x", "0.x, then 1.x"
SHARES, COPIES, COPIES_UNALIGNED = "shares", "copies", "copies below 64-byte alignment"
HONOURS, IGNORES, ALWAYS_READONLY = "honours", "ignores", "always read-only"

#: What NumPy has by itself.
PLAIN = frozenset(n for n in ALL if n[:6] not in ("bfloat", "float8"))
_BOOL, _BF16 = frozenset({"bool"}), frozenset({"bfloat16"})
_WIDE = frozenset({"uint16", "uint32", "uint64"})
_REAL = PLAIN - {"complex64", "complex128"}
_ARROW = _REAL - _BOOL


@dataclass(frozen=True)
class Limit:
    """Something that a consumer cannot hold."""

    reason: str
    #: Which arrays meet it; None: those of a dtype that the consumer's row does not have.
    meets: Callable[[Array], bool] | None = None
    #: The options of ``upgrade`` that cure it, as text.
    cure: str = ""
    #: It is not refused but arrives as something else: the consumer's own doing.
    changes: bool = False
    #: What some releases raise instead.
    raises: tuple[str, ...] = ()


def jax_has_64_bits() -> bool:
    """Whether JAX, where it is imported, keeps elements of 64 bits; they are halved otherwise."""
    config = getattr(sys.modules.get("jax"), "config", None)
    told = getattr(config, "jax_enable_x64", os.environ.get("JAX_ENABLE_X64", ""))
    return str(told).lower() in ("1", "true", "yes", "on", "t", "y")


def _jax_narrows(a: Array) -> bool:
    return a.dtype in ("float64", "int64", "uint64", "complex128") and not jax_has_64_bits()


def _no_ml_dtypes(a: Array) -> bool:
    return a.dtype not in PLAIN and not hasattr(sys.modules.get("ml_dtypes"), a.dtype)


def _strided(a: Array) -> bool:
    return not a.contiguous


_C = 'order="C"'
LIMITS = {
    "dtype": Limit("it does not take this dtype through DLPack"),
    "ml_dtypes": Limit("it takes this dtype only where ml_dtypes is imported", _no_ml_dtypes),
    "strides": Limit("it takes C-contiguous data only", _strided, _C),
    "ignores strides": Limit("it ignores strides", _strided, _C, changes=True),
    "dense": Limit("it takes data without gaps only", lambda a: not a.dense, _C),
    "negative": Limit("it takes no negative strides", lambda a: a.negative, _C),
    "one": Limit("it takes exactly one dimension", lambda a: len(a.shape) != 1),
    "at most one": Limit("it takes at most one dimension", lambda a: len(a.shape) > 1),
    "scalar": Limit("it takes no array without dimensions", lambda a: a.shape == ()),
    "takes scalar": Limit(
        "it takes a scalar for an empty buffer",
        lambda a: a.shape == (),
        changes=True,
        raises=("NotImplementedError",),
    ),
    "jax narrows": Limit(
        "it makes 64 bits 32, unless jax_enable_x64 is set", _jax_narrows, changes=True
    ),
    "mlx narrows": Limit(
        "it makes float64 float32, and complex128 complex64",
        lambda a: a.dtype in ("float64", "complex128"),
        changes=True,
    ),
    "uint16": Limit("it takes uint16 for bfloat16", lambda a: a.dtype == "uint16", changes=True),
}

ANY = ("TypeError", "ValueError", "RuntimeError", "BufferError", "NotImplementedError")


@dataclass(frozen=True)
class Known:
    """A function that takes arrays, in the releases from `since` on and before `until`."""

    name: str
    library: str
    since: Version = ()
    until: Version = ()
    wants: str = "object"
    asks: str = VERSIONED
    keywords: tuple[str, ...] = ()
    retries: bool = True
    reads_table: bool = False
    bears_negative: bool = True
    negative: str = "dies"
    never_writes: bool = False
    #: It does not heed READ_ONLY, and dlshim warns (HEEDS_NOT of libraries.def).
    warned: bool = False
    memory: str = SHARES
    buffer_first: bool = False
    bare_buffer: bool = False
    converts: bool = False
    takes_own: bool = False
    buffer_next: bool = False
    takes_buffers: bool = False
    takes_capsules: bool = False
    literal: bool = False
    flag: str = IGNORES
    versioned_only: bool = False
    wants_writable: bool = False
    dtypes: frozenset[str] = ALL
    limits: tuple[str, ...] = ()
    raises: tuple[str, ...] = ANY
    no_way: tuple[str, ...] = ("AttributeError", "TypeError")
    passes_on: str = "BufferError"
    devices: tuple[int, ...] = ()
    stream: str = "its current stream"

    def limit(self, array: Array) -> str | None:
        """Return the name of the first limit that the array meets; None: it can be held."""
        for name in self.limits:
            meets = LIMITS[name].meets
            if meets(array) if meets else array.dtype not in self.dtypes:
                return name
        return None


def _spans(until: Version, first: Known, *changes: tuple[Version, dict[str, Any]]) -> list[Known]:
    """Return a row for each span of releases: the first, and what changes from a release on."""
    rows = [first]
    for since, change in changes:
        rows.append(replace(rows[-1], since=since, **change))
    ends = [*(row.since for row in rows[1:]), until]
    return [replace(row, until=end) for row, end in zip(rows, ends, strict=True)]


def _also(name: str, rows: list[Known], **changes: Any) -> list[Known]:
    """Return the rows of another function of the same library."""
    return [replace(row, name=name, **changes) for row in rows]


_NOW_VERSIONED: dict[str, Any] = {"asks": VERSIONED, "keywords": ("max_version",)}
_NUMPY = _spans(
    (2, 6),
    Known(
        "numpy.from_dlpack",
        "numpy",
        (1, 22),
        asks=LEGACY,
        flag=ALWAYS_READONLY,
        dtypes=PLAIN - _BOOL,
        limits=("dtype",),
        raises=("RuntimeError", "BufferError"),
        no_way=("AttributeError",),
    ),
    ((1, 25), {"dtypes": PLAIN}),
    ((2, 1), {"asks": VERSIONED, "keywords": ("dl_device", "copy", "max_version")}),
    ((2, 2, 5), {"flag": HONOURS}),
)
_TORCH = _spans(
    (2, 16),
    Known(
        "torch.from_dlpack",
        "torch",
        (1, 13),
        asks=LEGACY,
        bears_negative=False,
        dtypes=PLAIN - _WIDE - _BOOL | _BF16,
        limits=("dtype",),
        raises=("RuntimeError", "BufferError", "ValueError"),
        takes_capsules=True,
        no_way=("TypeError", "RuntimeError", "AttributeError", "ValueError"),
        devices=(2, 3, 10, 12, 13, 14),
    ),
    ((2, 0), {"dtypes": PLAIN - _WIDE | _BF16}),
    ((2, 3), {"dtypes": PLAIN | _BF16}),
    ((2, 9), {**_NOW_VERSIONED, "warned": True}),
    ((2, 10), {"dtypes": ALL - {"float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz"}}),
    ((2, 14), {"negative": ""}),
)
_JAX = _spans(
    (0, 11),
    Known(
        "jax.numpy.from_dlpack",
        "jax",
        (0, 4, 16),
        asks=LEGACY,
        keywords=("stream",),
        retries=False,
        never_writes=True,
        dtypes=PLAIN - _BOOL | _BF16,
        limits=("dtype", "dense", "jax narrows"),
        raises=("JaxRuntimeError", "XlaRuntimeError", *ANY),
        devices=(2, 10),
        stream="a stream of XLA's",
    ),
    ((0, 4, 24), {"dtypes": PLAIN | _BF16}),
    ((0, 4, 27), {"memory": COPIES_UNALIGNED}),
    ((0, 6), {"dtypes": ALL}),
)
_JAX += _spans(
    (0, 13),
    replace(_JAX[-1], since=(0, 12), asks=VERSIONED, keywords=("stream", "max_version")),
)
_PADDLE = _spans(
    (3, 4),
    Known(
        "paddle.from_dlpack",
        "paddle",
        (2, 6),
        wants="capsule",
        asks=LEGACY,
        memory=COPIES,
        bears_negative=False,
        negative="",
        dtypes=PLAIN - _WIDE - _BOOL | _BF16,
        limits=("dtype", "ignores strides"),
        devices=(2,),
    ),
    (
        (3, 0),
        {
            "wants": "object",
            "takes_capsules": True,
            "no_way": ("ValueError", "TypeError"),
            "memory": SHARES,
            "dtypes": PLAIN | _BF16 | {"float8_e4m3fn", "float8_e5m2"},
            "limits": ("dtype", "uint16"),
        },
    ),
    ((3, 3), {**_NOW_VERSIONED, "warned": True}),
)
_NANOBIND = _spans(
    (2, 10),
    Known(
        "nanobind, writable parameter",
        "",
        (2, 2),
        asks=LEGACY,
        takes_buffers=True,
        takes_capsules=True,
        passes_on="TypeError",
        no_way=("TypeError",),
    ),
)
_NANOBIND += _spans(
    (3, 2), replace(_NANOBIND[0], since=(3, 1), wants_writable=True, **_NOW_VERSIONED)
)
_ARROW_TENSOR = _spans(
    (27,),
    Known(
        "pyarrow.Tensor.from_dlpack",
        "pyarrow",
        (26,),
        keywords=("max_version", "dl_device", "copy"),
        retries=False,
        flag=HONOURS,
        versioned_only=True,
        dtypes=_ARROW,
        limits=("dtype", "negative"),
        raises=("ArrowInvalid", "ArrowTypeError", "ArrowNotImplementedError"),
    ),
)
_TENSORFLOW = _spans(
    (2, 22),
    Known(
        "tensorflow.experimental.dlpack.from_dlpack",
        "tensorflow",
        (2, 12),
        wants="capsule",
        asks=LEGACY,
        bears_negative=False,
        dtypes=PLAIN - _BOOL | _BF16,
        limits=("dtype", "strides"),
        raises=("InvalidArgumentError", "RuntimeError"),
    ),
    ((2, 13), {"dtypes": PLAIN | _BF16}),
)
_WARP = _spans(
    (1, 20),
    Known(
        "warp.from_dlpack",
        "warp",
        (1, 9),
        asks=LEGACY,
        keywords=("stream",),
        retries=False,
        dtypes=_ARROW,
        limits=("scalar", "dtype"),
        raises=("IndexError", "RuntimeError", "TypeError"),
        takes_capsules=True,
        devices=(2, 3, 13),
    ),
    ((1, 13), {"dtypes": _ARROW | _BF16}),
    ((1, 16), {"dtypes": _REAL | _BF16}),
)
_TVM_FFI = _spans(
    (0, 1, 16),
    Known("tvm_ffi.from_dlpack", "tvm_ffi", (0, 1, 2), asks=LEGACY, takes_capsules=True),
    ((0, 1, 15), {"reads_table": True}),
)
_MLX = _spans(
    (0, 33),
    Known(
        "mlx.core.from_dlpack",
        "mlx",
        (0, 32),
        asks=LEGACY_FIRST,
        takes_buffers=True,
        takes_capsules=True,
        memory=COPIES,
        dtypes=PLAIN | _BF16,
        limits=("dtype", "negative", "mlx narrows"),
        raises=("ValueError", "TypeError"),
    ),
)
_ONNXRUNTIME = _spans(
    (1, 33),
    Known(
        "onnxruntime.OrtValue.from_dlpack",
        "onnxruntime",
        (1, 31),
        asks=LEGACY,
        dtypes=_ARROW | _BF16,
        takes_capsules=True,
        limits=("dtype", "strides"),
        raises=("RuntimeError", "ValueError"),
    ),
)
_NANOARROW = _spans(
    (0, 10),
    Known(
        "nanoarrow.c_buffer",
        "nanoarrow",
        (0, 6),
        asks=LEGACY,
        keywords=("stream",),
        retries=False,
        buffer_first=True,
        literal=True,
        dtypes=_ARROW,
        limits=("strides", "at most one", "dtype", "takes scalar"),
        raises=("NotImplementedError", "ValueError"),
    ),
)
_CUPY = [Known("cupy.from_dlpack", "cupy", devices=(2, 3, 10, 13))]

#: The name of a library stands for its first function.
CONSUMERS: list[Known] = [
    *_NUMPY,
    *_spans(
        (2, 6),
        replace(
            _NUMPY[1],
            name="numpy.asarray",
            since=(1, 22),
            wants="buffer",
            takes_own=True,
            flag=HONOURS,
            dtypes=ALL,
            limits=("ml_dtypes",),
            raises=("TypeError",),
        ),
    ),
    *_TORCH,
    *_also("torch.asarray", _TORCH[1:], buffer_first=True, bare_buffer=True, takes_own=True),
    *_also("torch.as_tensor", _TORCH[1:], buffer_first=True, takes_own=True, takes_capsules=False),
    *_JAX,
    *_also(
        "jax.numpy.asarray",
        _JAX[3:],
        wants="buffer",
        takes_own=True,
        memory="",
        limits=("jax narrows",),
    ),
    *_PADDLE,
    *_also("paddle.utils.dlpack.from_dlpack", _PADDLE),
    *_TENSORFLOW,
    *_WARP,
    *_TVM_FFI,
    *_also("pyarrow.Array.from_dlpack", _ARROW_TENSOR, limits=("dtype", "one", "strides")),
    *_ARROW_TENSOR,
    *_also("mlx.core.array", _MLX, converts=True),
    *_MLX,
    *_CUPY,
    *_also("cupy.asarray", _CUPY, wants="buffer", takes_own=True),
    *_ONNXRUNTIME,
    *_NANOARROW,
    *_NANOBIND,
    *_also("nanobind, read-only parameter", _NANOBIND[:1], buffer_next=True),
    *_also(
        "nanobind, read-only parameter",
        _NANOBIND[1:],
        asks=LEGACY_FIRST,
        keywords=(),
        wants_writable=False,
    ),
]


def rows_of(name: str) -> list[Known]:
    """Return the rows of a function, the oldest releases first."""
    return [row for row in CONSUMERS if row.name == name]


def row_of(name: str, version: Version) -> tuple[Known, bool]:
    """Return the row nearest to a release, and whether it speaks of this release."""
    return nearest(rows_of(name), version)


def nearest(rows: list[Any], version: Version) -> tuple[Any, bool]:
    """Return the row nearest to a release, and whether it speaks of this release."""
    row = next((row for row in reversed(rows) if row.since <= version), rows[0])
    return row, row.since <= version < row.until


@dataclass(frozen=True)
class Source:
    """How objects answer ``__dlpack__``, from `since` on and before `until`."""

    #: The row's name in ``inspect``'s report.
    name: str
    library: str
    since: Version = ()
    until: Version = ()
    #: Keywords that give no TypeError.
    takes: frozenset[str] = frozenset({"stream", "max_version", "dl_device", "copy"})
    #: They give DLPack 1.x where it is asked for.
    versioned: bool = True
    immutable: bool = False
    #: They say READ_ONLY in DLPack 1.x.
    states: bool = False
    #: What they raise for read-only memory in DLPack 0.x; "": they give it.
    refuses_readonly: str = ""
    #: What they call booleans in DLPack 0.x.
    legacy_bool: str = "bool"
    #: Their own capsules keep the memory alive, and every consumer reads them rightly.
    sound: bool = True
    #: Libraries that do not understand what its ``__dlpack_device__`` gives.
    refused_by: tuple[str, ...] = ()
    dtypes: frozenset[str] = ALL


def _old(name: str, library: str, since: Version, until: Version, **more: Any) -> Source:
    """The row of objects that take stream= alone, and give DLPack 0.x."""
    return Source(name, library, since, until, frozenset({"stream"}), versioned=False, **more)


_NUMPY_SAYS: dict[str, Any] = {"states": True, "refuses_readonly": "BufferError", "dtypes": PLAIN}
SOURCES = [
    _old(
        "numpy",
        "numpy",
        (1, 22),
        (1, 24),
        **_NUMPY_SAYS | {"refuses_readonly": "TypeError", "dtypes": PLAIN - _BOOL},
    ),
    _old("numpy", "numpy", (1, 24), (2, 1), **_NUMPY_SAYS),
    Source("numpy", "numpy", (2, 1), (2, 6), **_NUMPY_SAYS),
    Source("numpy scalar", "numpy", until=(99,), immutable=True),
    Source("drjit", "", until=(99,), immutable=True),
    _old("torch", "torch", (1, 13), (2, 9)),
    Source("torch", "torch", (2, 9), (2, 16)),
    _old("jax", "jax", (0, 4, 26), (0, 4, 27), immutable=True),
    Source("jax", "jax", (0, 4, 27), (0, 11), versioned=False, immutable=True),
    Source("jax", "jax", (0, 12), (0, 13), immutable=True, states=True),
    Source("tensorflow", "tensorflow", (2, 12), (2, 22), versioned=False, immutable=True),
    _old("pyarrow.Array", "pyarrow", (15,), (26,), immutable=True),
    Source("pyarrow.Array", "pyarrow", (26,), (27,), immutable=True, states=True),
    Source(
        "pyarrow.Tensor",
        "pyarrow",
        (26,),
        (27,),
        states=True,
        refuses_readonly="ArrowNotImplementedError",
    ),
    _old("warp", "warp", (1, 9), (1, 20)),
    Source("tvm-ffi", "tvm_ffi", (0, 1, 15), (0, 1, 16)),
    _old("paddle", "paddle", (3,), (3, 3), refused_by=("jax",)),
    Source("paddle", "paddle", (3, 3), (3, 4), refused_by=("jax",)),
    Source("mlx", "mlx", (0, 14), (0, 32), frozenset(), versioned=False, sound=False),
    Source("mlx", "mlx", (0, 32), (0, 33), versioned=False, sound=False),
    _old("onnxruntime", "onnxruntime", (1, 31), (1, 33), legacy_bool="uint8", sound=False),
    _old("nanoarrow", "nanoarrow", (0, 6), (0, 10)),
]


def source_of(name: str | None, version: Version) -> tuple[Source | None, bool]:
    """Return the row of a library's objects nearest to a release, and whether it speaks of it."""
    rows = [row for row in SOURCES if row.name == name]
    return nearest(rows, version) if rows else (None, False)


# ---- faults -------------------------------------------------------------------------------------

# Library, first release, first one without (- is none), harm | what | with dlshim
# Beside it stands its source: a public issue, or the id of a case of tests/replays/replays.toml.
# fmt: off
_FAULTS = (
    "numpy 1.22 1.24 kills | its deleters need the GIL | cured",  # numpy/numpy#22507
    "numpy 1.22 2.2.5 refuses | whatever it takes is read-only | none",  # numpy/numpy#28599
    'torch 1.10 2.14 kills | negative strides | refused, or order="C"',  # pytorch/pytorch#188023
    "torch 1.0 2.10 wrong | ignores byte offsets | cured",  # pytorch/pytorch#168177
    'torch 2.9 - wrong | writes to read-only memory | warned; readonly="copy"',  # M12
    "torch 1.10 - wrong | exports the negative bit without the sign | refused",  # M7
    "torch 1.10 2.3 leaks | arrays without elements | cured",  # pytorch/pytorch#117058
    "torch 1.10 - leaks | the tensor of an export that fails | none",  # pytorch/pytorch#171820
    'jax 0.1 - wrong | calls immutable arrays writable | marked; readonly="copy"',  # M13
    "tensorflow 2.2 - kills | exports of text and resources | refused",  # libraries.def
    'tensorflow 2.2 - wrong | calls immutable arrays writable | marked; readonly="copy"',  # M13
    "tensorflow 2.2 - wrong | exports scalars with shape (1,) | cured",  # M17
    'pyarrow 15 26 wrong | calls immutable arrays writable | marked; readonly="copy"',  # M13
    "pyarrow 26 - wrong | copy=True of a strided Tensor | cured",  # M8
    'paddle 3 - refuses | negative strides, when read | refused, or order="C"',  # M19
    "onnxruntime 1.26 - wrong | its capsules do not keep their memory alive | cured",  # M1
    "onnxruntime 1.26 - wrong | ignores byte offsets | cured",  # M6
    "warp 0.2 - wrong | ignores byte offsets | cured",  # NVIDIA/warp#1573
    "nanoarrow 0.5 - wrong | reads past the end of 2-D data | refused",  # M10
    "tvm_ffi 0.1 - wrong | copy=True without max_version does not copy | cured",  # M15
    "cupy 14 - refuses | toDlpack() gives 1.x, which most refuse | cured",  # cupy/cupy#9011
    "cupy 10 - refuses | copy=True on the device | none",  # cupy/cupy#9842
    "cuda.core 0.1 1.2 wrong | ignores byte offsets | cured",  # NVIDIA/cuda-python#2592
    "cuda.core 0.1 - wrong | exports read-only memory as writable | refused",  # M14
    "mpi4py 4 - refuses | what answers 0.x to max_version (JAX) | cured",  # NVIDIA/DALI#6307
    "array_api_strict 1 2.2 refuses | max_version, not by a TypeError | cured",  # case 5
)
# fmt: on
FAULTS = [[*where.split(), *told] for where, *told in (row.split(" | ") for row in _FAULTS)]


def faults(library: str, version: Version) -> list[list[str]]:
    """Harm, what, and what dlshim does, of each fault of a release."""
    return [
        told
        for name, since, below, *told in FAULTS
        if name == library
        and version >= version_tuple(since)
        and (below == "-" or version < version_tuple(below))
    ]


# ---- streams ------------------------------------------------------------------------------------


def cells(device: str) -> dict[str, dict[str, str]]:
    """producer -> value of ``stream`` -> what happens, for one family of devices."""
    table: dict[str, dict[str, str]] = {}
    for row in _sync_rules():
        if row["device"] == device:
            refused = row["task"].endswith("Error")
            task = "" if row["task"] == "-" else row["task"]
            cell = task if refused else " -> ".join(filter(None, (row["passed"], task)))
            table.setdefault(row["producer"], {})[row["stream"]] = cell
    return table


def families() -> list[str]:
    """The families of devices that share rules, in the table's order."""
    return list(dict.fromkeys(row["device"] for row in _sync_rules()))


# ---- what an object offers ----------------------------------------------------------------------

_DLPACK = ("dltensor", "dltensor_versioned")
_HOST_DEVICES = (1, 3, 11)
_GPU_DEVICES = (2, 10)
# Where an address plus an offset in bytes is an address (rule T5).
_ADDRESS_DEVICES = (1, 2, 3, 10, 11, 13, 14)
_KEYWORDS = ("stream", "max_version", "dl_device", "copy")
FAILED = "the export failed: "
_ALIGNMENTS = 4096  # a page: more is not looked for

_CAPSULE = type(Producer.__dlpack_c_exchange_api__)

# Attribute, what it is, and since when that spelling exists.
_PROTOCOLS = (
    ("__dlpack_c_exchange_api__", "DLPack C exchange API", "DLPack 1.3"),
    ("__c_dlpack_exchange_api__", "DLPack C exchange API", "DLPack 1.2"),
    ("__dlpack__", "DLPack", ""),
    ("__cuda_array_interface__", "CUDA array interface", ""),
    ("__sycl_usm_array_interface__", "SYCL USM array interface", ""),
    ("__array_struct__", "array struct", ""),
    ("__array_interface__", "array interface", ""),
)


@dataclass(frozen=True)
class Protocol:
    """A way in that an object offers."""

    name: str
    spelling: str
    #: What can be told without asking: empty when nothing can.
    generation: str = ""

    def __str__(self) -> str:
        return f"{self.spelling} ({self.generation})" if self.generation else self.spelling


@dataclass(frozen=True)
class Outcome:
    """What comes of handing an object to a consumer; None where it cannot be told."""

    #: "works", "refused", "wrong" (it arrives as something else), "dies" or "unknown".
    result: str
    copied: bool | None = None
    #: Whether the consumer takes the memory for writable; None: it does not say.
    writable: bool | None = None
    #: Who refuses it.
    by: str = ""
    #: The error is one of these.
    raises: tuple[str, ...] = ()
    why: str = ""
    #: The options of ``upgrade`` that cure it, as text.
    cure: str = ""

    def __str__(self) -> str:
        error = " or ".join(self.raises if len(self.raises) < 4 else ["an error"])
        if self.result == "refused":
            return f"refused by {self.by}: {error}"
        if self.result == "wrong":
            return f"arrives as something else{f', or {error}' if error else ', without an error'}"
        if self.result != "works":
            return "ends the process" if self.result == "dies" else self.result
        copied = {True: ", copied", False: ", zero copy", None: ""}[self.copied]
        return (
            "works" + copied + {True: ", writable", False: ", read-only", None: ""}[self.writable]
        )


@dataclass(frozen=True)
class Verdict:
    """What one function makes of the object, as it is and upgraded."""

    #: The function.
    consumer: str
    #: Of its library; None: not installed.
    version: str | None
    bare: Outcome
    upgraded: Outcome
    #: What else will happen, in sentences: marks that are lost, streams.
    what: str = ""
    #: Why it does not work as it is, or why nothing can be said.
    why: str = ""
    #: The call that works where the bare one does not; empty: there is none, or none is needed.
    cure: str = ""

    def __str__(self) -> str:
        told = {
            name: str(getattr(self, name)) for name in ("bare", "upgraded", "what", "why", "cure")
        }
        lines = [f"    {name:<12}{value}" for name, value in told.items() if value]
        return "\n".join([f"{self.consumer} {self.version or '(not installed)'}", *lines])


@dataclass(frozen=True)
class Report:
    """What is known of an object; None where only an export could tell."""

    type_name: str
    protocols: tuple[Protocol, ...]
    #: Protocols, in the order in which ``upgrade`` tries them.
    plan: tuple[str, ...]
    #: What earlier exchanges of this type have taught, as text.
    learned: tuple[str, ...] = ()
    #: Row of the library table that the type matches.
    library: str | None = None
    capsule_name: str | None = None
    #: "unconsumed", "consumed" or "foreign", for capsules only.
    capsule_state: str | None = None
    device: tuple[int, int] | None = None
    dtype: arrays.dtype | None = None
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    byte_offset: int | None = None
    address: int | None = None
    flags: int | None = None
    version: tuple[int, int] | None = None
    readonly: bool | None = None
    contiguous: bool | None = None
    #: Largest power of two (up to a page) that the first element's address is a multiple of.
    aligned_to: int | None = None
    notes: tuple[str, ...] = ()
    #: What the consumer that was asked about will do with it, one for each of its functions.
    verdicts: tuple[Verdict, ...] = ()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"

    def __str__(self) -> str:
        lines = [f"dlshim report on {self.type_name}"]
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("type_name", "notes", "verdicts") or value is None or value == ():
                continue
            label = field.name.replace("_", " ")
            lines.append(f"  {label:<14}{_TEXTS.get(field.name, str)(value)}")
        lines += [f"  note          {note}" for note in self.notes]
        lines += [f"  to {verdict}" for verdict in self.verdicts]
        return "\n".join(lines)


def _device_text(device: tuple[int, int]) -> str:
    from .enums import DLDeviceType

    try:
        name = DLDeviceType(device[0]).name
    except ValueError:
        name = "a device type that this dlshim does not know"
    return f"{device} {name}"


def _flags_text(flags: int) -> str:
    names = [
        name
        for bit, name in enumerate(("READ_ONLY", "IS_COPIED", "SUBBYTE_TYPE_PADDED"))
        if flags >> bit & 1
    ]
    return f"{flags} ({' | '.join(names)})" if names else str(flags)


def _listed(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


#: How fields of a report are shown; the others by str().
_TEXTS: dict[str, Callable[[Any], str]] = {
    "device": _device_text,
    "address": hex,
    "flags": _flags_text,
    "version": lambda value: ".".join(map(str, value)),
    "aligned_to": "{} bytes".format,
    "protocols": _listed,
    "learned": _listed,
    "plan": " → ".join,
}


def inspect(obj: Any, *, export: bool = False, consumer: Any = None) -> Report:
    """Report what ``obj`` offers and what ``upgrade(obj)`` would do with it.

    Nothing is consumed, imported or synchronised.  With ``export=True`` one export is
    asked for with stream -1, looked at and dropped, so that dtype, shape and the like
    are known.

    ``consumer`` names a library, a function (``"torch"``, ``"torch.asarray"``), or is the module or
    the function itself: the report's ``verdicts`` then say what it will do with the object.
    """
    report = _report(obj, export)
    if consumer is None:
        return report
    return replace(report, verdicts=verdicts(obj, report, consumer))


def _report(obj: Any, export: bool) -> Report:
    if type(obj) is _CAPSULE:
        return _of_capsule(obj)
    if isinstance(obj, Producer):
        return _of_producer(obj, export=export)
    return _of_tensor(obj) if isinstance(obj, Tensor) else _of_object(obj, export=export)


def _type_name(obj: Any) -> str:
    cls = type(obj)
    return f"{cls.__module__}.{cls.__qualname__}"


def _of_capsule(capsule: Any) -> Report:
    name = _peek(capsule)["name"]
    facts: dict[str, Any] = {
        "type_name": "PyCapsule",
        "protocols": (),
        "plan": (),
        "capsule_name": name,
    }
    if name in _DLPACK:
        facts["plan"] = ("raw capsule",)
        return Report(**facts, capsule_state="unconsumed", **_facts_of_export(capsule))
    if name in tuple(f"used_{known}" for known in _DLPACK):
        note = "it was consumed: ask its maker for a new one, or upgrade() it before the first use"
        return Report(**facts, capsule_state="consumed", notes=(note,))
    note = f"not a DLPack capsule: those are called {' or '.join(map(repr, _DLPACK))}"
    return Report(**facts, capsule_state="foreign", notes=(note,))


def _of_tensor(tensor: Tensor) -> Report:
    shape, strides = tensor.shape, tensor.strides
    address = tensor.data_ptr() if tensor.device[0] in _HOST_DEVICES else None
    padded = tensor.dtype.bits < 8 and tensor.nbytes == tensor.size
    return Report(
        type_name=_type_name(tensor),
        protocols=(Protocol("DLPack", "__dlpack__", "1.x or 0.x, as asked"),),
        plan=("kept tensor",),
        device=tensor.device,
        dtype=tensor.dtype,
        shape=shape,
        strides=strides,
        byte_offset=tensor.byte_offset,
        address=tensor.data_ptr(),
        flags=tensor.readonly | tensor.is_copied << 1 | padded << 2,
        version=tensor.version,
        readonly=tensor.readonly,
        contiguous=Array("", shape, strides).contiguous,
        aligned_to=_alignment(address),
    )


def _of_producer(producer: Producer, *, export: bool) -> Report:
    source = producer.source
    # A Tensor: a raw capsule was taken, or a Tensor wrapped.
    kept = isinstance(source, Tensor)
    report = _of_tensor(source) if kept else _of_object(source, export=False)
    notes = (*report.notes, repr(producer))
    facts: dict[str, Any] = {"notes": notes}
    if not kept and _options(producer):  # options change what consumers get
        facts |= dict.fromkeys(("dtype", "shape", "strides", "readonly", "contiguous"))
        facts["aligned_to"] = None
    if export:
        facts.update(_exported(producer, notes))
    known = {field.name: getattr(report, field.name) for field in fields(report)}
    return Report(**{**known, "type_name": f"upgraded {report.type_name}", **facts})


def _of_object(obj: Any, *, export: bool) -> Report:
    notes: tuple[str, ...] = ()
    facts: dict[str, Any] = {}
    try:
        plan = _plan(obj)
    except UnsupportedObjectError as error:
        return Report(_type_name(obj), (), (), notes=(str(error),))
    protocols = _protocols(obj)
    if "buffer protocol" in plan["offers"]:
        protocols += (Protocol("buffer protocol", "buffer protocol"),)
    if _static(obj, "__dlpack_device__") is not None:
        try:
            kind, number = obj.__dlpack_device__()
            facts["device"] = (int(kind), int(number))
        except Exception as error:
            notes += (f"__dlpack_device__() gives no two ints: {_told(error)}",)
    facts |= _shown(visible(obj, plan["library"], tuple(plan["offers"])))
    facts["notes"] = notes
    if export:
        label = facts.get("device")
        facts.update(_exported(obj, notes))
        if label is not None and label[0] in _GPU_DEVICES and label != facts["device"]:
            note = f"its __dlpack_device__() says {label}, its memory is on {facts['device']}"
            facts["notes"] = (*facts["notes"], note)
    return Report(
        type_name=_type_name(obj),
        protocols=protocols,
        plan=tuple(plan["offers"]),
        learned=_learned(plan),
        library=plan["library"],
        **facts,
    )


def _shown(seen: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a Report that can be seen without an export."""
    shape, strides = seen.get("shape"), seen.get("strides")
    known: dict[str, Any] = {
        name: seen[name] for name in ("shape", "strides", "readonly") if name in seen
    }
    if "dtype" in seen:
        known["dtype"] = arrays.dtype(TRIPLES[seen["dtype"]])
    if shape is not None and strides is not None:
        known["contiguous"] = Array("", shape, strides).contiguous
    return {**known, "aligned_to": _alignment(seen.get("address"))}


def _learned(plan: dict[str, Any]) -> tuple[str, ...]:
    ways = []
    for generation in ("legacy", "versioned"):
        way = plan[generation]
        if way is None:
            continue
        names = [name for bit, name in enumerate(_KEYWORDS) if way["keywords"] >> bit & 1]
        call = f"({', '.join(names)})" if way["protocol"] == "__dlpack__" else ""
        ways.append(f"{generation} by {way['protocol']}{call}")
    return tuple(ways)


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _static(obj: Any, name: str) -> Any:
    """Look an attribute up without running properties; None when it is not there."""
    return _inspect.getattr_static(obj, name, None)


def _protocols(obj: Any) -> tuple[Protocol, ...]:
    found = []
    for spelling, name, generation in _PROTOCOLS:
        attribute = _static(obj, spelling)
        if attribute is None:
            continue
        if spelling == "__dlpack__":
            generation = _generation(attribute)
        found.append(Protocol(name, spelling, generation))
    return tuple(found)


def _generation(method: Any) -> str:
    """Tell from a signature which edition of the protocol a ``__dlpack__`` follows."""
    try:
        names = _inspect.signature(method).parameters
    except (TypeError, ValueError):
        return ""
    kinds = {parameter.kind for parameter in names.values()}
    if "max_version" in names:
        return "takes max_version"
    if _inspect.Parameter.VAR_KEYWORD in kinds:
        return "takes any keyword"
    return "takes stream only" if "stream" in names else "takes no keyword"


def _exported(obj: Any, notes: tuple[str, ...]) -> dict[str, Any]:
    try:
        capsule = _capsule_of(obj)
    except Exception as error:
        return {"notes": (*notes, f"{FAILED}{_told(error)}")}
    facts = {"capsule_name": _peek(capsule)["name"], **_facts_of_export(capsule)}
    return {**facts, "notes": (*notes, *facts.get("notes", ()))}


def _capsule_of(obj: Any) -> Any:
    """Export, with every stride unless a Producer has an order: the layout is told, not refused."""
    given = _options(obj) if isinstance(obj, Producer) else {}
    return to_capsule(obj, max_version=(1, 0), stream=-1, order=given.get("order", "K"))


def _facts_of_export(capsule: Any) -> dict[str, Any]:
    """Return the fields of a Report that an unconsumed capsule tells."""
    seen = _peek(capsule)
    versioned = seen["name"] == _DLPACK[1]
    if "shape" not in seen:  # of another major version nothing else may be read
        note = "of a major version that this dlshim does not know: nothing else can be read"
        return {"version": seen["version"], "notes": (note,)}
    if not seen["ndim"]:  # the pointers may be NULL then
        seen |= {"shape": (), "strides": ()}
    shape, strides, device = seen["shape"], seen["strides"], seen["device"]
    facts = {name: seen[name] for name in ("device", "dtype", "shape", "strides", "byte_offset")}
    first = seen["data"] + seen["byte_offset"]
    if said := _wrong_label(device, shape, first):
        facts["notes"] = (said,)
    return {
        **facts,
        "address": first if device[0] in _ADDRESS_DEVICES else seen["data"],
        "flags": seen["flags"] if versioned else None,
        "version": seen["version"] if versioned else None,
        "readonly": bool(seen["flags"] & 1) if versioned else None,
        "contiguous": None
        if shape is None
        else strides is None or Array("", shape, strides).contiguous,
        "aligned_to": _alignment(first if device[0] in _HOST_DEVICES else None),
    }


def _wrong_label(device: tuple[int, int], shape: tuple[int, ...] | None, address: int) -> str:
    """Tell where the driver, if one is in use, says that GPU memory lies elsewhere."""
    if device[0] not in _GPU_DEVICES or shape is None or 0 in shape:
        return ""
    found = _true_device(address, device)
    if found == device:
        return ""
    return f"it is labelled {device}, but the driver says {found}: pass assume_device={found}"


def _alignment(address: int | None) -> int | None:
    if not address:
        return None
    return min(address & -address, _ALIGNMENTS)


# ---- what a consumer will do --------------------------------------------------------------------

#: Kinds of producers in the table of stream rules, by the library's row; others are "modern".
_ASKED = {"torch": "modern, not 2", "jax": "modern, not -1", "tensorflow": "has waited"}
_ASKED |= dict.fromkeys(("tvm-ffi", "nanobind", "mlx", "cuda.core", "jax.ffi"), "ignores stream")
_FAMILIES = {2: "CUDA", 3: "CUDA host", 13: "CUDA managed", 10: "ROCm", 11: "ROCm host"}
_FAMILIES[14] = "oneAPI"

_LOOK = "dtype, shape or strides cannot be seen without export=True"
_ACCESS = "whether it is read-only cannot be seen without export=True"
_BY_BUFFER = "it converts objects in ways of its own, which are not in the table"
_BARE_BUFFER = "it asks the Tensor for a buffer without shape and format, which loses the dtype"
_LOST = "DLPack 0.x cannot say read-only (rule T8)"
_UNHEEDED = "it does not heed the read-only flag (rule T8)"
_WRITES = "the parameter must be writable"
_DEVICE = "read from the sources alone, not verified"


@dataclass(frozen=True)
class Facts:
    """What could be seen of an object, in the words of the tables."""

    library: str | None = None
    #: How its library answers, where that is known of this release.
    source: Source | None = None
    #: It never changes, whatever its capsules say.
    immutable: bool = False
    #: "object", "capsule", "upgraded" (a Producer) or "tensor" (a Tensor).
    kind: str = "object"
    has_dlpack: bool = True
    has_way: bool = True
    has_buffer: bool = False
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    readonly: bool | None = None
    aligned_to: int | None = None
    device: tuple[int, int] | None = None
    #: Why its library and dlshim refuse it, and the option that cures it.
    refuses: tuple[str, str] = ("", "")
    #: How the export that was asked for failed.
    fails: str = ""
    #: The option ``readonly`` of a Producer, None where it was not given.
    word: Any = None

    @property
    def array(self) -> Array | None:
        if self.dtype is None or self.shape is None or self.strides is None:
            return None
        return Array(self.dtype, self.shape, self.strides)

    @property
    def stated(self) -> bool | None:
        """Whether it says that it is read-only; None where that cannot be told."""
        source = self.source
        if self.immutable:
            return None if source is None else source.states
        silent = source is not None and not (source.states or source.refuses_readonly)
        if self.readonly is None and (self.kind == "capsule" or silent):
            return False
        return self.readonly


def facts_of(obj: Any, report: Report) -> Facts:
    """Return what a report and a look at the object tell."""
    ways = {protocol.spelling: protocol.generation for protocol in report.protocols}
    answers, immutable = _source(report.library, ways.get("__dlpack__", ""))
    kind = {"PyCapsule": "capsule", "dlshim.Tensor": "tensor"}.get(report.type_name, "object")
    options: dict[str, Any] = {}
    seen: dict[str, Any] = {}
    if isinstance(obj, Producer):
        kind, options, obj = "upgraded", _options(obj), obj.source
    if kind in ("object", "upgraded") and not isinstance(obj, Tensor):
        seen = visible(obj, report.library, report.plan)
    refuses = seen.get("refuses", ("", ""))
    if refuses[1] in [f"{name}={value!r}" for name, value in options.items()]:
        refuses = ("", "")  # the option that cures it was given
    strides = report.strides
    if strides is None and report.shape is not None and report.contiguous:
        strides = row_major(report.shape)
    return Facts(
        library=report.library,
        source=answers,
        immutable=immutable,
        kind=kind,
        has_dlpack="__dlpack__" in ways,
        has_way=bool(report.plan),
        has_buffer="buffer protocol" in ways,
        dtype=None if report.dtype is None else NAMES.get((*report.dtype,)),
        shape=report.shape,
        strides=strides,
        readonly=report.readonly,
        aligned_to=report.aligned_to,
        device=report.device,
        refuses=refuses,
        fails=next((note for note in report.notes if note.startswith(FAILED)), ""),
        word=options.get("readonly"),
    )


def _source(library: str | None, generation: str) -> tuple[Source | None, bool]:
    """Return how an object answers, and whether it never changes; None: not known."""
    takes = {"takes stream only": frozenset({"stream"}), "takes no keyword": frozenset[str]()}
    if library is None and generation in takes:
        return Source("its type", "", takes=takes[generation], versioned=False), False
    row, _ = source_of(library, ())
    if row is None:
        return None, False
    here, verified = source_of(library, version_tuple(version_of(row.library) or ""))
    return here if verified else None, row.immutable


def names() -> list[str]:
    """Return what a consumer may be called: libraries, and their functions."""
    functions = {row.name for row in CONSUMERS}
    return sorted(functions | {name.replace(",", ".").partition(".")[0] for name in functions})


def functions(name: str) -> list[str]:
    """Return the functions that a name means: that of this name, or a library's first ones."""
    found = [row.name for row in CONSUMERS if row.name.startswith((f"{name}.", f"{name},"))]
    alike = [each for each in found if _kind(each) == _kind(found[0])]
    return [name] if rows_of(name) else list(dict.fromkeys(alike))


def _kind(name: str) -> tuple[int, str]:
    """How deep a function lies, and its name: pyarrow has the same one in two classes."""
    return name.count("."), name.rpartition(".")[2] if "." in name else ""


def _called(consumer: Any) -> str:
    if isinstance(consumer, str):
        return consumer
    if isinstance(consumer, type(sys)):
        return consumer.__name__
    name = str(getattr(consumer, "__qualname__", None) or getattr(consumer, "__name__", ""))
    module = getattr(consumer, "__module__", None)
    owner = getattr(consumer, "__self__", None)
    if module is None and isinstance(owner, type):  # torch.asarray
        module = owner.__module__
    if type(consumer).__name__ == "nb_func" and module != "mlx.core":
        return "nanobind"
    return f"{module}.{name}"


def _functions(consumer: Any) -> list[str]:
    name = _called(consumer)
    if found := functions(name):
        return found
    # A function knows the module that defines it, not the one that it is called by.
    parts = name.split(".")
    for row in () if isinstance(consumer, str) else CONSUMERS:
        theirs = row.name.split(".")
        same = 2 if theirs[-2:][0][:1].isupper() else 1  # of a class: the class too
        if parts[0] == theirs[0] and parts[-same:] == theirs[-same:]:
            return [row.name]
    raise ValueError(
        f"consumer {consumer!r} of type {type(consumer).__name__} is not known; these are, "
        f"as names or themselves: {', '.join(names())}"
    )


def verdicts(obj: Any, report: Report, consumer: Any) -> tuple[Verdict, ...]:
    """Return what each function that `consumer` stands for makes of an object."""
    found, facts = [], facts_of(obj, report)
    for name in _functions(consumer):
        rows = rows_of(name)
        if not rows[0].library:  # compiled into others: each generation has its answer
            found += [_verdict(facts, row, f"{row.since[0]}.x") for row in rows]
            continue
        version = version_of(rows[0].library)
        row, verified = row_of(name, version_tuple(version or ""))
        if version and verified:
            found.append(_verdict(facts, row, version))
            continue
        why = "not verified: it is not installed here"
        if version:
            first, end = (".".join(map(str, span)) for span in (rows[0].since, rows[-1].until))
            why = f"not verified: the table has releases from {first or '0'} to before {end or '0'}"
        none = Outcome("unknown", why=why)
        found.append(Verdict(name, version, none, none, _what(facts, row, none), why))
    return tuple(found)


def outcomes(facts: Facts, row: Known) -> tuple[Outcome, Outcome]:
    """Return what a row makes of an object as it is, and upgraded."""
    asks_legacy = row.asks != VERSIONED and row.wants != "buffer" and not row.reads_table
    if facts.dtype == "bool" and facts.source and asks_legacy:
        facts = replace(facts, dtype=facts.source.legacy_bool)
    return _bare(facts, row), _upgraded(facts, row)


def _verdict(facts: Facts, row: Known, version: str) -> Verdict:
    bare, upgraded = outcomes(facts, row)
    ours = facts.kind in ("upgraded", "tensor") and row.wants == "object"
    ours = ours and not (facts.kind == "tensor" and row.bare_buffer)
    bare = upgraded if ours else bare
    cure = ""
    if facts.word is None and not row.never_writes and _loses_mark(facts, row, upgraded):
        cure = _call(row, 'readonly="copy"')
    elif bare.result != "works":
        if upgraded.result == "works" and not ours:
            cure = _call(row)
        elif option := cure_of(facts, row, upgraded):
            cure = _call(row, option)
    what = _what(facts, row, bare if bare.result == "works" else upgraded)
    why = bare.why if bare.result != "unknown" else upgraded.why or bare.why
    return Verdict(row.name, version, bare, upgraded, what, why, cure)


def cure_of(facts: Facts, row: Known, outcome: Outcome) -> str:
    """Return the option that cures an outcome, unless something else stands in the way then."""
    cured = outcomes(_cured(facts, outcome.cure), row)[1].result
    unseen = cured == "unknown" and outcome.cure.startswith("device")
    return outcome.cure if unseen or cured == "works" else ""


def _call(row: Known, option: str = "") -> str:
    ours = {"capsule": "to_capsule", "buffer": "from_dlpack"}.get(row.wants, "upgrade")
    function = row.name if "," not in row.name else "f"
    return f"{function}(dlshim.{ours}({', '.join(filter(None, ('x', option)))}))"


def _cured(facts: Facts, option: str) -> Facts:
    if option.startswith("detach"):
        return replace(facts, refuses=("", ""))
    if option.startswith("device"):
        facts = replace(facts, device=(1, 0))
    strides = facts.strides if option.startswith("readonly") else row_major(facts.shape or ())
    return replace(
        facts,
        strides=strides,
        readonly=False,
        library=None,
        source=None,
        immutable=False,
        aligned_to=64,
    )


def _loses_mark(facts: Facts, row: Known, outcome: Outcome) -> bool:
    unmarked = row.flag == IGNORES or outcome.writable
    readonly = facts.readonly or facts.immutable
    return bool(readonly and unmarked and outcome.copied is False)


def _what(facts: Facts, row: Known, outcome: Outcome) -> str:
    said = []
    if outcome.copied is not None:
        keeps = "owns its memory" if outcome.copied else "keeps the memory of x alive"
        said.append(f"the result {keeps}")
    if _loses_mark(facts, row, outcome):
        said.append("the read-only mark is lost, the consumer may write to this memory")
        if row.warned and facts.stated and facts.word is None:
            said.append("upgraded, dlshim warns of that (ReadOnlyWarning)")
    if facts.device and facts.device[0] in row.devices:
        said.append(_stream(facts, row))
    elif outcome.result == "works":
        said.append("no stream: host memory")
    return "; ".join(said)


def _stream(facts: Facts, row: Known) -> str:
    """Return who waits for what, as the table of stream rules has it."""
    kind = _ASKED.get(facts.library or "", "modern" if facts.has_dlpack else "no stream")
    family = _FAMILIES.get(facts.device[0] if facts.device else 0, "other")
    passed, _, task = cells(family)[kind]["object" if family == "oneAPI" else "handle"].partition(
        " -> "
    )
    if task:
        waits = f"dlshim does {task}"
    elif passed == "S":
        waits = "the producer is passed it, and lets it wait for its own work"
    else:
        waits = "nothing is waited for"
    return f"the consumer passes {row.stream}, S; upgraded, {waits} ({family} of dlshim's streams)"


def _refused(by: str, raises: tuple[str, ...], why: str, cure: str = "") -> Outcome:
    return Outcome("refused", by=by, raises=raises, why=why, cure=cure)


def _unknown(why: str) -> Outcome:
    return Outcome("unknown", why=why)


def _bare(facts: Facts, row: Known) -> Outcome:
    if facts.kind == "capsule":
        return _capsule(facts, row)
    if facts.kind == "tensor" and row.bare_buffer:
        return _refused("dlshim", ("RuntimeError",), _BARE_BUFFER)
    if row.wants == "capsule":
        return _refused(row.name, ("TypeError",), "it takes only raw capsules")
    if row.takes_own and row.library == facts.library:
        return Outcome("works", False)
    by_buffer = row.buffer_first or (not facts.has_dlpack and row.takes_buffers)
    if row.wants == "buffer" or row.converts or (facts.has_buffer and by_buffer):
        return _unknown(_BY_BUFFER)
    if not facts.has_dlpack:
        return _refused(row.name, row.no_way, "the object has no __dlpack__")
    if facts.refuses[0]:
        return _refused("its library", (row.passes_on, *ANY), facts.refuses[0])
    source = facts.source
    if source is None:
        return _unknown("what this type of object answers is not in the table")
    return _asked(facts, row, source)


def _capsule(facts: Facts, row: Known) -> Outcome:
    versioned = facts.readonly is not None
    if not facts.has_way:
        return _unknown("it is no DLPack capsule, or was consumed")
    if row.wants == "buffer" or row.converts:
        return _unknown(_BY_BUFFER)
    if not row.takes_capsules and row.wants != "capsule":
        return _refused(row.name, row.no_way, "it takes no raw capsules")
    if versioned and row.asks == LEGACY:
        return _unknown("what it makes of versioned capsules is not in the table")
    return _arrives(facts, row, versioned, facts.readonly)


def _asked(facts: Facts, row: Known, source: Source) -> Outcome:
    keywords, readonly = row.keywords, facts.readonly
    if not source.sound:
        return _unknown("its capsules lose memory or offsets in some consumers")
    if row.library in source.refused_by:
        return _refused(row.name, ("TypeError",), "it does not understand the object's device")
    if not source.takes.issuperset(keywords):
        if not row.retries:
            why = f"its __dlpack__ does not take {' and '.join(keywords)}, the consumer insists"
            return _refused(row.name, ("TypeError",), why)
        keywords = ()
    versioned = source.versioned and "max_version" in keywords
    if source.refuses_readonly and not versioned:
        if readonly is None:
            return _unknown(_ACCESS)
        if readonly and row.asks == LEGACY_FIRST and source.versioned:
            versioned = True
        elif readonly and row.takes_buffers and facts.has_buffer:
            return _unknown(_BY_BUFFER)
        elif readonly:
            raised = "TypeError" if row.passes_on == "TypeError" else source.refuses_readonly
            return _refused(source.name, (raised,), _LOST)
    if facts.dtype is not None and facts.dtype not in source.dtypes:
        return _refused(source.name, ANY, f"{source.name} does not export {facts.dtype}")
    return _arrives(facts, row, versioned, readonly and source.states and versioned)


def _arrives(facts: Facts, row: Known, versioned: bool, stated: bool | None) -> Outcome:
    if row.versioned_only and not versioned:
        why = "the object gives DLPack 0.x, the consumer takes 1.x only"
        return _refused(row.name, ("ValueError",), why)
    if refusal := _elsewhere(facts, row):
        return refusal
    array = facts.array
    if array is None and (row.limits or not row.bears_negative):
        return _unknown(_LOOK)
    if array is not None:
        if row.limits and (array.odd or (row.literal and len(array.shape) != 1)):
            return _unknown("what it makes of strides beside an extent of 1 is not in the table")
        if array.negative and not row.bears_negative:
            if row.negative:
                return Outcome(
                    row.negative, by=row.name, why="it does not support negative strides"
                )
            return _unknown("what it makes of negative strides is not in the table")
    if row.wants_writable and stated:
        return _refused(row.name, ("TypeError",), _WRITES)
    writable = None
    if row.flag == HONOURS and (stated is not None or not versioned):
        writable = versioned and not stated
    return _held(facts, row, writable)


def _upgraded(facts: Facts, row: Known) -> Outcome:
    if not facts.has_way:
        return _refused("dlshim", ("UnsupportedObjectError",), "the object offers no way in")
    if facts.refuses[0]:
        return _refused("dlshim", (row.passes_on,), *facts.refuses)
    if facts.fails:
        return _refused("dlshim", (row.passes_on,), facts.fails)
    if refusal := _elsewhere(facts, row):
        return refusal
    array = facts.array
    if not row.bears_negative and row.wants != "buffer":
        if array is None:
            return _unknown(_LOOK)
        if array.negative:
            why = "it is not known to support negative strides (rule N9)"
            return _refused("dlshim", (row.passes_on,), why, 'order="C"')
    stated = facts.stated
    readonly = facts.immutable or stated
    if refusal := _readonly(facts, row, stated, readonly):
        return refusal
    if row.wants_writable and readonly is None:
        return _unknown(_ACCESS)
    if row.wants_writable and readonly:
        return _refused(row.name, ("TypeError",), _WRITES, 'readonly="copy"')
    honours = row.flag == HONOURS and readonly is not None
    return _held(facts, row, not readonly if honours else None)


def _readonly(
    facts: Facts, row: Known, stated: bool | None, readonly: bool | None
) -> Outcome | None:
    """The refusal of read-only memory to a consumer that is not told, or does not heed it (T8)."""
    strict = facts.word == "error"
    careful = row.wants == "buffer" or row.reads_table or (row.never_writes and not strict)
    untold = row.asks == LEGACY and not careful
    if facts.word in ("copy", "share") or not (untold or (row.warned and strict)):
        return None
    counts = readonly if strict else stated
    if counts is None:
        return _unknown(_ACCESS)
    if not counts or (row.buffer_next and facts.kind == "tensor"):
        return None
    return _refused("dlshim", (row.passes_on,), _LOST if untold else _UNHEEDED, 'readonly="copy"')


def _elsewhere(facts: Facts, row: Known) -> Outcome | None:
    """The refusal of memory on a device that the consumer does not take."""
    if facts.device is None or facts.device[0] in (1, 3, 11, *row.devices):
        return None
    why = "it takes no memory of this device"
    return _refused(row.name, ANY, why, 'device="cpu"')


def _held(facts: Facts, row: Known, writable: bool | None) -> Outcome:
    """What the consumer makes of the memory when it has it."""
    if facts.device and facts.device[0] != 1 and facts.device[0] in row.devices:
        return Outcome("works", False, writable, why=_DEVICE)
    array = facts.array
    if array is None and row.limits:
        return _unknown(_LOOK)
    if array and (name := row.limit(array)):
        limit = LIMITS[name]
        result = "wrong" if limit.changes else "refused"
        raises = limit.raises if limit.changes else row.raises
        return Outcome(result, None, None, row.library, raises, limit.reason, limit.cure)
    copied = {SHARES: False, COPIES: True}.get(row.memory)
    if row.memory == COPIES_UNALIGNED and facts.aligned_to is not None:
        copied = facts.aligned_to < 64
    if row.flag == ALWAYS_READONLY:
        writable = False
    if array and 0 in array.shape:  # a consumer may take none of it
        copied = writable = None
    return Outcome("works", copied, writable)


# ---- what is alive --------------------------------------------------------------------------

# Whose lines are passed over: they say what was called, and not where.
_PASSED = {"dlshim", "copy", *names()}


class Live(NamedTuple):
    """An export or a Tensor that is alive."""

    kind: str  # "versioned", "legacy" or "Tensor"
    device: tuple[int, int]
    nbytes: int
    where: str  # file:line of the caller's Python code when it was made


_alive: dict[int, tuple[Live, Any]] = {}
_running: set[Tracking] = set()
_switch = threading.RLock()  # whether one runs, and what C is told of it


def _made(
    tensor: Any, kind: str, number: int, nbytes: int, device_type: int, device_id: int
) -> None:
    frame: Any = sys._getframe(1)
    while frame and str(frame.f_globals.get("__name__")).partition(".")[0] in _PASSED:
        frame = frame.f_back
    where = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "?"
    end = tensor is not None and weakref.ref(tensor, lambda _: _alive.pop(number, None))
    _alive[number] = Live(kind, (device_type, device_id), nbytes, where), end
    _forget(_track(-1))


def _forget(ended: list[int]) -> None:
    for number in ended:
        _alive.pop(number, None)


class Tracking:
    """What `track` returns: it tracks until `stop`, or until the end of a with block."""

    def __init__(self) -> None:
        self.__enter__()

    def stop(self) -> None:
        """Stop.  What was noted until then stays in `live` as long as it is alive."""
        with _switch:
            _running.discard(self)
            if not _running:
                _forget(_track(0))

    def __enter__(self) -> Tracking:
        vars(arrays)["made"] = _made
        with _switch:
            _running.add(self)
            _forget(_track(1))
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def track() -> Tracking:
    """Note which exports and Tensors are made, until ``stop()`` or to the end of a with block.

    Meanwhile no producer's own capsule is handed on, because its end could not be seen.
    """
    return Tracking()


def live() -> list[Live]:
    """List what was made while `track` was on, and is alive; the oldest first."""
    _forget(_track(-1))
    return [made for made, _ in [*_alive.values()]]


def stats() -> dict[str, int]:
    """Count what was done since the import."""
    return _counters()


Live.__module__ = "dlshim"
