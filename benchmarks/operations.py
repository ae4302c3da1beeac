"""Every measured operation, as data.

An :class:`Operation` is a case (what is done), a way (who does it), a setup, a statement and
the way that it is compared with. ``bench.py`` times them and ``instructions.py`` counts their
instructions; neither knows any operation by name.
"""

from __future__ import annotations

import argparse
import ast
import importlib.metadata
import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat as _repeat
from types import ModuleType
from typing import Any, NamedTuple

import report


class Name(NamedTuple):
    """A name in setups and statements: what must be importable, and how it is made."""

    module: str
    distribution: str
    code: str


NAMES = {
    "floor": Name("dls_floor", "", "import dls_floor as floor"),
    "dlshim": Name("dlshim", "", "import dlshim"),
    "header": Name("dls_header", "", "import dls_header as header"),
    "elements": Name("dls_elements", "", "import dls_elements as elements"),
    "np": Name("numpy", "numpy", "import numpy as np"),
    "torch": Name("torch", "torch", "import torch"),
    "pl": Name("polars", "polars", "import polars as pl"),
    "pa": Name("pyarrow", "pyarrow", "import pyarrow as pa"),
    "pd": Name("pandas", "pandas", "import pandas as pd"),
    "na": Name("nanoarrow", "nanoarrow", "import nanoarrow as na"),
    "aa": Name("arro3.core", "arro3-core", "import arro3.core as aa"),
    "is_neg": Name("torch", "torch", "import torch; is_neg = torch.Tensor.is_neg"),
    "jax": Name("jax", "jax", "import jax"),
    "nb": Name("dls_nanobind", "nanobind", "import dls_nanobind as nb"),
    "with_nanobind": Name(
        "dls_author_nanobind", "nanobind", "import dls_author_nanobind as with_nanobind"
    ),
    "with_pybind11": Name(
        "dls_author_pybind11", "pybind11", "import dls_author_pybind11 as with_pybind11"
    ),
    "tvm_ffi": Name("tvm_ffi", "apache-tvm-ffi", "import tvm_ffi"),
    "tvm_nop": Name(
        *("tvm_ffi", "apache-tvm-ffi"),
        "import tvm_ffi; tvm_nop = tvm_ffi.get_global_func('testing.nop')",
    ),
    "smv": Name(
        *("cuda.core", "cuda-core"),
        "from cuda.core.utils import StridedMemoryView; smv = StridedMemoryView.from_dlpack",
    ),
    "asdlpack": Name("dlpack", "pydlpack", "from dlpack import asdlpack"),
    "via_ctypes": Name(
        *("ctypes_dlpack", "ctypes-dlpack"),
        "from ctypes_dlpack import DLPackArray, array_as_dlpack; "
        "via_ctypes = lambda x: DLPackArray(array_as_dlpack(x, max_version=(1, 0)))",
    ),
}


# ---- producers ----------------------------------------------------------------------------


class PyLegacy:
    """A Python class around a legacy producer, as old libraries wrap their C core."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.inner.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class Instance:
    """A class of Python whose objects have attributes of their own, as most have."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __dlpack__(self, **asked: Any) -> Any:
        return self.inner.__dlpack__(**asked)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class Standard:
    """A class of Python with the keywords of the array API standard, around an array."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Any = None,
        dl_device: Any = None,
        copy: Any = None,
    ) -> Any:
        return self.inner.__dlpack__(
            stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.inner.__dlpack_device__()


class Proxy:
    """It has what it holds has, and looking is slow: pint's quantities, dask's futures."""

    def __init__(self, inner: Any) -> None:
        self.__dict__["inner"] = inner

    def __getattr__(self, name: str) -> Any:
        if name in ("dtype", "shape", "units"):
            raise AttributeError(name)
        return getattr(self.inner, name)


class Nothing:
    """An object of a user's class that offers no protocol."""


def refused(function: Callable[[Any], Any], x: Any) -> None:
    """Ask for what is refused, as code does that takes an array or else a scalar."""
    try:
        function(x)
    except Exception:
        return
    raise AssertionError("it was not refused")


def offering(protocol: str, array: Any) -> Any:
    """An object that offers one older protocol, with the value that the array gives for it."""
    return type("Offering", (), {"array": array, protocol: getattr(array, protocol)})()


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


def below(x: Any, *, asks: bool) -> Any:
    """The same object as one of a decorated class, whose `__dlpack__` is that of its base, or asks
    that of a decorated base."""
    import dlshim

    base = dlshim.producer(type(x)) if asks else type(x)

    class Inherits(base):  # type: ignore[valid-type, misc]
        pass

    class Asks(base):  # type: ignore[valid-type, misc]
        def __dlpack__(self, stream: Any = None) -> Any:
            return super().__dlpack__()

    made = object.__new__(dlshim.producer(Asks if asks else Inherits))
    made.inner = x.inner
    return made


