"""The fake drivers' rules about handles, pointers and names; what they refuse, what they do not
bear, and that they see Python's lock.  HIP's own rules are in ``test_fake_hip.py``."""

from __future__ import annotations

import ctypes as C
import signal
import threading
from typing import Any

import pytest

from doubles import vendors
from doubles.vendors import new_event
from drivers import (
    ALL_LIVE,
    CUDA_LIVE,
    HIP_LIVE,
    HIP_VARIANTS,
    VARIANTS,
    Driver,
    Fake,
    checks,
    run_checks,
    run_with_driver,
)
from drivers.control import DriverError
from drivers.prototypes import CUDA, HIP, TEXTS


def event_in(drv: Driver, context: int) -> int:
    drv.set_current(context)
    return drv.get("cuEventCreate", C.c_void_p, 2)


EARLY = {
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
}


def blank(drv: Driver, name: str) -> int:
    kinds = CUDA[name]
    room = [C.create_string_buffer(256) for _ in kinds]
    arguments = [
        C.cast(block, kind) if kind in (C.c_void_p, C.c_char_p) else kind()
        for kind, block in zip(kinds, room, strict=True)
    ]
    if kinds and issubclass(kinds[0], C._Pointer):
        arguments[0] = C.byref(kinds[0]._type_())
    return getattr(drv.cu, name)(*arguments)


# --- before anything, and without a context ---------------------------------------------


@checks.on_cuda
def check_nothing_works_before_it_is_initialised(drv: Driver) -> None:
    drv.reset(hard=True, start=False)
    for name in CUDA:
        if drv.has(name) and name not in EARLY:
            assert blank(drv, name) == 3, name
    assert drv.cu.cuInit(1) == 1
    assert drv.cu.cuCtxGetCurrent(C.byref(C.c_void_p())) == 3
    assert drv.cu.cuInit(0) == 0
    assert drv.cu.cuCtxGetCurrent(C.byref(C.c_void_p())) == 0
    assert not drv.primary_active(0), "initialising makes no context"


@checks.on_cuda
def check_reserved_streams_need_a_current_context(drv: Driver) -> None:
    p = drv.stream_new(0, False)
    event = event_in(drv, drv.context(0))
    out = C.c_void_p()
    for current, rc in ((None, 201), (drv.context(0), 0)):
        drv.set_current(current)
        for handle in (0, 1, 2):
            assert drv.cu.cuEventRecord(event, handle) == rc
            assert drv.cu.cuStreamWaitEvent(handle, event, 0) == rc
            assert drv.cu.cuStreamSynchronize(handle) == rc
            assert drv.cu.cuStreamQuery(handle) == rc
            assert drv.cu.cuStreamGetCtx(handle, C.byref(out)) == rc
        assert drv.cu.cuEventCreate(C.byref(C.c_void_p()), 2) == rc
        assert drv.cu.cuStreamCreate(C.byref(C.c_void_p()), 1) == rc
        assert drv.cu.cuCtxSynchronize() == rc
        assert drv.cu.cuCtxGetDevice(C.byref(C.c_int())) == rc
        assert drv.cu.cuMemAlloc_v2(C.byref(C.c_uint64()), 8) == rc
        # Real handles and events know theirs.
        assert drv.cu.cuEventRecord(event, p) == 0
        assert drv.cu.cuStreamWaitEvent(p, event, 0) == 0
        assert drv.cu.cuStreamSynchronize(p) == 0
        assert drv.cu.cuStreamGetCtx(p, C.byref(out)) == 0
        assert out.value == drv.context(0)
        assert drv.cu.cuEventSynchronize(event) == 0
    assert drv.cu.cuStreamWaitEvent(p, event, 7) == 1


@checks.on_cuda
def check_a_special_stream_has_the_current_context(drv: Driver) -> None:
    other = drv.context_new(1)
    for context in (drv.context(0), drv.context(1), other):
        drv.set_current(context)
        for handle in (0, 1, 2):
            out = C.c_void_p()
            drv.call("cuStreamGetCtx", handle, C.byref(out))
            assert out.value == context


