"""The fake CUDA driver in its asynchronous mode: what waits for a gate, and what does not.

Each check has both sides: what is ordered sees the new value, what is not sees the old one.  The
suite for a GPU (tests/gpu) relies on it.
"""

from __future__ import annotations

import ctypes as C
from collections.abc import Callable
from typing import Any

import pytest

from drivers import CUDA_LIVE, Driver, checks, run_checks

OLD, NEW, NOT_READY, NOT_SUPPORTED = 7, 42, 600, 801
#: Kinds of pairs (first, then) of which the driver lets the second wait by itself.
BY_THEMSELVES = {("L", "B"), ("B", "L"), ("L", "PT"), ("PT", "L")}
KINDS = ("L", "PT", "B", "N")


class Case:
    """A word on the device that is OLD, a gate, and what a copy on a stream has seen of it."""

    def __init__(self, drv: Driver) -> None:
        self.drv = drv
        drv.make_current(0)
        drv.asynchronous()
        self.gate, self.seen = (
            C.c_uint32.from_address(drv.alloc(4, 0, "pinned")) for _ in range(2)
        )
        self.gate.value = self.seen.value = 0
        self.word = drv.alloc(4, 0)
        self.write(1, OLD)
        self.wait()

    def stream(self, kind: str) -> int:
        return {"L": 1, "PT": 2}.get(kind) or self.drv.stream_new(0, kind == "B")

    def write(self, stream: int, value: int = NEW) -> None:
        self.drv.call("cuMemsetD32Async", self.word, value, 1, stream)

    def read(self, stream: int) -> None:
        self.drv.call("cuMemcpyDtoHAsync_v2", C.addressof(self.seen), self.word, 4, stream)

    def close(self, stream: int) -> None:
        self.drv.call("cuStreamWaitValue32", stream, C.addressof(self.gate), 1, 0)

    def edge(self, before: int, after: int) -> None:
        event = self.drv.get("cuEventCreate", C.c_void_p, 2)
        self.drv.call("cuEventRecord", event, before)
        self.drv.call("cuStreamWaitEvent", after, event, 0)

    def query(self, stream: int) -> int:
        return self.drv.cu.cuStreamQuery(stream)

    def wait(self) -> None:
        self.drv.call("cuCtxSynchronize")


def check_a_gate_holds_its_stream_until_the_host_opens_it(drv: Driver) -> None:
    case = Case(drv)
    p = case.stream("N")
    case.close(p)
    case.write(p)
    case.read(p)
    assert case.query(p) == NOT_READY and case.seen.value == 0
    case.gate.value = 1
    assert case.query(p) == 0 and case.seen.value == NEW


def check_streams_wait_for_each_other_as_their_kinds_do(drv: Driver) -> None:
    for p_kind in KINDS:
        for s_kind in KINDS:
            case = Case(drv)
            p, s = case.stream(p_kind), case.stream(s_kind)
            one = p == s
            case.close(p)
            case.write(p)
            case.read(s)
            waits = case.query(s) == NOT_READY
            assert waits is (one or (p_kind, s_kind) in BY_THEMSELVES), (p_kind, s_kind)
            assert case.seen.value == (0 if waits else OLD), (p_kind, s_kind)
            case.gate.value = 1
            case.wait()
            drv.reset()


def check_an_edge_makes_any_stream_wait(drv: Driver) -> None:
    for p_kind in KINDS:
        for s_kind in KINDS:
            case = Case(drv)
            p, s = case.stream(p_kind), case.stream(s_kind)
            case.close(p)
            case.write(p)
            case.edge(p, s)
            case.read(s)
            assert case.query(s) == NOT_READY, (p_kind, s_kind)
            case.gate.value = 1
            assert case.query(s) == 0 and case.seen.value == NEW, (p_kind, s_kind)
            drv.reset()


def check_what_nothing_orders_takes_effect_in_the_other_order(drv: Driver) -> None:
    """Without a gate, too: whoever waits for all sees that an edge is missing."""
    for ordered in (False, True):
        case = Case(drv)
        p, s = case.stream("N"), case.stream("N")
        case.write(p)
        if ordered:
            case.edge(p, s)
        case.read(s)
        case.wait()
        assert case.seen.value == (NEW if ordered else OLD)
        drv.reset()


def check_the_host_that_does_not_wait_reads_too_early(drv: Driver) -> None:
    waits: dict[str, Callable[[Case, int, Any], object]] = {
        "nobody": lambda case, p, event: None,
        "the stream": lambda case, p, event: drv.call("cuStreamSynchronize", p),
        "the event": lambda case, p, event: drv.call("cuEventSynchronize", event),
        "the context": lambda case, p, event: case.wait(),
        "another stream": lambda case, p, event: drv.call("cuStreamSynchronize", case.stream("N")),
    }
    for who, wait in waits.items():
        case = Case(drv)
        p, event = case.stream("N"), drv.get("cuEventCreate", C.c_void_p, 2)
        case.write(p)
        case.read(p)
        drv.call("cuEventRecord", event, p)
        wait(case, p, event)
        assert case.seen.value == (0 if who in ("nobody", "another stream") else NEW), who
        drv.reset()