def mixed(x: Any, away: Any) -> Any:
    """The same object as one of a class of its own, which also has objects on a device."""
    import dlshim

    tells = {"__dlpack_device__": lambda self: self.inner.__dlpack_device__()}
    kind = type("Mixed", (PyLegacy,), tells)
    dlshim.from_dlpack(kind(x))
    dlshim.from_dlpack(kind(away), stream=-1)
    return kind(x)


def strangers(x: Any, count: int) -> Iterator[Any]:
    """Objects around this one, each of a class of its own that nobody has met."""
    return iter([type("Stranger", (PyLegacy,), {})(x) for _ in range(count)])


_HELD: list[Any] = []


def held(x: Any) -> Any:
    """The same object, with one export of it kept alive."""
    _HELD.append(x.__dlpack__())
    return x


def met(wrapper: Any) -> Any:
    """The same Producer, whose source's type has been exported once."""
    wrapper.__dlpack__()
    return wrapper


PRODUCERS = {
    "legacy": "floor.Legacy()",
    "noargs": "floor.NoArgs()",
    "pylegacy": "PyLegacy(floor.Legacy())",
    "modern": "floor.Modern()",
    "modernx": "floor.ModernX()",
    "numpy": "np.arange(64, dtype='f4').reshape(8, 8)",
    "numpy view": "np.ones((8, 16), 'f4')[:, ::2]",
    "torch": "torch.ones(8, 8)",
    # Held from C++ too (here by an export): torch then saves work on each export.
    "torch held": "held(torch.ones(8, 8))",
    "instance": "Instance(floor.Modern())",
    "standard class": "Standard(np.arange(64, dtype='f4').reshape(8, 8))",
    "pyarrow": "pa.array(np.arange(64, dtype='f4'))",
    "host beside CUDA": "mixed(floor.Legacy(), floor.LegacyDevice(2, 2))",
    "modern CUDA": "floor.ModernDevice(2, 2)",
    "legacy CUDA": "floor.LegacyDevice(2, 2)",
    "proxy": "Proxy(floor.Modern())",
    "torch subclass": "subclass(torch.ones(8, 8))",
    "jax": "jax.numpy.ones((8, 8), 'float32').block_until_ready()",
    "old class": "PyLegacy(floor.Legacy()); d = decorated(x)",
    "inner array": "floor.Legacy(); d = decorated(PyLegacy(x), inner='inner')",
    "inherited method": "PyLegacy(floor.Legacy()); d = below(x, asks=False)",
    "super()": "type('Base', (PyLegacy,), {'__dlpack__': PyLegacy.__dlpack__})(floor.Legacy()); "
    "d = below(x, asks=True); x = PyLegacy(PyLegacy(floor.Legacy()))",
}

# Consumers and adapters, with {} for what each takes.
CONSUMERS = {
    "dlshim.h": "header.take({})",
    "dlshim.h borrowed": "header.lend({})",
    "nanobind": "nb.take({})",
    "numpy": "np.from_dlpack({})",
    "tvm-ffi": "tvm_ffi.from_dlpack({})",
    "tvm-ffi call": "tvm_nop({})",
    "cuda.core": "smv({}, -1)",
    "torch": "torch.from_dlpack({})",
}
ADAPTERS = {
    "bare": "{}",
    "dlshim": "dlshim.upgrade({})",
    "floor": "floor.upgrade({})",
    "floor table": "floor.upgrade_table({})",
    "nanobind": "nb.rewrap({})",
    "tvm-ffi": "tvm_ffi.from_dlpack({})",
    "cuda.core": "smv({}, -1)",
    "pydlpack": "asdlpack({})",
    "ctypes-dlpack": "via_ctypes({})",
}

# ---- operations ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Operation:
    case: str
    way: str
    setup: str
    statement: str
    reference: str  # the way, on the same case, that this one is compared with
    loops: int = 1  # executions of the operation in one statement
    most: int | None = None  # how often it can run before what its setup made is used up

    @property
    def name(self) -> str:
        return f"{self.case} | {self.way}"

    @property
    def needs(self) -> list[str]:
        words = re.findall(r"\w+", f"{self.setup} {self.statement}")
        return [name for name in NAMES if name in words or name == "floor"]