@checks.on_cuda
def check_event_and_stream_must_share_a_context(drv: Driver) -> None:
    here, there, third = drv.context(0), drv.context(1), drv.context_new(0)
    streams = {context: drv.stream_new(context=context) for context in (here, there, third)}
    for context, stream in streams.items():
        event = event_in(drv, context)
        for other, foreign in streams.items():
            wanted = 0 if other == context else 400
            assert drv.cu.cuEventRecord(event, foreign) == wanted
            drv.set_current(other)
            assert drv.cu.cuEventRecord(event, 1) == wanted
            if drv.has("cuCtxRecordEvent"):
                assert drv.cu.cuCtxRecordEvent(other, event) == wanted
            assert drv.cu.cuStreamWaitEvent(foreign, event, 0) == 0, "waits may cross"
        assert drv.cu.cuEventRecord(event, stream) == 0


@checks.on_cuda
def check_contexts_that_ended(drv: Driver) -> None:
    context = drv.context_new(0)
    stream, event = drv.stream_new(context=context), event_in(drv, context)
    drv.context_end(context)
    assert drv.cu.cuCtxSynchronize() == 709
    drv.set_current(None)
    assert drv.cu.cuCtxPushCurrent_v2(context) == 709
    assert drv.cu.cuStreamSynchronize(stream) == 709
    assert drv.cu.cuEventRecord(event, stream) == 709
    assert drv.cu.cuStreamGetCtx(stream, C.byref(C.c_void_p())) == 709
    assert drv.context_stack() == ()


# --- the stack --------------------------------------------------------------------------


@checks.on_cuda
def check_the_stack(drv: Driver) -> None:
    one, two = drv.context(0), drv.context(1)
    n, m = drv.context_number(one), drv.context_number(two)
    out = C.c_void_p()
    assert drv.context_stack_depth() == 0
    assert drv.cu.cuCtxPopCurrent_v2(C.byref(out)) == 201
    drv.call("cuCtxPushCurrent_v2", one)
    drv.call("cuCtxPushCurrent_v2", two)
    drv.call("cuCtxPushCurrent_v2", two)
    assert drv.context_stack() == (n, m, m)
    assert drv.get("cuCtxGetDevice", C.c_int) == 1
    drv.call("cuCtxPopCurrent_v2", C.byref(out))
    assert out.value == two and drv.context_stack() == (n, m)
    drv.call("cuCtxSetCurrent", one)
    assert drv.context_stack() == (n, n)
    drv.call("cuCtxSetCurrent", None)
    assert drv.context_stack() == (n,)
    assert drv.get("cuCtxGetCurrent", C.c_void_p) == one
    drv.call("cuCtxPopCurrent_v2", None)
    assert drv.get("cuCtxGetCurrent", C.c_void_p) is None
    assert drv.cu.cuCtxPushCurrent_v2(None) == 201


@checks.on_cuda
def check_every_thread_has_its_own_stack(drv: Driver) -> None:
    drv.set_current(drv.context(0))
    seen: list[int] = []

    def other() -> None:
        seen.append(drv.context_stack_depth())
        drv.call("cuCtxPushCurrent_v2", drv.context(1))
        seen.append(drv.context_stack_depth())

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [0, 1]
    assert drv.context_stack() == (drv.context_number(drv.context(0)),)


@checks.on_cuda
def check_primary_contexts(drv: Driver) -> None:
    drv.reset(hard=True, start=False)
    drv.call("cuInit", 0)
    flags, active = C.c_uint(9), C.c_int(9)
    drv.call("cuDevicePrimaryCtxGetState", 1, C.byref(flags), C.byref(active))
    assert (flags.value, active.value) == (0, 0)
    context = drv.get("cuDevicePrimaryCtxRetain", C.c_void_p, 1)
    assert " CREATED" in drv.log()[-1]
    assert drv.get("cuDevicePrimaryCtxRetain", C.c_void_p, 1) == context
    assert " CREATED" not in drv.log()[-1]
    assert drv.context_stack_depth() == 0, "retaining pushes nothing"
    drv.call("cuDevicePrimaryCtxGetState", 1, C.byref(flags), C.byref(active))
    assert active.value == 1 and drv.primary_active(1) and not drv.primary_active(0)
    assert [drv.cu.cuDevicePrimaryCtxRelease(1) for _ in range(3)] == [0, 0, 201]
    assert not drv.primary_active(1)
    assert drv.cu.cuCtxPushCurrent_v2(context) == 709
    assert drv.cu.cuDevicePrimaryCtxRetain(C.byref(C.c_void_p()), 2) == 101
    assert drv.cu.cuDeviceGet(C.byref(C.c_int()), 2) == 101
    assert drv.get("cuDeviceGetCount", C.c_int) == 2


