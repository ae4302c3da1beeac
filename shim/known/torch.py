"""PyTorch."""

from __future__ import annotations

from ..look import ALL
from .arrays import STRIDED, Case, Consumer, Made, Producer, laid_out, loaded, shown
from .rows import (
    BF16,
    BOOL,
    LEGACY,
    NOW_VERSIONED,
    PLAIN,
    WIDE,
    Fault,
    Known,
    Library,
    Source,
    also,
    old,
    spans,
)

LIBRARY = Library("torch", "torch", ("torch",), "PyTorch")

SOURCES = (
    old("torch", "torch", (1, 13), (2, 9)),
    Source(
        *("torch", "torch", (2, 9), (2, 16)), others=("torch.utils.dlpack.ReadOnlyTensorWrapper",)
    ),
)

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

_TORCH = spans(
    (2, 16),
    Known(
        "torch.from_dlpack",
        "torch",
        (1, 13),
        asks=LEGACY,
        supports_negative=False,
        dtypes=PLAIN - WIDE - BOOL | BF16,
        limits=("dtype",),
        raises=("RuntimeError", "BufferError", "ValueError"),
        takes_capsules=True,
        no_way=("TypeError", "RuntimeError", "AttributeError", "ValueError"),
        devices=(2, 3, 10, 12, 13, 14),
    ),
    ((2, 0), {"dtypes": PLAIN - WIDE | BF16}),
    ((2, 3), {"dtypes": PLAIN | BF16}),
    ((2, 9), {**NOW_VERSIONED, "warned": True}),
    ((2, 10), {"dtypes": ALL - {"float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz"}}),
    ((2, 14), {"negative": ""}),
)

FUNCTIONS = (
    *_TORCH,
    *also("torch.asarray", _TORCH[1:], buffer_first=True, bare_buffer=True, takes_own=True),
    *also("torch.as_tensor", _TORCH[1:], buffer_first=True, takes_own=True, takes_capsules=False),
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
