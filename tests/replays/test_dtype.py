"""Element types that one side has no code for, and values that are not what the memory holds."""

from __future__ import annotations

import pytest

import dlshim
from doubles import capsules as caps

from .running import alone, needs
from .standin import Gives, shown

V1 = (1, 0)
BOOL, UINT8, INT64 = (6, 8, 1), (1, 8, 1), (0, 64, 1)


@needs("torch<2", "numpy")
def test_bool_in_a_torch_that_does_not_know_it() -> None:
    """pytorch/pytorch#67081: relabelled as bytes on request, and viewed as bool there."""
    import torch

    with pytest.raises(RuntimeError, match="Bool type is not supported"):
        torch.ones(2, dtype=torch.bool).__dlpack__()
    with pytest.raises(RuntimeError, match="Unsupported code 6"):
        torch.from_dlpack(Gives((2,), "bool"))
    x = Gives((2,), "bool")
    y = torch.from_dlpack(dlshim.upgrade(x, reinterpret="uint8")).view(torch.bool)
    assert y.dtype == torch.bool and y.data_ptr() == x.made[-1].element_zero
    assert y.tolist() == [False, True]


@needs("numpy<1.25")
def test_bool_out_of_a_numpy_that_does_not_export_it() -> None:
    """triton-inference-server/server#5820: the array interface knows the type."""
    import numpy as np

    x = np.array([True, False])
    with pytest.raises((BufferError, TypeError), match="integers, float and complex"):
        x.__dlpack__()
    view = shown(dlshim.upgrade(x))
    assert view.dtype == BOOL and view.data == x.ctypes.data


@needs("numpy", "ml-dtypes", "apache-tvm-ffi>=0.1.15")
def test_bfloat16_out_of_numpy() -> None:
    """numpy/numpy#19808: NumPy has no code for it, the consumer has one."""
    import ml_dtypes
    import numpy as np
    import tvm_ffi

    x = np.ones(3, ml_dtypes.bfloat16)
    with pytest.raises(BufferError, match="integers, float and complex"):
        tvm_ffi.from_dlpack(x)
    y = tvm_ffi.from_dlpack(dlshim.upgrade(x))
    assert str(y.dtype) == "bfloat16" and y.data_ptr() == x.ctypes.data


@needs("numpy>=1.23", "jax>=0.4.16,<0.12")
def test_bfloat16_into_numpy() -> None:
    """numpy/numpy#31256: the bits reach it under another name, when the caller says so."""
    import jax.numpy as jnp
    import numpy as np

    x = jnp.ones(3, dtype=jnp.bfloat16)
    with pytest.raises((RuntimeError, BufferError), match=r"[Uu]nsupported dtype"):
        np.from_dlpack(x)
    y = np.from_dlpack(dlshim.upgrade(x, reinterpret="uint16"))
    assert y.view(jnp.bfloat16).tolist() == [1, 1, 1]
    assert y.ctypes.data == x.unsafe_buffer_pointer()


@needs("torch>=2.1,<2.10")
def test_float8_out_of_torch() -> None:
    """apache/tvm-ffi#180: viewed as bytes, and relabelled on the way."""
    import torch

    x = torch.ones(4).to(torch.float8_e4m3fn)
    with pytest.raises((RuntimeError, BufferError), match="float8 types are not supported"):
        x.__dlpack__()
    view = shown(dlshim.upgrade(x.view(torch.uint8), reinterpret="float8_e4m3fn"))
    assert view.dtype == (10, 8, 1) and view.data == x.data_ptr()


@needs("torch<2", "numpy")
def test_unsigned_integers_in_torch() -> None:
    """google/brax#147: signed integers of the same width, when the caller says so."""
    import numpy as np
    import torch

    for bits in (16, 32, 64):
        x = np.arange(3, dtype=f"u{bits // 8}")
        with pytest.raises(RuntimeError, match=f"Unsupported kUInt bits {bits}"):
            torch.from_dlpack(x)
        y = torch.from_dlpack(dlshim.upgrade(x, reinterpret=f"int{bits}"))
        assert y.tolist() == [0, 1, 2] and y.data_ptr() == x.ctypes.data


