"""Scenarios of older protocols, raw looks at attributes, Tensors, and types that change."""

from __future__ import annotations

import array
import ctypes
import sys
import weakref
from collections.abc import Callable
from typing import Any

import dlshim
from dlshim import _core
from doubles import capsules as caps
from doubles import sycl
from doubles.older import Broken, InterfaceOnly, StructOnly
from doubles.producers import (
    EDITIONS,
    P1,
    P2,
    P3,
    ForeignEnum,
    IntDevice,
    P0ToDlpack,
    function_module,
)

from . import record
from .host import BOTH, REQUESTS, UNLIKE, go
from .pairs import Group, group
from .record import ENTRIES, asked, own, steps, told, write
from .scripted import ERRORS, gives, raises, scripted

INTERFACE: dict[str, dict[str, Any]] = {
    "plain": {},
    **{f"version {v!r}": {"version": v} for v in (0, 1, 2, 4, None, "3", 3.0)},
    **{
        f"typestr {t!r}": {"typestr": t}
        for t in (">f4", "=f4", "|f4", "<f2", "<i4", "|b1", "|u1", "<c8", "<U4", "|V8", "<f", "",
                  "f4", None, 4, "<f16", "<M8")
    },
    **{f"shape {s!r}": {"shape": s} for s in ((), (0, 3), [2, 3], (2, -3), (2, "3"), None, 6)},
    **{
        f"strides {s!r}": {"strides": s}
        for s in ((12, 4), (4, 8), (-12, 4), (0, 4), (6, 2), (12,), [12, 4], "12")
    },
    **{
        f"data {d!r}": {"data": d}
        for d in (None, 0, (0, False), (1, False), "text", (1,), (1, 2, 3))
    },
    "bytes": {"data": bytes(24)},
    "bytearray": {"data": bytearray(24)},
    "short buffer": {"data": bytearray(8)},
    "offset": {"data": bytearray(32), "offset": 8},
    "offset and pointer": {"offset": 8},
    "read-only": {"data": "read-only"},
    "mask": {"mask": 5},
    "no mask": {"mask": None},
    "descr": {"descr": [("", "<f4")]},
    "descr of fields": {"descr": [("a", "<i2"), ("b", "<i2")]},
    **{f"no {k}": {k: InterfaceOnly.DROP} for k in ("shape", "typestr", "data", "version")},
}  # fmt: skip

STRUCT: dict[str, dict[str, Any]] = {
    "plain": {},
    "two is three": {"two": 3},
    "nd -1": {"nd": -1},
    "nd 100": {"nd": 100},
    **{f"kind {k!r}": {"typekind": k} for k in (b"i", b"u", b"c", b"b", b"V", b"O", b"U", b"\0")},
    **{f"itemsize {n}": {"itemsize": n} for n in (0, 1, 2, 3, 8, -4)},
    **{f"flags {f:#x}": {"flags": f} for f in (0, 0x100, 0x200, 0x500, 0x700, 0x300, 0xF00)},
    "strides 12 5": {"byte_strides": (12, 5)},
    "strides -12 4": {"byte_strides": (-12, 4)},
    "strides 0 4": {"byte_strides": (0, 4)},
    "no shape": {"shape": None},
    "no strides": {"strides": None},
    "no data": {"data": None},
}

