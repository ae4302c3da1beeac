"""First of all on a GPU: where real libraries differ from what dlshim once assumed, and the copies.

What is asked here was read in the sources of JAX and torch (docs/streams.rst), and proved on fake
drivers alone; see ``test_gpu`` for how the suite is run.
"""

from __future__ import annotations

import ctypes as C
import threading
from typing import Any

import pytest
from gpu.device import WORDS, Device
from gpu.exchanges import FREE, Interface, capsule

import dlshim
from doubles import capsules as caps
from doubles.differences import first_difference

VERSIONED = {"max_version": (1, 0)}


def torch_on(gpu: Device) -> Any:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    return torch


def jax_on(gpu: Device) -> Any:
    jax = pytest.importorskip("jax")
    try:
        jax.devices("cuda")
    except RuntimeError as reason:
        pytest.skip(f"this JAX has no CUDA: {str(reason).splitlines()[0]}")
    return jax


# --- a stream that is not passed ------------------------------------------------------------


@pytest.mark.parametrize("asked", ({}, {"stream": None}), ids=("omitted", "None"))
def test_jax_without_a_stream_is_ready_for_every_stream(gpu: Device, asked: Any) -> None:
    """The host waits, and a read on a stream that nobody named comes after the work."""
    jax = jax_on(gpu)
    p, reader = gpu.streams["P", FREE], gpu.streams["S", FREE]
    add_one = jax.jit(lambda x: x + 1)

    def made() -> Any:
        return add_one(jax.dlpack.from_dlpack(dlshim.upgrade(Interface(gpu.words, p))))

    caps.take(dlshim.upgrade(made()).__dlpack__(**asked)).release()  # compiled, and loaded
    gpu.call("cuCtxSynchronize")
    taken, done = list[Any](), threading.Event()
    with gpu.gate(p) as gate:
        gpu.set(42, p)
        array = made()

        def export() -> None:
            taken.append(caps.take(dlshim.upgrade(array).__dlpack__(**asked)))
            done.set()

        thread = threading.Thread(target=export)
        thread.start()
        assert not done.wait(0.2), "it returned before the data were ready"
        gate.open()
        assert done.wait(5)
        thread.join()
        gpu.copy_out(reader, taken[0].view.data)
    assert gpu.seen() == {43}


@pytest.mark.parametrize("way", ("bare", "upgraded"))
def test_torch_captures_an_exchange_without_a_stream(gpu: Device, way: str) -> None:
    torch = torch_on(gpu)
    x = torch.full((WORDS,), 7, dtype=torch.int32, device="cuda")
    wrapped = x if way == "bare" else dlshim.upgrade(x)
    caps.take(wrapped.__dlpack__(**VERSIONED)).release()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x + 1
        wrapped = y if way == "bare" else dlshim.upgrade(y)
        taken = caps.take(wrapped.__dlpack__(**VERSIONED))
        assert taken.view.data == y.data_ptr()
    graph.replay()
    torch.cuda.synchronize()
    assert set(y.tolist()) == {8}
    taken.release()


@pytest.mark.parametrize("stream", (1, -1))
def test_torch_is_called_with_its_own_device_current(gpu: Device, stream: int) -> None:
    """torch parks the device of a thread that has no context of it."""
    torch = torch_on(gpu)
    if torch.cuda.device_count() < 2:
        pytest.skip("this takes two GPUs")
    x = torch.full((4,), 7, dtype=torch.int32, device="cuda:1")
    assert torch.cuda.current_device() == 0
    taken = caps.take(dlshim.upgrade(x).__dlpack__(stream=stream, **VERSIONED))
    assert taken.view.device == (2, 1) and taken.view.data == x.data_ptr()
    assert torch.cuda.current_device() == 0


# --- copies to the device -------------------------------------------------------------------


def words_at(gpu: Device, address: int, count: int = WORDS) -> list[int]:
    there = (C.c_int32 * count)()
    gpu.call("cuMemcpyDtoH_v2", C.addressof(there), address, C.sizeof(there))
    return list(there)


def test_torch_takes_a_host_array_to_its_device(gpu: Device) -> None:
    torch = torch_on(gpu)
    numbers = (C.c_float * 6)(*range(6))
    taken = torch.from_dlpack(dlshim.upgrade(memoryview(numbers)), device="cuda")
    assert taken.is_cuda and taken.tolist() == list(range(6))


def test_memory_like_a_torch_tensor_is_of_its_allocator(gpu: Device) -> None:
    torch = torch_on(gpu)
    like = torch.empty(1, device="cuda")
    if not hasattr(type(like), "__dlpack_c_exchange_api__"):
        pytest.skip("this torch has no C table, and so no allocator for others")
    before = torch.cuda.memory_allocated()
    numbers = (C.c_int32 * WORDS)(*range(WORDS))
    taken = caps.take(dlshim.upgrade(memoryview(numbers), like=like).__dlpack__(**VERSIONED))
    assert torch.cuda.memory_allocated() > before
    assert first_difference(words_at(gpu, taken.view.data), list(range(WORDS))) is None
    taken.release()
    assert torch.cuda.memory_allocated() == before


def test_no_memory_is_lost(gpu: Device) -> None:
    """A thousand copies of four megabytes do not take four gigabytes (nor a hundred 400 MB)."""
    free, total = C.c_size_t(), C.c_size_t()

    def available() -> int:
        gpu.call("cuCtxSynchronize")
        gpu.call("cuMemGetInfo_v2", C.byref(free), C.byref(total))
        return free.value

    if not gpu.has("cuMemGetInfo_v2"):
        pytest.skip("this driver does not tell how much memory is free")
    numbers = memoryview((C.c_int32 * (1 << 20))())
    caps.take(dlshim.upgrade(numbers, device="cuda:0").__dlpack__(**VERSIONED)).release()
    before = available()
    for _ in range(min(1000, gpu.rounds // 10)):
        caps.take(dlshim.upgrade(numbers, device="cuda:0").__dlpack__(**VERSIONED)).release()
    assert before - available() < 1 << 28


def test_there_and_back(gpu: Device) -> None:
    numbers = memoryview((C.c_int32 * WORDS)(*range(WORDS)))
    there = dlshim.from_dlpack(numbers, device="cuda:0")
    # Memory that was just given back may be used again: it must not hold these numbers already.
    others = memoryview((C.c_int32 * WORDS)(*[-2] * WORDS))
    assert len([dlshim.from_dlpack(others, copy=True) for _ in range(8)]) == 8
    back = caps.take(dlshim.upgrade(there, device="cpu").__dlpack__(**VERSIONED))
    assert first_difference(back.values(), list(range(WORDS))) is None
    assert back.view.device == (1, 0)


def test_an_unordered_read_shows_in_this_suite(gpu: Device) -> None:
    """The negative control: with stream=-1 a read on another stream sees what was there before."""
    p, s = gpu.streams["P", FREE], gpu.streams["S", FREE]
    source = dlshim.upgrade(capsule(gpu))
    with gpu.gate(p):
        gpu.set(42, p)
        taken = caps.take(source.__dlpack__(stream=-1, **VERSIONED))
        gpu.copy_out(s)
        assert gpu.finishes(s, 5) == 0
        assert gpu.seen() == {7}
    taken.release()
