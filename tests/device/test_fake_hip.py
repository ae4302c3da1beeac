"""The fake libamdhip64: devices, errors by release, copies.  What both vendors have is in
``test_fake_driver.py`` and ``test_fake_sync.py``."""

from __future__ import annotations

import ctypes as C
import re
import subprocess
import threading
from collections.abc import Callable

import pytest
from project.tree import driver_calls

from doubles import child
from doubles.vendors import edge, new_event
from drivers import HIP_LIVE, HIP_VARIANTS, HipDriver, built, checks, run_checks, run_with_driver
from drivers.control import DriverError
from drivers.prototypes import HIP

TO_DEVICE, TO_HOST, WITHIN, BY_ADDRESS = 1, 2, 3, 4


def version_of(drv: HipDriver) -> int:
    return drv.get("hipRuntimeGetVersion", C.c_int)


# --- devices ------------------------------------------------------------------------------


def check_the_current_device(drv: HipDriver) -> None:
    assert drv.get("hipGetDeviceCount", C.c_int) == 2
    assert drv.get("hipGetDevice", C.c_int) == drv.device() == 0
    drv.call("hipSetDevice", 1)
    assert drv.get("hipGetDevice", C.c_int) == drv.device() == 1
    assert drv.hip.hipSetDevice(2) == drv.hip.hipSetDevice(-1) == 101
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(drv.device()))
    thread.start()
    thread.join()
    assert seen == [0] and drv.device() == 1, "every thread has its own"


def check_the_null_stream_is_that_of_the_current_device(drv: HipDriver) -> None:
    p = drv.stream_new(1, True, name="P")
    memory = drv.alloc(64, 1)
    for device, racy in ((0, True), (1, False)):
        s = drv.stream_new(1, False, name="S")
        drv.set_device(device)
        drv.write(p, memory)
        edge(drv, 0, s)
        assert drv.read(s, memory) == racy, device


def check_a_device_waits_for_itself_alone(drv: HipDriver) -> None:
    p, s = drv.stream_new(1, False), drv.stream_new(1, False)
    memory = drv.alloc(64, 1)
    for device, racy in ((0, True), (1, False)):
        drv.set_device(device)
        drv.write(p, memory)
        drv.call("hipDeviceSynchronize")
        assert drv.read(s, memory) == racy


def check_an_event_belongs_to_the_device_on_which_it_was_made(drv: HipDriver) -> None:
    here, there = drv.stream_new(0), drv.stream_new(1)
    event = new_event(drv)
    assert drv.hip.hipEventRecord(event, there) == 400
    assert drv.hip.hipEventRecord(event, here) == 0
    assert drv.hip.hipStreamWaitEvent(there, event, 0) == 0, "a wait may cross devices"
    drv.set_device(1)
    assert drv.hip.hipEventRecord(event, 0) == 400
    assert drv.hip.hipEventRecord(event, here) == 0
    assert drv.hip.hipEventRecord(None, here) == 400


def check_the_device_of_a_stream(drv: HipDriver) -> None:
    for device in (0, 1):
        assert drv.hip.hipGetStreamDeviceId(drv.stream_new(device)) == device
        drv.set_device(device)
        assert drv.hip.hipGetStreamDeviceId(None) == drv.hip.hipGetStreamDeviceId(2) == device


# --- what releases differ in --------------------------------------------------------------


def check_what_a_version_has(drv: HipDriver) -> None:
    version = version_of(drv)
    assert drv.has("hipStreamGetDevice") == (version >= 50600000)
    assert {name for name in HIP if not drv.has(name)} <= {"hipStreamGetDevice"}
    drv.option("runtime_version", 99000000)
    assert version_of(drv) == 99000000


class Facts(C.Structure):
    _fields_ = [
        ("type", C.c_int),
        ("device", C.c_int),
        ("device_pointer", C.c_void_p),
        ("host_pointer", C.c_void_p),
        ("managed", C.c_int),
        ("flags", C.c_uint),
    ]


def facts(drv: HipDriver, address: int) -> tuple[object, ...]:
    """The error alone, or (type, device, its pointer, the host's, managed)."""
    found = Facts(-9, -9, 0xBAD, 0xBAD, -9, 9)
    rc = drv.hip.hipPointerGetAttributes(C.byref(found), address)
    if rc:
        assert (found.type, found.device) == (-9, -9)
        return (rc,)
    return found.type, found.device, found.device_pointer, found.host_pointer, found.managed


def check_what_pointers_tell(drv: HipDriver) -> None:
    old = version_of(drv) < 60000000
    host, device, managed = (0, 1, 0) if old else (1, 2, 3)
    for index in (0, 1):
        at = {kind: drv.alloc(64, index, kind) + 8 for kind in ("device", "pool", "pinned")}
        assert facts(drv, at["device"]) == (device, index, at["device"], None, 0)
        assert facts(drv, at["pool"]) == (device, index, at["pool"], None, 0)
        assert facts(drv, at["pinned"]) == (host, index, at["pinned"], at["pinned"], 0)
        shared = drv.alloc(64, index, "managed")
        assert facts(drv, shared) == (managed, index, shared, shared, int(not old))


