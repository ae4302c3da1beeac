"""Our C table on ROCm: a kernel on the stream that is answered, NULL being the default."""

from __future__ import annotations

import itertools

import pytest

import dlshim
from device.rocm import CURRENT, MAKE, P_KINDS, libraries, source_of, warm
from doubles.ctable import Table
from drivers import HipDriver, checks, run_checks

VARIANTS = ("hip6",)
#: No stream in a dict of version 3 is the producer's word that nothing is unfinished: here a lie.
LIARS = ("cai 3, None", "cai 3, no key")
PRODUCER, TENSOR = Table(dlshim.Producer), Table(dlshim.Tensor)


def stream_of(drv: HipDriver, kind: str, device: int) -> int:
    known = {"L": 0, "PTDS": 2}
    return known[kind] if kind in known else drv.stream_new(device, kind == "B", name="P")


def check_a_kernel_on_the_answered_stream_is_synced(drv: HipDriver) -> None:
    """Every kind of producer and of P, on both devices, twice, owned and borrowed."""
    with libraries():
        warm(drv)
        producers = [name for name in MAKE if name not in LIARS]
        for producer, kind, device, how in itertools.product(
            producers, P_KINDS, (0, 1), ("owned", "borrowed")
        ):
            drv.reset()
            drv.set_device(device)
            p = stream_of(drv, kind, device)
            for current in CURRENT.values():
                current.handle = p
            x = MAKE[producer](drv, p, device=device)
            assert not x.write()
            source = dlshim.upgrade(source_of(producer, x))
            for time in range(2):
                told = (producer, kind, device, how, time)
                kept = PRODUCER.owned(source) if how == "owned" else PRODUCER.borrow(source)
                answer = PRODUCER.stream((10, device))
                assert not drv.read(answer or 0, x.address), (told, answer, drv.races())
                assert not drv.gil_held_calls(every=True), told
                assert drv.device() == device, told
                del kept
            del source


def check_a_tensor_answers_its_stream(drv: HipDriver) -> None:
    drv.reset()
    p, s = (drv.stream_new(0, False, name=name) for name in "PS")
    x = MAKE["no keyword"](drv, p)
    x.write()
    source = dlshim.upgrade(x, producer_stream=p)
    for stream in (s, 0, None):
        tensor = dlshim.from_dlpack(source, stream=stream)
        drv.clear_log()
        for table in (TENSOR.owned, TENSOR.borrow):
            kept = table(tensor)
            assert PRODUCER.stream((10, 0)) == (stream or None)
            assert not drv.read(stream or 0, x.address)
            del kept
        assert [name for name in drv.calls() if "Record" in name or "Sync" in name] == []
        del tensor
    assert PRODUCER.stream((2, 0)) is None


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), VARIANTS))
def test_rocm_work_stream(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
