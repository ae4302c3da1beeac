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
    BF16,
    COPIES,
    LEGACY_FIRST,
    PLAIN,
    Known,
    Library,
    Source,
    also,
    spans,
    unsaid_immutable,
)

LIBRARY = Library("mlx", "mlx.core", ("mlx",), "MLX")

SOURCES = (
    Source(
        "mlx", "mlx", (0, 14), (0, 32), frozenset(), versioned=False, sound=False, immutable=True
    ),
    Source("mlx", "mlx", (0, 32), (0, 33), versioned=False, sound=False, immutable=True),
)

FAULTS = (unsaid_immutable("mlx", (0, 14), source="habits.py"),)

_MLX = spans(
    (0, 33),
    Known(
        "mlx.core.from_dlpack",
        "mlx",
        (0, 32),
        asks=LEGACY_FIRST,
        unchecked=True,
        takes_buffers=True,
        takes_capsules=True,
        memory=COPIES,
        dtypes=PLAIN | BF16,
        limits=("dtype", "negative", "mlx narrows"),
        raises=("ValueError", "TypeError"),
        passes_on="TypeError",
    ),
)

FUNCTIONS = (
    *also("mlx.core.array", _MLX, converts=True, passes_on="RuntimeError"),
    *_MLX,
)


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
