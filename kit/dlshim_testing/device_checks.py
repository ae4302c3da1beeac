"""What is checked of a producer of device memory, beside a fake driver that judges the order.

The fake driver is named with ``--dlpack-driver``; without one, and for arrays of the host, these
checks do not apply.  What the producer has in flight is a write that the check puts on the stream
of ``Producer(work_stream=...)``; whether the consumer's stream comes after it is told by clocks.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from . import drivers
from .catalogue import NotApplicable, check, insist
from .doubles import capsules as caps
from .exports import ASKS, all_asked, answers, asked, device_of, view_of
from .partner import Producer, said

SYNCS = (
    "EventRecord", "StreamWaitEvent", "EventSynchronize", "StreamSynchronize", "CtxSynchronize",
    "DeviceSynchronize",
)  # fmt: skip


class Vendor(NamedTuple):
    """What the standard says of the values of `stream`."""

    name: str
    devices: tuple[int, ...]
    default: int
    streams: dict[str, int]
    refused: tuple[int, ...]


CUDA = Vendor("CUDA", (2, 13), 1, {"default": 1, "per-thread": 2}, (0,))
ROCM = Vendor("ROCm", (10,), 0, {"default": 0}, (1, 2))
STREAMS = ("default", "per-thread", "own")


class Case(NamedTuple):
    """An array of the device, and the driver beside which it was made."""

    array: Any
    driver: Any
    vendor: Vendor
    index: int
    work: int | None
    """The stream on which the library's unfinished work lies; None where there is never any."""

    def stream(self, word: str) -> int:
        """The number that a consumer passes."""
        if word == "own":
            return consumer_stream(self.driver, self.index)
        if word not in self.vendor.streams:
            raise NotApplicable(f"{self.vendor.name} has no stream of this kind")
        return self.vendor.streams[word]

    def begin_work(self) -> None:
        """A kernel on the work stream writes the whole array, and nobody has waited for it.

        Of a library that waits for its work, what it has done itself must be ordered."""
        if self.work is not None:
            view = view_of(asked(self.array, {}))
            size = len(caps.offsets(view.shape, caps.row_major(view.shape)))
            size *= caps.itemsize_of(view.dtype)
            self.driver.write(self.work, view.element_zero, size)
        self.driver.clear_log()

    def calls(self) -> str:
        return ", ".join(self.driver.calls()) or "none"


@functools.cache
def consumer_stream(driver: Any, index: int) -> int:
    """A stream that waits for no other by itself."""
    return driver.stream_new(index, blocking=False, name="consumer")


def on_device(p: Producer) -> Case:
    driver = drivers.current()
    if driver is None:
        raise NotApplicable("no fake driver was named")
    vendor = ROCM if isinstance(driver, drivers.HipDriver) else CUDA
    array = p.make((2, 3))
    kind, index = device_of(array)
    if kind not in vendor.devices:
        raise NotApplicable(f"the array is on device {(kind, index)}, which is not {vendor.name}'s")
    work = None if p.always_ready else p.work_stream(vendor.default)
    return Case(array, driver, vendor, index, work)


@check("producer", "device-stream", ("no-sync", *STREAMS))
def stream_is_taken(p: Producer, which: str) -> None:
    case = on_device(p)
    stream = -1 if which == "no-sync" else case.stream(which)
    error = answers(case.array, stream=stream)
    insist(error is None, f"stream={shown(which, stream)}: {error and said(error)}")


def shown(which: str, stream: int) -> str:
    return "a handle" if which == "own" else str(stream)


@check("producer", "device-stream-refused", (0, 1, 2))
def stream_is_refused(p: Producer, stream: int) -> None:
    case = on_device(p)
    if stream not in case.vendor.refused:
        raise NotApplicable(f"{case.vendor.name} has a stream of this number")
    insist(answers(case.array, stream=stream), f"stream={stream} is taken for {case.vendor.name}")


NO_STREAM = ("none", "omitted")
IF_READY = (
    "; a library that waits for its work before anybody gets an array says so: "
    "Producer(..., always_ready=True)"
)


