"""Captures in the fake driver: what is legal, what dies, and who gets which error."""

from __future__ import annotations

import ctypes as C
import threading
from collections.abc import Callable

import pytest

from drivers import Driver, checks, run_checks
from drivers.control import DriverError

LIVE = ("12.2", "12.5", "13.0")


def setting(drv: Driver, *blocking: bool) -> list[int]:
    """A current context and some streams."""
    drv.set_current(drv.context(0))
    return [drv.stream_new(0, b, name=n) for b, n in zip(blocking, "ABCD", strict=False)]


def event_on(drv: Driver, stream: int | None = None) -> int:
    event = drv.get("cuEventCreate", C.c_void_p, 2)
    if stream is not None:
        drv.call("cuEventRecord", event, stream)
    return event


def ends_with(drv: Driver, stream: int, rc: int) -> None:
    if not rc:
        drv.capture_end(stream)
    else:
        with pytest.raises(DriverError) as told:
            drv.capture_end(stream)
        assert told.value.rc == rc
    assert drv.capture_state(stream) == "none"


def in_thread(function: Callable[[], object]) -> object:
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(function()))
    thread.start()
    thread.join()
    return answers[0]


def check_a_record_on_a_capturing_stream_is_legal(drv: Driver) -> None:
    p, s = setting(drv, False, False)
    drv.capture_begin(p)
    event = event_on(drv, p)
    assert drv.capture_state(p) == "active"
    assert drv.cu.cuEventQuery(event) == 907
    assert drv.capture_state(p) == "invalidated"
    ends_with(drv, p, 901)
    assert drv.cu.cuStreamWaitEvent(s, event, 0) == 907, "of a capture that is over"


def check_a_captured_event_cannot_be_waited_for_by_the_host(drv: Driver) -> None:
    (p,) = setting(drv, False)
    drv.capture_begin(p, "relaxed")
    assert drv.cu.cuEventSynchronize(event_on(drv, p)) == 907
    ends_with(drv, p, 901)


def check_a_capturing_stream_cannot_wait_for_what_is_outside(drv: Driver) -> None:
    p, s = setting(drv, False, False)
    event = event_on(drv, p)
    drv.capture_begin(s)
    assert drv.cu.cuStreamWaitEvent(s, event, 0) == 905
    assert drv.capture_state(s) == "invalidated"
    assert drv.marks() == ["DIED capture=1"]
    assert drv.cu.cuEventRecord(event, s) == 901
    assert drv.cu.cuStreamWaitEvent(s, event, 0) == 901
    ends_with(drv, s, 901)


def check_a_wait_for_a_captured_event_joins_the_capture(drv: Driver) -> None:
    p, s = setting(drv, False, False)
    drv.capture_begin(p)
    drv.call("cuStreamWaitEvent", s, event_on(drv, p), 0)
    assert drv.marks() == ["JOIN stream=B capture=1"]
    assert drv.capture_state(s) == "active"
    drv.call("cuStreamWaitEvent", p, event_on(drv, s), 0)
    ends_with(drv, p, 0)
    assert drv.capture_state(s) == "none"


def check_a_stream_that_joined_must_be_joined_back(drv: Driver) -> None:
    p, s = setting(drv, False, False)
    drv.capture_begin(p)
    drv.call("cuStreamWaitEvent", s, event_on(drv, p), 0)
    assert drv.cu.cuStreamEndCapture(s, C.byref(C.c_void_p())) == 903
    drv.reset()
    p, s = setting(drv, False, False)
    drv.capture_begin(p)
    drv.call("cuStreamWaitEvent", s, event_on(drv, p), 0)
    ends_with(drv, p, 904)


def check_two_captures_cannot_merge(drv: Driver) -> None:
    p, s = setting(drv, False, False)
    drv.capture_begin(p)
    drv.capture_begin(s)
    assert drv.cu.cuStreamWaitEvent(s, event_on(drv, p), 0) == 902
    assert drv.capture_state(p) == drv.capture_state(s) == "invalidated"


def check_synchronising_a_capture_kills_it(drv: Driver) -> None:
    calls: dict[str, Callable[[int, int], int]] = {
        "stream": lambda p, e: drv.cu.cuStreamSynchronize(p),
        "query": lambda p, e: drv.cu.cuStreamQuery(p),
        "context": lambda p, e: drv.cu.cuCtxSynchronize(),
    }
    if drv.has("cuCtxRecordEvent"):
        calls["context event"] = lambda p, e: drv.cu.cuCtxRecordEvent(drv.context(0), e)
    for name, call in calls.items():
        for blocking in (True, False):
            drv.reset()
            (p,) = setting(drv, blocking)
            event = event_on(drv)
            drv.capture_begin(p)
            assert call(p, event) == 900, name
            assert drv.marks("DIED"), name
            ends_with(drv, p, 901)


def check_captures_of_another_threads_die_too(drv: Driver) -> None:
    (p,) = setting(drv, False)
    drv.capture_begin(p)

    def other() -> int:
        drv.set_current(drv.context(0))
        return drv.cu.cuCtxSynchronize()

    assert in_thread(other) == 900
    ends_with(drv, p, 901)


def check_captures_of_another_context_do_not(drv: Driver) -> None:
    (p,) = setting(drv, False)
    drv.capture_begin(p)
    drv.set_current(drv.context(1))
    assert drv.cu.cuCtxSynchronize() == 0
    assert drv.cu.cuStreamSynchronize(1) == 0
    ends_with(drv, p, 0)


