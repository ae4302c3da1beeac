"""What people do with an array in a day: the tasks of tasks.toml, bare and upgraded.

Every step of a row is done on the really installed libraries: it must give these values, of this
dtype, or raise this error, and warn of nothing but what the row says.  A cure is typed in after the
text that names it, and its values are compared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from replays.running import missing

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
TASKS: list[dict[str, Any]] = tomllib.loads((HERE / "tasks.toml").read_text())["task"]
ENVIRONMENT = os.environ.get("DLSHIM_INTEROP_ENV", "everyday")

pytestmark = pytest.mark.skipif(
    ENVIRONMENT != "everyday",
    reason="the tasks are judged beside the releases of the environment `everyday`",
)

#: What a row may say of a step; each cure is one.
STEP = {"do", "gives", "dtype", "shares", "raises", "warns", "says"}
ROW = {"what", "needs", "make", "bare", "upgraded", "cure"}


def absent(task: dict[str, Any]) -> str | None:
    return next(filter(None, map(missing, task["needs"])), None)


def steps(task: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The steps of a row by name, in their order."""
    cures = {f"cure {number}": cure for number, cure in enumerate(task.get("cure", []), 1)}
    return {name: task[name] for name in ("bare", "upgraded") if name in task} | cures


def child(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What came of tasks, in one process of two JAX devices."""
    given = [{"make": task.get("make", ""), "steps": steps(task)} for task in tasks]
    done = subprocess.run(
        [sys.executable, str(HERE / "child.py")],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    last = tasks[min(len(answers), len(tasks) - 1)]["what"]
    assert done.returncode == 0, f"ended at: {last}\n{done.stderr[-2000:]}"
    return answers


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, Any]]:
    """Everything that can be done here, by the names of the tasks."""
    here = [task for task in TASKS if not absent(task)]
    answers = child(here)
    return {task["what"]: told for task, told in zip(here, answers, strict=True)}


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task["what"].replace(" ", "-"))
def test_task(task: dict[str, Any], results: dict[str, dict[str, Any]]) -> None:
    if reason := absent(task):
        pytest.skip(reason)
    judge_row(task, results[task["what"]])


def judge_row(task: dict[str, Any], told: dict[str, dict[str, Any]]) -> None:
    """Each step is what the row says, and what is typed in as a cure was named before it."""
    for name, wanted in steps(task).items():
        judge(name, wanted, told[name])
    said = spoken(told["upgraded"])
    for cure in task.get("cure", []):
        assert cure["says"] in said, f"no message says {cure['says']}: {said}"


def judge(name: str, wanted: dict[str, Any], got: dict[str, Any]) -> None:
    call = f"{name}, {wanted['do']}"
    if "raises" in wanted:
        begin, _, piece = wanted["raises"].partition(": ")
        error = got.get("raises", "")
        assert error.startswith(f"{begin}: ") and piece in error, (call, got)
    else:
        for key in ("gives", "dtype", "shares"):
            if key in wanted:
                want = repr(wanted[key]) if key == "gives" else wanted[key]
                assert got.get(key) == want, (call, key, got)
    heard = wanted.get("warns")
    assert bool(heard) == bool(got["warns"]), (call, got["warns"])
    assert all(heard in each for each in got["warns"]), (call, got["warns"])


def spoken(got: dict[str, Any]) -> str:
    """What a step said to its user."""
    return " ".join([got.get("raises", ""), *got.get("warns", [])])


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task["what"].replace(" ", "-"))
def test_row_is_whole(task: dict[str, Any]) -> None:
    assert task.keys() <= ROW and {"what", "needs", "upgraded"} <= task.keys()
    for name, step in steps(task).items():
        assert step.keys() <= STEP and ("gives" in step) != ("raises" in step), name
        assert name.startswith("cure") == ("says" in step), name
        assert not name.startswith("cure") or "raises" not in step, name
        assert step.get("says", "") in step["do"], "type the cure in as the message names it"


def test_names_are_unique() -> None:
    assert len({task["what"] for task in TASKS}) == len(TASKS)


def test_a_wrong_row_fails() -> None:
    """The judge sees another value, another type of number, a missing and a strange warning."""
    step = {"do": "x", "gives": [1, 2], "warns": "RuntimeWarning"}
    right = {"gives": "[1, 2]", "warns": ["RuntimeWarning: text"]}
    judge("bare", step, right)
    wrong: list[dict[str, Any]] = [{"gives": "[1, 3]"}, {"gives": "[1.0, 2.0]"}]
    wrong += [{"warns": []}, {"warns": ["RuntimeWarning: a", "UserWarning: b"]}]
    for change in wrong:
        with pytest.raises(AssertionError):
            judge("bare", step, right | change)
    with pytest.raises(AssertionError):
        judge("bare", {"do": "x", "raises": "TypeError: no"}, right)


def test_a_cure_that_no_message_names_fails() -> None:
    error = {"do": "x", "raises": "TypeError: no"}
    task = {"upgraded": error, "cure": [{"says": "y()", "do": "x.y()", "gives": 1}]}
    cured = {"gives": "1", "warns": []}
    judge_row(task, {"upgraded": {"raises": "TypeError: no; y()", "warns": []}, "cure 1": cured})
    with pytest.raises(AssertionError, match="no message says"):
        judge_row(task, {"upgraded": {"raises": "TypeError: no", "warns": []}, "cure 1": cured})
