"""DLPack exchanges of real oneAPI memory: dpctl and dpnp as producers and as consumers."""

from __future__ import annotations

import ctypes as C
import gc
import signal
import sys
import threading
from typing import Any

import dpctl
import numpy as np
import pytest

import dlshim
from dlshim import _core, habits
from doubles import child
from doubles.asking import bare, counting, versioned

from . import runtime
from .runtime import xp
from .test_interface import LAYOUT, LAYOUTS, Getter

PRODUCER = pytest.mark.parametrize("make", runtime.MAKERS.values(), ids=runtime.MAKERS.keys())
CONSUMER = pytest.mark.parametrize("take", runtime.CONSUMERS.values(), ids=runtime.CONSUMERS.keys())
dpnp_only = pytest.mark.skipif(not runtime.HAS_DPNP, reason="dpnp is not in this environment")


# --- both ways -----------------------------------------------------------------------------


@PRODUCER
@CONSUMER
@LAYOUT
def test_they_consume_an_upgraded_array(make, take, layout, kind):
    x = layout(runtime.counting(usm_type=kind))
    y = take(dlshim.upgrade(make(x)))
    assert runtime.values(y) == runtime.values(x)
    assert y.usm_type == kind
    if x.size:
        assert runtime.address(y) == runtime.address(x)
    if x.size and layout is not LAYOUTS["broadcast"] and y.flags.writable:
        y[...] = -1
        assert runtime.values(x) == np.full(x.shape, -1.0).tolist()


@PRODUCER
@LAYOUT
def test_dlshim_consumes_theirs(make, layout, kind):
    x = layout(runtime.counting(usm_type=kind))
    tensor = dlshim.from_dlpack(make(x))
    assert (tensor.shape, tensor.device, tensor.dtype) == (x.shape, (14, 0), (2, 32, 1))
    assert type(tensor.device[0]) is int
    if x.size:
        assert tensor.data_ptr() == runtime.address(x)
    wide = [n > 1 and x.size > 0 for n in x.shape]
    assert [s for s, w in zip(tensor.strides, wide, strict=True) if w] == [
        s for s, w in zip(x.strides, wide, strict=True) if w
    ]
    assert runtime.values(xp.from_dlpack(tensor)) == runtime.values(x)


@CONSUMER
def test_they_consume_a_raw_capsule_and_an_old_producer(take):
    class Old:
        def __dlpack__(self) -> Any:
            return x.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return (14, 0)

    x = runtime.counting()
    for source in (x.__dlpack__(), x.__dlpack__(max_version=(1, 0)), Old()):
        y = take(dlshim.upgrade(source, unknown_stream="same"))
        assert runtime.address(y) == runtime.address(x)
        assert runtime.values(y) == runtime.values(x)


@PRODUCER
def test_the_device_answer_is_two_plain_ints(make):
    x = make(runtime.counting())
    assert type(x.__dlpack_device__()[0]) is not int  # an IntEnum
    device = dlshim.upgrade(x).__dlpack_device__()
    assert device == (14, 0)
    assert [type(part) for part in device] == [int, int]


def test_host_arrays_reach_them_as_they_do_bare(queue):
    x = np.arange(6, dtype="f4")
    assert isinstance(xp.from_dlpack(dlshim.upgrade(x)), np.ndarray)
    y = xp.from_dlpack(dlshim.upgrade(x), device=queue)
    assert runtime.values(y) == [0, 1, 2, 3, 4, 5]
    assert y.sycl_queue == queue


# --- what the capsule says -------------------------------------------------------------------


@PRODUCER
@LAYOUT
def test_strides_are_always_there_and_offsets_folded(make, layout):
    x = layout(runtime.counting())
    shown = x.__sycl_usm_array_interface__
    for ask in (bare, versioned):
        with ask(dlshim.upgrade(make(x), order="K", readonly="share")) as imported:
            view = imported.view
            assert (view.device, view.shape) == ((14, 0), x.shape)
            assert x.ndim == 0 or view.strides is not None
            if x.size and any(s < 0 for s in x.strides):
                assert (view.data, view.byte_offset) == (
                    shown["data"][0],
                    4 * shown["offset"],
                )
            elif x.size:
                assert (view.data, view.byte_offset) == (runtime.address(x), 0)


def test_NULL_strides_of_dpctl_are_filled():
    """dpctl 0.21 leaves them out for new contiguous arrays."""
    x = runtime.counting((6,))
    with versioned(x) as imported:
        left_out = imported.view.strides is None
    assert left_out == (not runtime.HAS_DPNP)
    with counting() as count, versioned(dlshim.upgrade(x)) as imported:
        assert imported.view.strides == (1,)
    assert (count.translated, count.handed_on) == ((1, 0) if left_out else (0, 1))


def test_read_only_is_not_lost():
    """The legacy capsule of dpctl says nothing of it."""
    x = runtime.counting((6,))
    x.flags.writable = False
    bare(x).release()
    with pytest.raises(BufferError, match="read-only"):
        bare(dlshim.upgrade(x))
    bare(dlshim.upgrade(x, readonly="share")).release()
    assert not xp.from_dlpack(dlshim.upgrade(x)).flags.writable
    assert dlshim.from_dlpack(x).readonly


