"""Exchanges on fakes that run later (``Driver.asynchronous``), judged by values and no clocks, for
CUDA and HIP: what S was made to wait for is new, and what it was not is old.

tests/gpu asks the same of a real CUDA device, and more.  For a real AMD device there is no suite.
"""

from __future__ import annotations

import ctypes as C
from collections.abc import Callable
from typing import Any

import pytest

import dlshim
from doubles import capsules as caps
from doubles import device as fake
from doubles import vendors
from drivers import HIP_LIVE, checks, run_checks

OLD, NEW = 7, 42
COUNT = 6


class Case:
    """Six words on device 0 that are OLD; a copy on P, not yet carried out, makes them NEW."""

    def __init__(self, drv: Any, make: Callable[..., Any], kind: str = "device") -> None:
        drv.reset()
        drv.make_current(0)
        self.drv, self.vendor = drv, vendors.of(drv)
        self.p, self.s = (drv.stream_new(0, False, name=name) for name in "PS")
        self.array = make(drv, self.p, kind=kind, shape=(COUNT,), dtype="int32")
        drv.put(self.array.address, bytes((C.c_int32 * COUNT)(*[OLD] * COUNT)))
        drv.asynchronous()
        self.new = new = (C.c_int32 * COUNT)(*[NEW] * COUNT)  # HIP reads it later
        name, how = ("hipMemcpyAsync", (1,)) if self.vendor.is_hip else ("cuMemcpyHtoDAsync_v2", ())
        drv.call(name, self.array.address, C.addressof(new), C.sizeof(new), *how, self.p)

    def source(self) -> Any:
        return self.array() if isinstance(self.array, fake.RawFn) else self.array

    def seen_on_s(self, capsule: Any) -> set[int]:
        """What a copy on S sees, when the whole device is waited for."""
        taken, seen = caps.take(capsule), (C.c_int32 * COUNT)()
        arguments = (C.addressof(seen), taken.view.data, C.sizeof(seen), *self.vendor.to_host_kind)
        self.drv.call(self.vendor.to_host, *arguments, self.s)
        self.drv.call(self.vendor.device_sync)
        taken.release()
        return set(seen)

    def seen_by_the_host(self, capsule: Any) -> set[int]:
        """What is there at once."""
        taken = caps.take(capsule)
        values = set(taken.values())
        taken.release()
        return values


def check_s_waits_for_a_stream_that_was_named(drv: Any) -> None:
    for asked, wanted in (("S", {NEW}), (-1, {OLD})):
        case = Case(drv, fake.RawFn)
        producer = dlshim.upgrade(case.source(), producer_stream=case.p)
        stream = case.s if asked == "S" else asked
        assert case.seen_on_s(producer.__dlpack__(stream=stream)) == wanted, asked


def check_s_waits_for_a_stream_that_nobody_knows(drv: Any) -> None:
    for asked, wanted in (("S", {NEW}), (-1, {OLD})):
        case = Case(drv, fake.NoKw)
        stream = case.s if asked == "S" else asked
        assert case.seen_on_s(dlshim.upgrade(case.source()).__dlpack__(stream=stream)) == wanted


def check_s_waits_for_a_tensor(drv: Any) -> None:
    for asked, wanted in (("S", {NEW}), (-1, {OLD})):
        case = Case(drv, fake.RawFn)
        options = {"stream": case.p, "producer_stream": case.p}
        tensor = dlshim.from_dlpack(case.source(), **options)
        stream = case.s if asked == "S" else asked
        assert case.seen_on_s(tensor.__dlpack__(stream=stream)) == wanted, asked


def check_the_host_waits_for_a_copy(drv: Any) -> None:
    for make, options in ((fake.RawFn, {"producer_stream": "P"}), (fake.NoKw, {})):
        for asked in (-1, None):
            case = Case(drv, make)
            its = dict.fromkeys(options, case.p)
            producer = dlshim.upgrade(case.source(), device="cpu", **its)
            exported = producer.__dlpack__(stream=asked, max_version=(1, 0))
            assert case.seen_by_the_host(exported) == {NEW}, (make, asked)


def check_the_host_waits_for_pinned_memory(drv: Any) -> None:
    for asked, wanted in ((None, {NEW}), (-1, {OLD})):
        case = Case(drv, fake.RawFn, "pinned")
        producer = dlshim.upgrade(case.source(), producer_stream=case.p)
        exported = producer.__dlpack__(stream=asked, max_version=(1, 0))
        assert case.seen_by_the_host(exported) == wanted, asked


def check_a_copy_on_the_device_is_made_in_its_turn(drv: Any) -> None:
    for asked in ("S", -1):
        case = Case(drv, fake.RawFn)
        producer = dlshim.upgrade(case.source(), producer_stream=case.p, copy=True)
        stream = case.s if asked == "S" else asked
        exported = producer.__dlpack__(stream=stream, max_version=(1, 0))
        assert case.seen_on_s(exported) == {NEW}, asked


def check_any_stream_may_read_a_capsule(drv: Any) -> None:
    case = Case(drv, fake.RawFn)
    capsule = dlshim.to_capsule(case.source(), producer_stream=case.p)
    assert case.seen_on_s(capsule) == {NEW}


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), ("12.2", "13.0", *HIP_LIVE)))
def test_orders_by_values(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
