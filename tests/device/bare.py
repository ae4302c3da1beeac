"""The bare column: one exchange without dlshim and the same with it, on one fake driver.

A case is carried out twice, each time from nothing: the producer writes on P, the consumer asks
with its keywords, and reads on S.  ``compare`` says what became worse: "ordered" must not become a
race, a served exchange not a refusal, an edge not a host wait, a live capture not a dead one.  The
exceptions are those that the rules count (docs/rules.rst T12, docs/streams.rst S12), and each has a
name, under which it is counted.

The vendor is an axis: ``CUDA`` and ``HIP`` say what differs.  Nothing here knows what should be
passed or called; that is ``matrix`` and ``rocm``.
"""

from __future__ import annotations

import contextlib
import functools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import dlshim
from device import libraries, matrix, rocm
from device.matrix import CAPTURES, P_KINDS, POLICIES, S_ARGUMENTS, Cell
from dlshim import _core
from doubles import capsules as caps
from doubles import device as fake
from doubles import vendors
from drivers.control import DriverError, Fake

REFUSALS = (TypeError, ValueError, NotImplementedError, AssertionError, RuntimeError)


# --- producers that the matrix has no rules for ---------------------------------------------------


def unheard(base: type, name: str, **members: Any) -> type:
    """A class of a library that nobody knows."""
    return type(name, (base,), members)


def careful(base: type) -> type:
    """Takes None for "no sync", as MegEngine does; otherwise the standard's rules."""

    def answer(self: Any, stream: Any = None) -> Any:
        return base.answer(self, -1 if stream is None else stream)  # type: ignore[attr-defined]

    return unheard(base, "Careful", answer=answer)


def refusing(base: type) -> dict[str, type]:
    """One class for each error by which streams are refused."""
    return {
        f"refuses by {error.__name__}": unheard(base, error.__name__, error=error)
        for error in REFUSALS
    }


#: Asked through `__dlpack__`, or not: who has none is taken as it is.
METHOD_LESS = ("capsule", "versioned capsule", "toDlpack", "cupy's toDlpack")


class Crash(Exception):
    """Bare, the library gives the driver a number that is no stream."""


@dataclass(frozen=True)
class Bare:
    """What one vendor's libraries do without dlshim."""

    its: libraries.Libraries
    vendor: vendors.Vendor
    #: Producers that the matrix has no rules for.
    more: dict[str, Any]
    #: A producer and an S of which the library makes a handle that is none.
    fatal: tuple[str, str]
    kind_of: Callable[[str, str], str]
    products: dict[str, Callable[[], Iterator[Cell]]]

    @functools.cached_property
    def make(self) -> dict[str, Any]:
        return {**self.its.make, **refusing(fake.Refusing), **self.more}

    @property
    def producers(self) -> tuple[str, ...]:
        return tuple(name for name in self.make if name != "table")

    def crashes(self, cell: Cell) -> bool:
        return (cell.producer, cell.s) == self.fatal

    def begin(self, drv: Any, case: Case) -> None:
        devices = self.its.current["torch"].devices = fake.torch_devices(drv)
        devices.target, devices.unused = -1, set()
        if case.parked:
            devices.target, devices.unused = 1 - case.cell.device, {1 - case.cell.device}

    def join(self, drv: Any, device: int, first: int, second: int) -> None:
        """`second` goes on in the capture of `first`."""
        if not self.vendor.is_hip:
            drv.make_current(device)
        vendors.edge(drv, first, second)


CUDA = Bare(
    its=libraries.CUDA,
    vendor=vendors.CUDA,
    more={
        "jax without streams": fake.named(fake.JaxWithoutStreams),
        "pyav": fake.named(fake.VideoPlane),
        "careful": careful(fake.WarpLike),
        "careless": unheard(fake.Silent, "Careless"),
    },
    fatal=("jax", "-1"),
    kind_of=matrix.as_stream,
    products=matrix.PRODUCTS,
)
HIP = Bare(
    its=libraries.ROCM,
    vendor=vendors.ROCM,
    more={
        "careful": careful(fake.Careful),
        "careless": unheard(fake.Silent, "Careless"),
    },
    fatal=("torch 2.8", "1"),
    kind_of=rocm.kind_of,
    products=rocm.PRODUCTS,
)


def bare_of(drv: Fake) -> Bare:
    return HIP if vendors.of(drv).is_hip else CUDA


