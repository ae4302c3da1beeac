"""Functions that take arrays, one row for each span of releases, and the limits that they have.

``inspect``, ``doctor`` and the matrix answer from these rows, and tests/interop compares them with
what happens.  docs/development.rst says what the fields mean ("A consumer").
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from .libraries import Version, nearest
from .look import ALL, Array
from .options import ROW_MAJOR

LEGACY, VERSIONED, LEGACY_FIRST = "0.x", "1.x", "0.x, then 1.x"
SHARES, COPIES, COPIES_UNALIGNED = "shares", "copies", "copies below 64-byte alignment"
HONOURS, IGNORES, ALWAYS_READONLY = "honours", "ignores", "always read-only"

#: What NumPy has by itself.
PLAIN = frozenset(n for n in ALL if n[:6] not in ("bfloat", "float8"))
BOOL, _BF16 = frozenset({"bool"}), frozenset({"bfloat16"})
_WIDE = frozenset({"uint16", "uint32", "uint64"})
_REAL = PLAIN - {"complex64", "complex128"}
_ARROW = _REAL - BOOL


@dataclass(frozen=True)
class Limit:
    """Something that a consumer cannot hold."""

    reason: str
    #: Which arrays meet it; None: those of a dtype that the consumer's row does not have.
    meets: Callable[[Array], bool] | None = None
    #: The option of ``upgrade`` that cures it; "": none does.
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


LIMITS = {
    "dtype": Limit("it does not take this dtype through DLPack"),
    "ml_dtypes": Limit("it takes this dtype only where ml_dtypes is imported", _no_ml_dtypes),
    "strides": Limit("it takes C-contiguous data only", _strided, ROW_MAJOR),
    "ignores strides": Limit("it ignores strides", _strided, ROW_MAJOR, changes=True),
    "dense": Limit("it takes data without gaps only", lambda a: not a.dense, ROW_MAJOR),
    "negative": Limit("it takes no negative strides", lambda a: a.negative, ROW_MAJOR),
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
        dtypes=PLAIN - BOOL,
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
        dtypes=PLAIN - _WIDE - BOOL | _BF16,
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
        dtypes=PLAIN - BOOL | _BF16,
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
        dtypes=PLAIN - _WIDE - BOOL | _BF16,
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
        dtypes=PLAIN - BOOL | _BF16,
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


def functions_of(consumer: Any) -> list[str]:
    """Return the functions that a name, a module or a function means; ValueError: none."""
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
