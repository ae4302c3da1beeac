"""Refusals of dlshim itself.  Each names its reason and its cure; this is the same in code."""

from __future__ import annotations

from .message import Message

ROWS = (
    Message(
        "own-negative",
        patterns=("has negative strides, and this consumer",),
        versions="dlshim",
        cause=(
            "torch up to 2.13 ends the process on negative strides, and this consumer asks as "
            "torch does."
        ),
        cures=(
            'consumer(dlshim.upgrade(x, order="auto"))',
            'consumer(dlshim.upgrade(x, order="C"))',
            'consumer(dlshim.upgrade(x, order="K"))  # if the consumer takes them',
        ),
    ),
    Message(
        "own-layout",
        patterns=("leave gaps, repeat elements or are negative", "ignores strides: it would read"),
        versions="dlshim",
        cause=(
            "JAX refuses such memory, and MAX reads it as if it were row-major. A row-major copy "
            "passes."
        ),
        cures=(
            'consumer(dlshim.upgrade(x, order="auto"))',
            'consumer(dlshim.upgrade(x, order="C"))',
        ),
    ),
    Message(
        "own-nothing",
        patterns=("offers none of __dlpack__", r"object: it cannot be exported(?!:)"),
        versions="dlshim",
        cause=(
            "The object offers no array protocol and no buffer, so there is no memory to share."
        ),
        cures=(
            "consumer(numpy.asarray(x))  # if that gives numbers, and the message names no other",
        ),
    ),
    Message(
        "own-kind",
        patterns=("its elements are (of a kind|Python objects|text|structs|bit fields)",),
        versions="dlshim",
        cause="DLPack describes numbers only. The message names the conversion.",
        cures=('consumer(dlshim.upgrade(x, reinterpret="int64"))  # dates and durations',),
    ),
    Message(
        "own-capture",
        patterns=("graph capture is running",),
        versions="dlshim",
        cause="While a CUDA graph is being captured, nothing may be waited for.",
        cures=(
            "consumer(dlshim.upgrade(x, stream=s, producer_stream=s))  # s: the capturing stream",
        ),
    ),
)
