"""Scenarios of older protocols, raw looks at attributes, Tensors, and types that change."""

from __future__ import annotations

import array
import ctypes
import itertools
import sys
import weakref
from collections.abc import Callable, Iterator
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
    InstanceOnly,
    IntDevice,
    P0ToDlpack,
    function_module,
)

from . import record
from .host import BOTH, REQUESTS, Group, Scenario, go
from .record import ENTRIES, asked, own, steps, told, write
from .scripted import ERRORS, Libraries, gives, raises, scripted

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


OUT = ("legacy", "versioned", "question", "from_dlpack", "owned", "borrowed", "inspect",
       "interface", "buffer")  # fmt: skip


def older_protocols() -> Iterator[Scenario]:
    kinds: list[tuple[str, Callable[[], Any]]] = []
    for name, changes in INTERFACE.items():

        def interface(changes: Any = changes) -> Any:
            x = InterfaceOnly()
            address = x.element_zero
            data = {"data": (address, True)} if changes.get("data") == "read-only" else {}
            x.changes = changes | data
            return x

        kinds.append((f"interface, {name}", interface))
    for name, changes in STRUCT.items():
        kinds.append((f"struct, {name}", lambda c=changes: StructOnly(changes=c)))  # type: ignore
    kinds += OTHER.items()
    for (name, make), entry in itertools.product(kinds, OUT):

        def scenario(make: Any = make, entry: str = entry) -> None:
            x = make()
            if hasattr(x, "memory"):
                own(x)
            steps(x, (entry, entry))

        yield f"{name}, {entry}", scenario, True