def check_the_legacy_stream_cannot_be_used_while_a_blocking_stream_captures(drv: Driver) -> None:
    calls: dict[str, Callable[[int], int]] = {
        "record": lambda event: drv.cu.cuEventRecord(event, 1),
        "record 0": lambda event: drv.cu.cuEventRecord(event, 0),
        "wait": lambda event: drv.cu.cuStreamWaitEvent(1, event, 0),
        "sync": lambda event: drv.cu.cuStreamSynchronize(1),
        "query": lambda event: drv.cu.cuStreamQuery(1),
    }
    for name, call in calls.items():
        for blocking in (True, False):
            drv.reset()
            (p,) = setting(drv, blocking)
            event = event_on(drv)
            drv.capture_begin(p)
            assert call(event) == (906 if blocking else 0), name
            ends_with(drv, p, 901 if blocking else 0)


def status(drv: Driver, stream: int) -> tuple[int, int, int]:
    found, ident = C.c_int(-1), C.c_uint64(0)
    rc = drv.cu.cuStreamGetCaptureInfo(stream, C.byref(found), C.byref(ident))
    alone = C.c_int(-1)
    assert drv.cu.cuStreamIsCapturing(stream, C.byref(alone)) == rc
    assert rc or alone.value == found.value
    return rc, found.value, ident.value


def check_asking_does_no_harm(drv: Driver) -> None:
    p, s = setting(drv, True, False)
    assert status(drv, p) == (0, 0, 0)
    drv.capture_begin(p)
    assert status(drv, p) == (0, 1, 1)
    assert status(drv, s) == (0, 0, 0)
    assert status(drv, 1)[0] == status(drv, 0)[0] == 906
    ends_with(drv, p, 0)
    drv.capture_begin(s)
    assert status(drv, 1) == (0, 0, 0)
    assert status(drv, s) == (0, 1, 2)
    drv.cu.cuStreamSynchronize(s)
    assert status(drv, s) == (0, 2, 2)


def check_what_cannot_be_captured(drv: Driver) -> None:
    (p,) = setting(drv, True)
    assert drv.cu.cuStreamBeginCapture_v2(1, 0) == 900
    assert drv.cu.cuStreamBeginCapture_v2(2, 0) == 0
    assert drv.cu.cuStreamBeginCapture_v2(p, 0) == 0
    assert drv.cu.cuStreamBeginCapture_v2(p, 0) == 1
    assert drv.cu.cuStreamEndCapture(drv.stream_new(), C.byref(C.c_void_p())) == 1


def check_a_capture_ends_on_its_own_thread(drv: Driver) -> None:
    (p,) = setting(drv, False)

    def end() -> int:
        return drv.cu.cuStreamEndCapture(p, C.byref(C.c_void_p()))

    for mode, rc in (("global", 908), ("thread", 908), ("relaxed", 0)):
        drv.capture_begin(p, mode)
        assert in_thread(end) == rc
        if rc:
            ends_with(drv, p, 0)


def allocates(drv: Driver, mode: int | None = None) -> int:
    drv.set_current(drv.context(0))
    value = C.c_int(mode or 0)
    if mode is not None:
        drv.call("cuThreadExchangeStreamCaptureMode", C.byref(value))
    return drv.cu.cuMemAlloc_v2(C.byref(C.c_uint64()), 64)


GLOBAL, THREAD, RELAXED = 0, 1, 2


def check_allocation_is_refused_while_a_capture_would_not_see_it(drv: Driver) -> None:
    # (mode of the capture, mode of the thread, on the capture's own thread): refused
    cases = {
        ("global", None, True): True,
        ("global", None, False): True,
        ("global", THREAD, True): True,
        ("global", THREAD, False): False,
        ("global", RELAXED, True): False,
        ("global", RELAXED, False): False,
        ("thread", None, True): True,
        ("thread", None, False): False,
        ("relaxed", None, True): False,
        ("relaxed", None, False): False,
    }
    for (capture, mode, own), refused in cases.items():
        drv.reset()
        (p,) = setting(drv, False)
        drv.capture_begin(p, capture)
        rc = allocates(drv, mode) if own else in_thread(lambda mode=mode: allocates(drv, mode))
        case = f"{capture} {mode} {own}"
        assert rc == (900 if refused else 0), case
        if own and mode is not None:
            before = C.c_int(GLOBAL)
            drv.call("cuThreadExchangeStreamCaptureMode", C.byref(before))
            assert before.value == mode
        ends_with(drv, p, 901 if refused else 0)


def check_creating_an_event_is_no_unsafe_call(drv: Driver) -> None:
    (p,) = setting(drv, True)
    drv.capture_begin(p)
    event_on(drv)
    ends_with(drv, p, 0)


def check_work_in_a_capture_is_synced_by_its_own_edges(drv: Driver) -> None:
    p, s = setting(drv, False, False)
    memory = drv.alloc(8)
    drv.capture_begin(p)
    drv.write(p, memory)
    drv.call("cuStreamWaitEvent", s, event_on(drv, p), 0)
    assert not drv.read(s, memory)
    drv.call("cuStreamWaitEvent", p, event_on(drv, s), 0)
    assert not drv.write(p, memory)
    ends_with(drv, p, 0)


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), LIVE))
def test_capture(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
