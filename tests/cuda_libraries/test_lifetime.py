"""How long real libraries' memory lives when dlshim stands between them (rules T9,
T10 and S22)."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from cuda_libraries.real import (
    UNSYNCED,
    VARIANTS,
    Given,
    View,
    at_device,
    cases,
    core,
    cuda,
    np,
    pointer,
    stream,
    tvm_ffi,
)

import dlshim
from dlshim import _core
from drivers import Driver, checks, run_checks

# Collections shall look at what the checks make, not at the libraries.
gc.collect()
gc.freeze()


def freed(drv: Driver) -> list[str]:
    """The calls that gave memory back; numba puts its own off, until told."""
    gc.collect()
    cuda.current_context().memory_manager.deallocations.clear()
    return [call for call in drv.calls() if "Free" in call]


def numbas(drv: Driver) -> Any:
    """An array of numba that only the caller holds."""
    drv.reset()
    at_device(drv, 0)
    core.Device(0).set_current()
    gc.collect()
    cuda.current_context().memory_manager.deallocations.clear()
    made = cuda.to_device(np.arange(6, dtype=np.float32), stream=stream("N", "P"))
    drv.clear_log()
    return made


#: Every way in which something is left of an array: what holds its memory, from the array.
HOLDERS: dict[str, Callable[[Any, int], Any]] = {
    "the wrapper": lambda x, s: dlshim.upgrade(x),
    "a Tensor": lambda x, s: dlshim.from_dlpack(x, stream=s),
    "a capsule nobody takes": lambda x, s: dlshim.upgrade(x).__dlpack__(stream=s),
    "a versioned capsule": lambda x, s: dlshim.to_capsule(x, stream=s, max_version=(1, 3)),
    "a view of cuda.core": lambda x, s: View.from_dlpack(dlshim.upgrade(x), stream_ptr=s),
    "a view of the Tensor": lambda x, s: View.from_dlpack(
        dlshim.from_dlpack(x, stream=s), stream_ptr=s
    ),
    "a view of its dict": lambda x, s: View.from_cuda_array_interface(
        dlshim.from_dlpack(x, stream=s), stream_ptr=s
    ),
    "a tensor of tvm-ffi": lambda x, s: tvm_ffi.from_dlpack(dlshim.upgrade(x)),
    "an array of numba": lambda x, s: cuda.as_cuda_array(dlshim.from_dlpack(x, stream=s)),
    "all of them in a row": lambda x, s: tvm_ffi.from_dlpack(
        dlshim.upgrade(View.from_dlpack(dlshim.upgrade(x), stream_ptr=s), unknown_stream="same")
    ),
    "a slice's Tensor": lambda x, s: dlshim.from_dlpack(x[2:4], stream=s),
}


def check_the_consumer_keeps_the_memory(drv: Driver) -> None:
    """Why: the capsule holds the provider of the dict, and the consumer holds the capsule."""
    for name, hold in HOLDERS.items():
        array = numbas(drv)
        address, live = pointer(array), _core._counters()["live"]
        holder = hold(array, int(stream("N", "S")))
        gone = weakref.ref(array)
        del array
        assert freed(drv) == [], name
        assert gone() is not None or "slice" in name, name
        values = np.frombuffer(drv.bytes_at(address, 24), np.float32)
        assert np.array_equal(values, np.arange(6)), name
        del holder
        assert freed(drv) == ["cuMemFree_v2"], (name, drv.log())
        assert gone() is None and _core._counters()["live"] == live, name


def check_control_an_address_keeps_nothing(drv: Driver) -> None:
    """Why: were the array kept by something else, the check above would prove nothing."""
    array = numbas(drv)
    View.from_dlpack(core.Buffer.from_handle(pointer(array), 24), stream_ptr=-1)
    del array
    assert freed(drv) == ["cuMemFree_v2"]


def check_two_consumers(drv: Driver) -> None:
    """Why: every export holds for itself; the last one lets go."""
    array = numbas(drv)
    s = int(stream("N", "S"))
    wrapper = dlshim.upgrade(array)
    first, second = View.from_dlpack(wrapper, stream_ptr=s), tvm_ffi.from_dlpack(wrapper)
    del array, wrapper, first
    assert freed(drv) == []
    del second
    assert freed(drv) == ["cuMemFree_v2"]


def check_a_copy_on_the_host_holds_nothing(drv: Driver) -> None:
    """Why: it has memory of its own; numba's goes with the array."""
    array = numbas(drv)
    taken = np.from_dlpack(dlshim.upgrade(array, device="cpu"))
    del array
    assert freed(drv) == ["cuMemFree_v2"]
    assert np.array_equal(taken, np.arange(6))


