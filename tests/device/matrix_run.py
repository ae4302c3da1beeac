"""Carry out the cells of :mod:`device.matrix` on a fake driver, and compare."""

from __future__ import annotations

import ctypes as C
import threading
import types
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any
from zlib import crc32

import dlshim
from device.libraries import Current, CurrentTable, Environment, Named, imported
from device.matrix import ABSENT, ASKED, PRODUCERS, Cell, Expected, as_stream, expect
from doubles import capsules as caps
from doubles import device as fake
from doubles import streams
from doubles.producers import (
    masquerade,
)
from drivers import Driver
from drivers.control import DriverError

# --- producers ----------------------------------------------------------------------------


class Place:
    """Where and on which stream an array of a cell lies."""

    def __init__(self, drv: Driver, cell: Cell) -> None:
        self.drv, self.cell = drv, cell
        self.context = drv.context(cell.device)
        self.p = self.stream(cell.p, "P")
        for current in CURRENT.values():
            current.handle = self.p  # the producer works where its library stands
        CURRENT["torch"].devices = devices = fake.torch_devices(drv)
        devices.target = -1
        devices.unused.clear()
        self.s = self.p if cell.s == "P" else self.stream(as_stream(cell.s, cell.p), "S")

    def stream(self, kind: str, name: str, device: int | None = None) -> int:
        if kind in ("L", "PTDS"):
            return {"L": 1, "PTDS": 2}[kind]
        at = self.cell.device if device is None else device
        return self.drv.stream_new(at, kind == "B", name=name)


class TvmFfi(fake.Silent):
    """tvm-ffi's Tensor: ignores `stream`; its module says the environment's stream of a device."""

    LIBRARY = ("tvm_ffi.core", "Tensor")


class TableOnly(CurrentTable, fake.OnDevice):
    """A C table and nothing else."""

    def __init__(self, drv: Driver, stream: int = 1, **keywords: Any) -> None:
        super().__init__(drv, stream, **keywords)
        CurrentTable.current = None if stream == 1 else stream


class NumbaArray(fake.Cai2):
    """numba's DeviceNDArray, told to say version 2: `stream` is an attribute of the object."""

    def __init__(self, drv: Driver, stream: int = 1, **keywords: Any) -> None:
        super().__init__(drv, stream, **keywords)
        self.p, self.stream = stream, streams.NumbaStream(0 if stream == 1 else stream)

    def write(self) -> bool:
        return self.own.write()


class WarpArray(fake.Cai2):
    """Warp's array, `__cuda_array_interface__` alone: the stream is the device's."""

    def __init__(self, drv: Driver, stream: int = 1, **keywords: Any) -> None:
        super().__init__(drv, stream, **keywords)
        current = streams.WarpStream(0 if stream == 1 else stream)
        self.device = types.SimpleNamespace(stream=current)


CURRENT = {
    "torch": Current(streams.TorchStream, 1),
    "cupy": Current(streams.CupyStream, 1),
    "tvm_ffi": Environment(int, 1),
    "nvcv": Named(streams.NvcvStream, 1),
}
TorchCai = masquerade(fake.Cai2, "Tensor", "torch")
CupyFunction = masquerade(fake.ToDlpack, "ndarray", "cupy")


def libraries() -> AbstractContextManager[None]:
    return imported(CURRENT)


def with_current(library: str, cls: type) -> Callable[..., Any]:
    def make(drv: Driver, stream: int, **keywords: Any) -> Any:
        CURRENT[library].handle = stream
        return cls(drv, stream, **keywords)

    return make


def cai3(entry: Any) -> Callable[..., Any]:
    return lambda drv, stream, **keywords: fake.Cai3(drv, stream, entry=entry, **keywords)


