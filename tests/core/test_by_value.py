"""Copies, pickles and bytes of a Tensor are its values, and never lose dtype, layout or flags."""

from __future__ import annotations

import copy
import io
import math
import pickle

import pytest

import dlshim
from doubles import capsules as caps
from doubles.asking import versioned
from doubles.producers import P2

pytestmark = pytest.mark.once

PROTOCOLS = pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))

LAYOUTS = {
    "plain": ((2, 3), (3, 1), 0),
    "transposed": ((3, 2), (1, 3), 0),
    "step": ((3,), (2,), 0),
    "negative": ((4,), (-1,), 3),
    "broadcast": ((2, 2), (0, 1), 0),
    "empty": ((0, 3), (3, 1), 0),
    "0-d": ((), (), 0),
    "extent of 1": ((2, 1, 3), (3, 77, 1), 0),
}


def values(x):
    with versioned(dlshim.upgrade(x, order="K")) as imported:
        return imported.values()


@PROTOCOLS
@pytest.mark.parametrize("dtype", ["int32", "bfloat16", "complex128", (2, 32, 4)])
@pytest.mark.parametrize(("shape", "strides", "start"), LAYOUTS.values(), ids=LAYOUTS)
def test_a_pickle_holds_the_values(protocol, dtype, shape, strides, start):
    x = P2(shape, dtype, strides=strides, start=start)
    t = dlshim.from_dlpack(x)
    again = pickle.loads(pickle.dumps(t, protocol))
    assert (again.shape, again.dtype, again.readonly) == (shape, t.dtype, False)
    assert again.data_ptr() != t.data_ptr() and values(again) == x.values()
    kept = strides if x.shape == (3, 2) else caps.row_major(shape)
    assert again.strides == kept, "column-major stays, everything else becomes row-major"


@pytest.mark.parametrize("name", ["plain", "transposed", "extent of 1"])
def test_protocol_5_goes_out_of_band_without_a_copy(name):
    shape, strides, start = LAYOUTS[name]
    t = dlshim.from_dlpack(P2(shape, "bfloat16", strides=strides, start=start))
    buffers = []
    data = pickle.dumps(t, 5, buffer_callback=buffers.append)
    assert io.BytesIO().write(buffers[0]) == t.nbytes  # whoever sends it asks for bare bytes
    (buffer,) = buffers
    assert (buffer.raw().format, buffer.raw().nbytes) == ("B", t.nbytes)
    again = pickle.loads(data, buffers=buffers)
    assert again.data_ptr() == t.data_ptr() and not again.readonly
    assert pickle.loads(data, buffers=[bytes(buffer)]).readonly, "as the received buffer is"


@PROTOCOLS
def test_read_only_stays_so(protocol):
    t = dlshim.from_dlpack(P2((3,), "int32", readonly=True))
    assert pickle.loads(pickle.dumps(t, protocol)).readonly


@PROTOCOLS
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("size", [1, 3, 4])
def test_elements_below_8_bits_keep_their_packing(protocol, padded, size):
    memory = bytearray(b"\1\2\3\4"[:size])
    x = P2((size,), (0, 4, 1), flags=4 * padded, memory=memory)
    again = pickle.loads(pickle.dumps(dlshim.from_dlpack(x), protocol))
    assert again.nbytes == (size if padded else (size + 1) // 2)
    assert again.tobytes() == bytes(memory[: again.nbytes])
    with versioned(again) as imported:
        assert imported.view.flags & 4 == (4 if padded else 0)


def test_device_memory_is_not_pickled():
    t = dlshim.from_dlpack(P2((3,), device=(2, 0)), stream=-1)
    for attempt in (pickle.dumps, lambda t: t.tobytes()):
        with pytest.raises(TypeError, match='device="cpu"'):
            attempt(t)


def parts(**changes):
    rebuild, given = dlshim.from_dlpack(P2((2, 3), "int16")).__reduce_ex__(4)
    names = ("version", "shape", "kept", "order", "readonly", "buffer")
    return rebuild, {**dict(zip(names, given, strict=True)), **changes}


def test_the_name_in_a_pickle_is_a_stable_one():
    rebuild, given = parts()
    assert rebuild is dlshim._rebuild and list(given)[:1] == ["version"] and given["version"] == 1
    assert b"dlshim" in (data := pickle.dumps(dlshim.from_dlpack(P2()))) and b"_rebuild" in data
    assert b"_core" not in data and b"arrays" not in data


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"buffer": b"12345678901"},
        {"buffer": b""},
        {"shape": (2, 4)},
        {"shape": (-1, -6)},
        {"shape": (2**62, 2**62)},
        {"kept": (0, 16, 1, True)},
        {"kept": (0, 64, 1, False)},
        {"kept": (0, 16, 1, True), "shape": (12,)},
        {"kept": (0, 0, 0, False), "buffer": b""},
        {"order": "A"},
    ],
)
def test_a_pickle_that_does_not_fit_is_refused(changes):
    rebuild, given = parts()
    assert rebuild(*given.values()).shape == (2, 3)
    rebuild, given = parts(**changes)
    with pytest.raises(ValueError):
        rebuild(*given.values())