@dpnp_only
def test_what_dpnp_says_of_0d_arrays_is_handed_on_as_it_is():
    """dpnp 0.20 calls every one of them read-only."""
    x = runtime.dpnp.array(5.0)
    assert dlshim.from_dlpack(x).readonly
    assert not dlshim.from_dlpack(dlshim.upgrade(x, readonly=False)).readonly


# --- other devices, copies -------------------------------------------------------------------


@PRODUCER
@LAYOUT
def test_a_copy_on_the_host(make, layout, kind):
    x = layout(runtime.counting(usm_type=kind))
    plain = dlshim.upgrade(make(x))
    for wrapped, asked in [(dlshim.upgrade(make(x), device="cpu"), {}), (plain, {"device": "cpu"})]:
        y = np.from_dlpack(wrapped, **asked)
        assert y.tolist() == runtime.values(x)
        if y.size and y.flags.writeable:
            y.fill(-1)
            assert runtime.values(x) != y.tolist(), "it was no copy"
    tensor = dlshim.from_dlpack(make(x), device="cpu")
    assert (tensor.device, tensor.is_copied) == ((1, 0), True)
    assert memoryview(tensor).tolist() == runtime.values(x)


@PRODUCER
def test_what_they_ignore_without_max_version_is_done_all_the_same(make):
    """Their answer to a legacy consumer that wants the host is device memory; to copy=True, no
    copy."""
    x = make(runtime.counting((6,)))
    with bare(x, dl_device=(1, 0)) as imported:
        assert imported.view.device == (14, 0)
    with bare(dlshim.upgrade(x), dl_device=(1, 0)) as imported:
        assert imported.view.device == (1, 0)
        assert imported.values() == [0, 1, 2, 3, 4, 5]
    with bare(x, copy=True) as imported:
        assert imported.view.data == runtime.address(x)
    with bare(dlshim.upgrade(x), copy=True) as imported:
        assert imported.view.device == (14, 0)
        assert imported.view.data not in (0, runtime.address(x))
    with versioned(dlshim.upgrade(x), copy=True) as imported:
        assert imported.view.data != runtime.address(x)


@PRODUCER
def test_no_copy_where_none_is_wanted(make):
    x = make(runtime.counting((6,)))
    with pytest.raises(BufferError):
        versioned(dlshim.upgrade(x), dl_device=(1, 0), copy=False)
    with versioned(dlshim.upgrade(x), copy=False) as imported:
        assert imported.view.data == runtime.address(x)


@PRODUCER
def test_a_copy_that_is_not_allowed_is_named(make):
    with pytest.raises(dlshim.CopyRequiredError):
        versioned(dlshim.upgrade(make(runtime.counting())), dl_device=(1, 0), copy=False)


@PRODUCER
@pytest.mark.parametrize("device", [(2, 0), (14, 5), (10, 0)], ids=str)
def test_devices_that_it_cannot_be_on(make, device):
    with pytest.raises(BufferError):
        versioned(dlshim.upgrade(make(runtime.counting())), dl_device=device)
    with pytest.raises(BufferError):
        bare(dlshim.upgrade(make(runtime.counting())), dl_device=device)


def test_numpy_is_told_where_the_memory_is():
    with pytest.raises((RuntimeError, BufferError), match="device"):
        np.from_dlpack(dlshim.upgrade(runtime.counting()))


def test_a_part_of_a_device_stays_refused():
    """dpctl exports arrays of a whole device's default context only (by no BufferError)."""
    device = dpctl.SyclDevice()
    if device.max_compute_units < 2:
        pytest.skip("this machine has one core: the device has no parts")
    queue = dpctl.SyclQueue(device.create_sub_devices(partition=1)[0])
    x = runtime.counting(sycl_queue=queue)
    with pytest.raises(Exception, match="default platform SYCL context"):
        x.__dlpack__()
    with pytest.raises(Exception, match="default platform SYCL context"):
        versioned(dlshim.upgrade(x))


# --- streams ------------------------------------------------------------------------------------


@PRODUCER
def test_streams_that_oneapi_takes(make, queue):
    mine = type("Mine", (dpctl.SyclQueue,), {})()
    for stream in (None, -1, queue, mine, Getter(queue)):
        for ask in (bare, versioned):
            ask(dlshim.upgrade(make(runtime.counting())), stream=stream).release()
        dlshim.from_dlpack(make(runtime.counting()), stream=stream)


@PRODUCER
@pytest.mark.parametrize("stream", [0, 1, 2, True, 1.0, "x", b"x", object()], ids=str)
def test_streams_that_are_no_queues(make, stream):
    x = make(runtime.counting())
    with pytest.raises(TypeError, match="stream"):
        versioned(dlshim.upgrade(x), stream=stream)
    with pytest.raises(TypeError, match="stream"):
        bare(dlshim.upgrade(x), stream=stream)