OTHER: dict[str, Callable[[], Any]] = {
    "bytes": lambda: bytes(range(6)),
    "bytearray": lambda: bytearray(range(6)),
    "empty bytearray": bytearray,
    "strided memoryview": lambda: memoryview(bytearray(range(12)))[::2],
    "backward memoryview": lambda: memoryview(bytearray(range(12)))[::-1],
    "memoryview of shape": lambda: memoryview(bytearray(24)).cast("f", (2, 3)),
    "read-only memoryview": lambda: memoryview(bytes(8)),
    "released memoryview": lambda: _released(),
    **{f"array {c}": lambda c=c: array.array(c, [1, 2]) for c in "bBhHiIlLqQfd"},  # type: ignore
    "ctypes array": lambda: (ctypes.c_int * 3)(1, 2, 3),
    "ctypes struct": caps.DLTensor,
    "ctypes pointers": lambda: (ctypes.c_void_p * 2)(),
    "int": lambda: 5,
    "None": lambda: None,
    "list": lambda: [1, 2],
    "type": lambda: P2,
    "text": lambda: "text",
    "interface no dict": lambda: Broken(__array_interface__=5),
    "interface None": lambda: Broken(__array_interface__=None),
    "struct no capsule": lambda: Broken(__array_struct__=5),
    "struct of DLPack": lambda: Broken(__array_struct__=caps.new_capsule(8, "other")),
    "sycl no dict": lambda: Broken(__sycl_usm_array_interface__=5),
    "cuda no dict": lambda: Broken(__cuda_array_interface__=5),
    "__dlpack__ no function": lambda: Broken(__dlpack__=5),
    "toDlpack no function": lambda: Broken(toDlpack=5),
    "Producer": lambda: dlshim.upgrade(P2()),
    "Producer of a Producer": lambda: dlshim.upgrade(dlshim.upgrade(P2(), readonly=True)),
    "Tensor": lambda: dlshim.from_dlpack(P2()),
    "Tensor of a Tensor": lambda: dlshim.from_dlpack(dlshim.from_dlpack(P2())),
    "Tensor, copied": lambda: dlshim.from_dlpack(P2(), copy=True),
    "read-only Tensor": lambda: dlshim.from_dlpack(P2(readonly=True)),
}


def _released() -> memoryview:
    view = memoryview(bytearray(4))
    view.release()
    return view


def of_interface(changes: dict[str, Any]) -> Any:
    x = InterfaceOnly()
    read_only = {"data": (x.element_zero, True)} if changes.get("data") == "read-only" else {}
    x.changes = changes | read_only
    return x


OLDER: dict[str, Callable[[], Any]] = {
    **{f"interface, {n}": lambda c=c: of_interface(c) for n, c in INTERFACE.items()},  # type: ignore
    **{f"struct, {n}": lambda c=c: StructOnly(changes=c) for n, c in STRUCT.items()},  # type: ignore
    **OTHER,
}


@group(kind=OLDER)
def older_protocols(kind: str) -> None:
    """Whatever such an object can say; how it is asked makes no difference to what is read."""
    x = OLDER[kind]()
    if hasattr(x, "memory"):
        own(x)
    steps(x, ("versioned", "question", "from_dlpack", "owned", "inspect"))


SYCL: dict[str, dict[str, Any]] = {
    "plain": {},
    **{f"version {v!r}": {"changes": {"version": v}} for v in (0, 2, None, "1")},
    **{f"syclobj {type(s).__name__}": {"syclobj": s} for s in (5, "cpu", "nowhere", [])},
    "context": {"syclobj": sycl.Context(0)},
    "device": {"syclobj": sycl.Device(2)},
    "capsule": {"syclobj": sycl.Getter(sycl.Queue(2))},
    "filter": {"syclobj": "level_zero:gpu:1"},
    "read-only": {"readonly": True},
    "offset": {"offset": 4},
    "strided": {"strides": (1, 2)},
    "backwards": {"strides": (-3, 1), "offset": 3},
    "empty": {"shape": (0, 3)},
    "no offset": {"changes": {"offset": sycl.SyclOnly.DROP}},
    "no syclobj": {"changes": {"syclobj": sycl.SyclOnly.DROP}},
    "data None": {"changes": {"data": None}},
    "typestr": {"changes": {"typestr": "<f4"}},
}
SYCL_KINDS = {
    cls.__name__: cls
    for cls in (sycl.SyclOnly, sycl.DpctlArray, sycl.DpnpArray, sycl.Memory)
}  # fmt: skip
SYCL_ASKS: dict[str, Callable[..., None]] = {
    "legacy": ENTRIES["legacy"],
    "versioned -1": asked(stream=-1, **record.V1),
    "from_dlpack": ENTRIES["from_dlpack"],
    "question": ENTRIES["question"],
    "owned": ENTRIES["owned"],
    "to host": asked(dl_device=(1, 0), **record.V1),
}


