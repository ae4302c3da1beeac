"""One call of dlshim at a time, for failing allocations: every protocol in every kind of export
and with every option.

Each step makes its source first and then gives the call to try, so that no double is made while
allocations fail.  What the sources hand out is free of Python where it can be: a destructor in
Python that runs while an error is pending would take the error away.
"""

from __future__ import annotations

import array
import ctypes as C
import itertools
import operator
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import dlshim
from dlshim import _core
from dlshim.kernels import Calls

from . import capsules as caps
from . import columns, sycl
from .cuda_interface import CudaOnly
from .older import ALIGNED, NOTSWAPPED, WRITEABLE, InterfaceOnly, PyArrayInterface, _new
from .producers import P3TableOnly

Step = Callable[[], Callable[[], Any]]


#: Whether the capsules free what nobody has taken.  A destructor in Python cannot be had where
#: Python's own allocations fail.
destructors = True


def _capsule(version: tuple[int, int] | None = None) -> Any:
    return caps.make_of_c(version=version, destructor=destructors)


class Ready:
    """What its methods give is made beforehand."""

    def __init__(self) -> None:
        self.legacy, self.versioned = [_capsule(None)], [_capsule((1, 0))]

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def detach(self) -> Ready:
        return self


class Legacy(Ready):
    """Takes no keyword."""

    def __dlpack__(self) -> Any:
        return self.legacy.pop()


class HalfModern(Ready):
    """Takes every keyword and answers legacy."""

    def __dlpack__(self, *, max_version: Any = None, **others: Any) -> Any:
        return self.legacy.pop()


class Modern(Ready):
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Any = None,
        dl_device: Any = None,
        copy: Any = None,
    ) -> Any:
        return self.legacy.pop() if max_version is None else self.versioned.pop()


class Function(Ready):
    def toDlpack(self) -> Any:
        return self.legacy.pop()


class Refusing(Ready):
    def __dlpack__(self, **others: Any) -> Any:
        raise BufferError("not now")


class Cuda(CudaOnly):
    """Its memory is the host's, and on no multiple of 4096 by chance (`align`)."""

    def __init__(self) -> None:
        self.memory = caps.filled((7,), "float32")
        super().__init__(address=caps.address_of(self.memory) + 4)


class Struct:
    """The capsule is made beforehand and has no destructor.  Its memory lies as Cuda's."""

    def __init__(self) -> None:
        self.memory = caps.filled((7,), "float32")
        self.dims = (C.c_ssize_t * 2)(6, 4)
        self.raw = raw = PyArrayInterface(two=2, nd=1, typekind=b"f", itemsize=4)
        raw.flags = ALIGNED | NOTSWAPPED | WRITEABLE
        raw.data, raw.shape = caps.address_of(self.memory) + 4, C.addressof(self.dims)
        raw.strides = raw.shape + C.sizeof(C.c_ssize_t)
        self.__array_struct__ = _new(C.addressof(raw), None, None)


class Series:
    """A column whose values are an array of NumPy, as pandas'."""

    __module__ = "pandas"
    dtype = type("dtype", (), {"__module__": "numpy"})()

    def __init__(self) -> None:
        self.values = Struct()

    def to_numpy(self) -> Struct:
        return self.values


class Column:
    """Its structs are dlshim's own, so that C releases them.  Its memory lies as Cuda's."""

    def __init__(self) -> None:
        memory = memoryview(bytearray(28))[4:].cast("i")
        self.pair = [dlshim.from_dlpack(memory).__arrow_c_array__()]

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self.pair.pop()


#: The structs of these are released by Python, which needs memory for that.
RELEASED_BY_PYTHON = ("ARROW_DEVICE_ARRAY", "ARROW_DEVICE_STREAM", "ARROW_STREAM")


def _column(way: str) -> Any:
    """An int32 column, which lies as Cuda's."""
    count = columns.Count()
    data = columns.numbers(*range(7), letter="i")
    type_, memory = columns.schema(count, "i"), columns.array(count, 6, data, offset=1)
    if way == "device array":
        return columns.of_device_array(count, type_, memory)
    chunks = [memory, columns.array(count, 1, data)][: 2 if way == "chunks" else 1]
    on_device = way == "device stream"
    return columns.of_stream(count, columns.stream(count, type_, chunks, on_device=on_device))