# --- a case ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    cell: Cell
    parked: bool = False  # torch has noted the other device, which has no context (CUDA)
    named: bool = False  # producer_stream= says P
    silent: bool = False  # S is not passed
    road: str = "upgrade"
    unmet: bool = False  # dlshim has not met the type

    def __str__(self) -> str:
        told = ", parked" * self.parked + ", producer_stream=P" * self.named
        return f"{self.cell}{told}, {self.road}" + ", unmet" * self.unmet


@dataclass
class Outcome:
    error: BaseException | None = None
    racy: bool | None = None  # None: there was no read to judge
    waited: bool = False  # the host
    edges: int = 0
    dead: bool = False  # a capture
    passed: list[Any] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{type(self.error).__name__ if self.error else 'served'}, racy {self.racy}, "
            f"waited {self.waited}, {self.edges} edges, dead {self.dead}, passed {self.passed}"
        )


class Scene:
    """Everything up to the exchange; then what came of it."""

    def __init__(self, drv: Any, case: Case) -> None:
        self.drv, self.case, self.cell, self.gpu = drv, case, case.cell, bare_of(drv)
        drv.reset()
        cell = self.cell
        drv.make_current(cell.device)
        self.p = self.stream(cell.p, "P")
        self.gpu.its.stand_on(self.p)
        self.gpu.begin(drv, case)
        kind = self.gpu.kind_of(cell.s, cell.p)
        self.s = self.p if cell.s == "P" else self.stream(kind, "S")
        shape = (0, 3) if cell.empty else (2, 3)
        self.array = self.gpu.make[cell.producer](drv, self.p, device=cell.device, shape=shape)
        self.running: list[int] = []
        self.captures_before_write()
        self.array.write()
        self.captures_after_write()
        drv.make_current(cell.current)
        drv.clear_log()

    def stream(self, kind: str, name: str, device: int | None = None) -> int:
        at = self.cell.device if device is None else device
        return self.gpu.vendor.stream(self.drv, kind, at, name)

    def capture(self, stream: int) -> None:
        self.drv.capture_begin(stream, "relaxed")
        self.running.append(stream)

    def captures_before_write(self) -> None:
        if self.cell.capture in ("P", "one", "two"):
            self.capture(self.p)
        if self.cell.capture == "one":
            self.gpu.join(self.drv, self.cell.device, self.p, self.s)

    def captures_after_write(self) -> None:
        kind = self.cell.capture
        if kind in ("S", "two"):
            self.capture(self.s)
        if kind in ("other B", "other N"):
            self.capture(self.stream(kind[-1], "O"))
        if kind == "elsewhere":
            self.capture(self.stream("B", "O", device=1 - self.cell.device))

    def keywords(self) -> dict[str, Any]:
        numbers: dict[str, Any] = {"None": None, "-1": -1, "0": 0, "1": 1, "2": 2}
        given = {"max_version": (1, 0)} if self.cell.versioned else {}
        if self.cell.s != "omitted" and not self.case.silent:
            given["stream"] = numbers.get(self.cell.s, self.s)
        return given

    def options(self) -> dict[str, Any]:
        named = {"producer_stream": self.p} if self.case.named else {}
        policy = self.cell.policy
        return named | ({"unknown_stream": policy} if policy != "auto" else {})

    # the exchange

    def bare(self) -> Any:
        """What a consumer does that knows all of the protocols, with one second try."""
        name, x, keywords = self.cell.producer, self.array, self.keywords()
        if self.gpu.crashes(self.cell) and not self.case.silent:
            raise Crash
        if name in METHOD_LESS:
            return x.toDlpack() if "toDlpack" in name else libraries.source_of(name, x)
        if not hasattr(x, "__dlpack__"):
            self.honour(x.__cuda_array_interface__)
            return None
        try:
            return x.__dlpack__(**keywords)
        except TypeError:
            keywords.pop("max_version", None)
            return x.__dlpack__(**keywords)

    def honour(self, interface: dict[str, Any]) -> None:
        """The consumer's duty of version 3: its stream waits for the one that is named."""
        p = interface.get("stream")
        if p is None or self.cell.s == "-1" or self.cell.empty:
            return
        p = self.gpu.vendor.legacy if p == 1 else p
        if p != self.s:
            with self.drv.caller("consumer"):
                self.gpu.join(self.drv, self.cell.device, p, self.s)

    def upgraded(self) -> Any:
        if self.case.unmet:
            _core._hook("forget_plans")
        source = libraries.source_of(self.cell.producer, self.array)
        options, keywords = self.options(), self.keywords()
        if self.case.road == "to_capsule":
            return dlshim.to_capsule(source, **options, **keywords)
        producer = dlshim.upgrade(source, **options)
        if self.case.road == "Tensor":
            stream = {name: keywords.pop(name) for name in ("stream",) if name in keywords}
            producer = dlshim.from_dlpack(producer, **stream)
            keywords["stream"] = -1  # the Tensor is synced with S, and read there
        return producer.__dlpack__(**keywords)

    def run(self, exchange: Callable[[Scene], Any]) -> Outcome:
        outcome, taken = Outcome(), None
        try:
            capsule = exchange(self)
            taken = caps.take(capsule) if capsule is not None else None
        except Exception as error:
            outcome.error = error
        names = [entry.name for entry in self.drv.entries()]
        outcome.waited = any(name in self.gpu.vendor.syncs for name in names)
        outcome.edges = names.count(self.gpu.vendor.wait)
        outcome.dead = any(self.drv.capture_state(s) != "active" for s in self.running)
        asked = getattr(self.array, "keywords", ())
        outcome.passed = [keywords.get("stream", matrix.ABSENT) for keywords in asked]
        self.read(outcome)
        if taken is not None:
            taken.release()
        return outcome

    def read(self, outcome: Outcome) -> None:
        usable = not (self.running and self.s == self.gpu.vendor.legacy) and not outcome.dead
        if outcome.error is None and usable and not self.cell.empty:
            try:
                owner = self.drv.context(self.cell.device)
                outcome.racy = self.drv.read(self.s, self.array.address, context=owner)
            except DriverError:
                return


