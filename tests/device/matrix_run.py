"""Carry out the cells of :mod:`device.matrix` or :mod:`device.rocm` on a fake driver; compare."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any
from zlib import crc32

import dlshim
from device import libraries, matrix, rocm
from device.libraries import source_of
from device.matrix import ABSENT, ASKED, Cell, Expected, as_stream
from doubles import capsules as caps
from doubles import device as fake
from doubles import streams, vendors
from drivers.control import DriverError


class Place:
    """Where and on which stream an array of a cell lies."""

    def __init__(self, drv: Any, cell: Cell) -> None:
        self.drv, self.cell, self.vendor = drv, cell, vendors.of(drv)
        self.context = drv.context(cell.device)
        drv.make_current(cell.device)
        self.p = self.stream(cell.p, "P")
        its = libraries.of(drv)
        its.stand_on(self.p)  # the producer works where its library stands
        its.current["torch"].devices = devices = fake.torch_devices(drv)
        devices.target = -1
        devices.unused.clear()
        self.s = self.p if cell.s == "P" else self.stream(self.kind_of_s(), "S")

    def kind_of_s(self) -> str:
        kind_of = rocm.kind_of if self.vendor.is_hip else as_stream
        return kind_of(self.cell.s, self.cell.p)

    def stream(self, kind: str, name: str, device: int | None = None) -> int:
        at = self.cell.device if device is None else device
        return self.vendor.stream(self.drv, kind, at, name)


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
        self.drv.make_current(self.place.cell.device)
        vendors.edge(self.drv, first, second)

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


class Calls:
    """The log of one export, as :func:`device.matrix.sequence` and :func:`device.rocm.sequence`
    write it; `home` is the number of the array's context, in HIP its device."""

    def __init__(self, drv: Any, home: int) -> None:
        self.vendor = vendors.of(drv)
        log = drv.entries()
        self.marks = [entry.text for entry in log if entry.is_mark]
        self.entries = [entry for entry in log if not entry.is_mark] if self.marks else log
        self.own = [entry for entry in self.entries if entry.by == ""]
        self.home = str(home)

    @staticmethod
    def at(drv: Any, device: int) -> Calls:
        hip = vendors.of(drv).is_hip
        return Calls(drv, device if hip else drv.context_number(drv.context(device)))

    def context(self, number: str) -> str:
        return "C" if number == self.home else f"context {number}"

    def line(self, entry: Any) -> str:
        if entry.name == "cuCtxPopCurrent_v2" and "->" not in entry.text:
            return "pop"
        args = entry.args
        failed = f" -> {entry.rc}" if entry.rc else ""
        if self.vendor.is_hip:
            return self.line_of_hip(entry) + failed
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

    def line_of_hip(self, entry: Any) -> str:
        args = entry.args
        if entry.name == "hipSetDevice":
            return "set D" if args["set"] == self.home else "back"
        at = "D" if args["dev"] == self.home else f"device {args['dev']}"
        stream = f" {args['stream']}" if "stream" in args else ""
        return f"{entry.name}{stream} on {at}"

    def effects(self) -> list[str]:
        lines: list[str] = []
        for entry in self.entries:
            if entry.by != "":
                if lines[-1:] != ["producer"]:
                    lines.append("producer")
            elif entry.name not in self.vendor.queries:
                lines.append(self.line(entry))
            if lines[-1:] in (["pop"], ["back"]) and lines[-2:-1] and is_entry(lines[-2]):
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
        vendor = self.vendor
        for entry in self.own:
            if entry.text.startswith(f"{vendor.is_capturing} stream={stream} "):
                return True
            if entry.name in (vendor.record, "cuCtxRecordEvent", vendor.device_sync):
                return False
        return False


