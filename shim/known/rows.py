"""What rows about libraries say: their classes, words and limits.

docs/development.rst says what the fields mean that need a word ("A consumer").
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ..counted import BOOL as BOOL_BY_BUFFER
from ..counted import DIMENSIONS, SCALAR
from ..look import ALL, Array
from ..options import AS_BUFFER, AS_TAKEN, ROW_MAJOR

Version = tuple[int, ...]

LEGACY, VERSIONED, LEGACY_FIRST = "0.x", "1.x", "0.x, then 1.x"
SHARES, COPIES, COPIES_UNALIGNED = "shares", "copies", "copies below 64-byte alignment"
HONOURS, IGNORES, ALWAYS_READONLY = "honours", "ignores", "always read-only"

#: What NumPy has by itself.
PLAIN = frozenset(n for n in ALL if n[:6] not in ("bfloat", "float8"))
BOOL, BF16 = frozenset({"bool"}), frozenset({"bfloat16"})
WIDE = frozenset({"uint16", "uint32", "uint64"})
REAL = PLAIN - {"complex64", "complex128"}
ARROW = REAL - BOOL


@dataclass(frozen=True)
class Library:
    key: str
    #: The module that is imported; submodules that it needs come with it.
    module: str
    distributions: tuple[str, ...]
    #: Its name in the manual; "": it has no section there.
    title: str = ""


# ---- objects of a library -----------------------------------------------------------------------


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
    #: Libraries that refuse them by their type or device, each with its reason.
    refused_by: tuple[tuple[str, str], ...] = ()
    #: Classes whose objects answer otherwise, which no row tells.
    others: tuple[str, ...] = ()
    dtypes: frozenset[str] = ALL
    #: How they give their memory.
    protocol: str = "DLPack"


def column(name: str, library: str, since: Version, until: Version) -> Source:
    """The row of columns, which have Arrow's methods and no ``__dlpack__``."""
    return Source(name, library, since, until, immutable=True, states=True, protocol="Arrow")


def old(name: str, library: str, since: Version, until: Version, **more: Any) -> Source:
    """The row of objects that take stream= alone, and give DLPack 0.x."""
    return Source(name, library, since, until, frozenset({"stream"}), versioned=False, **more)


@dataclass(frozen=True)
class Fault:
    """A known fault of a library, from `since` on and before `until`; (): it is not mended."""

    library: str
    what: str
    #: It "kills" the process, gives something "wrong", "leaks" or "refuses".
    harm: str
    since: Version
    until: Version = ()
    #: What becomes of it with dlshim.
    upgraded: str = field(kw_only=True)
    #: A public issue, a case of tests/replays/replays.toml, or habits.py.
    source: str = field(kw_only=True)


def unsaid_immutable(
    library: str, since: Version, until: Version = (), *, source: str = "M13"
) -> Fault:
    """Return the fault of arrays that never change, and that their library hands out as writable.

    dlshim marks them, and nobody is warned (T8), so doctor says who writes all the same.
    """
    return Fault(
        library,
        "calls immutable arrays writable",
        "wrong",
        since=since,
        until=until,
        upgraded='marked, but torch and Paddle write all the same; readonly="copy"',
        source=source,
    )


# ---- functions that take arrays ----------------------------------------------------------------


@dataclass(frozen=True)
class Limit:
    """Something that a consumer cannot hold."""

    reason: str
    #: Which arrays meet it; None: those of a dtype that the consumer's row does not have.
    meets: Callable[[Array], bool] | None = None
    #: The option of ``upgrade`` that cures it, or AS_BUFFER; "": none does.
    cure: str = ""
    #: It is not refused but arrives as something else: the consumer's own doing.
    changes: bool = False
    #: The something else is the same values in fewer bits.
    narrows: bool = False
    #: What some releases raise instead.
    raises: tuple[str, ...] = ()
    #: dlshim refuses it, since the consumer does not.
    refused: bool = False
    #: The consumer ends the process.
    kills: bool = False


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


def _turned(a: Array) -> bool:
    return bool(a.steps) and a.shape[0] > 1 and max(a.steps)[0] > a.strides[0]