def sycl_interfaces() -> Iterator[Scenario]:
    """Its memory is the host's; what the queues are told is written down."""
    changes: dict[str, dict[str, Any]] = {
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
    kinds = (sycl.SyclOnly, sycl.DpctlArray, sycl.DpnpArray, sycl.Memory)
    asks: dict[str, Callable[..., None]] = {
        "legacy": ENTRIES["legacy"],
        "versioned -1": asked(stream=-1, **record.V1),
        "from_dlpack": ENTRIES["from_dlpack"],
        "question": ENTRIES["question"],
        "owned": ENTRIES["owned"],
        "to host": asked(dl_device=(1, 0), **record.V1),
    }
    for cls, (name, fields), (label, ask), imported in itertools.product(
        kinds, changes.items(), asks.items(), (True, False)
    ):
        if cls is sycl.Memory and {"offset", "strides", "shape", "changes"} & fields.keys():
            continue

        def scenario(cls: Any = cls, fields: Any = fields, label: str = label, ask: Any = ask,
                     imported: bool = imported) -> None:  # fmt: skip
            if imported:
                sys.modules["dpctl"] = sycl.library()
            try:
                x = own(cls(**fields))
                queue = sycl.Queue(2)
                go(x, {label: ask, "of a queue": asked(stream=queue, **record.V1)})
                write(f"told {[str(t) if type(t) is str else t[0] for t in queue.log]}")
                for mine in (x.queue,) if isinstance(x.queue, sycl.Queue) else ():
                    write(f"own told {[str(t) if type(t) is str else t[0] for t in mine.log]}")
                    mine.log.clear()
            finally:
                sys.modules.pop("dpctl", None)

        yield f"{cls.__name__} {name}, {label}{'' if imported else ', no dpctl'}", scenario, True


def functions() -> Iterator[Scenario]:
    """Functions of modules, beside a `__dlpack__` that is a placeholder, or is none."""
    rows = {
        "torch": "torch.utils.dlpack.to_dlpack",
        "jax": "jax.dlpack.to_dlpack",
        "tensorflow": "tensorflow.experimental.dlpack.to_dlpack",
    }
    for (library, path), error, generation, ask in itertools.product(
        rows.items(), ("NotImplementedError", "TypeError", "ValueError", "none"),
        (*BOTH, "RuntimeError", "no capsule"), ("legacy", "versioned", "from_dlpack", "owned"),
    ):  # fmt: skip

        def scenario(library: str = library, path: str = path, error: str = error,
                     generation: str = generation, ask: str = ask) -> None:  # fmt: skip
            def function(x: Any) -> Any:
                write("  call the function")
                if generation == "RuntimeError":
                    raise RuntimeError("no function today")
                return 5 if generation == "no capsule" else gives(generation)(x, {})

            cls: Any = scripted(raises(error) if error != "none" else gives(), library=library)
            modules = function_module(path, function)
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

        yield f"{library}, {error}, then {generation}, {ask}", scenario, True


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


def devices() -> Iterator[Scenario]:
    """Whatever `__dlpack_device__` answers, at first and later, on the host all the same."""
    for name, ask, first in itertools.product(
        DEVICES,
        ("legacy", "versioned", "from_dlpack", "question", "owned", "borrowed"),
        (True, False),
    ):

        def scenario(name: str = name, ask: str = ask, first: bool = first) -> None:
            cls: Any = scripted()
            x = own(cls())

            def before(number: int) -> None:
                cls.DEVICE = DEVICES[name] if (number < 2 if first else number == 1) else (1, 0)

            steps(x, (ask, ask, ask, "question"), before)

        yield f"{name}, {ask}{', first' if first else ''}", scenario, True

    for name, ask in itertools.product(DEVICES, ("legacy", "versioned", "question", "owned")):

        def beside(name: str = name, ask: str = ask) -> None:
            def question(self: Any) -> Any:
                write("  call __dlpack_device__()")
                answer = DEVICES[name]
                if isinstance(answer, BaseException):
                    raise type(answer)(*answer.args)
                return answer

            x = own(type("Old", (InterfaceOnly,), {"__dlpack_device__": question})())
            steps(x, (ask, ask))

        yield f"{name} beside an interface, {ask}", beside, True


# --- Tensors ------------------------------------------------------------------------------


def tensors() -> Iterator[Scenario]:
    """Every request and option to a Tensor, for a few of what it can be made of."""
    kinds: dict[str, dict[str, Any]] = {
        "plain": {},
        "read-only": {"readonly": True},
        "strided": {"strides": (1, 2)},
        "backwards": {"strides": (-3, 1), "start": 3},
        "empty": {"shape": (0, 3)},
        "no deleter": {"deleter": False},
    }
    options: tuple[dict[str, Any], ...] = (
        {}, {"copy": True}, {"device": "cpu"}, {"stream": -1}, {"device": "cuda:0"},
    )  # fmt: skip
    for (kind, fields), given, base in itertools.product(kinds.items(), options, (P1, P2, P3)):
        for label, request in REQUESTS.items():
            if given and label not in ("bare", "(1, 0)", "copy", "no copy, 1.0", "device host"):
                continue

            def scenario(base: Any = base, fields: Any = fields, given: Any = given,
                         label: str = label, request: Any = request) -> None:  # fmt: skip
                x = own(told(base)(**fields))

                def twice(t: Any) -> None:
                    request(t, None)
                    request(t, None)

                record.exchange(label, lambda: record.tensor(twice, **given)(None, x))

            yield f"{base.__name__} {kind}, {given}, {label}", scenario, True


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


def changing_types() -> Iterator[Scenario]:
    kinds = (P1, P2, P3, P0ToDlpack, InstanceOnly)
    for base, change, ask, when_ in itertools.product(
        kinds, CHANGES, ("legacy", "versioned", "from_dlpack", "question", "owned", "borrowed"),
        ("between", "inside"),
    ):  # fmt: skip
        if when_ == "inside" and base is not P2:
            continue

        def scenario(
            base: Any = base, change: str = change, ask: str = ask, w: str = when_
        ) -> None:
            x = own(told(base)())

            def before(number: int) -> None:
                if w == "between" and number == 1:
                    CHANGES[change](x)
                elif w == "inside" and number == 1:
                    inner = type(x).__dlpack__

                    def within(self: Any, **asked: Any) -> Any:
                        CHANGES[change](self)
                        return inner(self, **asked)

                    type(x).__dlpack__ = within

            steps(x, (ask,) * 3, before, watch=True)

        yield f"{base.__name__} {change} {when_}, {ask}", scenario, True


# --- what keeps what alive ----------------------------------------------------------------


def lifetimes() -> Iterator[Scenario]:
    """Does the source live while the consumer holds its export (T10)?  Everybody else lets go."""
    takes: dict[str, Callable[[Any, Any], Any]] = {
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
    makes: dict[str, Callable[[], Callable[[], Any]]] = {
        **{
            f"{row or 'unknown'} gives {generation}, {kind}": (
                lambda row=row, generation=generation, table=table, more=more: scripted(  # type: ignore[misc]
                    gives(generation, owner=None, **more), library=row, table=table,
                    table_answer=lambda self: self._export((1, 3), owner=None),
                )
            )
            for row in Libraries.ROWS
            for generation in BOTH
            for kind, table, more in (
                ("plain", False, {}), ("table", True, {}), ("no deleter", False, {"deleter": False})
            )
        },
        "interface": lambda: InterfaceOnly,
        "strided interface": lambda: lambda: InterfaceOnly(strides=(1, 2)),
        "interface of a buffer": lambda: lambda: InterfaceOnly(changes={"data": bytearray(24)}),
        "struct": lambda: StructOnly,
        "sycl interface": lambda: sycl.SyclOnly,
    }  # fmt: skip
    for (name, make), (label, take), hand_on in itertools.product(
        makes.items(), takes.items(), (True, False)
    ):

        def scenario(make: Any = make, take: Any = take) -> None:
            cls = make()
            for state in ("first", "learned"):
                x = own(cls())
                source = weakref.ref(x)
                upgraded = dlshim.upgrade(x)
                held = [None]

                def get(held: Any = held, of: Any = (upgraded, x)) -> None:
                    held[0] = take(*of)

                record.exchange(state, get)
                del x, upgraded, get
                write(f"source is {'dead' if source() is None else 'held'}")
                held.clear()
                write(f"after release {'dead' if source() is None else 'held'}")

        yield f"{name}, {label}{'' if hand_on else ', translate'}", scenario, hand_on


# --- attributes ---------------------------------------------------------------------------


def attributes() -> Iterator[Scenario]:
    """Which attributes of the object and of its type are looked at, and in which order."""
    for (edition, base), ask in itertools.product(
        EDITIONS.items(), ("legacy", "versioned", "from_dlpack", "question", "owned", "inspect")
    ):

        def scenario(base: Any = base, ask: str = ask) -> None:
            quiet = [True]

            class Meta(type):
                def __getattribute__(cls, name: str) -> Any:
                    if not quiet[0] and name.startswith(
                        ("__dlpack", "__c_dlpack", "__array", "to")
                    ):
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

        yield f"{edition}, {ask}", scenario, True


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