def check_pointers_that_nobody_knows(drv: HipDriver) -> None:
    version = version_of(drv)
    unknown = (1,) if version < 60000000 else (0, -2, None, None, 0)
    block = (C.c_char * 8)()
    for address in (8, C.addressof(block), drv.alloc(8) + 8):
        assert facts(drv, address) == unknown
    assert facts(drv, 0) == (unknown if version >= 70000000 else (1,))


@checks.only_on("hip5", "hip6")
def check_an_unknown_stream_is_an_error(drv: HipDriver) -> None:
    """As the stream of another runtime is; and hipStreamLegacy, before 6.3."""
    gone = drv.stream_new()
    drv.stream_end(gone)
    event, status, memory = new_event(drv), C.c_int(), drv.alloc(8)
    for stream in (gone, 12345, *((1,) if version_of(drv) < 60300000 else ())):
        assert drv.hip.hipEventRecord(event, stream) == 709
        assert drv.hip.hipStreamWaitEvent(stream, event, 0) == 400
        assert drv.hip.hipStreamSynchronize(stream) == drv.hip.hipStreamQuery(stream) == 709
        assert drv.hip.hipStreamIsCapturing(stream, C.byref(status)) == 709
        assert drv.hip.hipMemcpyAsync(memory, memory, 8, WITHIN, stream) == 709
        assert drv.hip.hipGetStreamDeviceId(stream) == -1


@checks.only_on("hip6", "hip7")
def check_the_legacy_handle_of_6_3(drv: HipDriver) -> None:
    p, memory = drv.stream_new(0, False), drv.alloc(8)
    edge(drv, p, 1)
    assert not drv.write(p, memory) and drv.read(0, memory)
    edge(drv, p, 1)
    assert not drv.read(0, memory)


# --- captures -----------------------------------------------------------------------------


def state(drv: HipDriver, stream: int) -> tuple[int, int]:
    value = C.c_int(-1)
    return drv.hip.hipStreamIsCapturing(stream, C.byref(value)), value.value


def check_captures(drv: HipDriver) -> None:
    s, other = drv.stream_new(0, True), drv.stream_new(0, False)
    drv.call("hipStreamBeginCapture", s, 2)
    assert state(drv, s) == (0, 1) and state(drv, other) == (0, 0)
    assert state(drv, 0)[0] == 906 and drv.capture_state(s) == "active", "asking does no harm"
    identity, value = C.c_ulonglong(), C.c_int()
    drv.call("hipStreamGetCaptureInfo", s, C.byref(value), C.byref(identity))
    assert (value.value, identity.value) == (1, 1)
    graph = C.c_void_p()
    drv.call("hipStreamEndCapture", s, C.byref(graph))
    assert state(drv, s) == (0, 0)


CAPTURE_ENDS: dict[str, tuple[int, Callable[[HipDriver, int, int], int]]] = {
    "the stream is waited for": (900, lambda d, s, e: d.hip.hipStreamSynchronize(s)),
    "the device is waited for": (900, lambda d, s, e: d.hip.hipDeviceSynchronize()),
    "the null stream is used": (906, lambda d, s, e: d.hip.hipEventRecord(e, 0)),
    "an event from outside": (905, lambda d, s, e: d.hip.hipStreamWaitEvent(s, e, 0)),
}


def check_what_ends_a_capture(drv: HipDriver) -> None:
    for what, (error, go) in CAPTURE_ENDS.items():
        drv.reset()
        s, event = drv.stream_new(0, True), new_event(drv)
        drv.call("hipEventRecord", event, drv.stream_new(0, False))
        drv.capture_begin(s)
        assert go(drv, s, event) == error, what
        assert drv.capture_state(s) == "invalidated" and len(drv.marks("DIED")) == 1, what
        with pytest.raises(DriverError) as told:
            drv.capture_end(s)
        assert told.value.rc == 901


def check_a_captured_event(drv: HipDriver) -> None:
    s, event = drv.stream_new(0, False), new_event(drv)
    drv.capture_begin(s)
    drv.call("hipEventRecord", event, s)
    assert drv.hip.hipEventQuery(event) == 907
    mode = C.c_int(2)
    drv.call("hipThreadExchangeStreamCaptureMode", C.byref(mode))
    assert mode.value == 0
    drv.call("hipThreadExchangeStreamCaptureMode", C.byref(mode))
    assert mode.value == 2


# --- copies -------------------------------------------------------------------------------


def check_copies_to_the_host(drv: HipDriver) -> None:
    s, memory = drv.stream_new(1, False), drv.alloc(64, 1)
    drv.put(memory, bytes(range(64)))
    target = (C.c_char * 64)()
    for kind in (TO_HOST, BY_ADDRESS):
        drv.call("hipMemcpyAsync", C.addressof(target), memory, 64, kind, s)
        assert target.raw == bytes(range(64))
        assert drv.host_read(C.addressof(target)), "not waited for"
        drv.call("hipStreamSynchronize", s)
        assert not drv.host_read(C.addressof(target))
    assert drv.marks("PEER") == []


