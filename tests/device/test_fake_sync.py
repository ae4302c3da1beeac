"""What the fake drivers call synced: the table of every action, cell by cell, and finer rules.

Whoever reads without a sync here would read stale data on a device; whoever is refused
where the streams are synced would cost people time.  So both dots and crosses are demanded.
"""

from __future__ import annotations

import ctypes as C
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from doubles import vendors
from doubles.vendors import edge, new_event
from drivers import ALL_LIVE, Driver, checks, run_checks
from drivers.prototypes import Memcpy2D, Memcpy3D

KINDS = ("L", "PTDS", "blocking", "non-blocking")

# For a producer on each of KINDS, whether a consumer on each of KINDS is synced (dot) or not.
READS = """
    nothing                   ...X  ..XX  .XXX  XXXX
    edge(P->S)                ....  ....  ....  ....
    edge(L->S)                ....  ....  ....  XXXX
    sync(P)                   ....  ....  ....  ....
    sync(L)                   ....  ....  ....  XXXX
    sync(device)              ....  ....  ....  ....
    cuCtxRecordEvent->S       ....  ....  ....  ....
"""
# The producer writes again after the consumer, which was synced, has read.
OVERWRITES = """
    nothing                   ...X  ..XX  .XXX  XXXX
    edge(S->P)                ....  ....  ....  ....
    sync(S)                   ....  ....  ....  ....
"""


def stream_of(drv: Any, kind: str, name: str) -> int:
    short = {"blocking": "B", "non-blocking": "N"}.get(kind, kind)
    return vendors.of(drv).stream(drv, short, name=name)


def context_edge(drv: Any, s: int) -> None:
    event = new_event(drv)
    drv.call("cuCtxRecordEvent", drv.context(0), event)
    drv.call("cuStreamWaitEvent", s, event, 0)


def sync(drv: Any, stream: int | None = None) -> None:
    """The host waits for a stream, or for the current device."""
    vendor = vendors.of(drv)
    if stream is None:
        drv.call(vendor.device_sync)
    else:
        drv.call(vendor.stream_sync, stream)


ACTIONS: dict[str, Callable[[Any, int, int], None]] = {
    "nothing": lambda drv, p, s: None,
    "edge(P->S)": edge,
    "edge(S->P)": lambda drv, p, s: edge(drv, s, p),
    "edge(L->S)": lambda drv, p, s: edge(drv, vendors.of(drv).legacy, s),
    "sync(P)": lambda drv, p, s: sync(drv, p),
    "sync(S)": lambda drv, p, s: sync(drv, s),
    "sync(L)": lambda drv, p, s: sync(drv, vendors.of(drv).legacy),
    "sync(device)": lambda drv, p, s: sync(drv),
    "cuCtxRecordEvent->S": lambda drv, p, s: context_edge(drv, s),
}


def rows(table: str) -> Iterator[tuple[str, str]]:
    for line in table.strip().splitlines():
        action, cells = line.split(maxsplit=1)
        yield action, cells


def read_cell(drv: Any, action: str, producer: str, consumer: str) -> str:
    drv.reset()
    drv.make_current(0)
    p, s = stream_of(drv, producer, "P"), stream_of(drv, consumer, "S")
    memory = drv.alloc(64)
    assert not drv.write(p, memory)
    ACTIONS[action](drv, p, s)
    racy = drv.read(s, memory)
    assert bool(drv.races()) == racy
    return "X" if racy else "."


def overwrite_cell(drv: Any, action: str, producer: str, consumer: str) -> str:
    drv.reset()
    drv.make_current(0)
    p, s = stream_of(drv, producer, "P"), stream_of(drv, consumer, "S")
    memory = drv.alloc(64)
    assert not drv.write(p, memory)
    edge(drv, p, s)
    assert not drv.read(s, memory)
    ACTIONS[action](drv, p, s)
    return "X" if drv.write(p, memory) else "."


def check_the_table_of_reads(drv: Any) -> None:
    for action, wanted in rows(READS):
        if action == "cuCtxRecordEvent->S" and not drv.has("cuCtxRecordEvent"):
            continue
        found = "  ".join("".join(read_cell(drv, action, p, s) for s in KINDS) for p in KINDS)
        assert found == wanted, action


def check_the_table_of_overwrites(drv: Any) -> None:
    for action, wanted in rows(OVERWRITES):
        found = "  ".join("".join(overwrite_cell(drv, action, p, s) for s in KINDS) for p in KINDS)
        assert found == wanted, action


