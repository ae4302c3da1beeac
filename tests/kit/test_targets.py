"""Targets that are wrong themselves: the run ends and names them, and no library is blamed."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dlshim_testing import __main__ as main
from dlshim_testing import check_consumer, check_producer
from dlshim_testing.every import checks
from dlshim_testing.partner import Consumer, Producer
from dlshim_testing.running import TargetError
from drivers.library import compiler
from kit import wrong_producers
from kit.hanging import LIMIT
from kit.test_plugin import python_m, refused, run
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


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        ("lambda: 1 / 0", "work_stream= fails: ZeroDivisionError: division by zero ("),
        ("lambda: 'x'", "work_stream= must give the stream as an int, and gives a str"),
    ],
)
def test_the_command_names_a_work_stream_that_is_wrong(
    tmp_path: Path, stream: str, said: str
) -> None:
    compiler()
    program = "from kit.wrong_devices import Producer, Right\n"
    (tmp_path / "mine.py").write_text(f"{program}target = Producer(Right, work_stream={stream})\n")
    options = ("--driver=13.0", "--only=device-order")
    command = ("dlshim_testing", "--producer=mine:target", *options)
    out, told = python_m(tmp_path, *command, returncode=2)
    assert not out and "Traceback" not in told and said in told, told


class Row(wrong_producers.Right):
    """A library of one dimension, which cannot be made with others."""

    def __init__(self, shape: Any, dtype: Any = "float32", **fields: Any) -> None:
        if len(shape) != 1:
            raise ValueError("one dimension only")
        super().__init__(shape, dtype, **fields)


def test_a_library_of_one_dimension_says_so() -> None:
    """The check of the methods failed itself, and the library was said not to conform."""
    report = check_producer(Producer(Row, one_dimension=True, claims="2025.12"))
    assert report and not report.wrong, str(report)
    passed = {each.check for each in report.findings if each.status == "pass"}
    assert {"methods", "keeps-memory[float32-bare]", "values[vector-bool-versioned]"} <= passed
    assert "copy-true[reversed-bare]" not in {each.check for each in report.wrong}


def test_a_target_that_makes_other_shapes_is_told_so() -> None:
    """Its values were said to be wrong: "whole: 4 elements, and it has 24"."""
    report = check_producer(lambda shape, dtype: wrong_producers.Right(shape[:1], dtype))
    assert not report.wrong, str(report)
    (found,) = report.errors
    assert "makes an array of shape (2,) where (2, 3) is asked for" in found.evidence
    assert "one_dimension=True" in found.evidence


def takes_no_names(shape: Any, dtype: Any = None) -> Any:
    if isinstance(dtype, str):
        raise TypeError("a dtype is no text")
    return wrong_producers.Right(shape, "float64")


def test_why_a_dtype_was_refused_is_told() -> None:
    (found,) = check_producer(takes_no_names, only="^methods$").findings
    assert "asked for dtype='float32', it raised TypeError: a dtype is no text" in found.evidence


@pytest.mark.parametrize("limit", ["0", "nan", "soon"])
def test_a_limit_of_time_is_a_number_of_seconds(tmp_path: Path, limit: str) -> None:
    target = ("--producer=mine:Hangs", f"--timeout={limit}")
    _, told = python_m(tmp_path, "dlshim_testing", *target, returncode=2)
    assert f"{limit!r} is no number of seconds above 0" in told
    told = refused(tmp_path, "--dlpack-producer=mine:Hangs", f"--dlpack-timeout={limit}")
    assert f"--dlpack-timeout: {limit!r} is no number of seconds above 0" in told
    told = refused(tmp_path, "--dlpack-producer=m:z", "--dlpack-timeout=5", "--dlpack-in-process")
    assert "--dlpack-timeout needs a process of its own: leave --dlpack-in-process out" in told
    with pytest.raises(ValueError, match="a limit of time needs a process of its own"):
        check_producer(wrong_producers.right, timeout=5)


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


class Wraps:
    """A class of arrays that are made of another array."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **asked: Any) -> Any:
        return self._array.__dlpack__(**asked)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


def test_a_class_that_takes_an_array_is_no_producer() -> None:
    """Each check failed with "'tuple' object has no attribute '__dlpack__'"."""
    report = check_producer(Wraps)
    assert not report.wrong, str(report)
    told = "the target Wraps does not take (shape, dtype): called with the shape alone"
    assert any(told in each.evidence for each in report.errors), str(report)
    assert not any(each.status == "pass" and "float32" in each.check for each in report.findings)


ABORTS = """
import os, sys
from kit.wrong_producers import Right

class Aborts(Right):
    def __dlpack__(self, **asked):
        if {when}:
            print("double free", file=sys.stderr, flush=True)
            os.abort()
        return super().__dlpack__(**asked)
if {imported}:
    os.abort()
"""


def test_a_crash_at_the_first_export_says_what_was_done_and_what_goes_on(tmp_path: Path) -> None:
    """Nothing was told but "the process ended by SIGABRT Fatal Python error: Aborted"."""
    (tmp_path / "mine.py").write_text(
        ABORTS.format(when="asked == {'max_version': (1, 0)}", imported=0)
    )
    command = ("dlshim_testing", "--producer=mine:Aborts", "--only=^(methods|dtype)")
    out, told = python_m(tmp_path, *command, returncode=2)
    assert not out and "mine:Aborts: the process ended by SIGABRT" in told
    assert "while the target was asked what it claims, by its first export" in told
    assert "--dlpack-claims 2023.12 (pytest) or --claims 2023.12 (python -m) goes on" in told
    assert "The last that it wrote:\n  double free\n" in told
    assert f'  File "{tmp_path}/mine.py", line 9 in __dlpack__\n' in told
    out, _ = python_m(tmp_path, *command, "--claims=2023.12", returncode=1)
    assert " CRASH" in out and not re.search(r"MUST 0/", out) and "does not conform" in out


