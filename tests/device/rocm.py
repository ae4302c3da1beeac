"""The matrix on ROCm: what has to come of every cell (rule S7), and its run.

The axes and the cells are those of :mod:`device.matrix`, with devices instead of contexts, 0 for
the default stream, and no event of a whole device: an unknown P is a wait for the device.  As
there, nothing here is read from dlshim.
"""

from __future__ import annotations

import ctypes as C
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import dlshim
from device import matrix
from device.libraries import Current, CurrentTable, Environment, imported
from device.matrix import (
    ABSENT,
    ASKED,
    CAPTURE,
    CAPTURES,
    NOTHING,
    P_KINDS,
    POLICIES,
    S_ARGUMENTS,
    SYNC,
    UNKNOWN,
    Cell,
    Expected,
    Producer,
    as_stream,
    racy,
)
from doubles import capsules as caps
from doubles import device as fake
from doubles import rocm, streams
from doubles.producers import (
    masquerade,
)
from drivers import HipDriver
from drivers.control import DriverError

# --- what producers are passed, and the task for dlshim (S7) ---------------------------

ROCM, ROCM_HOST = 10, 11
PLACES = tuple(itertools.product((0, 1), repeat=2))  # (device of the array, current device)
WRONG = ("ValueError", "is not a stream of ROCm")

#: For no stream and None, for 0, for -1, for a handle: (passed, task).
ROWS: dict[str, tuple[tuple[object, str], ...]] = {
    "M": ((0, NOTHING), (0, NOTHING), (-1, NOTHING), (ASKED, NOTHING)),
    "torch": ((0, NOTHING), (0, NOTHING), (-1, NOTHING), (ASKED, NOTHING)),
    "U": ((None, NOTHING), (0, NOTHING), (-1, NOTHING), (ASKED, NOTHING)),
    "I": ((None, SYNC), (None, SYNC), (None, NOTHING), (None, SYNC)),
    "O": ((ABSENT, SYNC), (ABSENT, SYNC), (ABSENT, NOTHING), (ABSENT, SYNC)),
}
#: Who syncs with the stream that it is passed.
HONOURING = ("M", "torch", "U")
COLUMNS = {"omitted": 0, "None": 0, "0": 1, "-1": 2, "B": 3, "N": 3}

PRODUCERS = {
    "torch": Producer("torch", picky=True),
    "torch 2.9": Producer("torch", picky=True),
    "torch 2.8": Producer("torch"),
    "cupy": Producer("M"),
    "old cupy": Producer("M"),
    "unheard of": Producer("U"),
    "nanobind": Producer("I"),
    "tvm-ffi": Producer("I", "known"),
    "no keyword": Producer("O"),
    "capsule": Producer("O", called=False),
    "versioned capsule": Producer("O", called=False),
    "toDlpack": Producer("O", called=False),
    "cupy's toDlpack": Producer("O", "known", called=False),
    "table": Producer("O", "known", called=False),
    "cai 2": Producer("O", called=False, reads_dict=True),
    "torch's cai 2": Producer("O", "known", called=False, reads_dict=True),
    "cai 3": Producer("O", "known", called=False, reads_dict=True),
    "cai 3, None": Producer("O", "ready", called=False, reads_dict=True),
    "cai 3, no key": Producer("O", "ready", called=False, reads_dict=True),
}


def kind_of(s: str, p: str) -> str:
    """The kind of stream on which the consumer works."""
    return "L" if s == "0" else as_stream(s, p)


def column(cell: Cell) -> str:
    """What is passed for S; the handles of L and PTDS are 0 and 2."""
    return {"L": "0", "PTDS": "2"}.get(cell.p, cell.p) if cell.s == "P" else cell.s


def is_p(cell: Cell) -> bool:
    return cell.s == "P" or (cell.p == "L" and cell.s in ("omitted", "None", "0"))