@group(
    kind=SYCL_KINDS,
    says=SYCL,
    ask=SYCL_ASKS,
    state=("dpctl is imported", "no dpctl"),
    where=lambda case: (
        case.kind != "Memory"
        or not {"offset", "strides", "shape", "changes"} & SYCL[case.says].keys()
    ),
)
def sycl_interfaces(kind: str, says: str, ask: str, state: str) -> None:
    """Its memory is the host's; what the queues are told is written down."""
    if state == "dpctl is imported":
        sys.modules["dpctl"] = sycl.library()
    try:
        x = own(SYCL_KINDS[kind](**SYCL[says]))
        queue = sycl.Queue(2)
        go(x, {ask: SYCL_ASKS[ask], "of a queue": asked(stream=queue, **record.V1)})
        write(f"told {[str(t) if type(t) is str else t[0] for t in queue.log]}")
        for mine in (x.queue,) if isinstance(x.queue, sycl.Queue) else ():
            write(f"own told {[str(t) if type(t) is str else t[0] for t in mine.log]}")
            mine.log.clear()
    finally:
        sys.modules.pop("dpctl", None)


FUNCTIONS = {
    "torch": "torch.utils.dlpack.to_dlpack",
    "jax": "jax.dlpack.to_dlpack",
    "tensorflow": "tensorflow.experimental.dlpack.to_dlpack",
}


@group(
    library=FUNCTIONS,
    error=("NotImplementedError", "TypeError", "ValueError", "no error"),
    then=(*BOTH, "RuntimeError", "no capsule"),
    ask=("legacy", "versioned", "from_dlpack", "owned"),
)
def functions(library: str, error: str, then: str, ask: str) -> None:
    """Functions of modules, beside a `__dlpack__` that is a placeholder, or is none."""

    def function(x: Any) -> Any:
        write("  call the function")
        if then == "RuntimeError":
            raise RuntimeError("no function today")
        return 5 if then == "no capsule" else gives(then)(x, {})

    cls: Any = scripted(gives() if error == "no error" else raises(error), library=library)
    modules = function_module(FUNCTIONS[library], function)
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        steps(own(cls()), (ask,) * 3)
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


# --- devices ------------------------------------------------------------------------------

DEVICES: dict[str, Any] = {
    **{str(d): d for d in ((1, 0), (1, 1), (2, 0), (3, 0), (11, 0), (13, 0), (14, 0), (4, 0),
                           (0, 0), (-1, 0), (99, 0), (1, None), (1, -1), (1,), (1, 0, 0),
                           (2**40, 0), (True, 0), ("1", 0), (1.0, 0))},
    "list": [1, 0],
    "enum": (IntDevice.kDLCPU, 0),
    "foreign enum": (ForeignEnum(1), 0),
    "text": "cpu",
    "None": None,
    "number": 1,
    **{name: make() for name, make in ERRORS.items()},
}  # fmt: skip


FEW_DEVICES = ("(1, 0)", "(2, 0)", "(14, 0)", "(1, None)", "TypeError", "MemoryError")


@group(
    device=DEVICES,
    state=("first", "learned", "beside an interface"),
    ask=("versioned", "from_dlpack", "question", "owned"),
    # Which way out asks is no matter for what is read.
    where=lambda case: case.ask in ("question", "versioned") or case.device in FEW_DEVICES,
)
def devices(device: str, state: str, ask: str) -> None:
    """Whatever `__dlpack_device__` answers, at first and later, on the host all the same."""
    if state == "beside an interface":

        def question(self: Any) -> Any:
            write("  call __dlpack_device__()")
            answer = DEVICES[device]
            if isinstance(answer, BaseException):
                raise type(answer)(*answer.args)
            return answer

        x = own(type("Old", (InterfaceOnly,), {"__dlpack_device__": question})())
        steps(x, (ask, ask))
        return
    cls: Any = scripted()
    x = own(cls())

    def before(number: int) -> None:
        odd = number < 2 if state == "first" else number == 1
        cls.DEVICE = DEVICES[device] if odd else (1, 0)

    steps(x, (ask, ask, ask, "question"), before)


# --- Tensors ------------------------------------------------------------------------------

