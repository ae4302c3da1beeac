"""MLX."""

from __future__ import annotations

from .arrays import (
    STRIDED,
    Case,
    Consumer,
    Made,
    Producer,
    exported_address,
    laid_out,
    loaded,
    shown,
)
from .rows import (
    Library,
    unsaid_immutable,
)

LIBRARY = Library("mlx", "mlx.core", ("mlx",), "MLX")

FAULTS = (unsaid_immutable("mlx", (0, 14), source="habits.py"),)


def _mlx(case: Case) -> Made:
    mx = loaded("mlx.core")
    dtype = mx.bool_ if case.dtype == "bool" else getattr(mx, case.dtype)
    made = laid_out(case, lambda values: mx.array(values, dtype))
    mx.eval(made)
    return Made(made, exported_address(made))


GIVES = (Producer("mlx", "mlx", "mlx", (*STRIDED, "bfloat16"), _mlx),)

TAKES = (
    Consumer(
        "mlx",
        "mlx",
        "mlx",
        "mlx.core.array",
        lambda made: shown(made.shape, made.tolist(), None),
    ),
)
