"""Every order of two threads' driver calls (``device/orders.py``), and omissions that it finds."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

import sampling
from device import orders
from device.orders import Case, Program, explore
from doubles import device as fake
from doubles import vendors
from drivers import checks, run_checks

#: In a sample the first orders of each exchange.
MOST = sampling.fewer(None, 400)


def told(variant: str) -> dict[str, tuple[int, int]]:
    """What the manual tells of each exchange: turns, and orders."""
    with orders.RESULTS.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["driver"] == variant]
    return {row["exchange"]: (int(row["turns"]), int(row["orders"])) for row in rows}


def check_no_order_is_wrong(drv: Any) -> None:
    found = {name: orders.found_of(drv, name, MOST) for name in orders.EXCHANGES}
    there = {name: each for name, each in found.items() if each}
    for name, each in there.items():
        assert not each.wrong, f"{name}: {each.example}"
    if MOST is None:
        seen = {name: (each.turns, each.orders) for name, each in there.items()}
        assert seen == told(Path(drv.path).parent.name), f"write it anew: {orders.COMMAND}"


# ---- planted omissions ------------------------------------------------------------------------


def check_a_sync_that_is_left_out(drv: Any) -> None:
    def make(case: Case) -> list[Program]:
        source = orders.named(case)

        def careless() -> None:
            orders.read_and_drop(case, source.__dlpack__(stream=-1), case.stream("A"))

        return [careless, case.reader(source, "B")]

    found = explore(drv, make)
    assert found.wrong == found.orders > 1 and "does not come after" in found.example


def check_an_event_that_two_threads_share(drv: Any) -> None:
    """A record of one between record and wait of the other: one thread after the other is right."""

    def make(case: Case) -> list[Program]:
        vendor, event = vendors.of(drv), vendors.new_event(drv)
        streams = [(case.stream(f"P{n}"), case.stream(f"S{n}")) for n in range(2)]
        arrays = [case.array(fake.NoKw, p) for p, _ in streams]

        def edge(p: int, s: int, address: int) -> None:
            drv.call(vendor.record, event, p)
            drv.call(vendor.wait, s, event, 0)
            drv.read(s, address)

        case.at_end.append(lambda: drv.call(vendor.destroy_event, event))
        return [
            lambda p=p, s=s, x=x: edge(p, s, x.address)
            for (p, s), x in zip(streams, arrays, strict=True)
        ]

    assert not explore(drv, make, most=1).wrong, "the first order is one thread after the other"
    found = explore(drv, make)
    assert 0 < found.wrong < found.orders, found


def check_a_wait_that_another_thread_relies_on(drv: Any) -> None:
    def make(case: Case) -> list[Program]:
        array, s = case.array(fake.NoKw), case.stream("S")

        def wait() -> None:
            drv.call(vendors.of(drv).stream_sync, case.p)

        def read() -> None:
            drv.turn()
            drv.read(s, array.address)

        return [wait, read]

    assert not explore(drv, make, most=1).wrong
    found = explore(drv, make)
    assert 0 < found.wrong < found.orders, found


def check_work_that_is_given_while_the_host_waits(drv: Any) -> None:
    """A wait ends with what was there when it began."""

    def make(case: Case) -> list[Program]:
        array = case.array(fake.NoKw, kind="pinned")

        def wait_and_read() -> None:
            drv.call(vendors.of(drv).stream_sync, case.p)
            drv.host_read(array.address, 24)

        return [wait_and_read, array.write]

    assert not explore(drv, make, most=1).wrong
    found = explore(drv, make)
    assert 0 < found.wrong < found.orders and "read of m1 on the host" in found.example, found


def check_every_order_is_run_once(drv: Any) -> None:
    """Of two threads with two turns each: 4 over 2, and each of them once."""
    seen = []

    def make(case: Case) -> list[Program]:
        order: list[str] = []
        case.at_end.append(lambda: seen.append("".join(order)))

        def program(name: str) -> Program:
            def run() -> None:
                order.append(name)
                drv.turn()
                order.append(name)

            return run

        return [program("a"), program("b")]

    assert explore(drv, make).orders == 6
    assert sorted(seen[1:]) == ["aabb", "abab", "abba", "baab", "baba", "bbaa"]  # 1: a first try


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), orders.VARIANTS))
def test_orders(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