TENSORS: dict[str, dict[str, Any]] = {
    "plain": {},
    "read-only": {"readonly": True},
    "strided": {"strides": (1, 2)},
    "backwards": {"strides": (-3, 1), "start": 3},
    "empty": {"shape": (0, 3)},
    "no deleter": {"deleter": False},
}
OF_TENSORS: dict[str, dict[str, Any]] = {
    "no option": {},
    "copy": {"copy": True},
    "device cpu": {"device": "cpu"},
    "stream -1": {"stream": -1},
    "device cuda:0": {"device": "cuda:0"},
}
SOME_REQUESTS = ("bare", "(1, 0)", "copy", "no copy, 1.0", "device host")


@group(
    edition=("P1", "P2", "P3"), kind=TENSORS, given=OF_TENSORS, request=REQUESTS,
    where=lambda case: case.request in SOME_REQUESTS
    or (case.given == "no option" and case.kind in ("plain", "read-only")),
)  # fmt: skip
def tensors(edition: str, kind: str, given: str, request: str) -> None:
    """Requests to a Tensor, for a few of what it can be made of, and with which option."""
    x = own(told(EDITIONS[edition])(**TENSORS[kind]))

    def twice(t: Any) -> None:
        REQUESTS[request](t, None)
        REQUESTS[request](t, None)

    record.exchange(request, lambda: record.tensor(twice, **OF_TENSORS[given])(None, x))


# --- types that change --------------------------------------------------------------------


def _becomes(other: type) -> Callable[[Any], None]:
    def change(x: Any) -> None:
        x.__class__ = told(other)

    return change


def _loses(name: str) -> Callable[[Any], None]:
    def change(x: Any) -> None:
        for cls in type(x).__mro__[:1]:
            if name in vars(cls):
                delattr(cls, name)

    return change


def _replaces(answer: Any) -> Callable[[Any], None]:
    def change(x: Any) -> None:
        type(x).__dlpack__ = lambda self, **asked: (
            write("  call the new one") or answer(self, asked)
        )

    return change


def _instance(x: Any) -> None:
    answer = gives("legacy")
    x.__dlpack__ = lambda: write("  call the instance's") or answer(x, {})


CHANGES: dict[str, Callable[[Any], None]] = {
    "forgets": lambda x: _core._hook("forget_plans"),
    "becomes P1": _becomes(P1),
    "becomes P2": _becomes(P2),
    "becomes P3": _becomes(P3),
    "becomes toDlpack": _becomes(P0ToDlpack),
    "loses __dlpack__": _loses("__dlpack__"),
    "loses __dlpack_device__": _loses("__dlpack_device__"),
    "loses its table": _loses("__dlpack_c_exchange_api__"),
    "another __dlpack__": _replaces(gives()),
    "another legacy __dlpack__": _replaces(gives("legacy")),
    "an instance's __dlpack__": _instance,
    "__dlpack__ = None": lambda x: setattr(type(x), "__dlpack__", None),
    "a class's new attribute": lambda x: setattr(type(x), "something", 1),
    "gets an interface": lambda x: setattr(type(x), "__array_interface__", {"version": 3}),
}


@group(
    edition=("P1", "P2", "P3", "P0ToDlpack", "InstanceOnly"),
    change=CHANGES,
    ask=("legacy", "versioned", "from_dlpack", "question", "owned", "borrowed"),
    when=("between", "inside"),
    where=lambda case: case.when == "between" or case.edition == "P2",
)
def changing_types(edition: str, change: str, ask: str, when: str) -> None:
    """Between two exchanges, or inside of the second."""
    x = own(told(EDITIONS[edition])())

    def before(number: int) -> None:
        if number != 1:
            return
        if when == "between":
            CHANGES[change](x)
            return
        inner = type(x).__dlpack__

        def within(self: Any, **asked: Any) -> Any:
            CHANGES[change](self)
            return inner(self, **asked)

        type(x).__dlpack__ = within

    steps(x, (ask,) * 3, before, watch=True)


# --- what keeps what alive ----------------------------------------------------------------

