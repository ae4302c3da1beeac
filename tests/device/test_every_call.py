"""Every function of the driver's table fails at every call, in every journey, with several codes.

The functions are those of ``src/abi``: one that no journey reaches fails the test.  Whatever
happens is an error that names the code, or the exchange goes through and is synchronised; what was
current is current again, events and memory are given back, and the next journey works.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from project.tree import driver_calls

import dlshim
from device import libraries
from dlshim import _core
from doubles import capsules as caps
from doubles import child, vendors
from doubles.arrow_device import PylibcudfColumn
from doubles.ctable import Table
from doubles.producers import P2
from drivers import HIP_VARIANTS, built, checks, run_checks

CUDA = ("9.2", "13.0")
HIP = ("hip5", "hip7")
#: What a driver answers of the program, of a handle and of a capture.
CODES = (700, 400, 900)
#: Called once in a process, when the driver is found and a primary context is first needed.
ONCE = {
    "cuInit",
    "cuDriverGetVersion",
    "cuDevicePrimaryCtxRetain",
    "hipRuntimeGetVersion",
}
#: Where a code is no failure: hipGetLastError answers the last error of others too.
ANSWERS = {"cuGetErrorName", "hipGetErrorName", "hipGetLastError", "hipGetStreamDeviceId"}
#: Where one of them fails at the end of a copy, its memory cannot be given back.
AT_THE_END = {
    *("cuCtxGetId", "cuCtxPushCurrent_v2", "cuMemFree_v2", "cuMemFreeAsync"),
    *("hipGetDevice", "hipSetDevice", "hipFree"),
}
#: Nobody could make the context current again for them.
LEFT = {"cuCtxPopCurrent_v2": 1}


class Journey(NamedTuple):
    """An array of this producer, and what is done with it."""

    producer: str
    go: Callable[[Trial], Any]
    device: int = 0
    fields: dict[str, Any] = {}
    nothing_current: bool = False
    new_context: bool = False
    capture: bool = False
    pools: bool = True


class Trial:
    """One journey, once, with at most one call that fails."""

    def __init__(self, drv: Any, journey: Journey) -> None:
        self.drv, self.journey, self.vendor = drv, journey, vendors.of(drv)
        drv.reset()
        drv.make_current(0)
        if not journey.pools:
            drv.option("memory_pools", 0)
        owner = {}
        if journey.new_context and not self.vendor.is_hip:
            owner = {"context": drv.context_new(journey.device)}
        self.context = owner.get("context") or drv.context(journey.device)
        self.p = drv.stream_new(journey.device, False, name="P", **owner)
        self.s = drv.stream_new(journey.device, False, name="S", **owner)
        if journey.producer == "host":
            self.array = P2()
        else:
            make = libraries.of(drv).make[journey.producer]
            self.array = make(drv, self.p, device=journey.device, **journey.fields, **owner)
            assert not self.array.write()
        if journey.capture:
            for stream in (self.p, self.s):
                drv.capture_begin(stream, "relaxed")
        if journey.nothing_current:
            drv.make_current(None)
        self.current, self.events = self.drv.now_current(), drv.live_events()
        self.memory = drv.live_memory()
        self.live = _core._counters()["live"]
        self.result: Any = None
        self.held: Any = None
        self.error: BaseException | None = None
        drv.clear_log()

    def upgraded(self, **options: Any) -> Any:
        numbers = {"here": self.journey.device, "other": 1 - self.journey.device}
        if options.get("device") in numbers:
            options["device"] = (self.vendor.device_type, numbers[options["device"]])
        if self.journey.producer == "host":
            return dlshim.upgrade(self.array, **options)
        # A capsule that dies while an exception is pending would hide it.
        self.held = libraries.source_of(self.journey.producer, self.array)
        return dlshim.upgrade(self.held, **options)

    def run(self) -> None:
        try:
            self.result = self.journey.go(self)
        except Exception as error:
            self.error = error

    def calls(self) -> list[str]:
        return [e.name for e in self.drv.entries() if not e.is_mark and not e.by]

    def end(self, told: Any, spare_events: int, popped: bool = True, freed: bool = True) -> None:
        drv = self.drv
        self.result = self.held = self.error = None
        gc.collect(0)
        assert not freed or drv.live_memory() <= self.memory, (told, drv.live_memory())
        assert not popped or self.drv.now_current() == self.current, (told, self.drv.now_current())
        assert drv.live_events() <= self.events + spare_events, (told, drv.live_events())
        assert not drv.gil_held_calls(every=True), told
        wrong = caps.accounts()
        assert not wrong, (told, wrong)
        caps.close_accounts()
        assert _core._counters()["live"] == self.live, told


def exported(*, stream: bool = True, **options: Any) -> Callable[[Trial], Any]:
    def go(trial: Trial) -> Any:
        given = {name: trial.p if value == "P" else value for name, value in options.items()}
        return trial.upgraded(**given).__dlpack__(**({"stream": trial.s} if stream else {}))

    return go


def released(trial: Trial) -> None:
    """The deleter synchronises, where the driver can."""
    guarded = trial.upgraded(on_release="guard", producer_stream=trial.p)
    capsule = guarded.__dlpack__(stream=trial.s, max_version=(1, 0))
    caps.take(capsule).release()


def copied_and_dropped(trial: Trial) -> None:
    caps.take(trial.upgraded(device="here").__dlpack__(stream=trial.s)).release()


def through_the_table(trial: Trial) -> Any:
    source = trial.upgraded()
    table = Table(dlshim.Producer)
    kept = table.owned(source), table.borrow(source)
    table.stream((trial.vendor.device_type, trial.journey.device))
    return kept, source


def refused(trial: Trial) -> Any:
    """The driver's own name of its error is asked for."""
    trial.drv.fail_next(trial.vendor.record, 719)
    try:
        return exported(producer_stream="P")(trial)
    except RuntimeError as error:
        if "719" not in str(error):
            raise
        return None


