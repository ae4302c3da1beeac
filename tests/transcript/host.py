"""Scenarios of host memory: how producers are asked, what errors mean, what is learned.

Each group yields (name, scenario, hand_on).  A scenario makes its type anew.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
from collections.abc import Callable, Iterator
from typing import Any

import dlshim
from doubles import capsules as caps
from doubles import structs
from doubles.older import InterfaceOnly, StructOnly
from doubles.producers import ALL_KEYWORDS, EDITIONS, torch_like

from . import record
from .record import ENTRIES, asked, own, steps, told
from .scripted import (
    COMMON,
    ERRORS,
    FORMS,
    Questioned,
    gives,
    raises,
    returns,
    scripted,
    table_fails,
    when,
)

Scenario = tuple[str, Callable[[], Any], bool]
Group = Callable[[], Iterator[Scenario]]

BOTH = ("legacy", "versioned")


def phases(x: Any, *answers: Any) -> Callable[[int], None]:
    """Before exchange n the answer becomes the n-th."""

    def before(number: int) -> None:
        answer = answers[min(number, len(answers) - 1)]
        if answer is not None:
            type(x).ANSWER = staticmethod(answer)

    return before


# --- errors -------------------------------------------------------------------------------


def errors_of_forms() -> Iterator[Scenario]:
    """An error for one form of the call: before anything is learned, and afterwards."""
    for library, error, form, ask in itertools.product(
        ("", "numpy", "torch", "jax", "strict", "tensorflow"),
        ERRORS,
        ("max_version", "bare", "any", "always"),
        BOTH,
    ):
        if library and error not in COMMON:
            continue

        def scenario(
            library: str = library, error: str = error, form: str = form, ask: str = ask,
            first: bool = False,
        ) -> None:  # fmt: skip
            bad = when(FORMS[form], raises(error), gives())
            x = own(scripted(library=library)())
            order = (bad, gives()) if first else (gives(), bad, gives())
            steps(x, (ask,) * 3, phases(x, *order), watch=True)

        name = f"{library or 'unknown'}, {error} for {form}, {ask}"
        yield f"{name}, first", lambda s=scenario: s(first=True), True
        yield f"{name}, learned", scenario, True
        if not library:
            yield f"{name}, learned, translate", scenario, False


def errors_of_signatures() -> Iterator[Scenario]:
    """An error of a call that was learned with other keywords than are tried first."""
    forms: dict[str, tuple[tuple[str, ...], Any]] = {
        "nothing": ((), gives()),
        "stream": (("stream",), gives()),
        "stream, which it needs": (("stream",), when(FORMS["bare"], raises("TypeError"), gives())),
        "max_version": (("max_version",), gives()),
        "max_version, refused otherwise": (
            ALL_KEYWORDS, when(FORMS["max_version"], raises("ValueError"), gives())
        ),
    }  # fmt: skip
    for library, form, error, ask in itertools.product(
        ("", "numpy", "strict"), forms, ERRORS,
        ("legacy", "versioned", "from_dlpack", "owned", "borrowed"),
    ):  # fmt: skip

        def scenario(
            library: str = library, form: str = form, error: str = error, ask: str = ask
        ) -> None:
            takes, good = forms[form]
            x = own(scripted(library=library, TAKES=takes)())
            steps(x, (ask,) * 4, phases(x, good, raises(error), raises(error), good), watch=True)

        yield f"{library or 'unknown'} takes {form}, {error}, {ask}", scenario, True


class FailingMethod:
    def toDlpack(self) -> Any:
        return self.ANSWER(self, {})  # type: ignore[attr-defined]


class FailingInterface(InterfaceOnly):
    ANSWER: Any = None

    @property
    def __array_interface__(self) -> Any:
        record.write("  look at __array_interface__")
        if self.ANSWER is not None:
            self.ANSWER(self, {})
        return super().__array_interface__


class FailingStruct(StructOnly):
    ANSWER: Any = None

    @property
    def __array_struct__(self) -> Any:
        record.write("  look at __array_struct__")
        if self.ANSWER is not None:
            self.ANSWER(self, {})
        return super().__array_struct__


def errors_of_older() -> Iterator[Scenario]:
    """An older protocol fails, at first or once it has worked."""
    from doubles.producers import Array

    kinds: dict[str, Callable[[], tuple[Any, Any]]] = {
        "method": lambda: (told(type("Old", (FailingMethod, Array), {})), gives()),
        "versioned method": lambda: (
            told(type("Old", (FailingMethod, Array), {})), gives("versioned")
        ),
        "interface": lambda: (type("Old", (FailingInterface,), {}), None),
        "struct": lambda: (type("Old", (FailingStruct,), {}), None),
        "struct and interface": lambda: (
            type("Old", (FailingStruct, FailingInterface), {}), None
        ),
    }  # fmt: skip
    for kind, error, ask, first in itertools.product(
        kinds, ERRORS, ("legacy", "versioned", "from_dlpack", "owned", "question"), (True, False)
    ):

        def scenario(
            kind: str = kind, error: str = error, ask: str = ask, first: bool = first
        ) -> None:
            cls, good = kinds[kind]()
            cls.ANSWER = staticmethod(good) if good else None
            x = own(cls())

            def before(number: int) -> None:
                bad = (number == 0) if first else (number == 1)
                cls.ANSWER = (
                    staticmethod(raises(error)) if bad else staticmethod(good) if good else None
                )

            steps(x, (ask,) * 3, before)

        yield f"{kind}, {error}, {ask}, {'first' if first else 'learned'}", scenario, True


def errors_in_pairs() -> Iterator[Scenario]:
    """One error for max_version, another for the bare call, a third for the stream."""
    for library, first, second, ask in itertools.product(
        ("", "numpy", "strict"), COMMON, COMMON, BOTH
    ):
        for third in ("", "TypeError", "ValueError"):
            if library and third:
                continue

            def scenario(
                library: str = library, first: str = first, second: str = second,
                third: str = third, ask: str = ask,
            ) -> None:  # fmt: skip
                last = raises(third) if third else gives()
                bad = when(
                    FORMS["max_version"],
                    raises(first),
                    when(FORMS["bare"], raises(second), last),
                )
                x = own(scripted(bad, library=library)())
                steps(x, (ask, ask))

            name = f"{library or 'unknown'}, {first}, {second}, {third or 'fine'}, {ask}"
            yield name, scenario, True


class WithInterface(InterfaceOnly):
    def __init__(self) -> None:
        super().__init__()
        Questioned.__init__(self)  # type: ignore[arg-type]
        self.strides = None  # type: ignore[assignment]


class WithStruct(StructOnly):
    def __init__(self) -> None:
        super().__init__()
        Questioned.__init__(self)  # type: ignore[arg-type]
        self.changes = {}


class WithBadInterface(WithInterface):
    @property
    def __array_interface__(self) -> Any:
        raise ValueError("no interface today")


class WithMethod:
    def toDlpack(self) -> Any:
        return self._legacy()  # type: ignore[attr-defined]


class WithBadMethod:
    def toDlpack(self) -> Any:
        raise RuntimeError("no capsule today")


BESIDE: dict[str, tuple[type, ...]] = {
    "array interface": (WithInterface,),
    "array struct": (WithStruct,),
    "failing interface": (WithBadInterface,),
    "method": (WithMethod,),
    "failing method": (WithBadMethod,),
    "method and interface": (WithMethod, WithInterface),
}


def errors_beside_older() -> Iterator[Scenario]:
    """`__dlpack__` always fails, and there is another way in."""
    for library, beside, error, ask in itertools.product(("", "numpy"), BESIDE, ERRORS, BOTH):

        def scenario(
            library: str = library, beside: str = beside, error: str = error, ask: str = ask,
            learned: bool = False,
        ) -> None:  # fmt: skip
            x = own(scripted(library=library, bases=BESIDE[beside])())
            order = (gives(), raises(error), gives()) if learned else (raises(error),)
            steps(x, (ask,) * 3, phases(x, *order))

        name = f"{library or 'unknown'}, {error} beside {beside}, {ask}"
        yield name, scenario, True
        yield f"{name}, learned", lambda s=scenario: s(learned=True), True


def errors_of_tables() -> Iterator[Scenario]:
    """The table fails, at first or once it has worked; `__dlpack__` works or fails as well."""
    entries = ("legacy", "versioned", "owned", "borrowed", "from_dlpack", "to object")
    for library, error, after, ask in itertools.product(
        ("", "torch"), ERRORS, ("fine", "TypeError", "BufferError"), entries
    ):

        def scenario(
            library: str = library, error: str = error, after: str = after, ask: str = ask,
            first: bool = False,
        ) -> None:  # fmt: skip
            cls: Any = scripted(library=library, table=True)
            if after != "fine":
                cls.ANSWER = staticmethod(raises(after))
            x = own(cls())
            plan = (error, None, None) if first else (None, error, None)
            steps(x, (ask,) * 3, lambda n: table_fails(cls, plan[n]))

        name = f"{library or 'unknown'}, table {error}, then {after}, {ask}"
        yield name, scenario, True
        yield f"{name}, first", lambda s=scenario: s(first=True), True


# --- signatures ---------------------------------------------------------------------------

SIGNATURES = [
    takes for n in range(5) for takes in itertools.combinations(ALL_KEYWORDS, n)
]  # fmt: skip


def signatures() -> Iterator[Scenario]:
    """Every set of keywords, every generation of the answer, with and without a device."""
    for takes, generation, question, ask in itertools.product(
        SIGNATURES,
        ("asked", "legacy", "versioned"),
        (True, False),
        ("legacy", "versioned", "from_dlpack", "1.3 and stream -1"),
    ):
        for second in ("same", "other"):

            def scenario(
                takes: tuple[str, ...] = takes, generation: str = generation,
                question: bool = question, ask: str = ask, second: str = second,
            ) -> None:  # fmt: skip
                x = own(scripted(gives(generation), question=question, TAKES=takes)())
                other = {"legacy": "versioned"}.get(ask, "legacy")
                steps(x, (ask, ask if second == "same" else other, ask, "question"))

            place = "" if question else ", no device"
            name = f"({', '.join(takes)}) gives {generation}{place}, {ask}, {second}"
            yield name, scenario, True


def signatures_that_change() -> Iterator[Scenario]:
    """A type that was learned takes other keywords from now on."""
    some = ((), ("stream",), ("max_version",), ("stream", "max_version"), ALL_KEYWORDS)
    for before, after, generation, ask in itertools.product(some, some, ("asked", "legacy"), BOTH):

        def scenario(
            before: Any = before, after: Any = after, f: str = generation, ask: str = ask
        ) -> None:
            cls: Any = scripted(gives(f), TAKES=before)
            x = own(cls())
            steps(
                x, (ask,) * 4, lambda n: setattr(cls, "TAKES", before if n < 2 else after),
                watch=True,
            )  # fmt: skip

        yield f"{before} then {after}, gives {generation}, {ask}", scenario, True


# --- structs ------------------------------------------------------------------------------


STRUCTS: dict[str, dict[str, Any]] = {
    **structs.ANY,
    "one element": {"shape": (1,)},
    "empty, null data": {"shape": (2, 0, 3), "data": None},
    "pinned": {"device": (3, 0)},
    "pinned by ROCm": {"device": (11, 0)},
    "CUDA": {"device": (2, 0)},
    "ROCm": {"device": (10, 0)},
    "managed": {"device": (13, 0)},
    "oneAPI": {"device": (14, 0)},
    "OpenCL": {"device": (4, 0)},
    "device 0": {"device": (0, 0)},
    "device 99": {"device": (99, 3)},
    "bfloat16": {"dtype": "bfloat16"},
    "code 99": {"dtype": (99, 32, 1)},
    "no destructor": {"destructor": False},
    "kept by others": {"kept": True},
    "used": {"name": caps.USED_LEGACY},
    "used versioned": {"name": caps.USED_VERSIONED},
    "foreign name": {"name": "arrow_array"},
}
VERSIONED_ONLY: dict[str, dict[str, Any]] = {
    **structs.VERSIONED_ONLY,
    "read-only copy": {"flags": 3},
    "1.70": {"version": (1, 70)},
}
NO_CAPSULES: dict[str, Any] = {"None": None, "int": 5, "tuple": (1, 0), "text": "dltensor"}

STRUCT_ENTRIES = (
    "legacy", "versioned", "1.3 and stream -1", "from_dlpack", "Tensor legacy",
    "Tensor versioned", "to_capsule", "owned", "borrowed",
)  # fmt: skip
FEW_ENTRIES = ("legacy", "versioned", "from_dlpack", "owned")


def odd_answers() -> Iterator[tuple[str, str, Any]]:
    """(generation, name, answer)."""
    for generation in BOTH:
        more = VERSIONED_ONLY if generation == "versioned" else {}
        for name, fields in (STRUCTS | more).items():
            yield generation, name, gives(generation, **fields)
    for name, value in NO_CAPSULES.items():
        yield "versioned", name, returns(value)


def structs() -> Iterator[Scenario]:
    """A type is learned by plain exports; then comes another struct, and a plain one again."""
    for (generation, name, odd), ask, hand_on in itertools.product(
        list(odd_answers()), STRUCT_ENTRIES, (True, False)
    ):

        def scenario(
            generation: str = generation, odd: Any = odd, ask: str = ask, first: bool = False
        ) -> None:
            x = own(scripted(TAKES=("max_version",) if generation == "versioned" else ())())
            good = gives(generation)
            steps(x, (ask,) * 3, phases(x, *((odd, odd, good) if first else (good, odd, good))))

        mode = "" if hand_on else ", translate"
        if hand_on or ask in FEW_ENTRIES:
            yield f"{generation} {name}, {ask}{mode}", scenario, hand_on
        if hand_on and ask in FEW_ENTRIES:
            yield f"{generation} {name}, {ask}, first", lambda s=scenario: s(first=True), True


def other_generation() -> Iterator[Scenario]:
    """Learned by one generation, it gives the other from now on, whatever was asked."""
    for before, after, takes, ask in itertools.product(
        BOTH, BOTH, ((), ("max_version",), ("stream",)), STRUCT_ENTRIES
    ):

        def scenario(
            before: str = before, after: str = after, takes: Any = takes, ask: str = ask
        ) -> None:
            x = own(scripted(TAKES=takes)())
            steps(x, (ask,) * 3, phases(x, gives(before), gives(after)), watch=True)

        yield f"{before} then {after}, takes {takes}, {ask}", scenario, True


def structs_of_tables() -> Iterator[Scenario]:
    fields = {n: f for n, f in (STRUCTS | VERSIONED_ONLY).items() if not f.keys() & OF_CAPSULES}
    for name, ask, hand_on in itertools.product(fields, STRUCT_ENTRIES, (True, False)):

        def scenario(name: str = name, ask: str = ask) -> None:
            cls: Any = scripted(table=True)
            x = own(cls())

            def before(number: int) -> None:
                more = dict(fields[name]) if number == 1 else {}
                version = more.pop("version", (1, 3))
                if more.keys() & {"shape", "strides", "dtype"}:
                    more = {"memory": None, "start": 0, "strides": "row-major"} | more
                cls.table_answer = lambda self: self._export(version, **more)

            steps(x, (ask,) * 3, before)

        mode = "" if hand_on else ", translate"
        yield f"table {name}, {ask}{mode}", scenario, hand_on


OF_CAPSULES = {"name", "destructor", "kept"}


def raw_capsules() -> Iterator[Scenario]:
    """`upgrade(capsule)` and `from_dlpack(capsule)`: once, and again when it is used up."""
    for generation, ask, hand_on in itertools.product(BOTH, STRUCT_ENTRIES, (True, False)):
        more = VERSIONED_ONLY if generation == "versioned" else {}
        for name in STRUCTS | more:

            def scenario(generation: str = generation, ask: str = ask, name: str = name) -> None:
                holder: Any = own(scripted()())
                answer = gives(generation, **(STRUCTS | VERSIONED_ONLY)[name])
                steps(answer(holder, {}), (ask, ask))

            mode = "" if hand_on else ", translate"
            yield f"{generation} {name}, {ask}{mode}", scenario, hand_on


# --- requests -----------------------------------------------------------------------------


class Numbered:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


class CudaStream:
    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, 7)


REQUESTS: dict[str, Callable[..., None]] = {
    "bare": asked(),
    "None": asked(max_version=None),
    "(0, 8)": asked(max_version=(0, 8)),
    "(1, 0)": asked(max_version=(1, 0)),
    "(1, 3)": asked(max_version=(1, 3)),
    "(1, 2**40)": asked(max_version=(1, 2**40)),
    "(2, 0)": asked(max_version=(2, 0)),
    "[1, 0]": asked(max_version=[1, 0]),
    "1": asked(max_version=1),
    "(1, -1)": asked(max_version=(1, -1)),
    "(1,)": asked(max_version=(1,)),
    "('1', 0)": asked(max_version=("1", 0)),
    "numbered": asked(max_version=(Numbered(1), Numbered(0))),
    "positional None": asked(args=(None,)),
    "positional -1": asked(args=(-1,)),
    "positional 1": asked(args=(1,)),
    "two positional": asked(args=(None, (1, 0))),
    "positional and keyword": asked(args=(None,), stream=None),
    "stream None": asked(stream=None),
    "stream -1": asked(stream=-1, max_version=(1, 0)),
    "stream 0": asked(stream=0),
    "stream 1": asked(stream=1),
    "stream 2": asked(stream=2, max_version=(1, 3)),
    "stream 4096": asked(stream=4096),
    "stream -2": asked(stream=-2),
    "stream 2**64": asked(stream=2**64),
    "stream True": asked(stream=True),
    "stream 1.5": asked(stream=1.5),
    "stream text": asked(stream="1"),
    "stream object": asked(stream=CudaStream()),
    "stream no stream": asked(stream=Numbered(3)),
    "unknown keyword": asked(max_version=(1, 0), streams=None),
    "device host": asked(dl_device=(1, 0)),
    "device host, 1.0": asked(dl_device=(1, 0), max_version=(1, 0)),
    "device CUDA": asked(dl_device=(2, 0), max_version=(1, 0)),
    "device CUDA, copy": asked(dl_device=(2, 0), max_version=(1, 0), copy=True),
    "device pinned": asked(dl_device=(3, 0), max_version=(1, 0)),
    "device cpu 1": asked(dl_device=(1, 1)),
    "device list": asked(dl_device=[1, 0]),
    "device text": asked(dl_device="cpu"),
    "device one number": asked(dl_device=1),
    "device (1, None)": asked(dl_device=(1, None)),
    "device 0": asked(dl_device=(0, 0)),
    "copy": asked(copy=True),
    "copy, 1.0": asked(copy=True, max_version=(1, 0)),
    "no copy": asked(copy=False),
    "no copy, 1.0": asked(copy=False, max_version=(1, 0)),
    "copy 1": asked(copy=1),
    "copy text": asked(copy="yes"),
    "all": asked(stream=None, max_version=(1, 0), dl_device=None, copy=None),
    "all given": asked(stream=-1, max_version=(1, 3), dl_device=(1, 0), copy=False),
}


def go(x: Any, do: dict[str, Callable[..., None]], **options: Any) -> None:
    """One Producer, these exchanges."""
    upgraded: list[Any] = []

    def one(exchange: Callable[..., None]) -> None:
        if not upgraded:
            upgraded.append(dlshim.upgrade(x, **options))
        exchange(upgraded[0], x)

    for label, exchange in do.items():
        record.exchange(label, lambda e=exchange: one(e))
    record.learned(x)


def requests() -> Iterator[Scenario]:
    """Every way of asking, of every edition, by a type that is unknown and one that is known."""
    for name, base in EDITIONS.items():
        for label, request in REQUESTS.items():

            def scenario(base: type = base, label: str = label, request: Any = request) -> None:
                x = own(told(base)())
                go(x, {label: request, "versioned": asked(**record.V1), f"{label} again": request})

            yield f"{name}, {label}", scenario, True


def ways_out() -> Iterator[Scenario]:
    """Every entry of every edition, three times; both ways."""
    for (name, base), entry, hand_on in itertools.product(EDITIONS.items(), ENTRIES, (True, False)):

        def scenario(base: type = base, entry: str = entry) -> None:
            x = own(told(base)())
            steps(x, (entry,) * 3, anew=entry in ("from_dlpack", "owned"))

        yield f"{name}, {entry}{'' if hand_on else ', translate'}", scenario, hand_on


def read_only_generations() -> Iterator[Scenario]:
    from doubles.producers import P1, P2, P3, P1b, P1Numpy124, P2LegacyOfReadonly, P2Pyarrow26

    kinds: tuple[Any, ...] = (P1, P1b, P1Numpy124, P2, P2LegacyOfReadonly, P2Pyarrow26, P3)
    changes: dict[str, dict[str, Any]] = {
        "read-only": {"readonly": True},
        "strided": {"strides": (1, 2)},
        "backwards": {"strides": (-3, 1), "start": 3},
        "broadcast": {"strides": (0, 1)},
        "empty": {"shape": (0, 3)},
        "scalar": {"shape": ()},
        "offset": {"start": 4, "byte_offset": 16},
        "NULL strides": {"null_strides": True},
        "no deleter": {"deleter": False},
    }
    for base, (name, fields), entry in itertools.product(kinds, changes.items(), ENTRIES):

        def scenario(base: Any = base, fields: Any = fields, entry: str = entry) -> None:
            x = own(told(base)(**fields))
            steps(x, (entry, entry))

        yield f"{base.__name__} {name}, {entry}", scenario, True


def unaligned(base: type, **fields: Any) -> Any:
    """Such an array at an address that 16 divides and 32 does not."""
    raw = bytes(caps.filled((2, 3), "float32"))
    page = mmap.mmap(-1, 4096)
    page[16 : 16 + len(raw)] = raw
    return told(base)(memory=(ctypes.c_char * len(raw)).from_buffer(page, 16), **fields)


def options() -> Iterator[Scenario]:
    """Every option, alone and in a few pairs, for a few kinds of producers."""
    from doubles.producers import (
        P1,
        P2,
        P3,
        CopiesAlways,
        P0ToDlpack,
        P1b,
        P2Torch,
        Placeholder,
        VersionedAlways,
    )

    kinds: dict[str, Callable[[], Any]] = {
        "P1": lambda: unaligned(P1),
        "P1b": lambda: unaligned(P1b),
        "P2": lambda: unaligned(P2),
        "P2 read-only": lambda: unaligned(P2, readonly=True),
        "P2 strided": lambda: unaligned(P2, strides=(1, 2)),
        "P2 backwards": lambda: unaligned(P2, strides=(-3, 1), start=3),
        "P2Torch": lambda: unaligned(P2Torch),
        "P3": lambda: unaligned(P3),
        "P3 read-only": lambda: unaligned(P3, readonly=True),
        "VersionedAlways": lambda: unaligned(VersionedAlways),
        "CopiesAlways": lambda: unaligned(CopiesAlways),
        "toDlpack": lambda: unaligned(P0ToDlpack),
        "Placeholder": lambda: unaligned(Placeholder),
        "interface": lambda: InterfaceOnly(),
        "bytes": lambda: bytes(range(6)),
    }
    alone: dict[str, list[Any]] = {
        "stream": [None, -1, 0, 1, 2, 99, True, "x", CudaStream()],
        "producer_stream": [None, 0, 1, 7, -1, "x", CudaStream()],
        "unknown_stream": ["auto", "legacy", "same", "error", "none"],
        "device": ["cpu", "cuda:0", "cuda", (1, 0), (2, 1), (3, 0), "nowhere", (0, 0)],
        "like": [None, b"here", 3],
        "copy": [None, True, False, 1],
        "readonly": [None, True, False, "error", "copy", "share", "strip", 1],
        "order": ["K", "C", "auto", None, "F"],
        "align": [None, 64, 4096, 3, 0],
        "reinterpret": ["int32", "uint8", "float64", (0, 32, 1), (2, 16, 2), "nothing"],
        "assume_device": ["cpu", "cuda:0", (3, 0), (10, 0), (1, 1)],
        "detach": [True, False],
        "on_release": ["contract", "guard", "later"],
    }
    given: list[dict[str, Any]] = [{}]
    given += [{name: value} for name, values in alone.items() for value in values]
    given += [
        {"copy": True, "readonly": True},
        {"copy": False, "order": "C"},
        {"copy": False, "align": 64},
        {"order": "C", "readonly": "copy"},
        {"device": "cpu", "copy": True},
        {"device": "cpu", "like": b"here"},
        {"device": "cuda:0", "like": b"here"},
        {"device": "cpu", "copy": False, "stream": -1},
        {"reinterpret": "int32", "copy": True},
        {"copy": False, "readonly": "copy"},
        {"assume_device": "cuda:0", "unknown_stream": "same"},
        {"assume_device": "cuda:0", "device": "cpu"},
    ]
    for (name, make), more, entry in itertools.product(
        kinds.items(), given, ("legacy", "versioned", "question", "owned", "borrowed")
    ):

        def scenario(make: Any = make, more: Any = more, entry: str = entry) -> None:
            x = own(make())
            steps(x, (entry, entry), **more)

        if "align" in more and name in ("interface", "bytes", "CopiesAlways"):
            continue  # their addresses are chance
        shown = ", ".join(f"{k}={record.show(v)}" for k, v in more.items())
        yield f"{name}, {shown or 'no option'}, {entry}", scenario, True


def lazy_bits() -> Iterator[Scenario]:
    for table, edition, entry in itertools.product(
        (False, True),
        (1, 2),
        ("legacy", "versioned", "owned", "borrowed", "from_dlpack", "question"),
    ):
        for bits in ({}, {"requires_grad": True}, {"conj": True}, {"neg": True}):
            for learned, detach in ((False, False), (True, False), (False, True)):
                if table and edition == 1:
                    continue

                def scenario(
                    table: bool = table, edition: int = edition, entry: str = entry,
                    bits: Any = bits, learned: bool = learned, detach: bool = detach,
                ) -> None:  # fmt: skip
                    cls = told(torch_like(table=table, edition=edition))
                    cls.__module__, cls.__qualname__ = "torch", "Tensor"
                    options = {"detach": True} if detach else {}
                    if learned:
                        steps(own(cls()), (entry,))
                    for dtype in ("float32", "complex64"):
                        steps(own(cls(dtype=dtype, **bits)), (entry, entry), **options)

                told_of = f"{'table, ' * table}{'old, ' * (edition == 1)}{bits}, {entry}"
                state = "learned" if learned else "detach" if detach else "new"
                yield f"{told_of}, {state}", scenario, True


GROUPS: dict[str, Group] = {
    "errors_of_forms": errors_of_forms,
    "errors_of_signatures": errors_of_signatures,
    "errors_of_older": errors_of_older,
    "errors_in_pairs": errors_in_pairs,
    "errors_beside_older": errors_beside_older,
    "errors_of_tables": errors_of_tables,
    "signatures": signatures,
    "signatures_that_change": signatures_that_change,
    "structs": structs,
    "other_generation": other_generation,
    "structs_of_tables": structs_of_tables,
    "raw_capsules": raw_capsules,
    "requests": requests,
    "ways_out": ways_out,
    "read_only_generations": read_only_generations,
    "options": options,
    "lazy_bits": lazy_bits,
}
