"""Every measured operation, as data.

An :class:`Operation` is a case (what is done), a way (who does it), a setup, a statement and
the operation that it is compared with.  ``bench.py`` times them and ``instructions.py``
counts their instructions; neither knows any operation by name.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import repeat as _repeat
from types import ModuleType
from typing import Any

# Library: the module that must be importable, and what makes its names.
LIBRARIES: dict[str, tuple[str, str]] = {
    "floor": ("dls_floor", "import dls_floor as floor"),
    "pyshim": ("pyshim", "import pyshim"),
    "dlshim": ("dlshim", "import dlshim"),
    "dlshim.h": ("dls_header", "import dls_header as header"),
    "numpy": ("numpy", "import numpy as np"),
    "torch": ("torch", "import torch; is_neg = torch.Tensor.is_neg"),
    "nanobind": ("dls_nanobind", "import dls_nanobind as nb"),
    "tvm-ffi": (
        "tvm_ffi",
        "import tvm_ffi; tvm_nop = tvm_ffi.get_global_func('testing.nop')",
    ),
    "cuda.core": (
        "cuda.core",
        "from cuda.core.utils import StridedMemoryView; smv = StridedMemoryView.from_dlpack",
    ),
    "pydlpack": ("dlpack", "from dlpack import asdlpack"),
    "ml_dtypes": ("ml_dtypes", "import ml_dtypes"),
}


class PyLegacy:
    """A Python class around a legacy producer, as old libraries wrap their C core."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.inner.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class Interface:
    """An array interface and nothing else."""

    def __init__(self, x: Any) -> None:
        self.keep, self.said = x, x.__array_interface__

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.said


class Struct:
    """An array struct and nothing else; made anew each time, as NumPy does."""

    def __init__(self, x: Any) -> None:
        self.keep = x

    @property
    def __array_struct__(self) -> Any:
        return self.keep.__array_struct__


_HELD: list[Any] = []


class Instance:
    """A class of Python whose objects have attributes of their own, as most have."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __dlpack__(self, **asked: Any) -> Any:
        return self.inner.__dlpack__(**asked)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class Proxy:
    """It has what it holds has, and looking is slow: pint's quantities, dask's futures."""

    def __init__(self, inner: Any) -> None:
        self.__dict__["inner"] = inner

    def __getattr__(self, name: str) -> Any:
        if name in ("dtype", "shape", "units"):
            raise AttributeError(name)
        return getattr(self.inner, name)


def subclass(x: Any) -> Any:
    """The same tensor of torch as an object of a class of the user's."""
    return x.as_subclass(type("Subclass", (type(x),), {}))


def decorated(x: Any, **options: Any) -> Any:
    """The same object as one of a class that dlshim.producer changed."""
    import dlshim

    members = {k: v for k, v in vars(type(x)).items() if k not in ("__dict__", "__weakref__")}
    made = object.__new__(dlshim.producer(**options)(type("Decorated", (), members)))
    for name, value in vars(x).items():
        setattr(made, name, value)  # as __init__ does: a __dict__ that was asked for is slower
    return made


def refused(consume: Any, x: Any) -> None:
    """What the bare consumer pays for an object that it does not take."""
    try:
        consume(x)
    except (BufferError, RuntimeError, TypeError):
        return
    raise AssertionError(f"{x!r} was taken")


def held(x: Any) -> Any:
    """The same object, with one export of it kept alive."""
    _HELD.append(x.__dlpack__())
    return x


