"""What to expect of the exchanges; starts children, survives their death, collects what they say;
and is the child.

Known limits of consumers, and what dlshim refuses on purpose, are told by ``report``, as for
``inspect``; of a release that is not in its table the nearest one counts.  What is left are the
rows of ``LIMITS``.  None was taken from a run of the matrix.  Where it is not known in which
release a limit fell, the row covers all releases up to one without it: an exchange that works is
never held against a row.

What a child reads is one JSON object: ``{"mode": "bare" | "upgraded", "cells": [...]}``.  Each
cell has the keys of its producer, consumer and case, its libraries, options of ``upgrade`` to
repeat it with when it does not work, and whether to time it.  A line of JSON goes out for each, and
before it a line ``{"begin": number}``, so that the parent knows which exchange killed the process.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import timeit
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TextIO

from .. import known
from ..arrays import row_major
from ..known import version_tuple
from ..report import Facts, Outcome, cure_of, outcomes
from . import libraries
from .libraries import Case, Consumer, Made, Producer, Seen, Take


# ---- what is expected ---------------------------------------------------------------------------
def options(cure: str) -> dict[str, Any]:
    name, _, value = cure.partition("=")
    return {name: ast.literal_eval(value)} if cure else {}


@dataclass(frozen=True)
class Exchange:
    """The facts that the limits speak about."""

    producer: Producer
    consumer: Consumer
    case: Case
    versions: Mapping[str, str]

    def is_old(self, library: str, *below: int) -> bool:
        """Whether a library's release is below another."""
        return version_tuple(self.versions.get(library, "0")) < below

    def made_by(self, library: str, *below: int) -> bool:
        """Whether the array is made by a library, in a release below another."""
        return self.producer.library == library and (not below or self.is_old(library, *below))

    def row(self) -> known.Known:
        """The consumer's row for the release that is here, or the nearest one."""
        consumer = self.consumer
        version = self.versions.get(consumer.asks_through or consumer.library, "0")
        row: known.Known = known.nearest(consumer.rows, version_tuple(version))[0]
        # It is handed x.__dlpack__().
        return replace(row, wants="object", keywords=()) if row.wants == "capsule" else row

    def facts(self) -> Facts:
        producer, case = self.producer, self.case
        version = version_tuple(self.versions.get(producer.library, "0"))
        source = known.source_of(producer.key.replace("_", "-"), version)[0]
        strides = {"transposed": (1, 3), "step": (2,), "reversed": (-1,)}.get(case.layout)
        readonly: bool | None = case.readonly or producer.immutable
        if producer.key == "capsule 0.x":
            readonly = None
        return Facts(
            library=producer.key,
            source=source if source and source.since <= version else None,
            immutable=producer.immutable,
            kind="capsule" if producer.library == "capsule" else "object",
            has_dlpack=producer.library != "stdlib",
            has_buffer=producer.library in ("stdlib", "numpy", "jax"),
            dtype=case.dtype,
            shape=case.shape,
            strides=strides or row_major(case.shape),
            readonly=readonly,
            aligned_to=64,
            device=(1, 0),
        )

    def expected(self) -> tuple[Outcome, Outcome]:
        """What comes of it bare, and upgraded."""
        return outcomes(self.facts(), self.row())


def _limit(why: str, covers: Callable[[Exchange], bool], cure: str = "") -> Covered:
    return Outcome("wrong" if cure else "refused", why=why, cure=cure), covers


Covered = tuple[Outcome, Callable[[Exchange], bool]]

#: Limits of producers, and faults of consumers, that ``inspect`` does not tell.  Of those that are
#: "wrong", nothing on the way can notice it: the consumer shows something else, without an error.
LIMITS: tuple[Covered, ...] = (
    _limit(
        "Arrow packs booleans into bits, which DLPack cannot describe",
        lambda e: e.case.dtype == "bool" and e.made_by("pyarrow"),
    ),
    _limit(
        "torch before 2.6 exports no booleans",
        lambda e: e.case.dtype == "bool" and e.made_by("torch", 2, 6),
    ),
    _limit(
        "this release of the producer labels its booleans as uint8",
        lambda e: (
            e.case.dtype == "bool"
            and (
                e.made_by("onnxruntime")
                or e.made_by("jax", 0, 4, 24)
                or e.made_by("tensorflow", 2, 19)
                or e.made_by("paddle", 3)
            )
        ),
        'reinterpret="bool"',
    ),
    _limit(
        "pyarrow 21 to 25 exports read-only Tensors without their data (rule T12)",
        lambda e: (
            e.case.readonly
            and e.producer.key == "pyarrow.Tensor"
            and e.made_by("pyarrow", 26)
            and not e.made_by("pyarrow", 21)
        ),
    ),
    _limit(
        "jax before 0.10 misreads transposed data that happen to be aligned",
        lambda e: (
            e.case.layout == "transposed" and e.consumer.library == "jax" and e.is_old("jax", 0, 10)
        ),
        'order="C"',
    ),
)


