"""Offsets, strides, alignment, arrays without elements or dimensions."""

from __future__ import annotations

import ctypes
import signal
from typing import Any

import pytest

import dlshim
from doubles import capsules as caps
from doubles import consumers

from .running import alive, alone, ends_with, needs
from .standin import Gives, shown

V1 = (1, 0)
SHIFTED = {"start": 2, "byte_offset": 8}


# ---- the byte offset ------------------------------------------------------------------------


@needs("torch<2.10")
def test_torch_ignores_the_offset() -> None:
    """pytorch/pytorch#168177: wrong numbers, and no error."""
    import torch

    assert torch.from_dlpack(Gives((4,), **SHIFTED)).tolist() == [0, 1, 2, 3]
    x = Gives((4,), **SHIFTED)
    y = torch.from_dlpack(dlshim.upgrade(x))
    assert y.tolist() == [2, 3, 4, 5] and y.data_ptr() == x.made[-1].element_zero


def slice_of_mlx() -> Any:
    """[3, 4, 5, 6], sent as an offset of 12 bytes from the array that it is part of."""
    import mlx.core as mx

    x = mx.array([float(k) for k in range(10)], dtype=mx.float32)[3:7]
    mx.eval(x)
    return x


def as_cutlass_takes(x: Any) -> caps.View:
    """NVIDIA/cutlass#3450: the kernel was compiled for an offset of 0."""
    view = shown(x)
    if view.byte_offset != 0:
        raise ValueError("expected byte_offset=0")
    return view


@needs("mlx")
def test_a_consumer_that_forbids_an_offset() -> None:
    """pytorch/pytorch#182924: producers begin to send it; mlx does in a release."""
    with pytest.raises(ValueError, match="byte_offset=0"):
        as_cutlass_takes(slice_of_mlx())
    capsule = dlshim.upgrade(slice_of_mlx()).__dlpack__()
    assert caps.look(capsule).values() == [3, 4, 5, 6]
    assert as_cutlass_takes(dlshim.upgrade(slice_of_mlx())).byte_offset == 0


@needs("mlx", "warp-lang", "onnxruntime")
def test_warp_and_onnxruntime_ignore_the_offset_of_mlx() -> None:
    """Two real libraries, shifted values, no error: NVIDIA/warp#1573."""
    import onnxruntime
    import warp as wp
    from onnxruntime.capi import _pybind_state as native

    def by_onnxruntime(capsule: Any) -> list[float]:
        value = onnxruntime.OrtValue(native.OrtValue.from_dlpack(capsule, False))
        return value.numpy().tolist()

    wp.init()
    assert wp.from_dlpack(slice_of_mlx()).numpy().tolist() == [0, 1, 2, 3]
    assert by_onnxruntime(slice_of_mlx().__dlpack__()) == [0, 1, 2, 3]
    assert wp.from_dlpack(dlshim.upgrade(slice_of_mlx())).numpy().tolist() == [3, 4, 5, 6]
    assert by_onnxruntime(dlshim.to_capsule(slice_of_mlx())) == [3, 4, 5, 6]


# ---- strides --------------------------------------------------------------------------------


def negative_strides_into_torch() -> None:
    import numpy as np
    import torch

    alive()
    torch.from_dlpack(np.arange(4.0)[::-1])


@needs("torch<2.14", "numpy>=1.23")
def test_negative_strides_end_the_process_in_torch() -> None:
    """pytorch/pytorch#188023: abort(), which nobody can catch."""
    import numpy as np
    import torch

    assert ends_with(negative_strides_into_torch) == -signal.SIGABRT
    x = np.arange(4.0)[::-1]
    with pytest.raises(BufferError, match="negative strides"):
        torch.from_dlpack(dlshim.upgrade(x))
    assert torch.from_dlpack(dlshim.upgrade(x, order="C")).tolist() == [3, 2, 1, 0]


@needs("torch>=2.14", "numpy")
def test_negative_strides_in_the_newest_torch() -> None:
    """It raises now, in words that do not say why."""
    import numpy as np
    import torch

    x = np.arange(4.0)[::-1]
    with pytest.raises(RuntimeError, match="overflow"):
        torch.from_dlpack(x)
    assert torch.from_dlpack(dlshim.upgrade(x, order="C")).tolist() == [3, 2, 1, 0]


@alone
@needs("paddlepaddle>=3", "numpy")
def test_negative_strides_in_paddle() -> None:
    """The import succeeds; the first read asks for all the memory that there is."""
    import numpy as np
    import paddle

    x = np.arange(4, dtype="f4")[::-1]
    with pytest.raises(MemoryError):
        paddle.from_dlpack(x).numpy()
    with pytest.raises(BufferError, match="negative strides"):
        paddle.from_dlpack(dlshim.upgrade(x))
    assert paddle.from_dlpack(dlshim.upgrade(x, order="C")).numpy().tolist() == [3, 2, 1, 0]


