"""Scenarios of device memory, on a fake driver: also every call of the driver, whoever made it.

The cells are those of `device.matrix` and `device.rocm`, which judge them; here they are written
down.  The others are of scripted producers, for what each error means in each form of the call.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from zlib import crc32

import dlshim
from device import libraries, matrix, matrix_run, rocm
from doubles import capsules as caps
from doubles import vendors
from doubles.producers import ALL_KEYWORDS

from . import record
from .host import Scenario, phases
from .record import ENTRIES, asked, write
from .scripted import COMMON, ERRORS, FORMS, gives, raises, scripted, table_fails, when

# --- the driver's calls -------------------------------------------------------------------


class Events:
    """Numbers of events and of nameless streams, by their order in this scenario."""

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
        return re.sub(r"=([A-Z])(\d+)\b", lambda found: "=" + self.number(found), text)


def journal(drv: Any, events: Events) -> None:
    """Write down what the driver was called for since the last time."""
    for entry in drv.entries():
        write(f"  {entry.by or 'driver'}: {record.words.text(events(entry.text))}")
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


def cells(
    drv: Any, make: Callable[..., Any], products: Iterable[Any], known: bool
) -> Iterator[Scenario]:  # fmt: skip
    """`known`: each type has been asked once before."""
    its = libraries.of(drv)
    with its.imported():
        matrix_run.warm(drv)
        for cell in matrix.in_generations(products):  # type: ignore[arg-type]

            def scenario(cell: Any = cell) -> None:
                if known:
                    made = its.make[cell.producer]
                    drv.reset()
                    drv.make_current(0)
                    start = made(drv, vendors.of(drv).legacy, device=0)
                    dlshim.upgrade(libraries.source_of(cell.producer, start)).__dlpack__(stream=-1)
                    del start
                    caps.close_accounts()
                one = make(drv, cell)
                one.set_up()
                place = getattr(one, "place", one)
                carry_out(one, cell, drv, {place.s: "S", place.p: "P"} | {1: "1", 2: "2", 0: "0"})
                if one.wanted.dies:
                    matrix_run.warm(drv)
                    drv.clear_log()

            yield str(cell), scenario, True


def run_of(drv: Any, cell: Any) -> Any:
    return matrix_run.Run(drv, "13.0", cell)


def thinned(product: Iterator[Any], keep: int) -> Iterator[Any]:
    """Each so-many-th, by the cell's own text."""
    return (c for c in product if crc32(str(c).encode()) % keep == 0)


def cells_of(
    products: dict[str, Callable[[], Iterator[Any]]], name: str, known: bool = True, keep: int = 1
) -> Callable[[Any], Iterator[Scenario]]:
    return lambda drv: cells(drv, run_of, thinned(products[name](), keep), known)


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


Off = Callable[[Any], Iterator[Scenario]]
SOME = ("legacy", "versioned, S", "-1", "copy, S", "no copy, S", "to host", "to host, copy",
        "here, S", "from_dlpack", "owned", "borrowed")  # fmt: skip
FEW = ("legacy", "versioned, S", "-1", "copy, S", "to host", "owned")


def errors(drv: Any) -> Iterator[Scenario]:
    """Each error in each form of the call, before anything is known and afterwards."""
    v = Vendor(drv)
    unknown = itertools.product(("",), ERRORS, FORMS, SOME)
    rows = ("torch", "jax", "nanobind", "tensorflow", "cupy")
    known = itertools.product(rows, COMMON, ("max_version", "stream", "always"), FEW)
    for library, error, form, ask in itertools.chain(unknown, known):
        for first in (True, False):

            def scenario(
                library: str = library, error: str = error, form: str = form, ask: str = ask,
                first: bool = first,
            ) -> None:  # fmt: skip
                v.start()
                bad = when(FORMS[form], raises(error), gives())
                x = v.make(scripted(library=library, DEVICE=(v.device, 0)))
                order = (bad, gives()) if first else (gives(), bad, gives())
                v.run(x, (ask,) * 3, phases(x, *order))

            state = "first" if first else "learned"
            yield f"{library or 'unknown'}, {error} for {form}, {ask}, {state}", scenario, True


def errors_in_pairs(drv: Any) -> Iterator[Scenario]:
    """With a version and a stream the one error, with a stream the other, bare a third."""
    v = Vendor(drv)
    for one, two, three, ask in itertools.product(
        COMMON, COMMON, ("", "TypeError", "ValueError", "BufferError"), ("versioned, S", "copy, S")
    ):

        def scenario(one: str = one, two: str = two, three: str = three, ask: str = ask) -> None:
            v.start()
            last = raises(three) if three else gives()
            less = when(FORMS["stream"], raises(two), last)
            x = v.make(
                scripted(when(FORMS["max_version"], raises(one), less), DEVICE=(v.device, 0))
            )
            v.run(x, (ask, ask))

        yield f"{one}, {two}, {three or 'fine'}, {ask}", scenario, True