LIMITS = {
    "dtype": Limit("it does not take this dtype through DLPack"),
    "ml_dtypes": Limit("it takes this dtype only where ml_dtypes is imported", _no_ml_dtypes),
    "strides": Limit("it takes C-contiguous data only", _strided, ROW_MAJOR),
    "ignores strides": Limit("it ignores strides", _strided, ROW_MAJOR, changes=True),
    "dense": Limit("it takes data without gaps only", lambda a: not a.dense, AS_TAKEN),
    "negative": Limit("it takes no negative strides", lambda a: a.negative, ROW_MAJOR),
    "one": Limit("it takes exactly one dimension", lambda a: len(a.shape) != 1),
    "at most one": Limit(DIMENSIONS, lambda a: len(a.shape) > 1, AS_BUFFER),
    "bool by buffer": Limit(BOOL_BY_BUFFER, lambda a: a.dtype == "bool", AS_BUFFER),
    "two": Limit("it takes exactly two dimensions", lambda a: len(a.shape) != 2),
    "last axis": Limit(
        "it takes rows without gaps only, of one element or more",
        lambda a: bool(a.shape) and (not a.shape[-1] or (a.shape[-1] > 1 and a.strides[-1] != 1)),
        ROW_MAJOR,
    ),
    "first axis": Limit("it takes data with the largest stride first only", _turned, ROW_MAJOR),
    "no gaps": Limit("it ignores gaps", lambda a: not a.dense, ROW_MAJOR, changes=True),
    "no rows": Limit(
        "it divides by the number of rows", lambda a: not (a.shape and a.shape[0]), kills=True
    ),
    "elements": Limit("it takes rows of one element or more only", lambda a: 0 in a.shape),
    "scalar": Limit("it takes no array without dimensions", lambda a: a.shape == ()),
    "host": Limit(
        "it gives the kernel the address of host memory, which most GPUs cannot read",
        lambda a: True,
        changes=True,
    ),
    "takes scalar": Limit(
        SCALAR,
        lambda a: a.shape == (),
        AS_BUFFER,
        changes=True,
        raises=("NotImplementedError",),
        refused=True,
    ),
    "jax narrows": Limit(
        "it makes 64 bits 32, unless jax_enable_x64 is set",
        _jax_narrows,
        changes=True,
        narrows=True,
    ),
    "mlx narrows": Limit(
        "it makes float64 float32, and complex128 complex64",
        lambda a: a.dtype in ("float64", "complex128"),
        changes=True,
        narrows=True,
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
    #: The short name for its library's functions; "": the first part of `name`.
    family: str = ""
    wants: str = "object"
    asks: str = VERSIONED
    keywords: tuple[str, ...] = ()
    retries: bool = True
    reads_table: bool = False
    #: Where the object refuses, it asks a function of torch that checks nothing.
    unchecked: bool = False
    #: The function of another library that it calls: how it asks, and what else it cannot hold, is
    #: in that function's row, of the release that is installed.
    through: str = ""
    supports_negative: bool = True
    negative: str = "dies"
    #: The limit of its layout that dlshim knows too, and refuses (PACKAGES of habits.py).
    layout: str = ""
    never_writes: bool = False
    #: It does not heed READ_ONLY, and dlshim warns (HEEDS_NOT of habits.py).
    warned: bool = False
    memory: str = SHARES
    #: It takes any memory, and its first operation on memory that is not so aligned (in bytes) ends
    #: the process.
    alignment: int = 0
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
    #: It takes memory of the host.
    host: bool = True
    stream: str = "its current stream"

    def limit(self, array: Array) -> str | None:
        """Return the name of the first limit that the array meets; None: it can be held."""
        for name in self.limits:
            meets = LIMITS[name].meets
            if meets(array) if meets else array.dtype not in self.dtypes:
                return name
        return None


def spans(until: Version, first: Known, *changes: tuple[Version, dict[str, Any]]) -> list[Known]:
    """Return a row for each span of releases: the first, and what changes from a release on."""
    rows = [first]
    for since, change in changes:
        rows.append(replace(rows[-1], since=since, **change))
    ends = [*(row.since for row in rows[1:]), until]
    return [replace(row, until=end) for row, end in zip(rows, ends, strict=True)]


def also(name: str, rows: list[Known], **changes: Any) -> list[Known]:
    """Return the rows of another function of the same library."""
    return [replace(row, name=name, **changes) for row in rows]


NOW_VERSIONED: dict[str, Any] = {"asks": VERSIONED, "keywords": ("max_version",)}