def test_a_stream_beside_the_host_is_not_passed_on(queue):
    """dpctl refuses the pair, which consumers of the host's memory send."""
    x = runtime.counting((6,))
    with pytest.raises(ValueError):
        x.__dlpack__(max_version=(1, 0), dl_device=(1, 0), stream=queue)
    for stream in (queue, -1, None, 1):
        with versioned(dlshim.upgrade(x), dl_device=(1, 0), stream=stream) as imported:
            assert imported.values() == [0, 1, 2, 3, 4, 5]


# --- the crash ------------------------------------------------------------------------------------

OF_THAT_TIME = pytest.mark.parametrize("version", [None, (1, 0), (1, 1)], ids=str)


@OF_THAT_TIME
@pytest.mark.parametrize("consumer", runtime.CONSUMERS)
def test_strides_of_NULL_that_kill_dpnp_are_harmless_upgraded(consumer, version):
    said = child.program("null_strides_on_sycl", consumer, version, True)
    assert said == "[0.0, 1.0, 2.0, 3.0, 4.0, 5.0] True\n"


@OF_THAT_TIME
@pytest.mark.parametrize("consumer", runtime.CONSUMERS)
def test_negative_control_strides_of_NULL_bare(consumer, version):
    ends = -signal.SIGSEGV if runtime.HAS_DPNP else 0
    child.program("null_strides_on_sycl", consumer, version, False, returncode=ends)


# --- lifetimes ---------------------------------------------------------------------------------


@PRODUCER
def test_an_export_keeps_the_memory_when_its_array_is_gone(make):
    """What OWNS says of these libraries in the table of libraries."""
    x = make(runtime.counting((1000,)))
    capsule = dlshim.upgrade(x).__dlpack__(max_version=(1, 0))
    tensor = dlshim.from_dlpack(x)
    del x
    gc.collect()
    kept = [runtime.counting((1000,)) for _ in range(20)]
    for array in kept:
        array[:] = -1
    assert runtime.values(xp.from_dlpack(dlshim.upgrade(capsule, stream=-1)))[-1] == 999
    assert runtime.values(xp.from_dlpack(tensor))[-1] == 999


def test_nothing_is_left_of_many_exchanges():
    x, memory = runtime.counting((6,)), runtime.memory(24)
    before = _core._counters()["live"]
    died = sys.getrefcount(x), sys.getrefcount(memory)
    for _ in range(200):
        xp.from_dlpack(dlshim.upgrade(x))
        xp.from_dlpack(dlshim.upgrade(memory))
        dlshim.from_dlpack(x)
        dlshim.from_dlpack(memory).__sycl_usm_array_interface__  # noqa: B018
        dlshim.to_capsule(x)
    gc.collect()
    assert _core._counters()["live"] == before
    assert (sys.getrefcount(x), sys.getrefcount(memory)) == died


def test_a_deleter_runs_on_any_thread():
    imports = [versioned(dlshim.upgrade(runtime.counting())) for _ in range(8)]
    imports += [versioned(dlshim.upgrade(runtime.memory())) for _ in range(8)]
    threads = [threading.Thread(target=imported.release) for imported in imports]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_threads_exchange_at_once():
    """The arrays are made and read before and after: kernels that several threads start at once
    hang in the runtime now and then."""
    made = [(runtime.counting((6,)) + k, runtime.memory(24)) for k in range(20)]
    taken: list[tuple[int, Any, Any]] = []
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for k, (x, memory) in enumerate(made):
                of_x = xp.from_dlpack(dlshim.upgrade(x))
                taken.append((k, of_x, dlshim.from_dlpack(memory, reinterpret="uint8")))
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert len(taken) == 3 * len(made)
    for k, of_x, tensor in taken:
        assert runtime.values(of_x)[-1] == 5 + k
        assert runtime.values(xp.from_dlpack(tensor))[0] == 0


# --- looking ------------------------------------------------------------------------------------


@PRODUCER
def test_inspect_knows_it(make):
    report = dlshim.inspect(make(runtime.counting()), export=True)
    assert report.device == (14, 0)
    assert any("sycl_usm" in str(p) for p in report.protocols), report.protocols
    memory = dlshim.inspect(runtime.memory(), export=True)
    assert memory.device == (14, 0)
    assert "sycl_usm_array_interface" in str(memory.plan)


def test_the_table_of_libraries_knows_their_classes():
    rows = {(module, name): traits for _, module, name, traits in habits.LIBRARIES}
    kinds = [(make(runtime.counting()), "INTERFACE_WAITS") for make in runtime.MAKERS.values()]
    for x, trait in [*kinds, (runtime.memory(), "WRITABLE")]:
        row = next(
            row
            for cls in type(x).__mro__
            for row in rows
            if cls.__qualname__ == row[1] and f"{cls.__module__}.".startswith(f"{row[0]}.")
        )
        assert trait in rows[row].split()


def test_what_is_passed_by_pointer_is_still_there():
    """The capsule's address of element zero, read as dpctl's own memory."""
    memory = runtime.memory(24, "shared")
    with versioned(dlshim.upgrade(memory)) as imported:
        assert C.string_at(imported.view.data, 24) == memory.tobytes()
