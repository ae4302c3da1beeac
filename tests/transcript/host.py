"""Scenarios of host memory: how producers are asked, what errors mean, what is learned.

A scenario makes its type anew.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
from collections.abc import Callable
from typing import Any

import dlshim
from doubles import capsules as caps
from doubles import structs as fields_of
from doubles.older import InterfaceOnly, StructOnly
from doubles.producers import (
    ALL_KEYWORDS,
    EDITIONS,
    P1,
    P2,
    P3,
    Array,
    CopiesAlways,
    P1b,
    P1Numpy124,
    P2LegacyOfReadonly,
    P2Pyarrow26,
    torch_like,
)
from doubles.streams import Index

from . import record
from .pairs import Group, group
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

BOTH = ("legacy", "versioned")
#: When the odd thing happens: at once, or when the type was learned; structs may be handed on, or
#: every one is translated.
STATES = ("first", "learned", "translate")


def phases(x: Any, *answers: Any) -> Callable[[int], None]:
    """Before exchange n the answer becomes the n-th."""

    def before(number: int) -> None:
        answer = answers[min(number, len(answers) - 1)]
        if answer is not None:
            type(x).ANSWER = staticmethod(answer)

    return before


# --- errors -------------------------------------------------------------------------------


@group(
    library=("unknown", "numpy", "torch", "jax", "strict", "tensorflow"),
    error=ERRORS,
    form=("max_version", "bare", "any", "always"),
    ask=BOTH,
    state=STATES,
    where=lambda case: case.library == "unknown" or case.error in COMMON,
)
def errors_of_forms(library: str, error: str, form: str, ask: str, state: str) -> None:
    """An error for one form of the call."""
    bad = when(FORMS[form], raises(error), gives())
    x = own(scripted(library=library)())
    order = (bad, gives()) if state == "first" else (gives(), bad, gives())
    steps(x, (ask,) * 3, phases(x, *order), watch=True)


#: The keywords that a method takes, and what it does when it is called with these.
METHODS: dict[str, tuple[tuple[str, ...], Any]] = {
    "nothing": ((), gives()),
    "stream": (("stream",), gives()),
    "stream, which it needs": (("stream",), when(FORMS["bare"], raises("TypeError"), gives())),
    "max_version": (("max_version",), gives()),
    "max_version, refused otherwise": (
        ALL_KEYWORDS, when(FORMS["max_version"], raises("ValueError"), gives())
    ),
}  # fmt: skip


@group(
    library=("unknown", "numpy", "strict"),
    takes=METHODS,
    error=ERRORS,
    ask=("legacy", "versioned", "from_dlpack", "owned", "borrowed"),
)
def errors_of_signatures(library: str, takes: str, error: str, ask: str) -> None:
    """An error of a call that was learned with other keywords than are tried first."""
    keywords, good = METHODS[takes]
    x = own(scripted(library=library, TAKES=keywords)())
    steps(x, (ask,) * 4, phases(x, good, raises(error), raises(error), good), watch=True)


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


OLDER: dict[str, Callable[[], tuple[Any, Any]]] = {
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


@group(
    kind=OLDER,
    error=ERRORS,
    ask=("legacy", "versioned", "from_dlpack", "owned", "question"),
    state=STATES[:2],
)
def errors_of_older(kind: str, error: str, ask: str, state: str) -> None:
    """An older protocol fails, at first or once it has worked."""
    cls, good = OLDER[kind]()
    cls.ANSWER = staticmethod(good) if good else None
    x = own(cls())

    def before(number: int) -> None:
        bad = number == STATES.index(state)
        cls.ANSWER = staticmethod(raises(error)) if bad else staticmethod(good) if good else None

    steps(x, (ask,) * 3, before)


@group(
    library=("unknown", "numpy", "strict"),
    first=COMMON,
    second=COMMON,
    third=("fine", "TypeError", "ValueError"),
    ask=BOTH,
    where=lambda case: case.library == "unknown" or case.third == "fine",
)
def errors_in_pairs(library: str, first: str, second: str, third: str, ask: str) -> None:
    """One error for max_version, another for the bare call, a third for the stream."""
    last = gives() if third == "fine" else raises(third)
    bare = when(FORMS["bare"], raises(second), last)
    x = own(scripted(when(FORMS["max_version"], raises(first), bare), library=library)())
    steps(x, (ask, ask))


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


@group(library=("unknown", "numpy"), beside=BESIDE, error=ERRORS, ask=BOTH, state=STATES[:2])
def errors_beside_older(library: str, beside: str, error: str, ask: str, state: str) -> None:
    """`__dlpack__` fails, and there is another way in."""
    x = own(scripted(library=library, bases=BESIDE[beside])())
    order = (raises(error),) if state == "first" else (gives(), raises(error), gives())
    steps(x, (ask,) * 3, phases(x, *order))


@group(
    library=("unknown", "torch"),
    error=ERRORS,
    after=("fine", "TypeError", "BufferError"),
    ask=("legacy", "versioned", "owned", "borrowed", "from_dlpack", "to object"),
    state=STATES[:2],
)
def errors_of_tables(library: str, error: str, after: str, ask: str, state: str) -> None:
    """The table fails, at first or once it has worked; `__dlpack__` works or fails as well."""
    cls: Any = scripted(library=library, table=True)
    if after != "fine":
        cls.ANSWER = staticmethod(raises(after))
    x = own(cls())
    failing = STATES.index(state)
    steps(x, (ask,) * 3, lambda number: table_fails(cls, error if number == failing else None))


# --- signatures ---------------------------------------------------------------------------


SIGNATURES = tuple(
    takes for n in range(5) for takes in itertools.combinations(ALL_KEYWORDS, n)
)  # fmt: skip
FEW_SIGNATURES = ((), ("stream",), ("max_version",), ("stream", "max_version"), ALL_KEYWORDS)


@group(
    takes=SIGNATURES,
    generation=("asked", "legacy", "versioned"),
    question=("has a device", "no device"),
    ask=("legacy", "versioned", "from_dlpack", "1.3 and stream -1"),
    second=("the same", "the other"),
)
def signatures(takes: Any, generation: str, question: str, ask: str, second: str) -> None:
    """Every set of keywords, every generation of the answer, with and without a device."""
    x = own(scripted(gives(generation), question=question == "has a device", TAKES=takes)())
    other = {"legacy": "versioned"}.get(ask, "legacy")
    steps(x, (ask, ask if second == "the same" else other, ask, "question"))


@group(before=FEW_SIGNATURES, after=FEW_SIGNATURES, generation=("asked", "legacy"), ask=BOTH)
def signatures_that_change(before: Any, after: Any, generation: str, ask: str) -> None:
    """A type that was learned takes other keywords from now on."""
    cls: Any = scripted(gives(generation), TAKES=before)
    x = own(cls())
    change = lambda n: setattr(cls, "TAKES", before if n < 2 else after)  # noqa: E731
    steps(x, (ask,) * 4, change, watch=True)


# --- structs ------------------------------------------------------------------------------


STRUCTS: dict[str, dict[str, Any]] = {
    **fields_of.ANY,
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
    **fields_of.VERSIONED_ONLY,
    "read-only copy": {"flags": 3},
    "1.70": {"version": (1, 70)},
}
NO_CAPSULES: dict[str, Any] = {"None": None, "int": 5, "tuple": (1, 0), "text": "dltensor"}

OF_CAPSULES = {"name", "destructor", "kept"}
SOURCES = ("legacy method", "versioned method", "table", "legacy capsule", "versioned capsule")


def can_give(case: Any) -> bool:
    """Whether this source can say so, and has such a state."""
    if case.source.endswith("capsule") and case.state == "learned":
        return False
    if case.struct in NO_CAPSULES:
        return case.source == "versioned method"
    if case.struct in VERSIONED_ONLY:
        return not case.source.startswith("legacy")
    return case.source != "table" or not STRUCTS[case.struct].keys() & OF_CAPSULES


@group(
    source=SOURCES,
    struct=(*STRUCTS, *VERSIONED_ONLY, *NO_CAPSULES),
    ask=("legacy", "versioned", "from_dlpack", "Tensor versioned", "owned", "borrowed"),
    state=STATES,
    where=can_give,
)
def structs(source: str, struct: str, ask: str, state: str) -> None:
    """A type that gives plain structs gives another, and a plain one again.

    A capsule is asked, and asked once more when it is used up.
    """
    generation, _, kind = source.rpartition(" ")
    fields = (STRUCTS | VERSIONED_ONLY).get(struct, {})
    odd = returns(NO_CAPSULES[struct]) if struct in NO_CAPSULES else gives(generation, **fields)
    if kind == "capsule":
        steps(odd(own(scripted()()), {}), (ask, ask))
        return
    takes = ("max_version",) if generation == "versioned" else ()
    cls: Any = scripted(table=kind == "table", TAKES=takes)
    x = own(cls())

    def before(number: int) -> None:
        is_odd = number == 1 or (number == 0 and state == "first")
        cls.ANSWER = staticmethod(odd if is_odd else gives(generation))
        more = dict(fields) if is_odd else {}
        version = more.pop("version", (1, 3))
        if more.keys() & {"shape", "strides", "dtype"}:
            more = {"memory": None, "start": 0, "strides": "row-major"} | more
        cls.table_answer = lambda self: self._export(version, **more)

    steps(x, (ask,) * 3, before)


@group(
    before=BOTH, after=BOTH, takes=((), ("max_version",), ("stream",)),
    ask=("legacy", "versioned", "1.3 and stream -1", "from_dlpack", "Tensor legacy",
         "Tensor versioned", "to_capsule", "owned", "borrowed"),
)  # fmt: skip
def other_generation(before: str, after: str, takes: Any, ask: str) -> None:
    """Learned by one generation, it gives the other from now on, whatever was asked."""
    x = own(scripted(TAKES=takes)())
    steps(x, (ask,) * 3, phases(x, gives(before), gives(after)), watch=True)


# --- requests -----------------------------------------------------------------------------


#: Editions of producers that are asked or answer in different ways.
UNLIKE = (
    "P0ToDlpack", "P0VersionedToDlpack", "P0SnakeToDlpack", "P0Mxnet", "P1", "P1NullStrides",
    "P1aNoDevice", "P1b", "P1bOffset", "P2", "P2Torch", "P3", "P3OldSpelling", "P3NoBorrow",
    "P3TableOnly", "P3Silent", "P3NullData", "P3MajorTwo", "Strict", "StrictValueError",
    "Asserting", "PaddleDevice", "DisagreeingDevice", "BrokenDevice", "InstanceOnly", "ByGetattr",
)  # fmt: skip
FEW = ("P0ToDlpack", "P1", "P2", "P3", "Strict")


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
    "numbered": asked(max_version=(Index(1), Index(0))),
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
    "stream no stream": asked(stream=Index(3)),
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


@group(edition=FEW, request=REQUESTS)
def requests(edition: str, request: str) -> None:
    """Every way of asking, by a type that is unknown and one that is known."""
    x = own(told(EDITIONS[edition])())
    ask = REQUESTS[request]
    go(x, {request: ask, "versioned": asked(**record.V1), f"{request} again": ask})


@group(
    edition=UNLIKE, way=ENTRIES, state=("handed on", "translate"),
    where=lambda case: case.edition in FEW
    or case.way in ("legacy", "versioned", "copied", "question", "from_dlpack", "owned", "inspect"),
)  # fmt: skip
def ways_out(edition: str, way: str, state: str) -> None:
    """The ways out of every edition, three times; a report, which learns nothing, once."""
    x = own(told(EDITIONS[edition])())
    times = 1 if way == "inspect" else 3
    steps(x, (way,) * times, anew=way in ("from_dlpack", "owned"))


LAYOUTS: dict[str, dict[str, Any]] = {
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


OF_LAYOUTS = {
    cls.__name__: cls
    for cls in (P1, P1b, P1Numpy124, P2, P2LegacyOfReadonly, P2Pyarrow26, P3)
}  # fmt: skip


@group(edition=OF_LAYOUTS, layout=LAYOUTS, way=ENTRIES)
def layouts(edition: str, layout: str, way: str) -> None:
    x = own(told(OF_LAYOUTS[edition])(**LAYOUTS[layout]))
    steps(x, (way,) if way == "inspect" else (way, way))


# --- options ------------------------------------------------------------------------------


def unaligned(base: type, **fields: Any) -> Any:
    """Such an array at an address that 16 divides and 32 does not."""
    raw = bytes(caps.filled((2, 3), "float32"))
    page = mmap.mmap(-1, 4096)
    page[16 : 16 + len(raw)] = raw
    return told(base)(memory=(ctypes.c_char * len(raw)).from_buffer(page, 16), **fields)


OF_OPTIONS: dict[str, Callable[[], Any]] = {
    "P1": lambda: unaligned(P1),
    "P2": lambda: unaligned(P2),
    "P2 read-only": lambda: unaligned(P2, readonly=True),
    "P2 backwards": lambda: unaligned(P2, strides=(-3, 1), start=3),
    "P3": lambda: unaligned(P3),
    "CopiesAlways": lambda: unaligned(CopiesAlways),
    "interface": lambda: InterfaceOnly(),
    "bytes": lambda: bytes(range(6)),
}
#: What an option can be; what is refused before the producer is looked at, for one producer.
GIVEN: dict[str, list[Any]] = {
    "stream": [-1, 2],
    "producer_stream": [1],
    "unknown_stream": ["same", "error"],
    "device": ["cpu", "cuda:0", (3, 0)],
    "like": [None, b"here"],
    "copy": [True, False],
    "readonly": [True, False, "error", "copy", "share", "strip"],
    "order": ["K", "C", "auto", "F"],
    "align": [64, 4096],
    "reinterpret": ["int32", "float64", (2, 16, 2)],
    "assume_device": ["cpu", "cuda:0", (10, 0), (1, 1)],
    "detach": [True, False],
    "on_release": ["guard"],
}
PLAIN_OR_WRONG: dict[str, list[Any]] = {
    "stream": [None, 0, 1, 99, True, "x", CudaStream()],
    "producer_stream": [None, 0, 7, -1, "x", CudaStream()],
    "unknown_stream": ["auto", "legacy", "none"],
    "device": ["cuda", (1, 0), (2, 1), "nowhere", (0, 0)],
    "like": [3],
    "copy": [None, 1],
    "readonly": [None, 1],
    "order": [None],
    "align": [None, 3, 0],
    "reinterpret": ["uint8", (0, 32, 1), "nothing"],
    "assume_device": [(3, 0)],
    "on_release": ["contract", "later"],
}
TOGETHER: list[dict[str, Any]] = [
    {},
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


def by_name(given: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    text = lambda each: ", ".join(f"{k}={record.show(v)}" for k, v in each.items())  # noqa: E731
    return {text(each) or "no option": each for each in given}


def alone(values: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [{name: value} for name, these in values.items() for value in these]


ANY_OPTION = by_name([*TOGETHER, *alone(GIVEN)])
OPTIONS = ANY_OPTION | by_name(alone(PLAIN_OR_WRONG))


@group(
    kind=OF_OPTIONS,
    given=OPTIONS,
    way=("legacy", "versioned", "question", "owned", "borrowed"),
    where=lambda case: (
        (case.kind == "P2" or case.given in ANY_OPTION)
        # The addresses of the others are chance.
        and ("align" not in case.given or case.kind[0] == "P")
    ),
)
def options(kind: str, given: str, way: str) -> None:
    """Every option, alone and in a few pairs."""
    steps(own(OF_OPTIONS[kind]()), (way, way), **OPTIONS[given])


BITS = ("no bit", "requires_grad", "conj", "neg")
OF_TORCH = tuple(itertools.product(("a table", "old", "new"), ("first", "learned", "detach")))
WAYS = ("from_dlpack", "question", "owned", "borrowed")


@group(tensor=OF_TORCH, said=tuple(itertools.product(BITS, WAYS)))
def lazy_bits(tensor: tuple[str, str], said: tuple[str, str]) -> None:
    """Tensors of torch whose values are not in their memory as they are: each with each."""
    (producer, state), (bit, ask) = tensor, said
    cls = told(torch_like(table=producer == "a table", edition=1 if producer == "old" else 2))
    cls.__module__, cls.__qualname__ = "torch", "Tensor"
    if state == "learned":
        steps(own(cls()), (ask,))
    bits = {} if bit == "no bit" else {bit: True}
    for dtype in ("float32", "complex64"):
        x = own(cls(dtype=dtype, **bits))
        steps(x, (ask, ask), **({"detach": True} if state == "detach" else {}))


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
    "requests": requests,
    "ways_out": ways_out,
    "layouts": layouts,
    "options": options,
    "lazy_bits": lazy_bits,
}
