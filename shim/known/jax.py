"""JAX."""

from __future__ import annotations

from dataclasses import replace

from ..look import ALL
from .arrays import DENSE, Case, Consumer, Made, Producer, loaded, shown
from .rows import (
    ANY,
    BF16,
    BOOL,
    COPIES_UNALIGNED,
    LEGACY,
    PLAIN,
    VERSIONED,
    Fault,
    Known,
    Library,
    Source,
    also,
    old,
    spans,
    unsaid_immutable,
)

LIBRARY = Library("jax", "jax.numpy", ("jax",), "JAX")

_BY_AWKWARD = (
    ("awkward", "it takes arrays of JAX only after its jax.register_and_check(), with 64 bits"),
)

SOURCES = (
    old("jax", "jax", (0, 4, 26), (0, 4, 27), immutable=True, refused_by=_BY_AWKWARD),
    Source(
        *("jax", "jax", (0, 4, 27), (0, 12)),
        versioned=False,
        immutable=True,
        refused_by=_BY_AWKWARD,
    ),
    Source(*("jax", "jax", (0, 12), (0, 13)), immutable=True, states=True, refused_by=_BY_AWKWARD),
)

FAULTS = (
    unsaid_immutable("jax", (0, 1), (0, 12)),
    Fault(
        "jax",
        "computes wrong values from transposed arrays",
        "wrong",
        since=(0, 4, 13),
        until=(0, 8),
        upgraded='order="auto"',
        source="habits.py",
    ),
)

_JAX = spans(
    (0, 12),
    Known(
        "jax.numpy.from_dlpack",
        "jax",
        (0, 4, 16),
        asks=LEGACY,
        retries=False,
        dtypes=PLAIN - BOOL | BF16,
        limits=("dtype", "dense", "jax narrows"),
        raises=("JaxRuntimeError", "XlaRuntimeError", *ANY),
        devices=(2, 10),
        stream="a stream of XLA's",
    ),
    ((0, 4, 23), {"limits": ("dtype", "strides", "jax narrows")}),
    ((0, 4, 24), {"dtypes": PLAIN | BF16}),
    # It passes objects on to jax.dlpack, which asks itself.
    (
        (0, 4, 26),
        {
            "keywords": ("stream",),
            "never_writes": True,
            "limits": ("dtype", "dense", "jax narrows"),
            "layout": "dense",
        },
    ),
    ((0, 4, 27), {"memory": COPIES_UNALIGNED}),
    ((0, 6), {"dtypes": ALL}),
)

_JAX += spans(
    (0, 13),
    replace(
        _JAX[-1],
        since=(0, 12),
        asks=VERSIONED,
        keywords=("stream", "max_version"),
        retries=True,
    ),
)

FUNCTIONS = (
    *_JAX,
    *also(
        "jax.numpy.asarray",
        [row for row in _JAX if row.since >= (0, 6)],
        wants="buffer",
        takes_own=True,
        memory="",
        limits=("jax narrows",),
    ),
)


def _jax(case: Case) -> Made:
    jnp = loaded("jax.numpy")
    dtype = jnp.bool_ if case.dtype == "bool" else getattr(jnp, case.dtype)
    made = jnp.asarray(case.values, dtype=dtype).reshape(case.shape)
    return Made(made, made.unsafe_buffer_pointer())


GIVES = (Producer("jax", "jax", "jax", (*DENSE, "bfloat16"), _jax, immutable=True),)

TAKES = (
    Consumer(
        "jax",
        "jax",
        "jax",
        "jax.numpy.from_dlpack",
        lambda made: shown(made.shape, made.tolist(), made.unsafe_buffer_pointer()),
    ),
)