class Twofold(tuple):
    """A tuple that shows other items to those who ask it for an iterator."""

    def __iter__(self):
        return iter((12, 0)) if len(self) == 2 else iter((0, 16, 1, False))


class Wavering:
    """True when it is asked an odd number of times."""

    asked = 0

    def __bool__(self):
        self.asked += 1
        return self.asked % 2 == 1


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_pickle_is_read_once(order):
    """Whatever its parts answer when they are asked again, no Tensor reaches behind its memory."""
    rebuild, given = parts(order=order, buffer=b"", shape=Twofold((2, 3)))
    assert rebuild(*given.values()).shape == (12, 0)
    rebuild, given = parts(order=order, kept=Twofold((0, 64, 1, False)))
    assert rebuild(*given.values()).itemsize == 2
    for first in range(4):
        padded = Wavering()
        padded.asked = first
        rebuild, given = parts(order=order, kept=(1, 4, 1, padded), shape=(24,))
        try:
            assert rebuild(*given.values()).nbytes == 12
        except ValueError:
            assert first % 2 == 0, "12 bytes are 24 elements of 4 bits that are packed"


class Narrow(int):
    """An int of one byte, as NumPy's: products wrap."""

    def __mul__(self, other):
        return Narrow(int(self) * int(other) % 256)

    __rmul__ = __mul__


def test_products_that_wrap_are_refused():
    rebuild, given = parts(kept=(1, 8, 1, False), shape=(Narrow(16),) * 2, buffer=b"")
    with pytest.raises(ValueError, match="0 bytes are not"):
        rebuild(*given.values())
    rebuild, given = parts(kept=(1, 8, 1, False), shape=(Narrow(16),) * 2, buffer=bytes(256))
    t = rebuild(*given.values())
    assert {type(extent) for extent in (*t.shape, *t.strides)} == {int}


NAN = float("nan")
CRAFTED_SHAPES = [
    (3,), (), (0,), (-1,), (-1, -3), (2**62, 4), (2**63,), (2**64, 0), (3, 2**70, 0), (1.0,),
    ("3",), [3], (True, 3), (None,), ((3,),), (2**31, 2**33, 0), (1,) * 65, (1,) * 70000, (NAN,),
    (0.5, 6), (1j,), (3, 0, 2**62, 2**62), (Narrow(128), 2), (6,), (12,), (24,), (48,),
    (Narrow(16),) * 2, 3, None, "123",
]  # fmt: skip
CRAFTED_KEPT = [
    (1, 8, 1, False), (2, 64, 1, False), (1, 8, 1, True), (1, 4, 1, True), (1, 4, 1, False),
    (17, 4, 2, False), (0, 1, 3, True), (2, 0, 1, False), (255, 255, 65535, False),
    (2, 32, 0, False), (-1, 8, 1, False), (2, 2**40, 1, False), (1, 8, 65536, False),
    (1, 8, 1), (), (1, 8, 1, 0, 0),
    (1.0, 8, 1, False), ("1", 8, 1, False), (True, 8, 1, False), (6, 1, 1, True), (1, 8, 1, "x"),
    (1, 8, 1, None), None, (1, Narrow(8), 1, False),
]  # fmt: skip
CRAFTED_BUFFERS = [
    b"abc", bytearray(24), b"", memoryview(b"abcdef")[::2], 3, None, "abc", memoryview(bytes(24)),
    pickle.PickleBuffer(b"abc"), memoryview(bytes(24)).cast("d", (3,)),
]  # fmt: skip


