"""dlshim on a real GPU: what is synced waits, what is not does not, and what it costs.

    python tests/gpu [--gpu-results=docs/results]

It has not been run on hardware yet: its logic was tried out on stand-ins for libcuda, which do not
show how a real driver behaves.  Without a device everything is skipped.  libcuda alone is used;
torch, CuPy, Warp, numba-cuda, cuda.core, apache-tvm-ffi and JAX take part where they are installed.
"""

from __future__ import annotations

import ctypes as C
import itertools
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from gpu.device import KINDS, NOT_READY, WORDS, Device
from gpu.exchanges import FREE, Interface, Modern, Silent, capsule, fields, hand_over

import dlshim
from doubles import capsules as caps

#: Pairs of streams that do not sync themselves: there a missing edge shows (S13).
UNSYNCED = {(p, s) for p in KINDS for s in KINDS if FREE in (p, s) or {p, s} == {"PTDS", KINDS[2]}}
UNSYNCED.add(("blocking", "blocking"))


def modern(gpu: Device, p: int) -> Any:
    made = Modern(**fields(gpu))
    made.gpu, made.stream = gpu, p
    return dlshim.upgrade(made)


#: Ways of handing over the words, which stream p has not written yet.
SOURCES: dict[str, Callable[[Device, int], Any]] = {
    "modern": modern,
    "interface": lambda gpu, p: dlshim.upgrade(Interface(gpu.words, p)),
    "tensor": lambda gpu, p: dlshim.from_dlpack(Interface(gpu.words, p), stream=p),
    "named": lambda gpu, p: dlshim.upgrade(capsule(gpu), producer_stream=p),
    "capsule": lambda gpu, p: dlshim.upgrade(capsule(gpu)),
    "silent": lambda gpu, p: dlshim.upgrade(Silent(**fields(gpu))),
}
UNKNOWN = ("capsule", "silent")


@pytest.mark.parametrize("s", KINDS)
@pytest.mark.parametrize("p", KINDS)
@pytest.mark.parametrize("how", SOURCES)
def test_s_waits_for_p_and_the_host_does_not(gpu: Device, how: str, p: str, s: str) -> None:
    if how in UNKNOWN and not gpu.has("cuCtxRecordEvent"):
        pytest.skip("before CUDA 12.5 the host waits for an unknown stream, see below")
    writer, reader = gpu.streams["P", p], gpu.streams["S", s]
    if (p, s) in UNSYNCED:  # the negative control: not asked for, there is no sync
        control = hand_over(gpu, SOURCES[how](gpu, writer), writer, reader, -1, 5)
        assert control == (0, {7})
        gpu.rest()
    synced = hand_over(gpu, SOURCES[how](gpu, writer), writer, reader, reader, 0.1)
    assert synced == (NOT_READY, {42})


def test_the_per_thread_stream_of_another_thread(gpu: Device) -> None:
    gpu.needs_gates()
    done, end, made = threading.Event(), threading.Event(), list[Any]()

    def write() -> None:
        gpu.call("cuCtxSetCurrent", gpu.context)
        with gpu.gate(2):
            gpu.set(42, 2)
            made.append(dlshim.from_dlpack(Interface(gpu.words, 2), stream=2))
            done.set()
            end.wait(5)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert done.wait(5)
        taken = caps.take(made[0].__dlpack__(stream=2, max_version=(1, 0)))
        gpu.copy_out(2)
        assert gpu.finishes(2, 0.1) == NOT_READY
    finally:
        end.set()
        thread.join()
    assert gpu.seen() == {42}
    taken.release()


#: Where the host is the reader: the kind of memory, and its array.  Unknown managed memory is the
#: wait for the whole device, which any unknown stream is before CUDA 12.5.
HOST: dict[str, tuple[str, Callable[[Device, int, int], Any]]] = {
    "managed": ("managed", lambda g, p, at: dlshim.upgrade(Interface(at, p))),
    "managed, unknown": (
        "managed",
        lambda g, p, at: dlshim.upgrade(capsule(g, device=(13, 0), data=at)),
    ),
    "managed as cpu": ("managed", lambda g, p, at: dlshim.upgrade(Interface(at, p), device="cpu")),
    "pinned": ("pinned", lambda g, p, at: dlshim.upgrade(Interface(at, p))),
    "copy": ("device", lambda g, p, at: dlshim.upgrade(Interface(at, p), device="cpu")),
    "copy, unknown": (
        "device",
        lambda g, p, at: dlshim.upgrade(capsule(g, data=at), device="cpu"),
    ),
}


