"""Arrays on Apple's GPUs as torch and MLX make them; no Metal, the memory is the host's.

Written after torch/_tensor.py (`Tensor.__dlpack__`) and torch/mps/__init__.py of
pytorch/pytorch@00f993df, and mlx/array.cpp (`array::eval`), python/src/array.cpp and
python/src/convert.cpp (`mlx_to_nd_array`) of ml-explore/mlx@846d1762.  DLPack calls the device 8.
"""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

from .producers import Array
from .sycl import TorchElsewhere, placed

METAL = (8, 0)


def torch_library(log: list[str]) -> ModuleType:
    """As much of `torch` as is asked: `torch.mps.synchronize()` waits for all its streams."""
    module = ModuleType("torch")
    module.mps = SimpleNamespace(synchronize=lambda: log.append("synchronize"))  # type: ignore
    return module


@placed("torch", "Tensor")
class TorchMps(TorchElsewhere):
    """It waits for nothing."""

    def __init__(self, *args: Any, device: tuple[int, int] = METAL, **kwargs: Any) -> None:
        super().__init__(*args, device=device, name="mps:0", **kwargs)


@placed("mlx.core", "array")
class MlxArray(Array):
    """It evaluates itself, waits for that, and has no use for `stream`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **({"device": METAL} | kwargs))

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Any = None,
        dl_device: Any = None,
        copy: bool | None = None,
    ) -> Any:
        self.calls.append(((), {"stream": stream}))
        return self._legacy()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device