def streams_of(drv: Any, *blocking: bool) -> list[int]:
    drv.make_current(0)
    return [drv.stream_new(0, b, name=n) for b, n in zip(blocking, "ABC", strict=False)]


def check_a_wait_sees_the_last_record_and_no_later_one(drv: Any) -> None:
    p, s = streams_of(drv, False, False)
    first, second = drv.alloc(8), drv.alloc(8)
    event = new_event(drv)
    drv.write(p, first)
    drv.call(vendors.of(drv).record, event, p)
    drv.write(p, second)
    drv.call(vendors.of(drv).wait, s, event, 0)
    drv.call(vendors.of(drv).record, event, p)
    assert not drv.read(s, first)
    assert drv.read(s, second), "recorded after the wait"


def check_a_record_forgets_the_one_before(drv: Any) -> None:
    p, q, s = streams_of(drv, False, False, False)
    memory = drv.alloc(8)
    event = new_event(drv)
    drv.write(p, memory)
    drv.call(vendors.of(drv).record, event, p)
    drv.call(vendors.of(drv).record, event, q)
    drv.call(vendors.of(drv).wait, s, event, 0)
    assert drv.read(s, memory)


def check_an_event_never_recorded_syncs_nothing(drv: Any) -> None:
    p, s = streams_of(drv, False, False)
    memory = drv.alloc(8)
    drv.write(p, memory)
    drv.call(vendors.of(drv).wait, s, new_event(drv), 0)
    assert drv.read(s, memory)


def check_syncs_add_up(drv: Any) -> None:
    a, b, c = streams_of(drv, False, False, False)
    memory = drv.alloc(8)
    drv.write(a, memory)
    edge(drv, a, b)
    edge(drv, b, c)
    assert not drv.read(c, memory)


def check_the_legacy_stream_takes_part_only_when_it_is_used(drv: Any) -> None:
    """Two blocking streams are synced by work on L between them, and not by L's being there."""
    for use_it in (False, True):
        drv.reset()
        a, b = streams_of(drv, True, True)
        memory, other = drv.alloc(8), drv.alloc(8)
        drv.write(a, memory)
        if use_it:
            drv.write(vendors.of(drv).legacy, other)
        assert drv.read(b, memory) is not use_it


def check_a_wait_on_the_legacy_stream_holds_blocking_streams_back(drv: Any) -> None:
    p, b, n = streams_of(drv, False, True, False)
    memory = drv.alloc(8)
    drv.write(p, memory)
    edge(drv, p, vendors.of(drv).legacy)
    assert not drv.read(b, memory)
    assert drv.read(n, memory)


@checks.on_cuda
def check_every_context_has_its_own_legacy_stream(drv: Driver) -> None:
    first, second = drv.context(0), drv.context_new(0)
    memory = drv.alloc(8)
    drv.write(1, memory)
    assert drv.read(1, memory, context=second)
    assert not drv.read(1, memory, context=first)


def check_devices_are_apart_and_events_cross_them(drv: Any) -> None:
    p = drv.stream_new(0, True, name="P")
    s = drv.stream_new(1, True, name="S")
    memory = drv.alloc(8)
    drv.write(p, memory)
    drv.make_current(1)
    sync(drv)
    assert drv.read(s, memory), "another device was waited for"
    drv.make_current(0)
    edge(drv, p, s)
    assert not drv.read(s, memory)


def check_the_per_thread_stream_is_another_in_another_thread(drv: Any) -> None:
    memory = drv.alloc(8)
    seen: list[bool] = []
    drv.write(2, memory)
    thread = threading.Thread(target=lambda: seen.append(drv.read(2, memory)))
    thread.start()
    thread.join()
    assert seen == [True]
    assert not drv.read(2, memory)


@checks.only_on("12.5", "13.0")
def check_a_context_can_wait(drv: Driver) -> None:
    p, s = streams_of(drv, False, False)
    memory = drv.alloc(8)
    drv.write(p, memory)
    event = new_event(drv)
    drv.call(vendors.of(drv).record, event, p)
    drv.call("cuCtxWaitEvent", drv.context(0), event)
    assert not drv.read(s, memory)
    assert not drv.read(drv.stream_new(0, False), memory), "streams made later wait too"


def check_an_event_that_was_waited_for_syncs_the_host(drv: Any) -> None:
    (p,) = streams_of(drv, False)
    prefix = vendors.of(drv).prefix
    for call in (f"{prefix}EventSynchronize", f"{prefix}EventQuery"):
        memory = drv.alloc(8, kind="managed")
        event = new_event(drv)
        drv.write(p, memory)
        drv.call(vendors.of(drv).record, event, p)
        assert drv.host_read(memory)
        drv.call(call, event)
        assert not drv.host_read(memory)


