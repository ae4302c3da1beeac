"""PyTorch."""

from __future__ import annotations

from .arrays import STRIDED, Case, Consumer, Made, Producer, laid_out, loaded, shown
from .rows import (
    Fault,
    Library,
)

LIBRARY = Library("torch", "torch", ("torch",), "PyTorch")

FAULTS = (
    Fault(
        "torch",
        "negative strides",
        "kills",
        since=(1, 10),
        until=(2, 14),
        upgraded='refused, or order="auto"',
        source="pytorch/pytorch#188023",
    ),
    Fault(
        "torch",
        "ignores byte offsets",
        "wrong",
        since=(1, 0),
        until=(2, 10),
        upgraded="cured",
        source="pytorch/pytorch#168177",
    ),
    Fault(
        "torch",
        "writes to read-only memory",
        "wrong",
        since=(2, 9),
        upgraded='warned; readonly="copy"',
        source="M12",
    ),
    Fault(
        "torch",
        "exports the negative bit without the sign",
        "wrong",
        since=(1, 10),
        upgraded="refused",
        source="M7",
    ),
    Fault(
        "torch",
        "a bare call of ReadOnlyTensorWrapper gives 1.x",
        "wrong",
        since=(2, 14),
        upgraded="cured",
        source="M21",
    ),
    Fault(
        "torch",
        "arrays without elements",
        "leaks",
        since=(1, 10),
        until=(2, 3),
        upgraded="cured",
        source="pytorch/pytorch#117058",
    ),
    Fault(
        "torch",
        "the tensor of an export that fails",
        "leaks",
        since=(1, 10),
        upgraded="none",
        source="pytorch/pytorch#171820",
    ),
)


def _torch(case: Case) -> Made:
    torch = loaded("torch")
    dtype = getattr(torch, case.dtype)
    made = laid_out(case, lambda values: torch.tensor(values, dtype=dtype))
    return Made(made, made.data_ptr())


GIVES = (Producer("torch", "torch", "torch", (*STRIDED, "bfloat16"), _torch),)

TAKES = (
    Consumer(
        "torch",
        "torch",
        "torch",
        "torch.from_dlpack",
        lambda made: shown(made.shape, made.tolist(), made.data_ptr()),
    ),
)
