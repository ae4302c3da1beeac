"""The host copy, against a model that gathers one element after the other.

kit/dlshim_testing/doubles/layouts.py has the layouts at the edges of its loops;
fuzz/core/fuzz_copy.c watches both ends of the memory that is written.
"""

from __future__ import annotations

import array
import ctypes
import math
import threading

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

import dlshim
import sampling
from doubles import capsules as caps
from doubles import child
from doubles import layouts as edges_of
from doubles.asking import bare, counting, tells, versioned
from doubles.differences import first_difference
from doubles.producers import P1, P2, P0Mxnet

pytestmark = pytest.mark.once  # copies are never handed on

SETTINGS = settings(
    max_examples=sampling.fewer(120, 20), deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip


def opaque(itemsize):
    """A dtype of any whole number of bytes: opaque handles of 8 bits and as many lanes."""
    return (3, 8, itemsize)


@st.composite
def layouts(draw, most_dims=5):
    """Shape, strides and the lowest element, so that every element lies in memory."""
    ndim = draw(st.integers(0, most_dims))
    shape = tuple(draw(st.lists(st.integers(0, 5), min_size=ndim, max_size=ndim)))
    strides = tuple(draw(st.lists(st.integers(-7, 7), min_size=ndim, max_size=ndim)))
    start = -sum(min(0, (n - 1) * s) for n, s in zip(shape, strides, strict=True) if n)
    return shape, strides, start


def memory_of(shape, strides, start, itemsize):
    """A block in which every byte differs from its neighbours."""
    last = start + sum(max(0, (n - 1) * s) for n, s in zip(shape, strides, strict=True) if n)
    size = (last + 1) * itemsize
    block = (ctypes.c_char * (size + 64))()
    pattern = bytes((7 * k + k // 251) % 256 for k in range(size))
    ctypes.memmove(ctypes.addressof(block), pattern, size)
    return block, pattern


def gather(pattern, shape, strides, start, itemsize):
    return b"".join(
        pattern[(start + offset) * itemsize : (start + offset + 1) * itemsize]
        for offset in caps.offsets(shape, strides)
    )


@SETTINGS
@given(layout=layouts(), itemsize=st.integers(1, 17))
@example(layout=((), (), 0), itemsize=17)
@example(layout=((5, 5), (5, 1), 0), itemsize=3)
@example(layout=((5,), (-1,), 4), itemsize=8)
@example(layout=((4, 0, 3), (1, 1, 1), 0), itemsize=4)
@example(layout=((1, 5, 1, 5), (-3, 1, 7, 5), 0), itemsize=16)
def test_copies_equal_the_model(layout, itemsize):
    shape, strides, start = layout
    memory, pattern = memory_of(shape, strides, start, itemsize)
    x = P2(shape, opaque(itemsize), strides=strides, start=start, memory=memory)
    wanted = gather(pattern, shape, strides, start, itemsize)
    with counting() as count:
        imported = versioned(dlshim.upgrade(x), copy=True)
    assert count.copied == 1
    assert imported.view.strides in (caps.row_major(shape), None)
    assert imported.view.element_zero % 64 == 0
    assert b"".join(imported.view.elements()) == wanted
    assert ctypes.string_at(imported.view.element_zero, len(wanted)) == wanted
    imported.release()
    assert bytes(memory)[: len(pattern)] == pattern


@SETTINGS
@given(layout=layouts(most_dims=8), itemsize=st.sampled_from([1, 2, 4, 8, 16]))
def test_copies_of_the_usual_sizes_equal_the_model(layout, itemsize):
    shape, strides, start = layout
    memory, pattern = memory_of(shape, strides, start, itemsize)
    x = P1(shape, opaque(itemsize), strides=strides, start=start, memory=memory)
    with bare(dlshim.upgrade(x), copy=True) as imported:
        assert b"".join(imported.view.elements()) == gather(
            pattern, shape, strides, start, itemsize
        )


@SETTINGS
@given(
    shape=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    order=st.randoms(use_true_random=False),
    flip=st.lists(st.booleans(), min_size=5, max_size=5),
)
def test_permuted_and_flipped_arrays(shape, order, flip):
    """What views of real arrays look like: dimensions that merge in part."""
    axes = list(range(len(shape)))
    order.shuffle(axes)
    base = caps.row_major([shape[a] for a in axes])
    strides, start = [0] * len(shape), 0
    for position, axis in enumerate(axes):
        strides[axis] = base[position]
        if flip[axis]:
            start += (shape[axis] - 1) * strides[axis]
            strides[axis] = -strides[axis]
    memory, pattern = memory_of(shape, strides, start, 4)
    x = P2(tuple(shape), "float32", strides=tuple(strides), start=start, memory=memory)
    with versioned(dlshim.upgrade(x, order="C")) as imported:
        assert b"".join(imported.view.elements()) == gather(pattern, shape, strides, start, 4)


def check_copy(shape, strides, start, itemsize, shift=0):
    """dlshim's copy of pattern memory that begins `shift` bytes into an aligned block."""
    size = edges_of.bytes_of((shape, strides, start, itemsize))
    pattern = PATTERN[:size]
    block = (ctypes.c_char * (size + shift))()
    ctypes.memmove(ctypes.addressof(block) + shift, pattern, size)
    memory = (ctypes.c_char * size).from_buffer(block, shift)
    x = P2(shape, opaque(itemsize), strides=strides, start=start, memory=memory)
    tensor = dlshim.from_dlpack(x, copy=True)
    wanted = gather(pattern, shape, strides, start, itemsize)
    found = ctypes.string_at(tensor.data_ptr(), len(wanted))
    assert first_difference(found, wanted) is None, (shape, strides, itemsize)
    assert tensor.data_ptr() % 64 == 0


#: No two of its lines of 256 bytes are alike, nor neighbours in a line.
PATTERN = bytes((7 * k + k // 251 + k // 65521) % 256 for k in range(1 << 20))


@pytest.mark.parametrize("way", ["rows", "repeats", "planes"])
def test_the_ends_of_every_loop(way):
    count = 0
    for layout in getattr(edges_of, way)():
        check_copy(*layout, shift=count % 4)
        count += 1
    assert count > 15


EXTENTS = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 255, 257, 273])


@st.composite
def views(draw):
    """Permuted, flipped, stepped, repeated and overlapping views of up to four dimensions."""
    shape = draw(st.lists(EXTENTS, min_size=1, max_size=4))
    while math.prod(shape) > 20_000:
        shape[shape.index(max(shape))] = 2
    strides, step = [0] * len(shape), draw(st.integers(1, 3))
    for axis in draw(st.permutations(range(len(shape)))):
        kind = draw(st.sampled_from(["on", "on", "on", "back", "repeated", "overlapping"]))
        if kind == "overlapping":
            strides[axis] = draw(st.integers(-5, 5))
        elif kind != "repeated":
            strides[axis] = -step if kind == "back" else step
            step = step * shape[axis] + draw(st.sampled_from([0, 0, 0, 1, 5]))
    itemsize = draw(st.sampled_from(edges_of.SIZES))
    size = edges_of.bytes_of(edges_of.layout(shape, strides, itemsize))
    return edges_of.layout(shape, strides, itemsize if size <= len(PATTERN) else 1)


@SETTINGS
@given(layout=views(), shift=st.integers(0, 15))
def test_views_of_every_kind(layout, shift):
    assume(edges_of.bytes_of(layout) <= len(PATTERN))
    check_copy(*layout, shift=shift)


def test_nothing_outside_of_the_span_is_read():
    """The source lies against a page that nobody may read, first with its end, then with its
    beginning."""
    child.program("copies_at_a_guarded_page")


def test_copies_of_large_blocks_are_whole():
    """From 4 MB on the kernel is asked for large pages; the memory is free()'d as any other."""
    size = (4 << 20) + 4097
    block = bytes(range(256)) * (size // 256) + bytes(size % 256)
    for _ in range(3):
        with counting() as count:
            tensor = dlshim.from_dlpack(memoryview(block), copy=True)
        assert count.copied == 1
        assert first_difference(ctypes.string_at(tensor.data_ptr(), size), block) is None


def test_copies_of_real_numpy_views():
    np = pytest.importorskip("numpy", reason="NumPy's own copies as the model")
    rng = np.random.default_rng(7)
    for _ in range(150):
        shape = tuple(rng.integers(1, 7, rng.integers(1, 5)))
        a = rng.integers(0, 255, shape).astype(rng.choice(["u1", "i2", "f4", "f8", "c16"]))
        a = a.transpose(rng.permutation(a.ndim))
        a = a[tuple(slice(None, None, int(rng.choice([-2, -1, 1, 2]))) for _ in range(a.ndim))]
        tensor = dlshim.from_dlpack(a, copy=True)
        assert memoryview(tensor).cast("B").tobytes() == a.tobytes()


@pytest.mark.parametrize("dtype", [(1, 8, 1), (2, 32, 1), (5, 128, 1)], ids=str)
def test_large_copies(dtype):
    """Large enough to be done with the GIL released."""
    size = caps.itemsize_of(dtype)
    rows, columns = 1200, 1000
    count = rows * columns * size
    block = (ctypes.c_char * count)()
    row = bytes(range(251)) * (columns * size // 251 + 2)
    for k in range(rows):
        ctypes.memmove(ctypes.addressof(block) + k * columns * size, row[k % 7 :], columns * size)
    x = P2((columns, rows), dtype, strides=(1, columns), memory=block)
    imported = versioned(dlshim.upgrade(x), copy=True)
    found = ctypes.string_at(imported.view.element_zero, count)
    raw = bytes(block)
    for column in (0, 1, columns // 2, columns - 1):
        wanted = b"".join(
            raw[(k * columns + column) * size : (k * columns + column + 1) * size]
            for k in range(rows)
        )
        part = found[column * rows * size : (column + 1) * rows * size]
        assert first_difference(part, wanted) is None, column
    imported.release()


def test_large_copies_in_several_threads():
    block = array.array("d", range(400_000))
    failures = []

    def copy():
        try:
            for _ in range(5):
                tensor = dlshim.from_dlpack(memoryview(block)[::-1], copy=True)
                view = memoryview(tensor)
                assert (view[0], view[-1], view[1234]) == (399_999.0, 0.0, 398_765.0)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=copy) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_broadcast_copies_are_as_large_as_they_look():
    x = P2((1000, 100), "float32", strides=(0, 1))
    with versioned(dlshim.upgrade(x), copy=True) as imported:
        assert imported.view.strides == (100, 1)
        assert first_difference(imported.values(), list(range(100)) * 1000) is None


def test_subbyte_elements_are_not_copied_by_guess():
    """Nobody says how they are packed; relabelled ones are whole bytes."""
    for x in (P0Mxnet((5,), (1, 1, 1)), P2((8,), (0, 4, 1)), P2((4,), (0, 4, 1), strides=(2,))):
        with pytest.raises(BufferError) as error:
            versioned(dlshim.upgrade(x), copy=True)
        tells(error.value, type(x).__name__, "bit|byte")
    mxnet = P0Mxnet((5,), (1, 1, 1))
    with bare(dlshim.upgrade(mxnet, reinterpret="uint8"), copy=True) as imported:
        assert ctypes.string_at(imported.view.element_zero, 5) == bytes(range(5))


def test_padded_subbyte_elements_are_copied_as_bytes():
    x = P2((5,), (0, 4, 1), flags=caps.SUBBYTE_PADDED)
    with versioned(dlshim.upgrade(x), copy=True) as imported:
        assert imported.view.flags == caps.SUBBYTE_PADDED | caps.IS_COPIED
        assert ctypes.string_at(imported.view.element_zero, 5) == bytes(range(5))