def action_of(cell: Cell, task: str) -> str:
    if task == NOTHING:
        return "nothing"
    knows = PRODUCERS[cell.producer].knows
    if (cell.producer, cell.p) == ("tvm-ffi", "L"):
        knows = "unknown"  # its 0 may be the default stream, or that nobody said
    if knows == "ready":
        return "nothing"
    if knows == "known" or cell.named:
        return "nothing" if is_p(cell) else "edge(P,S)"
    if cell.policy == "same":
        return "nothing"
    if cell.policy == "error":
        return "refuse unknown"
    if cell.policy == "legacy":
        return "nothing" if kind_of(cell.s, cell.p) == "L" else "edge(L,S)"
    return "sync(device)"


def with_capture(cell: Cell, action: str) -> tuple[str, bool]:
    """As on CUDA (S14); `matrix` knows no 0."""
    return matrix.with_capture(replace(cell, s="1") if cell.s == "0" else cell, action)


def expect(cell: Cell) -> Expected:
    producer = PRODUCERS[cell.producer]
    if column(cell) in ("1", "2"):
        return Expected(error=WRONG, asked=0)
    passed, task = ROWS[producer.row][COLUMNS[column(cell)]]
    if cell.empty:
        task = NOTHING
    # It would sync with the default stream, and end the capture by that (906).
    assumed = passed == 0 and cell.s in ("omitted", "None") and cell.p != "L" and not cell.empty
    if assumed and (matrix.captured(cell, "L") or matrix.captured(cell, "P")):
        if producer.row != "torch" or cell.s != "omitted":
            return Expected(error=CAPTURE, asked=0)
        passed = -1  # what torch does where no stream is named
    action, dies = with_capture(cell, action_of(cell, task))
    refused = {"refuse unknown": UNKNOWN, "refuse capture": CAPTURE}.get(action)
    expected = Expected(refused, passed, "nothing" if refused else action, dies=dies)
    if refused is None and not cell.empty:
        honours = producer.row in HONOURING and cell.s != "-1" and passed != -1
        same = is_p(cell) and cell.s != "-1"
        kind = kind_of(cell.s, cell.p)
        expected.racy = not honours and not same and racy(action, cell.p, kind)
    if producer.picky and cell.s == "-1" and cell.current != cell.device:
        expected.asked = 2
    expected.effects = sequence(cell, expected)
    return expected


# --- S16: what is called ------------------------------------------------------------------


def name_of(cell: Cell, stream: str) -> str:
    """As the fake's log calls it."""
    own = {"L": "0", "PTDS": "PTDS"}
    if stream == "P" or cell.s == "P":
        return own.get(cell.p, "P")
    return own.get(kind_of(cell.s, cell.p), "S")


def sequence(cell: Cell, expected: Expected) -> list[str]:
    """The calls that change something; D is the array's device.  "set D" and "back" stand only
    where the other device is current, and not around nothing."""
    inner = {
        "edge(P,S)": [
            f"hipEventRecord {name_of(cell, 'P')} on D",
            f"hipStreamWaitEvent {name_of(cell, 'S')} on D",
        ],
        "edge(L,S)": ["hipEventRecord 0 on D", f"hipStreamWaitEvent {name_of(cell, 'S')} on D"],
        "sync(device)": ["hipDeviceSynchronize on D"],
    }.get(expected.action, [])
    if expected.dies:
        inner = ["hipDeviceSynchronize on D -> 900"]
    return [*around_producer(cell, expected), *moved(cell, inner)]


def moved(cell: Cell, calls: list[str]) -> list[str]:
    if not calls or cell.current == cell.device:
        return calls
    return ["set D", *calls, "back"]


def makes_calls(cell: Cell, passed: object) -> bool:
    """Does this library call the runtime when it is asked so?  See doubles.rocm."""
    library = cell.producer
    if PRODUCERS[library].row not in HONOURING:
        return False
    if library in ("torch", "torch 2.9"):
        return True  # looks at the current device
    if passed == -1:
        return False
    return library != "unheard of" or not is_p(cell)


