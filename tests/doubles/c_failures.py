"""Python's own allocations fail on the roads of dlshim.h: what runs in a child process.

The sources are those of ``tests/programs/no_memory.c``, which run no Python code.  So each answer
is dlshim's own, and a SystemError says that a function failed without an exception.
"""

from __future__ import annotations

import itertools
import struct
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

import dlshim
from dlshim import _core

from .asking import live
from .extension import load

INT = struct.pack("BBH", 0, 32, 1)
HOST, CUDA = 1, 2
READY, WAIT = 2, 3
NEVER, ALWAYS = 1, 2

#: What is asked for, and the exception that refuses it.
REQUESTS: dict[str, tuple[dict[str, Any], type[BaseException] | None]] = {
    "any": ({}, None),
    "laid out": ({"contiguous": 1, "alignment": 4, "ranks": 1 << 2}, None),
    "a copy": ({"copy": ALWAYS}, None),
    "an aligned copy": ({"alignment": 1 << 20}, None),
    "another dtype": ({"dtypes": INT, "name": "f(): x"}, TypeError),
    "another rank": ({"ranks": 1 << 4}, ValueError),
    "no copy": ({"alignment": 1 << 20, "copy": NEVER, "name": "f(): x"}, BufferError),
    "no such value": ({"copy": 7}, ValueError),
    "a device": ({"device_type": CUDA, "copy": NEVER}, BufferError),
}

#: CPython 3.10 says so where it had no memory for the traceback of an exception.
LOST = "_PyEval_EvalFrameDefault returned NULL without setting an exception"

Counts = tuple[int, int, int]
Action = Callable[[], object]
#: Makes an action; what it needs is made while nothing fails.
Road = Callable[[], Action]


def sources(c: ModuleType) -> dict[str, Callable[[], Any]]:
    """Everything that can be imported, by name."""
    buffer = memoryview(bytearray(24))
    found: dict[str, Callable[[], Any]] = {"a buffer": lambda: buffer.cast("f", (2, 3))}
    for kind in (c.Legacy, c.Versioned, c.Table):
        for wrap in (lambda x: x, dlshim.upgrade, dlshim.from_dlpack):
            name = f"{kind.__name__} by {getattr(wrap, '__name__', '')}"
            found[name] = lambda kind=kind, wrap=wrap: wrap(kind(HOST, 0))
    for versioned in (False, True):
        found[f"capsule {versioned}"] = lambda versioned=versioned: c.capsule(versioned)
    return found


def imports(ext: ModuleType, c: ModuleType) -> Iterator[tuple[str, Road, Any]]:
    calls = {"import": ext.take, "borrow": ext.lend}
    for (how, call), (what, make) in itertools.product(calls.items(), sources(c).items()):
        for asked, (request, refusal) in REQUESTS.items():

            def road(call=call, make=make, request=request) -> Action:
                return partial(call, make(), **request)

            yield f"{how} {what}: {asked}", road, refusal
    for how, call in calls.items():
        for kind in (c.Versioned, c.Table):
            marked, away = kind(HOST, 1), kind(CUDA, 0)
            yield (
                f"{how} read-only {kind.__name__} to write",
                lambda call=call, x=marked: partial(call, x, writable=1, name="f(): x"),
                BufferError,
            )
            yield (
                f"{how} {kind.__name__} of a device",
                lambda call=call, x=away: partial(call, x, **{"stream.kind": READY}),
                BufferError,
            )
        yield f"{how} no array", lambda call=call: partial(call, 7, name="f(): x"), TypeError
        copied = dlshim.upgrade(c.Versioned(HOST, 0), copy=True)
        yield (
            f"{how} a copy to write",
            lambda call=call, x=copied: partial(call, x, writable=1),
            BufferError,
        )


def exports(ext: ModuleType, c: ModuleType) -> Iterator[tuple[str, Road, Any]]:
    for versioned, (kind, refusal) in itertools.product(
        (False, True), ((0, None), (READY, None), (WAIT, ValueError))
    ):

        def road(versioned=versioned, kind=kind) -> Action:
            return partial(c.give, ext.give, versioned, kind)

        yield f"export {versioned}, stream {kind}", road, refusal
    for shape, bits, device, refusal in (
        ((2, 3), 32, HOST, None),
        ((2, 3), 32, CUDA, None),
        ((2, 3), 33, HOST, ValueError),
        ((-1,), 32, HOST, BufferError),
    ):
        asked = (shape, None, 0, bits, (device, 0), 0, 0)
        yield f"export_array {asked}", lambda asked=asked: partial(ext.array, *asked), refusal
    for thread in (0, 1):

        def gives_back(thread=thread) -> Action:
            return partial(ext.release, ext.take(c.Versioned(HOST, 0)), thread)

        yield f"release on thread {thread}", gives_back, None


class Trial:
    """One road under failures, with a plan that was learned or without one."""

    def __init__(self, c: ModuleType, name: str, road: Road, refusal: Any, known: bool) -> None:
        self.c, self.name, self.road, self.refusal, self.known = c, name, road, refusal, known
        for _ in range(3):
            error, _ = self.attempt(0, 0)
            assert isinstance(error, refusal or type(None)), (name, error)
            del error  # it knows the frames that it passed, and they know it

    def attempt(self, first: int, last: int) -> tuple[BaseException | None, int]:
        """The error, and how many allocations there were."""
        # A frame that could not get its object would lose the exception that passes it.
        sys._getframe()
        c, action = self.c, self.road()
        if not self.known:
            _core._hook("forget_plans")
        c.fail(first, last)
        try:
            given = action()
        except BaseException:
            count = c.stop()
            return sys.exc_info()[1], count
        count = c.stop()
        del given
        return None, count

    def fails(self, first: int, last: int) -> bool:
        """Whether it shows.  AssertionError where anything is wrong."""
        before = self.c.alive(), live()
        error, count = self.attempt(first, last)
        told = (self.name, self.known, first, last, repr(error))
        right = isinstance(error, (type(None), MemoryError, self.refusal or MemoryError))
        assert right or (type(error) is SystemError and str(error) == LOST), told
        shows = isinstance(error, MemoryError)
        del error
        # Without a collection: a cycle stays for ever once CPython has used up its MemoryErrors.
        assert (self.c.alive(), live()) == before, (*told, self.c.alive(), live(), before)
        self.reached = count > first
        return shows

    def go(self, stride: int, length: int) -> tuple[int, int]:
        """Each n-th allocation fails, and `length` after it."""
        tried = showed = n = 0
        self.reached = True
        while self.reached:
            showed += self.fails(n, n + length)
            tried += 1
            n += stride
        return tried, showed


def run(ext_path: str, c_path: str, stride: int, lengths: tuple[int, ...]) -> Counts:
    """The number of roads, of failures, and of those that showed."""
    ext, c = load("c_interface", ext_path), load("no_memory", c_path)
    sys.unraisablehook = lambda report: None
    roads = [*imports(ext, c), *exports(ext, c)]
    tried = showed = 0
    for (name, road, refusal), known, length in itertools.product(roads, (True, False), lengths):
        these, shown = Trial(c, name, road, refusal, known).go(stride, length)
        tried += these
        showed += shown
    return len(roads), tried, showed
