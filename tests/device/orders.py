"""Every order in which the driver calls of two threads may come, for some exchanges.

Vector clocks judge one order of calls for all orders of completion (docs/stream_model.rst).  Which
of two threads calls first they cannot say, nor what another thread does while the host waits.  So
here a fake driver gives the threads turns (``Driver.take_turns``), and each exchange runs again
with plan after plan until none is left.

    python -m device.orders --write     # in tests/: writes docs/results/orders.csv
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dlshim
from dlshim import _core
from doubles import capsules as caps
from doubles import device as fake
from doubles import vendors

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results" / "orders.csv"
VARIANTS = ("13.0", "12.2", "hip6")
COMMAND = "python -m device.orders --write, in tests/"
#: The thread's own state, or what does not change as long as its memory and devices live.
APART = {
    "cu": "cuCtxGetCurrent cuCtxSetCurrent cuCtxPushCurrent_v2 cuCtxPopCurrent_v2 cuCtxGetDevice "
    "cuCtxGetId cuThreadExchangeStreamCaptureMode cuPointerGetAttributes cuStreamGetCtx "
    "cuDeviceGet cuDeviceGetAttribute cuDriverGetVersion cuInit cuDevicePrimaryCtxGetState "
    "cuDevicePrimaryCtxRetain cuDevicePrimaryCtxRelease",
    "hip": "hipGetDevice hipSetDevice hipGetLastError hipPointerGetAttributes "
    "hipGetStreamDeviceId hipRuntimeGetVersion hipGetDeviceCount "
    "hipThreadExchangeStreamCaptureMode",
}
QUERIES = {"cuStreamQuery", "cuEventQuery", "hipStreamQuery", "hipEventQuery"}
#: Whether a stream captures changes where somebody captures.
CAPTURES = {
    "cu": " cuStreamIsCapturing cuStreamGetCaptureInfo_v2 cuStreamGetCaptureInfo_v3",
    "hip": " hipStreamIsCapturing hipStreamGetCaptureInfo",
}

Program = Callable[[], object]


@dataclass
class Case:
    """One run: streams P and S of device 0, and what has to hold when all threads have ended."""

    drv: Any
    at_end: list[Callable[[], object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.p = self.stream("P")

    def stream(self, name: str, device: int = 0, **more: Any) -> int:
        return self.drv.stream_new(device, False, name=name, **more)

    def array(self, make: Callable[..., Any], p: int | None = None, **more: Any) -> Any:
        """With unfinished work on P."""
        array = make(self.drv, self.p if p is None else p, **more)
        assert not array.write()
        return array

    def reader(self, source: Any, name: str, device: int = 0) -> Program:
        """A thread that takes the source for a stream of its own, reads on it, and drops it."""
        s = self.stream(name, device)
        return lambda: read_and_drop(self, source.__dlpack__(stream=s, max_version=(1, 0)), s)

    def host_reader(self, source: Any) -> Program:
        """A thread whose CPU reads what it has taken."""

        def run() -> None:
            taken = caps.take(source.__dlpack__(max_version=(1, 0)))
            self.drv.turn()
            self.drv.host_read(taken.view.data, 24)
            taken.release()

        return run

    def held(self, source: Any, name: str) -> Any:
        """An export that is read on a stream already."""
        s = self.stream(name)
        taken = caps.take(source.__dlpack__(stream=s, max_version=(1, 0)))
        self.drv.read(s, taken.view.data, 24)
        return taken


def read_and_drop(case: Case, capsule: Any, s: int) -> None:
    taken = caps.take(capsule)
    case.drv.turn()
    case.drv.read(s, taken.view.data, 24)
    taken.release()


def named(case: Case, **options: Any) -> Any:
    """A Producer whose stream the user has named."""
    return dlshim.upgrade(case.array(fake.RawFn)(), producer_stream=case.p, **options)


def device(case: Case) -> str:
    return f"{vendors.of(case.drv).name}:0"


# ---- the exchanges: two threads each ---------------------------------------------------------

EXCHANGES: dict[str, Callable[[Case], list[Program]]] = {}
#: Exchanges that CUDA alone has, or CUDA from 12.5 on, and those in which a stream captures.
ON_CUDA: set[str] = set()
GUARDS: set[str] = set()
CAPTURING: set[str] = set()


def exchange(text: str, *kinds: set[str]) -> Callable[[Any], Any]:
    def register(make: Callable[[Case], list[Program]]) -> Any:
        EXCHANGES[text] = make
        for kind in kinds:
            kind.add(text)
        return make

    return register


@exchange("one array to two streams")
def _(case: Case) -> list[Program]:
    source = named(case)
    return [case.reader(source, "A"), case.reader(source, "B")]


@exchange("arrays whose stream nobody knows")
def _(case: Case) -> list[Program]:
    arrays = [dlshim.upgrade(case.array(fake.NoKw)) for _ in "AB"]
    return [case.reader(array, name) for array, name in zip(arrays, "AB", strict=True)]


@exchange("managed memory, read by the host and on a stream", ON_CUDA)
def _(case: Case) -> list[Program]:
    source = dlshim.upgrade(case.array(fake.NoKw, kind="managed"), producer_stream=case.p)
    return [case.host_reader(source), case.reader(source, "B")]


@exchange("pinned memory, read by the host and copied to the device")
def _(case: Case) -> list[Program]:
    array = case.array(fake.NoKw, kind="pinned")
    copied = dlshim.upgrade(array, producer_stream=case.p, device=device(case))
    return [
        case.host_reader(dlshim.upgrade(array, producer_stream=case.p)),
        case.reader(copied, "B"),
    ]


@exchange("a copy to the host, and an export")
def _(case: Case) -> list[Program]:
    array = case.array(fake.NoKw)
    to_host = dlshim.upgrade(array, producer_stream=case.p, device="cpu")
    on_device = dlshim.upgrade(array, producer_stream=case.p)
    return [case.host_reader(to_host), case.reader(on_device, "B")]


@exchange("a copy on the device, made and dropped, and an export")
def _(case: Case) -> list[Program]:
    return [case.reader(named(case, copy=True), "A"), case.reader(named(case), "B")]


@exchange("a copy of the host's memory to the device, and the end of another copy")
def _(case: Case) -> list[Program]:
    drop = case.held(named(case, copy=True), "C")
    host = (caps.C.c_float * 6)(*range(6))
    array = caps.make(shape=(6,), dtype="float32", memory=host)
    source = dlshim.upgrade(array, device=device(case))
    return [case.reader(source, "A"), drop.release]


@exchange("a guarded array that is written again when it is dropped, and an export", GUARDS)
def _(case: Case) -> list[Program]:
    guarded = case.array(fake.NoKw, rewrites=True)
    producer = dlshim.upgrade(guarded, producer_stream=case.p, on_release="guard")
    drop = case.held(producer, "C")
    return [drop.release, case.reader(named(case), "B")]


@exchange("two guarded exports of one array, dropped, and its memory written again", GUARDS)
def _(case: Case) -> list[Program]:
    array = case.array(fake.NoKw)
    source = dlshim.upgrade(array, producer_stream=case.p, on_release="guard")
    first = case.held(source, "C")
    case.at_end.append(array.write)
    return [first.release, case.reader(source, "B")]


@exchange("a capture in one thread, a copy in the other", CAPTURING)
def _(case: Case) -> list[Program]:
    captured, source = case.stream("C"), named(case, copy=True)

    def capture() -> None:
        case.drv.turn()
        case.drv.capture_begin(captured)
        case.drv.turn()
        case.drv.capture_end(captured)

    return [capture, case.reader(source, "B")]


@exchange("a context that was not used before", ON_CUDA)
def _(case: Case) -> list[Program]:
    where = {"context": case.drv.context_new(0)}
    p = case.stream("Q", **where)
    source = dlshim.upgrade(case.array(fake.NoKw, p, **where), producer_stream=p)
    return [case.reader(source, "A"), case.reader(source, "B")]


@exchange("two devices, whose streams nobody knows")
def _(case: Case) -> list[Program]:
    second = case.array(fake.NoKw, case.stream("Q", 1), device=1)
    first = dlshim.upgrade(case.array(fake.NoKw))
    return [case.reader(first, "A"), case.reader(dlshim.upgrade(second), "B", 1)]


@exchange("a library that makes its edges itself, and one that makes none")
def _(case: Case) -> list[Program]:
    modern = dlshim.upgrade(case.array(fake.named(fake.CupyLike)))
    return [case.reader(modern, "A"), case.reader(named(case), "B")]


# ---- every order ------------------------------------------------------------------------------


def plans(run: Callable[[bytes], list[tuple[int, int]]]) -> Iterator[list[tuple[int, int]]]:
    """The turns of every run, until every choice was made once: depth first, the first first."""
    plan: list[int] = []
    while True:
        turns = run(bytes(plan))
        assert [chosen for chosen, _ in turns[: len(plan)]] == plan, "the runs differ by themselves"
        yield turns
        while turns and turns[-1][0] + 1 == turns[-1][1]:
            turns.pop()
        if not turns:
            return
        plan = [chosen for chosen, _ in turns[:-1]] + [turns[-1][0] + 1]


@dataclass
class Found:
    """How many orders there are, the most turns of one, and the first that is wrong."""

    orders: int = 0
    turns: int = 0
    wrong: int = 0
    example: str = ""


def explore(
    drv: Any,
    make: Callable[[Case], list[Program]],
    apart: str = "",
    most: int | None = None,
) -> Found:
    """Every order of an exchange, or the first of them."""
    found = Found()
    faults: list[str] = []

    def run(plan: bytes) -> list[tuple[int, int]]:
        drv.reset()
        drv.make_current(0)
        case = Case(drv)
        programs = make(case)
        events = drv.live_events()
        drv.clear_log()
        turns = drv.take_turns(programs, plan, apart)
        for check in case.at_end:
            check()
        faults[:] = [*drv.races(), *drv.marks()]
        if held := drv.gil_held_calls(every=True):
            faults.append(f"called with the GIL: {held}")
        if asked := QUERIES & drv.counts().keys():
            faults.append(f"asks how far the device is, which no order here says: {asked}")
        if drv.live_events() > events + 1:
            faults.append(f"{drv.live_events() - events} events more")
        case.at_end.clear()
        del case, programs
        caps.close_accounts()
        return turns

    _core._hook("event_pool", 1)  # events pass from thread to thread
    gc.collect()
    gc.disable()
    try:
        run(b"")  # what is made once is made
        for turns in plans(run):
            found.orders += 1
            found.turns = max(found.turns, len(turns))
            found.wrong += bool(faults)
            if faults and not found.example:
                order = "".join(str(chosen) for chosen, _ in turns)
                found.example = f"in the order {order}: {faults[0]}"
            if found.orders == most:
                break
    finally:
        gc.enable()
        _core._hook("event_pool", 64)
    return found


def found_of(drv: Any, name: str, most: int | None = None) -> Found | None:
    """None: the vendor has no such exchange."""
    prefix = vendors.of(drv).prefix
    if (name in ON_CUDA and prefix == "hip") or (
        name in GUARDS and not drv.has("cuCtxRecordEvent")
    ):
        return None
    apart = APART[prefix] + ("" if name in CAPTURING else CAPTURES[prefix])
    return explore(drv, EXCHANGES[name], apart, most)


PRINT = """
from device import orders
for name in orders.EXCHANGES:
    found = orders.found_of(drv, name)
    if found:
        print(arguments[0], f'"{name}"', found.turns, found.orders, found.wrong, sep=",")
        if found.wrong:
            print(found.example, file=sys.stderr)
"""


if __name__ == "__main__":
    from drivers import run_with_driver

    rows = "".join(run_with_driver(variant, PRINT, variant, timeout=1800) for variant in VARIANTS)
    text = "driver,exchange,turns,orders,wrong\n" + rows
    if "--write" in sys.argv:
        RESULTS.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
