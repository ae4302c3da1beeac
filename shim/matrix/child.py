"""What the child process of trials does for the matrix: imports, and the exchanges.

``matrix/run.py`` asks for them.
"""

from __future__ import annotations

import gc
import importlib
import timeit
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .. import ReadOnlyWarning
from ..known.arrays import Case, Consumer, Made, Producer, Seen
from ..libraries import BY_KEY
from ..text import in_one_line
from . import nanobind_module
from .consumers import CONSUMER_BY_KEY, NotOffered, by_dlshim, function_of, in_line
from .producers import CASE_BY_KEY, PRODUCER_BY_KEY

if TYPE_CHECKING:
    from .consumers import Take

BATCHES = 5
BATCH_SECONDS = 0.002


def _import_libraries(keys: set[str]) -> dict[str, str]:
    """Import in the order that is known to work; return what cannot be imported."""
    broken = {}
    for library in BY_KEY.values():
        if library.key in keys:
            try:
                module = importlib.import_module(library.module)
                if library.key == "warp":
                    module.init()
            except Exception as error:
                broken[library.key] = _told(error)
    return broken


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {in_one_line(str(error))}"


def _nanoseconds(take: Take, obj: Any) -> float:
    """Return the cost of one exchange: the least of a few batches."""
    timer = timeit.Timer("take(obj)", globals={"take": take, "obj": obj})
    rounds = 1
    while (taken := timer.timeit(rounds)) < BATCH_SECONDS:
        rounds = max(rounds + 1, int(rounds * min(1.2 * BATCH_SECONDS / max(taken, 1e-9), 10)))
    return min(timer.repeat(BATCHES, rounds)) / rounds * 1e9


def _churn() -> None:
    """Give freed memory away, so that a dangling result shows other values."""
    gc.collect()
    noise = [bytearray(b"\xa5" * size) for size in (16, 24, 32, 64, 128) for _ in range(50)]
    del noise


def _fault(producer: Producer, consumer: Consumer, case: Case, seen: Seen) -> str | None:
    shape = (len(case.values),) if consumer.flat else case.shape
    if seen.shape != shape:
        return f"wrong: shape {seen.shape} instead of {shape}"
    if seen.values != case.values:
        return f"wrong: values {list(seen.values)} instead of {list(case.values)}"
    if any(type(a) is not type(b) for a, b in zip(seen.values, case.values, strict=True)):
        return f"wrong: {type(seen.values[0]).__name__} instead of {case.dtype}"
    if seen.writable and (case.readonly or producer.immutable):
        return "wrong: the read-only flag is lost"
    return None


def _is_zero_copy(made: Made, seen: Seen) -> bool | None:
    """Return None where either side does not tell its address, or there is no element."""
    if made.address is None or seen.address is None or not seen.values:
        return None
    return made.address == seen.address


def _exchange(
    cell: Mapping[str, Any], function: Callable[[], Take], *, with_cost: bool
) -> dict[str, Any]:
    """Carry out one exchange; ``function`` finds what takes the object."""
    producer = PRODUCER_BY_KEY[cell["producer"]]
    consumer = CONSUMER_BY_KEY[cell["consumer"]]
    case = CASE_BY_KEY[cell["case"]]
    try:
        made = producer.make(case)
    except Exception as error:
        return {"outcome": "unmade", "detail": _told(error)}
    try:
        take = function()
        with warnings.catch_warnings(record=True) as told_of:
            warnings.simplefilter("always", ReadOnlyWarning)
            result = take(made.obj)
        seen = consumer.see(result)
    except NotOffered as error:
        return {"outcome": "unoffered", "detail": str(error)}
    except Exception as error:
        return {"outcome": "refused", "detail": _told(error), "error": type(error).__name__}
    fault = _fault(producer, consumer, case, seen)
    if fault:
        return {"outcome": "wrong", "detail": fault}
    zero_copy = _is_zero_copy(made, seen)
    told: dict[str, Any] = {"outcome": "works", "zero_copy": zero_copy, "writable": seen.writable}
    told["warned"] = any(each.category is ReadOnlyWarning for each in told_of)
    if with_cost:
        told["ns"] = _nanoseconds(take, made.obj)
    del made
    _churn()
    try:
        survived = consumer.see(result).values == case.values
    except Exception:
        survived = False
    if not survived:
        return {"outcome": "wrong", "detail": "wrong: the memory was freed while in use"}
    return told


def libraries(job: Mapping[str, Any]) -> dict[str, Any]:
    """Import libraries, and load nanobind's functions; return what cannot be imported."""
    broken = _import_libraries(set(job["keys"]))
    if job["nanobind"]:
        nanobind_module.load(job["nanobind"])
    # Objects that the imports left are not looked at again: collecting after each exchange
    # must stay cheap.
    gc.disable()
    gc.collect()
    gc.freeze()
    return {"broken": broken}


def exchange(job: Mapping[str, Any]) -> dict[str, Any]:
    """Carry out an exchange: bare, with the plain call of dlshim, or by a line."""
    cell, line = job["cell"], job.get("line")
    with_cost = cell["cost"] and not PRODUCER_BY_KEY[cell["producer"]].one_shot
    consumer = CONSUMER_BY_KEY[cell["consumer"]]
    if line is not None:
        return _exchange(cell, lambda: in_line(consumer, line), with_cost=False)
    way = function_of if job["mode"] == "bare" else by_dlshim
    return _exchange(cell, lambda: way(consumer), with_cost=with_cost)