MAKE: dict[str, Callable[..., Any]] = {
    "torch": fake.named(fake.TorchLike),
    "torch 2.9": fake.named(fake.Torch29),
    "torch 2.8": fake.named(fake.TorchOld),
    "cupy": fake.named(fake.CupyLike),
    "cupy 13": fake.named(fake.Cupy13),
    "warp": fake.named(fake.WarpLike),
    "jax": fake.named(fake.JaxLike),
    "unheard of": fake.WarpLike,
    "nanobind": fake.named(fake.Silent),
    "tvm-ffi": with_current("tvm_ffi", fake.named(TvmFfi)),
    "cv-cuda": fake.named(fake.NvcvLike),
    "no keyword": fake.NoKw,
    "tensorflow": fake.named(fake.TensorFlowLike),
    "capsule": fake.RawFn,
    "versioned capsule": fake.RawFn,
    "toDlpack": fake.ToDlpack,
    "cupy's toDlpack": with_current("cupy", CupyFunction),
    "table": TableOnly,
    "cai 0": fake.Cai0,
    "cai 1": fake.Cai1,
    "cai 2": fake.Cai2,
    "cudf": fake.CudfLike,
    "torch's cai 2": with_current("torch", TorchCai),
    "warp's cai 2": masquerade(WarpArray, "array", "warp._src.types"),
    "numba's cai 2": masquerade(NumbaArray, "DeviceNDArray", "numba.cuda.cudadrv.devicearray"),
    "cai 3": fake.Cai3,
    "cai 3, None": cai3(None),
    "cai 3, no key": cai3(fake.Cai.DROP),
    "numba": fake.named(fake.NumbaLike),
    "pycuda": fake.named(fake.PycudaLike),
    "rmm": fake.named(fake.RmmLike),
    "pylibcudf": fake.named(fake.PylibcudfLike),
}
assert MAKE.keys() == PRODUCERS.keys()


def source_of(kind: str, array: Any) -> Any:
    """What upgrade is given."""
    if kind == "capsule":
        return array()
    return array((1, 0)) if kind == "versioned capsule" else array


# --- captures -----------------------------------------------------------------------------


class Captures:
    """Begin those of a cell; the write on P comes before, or in between."""

    def __init__(self, place: Place) -> None:
        self.place, self.drv, self.kind = place, place.drv, place.cell.capture
        self.running: list[int] = []

    def begin(self, stream: int) -> None:
        self.drv.capture_begin(stream, "relaxed")
        self.running.append(stream)

    def before_write(self) -> None:
        if self.kind in ("P", "one", "two"):
            self.begin(self.place.p)
        if self.kind == "one":
            self.join(self.place.p, self.place.s)

    def join(self, first: int, second: int) -> None:
        """`second` goes on in the capture of `first`."""
        drv = self.drv
        drv.set_current(self.place.context)
        event = drv.get("cuEventCreate", C.c_void_p, 2)
        drv.call("cuEventRecord", event, first)
        drv.call("cuStreamWaitEvent", second, event, 0)
        drv.call("cuEventDestroy_v2", event)

    def after_write(self) -> None:
        if self.kind in ("S", "two"):
            self.begin(self.place.s)
        if self.kind in ("other B", "other N"):
            self.elsewhere(self.place.stream(self.kind[-1], "O"))
        if self.kind == "elsewhere":
            self.elsewhere(self.place.stream("B", "O", device=1 - self.place.cell.device))

    def elsewhere(self, stream: int) -> None:
        """On another thread, which is slow: in a quarter of the cells."""
        if self.place.cell.p != "L":
            self.begin(stream)
            return
        thread = threading.Thread(target=self.begin, args=(stream,))
        thread.start()
        thread.join()

    def states(self) -> set[str]:
        return {self.drv.capture_state(stream) for stream in self.running}


# --- what dlshim called -------------------------------------------------------------------

#: Questions: they change nothing.
QUERIES = frozenset(
    (
        *("cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuPointerGetAttributes"),
        *("cuDeviceGet", "cuDeviceGetAttribute"),
        *("cuDevicePrimaryCtxGetState", "cuDevicePrimaryCtxRetain"),
        "cuDevicePrimaryCtxRelease",
        *("cuCtxGetCurrent", "cuCtxGetDevice", "cuCtxGetId", "cuStreamGetCtx"),
        *("cuStreamIsCapturing", "cuStreamGetCaptureInfo", "cuThreadExchangeStreamCaptureMode"),
    )
)