#: By protocol, as DLS_PROTOCOL_LIST of src/types/plan.h names them; CAPSULE is a raw one.
SOURCES: dict[tuple[str, str], Callable[[], Any]] = {
    ("TABLE", "table"): P3TableOnly,
    ("DLPACK", "legacy"): Legacy,
    ("DLPACK", "half-modern"): HalfModern,
    ("DLPACK", "modern"): Modern,
    ("DLPACK", "refusing"): Refusing,
    ("FUNCTION", "function"): Function,
    ("CUDA", "interface"): Cuda,
    # The offset makes sure that `align` is never satisfied by chance.
    ("SYCL", "interface"): lambda: sycl.SyclOnly(offset=1),
    ("STRUCT", "struct"): Struct,
    ("INTERFACE", "interface"): InterfaceOnly,
    ("INTERFACE", "over a buffer"): lambda: InterfaceOnly(
        (6,), "uint8", changes={"data": bytearray(range(6))}
    ),
    # As above.
    ("INTERFACE", "bools to correct"): lambda: InterfaceOnly(
        (5,), "bool", changes={"data": b"\xff\0" * 3, "offset": 1}
    ),
    # With a copy it is mended, without one it is refused.
    ("INTERFACE", "other byte order"): lambda: InterfaceOnly(
        (3,), "int32", changes={"typestr": ">i4" if sys.byteorder == "little" else "<i4"}
    ),
    ("VALUES", "series"): Series,
    ("ARROW_DEVICE_ARRAY", "array"): lambda: _column("device array"),
    ("ARROW_ARRAY", "array"): Column,
    ("ARROW_DEVICE_STREAM", "chunk"): lambda: _column("device stream"),
    ("ARROW_STREAM", "chunk"): lambda: _column("stream"),
    ("ARROW_STREAM", "chunks"): lambda: _column("chunks"),
    ("BUFFER", "array"): lambda: array.array("i", range(6)),
    # The offset makes sure that `align` is never satisfied by chance: with a copy the export works,
    # without one it is refused.
    ("BUFFER", "read-only"): lambda: memoryview(bytes(20))[4:],
    ("BUFFER", "strided"): lambda: memoryview(bytearray(12))[::2],
    ("TENSOR", "tensor"): lambda: dlshim.from_dlpack(array.array("i", range(6))),
    ("TENSOR", "producer"): lambda: dlshim.upgrade(array.array("i", range(6))),
    ("CAPSULE", "legacy"): _capsule,
    ("CAPSULE", "versioned"): lambda: _capsule((1, 0)),
}

#: A value for each row of src/request/options.def, one at a time and all together.
OPTIONS: dict[str, Any] = {
    "stream": -1,
    "producer_stream": 1,
    "unknown_stream": "same",
    "device": "cpu",
    "like": memoryview(b"here"),
    "copy": True,
    "readonly": "copy",
    "order": "C",
    "align": 4096,
    "reinterpret": "uint32",
    "assume_device": "cpu",
    "detach": True,
    "on_release": "guard",
}
NO_OPTION = {"none": {}}
EACH_OPTION = {name: {name: value} for name, value in OPTIONS.items()}
ALL_OPTIONS = {
    "all": {k: v for k, v in OPTIONS.items() if k not in ("detach", "reinterpret", "stream")}
}

#: Kinds of export.  Each gives a function of C without arguments: a Python function through which
#: an exception passes while memory is short loses it, in every CPython.
EXPORTS: dict[str, Callable[..., Callable[[], Any]]] = {
    "upgrade": lambda x, options: partial(dlshim.upgrade, x, **options),
    "legacy": lambda x, options: partial(dlshim.upgrade(x, **options).__dlpack__),
    "versioned": lambda x, options: partial(
        dlshim.upgrade(x, **options).__dlpack__, max_version=(1, 0)
    ),
    "device question": lambda x, options: dlshim.upgrade(x, **options).__dlpack_device__,
    "to_capsule": lambda x, options: partial(dlshim.to_capsule, x, **options),
    "Tensor": lambda x, options: partial(dlshim.from_dlpack, dlshim.upgrade(x, **options)),
    "attributes": lambda x, options: _attributes(_tensor(x, options)),
    "repr": lambda x, options: partial(repr, _tensor(x, options)),
    "buffer": lambda x, options: partial(memoryview, _tensor(x, options)),
}


def _attributes(tensor: Any) -> Callable[[], Any]:
    """Every attribute that this tensor has."""
    names = [
        name
        for name, found in vars(dlshim.Tensor).items()
        if type(found).__name__ == "getset_descriptor" and hasattr(tensor, name)
    ]
    return partial(operator.attrgetter(*names), tensor)


