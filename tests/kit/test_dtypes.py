"""Libraries that have few dtypes, or one: the kit is told, and judges what there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dlshim_testing import check_consumer, check_producer
from dlshim_testing.catalogue import FAIL, NA, PASS
from dlshim_testing.partner import Consumer, Producer
from kit import test_plugin, wrong_consumers, wrong_producers
from kit.test_rules import books  # noqa: F401


class Image(wrong_producers.Right):
    """A library of images, whose function takes no dtype."""

    def __init__(self, shape: Any, **fields: Any) -> None:
        super().__init__(shape, "uint8", **fields)


class DoublesAlone(wrong_consumers.Right):
    def judge(self, view: Any) -> None:
        super().judge(view)
        if view.dtype != (2, 64, 1):
            raise BufferError("float64 alone")


def of(rule: str, report: Any) -> dict[str, str]:
    return {each.check: each.status for each in report.findings if each.rule == rule}


def test_a_producer_of_one_dtype_is_judged_by_every_rule() -> None:
    every = check_producer(wrong_producers.right)
    narrowed = check_producer(Producer(Image, claims="2025.12", dtypes=("uint8",)))
    assert narrowed and not narrowed.wrong and not narrowed.errors, str(narrowed)
    judged = {each.rule for each in narrowed.findings if each.status == PASS}
    special = {"read-only-flag", "read-only-legacy", "copy-writable", "refusals"}
    assert (
        judged | special == {each.rule for each in every.findings if each.status == PASS} | special
    )
    assert of("dtype", narrowed)["dtype[uint8-bare]"] == PASS
    assert of("dtype", narrowed)["dtype[int64-bare]"] == NA
    assert of("dtype-support", narrowed)["dtype-support[int64]"] == NA


def test_a_fault_of_a_producer_of_one_dtype_is_found() -> None:
    class Wrong(wrong_producers.CopiesWithoutFlag, Image):
        pass

    report = check_producer(Producer(Wrong, claims="2025.12", dtypes=("uint8",)))
    assert {each.rule for each in report.failed} == {"copied-flag"}


def test_a_consumer_of_one_dtype_is_judged_by_every_rule() -> None:
    every = check_consumer(wrong_consumers.right)
    told = check_consumer(Consumer(DoublesAlone(), claims="2025.12"))
    assert FAIL in of("takes-legacy", told).values()
    narrowed = check_consumer(Consumer(DoublesAlone(), claims="2025.12", dtypes=("float64",)))
    assert narrowed and not narrowed.wrong and not narrowed.errors, str(narrowed)
    judged = {each.rule for each in narrowed.findings if each.status == PASS}
    assert judged == {each.rule for each in every.findings if each.status == PASS}


def test_offsets_of_a_narrowed_consumer_are_those_of_its_dtype() -> None:
    class NoOffset(wrong_consumers.NoOffset, DoublesAlone):
        pass

    report = check_consumer(Consumer(NoOffset(), claims="2025.12", dtypes=("float64",)))
    assert {each.rule for each in report.failed} == {"byte-offset"}


def test_a_library_that_makes_another_dtype_is_told_how_to_say_so() -> None:
    class Names(Image):
        @property
        def dtype(self) -> str:
            return "uint8"

        @dtype.setter
        def dtype(self, value: str) -> None:
            pass

    report = check_producer(Producer(Names, claims="2025.12"), only="^methods$")
    (found,) = report.errors
    assert "makes uint8 where float32 is asked for" in found.evidence
    assert 'Producer(..., dtypes=("uint8",)), or --dlpack-dtypes uint8' in found.evidence
    assert check_producer(Names, dtypes=("uint8",), only="^methods$")


def test_the_command_lines_take_dtypes(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from kit.wrong_producers import Right\n"
        "def images(shape):\n    return Right(shape, 'uint8')\n"
    )
    options = ("--dlpack-producer=mine:images", "--dlpack-claims=2025.12", "-k", "dtype or methods")
    told = test_plugin.run(tmp_path, *options, "--dlpack-dtypes=uint8")
    assert "conforms" in told and "failed" not in told
    assert "'uint9' is no dtype of the checks; they are bool, int8" in test_plugin.refused(
        tmp_path, *options, "--dlpack-dtypes=uint9"
    )
    command = (
        "dlshim_testing",
        "--producer",
        "mine:images",
        "--dtypes",
        "uint8",
        "--only",
        "^dtype",
    )
    assert "conforms" in test_plugin.python_m(tmp_path, *command)[0]


def test_a_target_that_says_them_itself_is_not_told_others(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="give it dtypes where it is made"):
        check_producer(wrong_producers.right, dtypes="uint8")