def around_producer(cell: Cell, expected: Expected) -> list[str]:
    called = PRODUCERS[cell.producer].called and expected.asked
    if not called or not makes_calls(cell, expected.passed):
        return []
    if cell.s == "-1":
        again = ["set D", "producer", "back"] if expected.asked == 2 else []
        return ["producer", *again]
    return moved(cell, ["producer"])


# --- the products -------------------------------------------------------------------------


def everywhere() -> Iterator[Cell]:
    for producer, p, s, (device, current) in itertools.product(
        PRODUCERS, P_KINDS, S_ARGUMENTS, PLACES
    ):
        yield Cell(producer, p, s, device, current)


def policies() -> Iterator[Cell]:
    for producer, p, s, policy, named, (device, current) in itertools.product(
        ("nanobind", "no keyword", "capsule", "toDlpack", "cai 2", "cai 3", "torch", "cupy"),
        P_KINDS,
        ("None", "-1", "0", "B", "N", "P"),
        POLICIES,
        (False, True),
        ((0, 0), (1, 0)),
    ):
        cell = Cell(producer, p, s, device, current, policy=policy, named=named)
        if (policy != "auto" or named) and not (named and p == "PTDS"):  # 2 cannot be named
            yield cell


def overridden() -> Iterator[Cell]:
    """The option stream= replaces whatever the consumer passes."""
    for producer, p, s in itertools.product(
        ("torch", "nanobind", "no keyword", "capsule", "cai 3"), P_KINDS, S_ARGUMENTS
    ):
        if s != "omitted":
            yield Cell(producer, p, s, override=True)


def capturing() -> Iterator[Cell]:
    for producer, p, s, capture, policy, named in itertools.product(
        (
            "nanobind",
            "no keyword",
            "capsule",
            "tvm-ffi",
            "table",
            "cai 2",
            "cai 3",
            "cai 3, None",
            "torch",
            "cupy",
        ),
        P_KINDS,
        ("omitted", "None", "-1", "0", "B", "N", "P"),
        CAPTURES,
        ("auto", "legacy", "same"),
        (False, True),
    ):
        cell = Cell(producer, p, s, capture=capture, policy=policy, named=named)
        to_sync = (
            PRODUCERS[producer].row not in HONOURING and PRODUCERS[producer].knows == "unknown"
        )
        if policy != "auto" and (named or not to_sync):
            continue
        if matrix.capture_is_possible(cell) and not (named and p == "PTDS"):
            yield cell


def empty() -> Iterator[Cell]:
    for producer, p, s, (device, current) in itertools.product(
        PRODUCERS, ("L", "N"), S_ARGUMENTS, ((0, 0), (1, 0))
    ):
        yield Cell(producer, p, s, device, current, policy="error", empty=True)


PRODUCTS: dict[str, Callable[[], Iterator[Cell]]] = {
    "everywhere": everywhere,
    "policies": policies,
    "overridden": overridden,
    "capturing": capturing,
    "empty": empty,
}


# --- producers ----------------------------------------------------------------------------


class TvmFfi(rocm.Silent):
    LIBRARY = ("tvm_ffi.core", "Tensor")


class TableOnly(CurrentTable, rocm.OnRocm):
    """A C table and nothing else."""

    def __init__(self, drv: HipDriver, stream: int = 0, **keywords: Any) -> None:
        super().__init__(drv, stream, **keywords)
        CurrentTable.current = None if stream == 0 else stream


CURRENT = {
    "torch": Current(streams.TorchStream, 0),
    "cupy": Current(streams.CupyStream, 0),
    "tvm_ffi": Environment(int, 0),
}


def libraries() -> AbstractContextManager[None]:
    return imported(CURRENT)


def with_current(library: str, cls: type) -> Callable[..., Any]:
    def make(drv: HipDriver, stream: int, **keywords: Any) -> Any:
        CURRENT[library].handle = stream
        return cls(drv, stream, **keywords)

    return make


def cai3(entry: Any) -> Callable[..., Any]:
    return lambda drv, stream, **keywords: rocm.Cai3(drv, stream, entry=entry, **keywords)


