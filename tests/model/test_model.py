"""A sample of the model in every test run; `nox -s model` walks 100 000 cases."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from doubles import capsules as caps
from model import machine, sources
from model.machine import Base, Exchanges, Struct
from model.rules import Given, Memory, Request, Rules

#: Derandomized: every run of the tests walks the same cases.
SAMPLE = settings(
    max_examples=200,
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=False,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
#: Cases until a fault is found, at most.  The rarest of those below takes 150 on average, and
#: Hypothesis walks other cases in another environment.  It is only looked for, not made small.
MOST = 4000
SEARCH = settings(SAMPLE, max_examples=MOST, phases=[Phase.generate])


def test_a_sample_of_exchanges_is_as_the_model_says() -> None:
    class Sample(Exchanges):
        cases = steps = 0
        outcomes = Exchanges.outcomes.__class__()

    run_state_machine_as_test(Sample, settings=SAMPLE)
    assert Sample.cases >= 200 and Sample.steps > 2000
    wanted = {"shared", "copied", "BufferError", "CopyRequiredError", "MemoryError"}
    assert Sample.outcomes.keys() == wanted, Sample.outcomes


def must_fail(cls: type[Exchanges], words: str) -> None:
    """The machine notices, whatever it then leaves open."""
    try:
        with pytest.raises(AssertionError, match=words):
            run_state_machine_as_test(cls, settings=SEARCH)
    finally:
        gc.collect()
        caps.close_accounts()
        machine._core._hook("hand_on", True)
    assert cls.cases < MOST


#: What is noticed first where a rule is left out of the model.
WRONG = {
    "T4": r"\(\(",  # two tuples of strides
    "T7": "BufferError, not given",
    "T8": "BufferError, not given",
    "N9": "BufferError, not given",
}


@pytest.mark.parametrize("rule", WRONG)
def test_a_wrong_rule_is_noticed(rule: str) -> None:
    class Wrong(Exchanges):
        model = Rules(frozenset({rule}))
        cases = 0

    must_fail(Wrong, WRONG[rule])


def test_a_deleter_that_comes_too_late_is_noticed() -> None:
    class Leaks(Exchanges):
        cases = 0

        def drop(self, held: list[Any], aside: bool) -> None:
            kept.extend(held)

    kept: list[Any] = []
    must_fail(Leaks, "deleter not called, though nobody holds|buffers|still alive")


def test_a_deleter_that_comes_too_early_is_noticed() -> None:
    class Early(Exchanges):
        cases = 0

        def keep(self, holder: Any, thing: int, *more: Any) -> None:
            super().keep(holder, thing, *more)
            for struct in self.structs:
                struct.must.add(first)

        def is_alive(self, holder: Any) -> bool:
            return holder is first or super().is_alive(holder)

    first = Base(None, ROW_MAJOR)
    must_fail(Early, "deleter called 1 times")


ROW_MAJOR = Memory((2, 3), (3, 1), (2, 32, 1), 64, (b"",) * 6)


@pytest.mark.parametrize("name", sources.NAMES)
def test_every_source_gives_what_its_row_says(name: str) -> None:
    """The machine reaches all of them; this says which one is at fault."""
    walked = Exchanges()
    walked.begin(True)
    said = {"name": name, "shape": (2, 2), "layout": "wide", "dtype": (2, 32, 1), "shift": 1}
    first = walked.make_source(**said, readonly=False, flags=0)
    wrapped = walked.wrapped(first, {})
    for way in sorted(machine.ASKINGS):
        walked.export_one(wrapped, way, False, 0)
    assert isinstance(walked.tensor(wrapped, 0), int)
    walked.teardown()


def test_the_model_says_what_the_rules_say() -> None:
    rules, legacy, versioned = Rules(), Request(False), Request(True)
    plain = rules.expect(ROW_MAJOR, {}, versioned)
    assert plain == Given(ROW_MAJOR, 0, False)
    readonly = Memory((2, 3), (3, 1), (2, 32, 1), 64, (b"",) * 6, flags=1)
    assert rules.expect(readonly, {}, legacy).error == "BufferError"
    assert not rules.expect(readonly, {"readonly": "share"}, legacy).copied
    assert rules.expect(readonly, {"readonly": "copy"}, legacy).copied
    assert rules.expect(readonly, {}, versioned).flags == 1


def test_a_struct_belongs_to_its_holders() -> None:
    walked = Exchanges()
    struct = Struct(caps.Made(), must={1})
    walked.structs = [struct]
    walked.out[1] = None
    struct.record.handed_out = True
    walked.every_struct_is_held_or_given_back_once()
    walked.out.clear()
    with pytest.raises(AssertionError, match="nobody holds"):
        walked.every_struct_is_held_or_given_back_once()
    caps.close_accounts()