def off_signatures(drv: Any) -> Iterator[Scenario]:
    """Every set of keywords; the refusal of a keyword as another error than TypeError as well."""
    v = Vendor(drv)
    sets = [t for n in range(5) for t in itertools.combinations(ALL_KEYWORDS, n)]
    for takes, generation, refusal, ask in itertools.product(
        sets, ("asked", "legacy", "versioned"), ("TypeError", "ValueError"), SOME
    ):

        def scenario(
            takes: Any = takes, generation: str = generation, refusal: str = refusal, ask: str = ask
        ) -> None:
            v.start()
            answer = gives(generation)
            if refusal != "TypeError":
                answer = when(lambda a: bool(a.keys() - set(takes)), raises(refusal), answer)
            cls = scripted(
                answer,
                TAKES=takes if refusal == "TypeError" else ALL_KEYWORDS,
                DEVICE=(v.device, 0),
            )
            v.run(v.make(cls), (ask, ask, "legacy", ask))

        yield f"({', '.join(takes)}) or {refusal}, gives {generation}, {ask}", scenario, True


def off_signatures_that_change(drv: Any) -> Iterator[Scenario]:
    v = Vendor(drv)
    some = ((), ("stream",), ("max_version",), ("stream", "max_version"), ALL_KEYWORDS)
    for before, after, ask in itertools.product(some, some, FEW):

        def scenario(before: Any = before, after: Any = after, ask: str = ask) -> None:
            v.start()
            cls: Any = scripted(TAKES=before, DEVICE=(v.device, 0))
            v.run(
                v.make(cls), (ask,) * 4, lambda n: setattr(cls, "TAKES", before if n < 2 else after)
            )

        yield f"{before} then {after}, {ask}", scenario, True


def moving(drv: Any) -> Iterator[Scenario]:
    """What `__dlpack_device__` says, and what the capsule says, from one exchange to the next."""
    v = Vendor(drv)
    host = (1, 0)
    here, other, pinned = (v.device, 0), (v.device, 1), (v.pinned, 0)
    places = {"host": host, "device": here, "other": other, "pinned": pinned, "managed": (13, 0)}
    if v.hip:
        places.pop("managed")
    for first, second, ask in itertools.product(
        itertools.product(places, repeat=2), places, ("legacy", "versioned, S", "-1", "from_dlpack",
        "owned", "borrowed", "to host", "question")
    ):  # fmt: skip

        def scenario(first: Any = first, second: str = second, ask: str = ask) -> None:
            v.start()
            cls: Any = scripted()
            x = v.make(cls)

            def before(number: int) -> None:
                said, is_at = first if number != 1 else (second, second)
                cls.DEVICE, x.device = places[said], places[is_at]

            v.run(x, (ask,) * 3, before)

        yield f"says {first[0]} is {first[1]}, then {second}, {ask}", scenario, True


def off_tables(drv: Any) -> Iterator[Scenario]:
    """A table beside `__dlpack__`, that fails or not."""
    v = Vendor(drv)
    for library, error, after, ask in itertools.product(
        ("", "torch"), ("", *ERRORS), ("fine", "TypeError", "BufferError"),
        ("versioned, S", "-1", "from_dlpack", "owned", "borrowed", "work stream"),
    ):  # fmt: skip

        def scenario(
            library: str = library, error: str = error, after: str = after, ask: str = ask
        ) -> None:
            v.start()
            cls: Any = scripted(library=library, table=True, DEVICE=(v.device, 0), is_cpu=False)
            if after != "fine":
                cls.ANSWER = staticmethod(raises(after))
            v.run(
                v.make(cls), (ask,) * 3, lambda n: table_fails(cls, (error or None) if n else None)
            )

        yield f"{library or 'unknown'}, {error or 'works'}, then {after}, {ask}", scenario, True


OFF_OPTIONS: list[dict[str, Any]] = [
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
]  # fmt: skip