def cai3_of_p(drv: HipDriver, stream: int, **keywords: Any) -> Any:
    """0 is not allowed there; the default stream is 1."""
    return rocm.Cai3(drv, stream, entry=stream or 1, **keywords)


MAKE: dict[str, Callable[..., Any]] = {
    "torch": with_current("torch", fake.named(rocm.TorchRocm)),
    "torch 2.9": with_current("torch", fake.named(rocm.Torch29Rocm)),
    "torch 2.8": with_current("torch", fake.named(rocm.TorchOldRocm)),
    "cupy": with_current("cupy", fake.named(rocm.CupyRocm)),
    "old cupy": with_current("cupy", fake.named(rocm.CupyOldRocm)),
    "unheard of": rocm.Careful,
    "nanobind": fake.named(rocm.Silent),
    "tvm-ffi": with_current("tvm_ffi", fake.named(TvmFfi)),
    "no keyword": rocm.NoKw,
    "capsule": rocm.RawFn,
    "versioned capsule": rocm.RawFn,
    "toDlpack": rocm.ToDlpack,
    "cupy's toDlpack": with_current("cupy", masquerade(rocm.ToDlpack, "ndarray", "cupy")),
    "table": TableOnly,
    "cai 2": rocm.Cai2,
    "torch's cai 2": with_current("torch", masquerade(rocm.Cai2, "Tensor", "torch")),
    "cai 3": cai3_of_p,
    "cai 3, None": cai3(None),
    "cai 3, no key": cai3(fake.Cai.DROP),
}
assert MAKE.keys() == PRODUCERS.keys()


def source_of(kind: str, array: Any) -> Any:
    """What upgrade is given."""
    if kind == "capsule":
        return array()
    return array((1, 0)) if kind == "versioned capsule" else array


# --- a cell, carried out ------------------------------------------------------------------

#: Questions: they change nothing.
QUERIES = frozenset(
    (
        *("hipGetDeviceCount", "hipGetDevice", "hipRuntimeGetVersion", "hipGetErrorName"),
        *("hipPointerGetAttributes", "hipGetStreamDeviceId", "hipStreamIsCapturing"),
        *("hipStreamGetCaptureInfo", "hipThreadExchangeStreamCaptureMode", "hipGetLastError"),
    )
)


def effects(drv: HipDriver, device: int) -> list[str]:
    """The log, as :func:`sequence` writes it."""
    lines: list[str] = []
    for entry in drv.entries():
        if entry.by and not entry.is_mark:
            if lines[-1:] != ["producer"]:
                lines.append("producer")
        elif not entry.is_mark and entry.name not in QUERIES:
            lines.append(line_of(entry, str(device)))
        if lines[-2:] == ["set D", "back"]:
            del lines[-2:]
    return lines


def line_of(entry: Any, device: str) -> str:
    args = entry.args
    failed = f" -> {entry.rc}" if entry.rc else ""
    if entry.name == "hipSetDevice":
        return ("set D" if args["set"] == device else "back") + failed
    at = "D" if args["dev"] == device else f"device {args['dev']}"
    stream = f" {args['stream']}" if "stream" in args else ""
    return f"{entry.name}{stream} on {at}{failed}"