@checks.only_on("12.5", "13.0")
def check_events_of_a_whole_context(drv: Driver) -> None:
    for records, waits in ((True, False), (False, True)):
        case = Case(drv)
        p, s = case.stream("N"), case.stream("N")
        event, context = drv.get("cuEventCreate", C.c_void_p, 2), drv.context(0)
        case.close(p)
        case.write(p)
        if records:
            drv.call("cuCtxRecordEvent", context, event)
            drv.call("cuStreamWaitEvent", s, event, 0)
        if waits:
            drv.call("cuEventRecord", event, p)
            drv.call("cuCtxWaitEvent", context, event)
        case.read(s)
        assert case.query(s) == NOT_READY, (records, waits)
        case.gate.value = 1
        assert case.query(s) == 0 and case.seen.value == NEW
        drv.reset()


@checks.only_on("12.2", "12.5", "13.0")
def check_graphs_run_when_they_are_launched(drv: Driver) -> None:
    for ordered in (False, True):
        case = Case(drv)
        p, s = case.stream("N"), case.stream("N")
        graph = C.c_void_p()
        drv.call("cuStreamBeginCapture_v2", p, 0)
        case.edge(p, s)
        case.write(p)
        if ordered:
            case.edge(p, s)
        case.read(s)
        case.edge(s, p)
        drv.call("cuStreamEndCapture", p, C.byref(graph))
        case.wait()
        assert case.seen.value == 0, "a capture runs nothing"
        runnable = drv.get("cuGraphInstantiateWithFlags", C.c_void_p, graph, 0)
        for _ in range(3):
            case.write(1, OLD)
            case.wait()
            drv.call("cuGraphLaunch", runnable, p)
            case.wait()
            assert case.seen.value == (NEW if ordered else OLD)
        drv.call("cuGraphExecDestroy", runnable)
        drv.call("cuGraphDestroy", graph)
        drv.reset()


@checks.only_on("12.2", "12.5", "13.0")
def check_functions_of_the_host_have_their_turn(drv: Driver) -> None:
    case, called = Case(drv), list[int]()
    function = C.CFUNCTYPE(None, C.c_void_p)(lambda argument: called.append(case.seen.value))
    p = case.stream("N")
    case.close(p)
    case.write(p)
    case.read(p)
    drv.call("cuLaunchHostFunc", p, C.cast(function, C.c_void_p), None)
    assert case.query(p) == NOT_READY and not called
    case.gate.value = 1
    drv.call("cuStreamSynchronize", p)
    assert called == [NEW]


@checks.only_on("12.2", "12.5", "13.0")
def check_memory_of_a_pool_is_freed_in_its_turn(drv: Driver) -> None:
    for ordered in (False, True):
        case = Case(drv)
        p, s = case.stream("N"), case.stream("N")
        case.word = drv.get("cuMemAllocAsync", C.c_uint64, 4, p)
        case.write(p)
        drv.call("cuStreamSynchronize", p)
        case.close(s)
        case.read(s)
        if ordered:
            case.edge(s, p)
        drv.call("cuMemFreeAsync", case.word, p)
        assert case.query(p) == (NOT_READY if ordered else 0)
        case.gate.value = 1
        drv.call("cuStreamSynchronize", s)
        assert (case.seen.value == NEW) is ordered
        drv.reset()


def check_memory_of_the_program_is_read_when_the_copy_is_issued(drv: Driver) -> None:
    case, source = Case(drv), C.c_uint32(NEW)
    p = case.stream("N")
    drv.call("cuMemcpyHtoDAsync_v2", case.word, C.addressof(source), 4, p)
    source.value = 1
    case.read(p)
    case.wait()
    assert case.seen.value == NEW


def check_it_ends_with_the_case(drv: Driver) -> None:
    case = Case(drv)
    p = case.stream("N")
    case.close(p)
    drv.reset()
    drv.make_current(0)
    p, word, seen = drv.stream_new(0, False), drv.alloc(4, 0), C.c_uint32()
    drv.call("cuMemsetD32Async", word, NEW, 1, p)
    drv.call("cuMemcpyDtoHAsync_v2", C.addressof(seen), word, 4, p)
    assert seen.value == NEW, "operations run at once again"
    assert drv.cu.cuStreamWaitValue32(p, drv.alloc(4, 0, "pinned"), 1, 0) == NOT_SUPPORTED


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), CUDA_LIVE))
def test_fake_async(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
