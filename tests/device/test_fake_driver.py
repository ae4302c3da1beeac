"""The fake driver is itself what it says: order, errors, aborts, captures."""

from __future__ import annotations

import pytest

from drivers import Driver, run_checks

LIVE = ("9.2", "12.2", "12.5", "13.0")


def check_a_race_without_an_edge(drv: Driver) -> None:
    p, s = drv.stream_new(0, False, name="P"), drv.stream_new(0, False, name="S")
    memory = drv.alloc(64)
    assert not drv.write(p, memory)
    assert drv.read(s, memory)
    assert drv.races() == ["read of m1 on S is not ordered after the write on P"]


@pytest.mark.parametrize("variant", LIVE)
@pytest.mark.parametrize("name", [name for name in globals() if name.startswith("check_")])
def test_fake(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
