"""The rules as plain data and arithmetic: what has to come of one request for memory.

Nothing here asks dlshim.  Numbers in brackets are those of docs/rules.rst.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

LEGACY, VERSIONED, OLDER = "legacy", "versioned", "older"
READ_ONLY, IS_COPIED, PADDED = 1, 2, 4


@dataclass(frozen=True)
class Memory:
    """A block of memory, and what its producer says of it."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: tuple[int, int, int]
    address: int  # of element zero
    elements: tuple[bytes, ...]
    generation: str = VERSIONED  # which the producer speaks best
    flags: int = 0
    stated: bool = True  # the producer can say, and has said, whether it may be written
    level: tuple[int, int] = (1, 3)  # of the producer's own versioned struct

    @property
    def itemsize(self) -> int:
        return (self.dtype[1] * self.dtype[2] + 7) // 8

    @property
    def packed(self) -> bool:
        """Elements below 8 bits."""
        return self.dtype[1] * self.dtype[2] < 8

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def compact(self) -> tuple[int, ...]:
        """The exact row-major products, also beside extents of 0 and 1 (T4)."""
        return tuple(math.prod(self.shape[k + 1 :]) for k in range(len(self.shape)))

    @property
    def contiguous(self) -> bool:
        pairs = zip(self.shape, self.strides, self.compact, strict=True)
        return self.count == 0 or all(n < 2 or have == want for n, have, want in pairs)

    @property
    def negative(self) -> bool:
        """A negative stride that somebody would walk along."""
        pairs = zip(self.shape, self.strides, strict=True)
        return self.count > 0 and any(n > 1 and step < 0 for n, step in pairs)


@dataclass(frozen=True)
class Request:
    """What a consumer asks, in one of the ways that docs/rules.rst knows (N9)."""

    versioned: bool
    copy: bool | None = None
    supports_negative: bool = True
    known: bool = True  # it asks itself: order="auto" can tell who it is
    supports_packed: bool = False  # it becomes a Tensor


@dataclass(frozen=True)
class Refused:
    error: str  # the class's name


@dataclass(frozen=True)
class Given:
    """What the consumer finds in the struct."""

    memory: Memory
    flags: int | None
    copied: bool  # dlshim made the memory for this export
    align: int = 1


@dataclass
class Rules:
    """`wrong` names rules that are left out or turned round, to see that it is noticed."""

    wrong: frozenset[str] = field(default_factory=frozenset)

    def expect(self, memory: Memory, options: dict[str, Any], request: Request) -> Refused | Given:
        copy, clash = self._copy(options, request)
        if clash:
            return Refused("CopyRequiredError")
        memory, refused = self._dtype(memory, options, request)
        if refused:
            return refused
        readonly, stated = self._readonly(memory, options)
        word = options.get("readonly")
        private = readonly and word == "copy" and not request.supports_packed
        layout = options.get("order")
        if layout == "auto" and memory.negative and request.known:
            layout = None if request.supports_negative or "N9" in self.wrong else "C"
        reason = self._reason(memory, {**options, "order": layout}, copy, private)
        counts = readonly and (stated or word == "error") and word not in ("copy", "share")
        untold = counts and not request.versioned and "T8" not in self.wrong
        if untold and (not reason or copy is False):
            return Refused("BufferError")
        if reason and copy is False:
            return Refused("CopyRequiredError")
        if reason:
            return self._copied(memory, options, request)
        said = options.get("order") in ("K", "C")
        supported = request.supports_negative or said or "N9" in self.wrong
        if memory.negative and not supported:
            return Refused("BufferError")  # N9
        return self._same(memory, options, request, (readonly, stated))

    def _copy(self, options: dict[str, Any], request: Request) -> tuple[bool | None, bool]:
        """The consumer's wish, else the user's; the two must not contradict each other."""
        asked, told = request.copy, options.get("copy")
        if asked is not None and told is not None and asked != told:
            return None, True
        return (told if asked is None else asked), False

    def _dtype(
        self, memory: Memory, options: dict[str, Any], request: Request
    ) -> tuple[Memory, Refused | None]:
        """reinterpret= names a dtype of the same width; packing cannot be said across (T7)."""
        if "reinterpret" in options:
            width = memory.dtype[1] * memory.dtype[2]
            bytewise = (memory.generation == LEGACY and width == 1) or memory.flags & PADDED
            if (8 if memory.packed and bytewise else width) != 8:
                return memory, Refused("BufferError")
            flags = memory.flags & ~PADDED if memory.dtype != (1, 8, 1) else memory.flags
            return replace(memory, dtype=(1, 8, 1), flags=flags), None
        wanted = VERSIONED if request.versioned or request.supports_packed else LEGACY
        own = VERSIONED if memory.generation == OLDER else memory.generation
        if memory.packed and own != wanted and "T7" not in self.wrong:
            return memory, Refused("BufferError")
        return memory, None

    def _readonly(self, memory: Memory, options: dict[str, Any]) -> tuple[bool, bool]:
        if isinstance(options.get("readonly"), bool):
            return options["readonly"], True
        return bool(memory.flags & READ_ONLY), memory.stated

    def _reason(self, memory: Memory, options: dict[str, Any], copy: Any, private: bool) -> str:
        if copy:
            return "copy"
        if private:
            return "readonly"
        if options.get("order") == "C" and not memory.contiguous:
            return "order"
        # An array without elements is aligned at any address.
        return "align" if memory.count and memory.address % options.get("align", 1) else ""

    def _copied(self, memory: Memory, options: dict[str, Any], request: Request) -> Any:
        """Fresh, row-major, marked as a copy, and writable unless the user says otherwise (T8)."""
        if memory.dtype[1] * memory.dtype[2] % 8 and not memory.flags & PADDED:
            return Refused("BufferError")
        flags = IS_COPIED | memory.flags & PADDED
        flags |= READ_ONLY if options.get("readonly") is True else 0
        made = replace(memory, strides=memory.compact, address=0, flags=flags, stated=True)
        made = replace(made, generation=VERSIONED if request.versioned else LEGACY)
        align = max(64, options.get("align", 1))
        return Given(made, flags if request.versioned else None, True, align)

    def _same(
        self, memory: Memory, options: dict[str, Any], request: Request, read: tuple[bool, bool]
    ) -> Given:
        """The same memory; only the description is made canonical (T4, T5), but for order="K"."""
        readonly, stated = read
        pairs = zip(memory.shape, memory.strides, strict=True)
        strides = tuple(1 if n < 2 and step < 0 else step for n, step in pairs)
        canonical = memory.contiguous and options.get("order") != "K" and "T4" not in self.wrong
        strides = memory.compact if canonical else strides
        flags = memory.flags & ~READ_ONLY | (READ_ONLY if readonly else 0)
        out = replace(memory, strides=strides, flags=flags, stated=stated)
        return Given(out, flags if request.versioned else None, False)
