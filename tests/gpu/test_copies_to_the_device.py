"""Copies to a real GPU (rule S19): whole, after the producer's work, freed after their readers.

    python tests/gpu [--gpu-results=docs/results]

Not run on hardware yet; see test_gpu.py.
"""

from __future__ import annotations

import ctypes as C
import threading
import time
from typing import Any

import pytest
from gpu.device import KINDS, WORDS, Device
from gpu.exchanges import FREE, Interface

import dlshim
from doubles import capsules as caps

POOLS = 115  # the attribute of a device that has memory pools


def on_host(value: int) -> Any:
    return memoryview((C.c_uint32 * WORDS)(*([value] * WORDS)))


def copied(source: Any, stream: int | None = None, **options: Any) -> caps.Import:
    upgraded = dlshim.upgrade(source, device=(2, 0), **options)
    return caps.take(upgraded.__dlpack__(max_version=(1, 0), stream=stream))


@pytest.mark.parametrize("kind", KINDS)
def test_a_host_array_is_ready_for_any_stream(gpu: Device, kind: str) -> None:
    taken = copied(on_host(42))  # no stream is named, as torch names none
    gpu.copy_out(gpu.streams["S", kind], taken.view.data)
    gpu.call("cuCtxSynchronize")
    assert taken.view.device == (2, 0) and taken.view.copied and gpu.seen() == {42}
    taken.release()


def test_a_host_array_without_a_current_context(gpu: Device) -> None:
    gpu.call("cuCtxSetCurrent", None)
    taken = copied(on_host(5))
    assert gpu.current() is None
    gpu.call("cuCtxSetCurrent", gpu.context)
    gpu.copy_out(1, taken.view.data)
    gpu.call("cuCtxSynchronize")
    assert gpu.seen() == {5}
    taken.release()


def test_rows_are_copied_on_the_device(gpu: Device) -> None:
    words = (C.c_uint32 * WORDS)(*range(WORDS))
    gpu.call("cuMemcpyHtoD_v2", gpu.words, C.addressof(words), C.sizeof(words))
    shape, strides = (4, 3), (8, 1)
    taken = copied(Interface(gpu.words, 1, shape, strides), copy=True)
    there = (C.c_uint32 * 12)()
    gpu.call("cuMemcpyDtoH_v2", C.addressof(there), taken.view.data, C.sizeof(there))
    assert list(there) == caps.offsets(shape, strides)
    taken.release()


def test_a_copy_comes_after_the_producers_work(gpu: Device) -> None:
    p = gpu.streams["P", FREE]
    copied(Interface(gpu.words, p), copy=True).release()  # what is made once is made now
    done, got = threading.Event(), list[caps.Import]()

    def export() -> None:
        got.append(copied(Interface(gpu.words, p), copy=True))
        done.set()

    with gpu.gate(p) as gate:
        gpu.set(42, p)
        thread = threading.Thread(target=export)
        thread.start()
        assert not done.wait(0.2) and gate.closed, "the copy did not wait for P"
        gate.open()
        thread.join()
    gpu.copy_out(1, got[0].view.data)
    gpu.call("cuCtxSynchronize")
    assert gpu.seen() == {42}
    got[0].release()


def test_memory_is_freed_after_its_readers_and_the_host_does_not_wait(gpu: Device) -> None:
    if not (gpu.has("cuCtxRecordEvent") and gpu.attribute(POOLS)):
        pytest.skip("no pools, or no event of a whole context: the host waits when it frees")
    p, s = gpu.streams["P", FREE], gpu.streams["S", FREE]
    copied(on_host(1)).release()  # what is made once is made now
    taken = copied(on_host(42))
    with gpu.gate(s) as gate:
        gpu.copy_out(s, taken.view.data)
        begun = time.perf_counter()
        taken.release()
        gpu.figure("release of a copy that is still read", f"{time.perf_counter() - begun:.6f} s")
        assert gate.closed, "the release waited for S"
        for _ in range(8):  # memory that was freed too early is theirs; the host waits for none
            gpu.set(13, p, gpu.alloc("pool", 4 * WORDS))
    assert gpu.seen() == {42}