# Producer: an expression and the libraries that it needs.
PRODUCERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "legacy": ("floor.legacy()", ()),
    "noargs": ("floor.noargs()", ()),
    "pylegacy": ("PyLegacy(floor.legacy())", ()),
    "modern": ("floor.modern()", ()),
    "modernx": ("floor.modernx()", ()),
    "numpy": ("np.arange(64, dtype='f4').reshape(8, 8)", ("numpy",)),
    "numpy view": ("np.ones((8, 16), 'f4')[:, ::2]", ("numpy",)),
    "torch": ("torch.ones(8, 8)", ("torch",)),
    # Held from C++ too (here by an export): torch then saves work on each export.
    "torch held": ("held(torch.ones(8, 8))", ("torch",)),
    "instance": ("Instance(floor.modern())", ()),
    "proxy": ("Proxy(floor.modern())", ()),
    "torch subclass": ("subclass(torch.ones(8, 8))", ("torch",)),
    "old class": ("PyLegacy(floor.legacy()); d = decorated(x)", ("dlshim",)),
    "inner array": (
        "floor.legacy(); d = decorated(PyLegacy(x), inner='inner')",
        ("dlshim",),
    ),
    "bfloat16": ("np.zeros((8, 8), ml_dtypes.bfloat16)", ("numpy", "ml_dtypes")),
    "dates": ("np.zeros((8, 8), 'M8[s]')", ("numpy",)),
    "buffer": ("memoryview(bytearray(256)).cast('f', (8, 8))", ()),
    "array interface": ("Interface(np.ones((8, 8), 'f4'))", ("numpy",)),
    "array struct": ("Struct(np.ones((8, 8), 'f4'))", ("numpy",)),
    "tvm-ffi": ("tvm_ffi.from_dlpack(floor.modern())", ("tvm-ffi",)),
    "nanobind": ("nb.rewrap(floor.modern())", ("nanobind",)),
    "cuda.core": ("smv(floor.modern(), -1)", ("cuda.core",)),
}

# Consumer and adapter: an expression with {} for what it takes.
CONSUMERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "floor": ("floor.from_dlpack({})", ()),
    "dlshim.h": ("header.take({})", ("dlshim.h",)),
    "dlshim.h borrowed": ("header.lend({})", ("dlshim.h",)),
    "nanobind ro": ("nb.take_readonly({})", ("nanobind",)),
    "nanobind": ("nb.take({})", ("nanobind",)),
    "numpy": ("np.from_dlpack({})", ("numpy",)),
    "tvm-ffi": ("tvm_ffi.from_dlpack({})", ("tvm-ffi",)),
    "tvm-ffi call": ("tvm_nop({})", ("tvm-ffi",)),
    "cuda.core": ("smv({}, -1)", ("cuda.core",)),
    "torch": ("torch.from_dlpack({})", ("torch",)),
}
ADAPTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "bare": ("{}", ()),
    "dlshim": ("dlshim.upgrade({})", ("dlshim",)),
    "floor": ("floor.upgrade({})", ()),
    "floor table": ("floor.upgrade_table({})", ()),
    "nanobind": ("nb.rewrap({})", ("nanobind",)),
    "tvm-ffi": ("tvm_ffi.from_dlpack({})", ("tvm-ffi",)),
    "cuda.core": ("smv({}, -1)", ("cuda.core",)),
    "pyshim": ("pyshim.Shim({})", ("pyshim",)),
    "pydlpack": ("asdlpack({})", ("pydlpack",)),
}
WITH_TABLE = ("torch", "modernx")
OLD = ("legacy", "noargs", "pylegacy")  # they refuse max_version

# Journeys: consumer(adapter(producer)), the adapter made each time.
JOURNEYS: tuple[tuple[str, str], ...] = (
    ("legacy", "numpy"),
    ("legacy", "torch"),
    ("legacy", "nanobind"),
    ("legacy", "cuda.core"),
    ("legacy", "tvm-ffi call"),
    ("pylegacy", "numpy"),
    ("noargs", "numpy"),
    ("modern", "numpy"),
    ("modern", "torch"),
    ("modern", "nanobind"),
    ("instance", "numpy"),
    ("proxy", "numpy"),
    ("torch subclass", "numpy"),
    ("torch subclass", "torch"),
    ("numpy", "numpy"),
    ("numpy", "torch"),
    ("numpy view", "numpy"),
    ("numpy view", "torch"),
    ("numpy", "cuda.core"),
    ("torch", "numpy"),
    ("torch", "nanobind"),
    ("torch", "cuda.core"),
    ("torch", "torch"),
    ("torch", "tvm-ffi call"),
)