@pytest.mark.parametrize("how", HOST)
def test_the_host_waits(gpu: Device, how: str) -> None:
    """In a thread that has no context."""
    kind, make = HOST[how]
    if kind == "managed" and not gpu.attribute(89):
        pytest.skip("host and kernels may not touch managed memory at the same time here")
    at, p = gpu.alloc(kind, 4 * WORDS), gpu.streams["P", FREE]
    done, got = threading.Event(), list[Any]()

    def export() -> None:
        try:
            got.append(caps.take(make(gpu, p, at).__dlpack__(max_version=(1, 0))))
        finally:
            done.set()

    export()  # what dlshim makes once, such as a stream, is made before the gate
    done.clear()
    gpu.set(7, p, at)
    gpu.call("cuCtxSynchronize")
    with gpu.gate(p) as gate:
        gpu.set(42, p, at)
        if kind != "device":  # the negative control: -1 does not wait
            unsynced = caps.take(dlshim.upgrade(Interface(at, p)).__dlpack__(stream=-1))
            assert set(unsynced.values()) == {7}
        thread = threading.Thread(target=export)
        thread.start()
        assert not done.wait(0.2), f"it returned while the gate was closed: {got}"
        gate.open()
        assert done.wait(5)
        thread.join()
        assert set(got[1].values()) == {42}