# Consumer: the producers whose objects reach it, the adapter made each time.
JOURNEYS = {
    "numpy": (
        *("legacy", "pylegacy", "noargs", "modern", "instance", "proxy", "torch subclass"),
        *("numpy", "numpy view", "torch", "jax", "standard class", "pyarrow"),
    ),
    "torch": (
        *("legacy", "modern", "torch subclass", "numpy", "numpy view", "torch", "jax"),
        "standard class",
    ),
    "nanobind": ("legacy", "modern", "torch"),
    "cuda.core": ("legacy", "numpy", "torch"),
    "tvm-ffi call": ("legacy", "numpy", "torch"),
    "tvm-ffi": ("torch",),
}


def journeys() -> Iterator[Operation]:
    for consumer, producers in JOURNEYS.items():
        for producer in producers:
            case, setup = f"{producer} to {consumer}", f"x = {PRODUCERS[producer]}"
            for way, adapter in ADAPTERS.items():
                if way != "floor table" or producer == "torch":
                    statement = CONSUMERS[consumer].format(adapter.format("x"))
                    yield Operation(case, way, setup, statement, "bare")


UPGRADED = "dlshim.upgrade(x)"
AS_CAPSULE = {
    "upgrade": f"{UPGRADED}.__dlpack__(max_version=version)",
    "dlshim": "dlshim.to_capsule(x, max_version=version)",
}


def raw_capsules() -> Iterator[Operation]:
    """to_capsule, beside the same by a Producer, and as a road into torch."""
    for producer in ("legacy", "pylegacy", "numpy", "numpy view", "torch", "pyarrow"):
        for way, statement in AS_CAPSULE.items():
            case, setup = f"to_capsule, {producer}", f"x = {PRODUCERS[producer]}"
            yield Operation(case, way, setup, statement, "upgrade")
    for producer in ("numpy", "torch"):
        into = {"bare": "x", "upgrade": "dlshim.upgrade(x)", "dlshim": "dlshim.to_capsule(x)"}
        for way, given in into.items():
            case, setup = f"{producer} to torch by a capsule", f"x = {PRODUCERS[producer]}"
            yield Operation(case, way, setup, f"torch.from_dlpack({given})", "bare")


# Memory of a device, of which only the label is true.  With stream -1 no driver is called, so what
# is counted is dlshim's.  Producer, what is done, {way: statement}.
OFF_HOST = (
    *(
        (producer, "to a capsule", {"direct": asked.format("x"), "dlshim": asked.format(UPGRADED)})
        for producer, asked in (
            ("modern CUDA", "{}.__dlpack__(stream=-1, max_version=version)"),
            ("legacy CUDA", "{}.__dlpack__(stream=-1)"),
        )
    ),
    (
        *("modern CUDA", "to from_dlpack"),
        {
            "direct": "x.__dlpack__(stream=-1, max_version=version)",
            "dlshim": "dlshim.from_dlpack(x, stream=-1)",
        },
    ),
    (
        *("host beside CUDA", "to a capsule"),
        {"direct": "x.__dlpack__()", "dlshim": "dlshim.upgrade(x).__dlpack__(max_version=version)"},
    ),
    (
        *("host beside CUDA", "to from_dlpack"),
        {"direct": "x.__dlpack__()", "dlshim": "dlshim.from_dlpack(x)"},
    ),
    (
        *("modern CUDA", "its device"),
        {"direct": "x.__dlpack_device__()", "dlshim": f"{UPGRADED}.__dlpack_device__()"},
    ),
)


def off_host() -> Iterator[Operation]:
    for producer, done, ways in OFF_HOST:
        for way, statement in ways.items():
            case, setup = f"{producer}, {done}", f"x = {PRODUCERS[producer]}"
            yield Operation(case, way, setup, statement, "direct")


#: How many classes are made that dlshim has never met: more than a count has loops.
STRANGERS = 3000


def first_meetings() -> Iterator[Operation]:
    """An object of a class that was never met."""
    asked = {
        "from_dlpack": "dlshim.from_dlpack(kinds.__next__())",
        "upgrade": "dlshim.upgrade(kinds.__next__())",
    }
    for name, statement in asked.items():
        for way, each in {"direct": "kinds.__next__().__dlpack__()", "dlshim": statement}.items():
            setup = f"x = floor.Legacy(); kinds = strangers(x, {STRANGERS})"
            case = f"first meeting by {name}"
            yield Operation(case, way, setup, each, "direct", most=STRANGERS)


def numpy_release() -> str:
    """ "2.2" of NumPy 2.2.6: the release that this process would import."""
    try:
        return ".".join(importlib.metadata.version("numpy").split(".")[:2])
    except importlib.metadata.PackageNotFoundError:
        return "absent"