def test_after_two_crashes_the_like_of_them_are_not_run(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ABORTS.format(when="1", imported=0))
    command = ("dlshim_testing", "--producer=mine:Aborts", "--claims=2023.12", "--json=x.json")
    python_m(tmp_path, *command, "--only=^values.(whole|cube)", returncode=1)
    (report,) = json.loads((tmp_path / "x.json").read_text())
    crashed, skipped = Counter[str](), Counter[str]()
    groups = {name: one.group for name, one in checks("producer").items()}
    for each in report["findings"]:
        (crashed if each["status"] == "crash" else skipped)[groups[each["check"]]] += 1
    assert max(crashed.values()) == 2 and max(skipped.values()) > 2


def test_a_target_that_always_crashes_is_given_up(tmp_path: Path) -> None:
    """Each check of another word crashed twice: 600 processes, and two and a half minutes."""
    (tmp_path / "mine.py").write_text(ABORTS.format(when="1", imported=0))
    command = ("dlshim_testing", "--producer=mine:Aborts", "--claims=2023.12", "--json=x.json")
    python_m(tmp_path, *command, returncode=1)
    (report,) = json.loads((tmp_path / "x.json").read_text())
    crashed = Counter(each["rule"] for each in report["findings"] if each["status"] == "crash")
    assert sum(crashed.values()) == 40 and max(crashed.values()) == 6
    reasons = {each["evidence"] for each in report["findings"] if each["status"] != "crash"}
    assert {"not run: the rule crashed 6 times", "not run: the target crashed 40 times"} < reasons


def test_a_long_run_tells_how_far_it_is(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(main, "EVERY", 0.0)
    report = check_producer(
        wrong_producers.right, only="^dtype", progress=main.progress_of("mine:zeros")
    )
    lines = capsys.readouterr().err.splitlines()
    every = len(report.findings)
    assert lines[0] == f"mine:zeros: 1 of {every} checks" and len(lines) == every


def test_a_target_of_another_driver_is_wrong_itself(tmp_path: Path) -> None:
    """A function of CUDA that ROCm's driver has not was a broken MUST of the producer."""
    compiler()
    target = f"--producer={Path(__file__).with_name('device_memory.py')}:on_device"
    _, told = python_m(
        tmp_path, "dlshim_testing", target, "--driver=hip6", "--only=^methods", returncode=2
    )
    assert "NoFunction: the fake driver hip6 has no function cuCtxSynchronize" in told
    assert "the target is written for another driver than the one that was named" in told


def test_who_never_asks_for_a_capsule_is_told_so_once() -> None:
    """Each rule said it anew, or blamed a consumer for what it had not read."""
    report = check_consumer(Consumer(lambda x: x, claims="2025.12"))
    told = {each.rule for each in report.wrong if "never asks it for a capsule" in each.evidence}
    assert told == {"takes-any"}, str(report)
    assert {each.rule for each in report.wrong} <= {"takes-any", "no-methods", "proxies"}
    assert not report.errors, str(report)


def test_a_crash_at_the_import_says_so(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ABORTS.format(when="0", imported=1))
    told = run(tmp_path, "--dlpack-producer=mine:Aborts", returncode=pytest.ExitCode.USAGE_ERROR)
    assert "while the target was imported" in told and 'mine.py", line 12 in <module>' in told, told
    assert "asked what it claims" not in told


def test_the_command_has_the_name_of_the_public_module_too(tmp_path: Path) -> None:
    """It did nothing, and ended with 0."""
    told = python_m(tmp_path, "dlshim.testing", "--producer", "no_such:target", returncode=2)
    assert "no_such" in told[1]


# ---- targets that hang: `hanging` starts their commands with the first test of this folder -----


@pytest.fixture
def ended(request: pytest.FixtureRequest, hanging: Any) -> tuple[int, str, str]:
    """The status of this test's command, and what it wrote."""
    child = hanging[request.node.name]
    out, told = child.communicate()
    return child.returncode, out, told


def test_a_check_that_hangs_fails_and_the_rest_is_run(ended: Any, hanging_folder: Path) -> None:
    status, told, errors = ended
    assert status == 1, told + errors
    assert "2 failed, 1 passed" in told and "2 HANG | does not conform" in told
    where = f'hang (MUST): no answer within {LIMIT} seconds: File "{hanging_folder}/mine.py", line '
    assert where in told and "in __dlpack__" in told
    assert f"--dlpack-timeout {LIMIT} -k 'copied-flag[whole]'" in told


def test_a_target_that_always_hangs_does_not_hold_the_run_up(ended: Any) -> None:
    status, told, errors = ended
    assert status == 1, told + errors
    assert "| 3 HANG | does not conform" in told and "HANG shape[whole-bare]" in told


def test_a_target_that_hangs_when_it_is_asked_what_it_claims_ends_the_run(ended: Any) -> None:
    status, _, told = ended
    assert status == 2, told
    assert f"mine:AlwaysHangs: no answer within {LIMIT} seconds: File " in told
    assert "while the target was asked what it claims, by its first export" in told


def test_a_child_ends_by_itself_where_nobody_waits_for_it(ended: Any) -> None:
    """The run may be killed while a check hangs; its process must not stay."""
    status, out, told = ended
    assert status == -9, out + told
    for _ in range(4000):
        if not Path(f"/proc/{out.strip()}").exists():
            return
        time.sleep(0.1)
    raise AssertionError("the child is still there after six minutes")
