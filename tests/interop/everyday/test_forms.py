"""What functions make of a wrapper, a Tensor and an array of NumPy is as it is recorded."""

from __future__ import annotations

import pytest

from interop.everyday import forms
from replays.running import missing

RECORDED = forms.recorded()


def test_the_record_has_every_call() -> None:
    assert list(RECORDED) == [call for call, _, _ in forms.CALLS]


@pytest.mark.parametrize(("call", "distribution", "make"), forms.CALLS)
def test_a_function_takes_what_is_recorded(call: str, distribution: str, make: str) -> None:
    row = RECORDED[call]
    for each in ("torch", row["release"].replace(" ", ">=")):
        if reason := missing(each):
            pytest.skip(reason)
    assert forms.tried(call, make) == tuple(row[form] for form in forms.FORMS)