@needs("torch<2.9")
def test_strides_of_extents_of_one() -> None:
    """pytorch/pytorch#83069: torch writes 1 there, and Triton compares to the letter."""
    import torch

    x = torch.ones(1, 77)
    assert shown(x).strides == (1, 1)
    with pytest.raises(RuntimeError, match="not contiguous"):
        consumers.ask_like_triton(Triton(x))
    with consumers.ask_like_triton(dlshim.upgrade(x)) as imported:
        assert imported.view.strides == (77, 1) and imported.view.data == x.data_ptr()


class Triton:
    """torch takes no stream on the host, which Triton passes: not what is looked at here."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __dlpack__(self, *, stream: Any = None) -> Any:
        return self.x.__dlpack__()


@needs("torch")
def test_strides_of_arrays_without_elements() -> None:
    """microsoft/onnxruntime#27450: an empty cache of keys and values is refused."""
    import torch

    x = torch.ones(1, 8, 0, 128)
    assert shown(x).strides != caps.row_major((1, 8, 0, 128)) and shown(x).data == 0
    with pytest.raises(RuntimeError, match="not contiguous"):
        consumers.ask_like_triton(Triton(x))
    with consumers.ask_like_triton(dlshim.upgrade(x)) as imported:
        assert imported.view.shape == (1, 8, 0, 128) and imported.view.data != 0


@needs("numpy<2.4")
def test_strides_that_are_left_out() -> None:
    """cupy/cupy#2095: contiguous arrays went out with NULL, and consumers followed it."""
    import numpy as np

    x = np.arange(6, dtype="f4").reshape(2, 3)
    assert shown(x).strides is None
    with pytest.raises(ValueError, match="strides must not be NULL"):
        consumers.ask_like_pyarrow26(Gives(version=V1, strides=None))
    with consumers.ask_like_pyarrow26(dlshim.upgrade(x)) as imported:
        assert imported.view.strides == (3, 1) and imported.view.data == x.ctypes.data


@needs("nanoarrow", "warp-lang")
def test_nanoarrow_reads_past_the_end_where_strides_are_left_out() -> None:
    """It takes the buffer for `itemsize` times as long; with strides it refuses."""
    import nanoarrow as na
    import warp as wp

    x = wp.zeros((2, 3), dtype=wp.float32, device="cpu")
    assert shown(x).strides is None and na.c_buffer(x).size_bytes == 96 > 2 * 3 * 4
    with pytest.raises(NotImplementedError):
        na.c_buffer(dlshim.upgrade(x))
    flat = dlshim.upgrade(wp.zeros(6, dtype=wp.float32, device="cpu"))
    assert na.c_buffer(flat).size_bytes == 24


@needs("nanoarrow<0.7", "array-api-strict", "numpy<2.1")
def test_nanoarrow_reads_past_the_end_of_a_numpy_array() -> None:
    """The same by array-api-strict on NumPy 1.26."""
    import array_api_strict as xp
    import nanoarrow as na

    x = xp.zeros((2, 3), dtype=xp.float32)
    assert na.c_buffer(x).size_bytes == 96 > 2 * 3 * 4
    with pytest.raises(NotImplementedError):
        na.c_buffer(dlshim.upgrade(x))


@needs("jax>=0.4.16,<0.12", "numpy")
def test_strides_that_jax_cannot_hold() -> None:
    """samuela/torch2jax#6: it refuses them; a copy is taken."""
    import jax
    import numpy as np

    x = np.arange(12, dtype="f4")[::2]
    with pytest.raises(RuntimeError, match="UNIMPLEMENTED"):
        jax.dlpack.from_dlpack(x)
    with pytest.raises(BufferError, match='order="auto"'):
        jax.dlpack.from_dlpack(dlshim.upgrade(x))
    for order in ("auto", "C"):
        y = jax.dlpack.from_dlpack(dlshim.upgrade(x, order=order))
        assert y.tolist() == x.tolist()


@needs("jax==0.4.26", "numpy")
def test_strides_that_jax_takes_for_a_layout_and_forgets() -> None:
    """Of aligned memory only: what is computed from the array is wrong."""
    import jax
    import numpy as np

    bytes_ = np.zeros(24 * 4 + 64, "u1")
    start = -bytes_.ctypes.data % 64
    x = bytes_[start : start + 96].view("f4").reshape(6, 4)
    x[...] = np.arange(24).reshape(6, 4)
    wrong = jax.dlpack.from_dlpack(x.T)
    assert np.asarray(wrong).tolist() == x.T.tolist() != np.asarray(wrong + 0).tolist()
    right = jax.dlpack.from_dlpack(dlshim.upgrade(x.T, order="C"))
    assert np.asarray(right + 0).tolist() == x.T.tolist()