class Calls:
    """The log of one export, as :func:`device.matrix.sequence` writes it."""

    def __init__(self, drv: Driver, home: int) -> None:
        log = drv.entries()
        self.marks = [entry.text for entry in log if entry.is_mark]
        self.entries = [entry for entry in log if not entry.is_mark] if self.marks else log
        self.own = [entry for entry in self.entries if entry.by == ""]
        self.home = str(home)

    def context(self, number: str) -> str:
        return "C" if number == self.home else f"context {number}"

    def line(self, entry: Any) -> str:
        if entry.name == "cuCtxPopCurrent_v2" and "->" not in entry.text:
            return "pop"
        args = entry.args
        failed = f" -> {entry.rc}" if entry.rc else ""
        at = self.context(args["ctx"])
        texts = {
            "cuCtxPushCurrent_v2": lambda: f"push {self.context(args['push'])}",
            "cuCtxPopCurrent_v2": lambda: "pop",
            "cuEventRecord": lambda: f"cuEventRecord {args['stream']} in {at}",
            "cuCtxRecordEvent": lambda: f"cuCtxRecordEvent {self.context(args['of'])} in {at}",
            "cuStreamWaitEvent": lambda: f"cuStreamWaitEvent {args['stream']} in {at}",
            "cuStreamSynchronize": lambda: f"cuStreamSynchronize {args['stream']} in {at}",
            "cuCtxSynchronize": lambda: f"cuCtxSynchronize {at}",
        }
        return texts.get(entry.name, lambda: entry.name)() + failed

    def effects(self) -> list[str]:
        lines: list[str] = []
        for entry in self.entries:
            if entry.by != "":
                if lines[-1:] != ["producer"]:
                    lines.append("producer")
            elif entry.name not in QUERIES:
                lines.append(self.line(entry))
            if lines[-1:] == ["pop"] and len(lines) > 1 and lines[-2].startswith("push"):
                del lines[-2:]
        return lines

    def problems(self) -> list[str]:
        """What must hold for every sequence."""
        found = []
        events = [entry.args["ev"] for entry in self.own if " ev=" in entry.text]
        if len(set(events)) > 1:
            found.append(f"events {events}: the one that is waited for is not the recorded one")
        blind = [
            e.text for e in self.own if e.name == "cuDevicePrimaryCtxRetain" and "CREATED" in e.text
        ]
        return found + [f"{text}: a context was made" for text in blind]

    def probed(self, stream: str) -> bool:
        """Was the stream asked whether it captures, before anything was done?"""
        for entry in self.own:
            if entry.text.startswith(f"cuStreamIsCapturing stream={stream} "):
                return True
            if entry.name in ("cuEventRecord", "cuCtxRecordEvent", "cuCtxSynchronize"):
                return False
        return False


# --- a cell -------------------------------------------------------------------------------


def in_form(cell: Cell, stream: int | None) -> Any:
    if not cell.form:
        return stream
    return streams.forms(0 if stream in (None, 1) else stream)[cell.form]


