"""JAX."""

from __future__ import annotations

from .arrays import DENSE, Case, Consumer, Made, Producer, loaded, shown
from .rows import Fault, Library, unsaid_immutable

LIBRARY = Library("jax", "jax.numpy", ("jax",), "JAX")

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
