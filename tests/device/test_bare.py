"""No cell is worse with dlshim than without: every cell of the matrices, and cases at random.

``python -m device --cases 100000`` is the long run (nox session `bare`); here is a sample.
"""

from __future__ import annotations

import itertools

import pytest

import sampling
from device import bare
from device.matrix import Cell
from drivers import Fake, checks, run_checks

VARIANTS = ("12.2", "13.0", "hip7")
SAMPLE = sampling.fewer(1500, 150)


def nothing_is_worse(drv: Fake, cases: object) -> None:
    counted, problems = bare.walk(drv, cases)  # type: ignore[arg-type]
    assert not problems, "\n".join([f"after {counted.total()} cases:", *problems])


def check_the_cells_of_the_matrix(drv: Fake) -> None:
    """Every cell on the newest driver of each vendor, a quarter on the one that has no event of a
    whole device."""
    gpu = bare.bare_of(drv)
    version = drv.option("driver_version", 0) if gpu is bare.CUDA else 0
    old = 0 < version < 12050
    if old:
        drv.option("driver_version", version)
    cells = itertools.islice(bare.of_matrix(gpu), 0, None, 4 if old else 1)
    nothing_is_worse(drv, sampling.every(11, cells))


def check_cases_at_random(drv: Fake) -> None:
    nothing_is_worse(drv, itertools.islice(bare.at_random(bare.bare_of(drv), 1), SAMPLE))


def check_that_the_comparison_sees_what_is_worse(drv: Fake) -> None:
    fine = bare.Outcome(racy=False, edges=1)
    case = bare.Case(Cell("torch", capture="other B"))
    for upgraded, told in (
        (bare.Outcome(racy=True), "a race"),
        (bare.Outcome(error=BufferError("no")), "a refusal"),
        (bare.Outcome(racy=False, waited=True), "a host wait"),
        (bare.Outcome(dead=True), "a dead one"),
    ):
        assert told in bare.judge(case, fine, upgraded, True)[0]
    assert bare.judge(case, fine, fine, False) == ("", "ordered in both")


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), VARIANTS))
def test_bare(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