def arguments(cell: Cell, place: Place) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of upgrade, and the keywords of __dlpack__."""
    options: dict[str, Any] = {}
    keywords: dict[str, Any] = {"max_version": (1, 0)} if cell.versioned else {}
    if cell.named:
        options["producer_stream"] = in_form(cell, place.p)
    if cell.policy != "auto":
        options["unknown_stream"] = cell.policy
    numbers: dict[str, Any] = {"None": None, "-1": -1, "0": 0, "1": 1, "2": 2}
    given = in_form(cell, numbers.get(cell.s, place.s))
    if cell.override:
        options["stream"] = given
        keywords["stream"] = place.stream("N", "ignored")
    elif cell.s != "omitted":
        keywords["stream"] = given
    return options, keywords


def passed_to(array: Any, calls: int) -> list[Any]:
    """The stream keyword of each call of the producer."""
    return [keywords.get("stream", ABSENT) for keywords in array.keywords[-calls:]]


class Run:
    """One cell on one driver; `problems` says what is wrong."""

    def __init__(self, drv: Driver, variant: str, cell: Cell) -> None:
        self.drv, self.variant, self.cell = drv, variant, cell
        self.wanted = expect(variant, cell)
        self.problems: list[str] = []
        self.error: BaseException | None = None
        self.taken: caps.Import | None = None

    def check(self, fine: object, problem: Callable[[], str] | str) -> None:
        if not fine:
            self.problems.append(problem if isinstance(problem, str) else problem())

    def set_up(self) -> None:
        drv, cell = self.drv, self.cell
        drv.reset()
        self.place = place = Place(drv, cell)
        shape = (0, 3) if cell.empty else (2, 3)
        self.array = MAKE[cell.producer](drv, place.p, device=cell.device, shape=shape)
        self.address = self.array.address
        self.captures = Captures(place)
        self.captures.before_write()
        self.check(not drv.write(place.p, self.address), "the write itself races")
        self.captures.after_write()
        drv.set_current(None if cell.current is None else drv.context(cell.current))
        self.stack = drv.context_stack()
        self.events = drv.live_events()
        options, self.keywords = arguments(cell, place)
        self.asked_before = len(getattr(self.array, "calls", ()))
        self.upgraded = dlshim.upgrade(source_of(cell.producer, self.array), **options)
        drv.clear_log()

    def export(self) -> None:
        try:
            self.taken = caps.take(self.upgraded.__dlpack__(**self.keywords))
        except Exception as error:
            self.error = error

    def judge_outcome(self) -> None:
        wanted, error = self.wanted.error, self.error
        if wanted is None:
            self.check(error is None, lambda: f"{type(error).__name__}: {error}")
        else:
            name = type(error).__name__
            self.check(name == wanted[0] and wanted[1] in str(error), lambda: f"{name}: {error}")
        if self.taken is not None:
            view = self.taken.view
            seen = (view.data, view.device, view.versioned)
            told = self.told()
            self.check(seen == told, lambda: f"exported {seen}, not {told}")

    def told(self) -> tuple[Any, ...]:
        """Address, device and generation.  An empty interface dict has no address and no device."""
        cell = self.cell
        if cell.empty and PRODUCERS[cell.producer].reads_dict:
            return 0, (2, 0), cell.versioned
        unseen = cell.empty and PRODUCERS[cell.producer].says_0  # is believed
        return self.address, (2, 0 if unseen else cell.device), cell.versioned

    def judge_arguments(self) -> None:
        if not PRODUCERS[self.cell.producer].called:
            return
        wanted = self.wanted
        calls = len(self.array.calls)
        self.check(calls == wanted.asked, lambda: f"asked {calls} times, not {wanted.asked}")
        if wanted.asked:
            value = self.place.s if wanted.passed == ASKED else wanted.passed
            passed = passed_to(self.array, wanted.asked)
            self.check(set(passed) == {value}, lambda: f"passed {passed}, not {value}")

    def judge_calls(self) -> None:
        drv, wanted = self.drv, self.wanted
        calls = Calls(drv, drv.context_number(self.place.context))
        effects = calls.effects()
        self.check(effects == wanted.effects, lambda: f"called {effects}, not {wanted.effects}")
        self.problems += calls.problems()
        if self.cell.s == "-1" and wanted.asked < 2:
            allowed = {"cuPointerGetAttributes", "cuThreadExchangeStreamCaptureMode"}
            if self.cell.empty:  # of the pointer 0 there is nothing to ask
                allowed = set()
            own = {entry.name for entry in calls.own}
            of = PRODUCERS[self.cell.producer]
            if not (of.reads_dict or of.checked):
                allowed = set()
            self.check(own <= allowed, lambda: f"for -1 the driver was called: {own}")
        if self.variant != "9.2":
            self.judge_probes(calls)
        bad = [mark for mark in calls.marks if not mark.startswith("DIED")]
        self.check(not bad, lambda: f"marks: {bad}")
        if crc32(str(self.cell).encode()) % 4 == 0:  # marks tell of all but short questions
            held = drv.gil_held_calls(every=True)
            self.check(not held, lambda: f"called with the GIL held: {held}")

    def judge_probes(self, calls: Calls) -> None:
        probes = {
            "edge(P,S)": ("P", "S"),
            "edge(L,S)": ("L", "S"),
            "edge(device,S)": ("L", "S"),
            "sync(device)": ("L", "S"),
        }
        names = {"L": "L", "PTDS": "PTDS"}
        for stream in probes.get(self.wanted.action, ()):
            kind = {"P": self.cell.p, "S": as_stream(self.cell.s, self.cell.p), "L": "L"}[stream]
            name = names.get(kind, "P" if stream == "S" and self.cell.s == "P" else stream)
            self.check(calls.probed(name), f"{name} was not asked whether it captures")

    def judge_read(self) -> None:
        if self.wanted.racy is None or self.error is not None:
            return
        drv = self.drv
        if self.captures.running and self.place.s == 1:
            return  # the legacy stream must not be used now
        try:
            racy = drv.read(self.place.s, self.address, context=self.place.context)
        except DriverError as error:
            self.check(False, f"the consumer cannot read: {error}")
            return
        wanted = self.wanted.racy
        self.check(racy == wanted, lambda: f"racy: {racy}, not {wanted}: {drv.races()}")

    def judge_end(self) -> None:
        drv = self.drv
        stack, events = drv.context_stack(), drv.live_events()
        self.check(stack == self.stack, lambda: f"context stack {stack}, before {self.stack}")
        lost = 1 if self.wanted.dies and "cuEventDestroy_v2" in self.wanted.effects else 0
        self.check(events == self.events - lost, lambda: f"{events} events, before {self.events}")
        states = self.captures.states()
        alive = {"invalidated"} if self.wanted.dies else {"active"}
        self.check(states <= alive, lambda: f"captures are {states}")
        self.give_back()

    def give_back(self) -> None:
        if self.taken is not None:
            self.taken.release()
        self.upgraded = self.taken = None
        exports = getattr(self.array, "exports", ())
        deleted = [made.deleted for made in exports if made.handed_out]
        self.check(set(deleted) <= {1}, lambda: f"deleters called {deleted} times")
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


def warm(drv: Driver) -> None:
    """One event in the pool of either context, as it is from the second export on."""
    for device in (0, 1):
        drv.reset()
        drv.set_current(drv.context(device))
        s = drv.stream_new(device, False)
        dlshim.upgrade(fake.NoKw(drv, 1, device=device), producer_stream=1).__dlpack__(stream=s)
    drv.reset()
    assert drv.live_events() >= 2
    caps.close_accounts()


def learn(drv: Driver) -> None:
    """Every type has been asked once: from then on its way is known (N1)."""
    for name, make in MAKE.items():
        dlshim.upgrade(source_of(name, make(drv, 1, device=0))).__dlpack__(stream=-1)
    caps.close_accounts()


def run(drv: Driver, variant: str, cells: Iterable[Cell], most: int = 12) -> int:
    """How many cells; AssertionError with the first `most` problems if there are any."""
    count, problems = 0, []
    with libraries():
        warm(drv)
        learn(drv)
        for cell in cells:
            count += 1
            one = Run(drv, variant, cell)
            problems += one.go()
            if one.wanted.dies:
                warm(drv)
            if len(problems) >= most:
                break
    assert not problems, "\n".join([f"after {count} cells:", *problems])
    return count


__all__ = ["Expected", "Run", "run"]