def check_queries_can_be_made_to_answer_not_ready(drv: Any) -> None:
    (p,) = streams_of(drv, False)
    event = new_event(drv)
    memory = drv.alloc(8, kind="pinned")
    drv.write(p, memory)
    drv.call(vendors.of(drv).record, event, p)
    drv.option("not_ready", 2)
    prefix = vendors.of(drv).prefix
    events, asked = (getattr(drv.cu, f"{prefix}{what}Query") for what in ("Event", "Stream"))
    assert [events(event) for _ in range(3)] == [600, 600, 0]
    drv.option("not_ready", 1)
    assert [asked(p) for _ in range(2)] == [600, 0]


def check_the_host_and_its_memory(drv: Any) -> None:
    (p,) = streams_of(drv, False)
    for kind in ("managed", "pinned"):
        memory = drv.alloc(8, kind=kind)
        drv.write(p, memory)
        assert drv.host_read(memory)
        sync(drv, p)
        assert not drv.host_read(memory)
        assert not drv.host_write(memory)
        assert not drv.read(p, memory), "work comes after what the host did before"
        assert drv.host_write(memory), "the stream may still be reading"


def check_reads_side_by_side_are_no_race(drv: Any) -> None:
    p, s, t = streams_of(drv, False, False, False)
    memory = drv.alloc(8)
    drv.write(p, memory)
    edge(drv, p, s)
    edge(drv, p, t)
    assert not drv.read(s, memory) and not drv.read(t, memory)
    edge(drv, s, p)
    assert drv.write(p, memory), "t may still be reading"
    assert drv.races() == ["write of m1 on A does not come after the read on C"]


# --- copies -----------------------------------------------------------------------------


@checks.on_cuda
def check_a_copy_to_the_host_must_be_waited_for(drv: Driver) -> None:
    (p,) = streams_of(drv, False)
    memory = drv.alloc(16)
    drv.put(memory, bytes(range(16)))
    drv.write(p, memory)
    block = (C.c_char * 16)()
    target = C.addressof(block)
    drv.call("cuMemcpyDtoHAsync_v2", target, memory, 16, p)
    assert bytes(block) == bytes(range(16))
    assert drv.host_read(target) and drv.host_read(target + 15)
    assert "read of host memory on the host" in drv.races()[0]
    drv.call("cuStreamSynchronize", p)
    assert not drv.host_read(target)
    drv.call("cuMemcpyDtoH_v2", target, memory, 16)
    assert not drv.host_read(target), "this one waits"


@checks.on_cuda
def check_a_copy_reads_and_writes_as_a_kernel_does(drv: Driver) -> None:
    p, s = streams_of(drv, False, False)
    one, other = drv.alloc(16), drv.alloc(16)
    drv.write(p, one)
    drv.call("cuMemcpyDtoDAsync_v2", other, one, 16, s)
    assert drv.races() == ["read of m1 on B does not come after the write on A"]
    assert drv.read(p, other)
    assert drv.write(p, one)
    assert drv.bytes_at(other, 16) == b"\xa5" * 16


@checks.on_cuda
def check_a_copy_to_the_device_is_only_staged(drv: Driver) -> None:
    p, b = streams_of(drv, False, True)
    memory = drv.alloc(4)
    block = C.create_string_buffer(b"abcd", 4)
    drv.call("cuMemcpyHtoD_v2", memory, C.addressof(block), 4)
    assert drv.bytes_at(memory, 4) == b"abcd"
    assert not drv.read(b, memory)
    assert drv.read(p, memory), "a stream that does not wait for L"
    pinned = drv.alloc(4, kind="pinned")
    drv.call("cuMemcpyHtoD_v2", memory, pinned, 4)
    assert not drv.read(p, memory), "from pinned memory it was waited for"


@checks.on_cuda
def check_fills(drv: Driver) -> None:
    p, s = streams_of(drv, False, False)
    memory = drv.alloc(16)
    drv.call("cuMemsetD8Async", memory, 7, 16, p)
    assert drv.bytes_at(memory, 16) == b"\7" * 16
    drv.call("cuMemsetD16Async", memory, 0x0102, 8, p)
    assert drv.bytes_at(memory, 16) == b"\2\1" * 8
    drv.call("cuMemsetD32Async", memory, 42, 4, p)
    assert drv.bytes_at(memory, 16) == (42).to_bytes(4, "little") * 4
    assert drv.read(s, memory)
    assert drv.cu.cuMemsetD32Async(memory, 42, 5, p) == 1, "behind the end"