@needs("torch")
def test_complex_numbers_as_pairs_of_floats() -> None:
    """pytorch/pytorch#55365: two lanes, from before complex had a code."""
    import torch

    pairs = (2, 32, 2)
    with pytest.raises((RuntimeError, BufferError), match="lanes"):
        torch.from_dlpack(Gives((3,), pairs))
    x = Gives((3,), pairs)
    y = torch.from_dlpack(dlshim.upgrade(x, reinterpret="complex64"))
    assert y.dtype == torch.complex64 and y.data_ptr() == x.made[-1].element_zero


@needs("torch", "numpy>=1.23")
def test_a_tensor_that_requires_grad() -> None:
    """ROCm/FlyDSL#1099: nobody detaches it unless told."""
    import numpy as np
    import torch

    x = torch.nn.Parameter(torch.ones(3))
    with pytest.raises((RuntimeError, BufferError), match="require gradient"):
        np.from_dlpack(x)
    with pytest.raises(BufferError, match="detach"):
        np.from_dlpack(dlshim.upgrade(x))
    y = np.from_dlpack(dlshim.upgrade(x, detach=True))
    assert y.tolist() == [1, 1, 1] and y.ctypes.data == x.data_ptr()


@needs("numpy>=1.23")
def test_dates() -> None:
    """NVIDIA/numba-cuda#824: as integers of the same width, when the caller says so."""
    import numpy as np

    x = np.array(["1970-01-01T00:00:00.000000007"], "M8[ns]")
    with pytest.raises((BufferError, TypeError), match="integers, float and complex"):
        x.__dlpack__()
    view = shown(dlshim.upgrade(x, reinterpret="int64"), copy=False)
    assert view.dtype == INT64 and view.data == x.ctypes.data
    assert np.from_dlpack(dlshim.upgrade(x, reinterpret="int64")).tolist() == [7]


@needs("torch", "numpy>=1.23")
def test_the_negative_bit() -> None:
    """torch exports the memory of such a view without the sign: wrong numbers, no error."""
    import numpy as np
    import torch

    x = torch.complex(torch.zeros(3), torch.ones(3)).conj().imag
    assert x.tolist() == [-1, -1, -1] and np.from_dlpack(x).tolist() == [1, 1, 1]
    with pytest.raises(BufferError, match="resolve_neg"):
        np.from_dlpack(dlshim.upgrade(x))
    y = np.from_dlpack(dlshim.upgrade(x.resolve_neg()))
    assert y.tolist() == [-1, -1, -1]


@needs("onnxruntime>=1.31,<1.32", "numpy>=2.1")
def test_bool_that_goes_out_as_bytes() -> None:
    """onnxruntime's capsule says uint8; the caller who knows better says so."""
    import numpy as np
    import onnxruntime

    x = onnxruntime.OrtValue.ortvalue_from_numpy(np.array([True, False]))
    assert np.from_dlpack(x._ortvalue).dtype == "uint8"
    y = np.from_dlpack(dlshim.upgrade(x, reinterpret="bool"))
    assert y.dtype == bool and y.tolist() == [True, False]


@alone
@needs("tensorflow-cpu<2.13", "numpy")
def test_bool_of_tensorflow_that_goes_out_as_bytes() -> None:
    """The same of TensorFlow 2.12."""
    import tensorflow as tf

    x = tf.constant([True, False])
    assert caps.look(tf.experimental.dlpack.to_dlpack(x)).dtype == UINT8
    assert shown(dlshim.upgrade(x, reinterpret="bool")).dtype == BOOL


@needs("jax==0.4.13")
def test_bool_of_jax_that_goes_out_as_bytes() -> None:
    """The same of JAX 0.4.13."""
    import jax.numpy as jnp

    x = jnp.array([True, False])
    assert shown(x).dtype == UINT8
    assert shown(dlshim.upgrade(x, reinterpret="bool")).dtype == BOOL
