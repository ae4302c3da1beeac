"""Capsules where objects are wanted and the reverse; functions and methods that are gone."""

from __future__ import annotations

import signal
from typing import Any

import pytest

import dlshim
from doubles import capsules as caps
from doubles import consumers

from .running import alive, alone, ends_with, needs
from .standin import shown


@needs("numpy>=1.23")
def test_a_capsule_where_numpy_wants_an_object() -> None:
    """jax-ml/jax#15686: 'PyCapsule' has no attribute '__dlpack__'."""
    import numpy as np

    x = np.arange(3.0)
    with pytest.raises(AttributeError, match="PyCapsule"):
        np.from_dlpack(x.__dlpack__())
    y = np.from_dlpack(dlshim.upgrade(x.__dlpack__()))
    assert y.ctypes.data == x.ctypes.data


@needs("jax>=0.7", "numpy")
def test_a_capsule_where_jax_wants_an_object() -> None:
    """jax-ml/jax#32822: JAX takes objects only; a capsule may be exported again and again."""
    import jax.numpy as jnp
    import numpy as np

    x = np.arange(3, dtype="f4")
    with pytest.raises(TypeError, match="__dlpack_device__"):
        jnp.from_dlpack(x.__dlpack__())
    taken = dlshim.upgrade(x.__dlpack__())
    for _ in range(2):
        assert jnp.from_dlpack(taken).tolist() == [0, 1, 2]


@alone
@needs("tensorflow-cpu", "jax>=0.4.16")
def test_tensorflow_gives_capsules_and_jax_takes_objects() -> None:
    """The pair of jax-ml/jax#32822, both of them real."""
    import jax
    import tensorflow as tf

    x = tf.constant([0.0, 1.0, 2.0])
    if not hasattr(x, "__dlpack__"):
        with pytest.raises(TypeError):
            jax.dlpack.from_dlpack(x)
    else:
        with pytest.raises(TypeError, match="__dlpack_device__"):
            jax.dlpack.from_dlpack(tf.experimental.dlpack.to_dlpack(x))
    for source in (x, tf.experimental.dlpack.to_dlpack(x)):
        assert jax.dlpack.from_dlpack(dlshim.upgrade(source)).tolist() == [0, 1, 2]


@alone
@needs("tensorflow-cpu", "numpy")
def test_tensorflow_takes_capsules_only() -> None:
    """tensorflow/tensorflow#61769: an object of any library, as the capsule that it wants."""
    import numpy as np
    import tensorflow as tf

    x = np.arange(4.0)
    with pytest.raises(TypeError):
        tf.experimental.dlpack.from_dlpack(x)
    y = tf.experimental.dlpack.from_dlpack(dlshim.to_capsule(x, align=64))
    assert (y + 0).numpy().tolist() == [0, 1, 2, 3]


@needs("jax>=0.7,<0.12")
def test_jax_has_no_to_dlpack_any_more() -> None:
    """Astera-org/simplexity#70: dlshim has one, for every object and of either generation."""
    import jax
    import jax.numpy as jnp

    x = jnp.arange(3.0)
    assert not hasattr(jax.dlpack, "to_dlpack")
    for version, name in (None, caps.LEGACY), ((1, 0), caps.VERSIONED):
        capsule = dlshim.to_capsule(x, max_version=version)
        assert caps.name_of(capsule) == name
        assert caps.look(capsule).data == x.unsafe_buffer_pointer()


@needs("jax==0.4.13")
def test_an_array_without_a_device_method() -> None:
    """jax-ml/jax#17285: consumers ask for the device first."""
    import jax.numpy as jnp

    x = jnp.arange(3.0)
    with pytest.raises(AttributeError, match="__dlpack_device__"):
        consumers.ask_like_torch28(x)
    assert dlshim.upgrade(x).__dlpack_device__() == (1, 0)
    with consumers.ask_like_torch28(dlshim.upgrade(x)) as imported:
        assert imported.values() == [0, 1, 2]


@needs("mxnet", "numpy>=1.23")
def test_a_library_whose_method_has_another_name() -> None:
    """cupy/cupy#8703 was the same: MXNet says `to_dlpack_for_read` and nothing else."""
    import mxnet as mx
    import numpy as np

    x = mx.nd.array([1, 2, 3])
    with pytest.raises(AttributeError, match="__dlpack__"):
        np.from_dlpack(x)
    y = np.from_dlpack(dlshim.upgrade(x))
    assert y.tolist() == [1, 2, 3]
    # Its destructor of a capsule that nobody takes fails under ctypes.
    with caps.take(x.to_dlpack_for_read()) as imported:
        assert y.ctypes.data == imported.view.data


