"""Arrays that their library does not give away, because their memory is not their values."""

from __future__ import annotations

from .message import Message

ROWS = (
    Message(
        "grad",
        patterns=("that requires? gradient", "Tensor that requires grad", "it requires grad,"),
        versions="torch, Paddle, dlshim",
        cause="An export would bypass autograd, so the producer refuses it.",
        cures=("consumer(dlshim.upgrade(x, detach=True))", "consumer(x.detach())"),
    ),
    Message(
        "lazy-bit",
        patterns=("(conjugate|negative) bit (is )?set", "has (conjugate|negative) bit set"),
        versions="torch, dlshim",
        cause=(
            "torch applies the bit when it reads values; other libraries read the memory as it is."
        ),
        cures=(
            "consumer(dlshim.upgrade(x, copy=True))",
            "consumer(x.resolve_conj().resolve_neg())",
        ),
    ),
    Message(
        "sparse",
        patterns=(r"other than torch\.strided", "convert Sparse layout tensor to numpy"),
        versions="torch",
        cause="A sparse tensor is not one block of memory, so it cannot be shared.",
        cures=("consumer(x.to_dense())",),
    ),
    Message(
        "meta",
        patterns=(
            "pack tensors on meta",
            "can't convert meta device type tensor",
            r"Unknown device type \w+ for Dlpack",
        ),
        versions="torch",
        cause=(
            "The tensor has no memory (meta), or this release does not export memory of its "
            "device (mps)."
        ),
        cures=(
            "consumer(x.cpu())  # mps",
            "consumer(torch.zeros_like(x, device='cpu'))  # meta: it has no values, these are new",
        ),
    ),
    Message(
        "traced",
        patterns=("called on traced array", "Tracer has no attribute '?__dlpack"),
        versions="JAX",
        cause="Inside jit, vmap or grad an array has no memory yet.",
        cures=(
            "jax.pure_callback(consumer, result_shape, x)  # or exchange outside of the function",
        ),
    ),
)