def off_options(drv: Any) -> Iterator[Scenario]:
    """Every kind of producer with every option, and every entry without one."""
    v = Vendor(drv)
    pairs = [(o, e) for o in OFF_OPTIONS for e in ("legacy", "versioned, S", "question", "owned")]
    with v.its.imported():
        names = tuple(Vendor.entries(_nothing()))
        pairs += [
            ({}, e) for e in names if e not in ("legacy", "versioned, S", "question", "owned")
        ]
        for producer, (options, entry) in itertools.product(v.its.make, pairs):

            def scenario(
                producer: str = producer, options: Any = options, entry: str = entry
            ) -> None:
                v.start()
                array = v.its.make[producer](drv, v.p, device=0)
                record.log.memory.append((array.address, 24, "own"))
                source = libraries.source_of(producer, array)
                drv.write(v.p, array.address)
                drv.clear_log()
                calls = getattr(array, "calls", [])
                v.run(source, (entry, entry), **options)
                for args, kwargs in calls:
                    write(f"called {record.call_text('', args, kwargs)}")

            shown = ", ".join(f"{k}={val}" for k, val in options.items())
            yield f"{producer}, {shown or 'no option'}, {entry}", scenario, True


def _nothing() -> Any:
    """Enough of a Vendor for the names of its entries."""
    v = Vendor.__new__(Vendor)
    v.s, v.device = 0, 2
    return v


def captured(drv: Any) -> Iterator[Scenario]:
    """While S, P or another stream captures: signatures, errors, and what is known."""
    v = Vendor(drv)
    sets = [(), ("stream",), ("max_version",), ("stream", "max_version"), ALL_KEYWORDS]
    for who, takes, error, ask in itertools.product(
        ("S", "P", "other"), sets, ("", *COMMON), ("legacy", "versioned, S", "-1", "to host",
        "from_dlpack", "owned", "copy, S")
    ):  # fmt: skip

        def scenario(
            who: str = who, takes: Any = takes, error: str = error, ask: str = ask
        ) -> None:
            v.start()
            other = drv.stream_new(0, True, name="O")
            stream = {"S": v.s, "P": v.p, "other": other}[who]
            bad = when(FORMS["stream"], raises(error), gives()) if error else gives()
            x = v.make(scripted(TAKES=takes, DEVICE=(v.device, 0)))

            def before(number: int) -> None:
                if number == 1:
                    type(x).ANSWER = staticmethod(bad)
                    drv.capture_begin(stream, "relaxed")
                    drv.clear_log()
                elif number == 2:
                    write(f"capture {drv.capture_state(stream)}")

            v.run(x, (ask,) * 3, before)
            drv.reset()

        yield f"{who} captures, ({', '.join(takes)}), {error or 'fine'}, {ask}", scenario, True


#: name: (group, for ROCm too)
SCRIPTED: dict[str, Off] = {
    "errors": errors,
    "errors_in_pairs": errors_in_pairs,
    "signatures": off_signatures,
    "signatures_that_change": off_signatures_that_change,
    "moving": moving,
    "tables": off_tables,
    "options": off_options,
    "captured": captured,
}


def warmed(group: Off, keep: int = 1) -> Off:
    """Each group finds the pools of events filled, whatever ran before."""

    def run(drv: Any) -> Iterator[Scenario]:
        with libraries.of(drv).imported():
            matrix_run.warm(drv)
        for scenario in group(drv):
            if crc32(record.words.entry(scenario[0]).encode()) % keep == 0:
                yield scenario

    return run


def prelude(drv: Any) -> None:
    """What happens once in a process (streams and events of the pools, contexts retained) happens
    before any group: the groups are the same alone and together."""
    for name, scenario, _ in off_options(drv):
        if name.startswith(("torch, ", "cupy, ", "table, ")):
            record.run(scenario)
    if not Vendor(drv).hip:
        places = (matrix.Cell("torch", device=d, current=c) for d, c in matrix.PLACES)
        for _, scenario, _ in cells(drv, run_of, places, True):
            record.run(scenario)


#: Of the products with many cells so many-th; the rest of a product differs by its axes alone.
THIN = {"everywhere": 2, "policies": 2, "capturing": 2}
CUDA: dict[str, Any] = {
    f"cuda_{n}": cells_of(matrix.PRODUCTS, n, keep=THIN.get(n, 1)) for n in matrix.PRODUCTS
}
CUDA["cuda_everywhere_unknown"] = cells_of(matrix.PRODUCTS, "everywhere", known=False, keep=5)
CUDA |= {f"cuda_{name}_of_scripted": warmed(group) for name, group in SCRIPTED.items()}
ROCM: dict[str, Any] = {
    f"rocm_{n}": cells_of(rocm.PRODUCTS, n, keep=THIN.get(n, 1)) for n in rocm.PRODUCTS
}
ROCM["rocm_everywhere_unknown"] = cells_of(rocm.PRODUCTS, "everywhere", known=False, keep=5)
ROCM |= {f"rocm_{name}_of_scripted": warmed(group, 3) for name, group in SCRIPTED.items()}