def is_entry(line: str) -> bool:
    """What made a context or a device the current one."""
    return line == "set D" or line.startswith("push")


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

    def __init__(self, drv: Any, variant: str, cell: Cell) -> None:
        self.drv, self.variant, self.cell = drv, variant, cell
        self.vendor = vendors.of(drv)
        if self.vendor.is_hip:
            self.wanted, self.producer = rocm.expect(cell), rocm.PRODUCERS[cell.producer]
        else:
            self.wanted = matrix.expect(variant, cell)
            self.producer = matrix.PRODUCERS[cell.producer]
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
        make = libraries.of(drv).make[cell.producer]
        self.array = make(drv, place.p, device=cell.device, shape=shape)
        self.address = self.array.address
        self.captures = Captures(place)
        self.captures.before_write()
        self.check(not drv.write(place.p, self.address), "the write itself races")
        self.captures.after_write()
        drv.make_current(cell.current)
        self.current = drv.now_current()
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
        cell, kind = self.cell, self.vendor.device_type
        if cell.empty and self.producer.reads_dict:
            return 0, (kind, 0), cell.versioned
        unseen = cell.empty and self.producer.says_0  # is believed
        return self.address, (kind, 0 if unseen else cell.device), cell.versioned

    def judge_arguments(self) -> None:
        if not self.producer.called:
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
        calls = Calls.at(drv, self.cell.device)
        effects = calls.effects()
        self.check(effects == wanted.effects, lambda: f"called {effects}, not {wanted.effects}")
        self.problems += calls.problems()
        if self.cell.s == "-1" and wanted.asked < 2:
            allowed = {self.vendor.pointer}
            if not self.vendor.is_hip:
                allowed.add(self.vendor.exchange_mode)
            if self.cell.empty:  # of the pointer 0 there is nothing to ask
                allowed = set()
            own = {entry.name for entry in calls.own}
            if not (self.producer.reads_dict or self.producer.checked):
                allowed = set()
            self.check(own <= allowed, lambda: f"for -1 the driver was called: {own}")
        if self.variant != "9.2":
            self.judge_probes(calls)
        bad = [mark for mark in calls.marks if not mark.startswith("DIED")]
        self.check(not bad, lambda: f"marks: {bad}")
        if (
            self.vendor.is_hip or crc32(str(self.cell).encode()) % 4 == 0
        ):  # marks tell of all but short questions
            held = drv.gil_held_calls(every=True)
            self.check(not held, lambda: f"called with the GIL held: {held}")

    def judge_probes(self, calls: Calls) -> None:
        probes = {
            "edge(P,S)": ("P", "S"),
            "edge(L,S)": ("L", "S"),
            "edge(device,S)": ("L", "S"),
            "sync(device)": ("L", "S"),
        }
        names = {"L": self.vendor.shown, "PTDS": "PTDS"}
        for stream in probes.get(self.wanted.action, ()):
            kind = {"P": self.cell.p, "S": self.place.kind_of_s(), "L": "L"}[stream]
            name = names.get(kind, "P" if stream == "S" and self.cell.s == "P" else stream)
            self.check(calls.probed(name), f"{name} was not asked whether it captures")

    def judge_read(self) -> None:
        if self.wanted.racy is None or self.error is not None:
            return
        drv = self.drv
        if self.captures.running and self.place.s == self.vendor.legacy:
            return  # the default stream must not be used now
        try:
            racy = drv.read(self.place.s, self.address, context=self.place.context)
        except DriverError as error:
            self.check(False, f"the consumer cannot read: {error}")
            return
        wanted = self.wanted.racy
        self.check(racy == wanted, lambda: f"racy: {racy}, not {wanted}: {drv.races()}")

    def judge_end(self) -> None:
        drv = self.drv
        current, events = drv.now_current(), drv.live_events()
        self.check(current == self.current, lambda: f"current: {current}, before {self.current}")
        lost = 1 if self.wanted.dies and self.vendor.destroy_event in self.wanted.effects else 0
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


def warm(drv: Any) -> None:
    """One event in the pool of either device, as it is from the second export on."""
    legacy = vendors.of(drv).legacy
    for device in (0, 1):
        drv.reset()
        drv.make_current(device)
        s = drv.stream_new(device, False)
        x = fake.NoKw(drv, device=device)
        dlshim.upgrade(x, producer_stream=legacy).__dlpack__(stream=s)
    drv.reset()
    assert drv.live_events() >= 2
    caps.close_accounts()


def learn(drv: Any) -> None:
    """Every type has been asked once: from then on its way is known (N1)."""
    legacy = vendors.of(drv).legacy
    for name, make in libraries.of(drv).make.items():
        dlshim.upgrade(source_of(name, make(drv, legacy, device=0))).__dlpack__(stream=-1)
    caps.close_accounts()


def run(
    drv: Any, variant: str, cells: Iterable[Cell], most: int = 12, kind: type[Run] = Run
) -> int:
    """How many cells; AssertionError with the first `most` problems if there are any."""
    count, problems = 0, []
    with libraries.of(drv).imported():
        warm(drv)
        learn(drv)
        for cell in cells:
            count += 1
            one = kind(drv, variant, cell)
            problems += one.go()
            if one.wanted.dies:
                warm(drv)
            if len(problems) >= most:
                break
    assert not problems, "\n".join([f"after {count} cells:", *problems])
    return count


__all__ = ["Expected", "Run", "run"]
