"""Short ways to ask, to count and to read messages, for tests that are not about a consumer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from . import capsules as caps
from .capsules import Import

V1 = (1, 0)


def bare(x: Any, **keywords: Any) -> Import:
    """A legacy consumer that supports any layout."""
    capsule = x.__dlpack__(**keywords)
    assert caps.name_of(capsule) == caps.LEGACY
    return caps.take(capsule)


def versioned(x: Any, **keywords: Any) -> Import:
    """A versioned consumer that supports any layout."""
    capsule = x.__dlpack__(**{"max_version": V1} | keywords)
    assert caps.name_of(capsule) == caps.VERSIONED
    return caps.take(capsule)


ASKINGS = {"legacy": bare, "versioned": versioned}


def walk(cases: Any, check: Any) -> None:
    """Run `check` on every case; a failure says which one it was."""
    named = cases.items() if isinstance(cases, dict) else ((repr(case), case) for case in cases)
    for name, case in named:
        try:
            check(case)
        except Exception as failure:
            raise AssertionError(f"{name}: {type(failure).__name__}: {failure}") from failure


class Count:
    def __init__(self) -> None:
        self.handed_on = self.translated = self.copied = self.taken = 0


@contextmanager
def counting() -> Iterator[Count]:
    """How many exchanges of each kind dlshim counted inside the block."""
    from dlshim import _core

    count, before = Count(), _core._counters()
    yield count
    after = _core._counters()
    for name in ("handed_on", "translated", "copied", "taken"):
        setattr(count, name, after[name] - before[name])


def live() -> int:
    from dlshim import _core

    return _core._counters()["live"]


def tells(error: BaseException, *words: str) -> None:
    """The message holds every one of these words (regular expressions, any case)."""
    text = str(error)
    missing = [word for word in words if not re.search(word, text, re.IGNORECASE)]
    assert not missing, f"{text!r} does not tell {missing}"


def refused(x: Any, *words: str) -> BufferError:
    """Neither generation of consumers nor a Tensor gets the memory of x.  They are told the same,
    which names the type of x and holds these words; one of the errors is returned."""
    import pytest

    import dlshim

    takes = (
        lambda: bare(dlshim.upgrade(x)),
        lambda: versioned(dlshim.upgrade(x)),
        lambda: dlshim.from_dlpack(x),
    )
    told = set()
    for take in takes:
        with pytest.raises(BufferError) as error:
            take()
        told.add(re.sub("0x[0-9a-f]+", "", str(error.value)))  # where a capsule lies
    assert len(told) == 1, told
    tells(error.value, type(x).__name__, *words)
    return error.value


def asks(module: str, keywords: str = "", question: str = "x.__dlpack_device__()") -> Any:
    """A function of a library's module that asks as the library does, and takes what it gets."""
    space: dict[str, Any] = {"__name__": module}
    exec(f"def ask(x):\n    {question}\n    return x.__dlpack__({keywords})\n", space)
    return lambda x: caps.take(space["ask"](x))


def scribble(size: int) -> None:
    """Write over freed memory of about this size, so that a read after the end shows."""
    libc = caps._libc
    libc.malloc.restype = caps.C.c_void_p
    libc.malloc.argtypes = [caps.C.c_size_t]
    libc.free.argtypes = [caps.C.c_void_p]
    blocks = []
    for extra in range(0, 1024, 16):
        block = libc.malloc(size + extra)
        caps.C.memset(block, caps.POISON, size + extra)
        blocks.append(block)
    for block in blocks:
        libc.free(block)