#: Shape, strides in elements, first element.
LAYOUTS = {
    "contiguous": ((6, 8), (8, 1), 0),
    "permuted": ((3, 4, 5), (20, 1, 4), 0),
    "pitched": ((6, 5), (8, 1), 2),
    "planes": ((3, 4, 5), (64, 8, 1), 1),
    "every other": ((4, 3), (16, 2), 1),
    "upside down, mirrored": ((6, 8), (-8, -1), 47),
    "repeated": ((4, 5), (0, 1), 3),
    "far apart": ((3, 4), (1000, 7), 0),
    "one": ((), (), 9),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_copies_to_the_host(gpu: Device, layout: str) -> None:
    shape, strides, first = LAYOUTS[layout]
    words = (C.c_uint32 * WORDS)(*range(WORDS))
    gpu.call("cuMemcpyHtoD_v2", gpu.words, C.addressof(words), C.sizeof(words))
    source = Interface(gpu.words + 4 * first, 1, shape, strides)
    taken = caps.take(dlshim.upgrade(source, device="cpu").__dlpack__(max_version=(1, 0)))
    assert taken.view.device == (1, 0) and taken.view.copied
    assert taken.values() == [first + at for at in caps.offsets(shape, strides)]


@pytest.mark.parametrize("kind", ("blocking", FREE))
@pytest.mark.parametrize("captured", ("P", "S"))
def test_a_capture_survives_what_would_break_it(gpu: Device, captured: str, kind: str) -> None:
    p, s = gpu.streams["P", kind], gpu.streams["S", kind]
    at = p if captured == "P" else s
    with gpu.capture(at):
        gpu.set(1, at)
        for how in ("interface", "named", "tensor"):
            source = SOURCES[how](gpu, p)
            with pytest.raises(BufferError, match="captur"):
                source.__dlpack__(stream=s)
            source.__dlpack__(stream=-1)
            if captured == "P":
                source.__dlpack__(stream=p)  # one stream: nothing to do
        if captured == "S" or kind == "blocking":  # others cannot be seen, and would be lost
            with pytest.raises(BufferError, match="captur"):
                SOURCES["capsule"](gpu, p).__dlpack__(stream=s)
        assert gpu.is_capturing(at)


def test_an_edge_within_a_capture_is_part_of_the_graph(gpu: Device) -> None:
    if not gpu.has("cuGraphInstantiateWithFlags"):
        pytest.skip("this driver has no cuGraphInstantiateWithFlags")
    p, s = gpu.streams["P", FREE], gpu.streams["S", FREE]
    with gpu.capture(p) as made:
        gpu.edge(p, s)  # S joins
        gpu.set(42, p)
        taken = caps.take(SOURCES["interface"](gpu, p).__dlpack__(stream=s))
        gpu.copy_out(s)
        gpu.edge(s, p)
    assert gpu.seen() == {0}, "a capture runs nothing"
    runnable = gpu.get("cuGraphInstantiateWithFlags", C.c_void_p, made[0], 0)
    for _ in range(20):
        gpu.rest()
        gpu.call("cuGraphLaunch", runnable, p)
        gpu.call("cuCtxSynchronize")
        assert gpu.seen() == {42}
    taken.release()


@pytest.mark.parametrize("on_release", ("contract", "guard"))
def test_memory_written_again_while_s_reads(gpu: Device, on_release: str) -> None:
    """S's read stands behind a gate when the array is dropped and P writes 99: by contract it
    reads that (the negative control), with the guard P waits."""
    if on_release == "guard" and not gpu.has("cuCtxRecordEvent"):
        pytest.skip("the guard takes CUDA 12.5")
    p, s = gpu.streams["P", FREE], gpu.streams["S", FREE]
    source = dlshim.upgrade(Interface(gpu.words, p), on_release=on_release)
    taken = caps.take(source.__dlpack__(stream=s, max_version=(1, 0)))
    with gpu.gate(s) as gate:
        gpu.copy_out(s)
        taken.release()
        assert gate.closed, "the deleter waited"
        gpu.set(99, p)
        state = gpu.finishes(p, 5 if on_release == "contract" else 0.1)
    assert (state, gpu.seen()) == ((0, {99}) if on_release == "contract" else (NOT_READY, {7}))


@pytest.mark.parametrize(
    ("kind", "device"), [("device", 2), ("pool", 2), ("managed", 13), ("pinned", 3)]
)
def test_what_the_driver_says_of_pointers(gpu: Device, kind: str, device: int) -> None:
    """Also in a thread without a context, which the driver's manual does not rule out."""
    address, context = gpu.alloc(kind, 4 * WORDS), C.c_void_p()
    gpu.call("cuCtxSynchronize")
    rc = gpu.lib.cuPointerGetAttribute(C.byref(context), 1, address)
    told = {None: "none", gpu.context: "the primary one"}.get(context.value, "another")
    gpu.figure(f"context of {kind} memory", f"error {rc}" if rc else told)
    got: list[Any] = []

    def ask() -> None:
        for current in (None, gpu.context):
            gpu.call("cuCtxSetCurrent", current)
            source = dlshim.upgrade(Interface(address, gpu.streams["P", FREE]))
            got.append(source.__dlpack_device__())
            source.__dlpack__(stream=gpu.streams["S", FREE])
            got.append(gpu.current())

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert got == [(device, 0), None, (device, 0), gpu.context]


def test_contexts_are_as_before(gpu: Device) -> None:
    others: list[int | None] = [None, gpu.context]
    if gpu.get("cuDeviceGetCount", C.c_int) > 1:
        others.append(gpu.get("cuDevicePrimaryCtxRetain", C.c_void_p, 1))
    for current, (how, make) in itertools.product(others, SOURCES.items()):
        for options in ({"stream": gpu.streams["S", "blocking"]}, {"dl_device": (1, 0)}):
            source = make(gpu, gpu.streams["P", "blocking"])
            gpu.call("cuCtxSetCurrent", current)
            source.__dlpack__(max_version=(1, 0), **options)
            assert gpu.current() == current, (how, options)


def of_torch(gpu: Device) -> tuple[Any, int, int]:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    stream = torch.cuda.Stream()
    gpu.entered.enter_context(torch.cuda.stream(stream))
    x = torch.full((WORDS,), 7, dtype=torch.int32, device="cuda")
    return x, x.data_ptr(), stream.cuda_stream


def of_cupy(gpu: Device) -> tuple[Any, int, int]:
    cupy = pytest.importorskip("cupy")
    stream = gpu.entered.enter_context(cupy.cuda.Stream(non_blocking=True))
    x = cupy.full((WORDS,), 7, dtype=cupy.int32)
    return x, x.data.ptr, stream.ptr


def of_warp(gpu: Device) -> tuple[Any, int, int]:
    warp = pytest.importorskip("warp", reason="warp-lang is not installed")
    if not warp.is_cuda_available():
        pytest.skip("this Warp has no CUDA")
    stream = warp.Stream("cuda:0")
    gpu.entered.enter_context(warp.ScopedStream(stream))
    x = warp.full(WORDS, 7, dtype=warp.int32, device="cuda:0")
    return x, x.ptr, stream.cuda_stream


def of_numba(gpu: Device) -> tuple[Any, int, int]:
    cuda = pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")
    stream = cuda.external_stream(gpu.streams["P", FREE])
    x = cuda.to_device((C.c_int32 * WORDS)(*[7] * WORDS), stream=stream)
    return x, x.__cuda_array_interface__["data"][0], int(stream)


def core_buffer(gpu: Device) -> tuple[Any, int, Any]:
    core = pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    core.Device(0).set_current()
    stream = core.Device(0).create_stream()
    buffer = core.Buffer.from_handle(gpu.words, 4 * WORDS)
    return buffer, gpu.words, stream


def of_core(gpu: Device) -> tuple[Any, int, int]:
    """A Buffer ignores the stream and knows none: S waits for the whole device."""
    if not gpu.has("cuCtxRecordEvent"):
        pytest.skip("before CUDA 12.5 the host waits for an unknown stream")
    buffer, address, stream = core_buffer(gpu)
    gpu.entered.callback(lambda kept: None, stream)
    return buffer, address, int(stream.handle)


def of_core_named(gpu: Device) -> tuple[Any, int, int]:
    """The same, and the user names its Stream."""
    buffer, address, stream = core_buffer(gpu)
    return dlshim.upgrade(buffer, producer_stream=stream), address, int(stream.handle)


def of_tvm_ffi(gpu: Device) -> tuple[Any, int, int]:
    """Its Tensor ignores the stream; P is what the user has set for the device."""
    tvm_ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not installed")
    p = gpu.streams["P", FREE]
    tensor = tvm_ffi.from_dlpack(dlshim.upgrade(Interface(gpu.words, p), stream=-1))
    gpu.entered.enter_context(tvm_ffi.use_raw_stream(tensor.device, p))
    return tensor, gpu.words, p


@pytest.mark.parametrize("s", KINDS)
@pytest.mark.parametrize(
    "library", (of_torch, of_cupy, of_warp, of_numba, of_core, of_core_named, of_tvm_ffi)
)
def test_arrays_of_libraries(gpu: Device, library: Callable[..., Any], s: str) -> None:
    array, address, p = library(gpu)
    gpu.call("cuCtxSynchronize")
    reader = gpu.streams["S", s]
    synced = hand_over(gpu, dlshim.upgrade(array), p, reader, reader, 0.1, address)
    assert synced == (NOT_READY, {42})


@pytest.mark.parametrize("s", KINDS)
def test_jax_between(gpu: Device, s: str) -> None:
    """P -> dlshim -> JAX, which adds one -> dlshim -> S: JAX's own stream is nobody's to gate, so
    the gate is before it and the reader behind it."""
    jax = pytest.importorskip("jax")
    try:
        jax.devices("cuda")
    except RuntimeError as reason:
        pytest.skip(f"this JAX has no CUDA: {str(reason).splitlines()[0]}")
    p, reader = gpu.streams["P", FREE], gpu.streams["S", s]
    add_one = jax.jit(lambda x: x + 1)

    def through() -> Any:
        taken = jax.dlpack.from_dlpack(dlshim.upgrade(Interface(gpu.words, p)))
        made = add_one(taken)
        exported = dlshim.upgrade(made).__dlpack__(stream=reader, max_version=(1, 0))
        return made, caps.take(exported)

    kept = through()  # compiled, and loaded
    gpu.call("cuCtxSynchronize")
    del kept
    with gpu.gate(p) as gate:
        gpu.set(42, p)
        kept = through()
        assert gate.closed, "the host waited for the gate"
        gpu.copy_out(reader, kept[1].view.data)
        state = gpu.finishes(reader, 0.1)
    assert (state, gpu.seen()) == (NOT_READY, {43})
    del kept


def test_a_hundred_thousand_exchanges(gpu: Device) -> None:
    """Each word is written on P, which is kept busy, and copied on S: none may be read too soon."""
    p, s, count, load = gpu.streams["P", FREE], gpu.streams["S", FREE], gpu.rounds, 1 << 24
    busy, a, b = (gpu.alloc("device", 4 * words) for words in (load, count, count))
    seen = (C.c_uint32 * count)()
    for name, asked in (("-1", -1), ("S", s)):
        gpu.set(0, 1, a, count)
        gpu.set(0, 1, b, count)
        gpu.call("cuCtxSynchronize")
        for number in range(count):
            if number % 500 == 0:
                gpu.set(number, p, busy, load)
            gpu.set(number + 1, p, a + 4 * number, 1)
            dlshim.upgrade(Interface(a + 4 * number, p, (1,))).__dlpack__(stream=asked)
            gpu.call("cuMemcpyDtoDAsync_v2", b + 4 * number, a + 4 * number, 4, s)
        gpu.call("cuCtxSynchronize")
        gpu.call("cuMemcpyDtoH_v2", C.addressof(seen), b, C.sizeof(seen))
        stale = sum(word != number + 1 for number, word in enumerate(seen))
        gpu.figure(f"stale reads of {count}, stream={name}", str(stale))
    assert stale == 0


class Relay:
    """A modern producer, as cheap as Python makes one."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, **asked: Any) -> Any:
        return self.tensor.__dlpack__(stream=-1, max_version=max_version)


def test_what_it_costs(gpu: Device) -> None:
    """Reported, and gates nothing."""
    p, s = gpu.streams["P", FREE], gpu.streams["S", FREE]
    interface = Interface(gpu.words, p)
    tensor = dlshim.from_dlpack(interface, stream=p)
    relay, unknown, dlpack = Relay(tensor), SOURCES["capsule"](gpu, p), {"max_version": (1, 0)}
    ways: dict[str, Callable[[], Any]] = {
        "modern, bare": lambda: relay.__dlpack__(stream=s, **dlpack),
        "modern, passed on": lambda: dlshim.upgrade(relay).__dlpack__(stream=s, **dlpack),
        "tensor, -1": lambda: tensor.__dlpack__(stream=-1, **dlpack),
        "tensor, its own stream": lambda: tensor.__dlpack__(stream=p, **dlpack),
        "tensor, an edge": lambda: tensor.__dlpack__(stream=s, **dlpack),
        "array interface, an edge": lambda: dlshim.upgrade(interface).__dlpack__(stream=s),
        "unknown stream": lambda: unknown.__dlpack__(stream=s, **dlpack),
    }
    try:
        from cuda.core.utils import StridedMemoryView as View
    except ImportError:
        print("cuda.core is not installed, the yardstick of an edge")
    else:
        ways["cuda.core's own edge"] = lambda: View.from_cuda_array_interface(interface, s)
        ways["cuda.core, dlshim's"] = lambda: View.from_dlpack(dlshim.upgrade(interface), s)
        ways["cuda.core of a modern one, bare"] = lambda: View.from_dlpack(relay, s)
        ways["cuda.core of a modern one, dlshim's"] = lambda: View.from_dlpack(
            dlshim.upgrade(relay), s
        )
    try:
        import tvm_ffi
    except ImportError:
        print("apache-tvm-ffi is not installed, the yardstick of passing on")
    else:
        ways["tvm-ffi of a modern one, bare"] = lambda: tvm_ffi.from_dlpack(relay)
        ways["tvm-ffi of a modern one, dlshim's"] = lambda: tvm_ffi.from_dlpack(
            dlshim.upgrade(relay)
        )
        ways["tvm-ffi of a Tensor"] = lambda: tvm_ffi.from_dlpack(tensor)
        theirs = tvm_ffi.from_dlpack(tensor)
        ways["tvm-ffi's own, bare"] = lambda: theirs.__dlpack__(stream=s, **dlpack)
        ways["tvm-ffi's own, upgraded"] = lambda: dlshim.upgrade(theirs).__dlpack__(
            stream=s, **dlpack
        )
    for name, way in ways.items():
        taken = []
        for number in range(gpu.rounds):
            if number % 256 == 0:
                gpu.call("cuCtxSynchronize")  # no queue fills up
            begun = time.perf_counter_ns()
            way()
            taken.append(time.perf_counter_ns() - begun)
        gpu.figure(f"median of {gpu.rounds}, {name}", f"{statistics.median(taken):.0f} ns")