def check_pinned_memory_of_cuda_core(drv: Driver) -> None:
    """Why: NumPy holds the capsule, the capsule the Buffer, the Buffer the pinned memory."""
    numbas(drv)
    buffer = core.LegacyPinnedMemoryResource().allocate(64)
    address = int(buffer.handle)
    drv.put(address, bytes(range(64)))
    taken = np.from_dlpack(dlshim.upgrade(buffer))
    part = taken[3:9]
    del buffer, taken
    freed(drv)
    assert "cuMemFreeHost" not in drv.calls() and list(part) == list(range(3, 9))
    del part
    gc.collect()
    assert drv.calls().count("cuMemFreeHost") == 1


def check_memory_of_a_pool(drv: Driver) -> None:
    """Why: cuda.core frees pool memory on its stream, once the last consumer of it has gone;
    the driver names no context for such an address."""
    numbas(drv)
    s = core.Device(0).create_stream()
    buffer = core.Device(0).memory_resource.allocate(64, stream=s)
    address = int(buffer.handle)
    assert not drv.write(int(s.handle), address, 64)
    tensor = tvm_ffi.from_dlpack(dlshim.upgrade(buffer))
    assert not drv.read(1, address, 64), drv.races()
    del buffer
    assert "cuMemFreeAsync" not in drv.calls() and "cuMemFreeAsync" not in freed(drv)
    del tensor
    gc.collect()
    assert drv.calls().count("cuMemFreeAsync") == 1


def check_a_tensor_keeps_its_stream(drv: Driver) -> None:
    """Why: a Tensor names the stream in its dict, so the object that was given must not go."""
    array = numbas(drv)
    s = core.Device(0).create_stream()
    handle = int(s.handle)
    tensor = dlshim.from_dlpack(array, stream=s)
    del s
    gc.collect()
    assert "cuStreamDestroy_v2" not in drv.calls()
    assert tensor.__cuda_array_interface__["stream"] == handle
    del tensor
    gc.collect()
    assert drv.calls().count("cuStreamDestroy_v2") == 1


# --- used again on P while S still reads ----


def check_control_released_by_contract(drv: Driver) -> None:
    """Why: the standard's deleter has no stream, so what is written on P after the consumer's
    drop races with what S still reads, wherever the two streams do not sync themselves."""
    for p, s, case in cases(drv):
        view = case.to_core(dlshim.upgrade(case.array))
        assert not case.read()
        del view
        gc.collect()
        # P's next write has to come after S's read: the same pairs, the other way round.
        assert case.write() == ((s, p) in UNSYNCED), (p, s, drv.races())


@checks.only_on("13.0")
def check_released_with_a_guard(drv: Driver) -> None:
    """Why: the guard leads all that the context has been given before all that it gets later."""
    for p, s, case in cases(drv):
        for take in (case.to_core, tvm_ffi.from_dlpack):
            taken = take(dlshim.upgrade(case.array, on_release="guard", stream=case.s))
            assert not case.read(), (p, s)
            case.check((p, s))
            del taken
            gc.collect()
            case.check((p, s))
            assert not case.write(), (p, s, drv.races())


@checks.only_on("12.2")
def check_no_guard_before_12_5(drv: Driver) -> None:
    """Why: the two functions came with 12.5; an export that cannot keep the promise is refused."""
    array = numbas(drv)
    source = dlshim.upgrade(array, on_release="guard")
    with pytest.raises(BufferError, match=r"on_release"):
        View.from_dlpack(source, stream_ptr=int(stream("N", "S")))


def check_nothing_is_left(drv: Driver) -> None:
    """Why: a thousand exchanges leave neither an export nor an event behind."""
    array = numbas(drv)
    given = Given(pointer(array), (6,), int(stream("N", "P")))
    live, events = _core._counters()["live"], drv.live_events()
    for number in range(1000):
        s = int(stream("BN"[number % 2], "S"))
        View.from_dlpack(dlshim.upgrade((array, given)[number % 2]), stream_ptr=s)
    assert _core._counters()["live"] == live
    assert drv.live_events() <= events + 1, "events of the pool are used again"


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), VARIANTS))
def test_lifetime(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