def limit_of(exchange: Exchange) -> Outcome | None:
    """Return the first limit that covers the exchange; None: it should work."""
    own = next((limit for limit, covers in LIMITS if covers(exchange)), None)
    if own and not own.cure:
        return own
    limit = exchange.expected()[1]
    told = own if limit.result == "works" else limit
    if told and exchange.case.dtype == "bool":
        told = replace(told, result="wrong")  # labelled uint8 on the way, or taken for it
    return told and replace(told, cure=cure_of(exchange.facts(), exchange.row(), told))


#: A child that says nothing for so long is ended, and its exchange counts as hanging.
SILENCE_SECONDS = 180.0


@dataclass
class Cell:
    """One exchange: what it is, what is expected of it, what came of it."""

    exchange: Exchange
    limit: Outcome | None
    bare: dict[str, Any] = field(default_factory=dict)
    upgraded: dict[str, Any] = field(default_factory=dict)

    @property
    def works_bare(self) -> bool:
        return self.bare.get("outcome") == "works"

    @property
    def works_upgraded(self) -> bool:
        return self.upgraded.get("outcome") == "works"

    @property
    def works_with_option(self) -> bool:
        return self.upgraded.get("cured", {}).get("outcome") == "works"

    @property
    def fault(self) -> str | None:
        """What is wrong with the upgraded exchange; None when all is as stated."""
        outcome = self.upgraded["outcome"]
        if outcome == "works":
            return None
        limit = self.limit
        stated = limit is not None and (outcome == "refused" or outcome == limit.result == "wrong")
        if limit is None or not stated:
            return str(self.upgraded["detail"])
        if limit.cure and not self.works_with_option:
            return f"with {limit.cure}: {self.upgraded['cured']['detail']}"
        return None

    @property
    def libraries(self) -> tuple[str, ...]:
        producer, consumer = self.exchange.producer, self.exchange.consumer
        return tuple(dict.fromkeys((producer.library, *producer.needs, consumer.library)))

    def job(self, *, cost: bool) -> dict[str, Any]:
        return {
            "producer": self.exchange.producer.key,
            "consumer": self.exchange.consumer.key,
            "case": self.exchange.case.key,
            "cure": options(self.limit.cure) if self.limit else {},
            "libraries": self.libraries,
            "cost": cost and self.exchange.case.key == libraries.COST_CASE,
        }

    def as_json(self) -> dict[str, Any]:
        return {
            "producer": self.exchange.producer.key,
            "consumer": self.exchange.consumer.key,
            "case": self.exchange.case.key,
            "limit": self.limit.why if self.limit else None,
            "bare": self.bare,
            "upgraded": self.upgraded,
            "fault": self.fault,
        }


@dataclass
class Report:
    """All that came of a run."""

    versions: dict[str, str]
    cells: list[Cell]
    #: Libraries that are installed but cannot be imported, with the error.
    broken: dict[str, str] = field(default_factory=dict)
    #: What a library could not make, or has no function to take, with the reason.
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def faults(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.fault]

    def as_json(self) -> dict[str, Any]:
        return {
            "python": sys.version.split()[0],
            "versions": self.versions,
            "broken": self.broken,
            "left_out": self.left_out,
            "faults": len(self.faults),
            "cells": [cell.as_json() for cell in self.cells],
        }