TO_NUMPY = "np.from_dlpack({})"
WITH_OPTIONS = "dlshim.upgrade(x, order='auto', readonly='copy')"
# Case, what is made before the loop, and the statement with dlshim beside the bare one.
OF_RELEASES = (
    ("numpy to numpy", "numpy", TO_NUMPY.format("x"), TO_NUMPY.format("dlshim.upgrade(x)")),
    (
        "numpy view to numpy",
        "numpy view",
        TO_NUMPY.format("x"),
        TO_NUMPY.format("dlshim.upgrade(x)"),
    ),
    ("numpy to numpy with options", "numpy", TO_NUMPY.format("x"), TO_NUMPY.format(WITH_OPTIONS)),
    ("numpy to from_dlpack", "numpy", TO_NUMPY.format("x"), "dlshim.from_dlpack(x)"),
    (
        *("numpy to from_dlpack with options", "numpy", TO_NUMPY.format("x")),
        "dlshim.from_dlpack(x, order='auto', readonly='copy')",
    ),
    ("numpy to a capsule", "numpy", "x.__dlpack__()", "dlshim.upgrade(x).__dlpack__()"),
    ("legacy to numpy", "legacy", TO_NUMPY.format("x"), TO_NUMPY.format("dlshim.upgrade(x)")),
    ("modern to numpy", "modern", TO_NUMPY.format("x"), TO_NUMPY.format("dlshim.upgrade(x)")),
    ("an old class to numpy", "old class", TO_NUMPY.format("x"), TO_NUMPY.format("d")),
    ("numpy to a Tensor and back", "numpy", TO_NUMPY.format("x"), "dlshim.from_dlpack(x).numpy()"),
    ("numpy to a kernel of 1", "numpy", "f(np.from_dlpack(x))", "k(x)"),
    (
        "numpy to a kernel of 8",
        "numpy",
        "f({})".format(", ".join(["np.from_dlpack(x)"] * 8)),
        "k({})".format(", ".join("x" * 8)),
    ),
)


def releases() -> Iterator[Operation]:
    """What the release of NumPy decides: up to 2.3 the strides of row-major memory are left out,
    and 1.x knows no versioned tensors.  `instructions.py --numpy` counts it with others, too."""
    for case, producer, bare, dlshim in OF_RELEASES:
        for way, statement in {"bare": bare, "dlshim": dlshim}.items():
            setup = f"x = {PRODUCERS[producer]}; f = lambda *args: None; k = dlshim.kernel(f)"
            yield Operation(f"{case}, {numpy_release()}", way, setup, statement, "bare")


VERSIONED = "{}.__dlpack__(max_version=version)"
LEGACY = "{}.__dlpack__()"
DEVICE = "{}.__dlpack_device__()"
BY_METHOD = {"floor": "floor.upgrade({})", "dlshim": "dlshim.upgrade({})"}
BY_TABLE = {"floor": "floor.upgrade_table({})", "dlshim": "dlshim.upgrade({})"}
MET = BY_METHOD | {"dlshim": "met(dlshim.upgrade({}))", "direct": "{}"}
DIRECT = {"direct": "{}"}

# Case, producer, {way: what is made before the loop}, and the statement about that.
PIECES: tuple[tuple[str, str, dict[str, str], str], ...] = (
    ("legacy to versioned", "legacy", BY_METHOD, VERSIONED),
    ("versioned to legacy", "modern", BY_METHOD, LEGACY),
    ("handed on, versioned", "modern", BY_METHOD | DIRECT, VERSIONED),
    ("handed on, legacy", "legacy", BY_METHOD | DIRECT, LEGACY),
    ("torch held, to versioned", "torch held", BY_TABLE, VERSIONED),
    ("device of legacy C", "legacy", MET, DEVICE),
    ("device of NumPy", "numpy", BY_METHOD | DIRECT, DEVICE),
    ("device of torch", "torch", BY_TABLE | DIRECT, DEVICE),
    ("device of JAX", "jax", MET, DEVICE),
)


def pieces() -> Iterator[Operation]:
    for case, producer, ways, statement in PIECES:
        for way, wrapper in ways.items():
            setup = "w = " + wrapper.format(PRODUCERS[producer])
            yield Operation(case, way, setup, statement.format("w"), "floor")


class Column(NamedTuple):
    """A column, its library's own way to NumPy without a copy, and its road by Arrow."""

    made: str
    to_numpy: str
    road: str  # "array", "stream", or "" where Arrow is not asked


