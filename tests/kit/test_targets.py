"""Targets that are wrong themselves: the run ends and names them, and no library is blamed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dlshim_testing import check_consumer, check_producer
from dlshim_testing.partner import Consumer, Producer
from dlshim_testing.running import TargetError
from kit import wrong_producers
from kit.test_plugin import python_m, run
from kit.test_rules import books  # noqa: F401

HEAD = (
    "from dlshim_testing.partner import Consumer, Producer\nfrom kit.wrong_producers import Right\n"
)

#: side, the target, a check that shows it, and what is said of it.
WRONG = [
    ("producer", "5", "methods", "a producer must be a function, and it is of type int"),
    ("producer", "Consumer(len)", "methods", "named as a producer, and is a Consumer"),
    ("producer", "Producer(Right, read_only=5)", "methods", "read_only= must be a function"),
    ("producer", "Producer(Right, work_stream=5)", "methods", "work_stream= must be a function"),
    ("producer", "Producer(Right, special=[5])", "methods", "special= must be a dictionary"),
    (
        "producer",
        "Producer(Right, special={'a': 5})",
        "methods",
        "special=['a'] must be a function",
    ),
    (
        "producer",
        "Producer(Right, refused={'a': 5})",
        "methods",
        "refused=['a'] must be a function",
    ),
    (
        "producer",
        "Producer(Right, read_only=lambda: None)",
        "read-only-flag",
        "read_only= gives None, and must give an array",
    ),
    (
        "producer",
        "Producer(Right, refused={'a': lambda: None})",
        "not-exported",
        "refused=['a'] gives None, and must give an array",
    ),
    (
        "producer",
        "Producer(Right, special={'a': lambda: Right()})",
        "special-values",
        "special=['a'] must give a pair, (array, list of its values in row-major order), and "
        "gives Right",
    ),
    (
        "producer",
        "Producer(Right, special={'a': lambda: (Right(), 5)})",
        "special-values",
        "TypeError: 'int' object is not iterable",
    ),
    (
        "producer",
        "Producer(Right, special={'a': lambda: (Right((2,)), [0, 'b'])})",
        "special-values",
        "special=['a'] gives the value 'b', which is none of dtype (2, 32, 1): ",
    ),
    (
        "producer",
        "Producer(Right, special={'a': lambda: 1 / 0})",
        "special-values",
        "special=['a'] fails: ZeroDivisionError: division by zero (",
    ),
    (
        "producer",
        "Producer(Right, refused={'a': lambda: 1 / 0})",
        "not-exported",
        "refused=['a'] fails: ZeroDivisionError: division by zero (",
    ),
    (
        "producer",
        "Producer(Right, read_only=lambda: 1 / 0)",
        "read-only-flag",
        "read_only= fails: ZeroDivisionError: division by zero (",
    ),
    (
        "producer",
        "Producer(Right, work_stream=int, always_ready=True)",
        "methods",
        "always_ready=True says that no work is unfinished: no work_stream=",
    ),
    ("consumer", "5", "takes-any", "a consumer must be a function, and it is of type int"),
    ("consumer", "Producer(Right)", "takes-any", "named as a consumer, and is a Producer"),
    ("consumer", "Consumer(len, wants='x')", "takes-any", "wants='x' is none of 'object'"),
]


@pytest.mark.parametrize(("side", "target", "check", "said"), WRONG, ids=lambda text: text)
@pytest.mark.parametrize("more", [(), ("--in-process",)], ids=["isolated", "in-process"])
def test_the_command_names_a_target_that_is_wrong(
    tmp_path: Path, side: str, target: str, check: str, said: str, more: tuple[str, ...]
) -> None:
    (tmp_path / "mine.py").write_text(f"{HEAD}target = {target}\n")
    command = ("dlshim_testing", f"--{side}", "mine:target", "--only", check, *more)
    out, told = python_m(tmp_path, *command, returncode=2)
    assert not out and "Traceback" not in told
    assert said in told, told


@pytest.mark.parametrize("more", [(), ("--dlpack-in-process",)], ids=["isolated", "in-process"])
def test_pytest_ends_where_a_check_finds_the_target_wrong(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    (tmp_path / "mine.py").write_text(f"{HEAD}target = Producer(Right, read_only=lambda: None)\n")
    options = ("--dlpack-producer=mine:target", "-k", "methods or read-only-flag", *more)
    told = run(tmp_path, *options, returncode=pytest.ExitCode.USAGE_ERROR)
    assert "--dlpack-producer: TargetError: " in told
    assert "read_only= gives None, and must give an array" in told and "1 passed" in told


def test_from_python_it_is_an_exception() -> None:
    with pytest.raises(TypeError, match="a consumer must be a function, and it is of type int"):
        check_consumer(5)
    with pytest.raises(TypeError, match="named as a consumer, and is a Producer"):
        check_consumer(wrong_producers.right)
    with pytest.raises(ValueError, match="wants='x' is none of"):
        Consumer(len, wants="x")
    with pytest.raises(TargetError, match="read_only= gives None"):
        check_producer(Producer(wrong_producers.Right, read_only=lambda: None), only="read-only")


def needs_a_device(shape: Any, kind: Any) -> Any:
    raise RuntimeError("there is no device")


def test_the_error_of_a_function_that_makes_nothing_is_shown() -> None:
    """It was hidden behind "unexpected keyword argument 'dtype'"."""
    (found,) = check_producer(needs_a_device, only="^methods$").findings
    assert found.status == "error"
    assert found.evidence.endswith("RuntimeError: there is no device")
    (found,) = check_producer(lambda shape, kind: None, only="^methods$").findings
    assert found.evidence.endswith("the function gives None")
    (found,) = check_producer(lambda: None, only="^methods$").findings
    assert "unexpected keyword argument 'dtype'" in found.evidence
