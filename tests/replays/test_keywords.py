"""Keywords that one side passes and the other does not know, and exceptions of the wrong class."""

from __future__ import annotations

import pytest

import dlshim
from doubles import capsules as caps

from .running import alone, needs
from .standin import Gives, GivesBare, shown

V1 = (1, 0)
EVERY = {"max_version": V1, "dl_device": (1, 0), "copy": True}


@needs("torch<2.9")
def test_a_torch_that_knows_no_dl_device() -> None:
    """nv-legate/cupynumeric#1239: a consumer that passes it has no other way."""
    import torch

    x = torch.arange(4.0)
    for name, value in EVERY.items():
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
            x.__dlpack__(**{name: value})
    view = shown(dlshim.upgrade(x), dl_device=(1, 0), max_version=V1)
    assert view.data == x.data_ptr() and view.name == caps.VERSIONED
    assert shown(dlshim.upgrade(x), **EVERY).copied


@needs("numpy<2.1")
def test_a_numpy_that_knows_no_keyword() -> None:
    """The same of NumPy before 2.1, all three of them; the copy is made by dlshim."""
    import numpy as np

    x = np.arange(4.0)
    for name, value in EVERY.items():
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
            x.__dlpack__(**{name: value})
    capsule = dlshim.upgrade(x).__dlpack__(**EVERY)
    view = caps.look(capsule)
    assert view.copied and view.data != x.ctypes.data and view.values() == [0, 1, 2, 3]


@needs("numpy>=2.1", "warp-lang")
def test_numpy_asks_warp_for_a_device_or_a_copy() -> None:
    """data-apis/array-api-strict#69: NumPy falls back only where neither was asked for."""
    import numpy as np
    import warp as wp

    x = wp.array([0.0, 1.0, 2.0], dtype=wp.float32, device="cpu")
    for asked in ({"device": "cpu"}, {"copy": True}):
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            np.from_dlpack(x, **asked)
    same, copy = (np.from_dlpack(dlshim.upgrade(x), **a) for a in ({"device": "cpu"}, {"copy": 1}))
    assert same.tolist() == copy.tolist() == [0, 1, 2]
    assert same.ctypes.data == x.ptr != copy.ctypes.data


@needs("torch<2.9", "numpy")
def test_a_torch_whose_from_dlpack_takes_no_copy() -> None:
    """data-apis/array-api-compat#204: the wish goes into the wrapper."""
    import numpy as np
    import torch

    x = np.arange(3.0)
    with pytest.raises(TypeError, match="copy"):
        torch.from_dlpack(x, copy=True)
    y = torch.from_dlpack(dlshim.upgrade(x, copy=True))
    y[0] = 9
    assert x.tolist() == [0, 1, 2] and y.tolist() == [9, 1, 2]


@needs("numpy>=1.22", "cuda-core")
def test_cuda_core_passes_a_stream_to_a_host_producer() -> None:
    """NVIDIA/cuda-python#473: a stream is refused by NumPy, and no stream by cuda.core."""
    import numpy as np
    from cuda.core.utils import StridedMemoryView

    x = np.arange(3.0)
    with pytest.raises((RuntimeError, ValueError), match="stream=None"):
        StridedMemoryView.from_dlpack(x, stream_ptr=1)
    with pytest.raises(BufferError, match="ambiguous"):
        StridedMemoryView.from_dlpack(x, stream_ptr=None)
    view = StridedMemoryView.from_dlpack(dlshim.upgrade(x), stream_ptr=1)
    assert view.ptr == x.ctypes.data and view.shape == (3,)


@needs("numpy>=1.22")
def test_numpy_refuses_every_stream() -> None:
    """wjakob/nanobind#1373 was the same strictness: here it is NumPy's, and swallowed."""
    import numpy as np

    x = np.arange(3.0)
    for stream in (-1, 1, 2):
        with pytest.raises((RuntimeError, ValueError), match="stream=None"):
            x.__dlpack__(stream=stream)
        assert shown(dlshim.upgrade(x), stream=stream).data == x.ctypes.data


@needs("torch>=2.9")
def test_a_stream_by_position() -> None:
    """iree-org/wave#363: torch took it up to 2.8, and then no longer."""
    import torch

    x = torch.arange(3.0)
    with pytest.raises(TypeError, match="positional"):
        x.__dlpack__(None)
    capsule = dlshim.upgrade(x).__dlpack__(None)
    assert caps.look(capsule).data == x.data_ptr()


@needs("torch==2.9.*", "numpy>=2.1,<2.3")
def test_a_value_error_where_a_buffer_error_is_specified() -> None:
    """scikit-learn/scikit-learn#32827: torch 2.9 asks NumPy for its GPU."""
    import numpy as np
    import torch

    x = np.arange(3.0)
    with pytest.raises(ValueError, match="unsupported device requested"):
        torch.from_dlpack(x, device="cuda")
    with pytest.raises(BufferError, match=r"'numpy\.ndarray' object"):
        torch.from_dlpack(dlshim.upgrade(x), device="cuda")