COLUMNS = {
    "polars": Column("pl.Series(np.arange(1000.0))", "x.to_numpy()", "stream"),
    "PyArrow": Column("pa.array(np.arange(1000.0))", "x.to_numpy()", ""),
    "PyArrow's chunk": Column(
        "pa.chunked_array([pa.array(np.arange(1000.0))])", "x.chunk(0).to_numpy()", "stream"
    ),
    "PyArrow's lists": Column(
        "pa.FixedSizeListArray.from_arrays(pa.array(np.arange(1000.0)), 2)",
        "x.flatten().to_numpy().reshape(-1, 2)",
        "array",
    ),
    "pandas": Column("pd.Series(np.arange(1000.0))", "x.to_numpy()", ""),
    "pandas by Arrow": Column(
        "pd.Series(np.arange(1000.0), dtype='double[pyarrow]')", "x.to_numpy()", "stream"
    ),
    "nanoarrow": Column(
        "na.Array(pa.array(np.arange(1000.0)))",
        "np.asarray([*x.iter_chunk_views()][0].buffer(1))",
        "array",
    ),
    "arro3": Column("aa.Array(pa.array(np.arange(1000.0)))", "x.to_numpy()", "array"),
}


def columns() -> Iterator[Operation]:
    """To NumPy and to torch beside the library's own way; to a capsule beside the least that
    reading the column costs."""
    for name, (made, to_numpy, road) in COLUMNS.items():
        setup = f"x = {made}"
        read, least = f"floor.read_{road}(x)", f"floor.{road}_capsule(x)"
        to = {
            "NumPy": (
                {"direct": to_numpy, "dlshim": "np.from_dlpack(dlshim.upgrade(x))"},
                "direct",
            ),
            "torch": (
                {
                    "direct": f"torch.from_numpy({to_numpy})",
                    "floor": f"torch.from_dlpack({least})",
                    "dlshim": "torch.from_dlpack(dlshim.upgrade(x, readonly='share'))",
                    "by a capsule": "torch.from_dlpack(dlshim.to_capsule(x, readonly='share'))",
                },
                "direct",
            ),
            "a capsule": (
                {"read": read, "floor": least, "dlshim": VERSIONED.format("dlshim.upgrade(x)")},
                "read",
            ),
        }
        for target, (ways, reference) in to.items():
            for way, statement in ways.items():
                if road or way not in ("read", "floor"):
                    yield Operation(f"{name} to {target}", way, setup, statement, reference)


def dimensions() -> Iterator[Operation]:
    for ndim in (2, 32):
        for way in ("floor", "dlshim"):
            case = f"legacy to versioned, {ndim} dimensions"
            setup = f"w = {way}.upgrade(floor.Legacy({ndim}))"
            yield Operation(case, way, setup, VERSIONED.format("w"), "floor")


TAKE = {"floor": "floor.from_dlpack(x)", "dlshim": "dlshim.from_dlpack(x)"}
TAKE_BY_TABLE = TAKE | {"floor": "floor.from_dlpack_table(x)"}

# Case, producer, {way: statement with x for the producer}.
CALLS: tuple[tuple[str, str, dict[str, str]], ...] = (
    (
        *("construct and drop", "legacy"),
        {way: adapter.format("x") for way, adapter in ADAPTERS.items() if way != "bare"},
    ),
    ("from_dlpack, legacy", "legacy", TAKE),
    ("from_dlpack, versioned", "modern", TAKE),
    ("from_dlpack, C table", "modernx", TAKE_BY_TABLE),
    # A class that dlshim.producer changed, beside the class as it was, or the array that it has.
    *(
        (
            *(f"a class, {kind}, to versioned", kind),
            {"upgrade": VERSIONED.format(f"dlshim.upgrade({x})"), "dlshim": VERSIONED.format("d")},
        )
        for kind, x in (
            *(("old class", "x"), ("inner array", "d.inner")),
            *(("inherited method", "x"), ("super()", "x")),
        )
    ),
    # What the check of torch's lazy bits costs in torch itself: is_neg lets go of the GIL.
    ("the negative bit", "torch held", {"torch": "is_neg(x)"}),
    ("a call of nothing", "legacy", {"floor": "floor.nothing(x)"}),
)


def calls() -> Iterator[Operation]:
    for case, producer, ways in CALLS:
        for way, statement in ways.items():
            yield Operation(case, way, f"x = {PRODUCERS[producer]}", statement, "floor")