# --- the comparison -------------------------------------------------------------------------------

CAPTURE_REFUSED = "a graph capture is running, and this export would break it"
#: Exchanges that are refused on purpose: by what they say, and when they may.
REFUSED: dict[str, Callable[[Case, BaseException], bool]] = {
    "refused: it would break a graph capture (T12)": lambda case, error: (
        case.cell.capture not in ("none", "elsewhere") and CAPTURE_REFUSED in str(error)
    ),
    "refused: no stream of the device (S1)": lambda case, error: (
        isinstance(error, ValueError) and "is not a stream of" in str(error)
    ),
    'refused: unknown_stream="error"': lambda case, error: (
        case.cell.policy == "error" and "unknown_stream=" in str(error)
    ),
}


def hidden_capture(case: Case) -> bool:
    """A stream that L does not wait for captures, so no question shows it (S12)."""
    cell = case.cell
    return (cell.capture == "other N" or (cell.capture in ("P", "one", "two") and cell.p == "N")
            or (cell.capture in ("S", "one", "two") and cell.s in ("N", "P")))  # fmt: skip


def judge(case: Case, bare: Outcome, upgraded: Outcome, device_wide: bool) -> tuple[str, str]:
    """What is worse ("" if nothing is), and under which name the case is counted."""
    if upgraded.dead and not bare.dead:
        if device_wide and case.cell.policy == "auto" and hidden_capture(case):
            return "", "the documented warning: a wait for the whole device ended a capture (S12)"
        return "a live capture became a dead one", ""
    if bare.error is not None:
        return "", "cured" if upgraded.error is None else "refused by both"
    if upgraded.error is not None:
        for name, applies in REFUSED.items():
            if applies(case, upgraded.error):
                return "", name
        return "a served exchange became a refusal", ""
    if bare.racy is False and upgraded.racy:
        return "ordered became a race", ""
    if bare.racy and upgraded.racy is False:
        return "", "a race became ordered"
    if upgraded.waited and case.road == "to_capsule" and case.cell.s == "omitted":
        return "", "to_capsule waits where no stream is given (S25)"
    if upgraded.waited and not bare.waited and bare.edges:
        return "an edge became a host wait", ""
    if upgraded.waited and not bare.waited:
        return "", "the host waits where nobody tells P and no event stands for a device (S12)"
    alike = {None: "alike, with no read to judge", True: "racy in both", False: "ordered in both"}
    return "", alike[upgraded.racy]


DEVICE_WIDE = ("cuCtxRecordEvent", "cuCtxSynchronize", "hipDeviceSynchronize")