@check("producer", "device-order", (*NO_STREAM, *STREAMS), ("bare", "versioned"))
def work_comes_after(p: Producer, which: str, ask: str) -> None:
    case = on_device(p)
    stream = None if which in NO_STREAM else case.stream(which)
    case.begin_work()
    capsule = asked(case.array, ({} if which == "omitted" else {"stream": stream}) | ASKS[ask])
    view = view_of(capsule)
    if view.device[0] not in case.vendor.devices:
        raise NotApplicable(f"the capsule has memory of device {view.device}")
    consumer = case.vendor.default if stream is None else stream
    racy = case.driver.read(consumer, view.element_zero)
    told = f"stream={stream and shown(which, stream)}" if which != "omitted" else "without a stream"
    insist(
        not racy,
        f"{told}: a read on the consumer's stream may run before the write that the "
        f"producer has in flight; the producer called the driver's functions {case.calls()}"
        f"{'' if case.work is None else IF_READY}",
    )


@check("producer", "device-no-sync", ("bare", "versioned"))
def nothing_is_waited_for(p: Producer, ask: str) -> None:
    case = on_device(p)
    case.begin_work()
    asked(case.array, {"stream": -1, **ASKS[ask]})
    calls = [name for name in case.driver.calls() if name.lstrip("cuhip").startswith(SYNCS)]
    insist(not calls, f"stream=-1: the producer called {', '.join(calls)}")


@check("producer", "device-own", ("bare", "versioned"))
def own_device_is_taken(p: Producer, ask: str) -> None:
    case = on_device(p)
    own = device_of(case.array)
    error = answers(case.array, dl_device=own, **ASKS[ask])
    insist(error is None, f"dl_device={own}, its own: {error and said(error)}")
    before, after = all_asked(case.array, [ASKS[ask], {"dl_device": own, **ASKS[ask]}])
    same = view_of(before).element_zero == view_of(after).element_zero
    insist(same, f"dl_device={own}, its own, gives other memory")


@check("producer", "device-to-cpu", ("bare", "versioned"))
def host_copy_is_complete(p: Producer, ask: str) -> None:
    case = on_device(p)
    case.begin_work()
    races = len(case.driver.races())
    view = view_of(asked(case.array, {"dl_device": (1, 0), **ASKS[ask]}))
    if view.device[0] != 1:
        raise NotApplicable(f"the capsule has memory of device {view.device}")
    called = f"the producer called the driver's functions {case.calls()}"
    early = case.driver.races()[races:]
    insist(
        not early, f"dl_device=(1, 0): its own copy is too early: {''.join(early[:1])}; {called}"
    )
    insist(
        not case.driver.host_read(view.element_zero),
        f"dl_device=(1, 0): the host may read before the copy is done; {called}",
    )


@check("producer", "device-copy-false", ("bare", "versioned"))
def host_copy_is_refused(p: Producer, ask: str) -> None:
    case = on_device(p)
    own = view_of(asked(case.array, ASKS[ask])).element_zero
    error = answers(case.array, dl_device=(1, 0), copy=False, **ASKS[ask])
    if isinstance(error, TypeError):
        raise NotApplicable(f"the keywords are not known: {said(error)}")
    if error is not None:
        allowed = isinstance(error, BufferError | ValueError)
        insist(allowed, f"dl_device=(1, 0) and copy=False: {said(error)}")
        return
    given = asked(case.array, {"dl_device": (1, 0), "copy": False, **ASKS[ask]})
    insist(view_of(given).element_zero == own, "dl_device=(1, 0) and copy=False give a copy")


@check("producer", "device-current", ("none", *STREAMS))
def current_stays(p: Producer, which: str) -> None:
    case = on_device(p)
    stream = None if which == "none" else case.stream(which)
    before = case.driver.now_current()
    asked(case.array, {"stream": stream})
    after = case.driver.now_current()
    insist(after == before, f"before the export {before} was current, afterwards {after}")


EXPORTS = 8


@check("producer", "device-events")
def events_are_destroyed(p: Producer) -> None:
    case = on_device(p)
    stream = case.stream("own")
    asked(case.array, {"stream": stream})  # one event may be kept for every export
    before = case.driver.live_events()
    for _ in range(EXPORTS):
        case.begin_work()
        asked(case.array, {"stream": stream})
    more = case.driver.live_events() - before
    insist(more < EXPORTS, f"after {EXPORTS} exports there are {more} events more")