# Copies of host memory, beside NumPy's own (`direct`). copies.py times many more.
COPIES = {
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


def copies() -> Iterator[Operation]:
    ways = {"direct": "x.copy('C')", "dlshim": "dlshim.from_dlpack(x, copy=True)"}
    for layout, expression in COPIES.items():
        for way, statement in ways.items():
            yield Operation(f"copy, {layout}", way, f"x = {expression}", statement, "direct")


# Objects of older protocols, beside NumPy, which reads these too.
OLDER = {
    "buffer": "memoryview(np.ones((8, 8), 'f4'))",
    "array interface": "offering('__array_interface__', np.ones((8, 8), 'f4'))",
    "array struct": "offering('__array_struct__', np.ones((8, 8), 'f4'))",
}


def older() -> Iterator[Operation]:
    ways = {"direct": "np.asarray(x)", "dlshim": "dlshim.from_dlpack(x)"}
    for protocol, expression in OLDER.items():
        for way, statement in ways.items():
            case, setup = f"from_dlpack, {protocol}", f"x = {expression}"
            yield Operation(case, way, setup, statement, "direct")


# Objects that nobody takes, beside the refusal by NumPy.
REFUSED = {
    "an int": "3",
    "a str": "'text'",
    "an object of a user's class": "Nothing()",
    "torch, grad": "torch.ones(3, requires_grad=True)",
    "datetime64": "np.zeros(3, 'M8[s]')",
}


def refusals() -> Iterator[Operation]:
    for kind, expression in REFUSED.items():
        for way, module in {"direct": "np", "dlshim": "dlshim"}.items():
            statement = f"refused({module}.from_dlpack, x)"
            yield Operation(f"refused, {kind}", way, f"x = {expression}", statement, "direct")


INNER = {"inner": "{}"}  # the producer's own table
# A capsule that the wrapper has taken once.
KEPT = {"floor": "floor.upgrade({})", "dlshim": "dlshim.upgrade({}.__dlpack__())"}
# A Tensor keeps the memory, and beside it a Producer.
MADE = {"dlshim": "dlshim.from_dlpack({})", "upgrade": "met(dlshim.upgrade({}))"}
TABLES: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("owned from C table", "modernx", BY_TABLE | INNER),
    ("owned from torch's table", "torch", BY_TABLE | INNER),
    ("owned from legacy C", "legacy", BY_TABLE),
    ("owned from a Tensor", "legacy", MADE),
    ("borrowed from C table", "modernx", BY_TABLE | INNER),
    ("borrowed from torch's table", "torch", BY_TABLE | INNER),
    ("borrowed from kept tensor", "legacy", KEPT),
)
TABLE_LOOPS = 1024  # exports within one statement: the call from Python is shared by them


def tables() -> Iterator[Operation]:
    for case, producer, ways in TABLES:
        for way, wrapper in ways.items():
            setup = "w = " + wrapper.format(PRODUCERS[producer])
            statement = f"floor.loop_{case.split()[0]}(w, {TABLE_LOOPS})"
            yield Operation(case, way, setup, statement, "floor", TABLE_LOOPS)


def consumes() -> Iterator[Operation]:
    """Functions of the peers that take an array and do nothing with it."""
    for producer in ("legacy", "pylegacy", "numpy", "torch"):
        for way in ("dlshim.h", "dlshim.h borrowed", "nanobind", "tvm-ffi", "tvm-ffi call"):
            case, setup = f"peers consume {producer}", f"x = {PRODUCERS[producer]}"
            yield Operation(case, way, setup, CONSUMERS[way].format("x"), "nanobind")


# What a Tensor gives to Python, beside the same by a protocol.
TENSORS = {
    "numpy()": ("np.from_dlpack(t)", "t.numpy()"),
    "an item": ("np.from_dlpack(t)[1, 2]", "t[1, 2]"),
    "tobytes()": ("taken(view(t))", "t.tobytes()"),
}


def tensors() -> Iterator[Operation]:
    setup = f"t = dlshim.from_dlpack({PRODUCERS['numpy']}); taken, view = bytes, memoryview"
    for what, statements in TENSORS.items():
        for way, statement in zip(("direct", "dlshim"), statements, strict=True):
            yield Operation(f"a Tensor, {what}", way, setup, statement, "direct")


# Loops of dlshim.hpp beside loops with address, shape and strides in variables.
ELEMENTS = {
    "each, in rows": ("np.ones((128, 128))", "elements.each"),
    "each, strided": ("np.ones((128, 256))[:, ::2]", "elements.each"),
    "each, rows of four": ("np.ones((4096, 8))[:, :4]", "elements.each"),
    "x(i, j) of int64": ("np.ones((128, 128), 'i8')", "elements.at"),
}


def elements() -> Iterator[Operation]:
    for loop, (expression, function) in ELEMENTS.items():
        for way, suffix in {"direct": "_by_hand", "dlshim": ""}.items():
            setup, statement = f"x = {expression}", f"{function}{suffix}(x)"
            yield Operation(f"elements, {loop}", way, setup, statement, "direct")


#: A function that reads one element of a float32 array, as authors write it.
AUTHORED = {
    "nanobind": "with_nanobind.own({})",
    "nanobind, dlshim::array": "with_nanobind.imported({})",
    "nanobind, dlshim::borrowed": "with_nanobind.borrowed({})",
    "nanobind, const": "with_nanobind.own_const({})",
    "nanobind, dlshim::array const": "with_nanobind.imported_const({})",
    "nanobind, dlshim::borrowed const": "with_nanobind.borrowed_const({})",
    "pybind11 buffer": "with_pybind11.own({})",
    "pybind11, dlshim::array": "with_pybind11.imported({})",
    "pybind11, dlshim::borrowed": "with_pybind11.borrowed({})",
    "tvm-ffi call": CONSUMERS["tvm-ffi call"],
}


