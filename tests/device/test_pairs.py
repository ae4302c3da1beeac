"""The table library x library of docs/streams.rst is what the doubles do on the fake driver."""

from __future__ import annotations

import json

import pytest

from device import pairs
from dlshim.counted import COUNTED
from drivers import run_with_driver

CODE = """
import json
from device import pairs
print(json.dumps(list(pairs.table(drv))))
"""

#: From worst to best; what a refusal or a crash is against a race nobody can say in general.
RANKS = {"crash": 0, "refused": 1, "race": 1, "ordered": 2}
#: It waits for -1, as for any number, though -1 asks for no sync; dlshim passes it None (T12).
WAITS_FOR_MINUS_ONE = ("Paddle < 3.3", "mpi4py")
CURED = """
import dlshim
from device import pairs
with pairs.libraries(arguments[0]) as current:
    for options in ({}, {"stream": "wait"}):
        double, consumer = pairs.PRODUCERS[arguments[0]][0], pairs.CONSUMERS[arguments[1]]
        pair = pairs.Pair(drv, double, consumer, "N", "N", current)
        print(pair.outcome(lambda: dlshim.upgrade(pair.array, **options)))
"""


@pytest.fixture(scope="module")
def rows() -> list[list[str]]:
    return json.loads(run_with_driver("13.0", CODE).splitlines()[-1])


def test_the_table_tells_what_the_doubles_do(rows: list[list[str]]) -> None:
    told = [
        [producer, consumer, *cell]
        for producer, cells in pairs.load()["cells"].items()
        for consumer, cell in cells.items()
    ]
    assert told == rows, f"write it anew: {pairs.COMMAND}"


def test_no_pair_is_worse_than_bare(rows: list[list[str]]) -> None:
    def rank(outcome: str) -> int:
        return RANKS[outcome.split(":")[0].split(",")[0]]

    assert len(rows) == len(pairs.PRODUCERS) * len(pairs.CONSUMERS)
    worse = [row for row in rows if rank(row[3]) < rank(row[2])]
    raced = [row for row in rows if row[3] == "race" and not row[2].startswith(("race", "refused"))]
    assert {tuple(row[:2]) for row in worse + raced} == {WAITS_FOR_MINUS_ONE}


def test_the_wait_that_is_counted_can_be_asked_for() -> None:
    (row,) = (row for row in COUNTED if row.what.startswith("the wait of Paddle"))
    assert "Paddle before 3.3" in row.what and "mpi4py" in row.what
    assert row.cure == '`stream="wait"`'
    outcomes = run_with_driver("13.0", CURED, *WAITS_FOR_MINUS_ONE).splitlines()
    assert outcomes == ["race", "ordered, the host waits"]


def test_jax_takes_tensorflow_bare(rows: list[list[str]]) -> None:
    """jax/_src/dlpack.py passes it no stream, as it passes none for pinned memory."""
    (cell,) = (row[2:] for row in rows if row[:2] == ["TensorFlow", "JAX"])
    assert cell == ["ordered, the host waits"] * 2


def test_a_users_own_stream_of_rapids_is_the_exception(rows: list[list[str]]) -> None:
    """Nobody can see it, and the rows for these libraries take the default stream (S11)."""
    told = {(row[0], row[1]): row[3] for row in rows}
    for library in ("cuDF", "rmm"):
        for consumer in ("torch >= 2.9", "CuPy", "cuda.core", "numba kernel"):
            assert told[library, consumer] == "ordered"
            assert told[f"{library}, a user's stream", consumer] == "race"


def test_every_note_is_about_a_consumer() -> None:
    assert pairs.load()["notes"].keys() <= pairs.CONSUMERS.keys()