@needs("onnxruntime>=1.31", "numpy>=1.23")
def test_onnxruntime_takes_capsules_only() -> None:
    """The same today: it is refused."""
    import numpy as np
    import onnxruntime
    from onnxruntime.capi import _pybind_state as native

    x = np.arange(3.0)
    with pytest.raises(TypeError, match="capsule"):
        native.OrtValue.from_dlpack(x, False)
    y = onnxruntime.OrtValue(native.OrtValue.from_dlpack(dlshim.to_capsule(x), False))
    assert y.numpy().tolist() == [0, 1, 2] and y.data_ptr() == x.ctypes.data


def object_into_onnxruntime() -> None:
    import numpy as np
    from onnxruntime.capi import _pybind_state as native

    alive()
    native.OrtValue.from_dlpack(np.arange(3.0), False)


@needs("onnxruntime==1.21.*", "numpy>=1.23")
def test_onnxruntime_dies_of_an_object() -> None:
    """microsoft/onnxruntime#24095: whatever it is given is taken for a capsule."""
    import numpy as np
    import onnxruntime
    from onnxruntime.capi import _pybind_state as native

    assert ends_with(object_into_onnxruntime) == -signal.SIGSEGV
    x = np.arange(3.0)
    y = onnxruntime.OrtValue(native.OrtValue.from_dlpack(dlshim.to_capsule(x), False))
    assert y.numpy().tolist() == [0, 1, 2] and y.data_ptr() == x.ctypes.data


@needs("onnxruntime==1.21.*", "numpy>=1.23")
def test_onnxruntime_hides_its_methods() -> None:
    """microsoft/onnxruntime#24071: they are in an attribute that is not public."""
    import numpy as np
    import onnxruntime

    x = onnxruntime.OrtValue.ortvalue_from_numpy(np.arange(3.0))
    with pytest.raises(AttributeError, match="__dlpack__"):
        np.from_dlpack(x)
    y = np.from_dlpack(dlshim.upgrade(x))
    assert y.tolist() == [0, 1, 2] and y.ctypes.data == x.data_ptr()


@alone
@needs("paddlepaddle<3", "numpy>=1.23")
def test_paddle_has_capsules_only() -> None:
    """Neither a device method nor `__dlpack__`: functions in `paddle.utils.dlpack`."""
    import numpy as np
    import paddle

    x = paddle.to_tensor([1.0, 2.0])
    with pytest.raises(AttributeError, match="__dlpack__"):
        np.from_dlpack(x)
    assert np.from_dlpack(dlshim.upgrade(x)).tolist() == [1, 2]
    assert dlshim.upgrade(x).__dlpack_device__() == (1, 0)


# ---- roads that were not meant --------------------------------------------------------------


class Sequence:
    """Device memory that has `__dlpack__`, a length and items: each item is one transfer."""

    def __init__(self, x: Any) -> None:
        self.x, self.items = x, 0

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.x.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, place: int) -> float:
        self.items += 1
        return self.x[place].item()


@needs("torch<2.3", "numpy")
def test_torch_copies_item_by_item() -> None:
    """pytorch/pytorch#120614: `torch.tensor(x)` looks like a hang; the wrapper has no items."""
    import numpy as np
    import torch

    x = Sequence(np.arange(100.0))
    assert torch.tensor(x).tolist() == x.x.tolist() and x.items >= 100
    x.items = 0
    with pytest.raises(RuntimeError, match=r"dlshim\.Producer"):
        torch.tensor(dlshim.upgrade(x))
    assert torch.from_dlpack(dlshim.upgrade(x)).tolist() == x.x.tolist() and x.items == 0


@needs("apache-tvm-ffi>=0.1.15", "numpy>=2.1")
def test_an_argument_of_a_compiled_function_without_a_call_to_python() -> None:
    """apache/tvm#17927: `__dlpack__` costs microseconds, the C exchange API does without."""
    import numpy as np
    import tvm_ffi

    calls = []

    class Asked:
        def __init__(self, x: Any) -> None:
            self.x = x

        def __dlpack__(self, **keywords: Any) -> Any:
            calls.append(keywords)
            return self.x.__dlpack__(**keywords)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    x = np.arange(3, dtype="f4")
    address = tvm_ffi.convert(lambda y: y.data_ptr())
    assert address(Asked(x)) == x.ctypes.data and len(calls) == 1
    wrapped = dlshim.from_dlpack(x)
    assert address(wrapped) == x.ctypes.data
    assert hasattr(type(wrapped), "__dlpack_c_exchange_api__")
    assert shown(wrapped).data == x.ctypes.data
