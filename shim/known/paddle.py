"""Paddle."""

from __future__ import annotations

from typing import Any

from .arrays import DENSE, Case, Consumer, Made, Producer, Seen, loaded, shown
from .rows import (
    Fault,
    Library,
)

LIBRARY = Library("paddle", "paddle", ("paddlepaddle", "paddlepaddle-gpu"), "Paddle")

FAULTS = (
    Fault(
        "paddle",
        "negative strides, when read",
        "refuses",
        since=(3,),
        upgraded='refused, or order="auto"',
        source="M19",
    ),
)


def _paddle(case: Case) -> Made:
    paddle = loaded("paddle")
    dtype = "float32" if case.dtype == "bfloat16" else case.dtype
    made = paddle.to_tensor(list(case.values), dtype=dtype, place=paddle.CPUPlace())
    made = made.astype(case.dtype).reshape(case.shape)
    return Made(made, made.data_ptr())


def _see_paddle(made: Any) -> Seen:
    # Paddle shows bfloat16 to NumPy as the bits of an unsigned integer.
    host = made.astype("float32") if "bfloat16" in str(made.dtype) else made
    return shown(made.shape, host.numpy().tolist(), made.data_ptr())


GIVES = (Producer("paddle", "paddle", "paddle", (*DENSE, "bfloat16"), _paddle),)

TAKES = (
    Consumer("paddle", "paddle", "paddle", "paddle.from_dlpack", _see_paddle, since=(3, 0)),
    Consumer(
        "paddle 2",
        "paddle",
        "paddle",
        "paddle.utils.dlpack.from_dlpack",
        _see_paddle,
        wants="capsule",
        until=(3, 0),
    ),
)
