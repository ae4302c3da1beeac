"""The producers that the machine makes: a double of each trait, and what the model knows of it.

A row says in which generation the producer's best answer comes and what it can say of writing.
"""

from __future__ import annotations

import ctypes as C
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from doubles import capsules as caps
from doubles import producers
from doubles.exporter import Exporter
from doubles.older import InterfaceOnly, StructOnly
from model.rules import LEGACY, OLDER, READ_ONLY, VERSIONED, Memory


@dataclass(frozen=True)
class Fields:
    """What a description of memory is made of."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start: int
    dtype: tuple[int, int, int]
    readonly: bool
    flags: int
    byte_offset: int  # in elements

    def memory(self, block: Any, row: Row) -> Memory:
        size = caps.itemsize_of(self.dtype)
        address = caps.address_of(block) + self.start * size
        elements = tuple(
            C.string_at(address + offset * size, size)
            for offset in caps.offsets(self.shape, self.strides)
        )
        flags = 0
        if row.says:
            flags = (READ_ONLY if self.readonly else 0) | (
                self.flags if row.generation == VERSIONED else 0
            )
        return Memory(
            *(self.shape, self.strides, self.dtype, address, elements, row.generation),
            flags=flags | (READ_ONLY if row.immutable else 0),
            stated=not row.immutable,
        )


@dataclass(frozen=True)
class Row:
    make: Callable[[Fields], Any]
    generation: str
    says: bool = False  # whether the memory is read-only
    immutable: bool = False  # a type that is known to be, but cannot say so
    raw: bool = False  # a capsule
    dtypes: str = "any"
    cls: type | None = None  # where its objects can change into another row's


def array(cls: type) -> Callable[[Fields], Any]:
    def make(f: Fields) -> Any:
        size = caps.itemsize_of(f.dtype)
        more = {"readonly": f.readonly, "flags": f.flags, "byte_offset": f.byte_offset * size}
        return cls(f.shape, f.dtype, strides=f.strides, start=f.start, **more)

    return make


def older(cls: type) -> Callable[[Fields], Any]:
    def make(f: Fields) -> Any:
        name = next(k for k, v in caps.DTYPES.items() if v == f.dtype)
        return cls(f.shape, name, strides=f.strides, start=f.start, readonly=f.readonly)

    return make


FORMATS = {(2, 32, 1): b"f", (1, 8, 1): b"B", (5, 128, 1): b"Zd", (0, 16, 1): b"h"}


def exporter(f: Fields) -> Any:
    size = caps.itemsize_of(f.dtype)
    block = caps.filled(f.shape, f.dtype, f.strides, f.start)
    steps = [step * size for step in f.strides]
    x = Exporter(
        buf=caps.address_of(block) + f.start * size,
        itemsize=size,
        ndim=len(f.shape),
        format=FORMATS[f.dtype],
        readonly=int(f.readonly),
        **({"shape": f.shape, "strides": steps} if f.shape else {}),
    )
    x.memory = block
    return x


class Raw:
    """A raw capsule and its block."""

    def __init__(self, f: Fields, version: tuple[int, int] | None) -> None:
        self.memory = caps.filled(f.shape, f.dtype, f.strides, f.start)
        flags = (READ_ONLY if f.readonly else 0) | f.flags
        offset = f.byte_offset * caps.itemsize_of(f.dtype)
        said = {"strides": f.strides, "start": f.start, "byte_offset": offset}
        said |= {"version": version, "flags": flags, "memory": self.memory}
        self.capsule = caps.make(f.shape, f.dtype, **said)


def rows() -> dict[str, Row]:
    """New classes for each machine: nothing has been learned of them."""
    made: dict[str, Row] = {}
    legacy = ("P0ToDlpack", "P1", "P1Positional", "P1NullStrides", "P1a", "P1aNoDevice", "P1b")
    legacy += ("Strict", "StrictValueError", "Tensorflow", "Asserting", "PaddleDevice")
    legacy += ("InstanceOnly",)
    versioned = ("P2", "P2LegacyOfReadonly", "P2NoCopyNoDevice", "VersionedAlways", "P3")
    versioned += ("P3NoBorrow", "P3TableOnly", "P3OldSpelling", "P0VersionedToDlpack")
    for generation, names in ((LEGACY, legacy), (VERSIONED, versioned)):
        for name in names:
            cls = producers.fresh(getattr(producers, name))
            says = generation == VERSIONED
            swap = None if name == "InstanceOnly" else cls
            made[name] = Row(array(cls), generation, says, cls=swap)
    made["jax"] = Row(array(producers.jax_like()), LEGACY, immutable=True)
    made["interface"] = Row(older(InterfaceOnly), OLDER, True, dtypes="named")
    made["struct"] = Row(older(StructOnly), OLDER, True, dtypes="named")
    made["buffer"] = Row(exporter, OLDER, True, dtypes="formats")
    made["legacy capsule"] = Row(lambda f: Raw(f, None), LEGACY, raw=True)
    made["versioned capsule"] = Row(lambda f: Raw(f, (1, 1)), VERSIONED, True, raw=True)
    return made


NAMES = tuple(rows())
InstanceOnlyType = producers.InstanceOnly
