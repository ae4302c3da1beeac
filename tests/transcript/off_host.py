"""Scenarios of device memory, on a fake driver: also every call of the driver, whoever made it.

The cells are of the products of `device.matrix` and `device.rocm`, which judge all of them; here
some are written down.  The others are of scripted producers, for what each error means in each form
of the call.  What depends on no driver is recorded for CUDA alone.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import dlshim
from device import libraries, matrix, matrix_run, rocm
from doubles import capsules as caps
from doubles import vendors
from doubles.producers import ALL_KEYWORDS

from . import record
from .host import BOTH, SIGNATURES, by_name, phases
from .pairs import Group, Scenario, group, pairwise
from .record import ENTRIES, asked, write
from .scripted import COMMON, ERRORS, FORMS, gives, raises, scripted, table_fails, when

# --- the driver's calls -------------------------------------------------------------------


class Events:
    """Numbers of events, memory and nameless streams, by their order in this scenario."""

    def __init__(self) -> None:
        self.seen: dict[str, dict[str, int]] = {}

    def number(self, found: re.Match[str]) -> str:
        kind, told = found[1], found[2]
        known = self.seen.setdefault(kind, {})
        return f"{kind}={known.setdefault(told, len(known) + 1)}"

    def __call__(self, text: str) -> str:
        if text.startswith(("cuEventCreate", "hipEventCreate")):
            text = text.replace(" got=", " ev=")
        text = re.sub(r"\b(ev)=(\d+)", self.number, text)
        return re.sub(r"=([A-Z]|m)(\d+)\b", lambda found: "=" + self.number(found), text)


def journal(drv: Any, events: Events) -> None:
    """Write down what the driver was called for since the last time."""
    for entry in drv.entries():
        by = f"{entry.by}: " if entry.by else ""
        write(f"  {by}{record.words.text(events(entry.text))}")
    drv.clear_log()


# --- the cells of the matrix --------------------------------------------------------------


def carry_out(one: Any, cell: Any, drv: Any, streams: dict[int, str]) -> None:
    """A cell as its `Run` sets it up; what came of it."""
    events = Events()
    log = record.log
    log.memory.append((one.address, 24, "own"))
    log.numbers.update(streams)
    array = one.array
    before = len(getattr(array, "calls", ()))
    for made in getattr(array, "exports", ()):
        log.name(made)

    def export() -> None:
        capsule = one.upgraded.__dlpack__(**one.keywords)
        for made in getattr(array, "exports", ()):
            log.name(made)
        one.taken = caps.take(capsule)
        write(record.struct_text(one.taken.view))

    try:
        record.exchange("export", export)
        for args, kwargs in getattr(array, "calls", ())[before:]:
            write(f"  call {record.call_text('', args, kwargs)}")
        journal(drv, events)
        write("> release")
        if one.taken is not None:
            one.taken.release()
        one.upgraded = one.taken = None
        journal(drv, events)
    finally:
        one.array = None


def axes_of(cell: matrix.Cell, generation: str, state: str) -> tuple[Any, ...]:
    place = (cell.device, cell.current)
    axes = (cell.producer, cell.p, cell.s, place, cell.capture, cell.policy, cell.named, cell.form)
    return (*axes, generation, state)


def cells(drv: Any, name: str) -> Iterator[Scenario]:
    """Cells of a product of the matrix, for types that are new or have been asked once before."""
    its = libraries.of(drv)
    states = ("new", "known") if name == "everywhere" else ("known",)
    # Nothing is synced for arrays of no elements: some S are enough.
    some = ("None", "-1", "N", "P") if name == "empty" else matrix.S_ARGUMENTS
    product = (rocm if vendors.of(drv).is_hip else matrix).PRODUCTS[name]()
    cases = itertools.product((cell for cell in product if cell.s in some), BOTH, states)
    with its.imported():
        matrix_run.warm(drv)
        for cell, generation, state in pairwise(cases, lambda case: axes_of(*case)):
            cell = replace(cell, versioned=generation == "versioned")

            def scenario(cell: matrix.Cell = cell, state: str = state) -> None:
                if state == "known":
                    made = its.make[cell.producer]
                    drv.reset()
                    drv.make_current(0)
                    start = made(drv, vendors.of(drv).legacy, device=0)
                    dlshim.upgrade(libraries.source_of(cell.producer, start)).__dlpack__(stream=-1)
                    del start
                    caps.close_accounts()
                one = matrix_run.Run(drv, "13.0", cell)
                one.set_up()
                place = getattr(one, "place", one)
                carry_out(one, cell, drv, {place.s: "S", place.p: "P"} | {1: "1", 2: "2", 0: "0"})
                if one.wanted.dies:
                    matrix_run.warm(drv)
                    drv.clear_log()

            yield f"{cell}, {state}", scenario, True


# --- scripted producers -------------------------------------------------------------------


class Vendor:
    """What differs between the two fakes."""

    def __init__(self, drv: Any) -> None:
        self.drv = drv
        self.its, vendor = libraries.of(drv), vendors.of(drv)
        self.hip = vendor.is_hip
        self.device, self.pinned = vendor.device_type, vendor.host_type
        self.first = vendor.legacy  # the default stream

    def start(self) -> None:
        """A new case: device 0 is current, S and P are streams of it."""
        drv, log = self.drv, record.log
        drv.reset()
        drv.make_current(0)
        self.s, self.p = drv.stream_new(0, True, name="S"), drv.stream_new(0, False, name="P")
        log.numbers.update({self.s: "S", self.p: "P"})
        self.its.stand_on(self.p)
        events = Events()
        log.after = lambda: journal(drv, events)
        drv.clear_log()

    def memory(self, device: int = 0, kind: str = "device") -> Any:
        """24 bytes there, as ctypes has them."""
        address = self.drv.alloc(88, device, kind)
        return (caps.C.c_char * 88).from_address(address)

    def make(self, cls: Any, device: tuple[int, int] | None = None, **fields: Any) -> Any:
        where = (self.device, 0) if device is None else device
        there = where[0] in (2, 10, 13)
        memory = self.memory(where[1], "managed" if where[0] == 13 else "device") if there else None
        return record.own(cls(device=where, memory=memory, **fields))

    def entries(self) -> dict[str, Callable[..., None]]:
        """Ways of asking; S is a handle of this case."""
        v1 = record.V1
        return {
            "legacy": asked(),
            "versioned, S": asked(stream=self.s, **v1),
            "S": asked(stream=self.s),
            "-1": asked(stream=-1, **v1),
            "copy, S": asked(stream=self.s, copy=True, **v1),
            "no copy, S": asked(stream=self.s, copy=False, **v1),
            "to host": asked(dl_device=(1, 0), **v1),
            "to host, copy": asked(dl_device=(1, 0), copy=True, **v1),
            "to host, no copy": asked(dl_device=(1, 0), copy=False, **v1),
            "here, S": asked(dl_device=(self.device, 0), stream=self.s, **v1),
            "other device": asked(dl_device=(self.device, 1), stream=self.s, **v1),
            **{name: ENTRIES[name] for name in (
                "question", "from_dlpack", "Tensor legacy", "Tensor versioned", "Tensor owned",
                "Tensor borrowed", "owned", "borrowed", "to_capsule", "dropped",
            )},
            "Tensor, S": record.tensor(lambda t: record.took(t.__dlpack__(stream=self.s, **v1))),
            "work stream": self.work_stream,
            "interface": record.tensor(
                lambda t: write(record.interface_seen(t.__cuda_array_interface__))
            ),
        }  # fmt: skip

    def work_stream(self, u: Any, x: Any) -> None:
        record.owned(u)
        given = record.tables[type(u)].stream((self.device, 0))
        write(f"= stream {record.show(given)}")

    def run(
        self, x: Any, names: Iterable[str], before: Callable[[int], Any] | None = None,
        **options: Any,
    ) -> None:  # fmt: skip
        """These exchanges with one Producer."""
        upgraded: list[Any] = []
        entries = self.entries()

        def one(entry: Callable[..., None]) -> None:
            if not upgraded:
                upgraded.append(dlshim.upgrade(x, **options))
            entry(upgraded[0], x)

        for number, name in enumerate(names):
            if before is not None:
                before(number)
            record.exchange(name, lambda e=entries[name]: one(e))  # type: ignore[misc]
        record.learned(x)
        upgraded.clear()
        if record.log.after is not None:
            write("> the end")
            record.log.after()
            record.log.after = None


SOME = (
    *("legacy", "versioned, S", "-1", "copy, S", "no copy, S", "to host", "here, S"),
    *("from_dlpack", "owned"),
)
FEW = ("legacy", "versioned, S", "-1", "copy, S", "to host", "owned")
STATES = ("first", "learned")
FEW_SIGNATURES = ((), ("stream",), ("max_version",), ("stream", "max_version"), ALL_KEYWORDS)


@group(
    library=("unknown", "torch", "jax", "nanobind", "tensorflow", "cupy"),
    error=ERRORS,
    form=FORMS,
    ask=SOME,
    state=STATES,
    where=lambda case: (
        case.library == "unknown"
        or (case.error in COMMON and case.form in ("max_version", "stream", "always"))
    ),
)
def errors(v: Vendor, library: str, error: str, form: str, ask: str, state: str) -> None:
    """Each error in each form of the call, before anything is known and afterwards."""
    v.start()
    bad = when(FORMS[form], raises(error), gives())
    x = v.make(scripted(library=library, DEVICE=(v.device, 0)))
    order = (bad, gives()) if state == "first" else (gives(), bad, gives())
    v.run(x, (ask,) * 3, phases(x, *order))


@group(
    first=COMMON,
    second=COMMON,
    third=("fine", "TypeError", "ValueError", "BufferError", "NotImplementedError"),
    ask=("versioned, S", "copy, S", "no copy, S"),
)
def errors_in_pairs(v: Vendor, first: str, second: str, third: str, ask: str) -> None:
    """With a version and a stream the one error, with a stream the other, bare a third."""
    v.start()
    last = gives() if third == "fine" else raises(third)
    less = when(FORMS["stream"], raises(second), last)
    bad = when(FORMS["max_version"], raises(first), less)
    v.run(v.make(scripted(bad, DEVICE=(v.device, 0))), (ask, ask))


@group(
    takes=SIGNATURES,
    refusal=("TypeError", "ValueError"),
    generation=("asked", "legacy", "versioned"),
    ask=FEW,
)
def signatures(v: Vendor, takes: Any, refusal: str, generation: str, ask: str) -> None:
    """Every set of keywords; the refusal of a keyword as another error than TypeError as well."""
    v.start()
    answer = gives(generation)
    if refusal != "TypeError":
        answer = when(lambda asked: bool(asked.keys() - set(takes)), raises(refusal), answer)
    known = takes if refusal == "TypeError" else ALL_KEYWORDS
    v.run(v.make(scripted(answer, TAKES=known, DEVICE=(v.device, 0))), (ask, "legacy", ask))


@group(before=FEW_SIGNATURES, after=FEW_SIGNATURES, ask=FEW)
def signatures_that_change(v: Vendor, before: Any, after: Any, ask: str) -> None:
    """A type that was learned takes other keywords from now on."""
    v.start()
    cls: Any = scripted(TAKES=before, DEVICE=(v.device, 0))
    change = lambda n: setattr(cls, "TAKES", before if n < 2 else after)  # noqa: E731
    v.run(v.make(cls), (ask,) * 4, change)


PLACES = ("host", "device", "other", "pinned", "managed")


@group(
    says=PLACES,
    is_=PLACES,
    then=PLACES,
    ask=("legacy", "versioned, S", "-1", "from_dlpack", "owned", "borrowed", "to host", "question"),
)
def moving(v: Vendor, says: str, is_: str, then: str, ask: str) -> None:
    """What `__dlpack_device__` says, and what the capsule says, from one exchange to the next."""
    v.start()
    of_vendor = {"device": (v.device, 0), "other": (v.device, 1), "pinned": (v.pinned, 0)}
    places = {"host": (1, 0), "managed": (13, 0)} | of_vendor
    cls: Any = scripted()
    x = v.make(cls)

    def before(number: int) -> None:
        cls.DEVICE = places[then if number == 1 else says]
        x.device = places[then if number == 1 else is_]

    v.run(x, (ask,) * 3, before)


@group(
    library=("unknown", "torch"),
    error=("none", *ERRORS),
    after=("fine", "TypeError", "BufferError"),
    ask=("versioned, S", "-1", "from_dlpack", "owned", "borrowed", "work stream"),
)
def tables(v: Vendor, library: str, error: str, after: str, ask: str) -> None:
    """A table beside `__dlpack__`, that fails once it has worked, or never does."""
    v.start()
    cls: Any = scripted(library=library, table=True, DEVICE=(v.device, 0), is_cpu=False)
    if after != "fine":
        cls.ANSWER = staticmethod(raises(after))
    fails = None if error == "none" else error
    v.run(v.make(cls), (ask,) * 3, lambda number: table_fails(cls, fails if number else None))


OPTIONS: dict[str, dict[str, Any]] = by_name([
    {}, {"copy": True}, {"copy": False}, {"device": "cpu"}, {"device": "cpu", "copy": False},
    {"device": "cuda:0"}, {"device": "cuda:1"}, {"device": "rocm:0"}, {"readonly": True},
    {"order": "C"}, {"align": 64}, {"on_release": "guard"}, {"detach": True},
    {"reinterpret": "int32"}, {"stream": -1}, {"stream": 1}, {"stream": None}, {"stream": 0},
    {"producer_stream": 1}, {"producer_stream": 0}, {"producer_stream": 2},
    {"unknown_stream": "legacy"}, {"unknown_stream": "same"}, {"unknown_stream": "error"},
    {"assume_device": "cpu"}, {"assume_device": (2, 0)}, {"assume_device": (2, 1)},
    {"assume_device": (10, 0)}, {"assume_device": (3, 0)}, {"assume_device": (13, 0)},
    {"readonly": "copy"}, {"readonly": "share"},
    {"device": "cpu", "order": "C"}, {"device": "cpu", "readonly": True},
    {"device": "cpu", "stream": -1}, {"device": "cpu", "unknown_stream": "error"},
])  # fmt: skip


def _nothing() -> Any:
    """Enough of a Vendor for the names of its entries."""
    v = Vendor.__new__(Vendor)
    v.s, v.device = 0, 2
    return v


WAYS = tuple(Vendor.entries(_nothing()))


def options(*producers: str) -> Group:
    """These kinds of producers with every option, and every entry without one."""

    def scenario(v: Vendor, producer: str, given: str, way: str) -> None:
        v.start()
        array = v.its.make[producer](v.drv, v.p, device=0)
        record.log.memory.append((array.address, 24, "own"))
        source = libraries.source_of(producer, array)
        v.drv.write(v.p, array.address)
        v.drv.clear_log()
        calls = getattr(array, "calls", [])
        v.run(source, (way, way), **OPTIONS[given])
        for args, kwargs in calls:
            write(f"called {record.call_text('', args, kwargs)}")

    some = ("legacy", "versioned, S", "question", "owned")
    return Group(
        scenario,
        {"producer": producers, "given": OPTIONS, "way": WAYS},
        lambda case: case.given == "no option" or case.way in some,
    )


@group(
    who=("S", "P", "other"),
    takes=FEW_SIGNATURES,
    error=("fine", *COMMON),
    ask=("legacy", "versioned, S", "-1", "to host", "from_dlpack", "owned", "copy, S"),
)
def captured(v: Vendor, who: str, takes: Any, error: str, ask: str) -> None:
    """While S, P or another stream captures: signatures, errors, and what is known."""
    v.start()
    other = v.drv.stream_new(0, True, name="O")
    stream = {"S": v.s, "P": v.p, "other": other}[who]
    bad = gives() if error == "fine" else when(FORMS["stream"], raises(error), gives())
    x = v.make(scripted(TAKES=takes, DEVICE=(v.device, 0)))

    def before(number: int) -> None:
        if number == 1:
            type(x).ANSWER = staticmethod(bad)
            v.drv.capture_begin(stream, "relaxed")
            v.drv.clear_log()
        elif number == 2:
            write(f"capture {v.drv.capture_state(stream)}")

    v.run(x, (ask,) * 3, before)
    v.drv.reset()


# --- the groups ---------------------------------------------------------------------------

Off = Callable[[Any], Iterator[Scenario]]


def warmed(of: Group) -> Off:
    """Each group finds the pools of events filled, whatever ran before."""

    def run(drv: Any) -> Iterator[Scenario]:
        v = Vendor(drv)
        with v.its.imported():
            matrix_run.warm(drv)
            yield from of(v)

    return run


def prelude(drv: Any) -> None:
    """What happens once in a process (streams and events of the pools, contexts retained) happens
    before any group: the groups are the same alone and together."""
    v = Vendor(drv)
    with v.its.imported():
        for _, scenario, _ in options("torch", "cupy", "table")(v):
            record.run(scenario)
    if not v.hip:
        for device, current in matrix.PLACES:
            one = matrix_run.Run(drv, "13.0", matrix.Cell("torch", device=device, current=current))
            one.set_up()
            record.run(partial(carry_out, one, one.cell, drv, {}))


OF_CUDA = ("torch", "jax", "nanobind", "capsule", "table", "cai 3")
OF_ROCM = ("torch", "capsule", "table", "cai 3")
CUDA: dict[str, Off] = {f"cuda_{name}": partial(cells, name=name) for name in matrix.PRODUCTS}
CUDA |= {
    "cuda_errors": warmed(errors),
    "cuda_errors_in_pairs": warmed(errors_in_pairs),
    "cuda_signatures": warmed(signatures),
    "cuda_signatures_that_change": warmed(signatures_that_change),
    "cuda_moving": warmed(moving),
    "cuda_tables": warmed(tables),
    "cuda_options": warmed(options(*OF_CUDA)),
    "cuda_captured": warmed(captured),
}
ROCM: dict[str, Off] = {f"rocm_{name}": partial(cells, name=name) for name in rocm.PRODUCTS}
ROCM |= {
    "rocm_moving": warmed(moving),
    "rocm_options": warmed(options(*OF_ROCM)),
    "rocm_captured": warmed(captured),
}