def bare_outcome(drv: Any, case: Case) -> Outcome:
    outcome = Scene(drv, case).run(Scene.bare)
    caps.close_accounts()
    return outcome


def counterparts(case: Case, bare: Outcome) -> Iterator[tuple[str, Case]]:
    """Other exchanges that are bare what this one is upgraded.

    With another device current the library has refused, or synced that device's stream; dlshim
    makes the array's current, and from there on the library does what it does bare (S15).  Who has
    refused the stream, or would crash, is asked without one, and may wait then (N2, N6).
    """
    cell = replace(case.cell, current=case.cell.device)
    if case.parked or case.cell.current != case.cell.device:
        yield "as bare with the array's device current (S15)", Case(cell, named=case.named)
    if bare.error is not None:
        there = Case(cell, named=case.named, silent=True)
        yield "as bare without a stream, where bare refuses it or crashes (N2, N6)", there


def compare(drv: Any, case: Case) -> tuple[str, str]:
    """A problem, told in full, or "", and the name for the count."""
    bare = bare_outcome(drv, case)
    upgraded = Scene(drv, case).run(Scene.upgraded)
    caps.close_accounts()
    own = {entry.name for entry in drv.entries() if not entry.by}
    device_wide = bool(own.intersection(DEVICE_WIDE))
    worse, name = judge(case, bare, upgraded, device_wide)
    for why, there in counterparts(case, bare) if worse else ():
        if not judge(case, bare_outcome(drv, there), upgraded, device_wide)[0]:
            return "", why
    told = f"{case}: {worse}\n    bare:     {bare}\n    upgraded: {upgraded} {upgraded.error or ''}"
    return (told, "") if worse else ("", name)


# --- cases ----------------------------------------------------------------------------------------


def possible(case: Case) -> bool:
    """L cannot capture, nor is the per-thread stream made to."""
    cell = case.cell
    s_must = cell.capture in ("S", "one", "two")
    p_must = cell.capture in ("P", "one", "two")
    if cell.capture == "two" and cell.s == "P":
        return False
    return not (s_must and cell.s not in ("B", "N")) and not (p_must and cell.p not in ("B", "N"))


ROADS = ("upgrade", "upgrade", "to_capsule", "Tensor")


def at_random(gpu: Bare, seed: int) -> Iterator[Case]:
    """Cases without end; the same for one seed."""
    chance = random.Random(seed)
    while True:
        cell = Cell(
            chance.choice(gpu.producers),
            p=chance.choice(P_KINDS),
            s=chance.choice(S_ARGUMENTS),
            device=chance.choice((0, 1)),
            current=chance.choice(gpu.vendor.currents),
            capture=chance.choice(("none", *CAPTURES)),
            policy=chance.choice(("auto", "auto", *POLICIES)),
            versioned=chance.random() < 0.5,
            empty=chance.random() < 0.1,
        )
        parked = gpu is CUDA and cell.producer.startswith("torch") and chance.random() < 0.3
        named = chance.random() < 0.2 and not (gpu is HIP and cell.p == "PTDS")
        road, unmet = chance.choice(ROADS), chance.random() < 0.1
        case = Case(cell, parked, named, road=road, unmet=unmet)
        if possible(case):
            yield case


def of_matrix(gpu: Bare) -> Iterator[Case]:
    """Every cell of the vendor's matrix."""
    for product in gpu.products.values():
        for cell in matrix.in_generations(product()):
            if cell.producer == "table" or cell.form or cell.override:
                continue  # no consumer asks so without dlshim
            yield Case(replace(cell, named=False), named=cell.named)


def learn(drv: Any, gpu: Bare) -> None:
    """Every type has been asked once."""
    for name in gpu.producers:
        drv.reset()
        x = gpu.make[name](drv, gpu.vendor.legacy, device=0)
        with contextlib.suppress(BufferError):
            dlshim.upgrade(libraries.source_of(name, x)).__dlpack__(stream=-1)
    caps.close_accounts()


def walk(drv: Any, cases: Iterable[Case], most: int = 20) -> tuple[Counter[str], list[str]]:
    """How the cases went, and the first problems."""
    counted: Counter[str] = Counter()
    problems: list[str] = []
    gpu = bare_of(drv)
    with gpu.its.imported():
        learn(drv, gpu)
        for case in cases:
            problem, name = compare(drv, case)
            counted[name or "worse"] += 1
            if problem:
                problems.append(problem)
                if len(problems) >= most:
                    break
    return counted, problems