VERSIONED = "{}.__dlpack__(max_version=version)"
LEGACY = "{}.__dlpack__()"

# Pieces: case, producer, {way: what is made before the loop, with {} for the producer},
# statement with {} for that, and the way that the others are compared with.
_WRAPPERS = {
    "floor": "floor.upgrade({})",
    "dlshim": "dlshim.upgrade({})",
    "pyshim": "pyshim.Shim({})",
}
_WRAPPERS_TABLE = {"floor": "floor.upgrade_table({})", "dlshim": "dlshim.upgrade({})"}
PIECES: tuple[tuple[str, str, dict[str, str], str], ...] = (
    ("legacy to versioned", "legacy", _WRAPPERS, VERSIONED),
    ("versioned to legacy", "modern", _WRAPPERS, LEGACY),
    ("handed on, versioned", "modern", {**_WRAPPERS, "direct": "{}"}, VERSIONED),
    ("handed on, legacy", "legacy", {**_WRAPPERS, "direct": "{}"}, LEGACY),
    ("C table to versioned", "modernx", {**_WRAPPERS_TABLE, "direct": "{}"}, VERSIONED),
    ("C table to legacy", "modernx", {**_WRAPPERS_TABLE, "direct": "{}"}, LEGACY),
    ("NumPy to versioned", "numpy", {**_WRAPPERS, "direct": "{}"}, VERSIONED),
    ("NumPy to legacy", "numpy", {**_WRAPPERS, "direct": "{}"}, LEGACY),
    ("torch to versioned", "torch", {**_WRAPPERS_TABLE, "direct": "{}"}, VERSIONED),
    ("torch held, to versioned", "torch held", _WRAPPERS_TABLE, VERSIONED),
    ("buffer to versioned", "buffer", {"dlshim": "dlshim.upgrade({})"}, VERSIONED),
    (
        "array interface to versioned",
        "array interface",
        {"dlshim": "dlshim.upgrade({})"},
        VERSIONED,
    ),
    ("array struct to versioned", "array struct", {"dlshim": "dlshim.upgrade({})"}, VERSIONED),
    # What was taken once, and is exported again.
    (
        "a tensor exported again",
        "legacy",
        {
            "dlshim": "dlshim.from_dlpack({})",
            "nanobind": "nb.rewrap({})",
            "tvm-ffi": "tvm_ffi.from_dlpack({})",
        },
        VERSIONED,
    ),
    ("device of legacy C", "legacy", {**_WRAPPERS, "direct": "{}"}, "{}.__dlpack_device__()"),
    ("device of NumPy", "numpy", {**_WRAPPERS, "direct": "{}"}, "{}.__dlpack_device__()"),
    ("device of torch", "torch", {**_WRAPPERS_TABLE, "direct": "{}"}, "{}.__dlpack_device__()"),
)

