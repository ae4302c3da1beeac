"""What is known of array libraries and of their releases, and what can be seen of objects.

First the libraries and their versions, then elements, layouts and what attributes that are plain
data tell of an object: nothing here imports a library, waits or asks.  Then, by release, the
functions that take arrays (``CONSUMERS``) and how objects answer ``__dlpack__`` (``SOURCES``).
``inspect``, ``doctor`` and the matrix answer from these rows; tests/interop compares them with
what happens.  docs/development.rst says what the fields mean ("A consumer").
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

from . import arrays
from ._core import _sync_rules
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
    return not any("__buffer__" in vars(c) and c.__flags__ & 1 << 9 for c in type(obj).__mro__)


def _in_elements(strides: Any, size: int) -> tuple[int, ...] | None:
    if any(stride % size for stride in strides):
        return None
    return tuple(stride // size for stride in strides)


def _common(obj: Any, strides: tuple[int, ...] | None) -> dict[str, Any]:
    shape = tuple(map(int, obj.shape))
    return {"dtype": dtype_name(obj.dtype), "shape": shape, "strides": strides}


def _buffer(obj: Any) -> dict[str, Any]:
    with memoryview(obj) as view:
        code = view.format.lstrip("@=<")
        name = _FORMATS.get(code)
        if code in _KINDS:
            name = f"{_KINDS[code]}{8 * view.itemsize}"
        strides = _in_elements(view.strides or (), view.itemsize)
        return {"dtype": name, "shape": view.shape, "strides": strides, "readonly": view.readonly}


def _numpy(obj: Any) -> dict[str, Any]:
    found = _common(obj, _in_elements(obj.strides, obj.itemsize))
    interface = obj.__array_interface__
    return {**found, "readonly": not obj.flags.writeable, "address": interface["data"][0]}


def _torch(obj: Any) -> dict[str, Any]:
    found = _common(obj, tuple(obj.stride()))
    if obj.requires_grad:
        found["refuses"] = ("it requires grad", "detach=True")
    elif obj.is_conj() or obj.is_neg():
        found["refuses"] = ("it has the conjugate or the negative bit: x.resolve_conj(), ...", "")
    address = obj.data_ptr() if obj.is_cpu else None
    return {**found, "readonly": False, "address": address}


def _paddle(obj: Any) -> dict[str, Any]:
    return {**_common(obj, tuple(obj.strides)), "readonly": False}


def _dense(obj: Any) -> dict[str, Any]:
    return {**_common(obj, row_major(tuple(map(int, obj.shape)))), "readonly": False}


def _jax(obj: Any) -> dict[str, Any]:
    # Arrays of more dimensions may have another layout, which only an export tells.
    strides = row_major(obj.shape) if len(obj.shape) < 2 else None
    return {**_common(obj, strides), "readonly": True}


def _in_bytes(obj: Any) -> dict[str, Any]:
    found = _common(obj, None)
    size = TRIPLES[found["dtype"]][1] // 8
    return {**found, "strides": _in_elements(obj.strides, size), "readonly": False}


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
    memory: str = SHARES
    buffer_first: bool = False
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
    ((2, 9), _NOW_VERSIONED),
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
    ((3, 3), _NOW_VERSIONED),
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
    *_also("torch.asarray", _TORCH[1:], buffer_first=True, takes_own=True),
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
    legacy_readonly: str = ""
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


_NUMPY_SAYS: dict[str, Any] = {"states": True, "legacy_readonly": "BufferError", "dtypes": PLAIN}
SOURCES = [
    _old(
        "numpy",
        "numpy",
        (1, 22),
        (1, 24),
        **_NUMPY_SAYS | {"legacy_readonly": "TypeError", "dtypes": PLAIN - _BOOL},
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
        legacy_readonly="ArrowNotImplementedError",
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
# Beside it stands its source: a public issue, or a case of tests/replays/replays.toml.
# fmt: off
_FAULTS = (
    "numpy 1.22 1.24 kills | its deleters need the GIL | cured",  # numpy/numpy#22507
    "numpy 1.22 2.2.5 refuses | whatever it takes is read-only | none",  # numpy/numpy#28599
    'torch 1.10 2.14 kills | negative strides | refused, or order="C"',  # pytorch/pytorch#188023
    "torch 1.0 2.10 wrong | ignores byte offsets | cured",  # pytorch/pytorch#168177
    "torch 2.9 - wrong | writes to read-only memory | copy=True",  # replay M12
    "torch 1.10 - wrong | exports the negative bit without the sign | refused",  # replay M7
    "torch 1.10 2.3 leaks | arrays without elements | cured",  # pytorch/pytorch#117058
    "torch 1.10 - leaks | the tensor of an export that fails | none",  # pytorch/pytorch#171820
    "jax 0.1 - wrong | calls immutable arrays writable | marked; copy=True",  # replay M13
    "tensorflow 2.2 - kills | exports of text and resources | refused",  # libraries.def
    "tensorflow 2.2 - wrong | calls immutable arrays writable | marked; copy=True",  # replay M13
    "tensorflow 2.2 - wrong | exports scalars with shape (1,) | cured",  # replay M17
    "pyarrow 15 26 wrong | calls immutable arrays writable | marked; copy=True",  # replay M13
    "pyarrow 26 - wrong | copy=True of a strided Tensor | cured",  # replay M8
    'paddle 3 - refuses | negative strides, when read | refused, or order="C"',  # replay M19
    "onnxruntime 1.26 - wrong | its capsules do not keep their memory alive | cured",  # replay M1
    "onnxruntime 1.26 - wrong | ignores byte offsets | cured",  # replay M6
    "warp 0.2 - wrong | ignores byte offsets | cured",  # NVIDIA/warp#1573
    "nanoarrow 0.5 - wrong | reads past the end of 2-D data | refused",  # replay M10
    "tvm_ffi 0.1 - wrong | copy=True without max_version does not copy | cured",  # replay M15
    "cupy 14 - refuses | toDlpack() gives 1.x, which most refuse | cured",  # cupy/cupy#9011
    "cupy 10 - refuses | copy=True on the device | none",  # cupy/cupy#9842
    "cuda.core 0.1 1.2 wrong | ignores byte offsets | cured",  # NVIDIA/cuda-python#2592
    "cuda.core 0.1 - wrong | exports read-only memory as writable | refused",  # replay M14
    "mpi4py 4 - refuses | what answers 0.x to max_version (JAX) | cured",  # NVIDIA/DALI#6307
    "array_api_strict 1 2.2 refuses | max_version, not by a TypeError | cured",  # replay 5
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