@checks.on_cuda
def check_other_contexts(drv: Driver) -> None:
    context = drv.get("cuCtxCreate_v2", C.c_void_p, 0, 1)
    assert context not in (drv.context(0), drv.context(1))
    assert drv.context_stack_depth() == 1
    assert drv.get("cuCtxGetDevice", C.c_int) == 1
    drv.call("cuCtxDestroy_v2", context)
    assert drv.context_stack_depth() == 0
    assert drv.cu.cuCtxDestroy_v2(drv.context(0)) == 201, "a primary context is released"


def check_a_reset_leaves_what_the_driver_gave(drv: Any) -> None:
    vendor = vendors.of(drv)
    drv.make_current(0)
    event, stream = new_event(drv), drv.get(vendor.create_stream, C.c_void_p, 1)
    drv.make_current(1)
    fresh, before = (0 if vendor.is_hip else ()), drv.live_events()
    drv.reset()
    assert drv.now_current() == fresh
    assert drv.log() == drv.races() == [] and drv.counts() == {}
    assert drv.live_events() == before
    assert getattr(drv.cu, vendor.record)(event, stream) == 0
    drv.reset(hard=True)
    assert drv.live_events() == 0


# --- the log ----------------------------------------------------------------------------


def check_the_log(drv: Any) -> None:
    vendor = vendors.of(drv)
    record, wait = getattr(drv.cu, vendor.record), getattr(drv.cu, vendor.wait)
    p = drv.stream_new(0, False, name="P1")
    drv.make_current(0)
    event = new_event(drv)
    drv.clear_log()
    with drv.caller("someone"):
        record(event, p)
    wait(2, event, 0)
    drv.make_current(1)
    record(event, vendor.legacy)
    number = drv.entries()[0].args["ev"]
    here, there, nowhere = "dev=0", "dev=1", "dev=0"
    if not vendor.is_hip:
        here, there = (f"ctx={drv.context_number(drv.context(k))}" for k in (0, 1))
        nowhere = "ctx=0"
    assert drv.log() == [
        f"{vendor.record} ev={number} stream=P1 {here}",
        f"{vendor.wait} stream=PTDS ev={number} {here}",
        f"{vendor.record} ev={number} stream={vendor.shown} {there} -> 400",
    ]
    assert drv.calls() == [vendor.record, vendor.wait, vendor.record]
    assert drv.calls(by="someone") == [vendor.record]
    assert drv.counts() == {vendor.create_event: 1, vendor.record: 2, vendor.wait: 1}
    assert [entry.rc for entry in drv.entries()] == [0, 0, 400]
    thread = threading.Thread(target=getattr(drv.cu, vendor.stream_sync), args=(p,))
    thread.start()
    thread.join()
    entry = drv.entries()[-1]
    assert entry.thread != drv.thread()
    assert entry.text == f"{vendor.stream_sync} stream=P1 {nowhere}"


def check_requested_failures(drv: Any) -> None:
    vendor = vendors.of(drv)
    record, sync = getattr(drv.cu, vendor.record), getattr(drv.cu, vendor.stream_sync)
    drv.make_current(0)
    p, event = drv.stream_new(0, False), new_event(drv)
    memory = drv.alloc(8, kind="pinned")
    drv.write(p, memory)
    drv.fail_next(vendor.stream_sync, 700)
    drv.fail_next(vendor.record, 719, skip=1)
    assert sync(p) == 700
    assert drv.host_read(memory), "a call that fails does nothing"
    assert sync(p) == 0
    assert [record(event, p) for _ in range(3)] == [0, 719, 0]
    drv.fail_next(vendor.record, 700)
    drv.reset()
    drv.make_current(0)
    assert record(event, vendor.legacy) == 0, "forgotten by the reset"


