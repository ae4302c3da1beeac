"""How functions ask for DLPack and what they hold, release by release: what the model goes by.

Written by hand from sources and documentation, for the functions that adapters import with; dlshim
itself knows none of this.  Of a release that no row speaks of the nearest one counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dlshim.look import TRIPLES, Array

from . import versions

Version = tuple[int, ...]

LEGACY, VERSIONED, LEGACY_FIRST = "0.x", "1.x", "0.x, then 1.x"
SHARES, COPIES, COPIES_UNALIGNED = "shares", "copies", "copies below 64-byte alignment"
HONOURS, IGNORES, ALWAYS_READONLY = "honours", "ignores", "always read-only"

ALL = frozenset(TRIPLES)
#: What NumPy has by itself.
PLAIN = frozenset(name for name in ALL if name[:6] not in ("bfloat", "float8"))
BOOL, BF16 = frozenset({"bool"}), frozenset({"bfloat16"})
WIDE = frozenset({"uint16", "uint32", "uint64"})
REAL = PLAIN - {"complex64", "complex128"}
F8 = ALL - PLAIN - BF16
#: The float8 types that torch and MAX lack.
F8_RARE = {"float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz"}


# ---- limits ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limit:
    """Something that a function cannot hold."""

    reason: str
    #: Which arrays meet it; None: those of a dtype that the function's row does not have.
    meets: Callable[[Array], bool] | None = None
    #: It is not refused but arrives as something else: the function's own doing.
    changes: bool = False
    #: dlshim refuses it, since the function does not.
    refused: bool = False


def _strided(a: Array) -> bool:
    return not a.contiguous


LIMITS = {
    "dtype": Limit("it does not take this dtype through DLPack"),
    "strides": Limit("it takes C-contiguous data only", _strided),
    "ignores strides": Limit("it ignores strides", _strided, changes=True),
    "dense": Limit("it takes data without gaps only", lambda a: not a.dense),
    "negative": Limit("it takes no negative strides", lambda a: a.negative),
    "one": Limit("it takes exactly one dimension", lambda a: len(a.shape) != 1),
    "at most one": Limit("it takes at most one dimension", lambda a: len(a.shape) > 1),
    "bool by buffer": Limit(
        "it takes booleans by the buffer protocol only", lambda a: a.dtype == "bool"
    ),
    "scalar": Limit("it takes no array without dimensions", lambda a: a.shape == ()),
    "takes scalar": Limit(
        "it takes a scalar for an empty buffer",
        lambda a: a.shape == (),
        changes=True,
        refused=True,
    ),
    "mlx narrows": Limit(
        "it makes float64 float32, and complex128 complex64",
        lambda a: a.dtype in ("float64", "complex128"),
        changes=True,
    ),
    "uint16": Limit("it takes uint16 for bfloat16", lambda a: a.dtype == "uint16", changes=True),
}

ANY = ("TypeError", "ValueError", "RuntimeError", "BufferError", "NotImplementedError")


# ---- functions ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Function:
    """A function that takes arrays, in the releases from `since` on."""

    name: str
    library: str
    since: Version = ()
    wants: str = "object"
    #: Of objects without a C table.
    asks: str = VERSIONED
    reads_table: bool = False
    supports_negative: bool = True
    #: The limit of its layout that dlshim knows too, and refuses (PACKAGES of habits.py).
    layout: str = ""
    never_writes: bool = False
    memory: str = SHARES
    #: It takes any memory, and its first operation on memory that is not so aligned (in bytes) ends
    #: the process.
    alignment: int = 0
    buffer_next: bool = False
    flag: str = IGNORES
    dtypes: frozenset[str] = ALL
    limits: tuple[str, ...] = ()
    raises: tuple[str, ...] = ANY

    def limit(self, array: Array) -> str | None:
        """The name of the first limit that the array meets; None: it can be held."""
        for name in self.limits:
            meets = LIMITS[name].meets
            if meets(array) if meets else array.dtype not in self.dtypes:
                return name
        return None


def spans(first: Function, *changes: tuple[Version, dict[str, Any]]) -> list[Function]:
    """A row for each span of releases: the first, and what changes from a release on."""
    rows = [first]
    for since, change in changes:
        rows.append(replace(rows[-1], since=since, **change))
    return rows


_NUMPY = spans(
    Function(
        "numpy.from_dlpack",
        "numpy",
        (1, 22),
        asks=LEGACY,
        flag=ALWAYS_READONLY,
        dtypes=PLAIN - BOOL,
        limits=("dtype",),
        raises=("RuntimeError", "BufferError"),
    ),
    ((1, 25), {"dtypes": PLAIN}),
    ((2, 1), {"asks": VERSIONED}),
    ((2, 2, 5), {"flag": HONOURS}),
)

_TORCH = spans(
    Function(
        "torch.from_dlpack",
        "torch",
        (1, 13),
        asks=LEGACY,
        supports_negative=False,
        dtypes=PLAIN - WIDE - BOOL | BF16,
        limits=("dtype",),
        raises=("RuntimeError", "BufferError", "ValueError"),
    ),
    ((2, 0), {"dtypes": PLAIN - WIDE | BF16}),
    ((2, 3), {"dtypes": PLAIN | BF16}),
    ((2, 9), {"asks": VERSIONED}),
    ((2, 10), {"dtypes": ALL - F8_RARE}),
)

_JAX = spans(
    Function(
        "jax.numpy.from_dlpack",
        "jax",
        (0, 4, 16),
        asks=LEGACY,
        dtypes=PLAIN - BOOL | BF16,
        limits=("dtype", "dense"),
        raises=("JaxRuntimeError", "XlaRuntimeError", *ANY),
    ),
    ((0, 4, 23), {"limits": ("dtype", "strides")}),
    ((0, 4, 24), {"dtypes": PLAIN | BF16}),
    # It passes objects on to jax.dlpack, which asks itself.
    ((0, 4, 26), {"never_writes": True, "limits": ("dtype", "dense"), "layout": "dense"}),
    ((0, 4, 27), {"memory": COPIES_UNALIGNED}),
    ((0, 6), {"dtypes": ALL}),
    ((0, 12), {"asks": VERSIONED}),
)

_ARROW = Function(
    "pyarrow.Tensor.from_dlpack",
    "pyarrow",
    (26,),
    flag=HONOURS,
    dtypes=REAL - BOOL,
    limits=("dtype", "negative"),
    raises=("ArrowInvalid", "ArrowTypeError", "ArrowNotImplementedError"),
)

_NANOBIND = spans(
    Function("nanobind, writable parameter", "", (2, 2), asks=LEGACY),
    ((2, 10), {"asks": VERSIONED}),
)

FUNCTIONS = [
    *_NUMPY,
    *_TORCH,
    *(replace(row, name="torch.asarray") for row in _TORCH[1:]),
    *_JAX,
    _ARROW,
    replace(_ARROW, name="pyarrow.Array.from_dlpack", limits=("dtype", "one", "strides")),
    *_NANOBIND,
    *spans(
        replace(_NANOBIND[0], name="nanobind, read-only parameter", buffer_next=True),
        ((2, 10), {"buffer_next": False, "asks": VERSIONED}),
        ((2, 13), {"asks": LEGACY_FIRST}),
    ),
    *spans(
        Function("tvm_ffi.from_dlpack", "tvm_ffi", (0, 1, 2), asks=LEGACY),
        ((0, 1, 15), {"reads_table": True}),
    ),
    Function(
        "nanoarrow.c_buffer",
        "nanoarrow",
        (0, 6),
        asks=LEGACY,
        dtypes=REAL,
        limits=("strides", "dtype", "at most one", "takes scalar", "bool by buffer"),
        raises=("NotImplementedError", "ValueError"),
    ),
    *spans(
        Function(
            "warp.from_dlpack",
            "warp",
            (1, 9),
            asks=LEGACY,
            dtypes=REAL - BOOL,
            limits=("scalar", "dtype"),
            raises=("IndexError", "RuntimeError", "TypeError"),
        ),
        ((1, 13), {"dtypes": REAL - BOOL | BF16}),
        ((1, 16), {"dtypes": REAL | BF16}),
    ),
    Function(
        "mlx.core.from_dlpack",
        "mlx",
        (0, 32),
        asks=LEGACY_FIRST,
        memory=COPIES,
        dtypes=PLAIN | BF16,
        limits=("dtype", "negative", "mlx narrows"),
        raises=("ValueError", "TypeError"),
    ),
    Function(
        "max.driver.Buffer.from_dlpack",
        "max",
        (26, 7),
        asks=LEGACY,
        supports_negative=False,
        dtypes=REAL | BF16 | F8 - F8_RARE,
        limits=("ignores strides", "dtype"),
        layout="ignores strides",
    ),
    *spans(
        Function(
            "onnxruntime.OrtValue.from_dlpack",
            "onnxruntime",
            (1, 31),
            asks=LEGACY,
            dtypes=REAL - BOOL | BF16,
            limits=("dtype", "strides"),
            raises=("RuntimeError", "ValueError"),
        ),
        ((1, 32), {"dtypes": REAL | BF16}),
    ),
    *spans(
        Function(
            "paddle.utils.dlpack.from_dlpack",
            "paddle",
            (2, 6),
            wants="capsule",
            asks=LEGACY,
            supports_negative=False,
            memory=COPIES,
            dtypes=PLAIN - WIDE - BOOL | BF16,
            limits=("dtype", "ignores strides"),
        ),
        (
            (3, 0),
            {
                "wants": "object",
                "memory": SHARES,
                "dtypes": PLAIN | BF16 | {"float8_e4m3fn", "float8_e5m2"},
                "limits": ("dtype", "uint16"),
            },
        ),
        ((3, 3), {"asks": VERSIONED}),
    ),
    *spans(
        Function(
            "tensorflow.experimental.dlpack.from_dlpack",
            "tensorflow",
            (2, 12),
            wants="capsule",
            asks=LEGACY,
            supports_negative=False,
            alignment=64,
            dtypes=PLAIN - BOOL | BF16,
            limits=("dtype", "strides"),
            raises=("InvalidArgumentError", "RuntimeError"),
        ),
        ((2, 13), {"dtypes": PLAIN | BF16}),
    ),
]
#: It asks for the device, and then calls numpy.from_dlpack.
AWKWARD = "awkward.from_dlpack"


def rows_of(name: str) -> list[Function]:
    """The rows of a function, the oldest releases first."""
    if name != AWKWARD:
        return [row for row in FUNCTIONS if row.name == name]
    numpy = nearest(_NUMPY, versions.of("numpy"))
    limits, raises = ("scalar", *numpy.limits), ("TypeError", *numpy.raises)
    own = {"name": AWKWARD, "library": "awkward", "since": (2, 14)}
    return [replace(numpy, limits=limits, raises=raises, **own)]


def nearest(rows: list[Function], version: Version) -> Function:
    """The row nearest to a release."""
    return next((row for row in reversed(rows) if row.since <= version), rows[0])


def row_of(name: str, version: Version) -> Function:
    return nearest(rows_of(name), version)
