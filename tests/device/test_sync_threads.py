"""Threads that sync at the same time: an event belongs to one edge until it was waited for
(rule S16)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import dlshim
import sampling
from dlshim import _core
from doubles import capsules as caps
from doubles import device as fake
from doubles import vendors
from drivers import HIP_LIVE, Driver, checks, run_checks

VARIANTS = ("12.2", "12.5", "13.0", *HIP_LIVE)
TIMES = sampling.fewer(10_000, 1_000)
BLOCK = 250


def together(*functions: Callable[[], None]) -> None:
    """Each in a thread of its own, all beginning at once; what one raises, the caller sees."""
    start, errors = threading.Barrier(len(functions)), []

    def run(function: Callable[[], None]) -> None:
        start.wait()
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def stolen_events(drv: Any) -> list[str]:
    """Records of an event between another thread's record and wait of it."""
    owner: dict[str, int] = {}
    vendor = vendors.of(drv)
    stolen = []
    for entry in drv.entries():
        if entry.name == vendor.record:
            event = entry.args["ev"]
            if owner.get(event, entry.thread) != entry.thread:
                stolen.append(entry.text)
            owner[event] = entry.thread
        elif (
            entry.name == vendor.wait and owner.pop(entry.args["ev"], entry.thread) != entry.thread
        ):
            stolen.append(entry.text)
    return stolen


class Exporter:
    """A thread that hands one array to its own stream, again and again."""

    def __init__(self, drv: Any, source: Any, address: int, name: str) -> None:
        self.drv, self.source, self.address = drv, source, address
        self.stream = drv.stream_new(0, False, name=name)
        self.racy = 0

    def __call__(self) -> None:
        export, take = self.source.__dlpack__, caps.take
        for _ in range(BLOCK):
            take(export(stream=self.stream)).release()
            self.racy += self.drv.read(self.stream, self.address)


@checks.only_on("12.5", "hip6")
def check_two_threads_and_room_for_one_event(drv: Any) -> None:
    """TIMES exports of one wrapped array by each of two threads, to two streams."""
    _core._hook("event_pool", 1)
    try:
        with caps.short_memory():
            two_threads(drv)
    finally:
        _core._hook("event_pool", 64)
    caps.close_accounts()


def two_threads(drv: Any) -> None:
    vendor = vendors.of(drv)
    most = max(1, drv.live_events())  # with those of earlier checks
    for block in range(TIMES // BLOCK):
        drv.reset()
        p = drv.stream_new(0, False, name="P")
        x = fake.RawFn(drv, p)
        assert not x.write()
        source = dlshim.upgrade(x(), producer_stream=p)
        first, second = (Exporter(drv, source, x.address, name) for name in "AB")
        together(first, second)
        assert first.racy == second.racy == 0, (block, drv.races())
        assert not stolen_events(drv), stolen_events(drv)
        assert drv.live_events() <= most, "the pool keeps one"
        assert not drv.marks(), drv.marks()
        counts = drv.counts()
        assert counts[vendor.record] == counts[vendor.wait] == 2 * BLOCK


@checks.only_on("12.2", "13.0")
def check_many_threads_on_both_devices(drv: Driver) -> None:
    """Unknown P, copies and managed memory at once: nobody's context is left changed."""
    drv.reset()
    events = drv.live_events()  # of earlier checks

    def work(device: int) -> None:
        p, s = (drv.stream_new(device, False) for _ in range(2))
        drv.set_current(drv.context(device))
        for k in range(60):
            kind = ("device", "managed")[k % 2]
            x = fake.NoKw(drv, p, device=device, kind=kind)
            assert not x.write()
            host = k % 3 == 0
            source = dlshim.upgrade(x, device="cpu" if host else None)
            taken = caps.take(source.__dlpack__(stream=s, max_version=(1, 0)))
            if host:
                assert not drv.host_read(taken.view.data, 24), drv.races()
            else:
                assert not drv.read(s, x.address), drv.races()
            taken.release()
            assert drv.context_stack() == (drv.context_number(drv.context(device)),)

    together(*[lambda device=device: work(device) for device in (0, 1, 0, 1)])
    assert not drv.races(), drv.races()
    assert not drv.gil_held_calls(every=True)
    assert drv.live_events() <= events + 4, "one for each edge in flight"
    caps.close_accounts()


@checks.only_on("12.2", "13.0", *HIP_LIVE)
def check_threads_that_change_their_device(drv: Any) -> None:
    """Each with its own streams, and each other call on the other device."""
    drv.reset()
    events, sync = drv.live_events(), vendors.of(drv).stream_sync
    places = [(n % 2, drv.stream_new(n % 2, False), drv.stream_new(n % 2, False)) for n in range(6)]
    arrays = [fake.NoKw(drv, p, device=device) for device, p, _ in places]
    racy: list[int] = []
    ended: list[int] = []

    def work(n: int) -> None:
        (device, p, s), x = places[n], arrays[n]
        for turn in range(100):
            drv.make_current(turn % 2)
            here = drv.now_current()
            drv.write(p, x.address)
            options = {"producer_stream": p} if turn % 3 else {}
            target = {"device": "cpu"} if turn % 10 == 9 else {}
            caps.take(dlshim.upgrade(x, **options, **target).__dlpack__(stream=s)).release()
            racy.append(drv.read(s, x.address) and not target)
            drv.call(sync, s)
            drv.call(sync, p)
            assert drv.now_current() == here
        ended.append(device)

    together(*[lambda n=n: work(n) for n in range(len(places))])
    assert len(ended) == len(places) and not any(racy), drv.races()[:3]
    assert drv.live_events() <= events + len(places) + 2 and not drv.marks(), drv.marks()[:3]
    caps.close_accounts()


@checks.on_cuda
def check_the_first_use_by_many_threads(drv: Driver) -> None:
    """Contexts that nobody has a pool for yet: threads that make one at the same time."""
    for _ in range(10):
        drv.reset()
        context = drv.context_new(0)
        p = drv.stream_new(blocking=False, context=context)
        arrays = [fake.NoKw(drv, p, context=context) for _ in range(4)]
        for x in arrays:
            assert not x.write()

        def export(x: Any, context: int = context, p: int = p) -> None:
            s = drv.stream_new(blocking=False, context=context)
            source = dlshim.upgrade(x, producer_stream=p)
            caps.take(source.__dlpack__(stream=s)).release()
            assert not drv.read(s, x.address), drv.races()
            copy = dlshim.upgrade(x, producer_stream=p, device="cpu")
            taken = caps.take(copy.__dlpack__())
            assert taken.values() == x.values()
            taken.release()

        together(*[lambda x=x: export(x) for x in arrays])
        assert not drv.races() and not drv.marks(), (drv.races(), drv.marks())
    caps.close_accounts()


@checks.only_on("13.0")
def check_deleters_on_other_threads(drv: Driver) -> None:
    """Guards of many exports let go at once, by threads with no context current."""
    drv.reset()
    events = drv.live_events()
    p = drv.stream_new(0, False)
    array = fake.NoKw(drv, p)
    source = dlshim.upgrade(array, on_release="guard")
    taken = [caps.take(source.__dlpack__(stream=p)) for _ in range(80)]

    def let_go(part: list[Any]) -> None:
        for each in part:
            each.release("released")
        assert drv.context_stack() == ()

    together(*[lambda k=k: let_go(taken[k::4]) for k in range(4)])
    assert array.deletions == 80 and not drv.gil_held_calls(every=True)
    assert drv.live_events() <= events + 4
    caps.close_accounts()


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), VARIANTS))
def test_sync(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