@checks.on_cuda
def check_pitched_copies(drv: Driver) -> None:
    (p,) = streams_of(drv, False)
    memory = drv.alloc(64)
    drv.put(memory, bytes(range(64)))
    block = (C.c_ubyte * 64)()
    box = Memcpy2D(
        srcMemoryType=2, srcDevice=memory, srcPitch=16, srcXInBytes=2, srcY=1,
        dstMemoryType=1, dstHost=C.addressof(block), dstPitch=4, WidthInBytes=4, Height=3,
    )  # fmt: skip
    drv.call("cuMemcpy2DAsync_v2", C.byref(box), p)
    wanted = [16 * row + 2 + k for row in (1, 2, 3) for k in range(4)]
    assert list(block[:12]) == wanted
    assert drv.host_read(C.addressof(block) + 11)
    for wrong in ({"srcPitch": 5}, {"srcY": 3}, {"srcMemoryType": 7}, {"dstPitch": 2**31}):
        broken = Memcpy2D.from_buffer_copy(box)
        for field, value in wrong.items():
            setattr(broken, field, value)
        assert drv.cu.cuMemcpy2DAsync_v2(C.byref(broken), p) in (1, 801), wrong


@checks.on_cuda
def check_copies_of_boxes(drv: Driver) -> None:
    (p,) = streams_of(drv, False)
    memory = drv.alloc(64)
    drv.put(memory, bytes(range(64)))
    block = (C.c_ubyte * 64)()
    box = Memcpy3D(
        srcMemoryType=2, srcDevice=memory, srcPitch=8, srcHeight=4, srcXInBytes=1, srcY=1, srcZ=0,
        dstMemoryType=1, dstHost=C.addressof(block), dstPitch=2, dstHeight=2,
        WidthInBytes=2, Height=2, Depth=2,
    )  # fmt: skip
    drv.call("cuMemcpy3DAsync_v2", C.byref(box), p)
    wanted = [32 * z + 8 * y + x for z in (0, 1) for y in (1, 2) for x in (1, 2)]
    assert list(block[:8]) == wanted


@checks.on_cuda
def check_a_copy_on_another_devices_stream_is_noted(drv: Driver) -> None:
    drv.set_current(drv.context(1))
    s = drv.stream_new(1, False, name="S")
    memory = drv.alloc(8, device=0)
    block = (C.c_char * 8)()
    drv.call("cuMemcpyDtoHAsync_v2", C.addressof(block), memory, 8, s)
    assert drv.marks("PEER") == ["PEER m1 stream=S"]


@checks.on_cuda
def check_copies_want_memory_that_is_known_and_the_streams_context(drv: Driver) -> None:
    (p,) = streams_of(drv, False)
    block = (C.c_char * 64)()
    host, memory = C.addressof(block), drv.alloc(8)
    assert drv.cu.cuMemcpyDtoHAsync_v2(host, host + 32, 8, p) == 1
    assert drv.cu.cuMemcpyDtoHAsync_v2(host, memory, 9, p) == 1
    assert drv.cu.cuMemcpyHtoDAsync_v2(memory + 4, host, 8, p) == 1
    drv.set_current(drv.context(1))
    assert drv.cu.cuMemcpyDtoHAsync_v2(host, memory, 8, p) == 400
    drv.set_current(None)
    assert drv.cu.cuMemcpyDtoHAsync_v2(host, memory, 8, p) == 201
    drv.free(memory)
    drv.set_current(drv.context(0))
    assert drv.cu.cuMemcpyDtoHAsync_v2(host, memory, 8, p) == 1, "freed"
    assert drv.bytes_at(memory, 8) == b"\xdd" * 8


@checks.on_cuda
def check_freeing_waits_and_freeing_in_a_streams_turn_does_not(drv: Driver) -> None:
    (p,) = streams_of(drv, False)
    memory = drv.get("cuMemAlloc_v2", C.c_uint64, 8)
    drv.write(p, memory)
    drv.call("cuMemFree_v2", memory)
    assert not drv.races()
    if drv.has("cuMemAllocAsync"):
        (s,) = streams_of(drv, False)
        memory = drv.get("cuMemAllocAsync", C.c_uint64, 8, p)
        edge(drv, p, s)
        drv.read(s, memory)
        drv.call("cuMemFreeAsync", memory, p)
        assert drv.races() == ["write of m2 on A does not come after the read on A"]


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), ALL_LIVE))
def test_sync(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