@needs("paddlepaddle<3", "numpy")
def test_paddle_ignores_strides() -> None:
    """NVIDIA/cudf#1804 was the same: transposed arrays come out in the order of memory."""
    import numpy as np
    import paddle

    take = paddle.utils.dlpack.from_dlpack
    x = np.arange(6, dtype="f4").reshape(2, 3).T
    wrong = take(x.__dlpack__()).numpy()
    assert wrong.shape == (3, 2) and wrong.ravel().tolist() == [0, 1, 2, 3, 4, 5]
    assert take(dlshim.to_capsule(x, order="C")).numpy().tolist() == x.tolist()


@needs("numpy>=1.23")
def test_strides_that_are_no_multiple_of_the_item_size() -> None:
    """numpy/numpy#20336: DLPack cannot say them; dlshim names a cure that works."""
    import numpy as np

    x = np.array([(1, 2.5), (2, 3.5)], dtype=[("a", "i1"), ("b", "f4")])["b"]
    with pytest.raises((BufferError, RuntimeError), match="multiple of itemsize"):
        x.__dlpack__()
    with pytest.raises(BufferError, match="multiple of the item size"):
        np.from_dlpack(dlshim.upgrade(x))
    assert np.from_dlpack(dlshim.upgrade(x, order="C")).tolist() == [2.5, 3.5]


# ---- alignment, dimensions, copies ----------------------------------------------------------


@needs("jax>=0.4.31,<0.12", "numpy")
def test_memory_that_is_not_aligned() -> None:
    """jax-ml/jax#29810: JAX copies such memory without being asked."""
    import jax.numpy as jnp
    import numpy as np

    bytes_ = np.zeros(128, "u1")
    start = 4 - bytes_.ctypes.data % 64 + 64
    x = bytes_[start : start + 32].view("f4")
    assert x.ctypes.data % 64 == 4
    assert jnp.from_dlpack(x).unsafe_buffer_pointer() != x.ctypes.data
    capsule = dlshim.upgrade(x, align=64).__dlpack__(max_version=V1)
    view = caps.look(capsule)
    assert view.data % 64 == 0 and view.copied
    aligned = dlshim.from_dlpack(dlshim.upgrade(x, align=64))
    assert jnp.from_dlpack(aligned).unsafe_buffer_pointer() == aligned.data_ptr()


@needs("numpy>=1.23")
def test_scalars() -> None:
    """numpy/numpy#31893: NumPy's scalars have a buffer and no `__dlpack__`."""
    import numpy as np

    x = np.float32(1.5)
    if not hasattr(x, "__dlpack__"):
        with pytest.raises(AttributeError, match="__dlpack__"):
            np.from_dlpack(x)
    options = {"readonly": "copy"}
    for source in (x, np.array(1.5, "f4")):
        y = np.from_dlpack(dlshim.upgrade(source, **options))
        assert y.shape == () and y.tolist() == 1.5


@needs("pyarrow>=26,<27", "numpy>=2.1")
def test_pyarrow_copies_the_wrong_bytes() -> None:
    """`copy=True` of a strided tensor: as many bytes as it has, from the first on."""
    import numpy as np
    import pyarrow as pa

    x = pa.Tensor.from_numpy(np.arange(10.0)[::2])
    capsule = x.__dlpack__(copy=True, max_version=V1)
    view = caps.look(capsule)
    copied = (ctypes.c_double * 5).from_address(view.data)
    assert view.strides == (2,) and list(copied) == [0, 1, 2, 3, 4], "6 and 8 are not there"
    y = np.from_dlpack(dlshim.upgrade(x), copy=True)
    assert y.tolist() == [0, 2, 4, 6, 8]


@needs("pyarrow==21.*", "numpy>=2.1")
def test_pyarrow_gives_a_tensor_without_memory() -> None:
    """NULL where the data are read-only; NumPy reads what it finds."""
    import numpy as np
    import pyarrow as pa

    memory = np.arange(3.0)
    memory.setflags(write=False)
    x = pa.Tensor.from_numpy(memory)
    assert shown(x).data == 0
    assert np.from_dlpack(x).ctypes.data != memory.ctypes.data
    with pytest.raises(BufferError, match="NULL"):
        np.from_dlpack(dlshim.upgrade(x))


@needs("torch<2.15")
def test_torch_reads_a_buffer_as_float32() -> None:
    """`torch.asarray` prefers the buffer and asks it for no format: integers become floats."""
    import torch

    memory = memoryview(bytearray(bytes(range(48)))).cast("q", (2, 3))
    wrong = torch.asarray(memory)
    assert (wrong.dtype, tuple(wrong.shape)) == (torch.float32, (12,))
    x = torch.from_dlpack(dlshim.upgrade(memory))
    assert (x.dtype, tuple(x.shape)) == (torch.int64, (2, 3)) and x.tolist() == memory.tolist()
    with pytest.raises(TypeError, match="bytes-like"):
        memoryview(dlshim.upgrade(memory))
