"""A class that `dlshim.producer` has changed: nothing is remarked that its author cannot mend."""

from __future__ import annotations

import math
from typing import Any

import pytest

import dlshim
from dlshim_testing import check_producer, rules
from dlshim_testing.catalogue import NA
from dlshim_testing.partner import Producer
from doubles import capsules as caps
from kit import wrong_producers
from kit.test_rules import books  # noqa: F401


@dlshim.producer(inner="parts")
class OfBytes:
    """It has bytes, and says what they are."""

    def __init__(self, shape: Any, dtype: str = "float32") -> None:
        size = math.prod(shape) * caps.itemsize_of(dtype)
        self.shape, self.parts = shape, (bytearray(size), shape, dtype)


class OfAnArray(dlshim.ProducerMixin, inner="array"):
    """It has an array."""

    def __init__(self, shape: Any, dtype: str = "float32") -> None:
        self.shape, self.array = shape, wrong_producers.Right(shape, dtype)


@dlshim.producer
class OfAnOldMethod:
    """It has a method of DLPack 0.x."""

    def __init__(self, shape: Any, dtype: str = "float32") -> None:
        self.shape, self.array = shape, wrong_producers.Right(shape, dtype)

    def __dlpack_device__(self) -> Any:
        return (1, 0)

    def __dlpack__(self, *, stream: Any = None) -> Any:
        return self.array.__dlpack__()


@pytest.mark.parametrize("kind", [OfBytes, OfAnArray, OfAnOldMethod])
def test_a_changed_class_passes_without_remarks(kind: Any) -> None:
    report = check_producer(Producer(kind, claims="2025.12"))
    assert report and not report.wrong and not report.errors, str(report)
    told = {each.rule: each for each in report.findings if "has it from dlshim" in each.evidence}
    assert {"stream-on-cpu", "keyword-only"} <= {*told} <= {*rules.BY_DLSHIM}
    assert {each.status for each in told.values()} == {NA}


@pytest.mark.parametrize("kind", [dlshim.Tensor, dlshim.Producer])
def test_what_dlshim_makes_itself_is_judged(kind: Any) -> None:
    def make(shape: Any, dtype: str = "float32") -> Any:
        x = wrong_producers.Right(shape, dtype)
        return dlshim.from_dlpack(x) if kind is dlshim.Tensor else dlshim.upgrade(x)

    report = check_producer(Producer(make, claims="2025.12"), only="^(stream-on-cpu|keyword-only)")
    assert {each.rule for each in report.wrong} == {"stream-on-cpu", "keyword-only"}, str(report)


def test_a_fault_of_a_changed_class_is_found() -> None:
    kind = type("Wrong", (OfBytes,), {"parts": property(lambda self: self.given)})

    def make(shape: Any, dtype: str = "float32") -> Any:
        x = object.__new__(kind)
        x.shape, x.given = shape, (bytearray(math.prod(shape) * caps.itemsize_of(dtype)), (), dtype)
        return x

    report = check_producer(Producer(make, claims="2025.12"), only=r"^(shape|methods)")
    assert report.failed, str(report)