def check_copies_of_rows(drv: HipDriver) -> None:
    s, memory = drv.stream_new(), drv.alloc(64)
    drv.put(memory, bytes(range(64)))
    target = (C.c_char * 8)()
    drv.call("hipMemcpy2DAsync", C.addressof(target), 4, memory + 1, 16, 4, 2, TO_HOST, s)
    assert target.raw == bytes((1, 2, 3, 4, 17, 18, 19, 20))
    back = (C.c_char * 4)(*b"wxyz")
    drv.call("hipMemcpy2DAsync", memory, 32, C.addressof(back), 2, 2, 2, TO_DEVICE, s)
    assert drv.bytes_at(memory, 2) + drv.bytes_at(memory + 32, 2) == b"wxyz"


def check_copies_that_are_wrong(drv: HipDriver) -> None:
    s, memory = drv.stream_new(), drv.alloc(64)
    block = (C.c_char * 64)()
    host = C.addressof(block)
    for to, of, size, kind in (
        (host, memory, 65, TO_HOST),
        (host, host, 8, TO_HOST),
        (host, memory, 8, WITHIN),
        (host, memory, 8, 9),
        (memory + 60, host, 8, TO_DEVICE),
    ):
        assert drv.hip.hipMemcpyAsync(to, of, size, kind, s) == 1
    narrow = (host, 2, memory, 16, 4, 2, TO_HOST, s)
    assert drv.hip.hipMemcpy2DAsync(*narrow) == 1
    assert drv.hip.hipMemcpyAsync(host, memory, 0, TO_HOST, s) == 0
    drv.call("hipMemcpyAsync", host, memory, 8, TO_HOST, drv.stream_new(1))
    assert len(drv.marks("PEER")) == 1


# --- errors -------------------------------------------------------------------------------


def check_names_of_errors(drv: HipDriver) -> None:
    assert drv.hip.hipGetErrorName(709) == b"hipErrorContextIsDestroyed"
    assert drv.hip.hipGetErrorName(12345) == b"hipErrorUnknown"


def check_the_last_error_of_a_thread(drv: HipDriver) -> None:
    """A success makes it forgotten, but no more from 7.0 on."""
    stays = 400 if version_of(drv) >= 70000000 else 0
    assert drv.hip.hipEventRecord(None, None) == 400
    assert drv.last_error() == drv.hip.hipPeekAtLastError() == 400
    drv.call("hipDeviceSynchronize")
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(drv.last_error()))
    thread.start()
    thread.join()
    assert seen == [0] and drv.last_error() == stays
    assert drv.hip.hipGetErrorName(400) == b"hipErrorInvalidHandle" and drv.last_error() == stays
    assert drv.hip.hipGetLastError() == stays and drv.hip.hipGetLastError() == 0
    assert drv.hip.hipSetDevice(7) == 101
    assert drv.hip.hipGetLastError() == 101 and drv.last_error() == 0


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), HIP_LIVE))
def test_runtime(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]


# --- names --------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", HIP_VARIANTS)
def test_it_is_found_by_its_name_and_has_all_that_dlshim_asks_for(variant: str) -> None:
    names = driver_calls("hip")
    assert len(names) == 24, names
    soname = HIP_VARIANTS[variant][0]
    assert built(variant).name == soname
    done = subprocess.run(
        ["nm", "-D", "--defined-only", str(built(variant))],
        capture_output=True,
        text=True,
        check=True,
    )
    defined = set(re.findall(r" T (hip\w+)", done.stdout))
    assert set(names) <= defined, set(names) - defined
    assert defined <= HIP.keys(), defined - HIP.keys()


# --- without a device ---------------------------------------------------------------------


@pytest.mark.parametrize(("variant", "error"), [("hip-nodev5", 101), ("hip-nodev6", 100)])
def test_without_a_device(variant: str, error: int) -> None:
    """As the real 5.2.3 and 6.4.3 answer."""
    child.program("runtime_without_a_device", built(variant), error)


def blank(drv: HipDriver, name: str) -> int:
    """The function called with zeros and rooms that nobody reads."""
    room = (C.c_char * 256)()
    arguments = [C.addressof(room) if kind is C.c_void_p else 0 for kind in HIP[name]]
    return getattr(drv.hip, name)(*arguments)


# --- two in one process -------------------------------------------------------------------


def test_two_runtimes_in_one_process_know_nothing_of_each_other() -> None:
    run_with_driver(
        "hip5",
        """
        import drivers
        from device.test_fake_hip import facts, new_event
        other = drivers.load_hip(arguments[0])
        assert other.start() == drv.start() == 0
        here, there = drv.alloc(8), other.alloc(8)
        assert facts(drv, here)[0] == 1 and facts(other, there)[0] == 2
        assert facts(drv, there) == (1,) and facts(other, here)[:2] == (0, -2)
        # What the frameworks meet when they are mixed: pytorch issue 169855.
        assert drv.hip.hipEventRecord(new_event(drv), other.stream_new()) == 709
        assert other.hip.hipStreamWaitEvent(drv.stream_new(), new_event(other), 0) == 400
        drv.set_device(1)
        assert other.device() == 0
        """,
        str(built("hip6")),
    )
