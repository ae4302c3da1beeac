"""What should work when it is upgraded, stated by hand.

An exchange should work unless a row of ``LIMITS`` covers it.  A row stands for a
documented limit of a consumer, or for a rule of dlshim that refuses on purpose; none
was taken from a run.  ``cure`` holds options of ``upgrade`` with which the exchange
must then work; a row without a cure is out of reach of any wrapper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .cases import Case
from .consumers import Consumer
from .libraries import version_tuple
from .producers import Producer

__all__ = ["LIMITS", "Exchange", "Limit", "expected_shape", "limit_of"]


@dataclass(frozen=True)
class Exchange:
    """The facts that the limits speak about."""

    producer: Producer
    consumer: Consumer
    case: Case
    versions: Mapping[str, str]

    def _version(self, library: str) -> tuple[int, int]:
        return version_tuple(self.versions.get(library, "0"))

    @property
    def consumer_version(self) -> tuple[int, int]:
        return self._version(self.consumer.library)

    @property
    def consumer_asks_legacy(self) -> bool:
        first = self.consumer.versioned_from
        library = self.consumer.asks_through or self.consumer.library
        return first is None or self._version(library) < first

    @property
    def states_readonly(self) -> bool:
        """Whether the source says READ_ONLY when it is asked for DLPack 1.x."""
        first = self.producer.states_readonly_from
        if first is None or self._version(self.producer.library) < first:
            return False
        return self.case.readonly or self.producer.immutable


@dataclass(frozen=True)
class Limit:
    reason: str
    covers: Callable[[Exchange], bool]
    cure: Mapping[str, Any] = field(default_factory=dict)
    #: Nothing on the way can notice it: the consumer shows something else, without an error.
    silent: bool = False


LIMITS = (
    # What the source cannot say.
    Limit(
        "Arrow packs booleans into bits, which DLPack cannot describe",
        lambda e: e.producer.key == "pyarrow.Array" and e.case.dtype == "bool",
    ),
    Limit(
        "onnxruntime labels booleans as uint8, and Arrow has no booleans of one byte",
        lambda e: (
            e.producer.key == "onnxruntime"
            and e.case.dtype == "bool"
            and e.consumer.library in ("pyarrow", "nanoarrow")
        ),
        silent=True,
    ),
    Limit(
        "onnxruntime labels its booleans as uint8",
        lambda e: (
            e.producer.key == "onnxruntime"
            and e.case.dtype == "bool"
            and e.consumer.key != "onnxruntime"
        ),
        cure={"reinterpret": "bool"},
        silent=True,
    ),
    # What the consumer cannot hold.
    Limit(
        "onnxruntime takes booleans only from objects that have a dtype",
        lambda e: e.consumer.key == "onnxruntime" and e.case.dtype == "bool",
        silent=True,
    ),
    Limit(
        "a pyarrow Array has exactly one dimension",
        lambda e: e.consumer.key == "pyarrow.Array" and len(e.case.shape) != 1,
    ),
    Limit(
        "a nanoarrow buffer has exactly one dimension",
        lambda e: e.consumer.key == "nanoarrow" and len(e.case.shape) > 1,
    ),
    Limit(
        "nanoarrow takes a scalar for an empty buffer",
        lambda e: e.consumer.key == "nanoarrow" and e.case.shape == (),
        silent=True,
    ),
    Limit(
        "nanoarrow takes booleans of one byte from buffers only",
        lambda e: e.consumer.key == "nanoarrow" and e.case.dtype == "bool",
    ),
    Limit(
        "warp has no array without a dimension",
        lambda e: e.consumer.key == "warp" and e.case.shape == (),
    ),
    Limit(
        "Arrow packs booleans into bits",
        lambda e: e.consumer.library == "pyarrow" and e.case.dtype == "bool",
    ),
    Limit(
        "this library has no bfloat16",
        lambda e: (
            e.case.dtype == "bfloat16"
            and e.consumer.key
            in ("numpy", "array_api_strict", "pyarrow.Array", "pyarrow.Tensor", "nanoarrow")
        ),
    ),
    Limit(
        "the buffer protocol has no format for bfloat16",
        lambda e: e.consumer.key == "memoryview" and e.case.dtype == "bfloat16",
    ),
    # What dlshim refuses on purpose; the error names the cure.
    Limit(
        "DLPack 0.x cannot say read-only (rule T8)",
        lambda e: e.consumer_asks_legacy and e.states_readonly,
        cure={"legacy_readonly": "copy"},
    ),
    # What a copy in the right order cures.
    Limit(
        "takes C-contiguous data only",
        lambda e: (
            e.consumer.key in ("tensorflow", "onnxruntime", "pyarrow.Array", "nanoarrow")
            and e.case.layout != "dense"
        ),
        cure={"order": "C"},
    ),
    Limit(
        "takes dense data only, in any order of dimensions",
        lambda e: e.consumer.key == "jax" and e.case.layout == "step",
        cure={"order": "C"},
    ),
)


def limit_of(exchange: Exchange) -> Limit | None:
    """Return the first limit that covers the exchange; None: it should work."""
    return next((limit for limit in LIMITS if limit.covers(exchange)), None)


def expected_shape(exchange: Exchange) -> tuple[int, ...]:
    """Return the shape that the consumer must see."""
    # TensorFlow exports a scalar as one element in one dimension.
    if exchange.producer.key == "tensorflow" and exchange.case.shape == ():
        return (1,)
    return exchange.case.shape
