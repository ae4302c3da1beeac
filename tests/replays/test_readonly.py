"""The read-only flag: exports refused for it, and imports that have lost it or made it up."""

from __future__ import annotations

import ctypes
import itertools
import warnings
from pathlib import Path
from typing import Any

import pytest

import dlshim
from doubles import capsules as caps

from .running import alone, needs
from .standin import shown

V1 = (1, 0)


def frozen(count: int = 4) -> Any:
    import numpy as np

    x = np.arange(count, dtype="f4")
    x.setflags(write=False)
    return x


@needs("numpy>=2.1", "jax>=0.7,<0.12")
def test_jax_cannot_take_read_only_numpy() -> None:
    """jax-ml/jax#40789: JAX asks for legacy, which cannot say read-only; it would never write."""
    import jax.numpy as jnp

    x = frozen()
    with pytest.raises(BufferError, match="readonly"):
        jnp.from_dlpack(x)
    y = jnp.from_dlpack(dlshim.upgrade(x, readonly="share"))
    assert y.tolist() == [0, 1, 2, 3]


@needs("numpy<2.1")
def test_a_numpy_that_cannot_export_read_only_memory() -> None:
    """numpy/numpy#20742: also broadcast arrays; the array interface says what is missing."""
    import numpy as np

    for x in (frozen(), np.broadcast_to(np.float32(1), (3,)), np.frombuffer(b"abcd", "u1")):
        with pytest.raises((BufferError, TypeError), match=r"readonly|writeable"):
            x.__dlpack__()
        view = shown(dlshim.upgrade(x), max_version=V1)
        assert view.readonly and view.data == x.ctypes.data
        assert view.values() == x.tolist()


@needs("numpy>=2.2.5", "warp-lang")
def test_writable_memory_of_a_legacy_producer_in_numpy() -> None:
    """numpy/numpy#28599: what comes by a legacy capsule is read-only for ever."""
    import numpy as np
    import warp as wp

    x = wp.array([0.0, 1.0, 2.0], dtype=wp.float32, device="cpu")
    with pytest.raises(ValueError, match="read-only"):
        read_only = np.from_dlpack(x)  # kept: warp's deleter, in Python, would eat the error
        read_only[0] = 7
    y = np.from_dlpack(dlshim.upgrade(x))
    y[0] = 7
    assert y.ctypes.data == x.ptr and x.numpy().tolist() == [7, 1, 2]


@needs("numpy>=2.2.5", "torch<2.9")
def test_writable_memory_of_torch_in_numpy() -> None:
    """The same of torch before 2.9."""
    import numpy as np
    import torch

    x = torch.zeros(3)
    with pytest.raises(ValueError, match="read-only"):
        np.from_dlpack(x)[0] = 7
    np.from_dlpack(dlshim.upgrade(x))[0] = 7
    assert x.tolist() == [7, 0, 0]


@alone
@needs("numpy>=2.2.5", "nanobind")
def test_arrays_of_a_compiled_nanobind_function_in_numpy() -> None:
    """wjakob/nanobind#1122: tests that hold with one NumPy and fail with the next."""
    import numpy as np

    from interop import nanobind_modules

    nanobind_modules.build("2.9.2")
    module = nanobind_modules.load("2.9.2")
    memory = np.zeros(3, "f4")
    given = module.give(memory.ctypes.data, (3,), (1,), (2, 32, 1), False, memory)
    assert caps.name_of(given) == caps.LEGACY
    with pytest.raises(AttributeError, match="__dlpack__"):
        np.from_dlpack(given)
    y = np.from_dlpack(dlshim.upgrade(given))
    y[0] = 7
    assert memory.tolist() == [7, 0, 0]


@needs("numpy>=2.2.5", "jax<0.12", "apache-tvm-ffi>=0.1.15")
def test_an_immutable_jax_array_comes_out_writable() -> None:
    """jax-ml/jax#19123: two exchanges later, NumPy writes into it."""
    import jax.numpy as jnp
    import numpy as np
    import tvm_ffi

    x = jnp.arange(4.0, dtype="float32")  # whatever jax_enable_x64 says
    np.from_dlpack(tvm_ffi.from_dlpack(x))[0] = 99
    changed = (ctypes.c_float * 4).from_address(x.unsafe_buffer_pointer())
    assert list(changed) == [99, 1, 2, 3]
    y = np.from_dlpack(dlshim.upgrade(jnp.arange(4.0)))
    assert not y.flags.writeable
    assert shown(dlshim.upgrade(x), max_version=V1).readonly


@needs("jax<0.12", "torch>=2.9")
def test_an_immutable_jax_array_becomes_a_torch_tensor() -> None:
    """The same in torch, which has no read-only tensors: only a copy keeps it safe."""
    import jax.numpy as jnp
    import torch

    def memory(x: Any) -> list[float]:
        return list((ctypes.c_float * 2).from_address(x.unsafe_buffer_pointer()))

    x = jnp.arange(2.0, dtype="float32")
    torch.from_dlpack(x)[0] = 99
    assert memory(x) == [99, 1]
    x = jnp.arange(2.0, dtype="float32")
    torch.from_dlpack(dlshim.upgrade(x, readonly="copy"))[0] = 99
    assert memory(x) == [0, 1]


@alone
@needs("numpy", "nanobind")
def test_a_compiled_function_that_wants_to_write() -> None:
    """wjakob/nanobind#42: the user knows that it does not, and vouches."""
    import numpy as np

    from interop import nanobind_modules

    nanobind_modules.build("2.9.2")
    module = nanobind_modules.load("2.9.2")
    x = np.arange(3.0)
    x.setflags(write=False)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        module.take_rw(x)
    assert module.take_rw(dlshim.upgrade(x, readonly=False)).address() == x.ctypes.data


