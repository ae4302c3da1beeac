"""What the tests on a GPU share: sources of the words of a :class:`~gpu.device.Device`, and the
handing over behind a gate."""

from __future__ import annotations

import ctypes as C
import time
from typing import Any

from gpu.device import WORDS, Device

from doubles import capsules as caps
from doubles.producers import P2, masquerade

FREE = "non-blocking"


class Interface:
    """The CUDA array interface; `stream` is the one that it names."""

    def __init__(
        self, address: int, stream: int | None, shape: Any = (WORDS,), strides: Any = None
    ) -> None:
        steps = strides and tuple(4 * step for step in strides)
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": "<i4", "data": (address, False), "version": 3,
            "stream": stream, "strides": steps,
        }  # fmt: skip


class Modern(P2):
    """A producer that syncs by itself."""

    gpu: Device
    stream = 1

    def answer(self, stream: Any = None, **asked: Any) -> Any:
        if stream != -1 and (stream or 1) != self.stream:
            self.gpu.edge(self.stream, stream or 1)
        return self._versioned()


Silent = masquerade(P2, "nb_ndarray", "nanobind")  # takes a stream, syncs nothing


def fields(gpu: Device) -> dict[str, Any]:
    device, nothing = (2, 0), C.c_int32()
    return {
        "shape": (WORDS,), "dtype": "int32", "device": device, "data": gpu.words, "memory": nothing
    }  # fmt: skip


def capsule(gpu: Device, **other: Any) -> Any:
    return caps.make(**(fields(gpu) | other))


def rehearse(gpu: Device, source: Any, p: int, s: int, address: int = 0) -> None:
    """The same without a gate: what is loaded or made at the first call would wait for one."""
    gpu.set(41, p, address)
    taken = caps.take(source.__dlpack__(stream=s, max_version=(1, 0)))
    gpu.copy_out(s, address)
    gpu.call("cuCtxSynchronize")
    assert gpu.seen() == {41}
    taken.release()
    gpu.set(7, 1, address)
    gpu.call("cuCtxSynchronize")


def hand_over(
    gpu: Device, source: Any, p: int, s: int, asked: int, seconds: float, address: int = 0
) -> tuple[int, set[int]]:
    """A kernel on p, behind a gate, writes 42; `asked` is passed as the stream, and s reads.  How s
    stands while the gate is closed, and what it has read in the end."""
    rehearse(gpu, source, p, s, address)
    with gpu.gate(p) as gate:
        gpu.set(42, p, address)
        begun = time.perf_counter()
        taken = caps.take(source.__dlpack__(stream=asked, max_version=(1, 0)))
        gpu.slowest = max(gpu.slowest, time.perf_counter() - begun)
        assert gate.closed, "the host waited for the gate"
        gpu.copy_out(s, address)
        state = gpu.finishes(s, seconds)
    taken.release()
    return state, gpu.seen()