def plan(versions: Mapping[str, str], chosen: set[str]) -> list[Cell]:
    """Return every exchange among the chosen libraries (and what is built in)."""
    here = chosen & (set(versions) | set(known.BUILT_IN))

    def present(consumer: Consumer) -> bool:
        version = known.version_tuple(versions.get(consumer.library, "0"))
        fits = version >= consumer.since and (consumer.until is None or version < consumer.until)
        return consumer.library in here and fits

    cells = []
    for producer in libraries.PRODUCERS:
        if producer.library not in here or not versions.keys() >= set(producer.needs):
            continue
        for consumer in filter(present, libraries.CONSUMERS):
            for key in producer.cases:
                exchange = Exchange(producer, consumer, libraries.CASE_BY_KEY[key], versions)
                cells.append(Cell(exchange, limit_of(exchange)))
    return cells


def _lines(process: subprocess.Popen[str]) -> Iterator[dict[str, Any] | None]:
    """Yield what a child says; None once when it stays silent for too long."""
    said: queue.SimpleQueue[str] = queue.SimpleQueue()
    assert process.stdout is not None
    stdout = process.stdout

    def listen() -> None:
        with stdout:
            for line in stdout:
                said.put(line)
        said.put("")

    threading.Thread(target=listen, daemon=True).start()
    while True:
        try:
            line = said.get(timeout=SILENCE_SECONDS)
        except queue.Empty:
            yield None
            return
        if not line:
            return
        yield json.loads(line)


def _death(process: subprocess.Popen[str], errors: str) -> str:
    code = process.wait()
    try:
        name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
    except ValueError:
        name = f"signal {-code}"
    last = next((line for line in reversed(errors.splitlines()) if line.strip()), "")
    return f"{name}: {last.strip()}" if last else name


class _Child:
    """One child process and the cells that it was given."""

    def __init__(self, mode: str, todo: Sequence[Cell], *, cost: bool) -> None:
        self.mode, self.todo = mode, todo
        self.answered = 0
        self.begun: int | None = None
        self.broken: dict[str, str] = {}
        keys = {key for cell in todo for key in cell.libraries}
        self.job = {
            "mode": mode,
            "libraries": sorted(keys),
            "cells": [cell.job(cost=cost) for cell in todo],
        }

    def talk(self, done: Callable[[Cell], None]) -> str | None:
        """Run until the child ends; return how it died, None when it finished."""
        command = [sys.executable, "-m", f"{__package__}.run"]
        with tempfile.TemporaryFile("w+", errors="replace") as errors:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
            assert process.stdin is not None
            # A child that died at once is told by its end, below.
            with contextlib.suppress(BrokenPipeError), process.stdin as its_input:
                its_input.write(json.dumps(self.job))
            silent = False
            for line in _lines(process):
                if line is None:
                    silent = True
                    process.kill()
                    break
                self._hear(line, done)
            errors.seek(0)
            death = _death(process, errors.read())
        if silent:
            return "hangs"
        return None if process.returncode == 0 else death

    def _hear(self, line: dict[str, Any], done: Callable[[Cell], None]) -> None:
        if "broken" in line:
            self.broken = line["broken"]
        elif "begin" in line:
            self.begun = line["begin"]
        else:
            number = line.pop("number")
            setattr(self.todo[number], self.mode, line)
            self.begun = None
            done(self.todo[number])


def _run_group(
    mode: str,
    cells: Sequence[Cell],
    broken: dict[str, str],
    done: Callable[[Cell], None],
    *,
    cost: bool,
) -> None:
    """Carry out cells in as few children as deaths allow."""
    todo = list(cells)
    while todo:
        child = _Child(mode, todo, cost=cost)
        death = child.talk(done)
        broken.update(child.broken)
        todo = [cell for cell in todo if not getattr(cell, mode)]
        todo = [cell for cell in todo if not broken.keys() & set(cell.libraries)]
        if death is None:
            return
        # Without a begun exchange the imports themselves died: nothing can be done.
        victim = child.todo[child.begun] if child.begun is not None else None
        victims = [victim] if victim else todo
        for cell in victims:
            setattr(cell, mode, {"outcome": "died", "detail": death})
            done(cell)
        todo = [cell for cell in todo if cell not in victims]