def _tensor(x: Any, options: dict[str, Any]) -> Any:
    return dlshim.from_dlpack(dlshim.upgrade(x, **options))


def _step(make: Callable[[], Any], export: Callable[..., Any], options: dict[str, Any]) -> Step:
    """What cannot be prepared is a step that always fails, in the same way."""

    def prepare() -> Callable[[], Any]:
        try:
            return export(make(), options)
        except BufferError as error:
            return partial(_throw, type(error))

    return prepare


def _throw(kind: type[Exception]) -> Any:
    raise kind("cannot be prepared")


def _named(sources: Any, exports: Any, all_options: dict[str, dict[str, Any]]) -> dict[str, Step]:
    return {
        f"{' '.join(source)}, {export}, {option}": _step(
            SOURCES[source], EXPORTS[export], options | _off_host(source)
        )
        for source, export, (option, options) in itertools.product(
            sources, exports, all_options.items()
        )
    }


def _off_host(source: tuple[str, str]) -> dict[str, Any]:
    """Without a driver nothing is synchronised off the host, and no pointer is looked up."""
    of_cuda = {"assume_device": "cuda:0"} if source[0] == "CUDA" else {}
    return {"stream": -1, **of_cuda} if source[0] in ("CUDA", "SYCL") else {}


#: Every protocol in every kind of export; and every protocol with every option, in capsules of both
#: generations.
STEPS: dict[str, Step] = {
    **_named(SOURCES, EXPORTS, NO_OPTION),
    **_named(SOURCES, ("legacy", "versioned"), EACH_OPTION | ALL_OPTIONS),
}


class Own(Legacy):
    """A class of another author."""


def _decorated() -> type:
    return dlshim.producer(type("Own", (Own,), {}))


#: What a kernel calls is C's own, so that no Python function loses the exception.
_IS, _TENSOR = dlshim.kernel(operator.is_), dlshim.kernel(dlshim.from_dlpack)
_FLOATS = dlshim.kernel(operator.is_, dtypes="float32", ndims=(1, 2))
_WRITES = dlshim.kernel(operator.is_, writes=(0,))
_OPTIONS = dlshim.kernel("".format, takes="tensor", order="C", align=64)

#: Calls that are more than one exchange: compiled kernels, classes of other authors, what is wanted
#: of an array, and what is shown of our objects.
OTHERS: dict[str, Step] = {
    "kernel, made": lambda: partial(
        _core._kernel,
        operator.is_,
        Calls(operator.is_, None, "home", None, (), {0: "float32"}, 1, {}),
    ),
    "kernel, two arrays": lambda: partial(_IS, Modern(), Legacy()),
    "kernel, buffers": lambda: partial(_IS, bytearray(4), array.array("f", [1.0])),
    "kernel, lists of arrays": lambda: partial(_IS, [Modern()], (Modern(), Modern())),
    "kernel, what is wanted": lambda: partial(_FLOATS, Modern(), array.array("f", [1.0])),
    "kernel, keywords": lambda: partial(dlshim.kernel("".format), a=Modern(), b=bytearray(4)),
    "kernel, results": lambda: partial(_TENSOR, Modern()),
    "kernel, what is written": lambda: partial(_WRITES, Modern(), bytearray(4)),
    "kernel, options": lambda: partial(_OPTIONS, Modern(), [Modern()], bytearray(4)),
    "python, a class is decorated": lambda: partial(dlshim.producer, type("Own", (Own,), {})),
    "class, legacy": lambda: _decorated()().__dlpack__,
    "class, versioned": lambda: partial(_decorated()().__dlpack__, max_version=(1, 0)),
    "class, taken": lambda: partial(dlshim.from_dlpack, _decorated()()),
    "attributes, of a method": lambda: partial(
        operator.attrgetter("__name__", "__qualname__", "__doc__", "__text_signature__"),
        _decorated().__dlpack__,
    ),
    "attributes, shown": lambda: partial(repr, _decorated().__dlpack__),
    "python, options are shown": lambda: partial(
        repr, dlshim.upgrade(Modern(), order="C", readonly=True, align=64)
    ),
    "attributes, of a Producer": lambda: partial(dir, dlshim.upgrade(Modern())),
    "attributes, of a Tensor": lambda: partial(dir, dlshim.from_dlpack(bytearray(4))),
    "wanted, taken": lambda: partial(
        dlshim.from_dlpack, Modern(), dtypes=("int32", "float32"), ndims=(1, 2), writable=True
    ),
    "wanted, refused": lambda: partial(dlshim.from_dlpack, bytearray(4), dtypes="float32"),
}
