"""Labels of memory that the consumer does not know, though it can read the memory."""

from __future__ import annotations

import pytest

import dlshim

from .running import needs
from .standin import Gives, shown

PINNED, MANAGED, CUDA = (3, 0), (13, 0), (2, 0)


@needs("torch")
def test_pinned_memory_in_torch() -> None:
    """pytorch/pytorch#136250: host memory under another number."""
    import torch

    with pytest.raises((RuntimeError, BufferError), match="Unsupported device_type: 3"):
        torch.from_dlpack(Gives(device=PINNED))
    x = Gives(device=PINNED)
    y = torch.from_dlpack(dlshim.upgrade(x, device="cpu", stream=-1))
    assert y.data_ptr() == x.made[-1].element_zero and y.tolist() == [[0, 1, 2], [3, 4, 5]]


@needs("jax==0.4.26")
def test_pinned_memory_in_jax() -> None:
    """jax-ml/jax#22346: KeyError, of the number."""
    import jax

    with pytest.raises(KeyError, match="3"):
        jax.dlpack.from_dlpack(Gives(device=PINNED))
    y = jax.dlpack.from_dlpack(dlshim.upgrade(Gives(device=PINNED), device="cpu", stream=-1))
    assert y.tolist() == [[0, 1, 2], [3, 4, 5]]


@needs("torch")
def test_managed_memory_in_torch() -> None:
    """pytorch/pytorch#96318: delivered as host memory, or under the GPU's own number."""
    import torch

    with pytest.raises((RuntimeError, BufferError), match="Unsupported device_type: 13"):
        torch.from_dlpack(Gives(device=MANAGED))
    x = Gives(device=MANAGED)
    y = torch.from_dlpack(dlshim.upgrade(x, device="cpu", stream=-1))
    assert y.data_ptr() == x.made[-1].element_zero and y.tolist() == [[0, 1, 2], [3, 4, 5]]
    relabelled = dlshim.upgrade(Gives(device=MANAGED), assume_device=CUDA)
    assert shown(relabelled, stream=-1).device == CUDA


@needs("torch")
def test_a_device_that_torch_has_no_number_for() -> None:
    """pytorch/pytorch#195815: no memory, no number; the error says which object it is."""
    import torch

    x = torch.ones(3, device="meta")
    with pytest.raises(ValueError, match="Unknown device type meta"):
        x.__dlpack_device__()
    with pytest.raises(BufferError, match=r"'torch.Tensor' object.*meta"):
        dlshim.upgrade(x).__dlpack_device__()