TAKES: dict[str, Callable[[Any, Any], Any]] = {
    "legacy": lambda u, x: caps.take(u.__dlpack__()),
    "versioned": lambda u, x: caps.take(u.__dlpack__(**record.V1)),
    "capsule": lambda u, x: u.__dlpack__(),
    "order C": lambda u, x: caps.take(dlshim.upgrade(x, order="C").__dlpack__(**record.V1)),
    "owned": lambda u, x: record.tables[type(u)].owned(u),
    "from_dlpack": lambda u, x: dlshim.from_dlpack(x),
    "Tensor versioned": lambda u, x: caps.take(dlshim.from_dlpack(x).__dlpack__(**record.V1)),
    "Tensor owned": lambda u, x: record.tables[_core.Tensor].owned(dlshim.from_dlpack(x)),
    "buffer": lambda u, x: memoryview(dlshim.from_dlpack(x)),
    "Producer": lambda u, x: u,
}
#: Libraries differ in who owns what they give.
OWNERS = ("unknown", "numpy", "torch", "strict", "onnxruntime")
OLDER_OWNERS: dict[str, Callable[[], Any]] = {
    "interface": InterfaceOnly,
    "strided interface": lambda: InterfaceOnly(strides=(1, 2)),
    "interface of a buffer": lambda: InterfaceOnly(changes={"data": bytearray(24)}),
    "struct": StructOnly,
    "sycl interface": sycl.SyclOnly,
}


@group(
    owner=(*OWNERS, *OLDER_OWNERS),
    generation=BOTH,
    kind=("plain", "table", "no deleter"),
    take=TAKES,
    state=("handed on", "translate"),
    where=lambda case: case.owner in OWNERS or (case.generation, case.kind) == ("legacy", "plain"),
)
def lifetimes(owner: str, generation: str, kind: str, take: str, state: str) -> None:
    """Does the source live while the consumer holds its export (T10)?  Everybody else lets go."""
    cls: Any = OLDER_OWNERS.get(owner)
    if cls is None:
        no_deleter = {"deleter": False} if kind == "no deleter" else {}
        cls = scripted(
            gives(generation, owner=None, **no_deleter),
            library=owner,
            table=kind == "table",
            table_answer=lambda self: self._export((1, 3), owner=None),
        )
    for known in ("first", "learned"):
        x = own(cls())
        source = weakref.ref(x)
        upgraded = dlshim.upgrade(x)
        held = [None]

        def get(held: Any = held, of: Any = (upgraded, x)) -> None:
            held[0] = TAKES[take](*of)

        record.exchange(known, get)
        del x, upgraded, get
        write(f"source is {'dead' if source() is None else 'held'}")
        held.clear()
        write(f"after release {'dead' if source() is None else 'held'}")


# --- attributes ---------------------------------------------------------------------------


@group(edition=UNLIKE, ask=("versioned", "from_dlpack", "inspect"))
def attributes(edition: str, ask: str) -> None:
    """Which attributes of the object and of its type are looked at, and in which order."""
    quiet = [True]
    base: Any = EDITIONS[edition]

    class Meta(type):
        def __getattribute__(cls, name: str) -> Any:
            if not quiet[0] and name.startswith(("__dlpack", "__c_dlpack", "__array", "to")):
                write(f"  look at the type's {name}")
            return super().__getattribute__(name)

    class Watched(base, metaclass=Meta):
        def __getattribute__(self, name: str) -> Any:
            if not quiet[0] and name.startswith(("__", "to", "is_", "requires")):
                write(f"  look at {name}")
            return super().__getattribute__(name)

    x = own(Watched())
    upgraded: list[Any] = []

    def one() -> None:
        quiet[0] = False
        try:
            if not upgraded:
                upgraded.append(dlshim.upgrade(x))
            ENTRIES[ask](upgraded[0], x)
        finally:
            quiet[0] = True

    for _ in range(2):
        record.exchange(ask, one)


GROUPS: dict[str, Group] = {
    "older_protocols": older_protocols,
    "sycl_interfaces": sycl_interfaces,
    "functions": functions,
    "devices": devices,
    "tensors": tensors,
    "changing_types": changing_types,
    "lifetimes": lifetimes,
    "attributes": attributes,
}