def authored() -> Iterator[Operation]:
    """Functions of authors, with the array types of their binder and with those of dlshim.hpp."""
    for producer in ("numpy", "torch", "legacy", "pylegacy", "modern", "jax"):
        for way, call in AUTHORED.items():
            case, setup = f"a function of {producer}", f"x = {PRODUCERS[producer]}"
            yield Operation(case, way, setup, call.format("x"), "nanobind")


# A compiled function that does nothing: alone, with its argument upgraded, and as a kernel.
KERNELS = {
    "bare": "tvm_nop({})",
    "upgrade": "tvm_nop({})",
    "dlshim": "k({})",
}
# What else a kernel is told or given, beside the same by hand: case -> (setup, by hand, kernel).
TOLD = {
    "order=": ("k = dlshim.kernel(f, order='C')", "f(dlshim.upgrade(x, order='C'))", "k(x)"),
    "readonly=": (
        "k = dlshim.kernel(f, readonly='share')",
        "f(dlshim.upgrade(x, readonly='share'))",
        "k(x)",
    ),
    "takes= a Tensor": ("k = dlshim.kernel(f, takes='tensor')", "f(dlshim.from_dlpack(x))", "k(x)"),
    "takes= a capsule": (
        "k = dlshim.kernel(f, takes='capsule')",
        "f(dlshim.to_capsule(x))",
        "k(x)",
    ),
    "writes=": ("k = dlshim.kernel(f, writes=0)", "f(dlshim.from_dlpack(x))", "k(x)"),
    "dtypes=": ("k = dlshim.kernel(f, dtypes='float32')", "f(dlshim.from_dlpack(x))", "k(x)"),
    "writes= and an export": (
        "k = dlshim.kernel(tvm_nop, writes=0)",
        "tvm_nop(dlshim.upgrade(x))",
        "k(x)",
    ),
    "dtypes= and an export": (
        "k = dlshim.kernel(tvm_nop, dtypes='float32')",
        "tvm_nop(dlshim.upgrade(x))",
        "k(x)",
    ),
    "dtypes= and a Tensor": (
        "k = dlshim.kernel(f, takes='tensor', dtypes='float32', ndims=2)",
        "f(dlshim.from_dlpack(x))",
        "k(x)",
    ),
    "like=": ("k = dlshim.kernel(f, like=x)", "f(dlshim.upgrade(x))", "k(x)"),
    "returns=": ("k = dlshim.kernel(f, returns=None)", "f(dlshim.upgrade(x))", "k(x)"),
    "a list of four": (
        "y = [x] * 4; k = dlshim.kernel(f)",
        "f([" + ", ".join(["dlshim.upgrade(x)"] * 4) + "])",
        "k(y)",
    ),
    "a shape beside it": ("k = dlshim.kernel(f)", "f(dlshim.upgrade(x), (2, 3))", "k(x, (2, 3))"),
    "a Tensor": ("y = dlshim.from_dlpack(x); k = dlshim.kernel(f)", "f(dlshim.upgrade(y))", "k(y)"),
    "a Producer": ("y = dlshim.upgrade(x); k = dlshim.kernel(f)", "f(dlshim.upgrade(y))", "k(y)"),
}


# What from_dlpack is told that changes nothing of most memory.
ACCEPTED = {
    "order=": "order='C'",
    "copy=": "copy=False",
    "dtypes=": "dtypes='float32'",
    "writable=": "writable=True",
}


def kernels() -> Iterator[Operation]:
    for producer in ("numpy", "torch", "legacy"):
        for count in (1, 2, 3, 8, 12, 20):
            for way, statement in KERNELS.items():
                arguments = ["dlshim.upgrade(x)" if way == "upgrade" else "x"] * count
                yield Operation(
                    f"kernel, {count} of {producer}",
                    way,
                    f"x = {PRODUCERS[producer]}; k = dlshim.kernel(tvm_nop)",
                    statement.format(", ".join(arguments)),
                    "upgrade",
                )
    for case, (setup, by_hand, call) in TOLD.items():
        setup = f"x = {PRODUCERS['numpy']}; f = lambda *args: None; {setup}"
        yield Operation(f"kernel, {case}", "by hand", setup, by_hand, "by hand")
        yield Operation(f"kernel, {case}", "dlshim", setup, call, "by hand")
    for case, given in ACCEPTED.items():
        case, setup = f"from_dlpack, {case}", f"x = {PRODUCERS['numpy']}"
        yield Operation(case, "plain", setup, "dlshim.from_dlpack(x)", "plain")
        yield Operation(case, "dlshim", setup, f"dlshim.from_dlpack(x, {given})", "plain")


