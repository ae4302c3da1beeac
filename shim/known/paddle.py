"""Paddle."""

from __future__ import annotations

from typing import Any

from .arrays import DENSE, Case, Consumer, Made, Producer, Seen, loaded, shown
from .rows import (
    BF16,
    BOOL,
    COPIES,
    LEGACY,
    NOW_VERSIONED,
    PLAIN,
    SHARES,
    WIDE,
    Fault,
    Known,
    Library,
    Source,
    also,
    old,
    spans,
)

LIBRARY = Library("paddle", "paddle", ("paddlepaddle", "paddlepaddle-gpu"), "Paddle")

_BY_JAX = (("jax", "it does not understand the object's device"),)

SOURCES = (
    old("paddle", "paddle", (3,), (3, 3), refused_by=_BY_JAX),
    Source("paddle", "paddle", (3, 3), (3, 4), refused_by=_BY_JAX),
)

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

_PADDLE = spans(
    (3, 4),
    Known(
        "paddle.from_dlpack",
        "paddle",
        (2, 6),
        wants="capsule",
        asks=LEGACY,
        memory=COPIES,
        supports_negative=False,
        negative="",
        dtypes=PLAIN - WIDE - BOOL | BF16,
        limits=("dtype", "ignores strides"),
        devices=(2,),
    ),
    (
        (3, 0),
        {
            "wants": "object",
            "takes_capsules": True,
            "no_way": ("ValueError", "TypeError"),
            "memory": SHARES,
            "dtypes": PLAIN | BF16 | {"float8_e4m3fn", "float8_e5m2"},
            "limits": ("dtype", "uint16"),
        },
    ),
    ((3, 3), {**NOW_VERSIONED, "warned": True}),
)

FUNCTIONS = (
    *_PADDLE,
    *also("paddle.utils.dlpack.from_dlpack", _PADDLE),
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