# Calls on a producer: case, producer, {way: statement with x for the producer}.
CALLS: tuple[tuple[str, str, dict[str, str]], ...] = (
    (
        "construct and drop",
        "legacy",
        {
            "floor": "floor.upgrade(x)",
            "floor untracked": "floor.upgrade_untracked(x)",
            "dlshim": "dlshim.upgrade(x)",
            "pyshim": "pyshim.Shim(x)",
            "nanobind": "nb.rewrap(x)",
            "tvm-ffi": "tvm_ffi.from_dlpack(x)",
            "cuda.core": "smv(x, -1)",
            "pydlpack": "asdlpack(x)",
        },
    ),
    (
        "from_dlpack, legacy",
        "legacy",
        {"floor": "floor.from_dlpack(x)", "dlshim": "dlshim.from_dlpack(x)"},
    ),
    (
        "from_dlpack, versioned",
        "modern",
        {"floor": "floor.from_dlpack(x)", "dlshim": "dlshim.from_dlpack(x)"},
    ),
    (
        "from_dlpack, C table",
        "modernx",
        {
            "floor": "floor.from_dlpack_table(x)",
            # Takes keywords, as from_dlpack must, looks at what came as little as can be, and keeps
            # a pending exception when the tensor dies.
            "looked at": "floor.from_dlpack_looked(x)",
            "dlshim": "dlshim.from_dlpack(x)",
        },
    ),
    (
        "from_dlpack, torch table",
        "torch",
        {"floor": "floor.from_dlpack_table(x)", "dlshim": "dlshim.from_dlpack(x)"},
    ),
    (
        "from_dlpack, torch held",
        "torch held",
        {"floor": "floor.from_dlpack_table(x)", "dlshim": "dlshim.from_dlpack(x)"},
    ),
    # Beside what NumPy makes of the same object.
    *(
        (
            f"from_dlpack, {kind}",
            kind,
            {"dlshim": "dlshim.from_dlpack(x)", "numpy": "np.asarray(x)"},
        )
        for kind in ("buffer", "array interface", "array struct")
    ),
    (
        "capsule made at once",
        "legacy",
        {
            "floor": "floor.upgrade(x).__dlpack__(max_version=version)",
            "dlshim": "dlshim.to_capsule(x, max_version=version)",
        },
    ),
    # What NumPy does not export: beside what it pays for its refusal.
    (
        "to_capsule, bfloat16",
        "bfloat16",
        {"numpy": "refused(np.from_dlpack, x)", "dlshim": "dlshim.to_capsule(x)"},
    ),
    (
        "to_capsule, dates",
        "dates",
        {
            "numpy": "refused(np.from_dlpack, x)",
            "dlshim": "dlshim.to_capsule(x, reinterpret='int64')",
        },
    ),
    # A class that dlshim.producer changed, beside the class as it was, or the array that it has.
    *(
        (
            f"a class, {kind}, {what}",
            kind,
            {"upgrade": f"dlshim.{upgraded.format(array)}", "dlshim": decorated},
        )
        for kind, array in (("old class", "x"), ("inner array", "d.inner"))
        for what, upgraded, decorated in (
            (
                "to versioned",
                "upgrade({}).__dlpack__(max_version=version)",
                "d.__dlpack__(max_version=version)",
            ),
            ("device", "upgrade({}).__dlpack_device__()", "d.__dlpack_device__()"),
            ("from_dlpack", "from_dlpack({})", "dlshim.from_dlpack(d)"),
        )
    ),
    ("consume versioned", "modern", {"floor": "floor.consume_versioned(x)"}),
    ("consume legacy", "legacy", {"floor": "floor.consume_legacy(x)"}),
    ("try, TypeError, retry", "legacy", {"floor": "floor.consume_retry(x)"}),
    # What asking the source from C costs without looking at the answer.
    ("the device, asked", "legacy", {"floor": "floor.ask_device(x)"}),
    # What the check of torch's lazy bits costs in torch itself: is_neg lets go of the GIL.
    ("the negative bit", "torch held", {"torch": "is_neg(x)"}),
    ("a call of nothing", "legacy", {"floor": "floor.nothing(x)"}),
)

# Copies of host memory, beside NumPy's own (`direct`).  copies.py times many more.
COPIES: dict[str, str] = {
    "256 bytes": "np.arange(64, dtype='f4')",
    "32 strided bytes": "np.arange(16, dtype='u2').reshape(4, 4).T",
    "every second item": "np.arange(16384, dtype='f4')[::2]",
    "reversed": "np.arange(8192, dtype='f4')[::-1]",
    "broadcast along columns": "np.broadcast_to(np.ones((64, 1), 'f4'), (64, 128))",
    "transposed": "np.ones((64, 128), 'f4').T",
    "transposed bytes": "np.ones((128, 256), 'u1').T",
    "NHWC to NCHW": "np.ones((1, 52, 52, 3), 'f4').transpose(0, 3, 1, 2)",
    "NCHW to NHWC": "np.ones((1, 3, 52, 52), 'f4').transpose(0, 2, 3, 1)",
}