def check_events_destroyed_twice_and_never(drv: Any) -> None:
    destroy, before = getattr(drv.cu, vendors.of(drv).destroy_event), drv.live_events()
    drv.make_current(0)
    first, second = new_event(drv), new_event(drv)
    assert drv.live_events() == before + 2
    assert destroy(first) == 0
    assert drv.live_events() == before + 1
    assert destroy(first) == 400
    assert len(drv.marks("DOUBLE")) == 1
    assert len(drv.leaks()) == before + 1
    assert destroy(second) == 0


# --- pointers ---------------------------------------------------------------------------

ATTRIBUTES = {
    "context": (1, C.c_void_p),
    "memory type": (2, C.c_uint),
    "device pointer": (3, C.c_uint64),
    "host pointer": (4, C.c_void_p),
    "managed": (8, C.c_uint),
    "ordinal": (9, C.c_int),
    "start": (11, C.c_uint64),
    "size": (12, C.c_size_t),
}
UNKNOWN, HOST, DEVICE = 0, 1, 2


def attributes(drv: Driver, address: int) -> dict[str, object]:
    kinds = (C.c_int * len(ATTRIBUTES))(*(number for number, _ in ATTRIBUTES.values()))
    rooms = {name: kind() for name, (_, kind) in ATTRIBUTES.items()}
    places = (C.c_void_p * len(rooms))(*map(C.addressof, rooms.values()))
    drv.call("cuPointerGetAttributes", len(rooms), C.addressof(kinds), C.addressof(places), address)
    return {name: room.value or 0 for name, room in rooms.items()}


def one_by_one(drv: Driver, address: int) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, (number, kind) in ATTRIBUTES.items():
        room = kind()
        rc = drv.cu.cuPointerGetAttribute(C.addressof(room), number, address)
        found[name] = rc if rc else room.value or 0
    return found


@checks.on_cuda
def check_what_pointers_tell(drv: Driver) -> None:
    for device in (0, 1):
        own = {"device": drv.context(device), "managed": drv.context(device)}
        own |= {"pinned": drv.context(device), "pool": 0}
        for kind, context in own.items():
            base = drv.alloc(64, device, kind)
            found = attributes(drv, base + 8)
            readable = kind in ("managed", "pinned")
            wanted = {
                "context": context,
                "memory type": HOST if kind == "pinned" else DEVICE,
                "device pointer": base + 8,
                "host pointer": base + 8 if readable else 0,
                "managed": int(kind == "managed"),
                "ordinal": device,
                "start": base,
                "size": 64,
            }
            assert found == wanted, kind
            assert one_by_one(drv, base + 8) == wanted | {
                "host pointer": base + 8 if readable else 1
            }


@checks.on_cuda
def check_pointers_that_no_driver_knows(drv: Driver) -> None:
    block = (C.c_char * 8)()
    for address in (0, 8, C.addressof(block), drv.alloc(8) + 8):
        assert set(attributes(drv, address).values()) == {0}
        assert set(one_by_one(drv, address).values()) == {1}


@checks.on_cuda
def check_pointers_and_contexts(drv: Driver) -> None:
    base = drv.alloc(8)
    drv.set_current(None)
    assert attributes(drv, base)["memory type"] == DEVICE
    drv.option("pointer_needs_context", 1)
    with pytest.raises(DriverError) as told:
        attributes(drv, base)
    assert told.value.rc == 201
    drv.set_current(drv.context(1))
    assert attributes(drv, base)["ordinal"] == 0


@checks.on_cuda
def check_memory_of_another_context(drv: Driver) -> None:
    context = drv.context_new(1)
    found = attributes(drv, drv.alloc(8, context=context))
    assert (found["context"], found["ordinal"]) == (context, 1)


def check_memory_is_aligned_to_512_and_to_no_more(drv: Fake) -> None:
    """A test that asks for more never finds it by chance."""
    for size in (1, 512, 1 << 12, 1 << 16) * 8:
        assert drv.alloc(size) % 1024 == 512