def to_tensor(trial: Trial) -> Any:
    tensor = dlshim.from_dlpack(trial.upgraded(producer_stream=trial.p), stream=trial.s)
    return tensor, tensor.__dlpack__(stream=trial.p)


COMMON = {
    "edge": Journey("no keyword", exported(producer_stream="P")),
    "another device": Journey("capsule", exported(producer_stream="P"), device=1),
    "whole device": Journey("capsule", exported()),
    "whole device, another": Journey("no keyword", exported(), device=1),
    "interface": Journey("cai 2", exported()),
    "interface, P": Journey("cai 3", exported(), device=1),
    "copy": Journey("no keyword", exported(device="cpu", stream=False)),
    "copy, P": Journey("capsule", exported(device="cpu", stream=False, producer_stream="P")),
    "copy, another device": Journey("capsule", exported(device="cpu", stream=False), device=1),
    "copy, pitched": Journey(
        "no keyword", exported(device="cpu", stream=False), fields={"strides": (8, 1)}
    ),
    "to a device": Journey("host", exported(device="here", stream=False)),
    "to a device, S": Journey("host", exported(device="here"), device=1),
    "to a device, dropped": Journey("host", copied_and_dropped),
    "from device to device": Journey("no keyword", exported(device="other", producer_stream="P")),
    "from device to device, pitched": Journey(
        "no keyword", exported(device="other", stream=False), fields={"strides": (8, 1)}
    ),
    "copied": Journey("no keyword", exported(copy=True, producer_stream="P"), device=1),
    "copied, pitched": Journey("no keyword", exported(copy=True), fields={"strides": (8, 1)}),
    "graph": Journey("capsule", exported(producer_stream="P"), capture=True),
    "release": Journey("no keyword", released),
    "work stream": Journey("capsule", through_the_table, device=1),
    "Tensor": Journey("capsule", to_tensor),
    "refused": Journey("capsule", refused),
}
OF_CUDA = {
    "pool": Journey("capsule", exported(), fields={"kind": "pool"}),
    "without pools": Journey("host", copied_and_dropped, pools=False),
    "managed": Journey("no keyword", exported(stream=False), fields={"kind": "managed"}),
    "pinned": Journey("cai 3", exported(stream=False), fields={"kind": "pinned"}),
    "interface, nothing current": Journey("cai 2", exported(), nothing_current=True),
    "new context": Journey("capsule", exported(producer_stream="P"), new_context=True),
    "new context, copy": Journey(
        "capsule", exported(device="cpu", stream=False, producer_stream="P"), new_context=True
    ),
}