def run(
    versions: dict[str, str],
    cells: list[Cell],
    *,
    cost: bool = True,
    progress: Callable[[str], None] = lambda what: None,
) -> Report:
    """Carry out all exchanges, bare and upgraded; ``progress`` is called after each."""
    broken: dict[str, str] = {}

    def group(mode: str, members: list[Cell]) -> None:
        def done(cell: Cell) -> None:
            progress(f"{mode:<8} {cell.exchange.producer.label:<22}")

        _run_group(mode, members, broken, done, cost=cost)

    # Apart, because a bare exchange may harm its process without killing it.
    group("bare", cells)
    group("upgraded", cells)
    kept = [cell for cell in cells if not broken.keys() & set(cell.libraries)]
    left_out = {}
    for cell in kept:
        exchange, told = cell.exchange, cell.bare
        if told["outcome"] == "unmade":
            left_out[f"from {exchange.producer.label}, {exchange.case.title}"] = told["detail"]
        elif told["outcome"] == "unoffered":
            left_out[f"into {exchange.consumer.label}"] = told["detail"]
    kept = [cell for cell in kept if cell.bare["outcome"] not in ("unmade", "unoffered")]
    return Report(versions, kept, broken, left_out)


# ---- the child ------------------------------------------------------------------------------

BATCHES = 5
BATCH_SECONDS = 0.002


def _import_libraries(keys: set[str]) -> dict[str, str]:
    """Import in the order that is known to work; return what cannot be imported."""
    broken = {}
    for library in known.BY_KEY.values():
        if library.key in keys:
            try:
                module = importlib.import_module(library.module)
                if library.key == "warp":
                    module.init()
            except Exception as error:
                broken[library.key] = _told(error)
    return broken


def _told(error: BaseException) -> str:
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first}"


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


def _fault(
    producer: Producer,
    case: Case,
    seen: Seen,
) -> str | None:
    if seen.shape != case.shape:
        return f"wrong: shape {seen.shape} instead of {case.shape}"
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
    producer = libraries.PRODUCER_BY_KEY[cell["producer"]]
    consumer = libraries.CONSUMER_BY_KEY[cell["consumer"]]
    case = libraries.CASE_BY_KEY[cell["case"]]
    try:
        made = producer.make(case)
    except Exception as error:
        return {"outcome": "unmade", "detail": _told(error)}
    try:
        take = function()
        result = take(made.obj)
        seen = consumer.see(result)
    except libraries.NotOffered as error:
        return {"outcome": "unoffered", "detail": str(error)}
    except Exception as error:
        return {"outcome": "refused", "detail": _told(error)}
    fault = _fault(producer, case, seen)
    if fault:
        return {"outcome": "wrong", "detail": fault}
    zero_copy = _is_zero_copy(made, seen)
    told: dict[str, Any] = {"outcome": "works", "zero_copy": zero_copy, "writable": seen.writable}
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


def _carry_out(mode: str, cell: Mapping[str, Any]) -> dict[str, Any]:
    with_cost = cell["cost"] and not libraries.PRODUCER_BY_KEY[cell["producer"]].one_shot
    consumer = libraries.CONSUMER_BY_KEY[cell["consumer"]]
    if mode == "bare":
        return _exchange(cell, consumer.function, with_cost=with_cost)

    def upgraded(options: Mapping[str, Any]) -> Callable[[], Take]:
        return lambda: libraries.upgraded(consumer, options)

    told = _exchange(cell, upgraded({}), with_cost=with_cost)
    if cell["cure"] and told["outcome"] != "works":
        told["cured"] = _exchange(cell, upgraded(cell["cure"]), with_cost=False)
    return told


def _talk(job: Mapping[str, Any], out: TextIO) -> None:
    def say(**line: Any) -> None:
        print(json.dumps(line), file=out, flush=True)

    broken = _import_libraries(set(job["libraries"]))
    say(broken=broken)
    # What the imports left is not looked at again: collecting after each exchange must
    # stay cheap.
    gc.disable()
    gc.collect()
    gc.freeze()
    for number, cell in enumerate(job["cells"]):
        if broken.keys() & set(cell["libraries"]):
            continue
        say(begin=number)
        say(number=number, **_carry_out(job["mode"], cell))


def main() -> None:
    """Read a job from standard input; answer on what standard output was."""
    job = json.load(sys.stdin)
    # Libraries print; what they print must not be taken for an answer.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _talk(job, out)
    out.close()
    # Skip finalisation: ctypes deleters must not run without an interpreter.
    os._exit(0)


if __name__ == "__main__":
    main()
