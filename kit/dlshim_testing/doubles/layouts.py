"""Layouts of strided memory at the edges of what a host copy does in one step.

A layout is (shape, strides, start, itemsize): strides and start count elements, and no element lies
below element 0 of the block.  `edges` has every way of copying a plane (core/copy.c,
core/copy.c) with extents around the ends of its loops.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence

Layout = tuple[tuple[int, ...], tuple[int, ...], int, int]

#: Sizes that have a loop of their own, and some that are moved in halves or by memcpy.
SIZES = (1, 2, 4, 8, 16, 3, 5, 6, 12, 24, 32, 40, 65)
TILE = 256  # bytes
REPEATED = 16 << 10  # bytes


def lowest(shape: Sequence[int], strides: Sequence[int]) -> int:
    """The element zero of a layout whose lowest element is 0."""
    return -sum(min(0, (n - 1) * s) for n, s in zip(shape, strides, strict=True) if n)


def bytes_of(layout: Layout) -> int:
    """From element 0 to the end of the highest."""
    shape, strides, start, itemsize = layout
    last = sum(max(0, (n - 1) * s) for n, s in zip(shape, strides, strict=True) if n)
    return (start + last + 1) * itemsize


def layout(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> Layout:
    return tuple(shape), tuple(strides), lowest(shape, strides), itemsize


def rows() -> Iterator[Layout]:
    """One axis, and a few rows of a few items."""
    for size in SIZES:
        for step in (-2, -1, 0, 2, 3):
            for n in (2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 18, 31, 32, 33, 65):
                yield layout((n,), (step,), size)
        for n in (2, 3, 4, 5):
            yield layout((7, n), (-3 * n, 3), size)
            yield layout((7, n), (1, 8), size)


def repeats() -> Iterator[Layout]:
    """Broadcasts, to below and above the size of the block that is copied over and over."""
    for size in (1, 2, 3, 16, 24):
        for extra in (-1, 0, 1):
            n = REPEATED // size + extra
            yield layout((n,), (0,), size)
            yield layout((3, n // 3), (0, 1), size)
            yield layout((2, 2 * n), (1, 0), size)
    for strides in ((0, 5, 0, 1), (0, 1, 0, -3), (5, 0, 0, 1), (1, 0, 9, 0), (0, 0, 0, 2)):
        yield layout((3, 4, 2, 3), strides, 4)


def planes() -> Iterator[Layout]:
    """Transposed planes around the sides of blocks and tiles."""
    for size in SIZES:
        side = max(4, 16 // size) if size <= 8 else 4
        tile = max(side, TILE // size)
        edges = (side - 1, side, side + 1, 2 * side - 1)
        ends = (tile - 1, tile, tile + 1, tile + side - 1, tile + side, tile + side + 1)
        for near in edges:
            for far in (*edges, *ends):
                for height, width in {(near, far), (far, near)}:
                    yield layout((height, width), (1, height), size)
                    yield layout((height, width), (-1, height + 1), size)
                    if far <= side:
                        yield layout((height, width), (1, -height - 2), size)
                        yield layout(
                            (2, height, 3, width), (height * width * 3, 1, height, -9), size
                        )


def edges() -> Iterator[Layout]:
    yield from rows()
    yield from repeats()
    yield from planes()


def guarded(room: int) -> tuple[int, int]:
    """(first, end) of so many bytes or more between two pages that nobody may touch."""
    import mmap

    page = mmap.PAGESIZE
    room = -(-room // page) * page
    block = mmap.mmap(-1, room + 2 * page)
    _kept.append(block)
    start = ctypes.addressof(ctypes.c_char.from_buffer(block))
    for closed in (start, start + page + room):
        if ctypes.CDLL(None).mprotect(ctypes.c_void_p(closed), ctypes.c_size_t(page), 0) != 0:
            raise OSError("mprotect fails")
    return start + page, start + page + room


_kept: list[object] = []
