"""What the matrix exchanges: element types, layouts, and the bytes that must arrive.

Nothing here depends on an array library but NumPy, which every environment has; and of NumPy only
unsigned integers and ``as_strided`` are used, so that every version from 1.22 on will do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import prod

import numpy as np

ALIGN = 64
"""Backing memory starts at a multiple of this, so that alignment is a property of the layout."""

ROOM = 2048
"""Backing memory has at least this many bytes: NumPy keeps smaller blocks for itself when they are
freed, and the allocator could then not scribble over them (see ``runner.ENVIRONMENT``)."""


@dataclass(frozen=True)
class DType:
    name: str
    code: int
    bits: int
    lanes: int = 1

    @property
    def itemsize(self) -> int:
        return (self.bits * self.lanes + 7) // 8

    @property
    def unit(self) -> str:
        """An unsigned NumPy type of the same width (complex128 has none: two of its halves)."""
        return {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "V16"}[self.itemsize]

    @property
    def family(self) -> str:
        return FAMILIES[self.code]

    @property
    def triple(self) -> tuple[int, int, int]:
        return (self.code, self.bits, self.lanes)


FAMILIES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
FAMILIES.update(dict.fromkeys(range(7, 15), "float8"))

DTYPES = {
    d.name: d
    for d in [
        DType("bool", 6, 8),
        *(DType("int%d" % bits, 0, bits) for bits in (8, 16, 32, 64)),
        *(DType("uint%d" % bits, 1, bits) for bits in (8, 16, 32, 64)),
        *(DType("float%d" % bits, 2, bits) for bits in (16, 32, 64)),
        DType("bfloat16", 4, 16),
        DType("float8_e3m4", 7, 8),
        DType("float8_e4m3", 8, 8),
        DType("float8_e4m3b11fnuz", 9, 8),
        DType("float8_e4m3fn", 10, 8),
        DType("float8_e4m3fnuz", 11, 8),
        DType("float8_e5m2", 12, 8),
        DType("float8_e5m2fnuz", 13, 8),
        DType("float8_e8m0fnu", 14, 8),
        DType("complex64", 5, 64),
        DType("complex128", 5, 128),
    ]
}
BY_TRIPLE = {d.triple: d for d in DTYPES.values()}
PLAIN = {n for n, d in DTYPES.items() if d.family not in ("bfloat", "float8")}
"""What NumPy has by itself."""
ML = set(DTYPES) - PLAIN
"""What NumPy gets from ml_dtypes."""


@dataclass(frozen=True)
class Layout:
    """Where the elements lie: shape, strides and offset count elements, ``shift`` counts bytes."""

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    shift: int = 0
    readonly: bool = False

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def contiguous(self) -> bool:
        return is_contiguous(self.shape, self.strides)


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    if 0 in shape:
        return True
    want = row_major(shape)
    return all(n == 1 or s == w for n, s, w in zip(shape, strides, want, strict=True))


def _layout(name, shape, strides=None, **more) -> Layout:
    return Layout(name, shape, row_major(shape) if strides is None else strides, **more)


LAYOUTS = {
    layout.name: layout
    for layout in [
        _layout("scalar", ()),
        _layout("empty-0", (0,)),
        _layout("empty-0x3", (0, 3)),
        _layout("empty-3x0x4", (3, 0, 4)),
        _layout("contiguous-1d", (7,)),
        _layout("contiguous-2d", (3, 4)),
        _layout("contiguous-3d", (2, 3, 4)),
        _layout("transposed-2d", (4, 3), (1, 4)),
        _layout("transposed-3d", (4, 3, 2), (1, 4, 12)),
        _layout("permuted-3d", (3, 2, 4), (4, 12, 1)),
        _layout("offset-1d", (5,), offset=3),
        _layout("offset-2d", (2, 4), offset=4),
        _layout("gapped-2d", (3, 2), (4, 1), offset=1),
        _layout("step2-1d", (4,), (2,)),
        _layout("step2-2d", (3, 2), (4, 2), offset=1),
        _layout("stride0-1d", (5,), (0,), offset=2),
        _layout("stride0-2d", (3, 4), (0, 1)),
        _layout("stride0-inner", (3, 4), (1, 0)),
        _layout("negative-1d", (7,), (-1,), offset=6),
        _layout("negative-rows", (3, 4), (-4, 1), offset=8),
        _layout("negative-both", (3, 4), (-4, -1), offset=11),
        _layout("odd-one-1d", (1,), (77,)),
        _layout("odd-one-first", (1, 4), (99, 1)),
        _layout("odd-one-last", (3, 1), (1, 99)),
        _layout("odd-one-middle", (2, 1, 4), (4, 5, 1)),
        _layout("negative-one", (1, 4), (-4, 1)),
        _layout("misaligned-1d", (7,), shift=1),
        _layout("misaligned-2d", (3, 4), shift=1),
        _layout("readonly-scalar", (), readonly=True),
        _layout("readonly-empty", (0, 3), readonly=True),
        _layout("readonly-1d", (7,), readonly=True),
        _layout("readonly-2d", (3, 4), readonly=True),
        _layout("readonly-transposed", (4, 3), (1, 4), readonly=True),
        _layout("readonly-negative", (7,), (-1,), offset=6, readonly=True),
    ]
}


@cache
def pattern(dtype: DType, count: int) -> bytes:
    """``count`` elements, each different from its neighbours, none of them a NaN or negative zero:
    a consumer may read them through its own arithmetic and still give back the same bits."""
    steps = np.arange(count)
    if dtype.family == "bool":
        # without a period, so that no other reading of the memory looks right by chance
        return bytes(b"110100010111001010001101110101"[i % 30] & 1 for i in range(count))
    if dtype.family in ("int", "uint"):
        return (steps % 100 + 1).astype("u%d" % dtype.itemsize).tobytes()
    if dtype.family == "float":
        return (steps + 1.5).astype("f%d" % dtype.itemsize).tobytes()
    if dtype.family == "bfloat":
        return ((steps + 1).astype("f4").view("u4") >> 16).astype("u2").tobytes()
    if dtype.family == "float8":
        return (0x11 + (steps * 5) % 0x40).astype("u1").tobytes()
    return ((steps + 1.5) - 1j * (steps + 0.5)).astype("c%d" % dtype.itemsize).tobytes()


def room(dtype: DType, layout: Layout) -> int:
    """How many elements the backing memory must have: enough for a reading that ignores strides
    too, so that it meets the pattern and is not right by chance (zeros after a False)."""
    if layout.size == 0:
        return max(layout.offset, 1)
    reach = sum((n - 1) * s for n, s in zip(layout.shape, layout.strides, strict=True) if s > 0)
    return layout.offset + max(reach, layout.size - 1) + 1


@cache
def truth(dtype: DType, layout: Layout) -> bytes:
    """The elements in row-major order, as bytes: what every reading must give."""
    source = pattern(dtype, room(dtype, layout))
    return gather(source, dtype.itemsize, layout)


def gather(source: bytes, itemsize: int, layout: Layout) -> bytes:
    """Plain Python on purpose: no library's idea of strides takes part in the expectation."""
    indices = [layout.offset]
    for extent, stride in zip(layout.shape, layout.strides, strict=True):
        indices = [i + k * stride for i in indices for k in range(extent)]
    return b"".join(source[i * itemsize : (i + 1) * itemsize] for i in indices)


def backing(dtype: DType, layout: Layout, tail: int = 0) -> np.ndarray:
    """Writable bytes (a NumPy array of uint8 that owns its memory) holding the pattern; element
    ``layout.offset`` of the pattern is element zero of the layout. Starts at a multiple of ALIGN
    plus ``layout.shift``."""
    data = pattern(dtype, room(dtype, layout))
    raw = np.zeros(max(len(data) + tail, ROOM) + 2 * ALIGN, "u1")
    start = -raw.__array_interface__["data"][0] % ALIGN + layout.shift
    body = raw[start : start + len(data)]
    body[:] = np.frombuffer(data, "u1")
    return body


def strided(dtype: DType, layout: Layout, np_dtype=None) -> np.ndarray:
    """The layout as a NumPy array over fresh backing memory."""
    size = dtype.itemsize
    array = np.ndarray(
        layout.shape,
        np.dtype(dtype.unit if np_dtype is None else np_dtype),
        buffer=backing(dtype, layout),
        offset=0 if layout.size == 0 else layout.offset * size,
        strides=[s * size for s in layout.strides],
    )
    if layout.readonly:
        array.flags.writeable = False
    return array