TABLE_LOOPS = 1024  # exports within one statement: the call from Python is shared by them
TABLES: tuple[tuple[str, str, dict[str, str]], ...] = (
    # "looked at": the floor's wrapper, and the least look at each struct.
    (
        "C table",
        "modernx",
        {"inner": "{}", **_WRAPPERS_TABLE, "looked at": "floor.upgrade_table({})"},
    ),
    # What the wrapper has taken once and may trust: here a capsule.
    (
        "kept tensor",
        "legacy",
        {"floor": "floor.upgrade({})", "dlshim": "dlshim.upgrade({}.__dlpack__())"},
    ),
    ("torch's table", "torch", {"inner": "{}", **_WRAPPERS_TABLE}),
    ("torch's table, held", "torch held", {"inner": "{}", **_WRAPPERS_TABLE}),
    ("legacy C", "legacy", {**_WRAPPERS_TABLE}),
    ("NumPy", "numpy", {**_WRAPPERS_TABLE}),
    ("cuda.core", "cuda.core", {"inner": "{}"}),
)
DIMENSIONS = (0, 1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Operation:
    case: str
    way: str
    setup: str
    statement: str
    needs: tuple[str, ...]
    reference: str  # the way, on the same case, that this one is compared with
    loops: int = 1  # executions of the operation in one statement

    @property
    def name(self) -> str:
        return f"{self.case} | {self.way}"

    @property
    def reference_name(self) -> str:
        return f"{self.case} | {self.reference}"


def _needs(*texts: str, given: Iterable[str] = ()) -> tuple[str, ...]:
    """Libraries whose names stand in the texts, with those that are given."""
    found = {"floor", *given}
    words = {word for text in texts for word in re.findall(r"\w+", text)}
    for library, (_, code) in LIBRARIES.items():
        if words & _bound(code):
            found.add(library)
    return tuple(library for library in LIBRARIES if library in found)


def _bound(code: str) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def _operation(case: str, way: str, setup: str, statement: str, **more: Any) -> Operation:
    needs = _needs(setup, statement)
    return Operation(case, way, setup, statement, needs, **more)


def _journeys() -> Iterable[Operation]:
    for producer, consumer in JOURNEYS:
        setup = f"x = {PRODUCERS[producer][0]}"
        for way, (adapter, _) in ADAPTERS.items():
            if way == "floor table" and producer not in WITH_TABLE:
                continue
            statement = CONSUMERS[consumer][0].format(adapter.format("x"))
            yield _operation(f"{producer} to {consumer}", way, setup, statement, reference="bare")


def _pieces() -> Iterable[Operation]:
    for case, producer, ways, statement in PIECES:
        for way, wrapper in ways.items():
            setup = "w = " + wrapper.format(PRODUCERS[producer][0])
            yield _operation(case, way, setup, statement.format("w"), reference="floor")


def _calls() -> Iterable[Operation]:
    for case, producer, ways in CALLS:
        for way, statement in ways.items():
            setup = f"x = {PRODUCERS[producer][0]}"
            yield _operation(case, way, setup, statement, reference="floor")


def _copies() -> Iterable[Operation]:
    ways = {"direct": "x.copy('C')", "dlshim": "dlshim.from_dlpack(x, copy=True)"}
    for layout, expression in COPIES.items():
        for way, statement in ways.items():
            yield _operation(
                f"copy, {layout}", way, f"x = {expression}", statement, reference="direct"
            )


def _tables() -> Iterable[Operation]:
    for kind in ("owned", "borrowed"):
        for what, producer, ways in TABLES:
            reference = "floor" if "floor" in ways else "inner"
            for way, wrapper in ways.items():
                loop = f"loop_{kind}_looked" if way == "looked at" else f"loop_{kind}"
                yield _operation(
                    f"{kind} from {what}",
                    way,
                    "w = " + wrapper.format(PRODUCERS[producer][0]),
                    f"floor.{loop}(w, {TABLE_LOOPS})",
                    reference=reference,
                    loops=TABLE_LOOPS,
                )


def _dimensions() -> Iterable[Operation]:
    for ndim in DIMENSIONS:
        for way in ("floor", "dlshim"):
            yield _operation(
                f"legacy to versioned, {ndim} dimensions",
                way,
                f"w = {way}.upgrade(floor.legacy({ndim}))",
                VERSIONED.format("w"),
                reference="floor",
            )


def _exports() -> Iterable[Operation]:
    for generation, statement in (("legacy", LEGACY), ("versioned", VERSIONED)):
        for producer, (expression, _) in PRODUCERS.items():
            if generation == "versioned" and producer in OLD:
                continue
            yield _operation(
                f"peers' own export, {generation}",
                producer,
                f"x = {expression}",
                statement.format("x"),
                reference="modern",
            )


def _consumes() -> Iterable[Operation]:
    for producer in ("legacy", "pylegacy", "modern", "modernx", "numpy", "torch", "tvm-ffi"):
        for consumer, (call, _) in CONSUMERS.items():
            yield _operation(
                f"peers consume {producer}",
                consumer,
                f"x = {PRODUCERS[producer][0]}",
                call.format("x"),
                reference="floor",
            )


GROUPS: dict[str, Callable[[], Iterable[Operation]]] = {
    "calls": _calls,
    "pieces": _pieces,
    "journeys": _journeys,
    "dimensions": _dimensions,
    "copies": _copies,
    "tables": _tables,
    "exports": _exports,
    "consumes": _consumes,
}
DEFAULT_GROUPS = ("calls", "pieces", "journeys", "dimensions")


def missing_libraries() -> dict[str, str]:
    """Library: the module that is not installed."""
    missing = {}
    for library, (module, _) in LIBRARIES.items():
        try:
            found = importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:
            found = False
        if not found:
            missing[library] = module
    return missing


def select(groups: Iterable[str], pattern: str = "") -> list[Operation]:
    """The operations of the groups whose name matches and whose libraries are installed."""
    missing = missing_libraries()
    return [
        operation
        for group in groups
        for operation in GROUPS[group]()
        if re.search(pattern, operation.name) and not missing.keys() & set(operation.needs)
    ]


class Namespace(dict):
    """Names for setups and statements; a library is imported when first needed."""

    def __init__(self) -> None:
        super().__init__(
            PyLegacy=PyLegacy,
            Interface=Interface,
            Struct=Struct,
            held=held,
            decorated=decorated,
            Instance=Instance,
            Proxy=Proxy,
            subclass=subclass,
            refused=refused,
            version=(1, 3),
            _repeat=_repeat,
        )
        self._have: set[str] = set()

    def need(self, libraries: Iterable[str]) -> None:
        for library in libraries:
            if library not in self._have:
                exec(LIBRARIES[library][1], self)
                self._have.add(library)


class _Locals(ast.NodeTransformer):
    """Turns names, and attributes of modules, into parameters that hold their values.

    So a look-up that a user's program may or may not pay is not counted, as in timeit.
    """

    def __init__(self, scope: dict[str, Any]) -> None:
        self.scope = scope
        self.values: dict[str, Any] = {}

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        root = node.value
        if isinstance(root, ast.Name) and isinstance(self.scope[root.id], ModuleType):
            word = f"{root.id}_{node.attr}"
            self.values[word] = getattr(self.scope[root.id], node.attr)
            return ast.copy_location(ast.Name(word, ast.Load()), node)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        self.values[node.id] = self.scope[node.id]
        return node


def make_loop(operation: Operation | None, names: Namespace) -> Callable[[int], None]:
    """A function that runs the statement n times; of None, the empty loop."""
    scope = Namespace()
    statement, values = "pass", {}
    if operation is not None:
        names.need(operation.needs)
        scope.update(names)
        exec(operation.setup, scope)
        local = _Locals(scope)
        statement = ast.unparse(local.visit(ast.parse(operation.statement)))
        values = local.values
    scope["_values"] = values
    parameters = "".join(f", {word}=_values[{word!r}]" for word in sorted(values))
    code = f"def loop(n{parameters}):\n    for _ in _repeat(None, n):\n        {statement}\n"
    exec(code, scope)
    return scope["loop"]
