"""What should work when it is upgraded, stated by hand.

An exchange should work unless a row of ``LIMITS`` covers it; the first row that does
counts.  A row stands for a known limit of a library, or for a rule of dlshim that
refuses on purpose; none was taken from a run of the matrix.  ``cure`` holds options of
``upgrade`` with which the exchange must then work; a row without a cure is out of reach
of any wrapper.  Where it is not known in which release a limit fell, the row covers all
releases up to one without it: an exchange that works is never held against a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .cases import Case
from .consumers import Consumer
from .libraries import Version, version_tuple
from .producers import Producer

__all__ = ["LIMITS", "Exchange", "Limit", "limit_of"]


@dataclass(frozen=True)
class Exchange:
    """The facts that the limits speak about."""

    producer: Producer
    consumer: Consumer
    case: Case
    versions: Mapping[str, str]

    def version(self, library: str) -> Version:
        return version_tuple(self.versions.get(library, "0"))

    def made_by(self, library: str, since: Version = (), below: Version | None = None) -> bool:
        """Whether the array is made by a library of these releases."""
        version = self.version(library)
        known = since <= version and (below is None or version < below)
        return self.producer.library == library and known

    def goes_into(self, library: str, below: Version | None = None) -> bool:
        """Whether the consumer is a library, or asks through it, of these releases."""
        asking = self.consumer.asks_through or self.consumer.library
        return library in (asking, self.consumer.library) and (
            below is None or self.version(library) < below
        )

    @property
    def asks_legacy(self) -> bool:
        """Whether the consumer asks for DLPack 0.x."""
        first = self.consumer.versioned_from
        return first is None or self.goes_into(
            self.consumer.asks_through or self.consumer.library, below=first
        )

    @property
    def states_readonly(self) -> bool:
        """Whether the source says READ_ONLY when it is asked for DLPack 1.x."""
        version = self.version(self.producer.library)
        stating = any(since <= version < below for since, below in self.producer.states_readonly)
        return stating and (self.case.readonly or self.producer.immutable)


@dataclass(frozen=True)
class Limit:
    reason: str
    covers: Callable[[Exchange], bool]
    cure: Mapping[str, Any] = field(default_factory=dict)
    #: Nothing on the way can notice it: the consumer shows something else, without an error.
    silent: bool = False


#: Library, and the first release that has DLPack's booleans in both directions.
BOOLEANS = {
    "numpy": (1, 25),
    "torch": (2, 6),
    "jax": (0, 4, 24),
    "warp": (1, 16),
    "tensorflow": (2, 19),
    "paddle": (3, 0),
}
#: Before that, these label their own booleans as uint8 (the others refuse).
LABELS_UINT8 = ("jax", "tensorflow", "paddle")


def _is(e: Exchange, dtype: str) -> bool:
    return e.case.dtype == dtype


LIMITS = (
    # Booleans.
    Limit(
        "Arrow packs booleans into bits, which DLPack cannot describe",
        lambda e: _is(e, "bool") and e.made_by("pyarrow"),
    ),
    Limit(
        "Arrow has no booleans of one byte",
        lambda e: _is(e, "bool") and e.goes_into("pyarrow"),
        silent=True,
    ),
    Limit(
        "nanoarrow takes booleans of one byte from buffers only",
        lambda e: _is(e, "bool") and e.goes_into("nanoarrow"),
        silent=True,
    ),
    Limit(
        "onnxruntime takes booleans only from objects that have a dtype",
        lambda e: _is(e, "bool") and e.goes_into("onnxruntime"),
        silent=True,
    ),
    Limit(
        "this release of the consumer takes no DLPack booleans",
        lambda e: (
            _is(e, "bool") and any(e.goes_into(name, below) for name, below in BOOLEANS.items())
        ),
        silent=True,
    ),
    Limit(
        "this release of the producer labels its booleans as uint8",
        lambda e: (
            _is(e, "bool")
            and (
                e.made_by("onnxruntime")
                or any(e.made_by(name, below=BOOLEANS[name]) for name in LABELS_UINT8)
            )
        ),
        cure={"reinterpret": "bool"},
        silent=True,
    ),
    Limit(
        "torch before 2.6 exports no booleans",
        lambda e: _is(e, "bool") and e.made_by("torch", below=BOOLEANS["torch"]),
    ),
    # bfloat16.
    Limit(
        "the consumer has no bfloat16",
        lambda e: (
            _is(e, "bfloat16")
            and (
                any(e.goes_into(name) for name in ("numpy", "pyarrow", "nanoarrow"))
                or e.goes_into("warp", below=(1, 13))
            )
        ),
    ),
    Limit(
        "the buffer protocol has no format for bfloat16",
        lambda e: _is(e, "bfloat16") and e.consumer.key == "memoryview",
    ),
    # Dimensions.
    Limit(
        "a pyarrow Array has exactly one dimension",
        lambda e: e.consumer.key == "pyarrow.Array" and len(e.case.shape) != 1,
    ),
    Limit(
        "a nanoarrow buffer has exactly one dimension",
        lambda e: e.goes_into("nanoarrow") and len(e.case.shape) > 1,
    ),
    Limit(
        "nanoarrow takes a scalar for an empty buffer",
        lambda e: e.goes_into("nanoarrow") and e.case.shape == (),
        silent=True,
    ),
    Limit(
        "warp has no array without a dimension",
        lambda e: e.goes_into("warp") and e.case.shape == (),
    ),
    # Read-only.
    Limit(
        "pyarrow 21 to 25 exports read-only Tensors without their data (rule T12)",
        lambda e: (
            e.case.readonly
            and e.producer.key == "pyarrow.Tensor"
            and e.made_by("pyarrow", since=(21,), below=(26,))
        ),
    ),
    Limit(
        "DLPack 0.x cannot say read-only (rule T8)",
        lambda e: e.asks_legacy and e.states_readonly,
        cure={"legacy_readonly": "copy"},
    ),
    # Layouts that a copy in the right order cures.
    Limit(
        "gets no negative strides: it aborts on them, or is not known to bear them (rule N9)",
        lambda e: (
            e.case.layout == "reversed"
            and any(e.goes_into(name) for name in ("torch", "paddle", "capsule"))
        ),
        cure={"order": "C"},
    ),
    Limit(
        "takes no negative strides",
        lambda e: (
            e.case.layout == "reversed"
            and (e.goes_into("mlx") or e.consumer.key == "pyarrow.Tensor")
        ),
        cure={"order": "C"},
    ),
    Limit(
        "takes C-contiguous data only",
        lambda e: (
            e.case.layout != "dense"
            and (
                any(e.goes_into(name) for name in ("tensorflow", "onnxruntime", "nanoarrow"))
                or e.consumer.key == "pyarrow.Array"
            )
        ),
        cure={"order": "C"},
    ),
    Limit(
        "takes dense data only, in any order of dimensions",
        lambda e: e.goes_into("jax") and e.case.layout in ("step", "reversed"),
        cure={"order": "C"},
    ),
    Limit(
        "jax before 0.10 misreads transposed data that happen to be aligned",
        lambda e: e.goes_into("jax", below=(0, 10)) and e.case.layout == "transposed",
        cure={"order": "C"},
        silent=True,
    ),
    Limit(
        "paddle before 3 ignores strides",
        lambda e: e.goes_into("paddle", below=(3, 0)) and e.case.layout != "dense",
        cure={"order": "C"},
        silent=True,
    ),
)


def limit_of(exchange: Exchange) -> Limit | None:
    """Return the first limit that covers the exchange; None: it should work."""
    return next((limit for limit in LIMITS if limit.covers(exchange)), None)