def arguments() -> Iterator[Operation]:
    """What was made once, as the argument of a compiled function again and again: a Tensor, a
    Producer, the array itself and tvm-ffi's own tensor."""
    ways = {
        "dlshim": "dlshim.from_dlpack({})",
        "upgrade": "dlshim.upgrade({})",
        "bare": "{}",
        "tvm-ffi": "tvm_ffi.from_dlpack({})",
    }
    for producer in ("numpy", "torch"):
        for way, made in ways.items():
            case, setup = f"{producer}, kept argument", f"x = {made.format(PRODUCERS[producer])}"
            yield Operation(case, way, setup, "tvm_nop(x)", "upgrade")


# What `dlshim.to` is compared with: the exchange that does the same where nothing is needed.
BROUGHT = {
    ("numpy", "torch"): 'torch.from_dlpack(dlshim.upgrade(x, order="auto", readonly="copy"))',
    ("torch", "numpy"): 'np.from_dlpack(dlshim.upgrade(x, order="auto", readonly="copy"))',
    ("numpy", "numpy"): "x",
    ("torch", "torch"): "x",
}


def verb() -> Iterator[Operation]:
    """One call that names the library, for a type that came before."""
    for (producer, library), by_hand in BROUGHT.items():
        case, setup = f"{producer} to {library} by name", f"x = {PRODUCERS[producer]}"
        for way, statement in {"upgrade": by_hand, "dlshim": f"dlshim.to(x, {library!r})"}.items():
            yield Operation(case, way, setup, statement, "upgrade")


GROUPS: dict[str, Callable[[], Iterable[Operation]]] = {
    group.__name__: group
    for group in (
        *(calls, pieces, journeys, columns, dimensions, copies, tensors, elements, tables),
        *(consumes, authored, older, refusals, kernels, arguments, releases, raw_capsules),
        *(off_host, first_meetings, verb),
    )
}
DEFAULT_GROUPS = (
    *("calls", "pieces", "journeys", "dimensions", "older", "refusals"),
    *("raw_capsules", "off_host", "first_meetings"),
)

# ---- choosing and showing -----------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser, groups: Iterable[str]) -> None:
    parser.add_argument(
        "--groups",
        default=",".join(groups),
        type=lambda text: (",".join(GROUPS) if text == "all" else text).split(","),
        help=f"any of {', '.join(GROUPS)}, or all",
    )
    parser.add_argument("--select", default="", help="only operations whose name matches")


def installed(name: Name) -> bool:
    try:
        return importlib.util.find_spec(name.module) is not None
    except ModuleNotFoundError:
        return False


def distributions() -> list[str]:
    return list(dict.fromkeys(name.distribution for name in NAMES.values() if name.distribution))


def select(groups: Iterable[str], pattern: str = "") -> list[Operation]:
    """The operations of the groups whose name matches and whose libraries are installed."""
    there = {word for word, name in NAMES.items() if installed(name)}
    every = (operation for group in groups for operation in GROUPS[group]())
    return [op for op in every if re.search(pattern, op.name) and there.issuperset(op.needs)]


def by_case(
    selected: Iterable[Operation],
    cost: dict[str, float],
    unit: str,
    digits: int,
    beside: dict[str, dict[str, float]],
) -> str:
    """One table: every operation with its cost and the ratio to its reference."""
    rows: list[tuple[str, ...]] = []
    case = None
    for op in selected:
        if (own := cost.get(op.name)) is None:
            continue
        reference = cost.get(f"{op.case} | {op.reference}")
        numbers = (f"{each[op.name]:.{digits}f}" for each in (cost, *beside.values()))
        ratio = f"{own / reference:.2f}" if reference else "-"
        rows.append((op.case if op.case != case else "", op.way, *numbers, ratio, op.reference))
        case = op.case
    return report.table(("case", "way", unit, *beside, "ratio", "to"), rows, left=2)


# ---- loops --------------------------------------------------------------------------------


class Namespace(dict):
    """Names for setups and statements; a library is imported when first needed."""

    def __init__(self) -> None:
        classes = (PyLegacy, Instance, Standard, Proxy, Nothing)
        functions = (held, met, decorated, below, offering, subclass, refused, strangers, mixed)
        super().__init__({each.__name__: each for each in (*classes, *functions)})
        self.update(version=(1, 3), _repeat=_repeat)

    def need(self, operation: Operation) -> None:
        for name in operation.needs:
            if name not in self:
                exec(NAMES[name].code, self)


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
        names.need(operation)
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