def journeys(drv: Any) -> dict[str, Journey]:
    dropped = {"release"} if vendors.of(drv).is_hip else set()  # "guard" is CUDA's
    chosen = COMMON if vendors.of(drv).is_hip else COMMON | OF_CUDA
    return {name: journey for name, journey in chosen.items() if name not in dropped}


def usual(drv: Any, name: str) -> tuple[list[str], type | None, set[str]]:
    """The calls of a journey without a failure, how it ends, and all functions that were called,
    also those that are not logged."""
    trial = Trial(drv, journeys(drv)[name])
    trial.run()
    calls, kind = trial.calls(), type(trial.error) if trial.error else None
    reached = {function for function, count in drv.counts().items() if count}
    trial.end(name, spare_events=1)
    return calls, kind, reached


def failures(drv: Any, name: str) -> Iterator[tuple[str, int, int]]:
    seen: dict[str, int] = {}
    for function in usual(drv, name)[0]:
        skip = seen.get(function, 0)
        seen[function] = skip + 1
        if function not in ANSWERS:
            for code in CODES:
                yield function, skip, code


def try_one(drv: Any, name: str, function: str, skip: int, code: int, wanted: Any) -> bool:
    """Whether the failure was told."""
    trial = Trial(drv, journeys(drv)[name])
    drv.fail_next(function, code, skip)
    trial.run()
    error = trial.error
    told = (name, function, skip, code, repr(error))
    if error is not None and type(error) is not wanted:
        assert type(error) in (BufferError, RuntimeError), told
        # What a question did not answer is not known; the text then says what would help.
        asked = function in trial.vendor.queries
        assert str(code) in str(error) or asked, told
    showed = error is not None
    del error
    if name == "release" and code == 900:
        trial.run()  # memory that waits for a capture is given back with the next
    # The event of an edge that failed is replaced; where no id was told, a pool is not found.
    spare = 3 if function == "cuCtxGetId" else 1
    back = function in LEFT or (function == "hipSetDevice" and skip > 0)
    freed = function not in AT_THE_END and code != 900  # such memory waits
    trial.end(told, spare, popped=not back, freed=freed)
    trial = Trial(drv, journeys(drv)[name])
    trial.run()
    assert (type(trial.error) if trial.error else None) is wanted, (told, "next", trial.error)
    trial.end((told, "the next"), spare)
    return showed


def of_a_column(drv: Any) -> set[str]:
    """What is called for a column of Arrow; test_arrow_events.py has these calls fail."""
    drv.reset()
    drv.make_current(0)
    dlshim.to_capsule(PylibcudfColumn(drv, drv.stream_new(0, False)), max_version=(1, 0))
    return {function for function, count in drv.counts().items() if count}


def check_every_function_is_reached(drv: Any) -> None:
    reached = of_a_column(drv)
    for name in journeys(drv):
        for _ in range(2):
            reached |= usual(drv, name)[2]
    vendor = "hip" if vendors.of(drv).is_hip else "cuda"
    there = {function for function in driver_calls(vendor) if drv.has(function)}
    assert there - reached <= ONCE, there - reached - ONCE


def check_every_call_may_fail(drv: Any) -> None:
    told: set[str] = set()
    tried = 0
    for name in journeys(drv):
        usual(drv, name)
        wanted = usual(drv, name)[1]
        for function, skip, code in failures(drv, name):
            tried += 1
            if try_one(drv, name, function, skip, code, wanted):
                told.add(function)
    assert tried > 200 and len(told) >= 6, (tried, told)


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), (*CUDA, *HIP)))
def test_every_call(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]


# --- the first exchange of a process --------------------------------------------------


@pytest.mark.parametrize("code", [100, 700])
@pytest.mark.parametrize("function", sorted(ONCE))
def test_a_call_that_fails_in_the_first_exchange(function: str, code: int) -> None:
    """A driver that does not start stays refused, as it says; everything else is tried again."""
    variant = "hip7" if function.startswith("hip") else "13.0"
    assert variant in HIP_VARIANTS or function.startswith("cu")
    out = child.program("call_that_fails_first", built(variant), function, code)
    if function == "cuInit":
        assert "first True again True" in out and str(code) in out
    else:
        assert "again False" in out
