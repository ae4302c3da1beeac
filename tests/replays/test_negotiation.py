"""Which generation of DLPack is asked for, and which one is given."""

from __future__ import annotations

import pytest

import dlshim
from doubles import capsules as caps
from doubles.producers import P1b

from .running import alone, needs
from .standin import Gives, shown

V1 = (1, 0)


@needs("torch<2.9")
def test_a_versioned_capsule_for_a_torch_that_knows_legacy() -> None:
    """cupy/cupy#9011: `toDlpack()` began to return versioned capsules; torch blames double use."""
    import torch

    with pytest.raises(RuntimeError, match="invalid capsule"):
        torch.from_dlpack(Gives(version=V1))
    x = Gives(version=V1)
    y = torch.from_dlpack(dlshim.upgrade(x))
    assert y.data_ptr() == x.made[-1].element_zero
    assert y.tolist() == [[0, 1, 2], [3, 4, 5]]


@needs("numpy>=1.23,<2.1")
def test_a_versioned_capsule_for_a_numpy_that_knows_legacy() -> None:
    """NVIDIA/cuda-quantum#2688: the same, towards NumPy."""
    import numpy as np

    with pytest.raises(ValueError, match="incorrect name"):
        np.from_dlpack(Gives(version=V1))
    x = Gives(version=V1)
    y = np.from_dlpack(dlshim.upgrade(x))
    assert y.ctypes.data == x.made[-1].element_zero
    assert y.tolist() == [[0, 1, 2], [3, 4, 5]]


def as_cuda_core_0_1_takes(x: object) -> caps.View:
    """cuda.core 0.1.0: no TypeError is taken for a versioned answer."""
    try:
        capsule = x.__dlpack__(stream=None, max_version=V1)
    except TypeError:
        return shown(x, stream=None)
    assert caps.name_of(capsule) == caps.VERSIONED, "reads a legacy struct as a versioned one"
    return caps.look(capsule)


@needs("jax>=0.4.31,<0.12")
def test_jax_takes_max_version_and_answers_legacy() -> None:
    """NVIDIA/cuda-python#285: that no TypeError came proves nothing."""
    import jax.numpy as jnp

    x = jnp.arange(6.0)
    with pytest.raises(AssertionError, match="legacy struct"):
        as_cuda_core_0_1_takes(x)
    view = as_cuda_core_0_1_takes(dlshim.upgrade(x))
    assert view.data == x.unsafe_buffer_pointer() and view.shape == (6,)


class Kind3(Gives):
    """Takes every keyword and answers legacy: JAX, DALI, TensorFlow; without a buffer."""


@alone
@needs("mpi4py>=4,<5", "numpy")
def test_mpi4py_refuses_a_legacy_answer_to_a_question_with_max_version() -> None:
    """mpi4py asks `max_version=(1, 0)`; only a TypeError has it expect a legacy capsule."""
    from mpi4py import MPI

    with pytest.raises(BufferError, match="invalid capsule"):
        MPI.COMM_SELF.Bcast(Kind3())
    x = P1b((4,), "float64")
    received = caps.filled((4,), "float64")
    MPI.COMM_SELF.Sendrecv(dlshim.upgrade(x), 0, recvbuf=memoryview(received))
    assert caps.numbers((4,), "float64", (1,), 0) == x.values()
    assert bytes(received) == bytes(x.memory)


@needs("array-api-strict==2.1.1", "numpy>=2.1")
def test_a_keyword_that_is_taken_by_name_and_refused_by_value() -> None:
    """data-apis/array-api-strict#85: NotImplementedError, so nobody falls back."""
    import array_api_strict as xp
    import numpy as np

    x = xp.asarray([1.0, 2.0])
    with pytest.raises(NotImplementedError, match="max_version"):
        np.from_dlpack(x)
    y = np.from_dlpack(dlshim.upgrade(x))
    assert y.tolist() == [1, 2] and y.ctypes.data == shown(x).data


@needs("pyarrow>=26", "jax<0.12")
def test_pyarrow_wants_versioned_and_jax_gives_legacy() -> None:
    """apache/arrow#51122: the first consumers that require DLPack 1.x."""
    import jax.numpy as jnp
    import pyarrow as pa

    x = jnp.arange(6.0)
    for take in (pa.Tensor.from_dlpack, pa.Array.from_dlpack):
        with pytest.raises(ValueError, match="incorrect name"):
            take(x)
        assert take(dlshim.upgrade(x)) is not None
    y = pa.Tensor.from_dlpack(dlshim.upgrade(x))
    assert y.to_numpy().tolist() == [0, 1, 2, 3, 4, 5]
    assert y.to_numpy().ctypes.data == x.unsafe_buffer_pointer() and not y.is_mutable


@needs("mlx")
def test_mlx_reads_a_struct_of_a_major_version_that_nobody_knows() -> None:
    """ml-explore/mlx#3548: the name is looked at, the major version is not."""
    import mlx.core as mx

    assert mx.from_dlpack(Gives(version=(2, 0))).shape == (2, 3)
    x = Gives(version=(2, 0))
    with pytest.raises(BufferError, match="major version 2"):
        dlshim.upgrade(x).__dlpack__()
    with pytest.raises(TypeError):  # all that MLX says of an exception
        mx.from_dlpack(dlshim.upgrade(x))
    assert [made.deleted for made in x.made] == [1] * len(x.made), "each capsule is given back"