@pytest.mark.parametrize("order", ["C", "F", "K", None])
@pytest.mark.parametrize("kept", CRAFTED_KEPT, ids=repr)
def test_no_crafted_pickle_reaches_behind_its_bytes(kept, order):
    """It makes a Tensor whose elements are all in the buffer, or it is refused."""
    for shape in CRAFTED_SHAPES:
        for buffer in CRAFTED_BUFFERS:
            try:
                t = dlshim._rebuild(1, shape, kept, order, "x", buffer)
            except (ValueError, TypeError, OverflowError, BufferError, MemoryError):
                continue
            # Padded elements have a byte each.
            bits = t.dtype.lanes * (8 if kept[3] else t.dtype.bits)
            assert all(type(extent) is int and extent >= 0 for extent in t.shape)
            assert (math.prod(t.shape) * bits + 7) // 8 <= memoryview(buffer).nbytes


def test_extents_that_wrap_are_refused():
    np = pytest.importorskip("numpy", reason="its scalars have a width")
    for kind, extent in ((np.uint8, 16), (np.uint16, 256), (np.int64, 2**32)):
        rebuild, given = parts(kept=(1, 8, 1, False), shape=(kind(extent),) * 2, buffer=b"")
        with np.errstate(all="ignore"), pytest.raises(ValueError, match="0 bytes are not"):
            rebuild(*given.values())
    rebuild, given = parts(shape=(np.uint8(2), np.int64(3)), kept=tuple(np.array((0, 16, 1, 0))))
    t = rebuild(*given.values())
    assert {type(extent) for extent in (*t.shape, *t.strides)} == {int}
    rebuild, given = parts(shape=(2.0, 3))
    with pytest.raises(TypeError):
        rebuild(*given.values())


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize(("shape", "strides", "start"), LAYOUTS.values(), ids=LAYOUTS)
def test_a_copy_has_memory_of_its_own(make, shape, strides, start):
    x = P2(shape, "bfloat16", strides=strides, start=start, readonly=True)
    made = make(dlshim.from_dlpack(x))
    assert type(made) is dlshim.Tensor and (made.shape, made.dtype) == (shape, "bfloat16")
    assert made.is_copied and not made.readonly and made.data_ptr() != x.element_zero
    assert values(made) == x.values()


@pytest.mark.parametrize("dtype", ["int32", "bfloat16", "bool"])
@pytest.mark.parametrize(("shape", "strides", "start"), LAYOUTS.values(), ids=LAYOUTS)
def test_tobytes_is_numpys(dtype, shape, strides, start):
    np = pytest.importorskip("numpy", reason="its tobytes() is the model")
    x = P2(shape, dtype, strides=strides, start=start)
    t = dlshim.from_dlpack(x)
    model = np.asarray(dlshim.from_dlpack(t, reinterpret=f"uint{8 * t.itemsize}"))
    assert t.tobytes() == model.tobytes()
    assert dlshim.from_dlpack(t, readonly=True).tobytes() == model.tobytes()
    for order in ("C", "F", "A", None):
        assert t.tobytes(order) == t.tobytes(order=order) == model.tobytes(order)
    with pytest.raises(ValueError, match="order"):
        t.tobytes("K")
    with pytest.raises(TypeError):
        t.tobytes("C", "C")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("shape", "strides", "start"), LAYOUTS.values(), ids=LAYOUTS)
def test_a_view_is_the_memory_with_another_dtype(dtype, shape, strides, start):
    t = dlshim.from_dlpack(P2(shape, dtype, strides=strides, start=start))
    bits = f"uint{8 * t.itemsize}"
    seen = t.view(bits)
    assert (seen.dtype, seen.shape, seen.strides) == (bits, t.shape, t.strides)
    assert seen.data_ptr() == t.data_ptr() and seen.tobytes() == t.tobytes()
    assert dlshim.from_dlpack(t, readonly=True).view(dtype=bits).readonly
    with pytest.raises(BufferError, match="of that width"):
        t.view("int8")
    with pytest.raises(TypeError):
        t.view()


def test_a_rebuilt_tensor_keeps_its_buffer_alive():
    data = pickle.dumps(dlshim.from_dlpack(P2((3,), "int32")), 5)
    again = pickle.loads(data)
    capsule = again.__dlpack__(max_version=(1, 0))
    del again
    with caps.take(capsule) as imported:
        assert imported.values() == [0, 1, 2]