@checks.on_cuda
def check_allocations_by_the_driver(drv: Driver) -> None:
    drv.set_current(drv.context(1))
    base = drv.get("cuMemAlloc_v2", C.c_uint64, 64)
    assert base % 512 == 0 and drv.bytes_at(base, 64) == b"\xa5" * 64
    assert attributes(drv, base)["context"] == drv.context(1)
    assert drv.cu.cuMemAlloc_v2(C.byref(C.c_uint64()), 0) == 1
    assert drv.cu.cuMemAlloc_v2(C.byref(C.c_uint64()), 1 << 50) == 2
    managed = drv.get("cuMemAllocManaged", C.c_uint64, 8, 1)
    assert attributes(drv, managed)["managed"] == 1
    pinned = [
        drv.get("cuMemHostAlloc", C.c_void_p, 8, 0),
        drv.get("cuMemAllocHost_v2", C.c_void_p, 8),
    ]
    for address in pinned:
        assert attributes(drv, address)["memory type"] == HOST
        assert drv.cu.cuMemFree_v2(address) == 1
        drv.call("cuMemFreeHost", address)
    for address in (base, managed):
        assert drv.cu.cuMemFreeHost(address) == 1
        assert drv.cu.cuMemFree_v2(address + 1) == 1
        drv.call("cuMemFree_v2", address)
        assert drv.cu.cuMemFree_v2(address) == 1
    assert drv.cu.cuMemFree_v2(0) == 0


@checks.on_cuda
def check_device_attributes(drv: Driver) -> None:
    value = C.c_int()
    for device in (0, 1):
        drv.call("cuDeviceGetAttribute", C.byref(value), 89, device)
        assert value.value == 1
    drv.option("concurrent_managed", 0)
    drv.call("cuDeviceGetAttribute", C.byref(value), 89, 0)
    assert value.value == 0


# --- Python's lock ----------------------------------------------------------------------


def check_pythons_lock_is_seen(drv: Any) -> None:
    vendor = vendors.of(drv)
    drv.make_current(0)
    p, event = drv.stream_new(0, False), new_event(drv)
    calls: list[tuple[Any, ...]] = [
        (vendor.record, event, p),
        (vendor.wait, p, event, 0),
        (vendor.stream_sync, p),
        (vendor.device_sync,),
        (vendor.destroy_event, event),
    ]
    drv.clear_log()
    for name, *arguments in calls[:-1]:
        assert getattr(drv.cu, name)(*arguments) == 0
    assert drv.gil_held_calls() == drv.gil_held_calls(every=True) == {} and not drv.marks()
    for name, *arguments in calls:
        assert getattr(drv.held, name)(*arguments) == 0
    getattr(drv.held, vendor.get_device)(C.byref(C.c_int()))
    named = {name: 1 for name, *_ in calls}
    assert drv.gil_held_calls() == named
    assert drv.gil_held_calls(every=True) == named | {vendor.get_device: 1}
    assert drv.marks() == [f"GIL {name}" for name in named]


# --- names ------------------------------------------------------------------------------

#: The version in which functions came that not all variants have (streams of the toolkit's own
#: list of typedefs).
SINCE = {
    "cuStreamIsCapturing": 10000,
    "cuStreamGetCaptureInfo": 10010,
    "cuThreadExchangeStreamCaptureMode": 10010,
    "cuLaunchHostFunc": 10000,
    "cuDevicePrimaryCtxRelease_v2": 11000,
    "cuEventRecordWithFlags": 11010,
    "cuMemAllocAsync": 11020,
    "cuMemFreeAsync": 11020,
    "cuGetProcAddress": 11030,
    "cuStreamGetCaptureInfo_v2": 11030,
    "cuGetProcAddress_v2": 12000,
    "cuStreamGetId": 12000,
    "cuCtxGetId": 12000,
    "cuStreamGetCaptureInfo_v3": 12030,
    "cuCtxRecordEvent": 12050,
    "cuCtxWaitEvent": 12050,
    "cuStreamGetCtx_v2": 12050,
    "cuStreamGetDevice": 12080,
    "cuCtxSynchronize_v2": 13000,
    "cuCtxGetDevice_v2": 13000,
}