@needs("torch>=2.9", "numpy>=2.2.5")
def test_torch_has_no_word_for_read_only() -> None:
    """pytorch/pytorch#188554: the caller has one."""
    import numpy as np
    import torch

    x = torch.arange(3.0)
    assert not shown(x, max_version=V1).readonly and np.from_dlpack(x).flags.writeable
    y = np.from_dlpack(dlshim.upgrade(x, readonly=True))
    assert not y.flags.writeable and y.ctypes.data == x.data_ptr()


@needs("torch>=2.9", "numpy>=2.1")
def test_torch_writes_into_read_only_memory() -> None:
    """It asks for a version that can say so, is told, and does not heed it; a copy is safe."""
    import torch

    x = frozen()
    torch.from_dlpack(x)[0] = 99
    assert x.tolist() == [99, 1, 2, 3]
    x = frozen()
    torch.from_dlpack(dlshim.upgrade(x, readonly="copy"))[0] = 99
    assert x.tolist() == [0, 1, 2, 3]
    assert shown(dlshim.upgrade(x), max_version=V1).readonly, "whoever heeds it is told"


@needs("torch>=2.9", "numpy>=2.1")
def test_torch_gets_read_only_memory_with_a_warning(tmp_path: Path) -> None:
    """By each function that asks: the warning names the line that called it, and the three cures
    keep what they say.  What is written through torch would change a constant of the interpreter,
    or end the process."""
    import numpy as np
    import torch

    np.save(tmp_path / "map.npy", np.arange(4.0))
    sources = (bytes(range(4)), frozen(), np.load(tmp_path / "map.npy", mmap_mode="r"))
    functions = (torch.from_dlpack, torch.utils.dlpack.from_dlpack, torch.as_tensor, torch.asarray)
    for x, function in itertools.product(sources, functions):
        with pytest.warns(dlshim.ReadOnlyWarning, match='readonly="copy"') as told:
            shared = function(dlshim.upgrade(x))
        assert [each.filename for each in told] == [__file__]
        address = shared.data_ptr()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert function(dlshim.upgrade(x, readonly="share")).data_ptr() == address
            assert function(dlshim.upgrade(x, readonly=False)).data_ptr() == address
            private = function(dlshim.upgrade(x, readonly="copy"))
            assert private.data_ptr() != address
            private.add_(1)
            assert private.tolist() == [1, 2, 3, 4] and shared.tolist() == [0, 1, 2, 3]
            with pytest.raises(BufferError, match="read-only"):
                function(dlshim.upgrade(x, readonly="error"))
            with pytest.raises(dlshim.ReadOnlyWarning):
                function(dlshim.upgrade(x))
            writable = np.arange(4.0)
            given = function(dlshim.upgrade(writable, readonly="copy"))
            assert given.data_ptr() == writable.ctypes.data


@needs("cuda-core", "numpy>=2.1")
def test_a_view_of_read_only_memory_goes_out_as_a_plain_legacy_capsule() -> None:
    """cuda.core's view knows that it is read-only, and does not say so."""
    from cuda.core.utils import StridedMemoryView

    x = StridedMemoryView.from_dlpack(frozen(), stream_ptr=-1)
    assert x.readonly and shown(x).name == caps.LEGACY
    with pytest.raises(BufferError, match="read-only"):
        dlshim.upgrade(x).__dlpack__()
    view = shown(dlshim.upgrade(x), max_version=V1)
    assert view.readonly and view.data == x.ptr


@needs("numpy>=2.1,<2.2.5", "numpy")
def test_a_numpy_that_imports_everything_read_only() -> None:
    """The flag that it is given says writable; from 2.2.5 on it is heeded.  Nothing cures 2.2.4."""
    import numpy as np

    x = np.arange(3.0)
    assert not shown(x, max_version=V1).readonly
    assert not np.from_dlpack(x).flags.writeable
    assert not shown(dlshim.upgrade(x), max_version=V1).readonly
    assert not np.from_dlpack(dlshim.upgrade(x)).flags.writeable


@alone
@needs("tensorflow-cpu>=2.13", "numpy>=2.2.5")
def test_an_immutable_tensorflow_tensor() -> None:
    """TensorFlow's capsule says nothing either; dlshim knows the type."""
    import numpy as np
    import tensorflow as tf

    x = tf.constant([0.0, 1.0])
    assert shown(x, max_version=V1).name == caps.LEGACY
    y = np.from_dlpack(dlshim.upgrade(x))
    assert y.tolist() == [0, 1] and not y.flags.writeable
    assert shown(dlshim.upgrade(x), max_version=V1).readonly


@needs("torch>=2.14")
def test_a_wrapper_of_torch_that_answers_1_x_to_a_bare_call() -> None:
    """torch.utils.dlpack.ReadOnlyTensorWrapper; the standard asks for a legacy capsule there."""
    import torch

    x = torch.arange(3.0)
    wrapped = torch.utils.dlpack.ReadOnlyTensorWrapper(x)
    assert shown(wrapped).versioned
    with pytest.raises(BufferError, match="readonly="):
        dlshim.upgrade(wrapped).__dlpack__()
    view = shown(dlshim.upgrade(wrapped, readonly="share"))
    assert not view.versioned and view.values() == [0, 1, 2]
    assert view.data == x.data_ptr()
