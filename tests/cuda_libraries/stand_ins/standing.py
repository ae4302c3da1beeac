"""What stands behind the stand-ins: the fake driver of the process, streams, arrays and kernels.

Real torch, CuPy, JAX and Warp need CUDA's runtime and compiled kernels, which no fake has.  So that
the tests of tests/gpu that use them are executed before they meet a card, modules of their names
answer to what these tests call.  Their arrays are the doubles of tests/doubles/device.py, their
kernels functions that the asynchronous fake calls in a stream's turn.
"""

from __future__ import annotations

import ctypes as C
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from doubles import capsules as caps
from drivers import load
from drivers.control import LEGACY

PATH = next((a.partition("=")[2] for a in sys.argv if a.startswith("--gpu-driver=")), "")
drv = load(PATH)
_FUNCTION = C.CFUNCTYPE(None, C.c_void_p)
_kept: list[Any] = []  # a pending kernel's function, and what it works on


def make_stream(blocking: bool = False) -> int:
    before = drv.now_current()
    drv.call("cuCtxSetCurrent", drv.context(0))
    made: int = drv.get("cuStreamCreate", C.c_void_p, int(not blocking))
    drv.call("cuCtxSetCurrent", before and drv.context(0))
    return made


class Stream:
    """A stream of device 0, and whose turn it is."""

    def __init__(self, handle: int) -> None:
        self.handle = handle


class Current:
    """The current stream of a library."""

    def __init__(self, make: type[Stream]) -> None:
        self.stream = make(LEGACY)

    @contextmanager
    def at(self, stream: Stream) -> Iterator[Stream]:
        before, self.stream = self.stream, stream
        try:
            yield stream
        finally:
            self.stream = before


def launch(stream: int, kernel: Any, *kept: Any) -> None:
    function = _FUNCTION(lambda ignored: kernel())
    _kept.append((function, kept))
    drv.call("cuLaunchHostFunc", stream, C.cast(function, C.c_void_p), None)


def words_of(x: Any) -> Any:
    return (C.c_int32 * (x.own.size // 4)).from_address(x.address)


def fill(x: Any, value: int) -> Any:
    with x.calls_in():
        drv.call("cuMemsetD32Async", x.address, value, x.own.size // 4, x.stream)
    return x


def add_one(x: Any, y: Any) -> Any:
    """A kernel on the stream of y."""
    source, target = words_of(x), words_of(y)

    def kernel() -> None:
        target[:] = [word + 1 for word in source]

    launch(y.stream, kernel, x, y)
    return y


def read(x: Any) -> list[int]:
    with x.calls_in():
        drv.call("cuStreamSynchronize", x.stream)
    return list(words_of(x))


class Taken:
    """What a library has made of a capsule."""

    def __init__(self, capsule: Any) -> None:
        self.taken = caps.take(capsule)
        self.view = self.taken.view
        self.is_cuda = self.view.device[0] == 2

    def tolist(self) -> list[Any]:
        drv.call("cuCtxSynchronize")
        kind = C.c_float if self.view.dtype[0] == 2 else C.c_int32
        count = 1
        for extent in self.view.shape:
            count *= extent
        return list((kind * count).from_address(self.view.data))