@checks.on_cuda
def check_what_a_version_has(drv: Driver) -> None:
    version = drv.get("cuDriverGetVersion", C.c_int)
    assert version in (9020, 12020, 12050, 13000)
    for name, since in SINCE.items():
        assert drv.has(name) == (since <= version), name
    # The names of 2010, with other parameters, are not there to be taken by mistake.
    for name in ("cuEventDestroy", "cuCtxPushCurrent", "cuMemcpyDtoHAsync", "cuMemAlloc"):
        assert not drv.has(name)
    drv.option("driver_version", 99000)
    assert drv.get("cuDriverGetVersion", C.c_int) == 99000


def lookup(drv: Driver, name: str, version: int, flags: int = 0) -> str | None:
    """The exported function that the driver hands out under a name."""
    found, status = C.c_void_p(), C.c_int(-1)
    rc = drv.cu.cuGetProcAddress_v2(name.encode(), C.byref(found), version, flags, C.byref(status))
    assert rc == 0 and status.value == (0 if found.value else 1)
    names = {C.cast(getattr(drv.cu, n), C.c_void_p).value: n for n in CUDA if drv.has(n)}
    return names[found.value] if found.value else None


@checks.only_on("12.2", "12.5", "13.0")
def check_looking_names_up(drv: Driver) -> None:
    version = drv.get("cuDriverGetVersion", C.c_int)
    assert lookup(drv, "cuNoSuchThing", 13000) is None
    assert lookup(drv, "cuEventDestroy", 12000) == "cuEventDestroy_v2"
    assert lookup(drv, "cuEventDestroy_v2", 12000) is None
    assert lookup(drv, "cuEventRecord", 12000) == "cuEventRecord"
    assert lookup(drv, "cuEventRecord", 12000, 2) == "cuEventRecord_ptsz"
    # The same name, and from some version on a function with more parameters.
    assert lookup(drv, "cuStreamGetCtx", 9020) == "cuStreamGetCtx"
    newer = "cuStreamGetCtx_v2" if version >= 12050 else "cuStreamGetCtx"
    assert lookup(drv, "cuStreamGetCtx", 99999) == newer
    newer = "cuCtxSynchronize_v2" if version >= 13000 else "cuCtxSynchronize"
    assert lookup(drv, "cuCtxSynchronize", 99999) == newer
    assert lookup(drv, "cuCtxSynchronize", 12000) == "cuCtxSynchronize"
    assert drv.log() == ["cuDriverGetVersion ctx=0"], "looking up is counted only"
    assert drv.counts()["cuGetProcAddress_v2"] == 9


@checks.on_cuda
def check_names_of_errors(drv: Driver) -> None:
    text = C.c_char_p()
    drv.call("cuGetErrorName", 201, C.byref(text))
    assert text.value == b"CUDA_ERROR_INVALID_CONTEXT"
    assert drv.cu.cuGetErrorName(12345, C.byref(text)) == 1


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), ALL_LIVE))
def test_driver(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]


# --- drivers that are none --------------------------------------------------------------


def test_the_stub_answers_34_to_everything() -> None:
    run_with_driver(
        "stub",
        """
        from device.test_fake_driver import blank
        from drivers.prototypes import CUDA, HIP, TEXTS
        assert drv.start() == 34
        called = {name: blank(drv, name) for name in CUDA if drv.has(name)}
        assert len(called) > 60 and set(called.values()) == {34}, called
        """,
    )


def test_without_a_device_every_start_fails() -> None:
    run_with_driver(
        "nodev",
        """
        import ctypes as C
        from device.test_fake_driver import EARLY, blank
        from drivers.prototypes import CUDA, HIP, TEXTS
        assert drv.start() == 100
        for _ in range(3):
            assert drv.cu.cuInit(0) == 100
        assert drv.get("cuDriverGetVersion", C.c_int) == 13000
        for name in CUDA:
            if drv.has(name) and name not in EARLY:
                assert blank(drv, name) == 3, name
        assert drv.counts()["cuInit"] == 3
        """,
    )