class Run:
    """One cell; `problems` says what is wrong."""

    def __init__(self, drv: HipDriver, cell: Cell) -> None:
        self.drv, self.cell = drv, cell
        self.wanted = expect(cell)
        self.problems: list[str] = []
        self.error: BaseException | None = None
        self.taken: caps.Import | None = None
        self.running: list[int] = []

    def check(self, fine: object, problem: str) -> None:
        if not fine:
            self.problems.append(problem)

    # the setting

    def stream(self, kind: str, name: str, device: int | None = None) -> int:
        if kind in ("L", "PTDS"):
            return {"L": 0, "PTDS": 2}[kind]
        at = self.cell.device if device is None else device
        return self.drv.stream_new(at, kind == "B", name=name)

    def set_up(self) -> None:
        drv, cell = self.drv, self.cell
        drv.reset()
        drv.set_device(cell.device)
        self.p = self.stream(cell.p, "P")
        self.s = self.p if cell.s == "P" else self.stream(kind_of(cell.s, cell.p), "S")
        shape = (0, 3) if cell.empty else (2, 3)
        self.array = MAKE[cell.producer](drv, self.p, device=cell.device, shape=shape)
        self.address = self.array.address
        CURRENT["torch"].devices = rocm.TorchDevices(drv)
        self.begin_before_write()
        self.check(not drv.write(self.p, self.address), "the write itself races")
        self.begin_after_write()
        drv.set_device(cell.current or 0)
        self.events = drv.live_events()
        options, self.keywords = self.arguments()
        self.upgraded = dlshim.upgrade(source_of(cell.producer, self.array), **options)
        drv.clear_log()

    def begin(self, stream: int) -> None:
        self.drv.capture_begin(stream, "relaxed")
        self.running.append(stream)

    def begin_before_write(self) -> None:
        if self.cell.capture in ("P", "one", "two"):
            self.begin(self.p)
        if self.cell.capture == "one":
            drv = self.drv
            event = drv.get("hipEventCreateWithFlags", C.c_void_p, 2)
            drv.call("hipEventRecord", event, self.p)
            drv.call("hipStreamWaitEvent", self.s, event, 0)
            drv.call("hipEventDestroy", event)

    def begin_after_write(self) -> None:
        kind = self.cell.capture
        if kind in ("S", "two"):
            self.begin(self.s)
        if kind in ("other B", "other N"):
            self.begin_elsewhere(self.stream(kind[-1], "O"))
        if kind == "elsewhere":
            self.begin_elsewhere(self.stream("B", "O", device=1 - self.cell.device))

    def begin_elsewhere(self, stream: int) -> None:
        thread = threading.Thread(target=self.begin, args=(stream,))
        thread.start()
        thread.join()

    def arguments(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The options of upgrade, and the keywords of __dlpack__."""
        cell = self.cell
        options: dict[str, Any] = {}
        keywords: dict[str, Any] = {"max_version": (1, 0)} if cell.versioned else {}
        if cell.named:
            options["producer_stream"] = self.p
        if cell.policy != "auto":
            options["unknown_stream"] = cell.policy
        numbers: dict[str, Any] = {"None": None, "-1": -1, "0": 0, "1": 1, "2": 2}
        given = numbers.get(cell.s, self.s)
        if cell.override:
            options["stream"] = given
            keywords["stream"] = self.stream("N", "ignored")
        elif cell.s != "omitted":
            keywords["stream"] = given
        return options, keywords

    # what came of it

    def export(self) -> None:
        try:
            self.taken = caps.take(self.upgraded.__dlpack__(**self.keywords))
        except Exception as error:
            self.error = error

    def judge_outcome(self) -> None:
        wanted, error = self.wanted.error, self.error
        told = f"{type(error).__name__}: {error}"
        if wanted is None:
            self.check(error is None, told)
        else:
            self.check(type(error).__name__ == wanted[0] and wanted[1] in str(error), told)
        if self.taken is not None and not (self.cell.empty and self.reads_dict()):
            view = self.taken.view
            seen = (view.data, view.device, view.versioned)
            right = (self.address, (ROCM, self.cell.device), self.cell.versioned)
            self.check(seen == right, f"exported {seen}, not {right}")

    def reads_dict(self) -> bool:
        return PRODUCERS[self.cell.producer].reads_dict

    def judge_arguments(self) -> None:
        if not PRODUCERS[self.cell.producer].called:
            return
        wanted = self.wanted
        calls = len(self.array.calls)
        self.check(calls == wanted.asked, f"asked {calls} times, not {wanted.asked}")
        value = self.s if wanted.passed == ASKED else wanted.passed
        passed = [keywords.get("stream", ABSENT) for keywords in self.array.keywords]
        self.check(not wanted.asked or set(passed) == {value}, f"passed {passed}, not {value}")

    def judge_calls(self) -> None:
        drv, wanted = self.drv, self.wanted
        found = effects(drv, self.cell.device)
        self.check(found == wanted.effects, f"called {found}, not {wanted.effects}")
        own = [entry for entry in drv.entries() if not entry.by and not entry.is_mark]
        if self.cell.s == "-1" and wanted.asked < 2:
            allowed = {"hipPointerGetAttributes"} if self.reads_dict() else set()
            names = {entry.name for entry in own}
            self.check(names <= allowed, f"for -1 the runtime was called: {names}")
        events = {entry.args["ev"] for entry in own if "ev" in entry.args}
        self.check(len(events) <= 1, f"the event {events} waited for is not the recorded one")
        held = drv.gil_held_calls(every=True)
        self.check(not held, f"called with the GIL held: {held}")
        bad = [mark for mark in drv.marks() if not mark.startswith("DIED")]
        self.check(not bad, f"marks: {bad}")

    def judge_read(self) -> None:
        if self.wanted.racy is None or self.error is not None:
            return
        if self.running and self.s == 0:
            return  # the default stream must not be used now
        try:
            racy = self.drv.read(self.s, self.address)
        except DriverError as error:
            self.check(False, f"the consumer cannot read: {error}")
            return
        races = self.drv.races()
        self.check(racy == self.wanted.racy, f"racy: {racy}, not {self.wanted.racy}: {races}")

    def judge_end(self) -> None:
        drv = self.drv
        device, events = drv.device(), drv.live_events()
        self.check(device == self.cell.current, f"device {device} was left current")
        self.check(events == self.events, f"{events} events, before {self.events}")
        states = {drv.capture_state(stream) for stream in self.running}
        alive = {"invalidated"} if self.wanted.dies else {"active"}
        self.check(states <= alive, f"captures are {states}")
        if self.taken is not None:
            self.taken.release()
        self.upgraded = self.taken = None
        exports = getattr(self.array, "exports", ())
        deleted = [made.deleted for made in exports if made.handed_out]
        self.check(set(deleted) <= {1}, f"deleters called {deleted} times")
        caps.close_accounts()

    def go(self) -> list[str]:
        self.set_up()
        self.export()
        self.judge_outcome()
        self.judge_arguments()
        self.judge_calls()
        self.judge_read()
        self.judge_end()
        return [f"{self.cell}: {problem}" for problem in self.problems]


# --- many ---------------------------------------------------------------------------------


def warm(drv: HipDriver) -> None:
    """One event in the pool of either device, as it is from the second export on."""
    for device in (0, 1):
        drv.reset()
        drv.set_device(device)
        s = drv.stream_new(device, False)
        x = rocm.NoKw(drv, 0, device=device)
        dlshim.upgrade(x, producer_stream=0).__dlpack__(stream=s)
    drv.reset()
    assert drv.live_events() == 2, drv.live_events()
    caps.close_accounts()


def learn(drv: HipDriver, names: Iterable[str]) -> None:
    """Every type has been asked once: from then on its way is known (N1)."""
    for name in names:
        x = MAKE[name](drv, 0, device=0)
        dlshim.upgrade(source_of(name, x)).__dlpack__(stream=-1)
    caps.close_accounts()


class Tidy(Run):
    """The frameworks look at hipGetLastError after their own calls, and take for theirs what an
    export has left there: nothing else is judged."""

    def export(self) -> None:
        super().export()
        self.last_error = self.drv.last_error()

    def go(self) -> list[str]:
        super().go()
        error = self.last_error
        return [f"{self.cell}: the error {error} is left for others to meet"] if error else []


def run(
    drv: HipDriver, cells: Iterable[Cell], kind: Callable[..., Run] = Run, most: int = 12
) -> int:
    """How many cells; AssertionError with the first `most` problems if there are any."""
    count, problems = 0, []
    cells = list(cells)
    with libraries():
        warm(drv)
        learn(drv, dict.fromkeys(cell.producer for cell in cells))
        for cell in cells:
            count += 1
            problems += kind(drv, cell).go()
            if len(problems) >= most:
                break
    assert not problems, "\n".join([f"after {count} cells:", *problems])
    return count