@needs("numpy>=1.23,<2.5")
def test_a_runtime_error_of_numpy_for_another_device() -> None:
    """numpy/numpy#30937: the consumer raises it; told the device, dlshim refuses first."""
    import numpy as np

    x = Gives(device=(4, 0))
    with pytest.raises(RuntimeError, match="Unsupported device"):
        np.from_dlpack(x)
    with pytest.raises(BufferError, match="device") as refused:
        np.from_dlpack(dlshim.upgrade(x, device="cpu"))
    assert "Gives" in str(refused.value)


@needs("torch>=2.9")
def test_a_move_that_needs_a_copy_which_is_not_allowed() -> None:
    """pytorch/pytorch#194267: ValueError, though the standard says BufferError."""
    import torch

    x = torch.arange(3.0)
    asked = {"copy": False, "dl_device": (2, 0), "max_version": V1}
    with pytest.raises(ValueError, match="without copying"):
        x.__dlpack__(**asked)
    with pytest.raises(BufferError, match="copy"):
        dlshim.upgrade(x).__dlpack__(**asked)


@needs("apache-tvm-ffi>=0.1.15", "numpy>=2.1")
def test_a_copy_that_the_producer_refuses_to_make() -> None:
    """cupy/cupy#9842 on the host: tvm-ffi refuses `copy=True` as CuPy does on a GPU."""
    import numpy as np
    import tvm_ffi

    source = np.arange(3, dtype="f4")
    x = tvm_ffi.from_dlpack(source)
    with pytest.raises(BufferError, match="copy"):
        np.from_dlpack(x, copy=True)
    y = np.from_dlpack(dlshim.upgrade(x), copy=True)
    assert y.tolist() == [0, 1, 2] and not np.shares_memory(y, source)


@needs("torch>=2.9")
def test_a_list_where_an_array_is_wanted() -> None:
    """scikit-learn/scikit-learn#34046: whatever has no `__dlpack__` is taken for a capsule."""
    import torch

    with pytest.raises(AssertionError, match="already a DLPack capsule"):
        torch.from_dlpack([1, 2, 3], device="cpu")
    with pytest.raises(RuntimeError, match="consumed only once"):
        torch.from_dlpack([1, 2, 3])
    for x in ([1, 2, 3], 3.0, object()):
        with pytest.raises(TypeError, match=f"'{type(x).__name__}' object"):
            torch.from_dlpack(dlshim.upgrade(x))


@needs("pyarrow>=26")
def test_pyarrow_as_a_producer_refuses_copy_alone_and_every_stream() -> None:
    """apache/arrow#50827: what it can serve depends on max_version and on stream."""
    import pyarrow as pa

    x = pa.array([1, 2, 3])
    with pytest.raises(BufferError, match="copy"):
        x.__dlpack__(copy=True)
    with pytest.raises(NotImplementedError, match="stream=None"):
        x.__dlpack__(stream=-1, max_version=V1)
    capsule = dlshim.upgrade(x).__dlpack__(copy=True)
    assert caps.look(capsule).values() == [1, 2, 3]
    view = shown(dlshim.upgrade(x), stream=-1, max_version=V1)
    assert view.data == shown(x, max_version=V1).data and view.readonly


@needs("apache-tvm-ffi>=0.1.15", "numpy")
def test_a_copy_that_is_asked_for_and_not_made() -> None:
    """tvm-ffi ignores `copy=True` where no version is asked for, and says nothing."""
    import numpy as np
    import tvm_ffi

    source = np.arange(3, dtype="f4")
    x = tvm_ffi.from_dlpack(source)
    assert shown(x, copy=True).data == source.ctypes.data
    assert shown(dlshim.upgrade(x), copy=True).data != source.ctypes.data


@needs("torch>=2.9")
def test_a_copy_that_is_not_marked_as_one() -> None:
    """torch makes the copy and leaves the flag unset: nobody can tell."""
    import torch

    x = torch.arange(3.0)
    asked = {"copy": True, "max_version": V1}
    bare, upgraded = shown(x, **asked), shown(dlshim.upgrade(x), **asked)
    assert bare.data != x.data_ptr() and not bare.copied
    assert upgraded.data != x.data_ptr() and upgraded.copied


@alone
@needs("jax==0.4.13")
def test_a_producer_without_any_keyword() -> None:
    """JAX before 0.4.16 takes no stream: JAX, warp and nanoarrow of today stop at that."""
    import jax.numpy as jnp

    x = jnp.arange(3.0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'stream'"):
        x.__dlpack__(stream=None)
    view = shown(dlshim.upgrade(x), stream=None)
    assert view.name == caps.LEGACY and view.data == shown(x).data


@needs("nanoarrow")
def test_a_consumer_that_gives_up_at_the_first_keyword() -> None:
    """nanoarrow passes `stream=None` and has no other way."""
    import nanoarrow as na

    with pytest.raises(TypeError, match="stream"):
        na.c_buffer(GivesBare((4,), "int32"))
    x = GivesBare((4,), "int32")
    y = na.c_buffer(dlshim.upgrade(x))
    assert y.size_bytes == 16 and list(y) == [0, 1, 2, 3]