def test_it_is_what_the_process_finds() -> None:
    """A library that asks for libcuda.so.1 gets the fake, and shares its state."""
    run_with_driver(
        "13.0",
        """
        import ctypes as C, os
        found = C.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        assert found.cuInit(0) == 0
        assert drv.counts() == {"cuInit": 1}
        """,
    )


# --- what it does not survive ----------------------------------------------------------

SETTING = """
import ctypes as C, os, sys
from doubles import vendors
os.dup2(1, 2)
v, cu = vendors.of(drv), drv.cu
record, wait, sync = (getattr(cu, name) for name in (v.record, v.wait, v.stream_sync))
events, streams = (getattr(cu, f"{v.prefix}{what}Query") for what in ("Event", "Stream"))
drv.reset()
drv.make_current(0)
stream = drv.get(v.create_stream, C.c_void_p, 1)
event = vendors.new_event(drv)
record(event, stream)
"""
DEADLY = {
    "an unknown stream": "record(event, 12345)",
    "a stream cut to 32 bits": "sync(stream & 0xffffffff)",
    "a context for a stream": "sync(drv.context(0))",
    "-1 for a stream": "wait(2**64 - 1, event, 0)",
    "an unknown event": "record(16, stream)",
    "a destroyed stream": "drv.call(v.destroy_stream, stream); streams(stream)",
    "a stream of an earlier case": (
        "s = drv.stream_new(); drv.reset(); record(event, stream); streams(s)"
    ),
    "a destroyed event": "drv.call(v.destroy_event, event); events(event)",
    "destroying an unknown event": "getattr(cu, v.destroy_event)(16)",
}


@pytest.mark.parametrize("what", DEADLY)
@pytest.mark.parametrize("variant", ["13.0", "hip7"])
def test_it_aborts_on(variant: str, what: str) -> None:
    out = run_with_driver(variant, SETTING + DEADLY[what], returncode=-signal.SIGABRT)
    assert "fake driver:" in out
    assert "EventRecord ev=1 stream=" in out, "the log is told"


def test_it_aborts_on_an_unknown_context() -> None:
    code = SETTING + "cu.cuCtxPushCurrent_v2(16)"
    assert "fake driver:" in run_with_driver("13.0", code, returncode=-signal.SIGABRT)


@pytest.mark.parametrize("what", ["an unknown event", "a destroyed event"])
def test_hip_5_aborts_on(what: str) -> None:
    """An unknown stream is an error there."""
    run_with_driver("hip5", SETTING + DEADLY[what], returncode=-signal.SIGABRT)


FORKED = """
child = os.fork()
if child == 0:
    {call}
    os._exit(0)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == {ends}, status
assert sync(stream) == 0, "the parent goes on"
"""
CALLS = {
    "a wait": "sync(stream)",
    "the start": "cu.cuInit(0)",
    "a question": "getattr(cu, v.get_device)(C.byref(C.c_int()))",
    "an end": "getattr(cu, v.destroy_event)(event)",
}


@pytest.mark.parametrize("what", CALLS)
@pytest.mark.parametrize("variant", ["13.0", "hip6"])
def test_a_forked_child_must_not_call(variant: str, what: str) -> None:
    call = CALLS[what].replace("cuInit", "hipInit" if variant == "hip6" else "cuInit")
    code = SETTING + FORKED.format(call=call, ends=-signal.SIGABRT)
    assert "in a forked child" in run_with_driver(variant, code)


@pytest.mark.parametrize(("variant", "start"), [("13.0", "cuInit"), ("hip6", "hipInit")])
def test_a_forked_child_may_call_nothing_or_start_itself(variant: str, start: str) -> None:
    run_with_driver(variant, SETTING + FORKED.format(call="pass", ends=0))
    run_with_driver(
        variant,
        f"""
        import os
        child = os.fork()
        if child == 0:
            os._exit(drv.cu.{start}(0))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        """,
    )


def test_all_variants_are_here() -> None:
    assert set(VARIANTS) == {*CUDA_LIVE, "stub", "nodev"}
    assert set(HIP_VARIANTS) == {*HIP_LIVE, "hip-nodev5", "hip-nodev6"}
    assert set(TEXTS) <= HIP.keys()
