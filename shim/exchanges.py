"""The exchanges of ``python -m dlshim matrix``: of what, among whom, what is expected, carried out.

First raw capsules, made and read without dlshim and any library: the independent witness.  Then
the consumers: the function is the one that a user of the library calls; the upgraded exchange
differs only in its argument, ``dlshim.upgrade(obj)`` (``dlshim.to_capsule(obj)`` where the library
takes nothing but capsules, ``dlshim.from_dlpack(obj)`` where it takes buffers).  Then the cases and
the producers, whose functions run only in a child process, which has imported the library; they
return the object with the address of its first element.

Known limits of consumers, and what dlshim refuses on purpose, are told by ``known``, as for
``inspect``; of a release that is not in its table the nearest one counts.  What is left are the
rows of ``LIMITS``.  None was taken from a run of the matrix.  Where it is not known in which
release a limit fell, the row covers all releases up to one without it: an exchange that works is
never held against a row.

This process starts children, survives their death and collects what they say; run as a program,
the module is the child.  What a child reads is one JSON object: ``{"mode": "bare" | "upgraded",
"cells": [...]}``.  Each cell has the keys of its producer, consumer and case, its libraries,
options of ``upgrade`` to repeat it with when it does not work, and whether to time it.  A line of
JSON goes out for each, and before it a line ``{"begin": number}``, so that the parent knows which
exchange killed the process.
"""

from __future__ import annotations

import array
import ast
import contextlib
import ctypes as c
import gc
import importlib
import itertools
import json
import operator
import os
import queue
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import timeit
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TextIO

from . import ReadOnlyWarning, known
from .arrays import row_major
from .known import BY_KEY as LIBRARIES
from .known import (
    TRIPLES,
    Facts,
    Outcome,
    Version,
    cure_of,
    loaded,
    outcomes,
    version_tuple,
)

if TYPE_CHECKING:
    Take = Callable[[Any], Any]

# ---- raw capsules -----------------------------------------------------------------------------

LEGACY = b"dltensor"
VERSIONED = b"dltensor_versioned"
FLAG_READ_ONLY = 1


# data, device type and id, ndim, dtype (code, bits, lanes), shape, strides, byte_offset
_TENSOR = "PiiiBBHPPQ"
# ..., manager_ctx, deleter
_LEGACY = struct.Struct(f"@{_TENSOR}PP")
# major, minor, manager_ctx, deleter, flags, ...
_VERSIONED = struct.Struct(f"@IIPPQ{_TENSOR}")
# Py_buffer: address, owner, length, and what is not looked at
_BUFFER = struct.Struct("@PPnniiPPPPP")

# A handle of our own: libraries set prototypes on the functions of ctypes.pythonapi.
_python = c.PyDLL(None)
_capsule_new = _python.PyCapsule_New
_capsule_new.restype = c.py_object
_capsule_new.argtypes = (c.c_void_p, c.c_char_p, c.c_void_p)
_capsule_is_valid = _python.PyCapsule_IsValid
_capsule_is_valid.argtypes = (c.py_object, c.c_char_p)
_capsule_pointer = _python.PyCapsule_GetPointer
_capsule_pointer.restype = c.c_void_p
_capsule_pointer.argtypes = (c.py_object, c.c_char_p)
_get_buffer = _python.PyObject_GetBuffer
_get_buffer.argtypes = (c.py_object, c.c_void_p, c.c_int)
_release_buffer = _python.PyBuffer_Release
_release_buffer.argtypes = (c.c_void_p,)
_release_buffer.restype = None
_FULL_RO = 0x11C

# What a managed struct refers to, by its address, until its deleter runs.  A capsule
# that nobody consumes keeps its entry: the child process is short-lived.
_alive: dict[int, tuple[object, ...]] = {}


@c.CFUNCTYPE(None, c.c_void_p)
def _delete(address: int) -> None:
    _alive.pop(address, None)


_DELETER = c.cast(_delete, c.c_void_p).value


def is_capsule(obj: object) -> bool:
    return type(obj).__name__ == "PyCapsule"


def buffer_address(obj: object) -> int | None:
    """Return the address of the first element of a buffer, None when it has none."""
    view = c.create_string_buffer(_BUFFER.size)
    _get_buffer(obj, view, _FULL_RO)
    address, _, length, *_ = _BUFFER.unpack(view.raw)
    _release_buffer(view)
    return address if length else None


def make_capsule(
    address: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: str,
    *,
    versioned: bool,
    readonly: bool = False,
    keep: object = None,
) -> object:
    """Return a new capsule over host memory; ``keep`` lives until its deleter runs."""
    extents = (c.c_int64 * max(len(shape), 1))(*shape)
    steps = (c.c_int64 * max(len(shape), 1))(*strides)
    dims = (c.addressof(extents), c.addressof(steps))
    tensor = (address, 1, 0, len(shape), *TRIPLES[dtype], *dims, 0)
    if versioned:
        flags = FLAG_READ_ONLY if readonly else 0
        packed = _VERSIONED.pack(1, 3, 0, _DELETER, flags, *tensor)
    else:
        packed = _LEGACY.pack(*tensor, 0, _DELETER)
    managed = c.create_string_buffer(packed, len(packed))
    _alive[c.addressof(managed)] = (managed, extents, steps, keep)
    return _capsule_new(c.addressof(managed), VERSIONED if versioned else LEGACY, None)


@dataclass(frozen=True)
class Contents:
    """What an unconsumed capsule says, and the elements behind it."""

    versioned: bool
    address: int
    shape: tuple[int, ...]
    dtype: tuple[int, int, int]
    values: tuple[float | int | bool, ...]
    readonly: bool


def _element(address: int, dtype: tuple[int, int, int]) -> float | int | bool:
    code, bits, _ = dtype
    raw = c.string_at(address, bits // 8)
    if code == 4:  # bfloat16 is the upper half of a float32
        return struct.unpack("=f", struct.pack("=I", int.from_bytes(raw, sys.byteorder) << 16))[0]
    if code == 6:
        return raw != b"\0"
    if code == 2:
        return struct.unpack({32: "=f", 64: "=d"}[bits], raw)[0]
    return int.from_bytes(raw, sys.byteorder, signed=code == 0)


def _int64s(address: int, count: int) -> tuple[int, ...]:
    return struct.unpack(f"={count}q", c.string_at(address, 8 * count)) if count else ()


def read_capsule(capsule: object) -> Contents:
    """Read an unconsumed capsule without consuming it; ValueError for any other."""
    flags = 0
    if _capsule_is_valid(capsule, LEGACY):
        at = _capsule_pointer(capsule, LEGACY)
        *fields, _, _ = _LEGACY.unpack(c.string_at(at, _LEGACY.size))
        versioned = False
    elif _capsule_is_valid(capsule, VERSIONED):
        at = _capsule_pointer(capsule, VERSIONED)
        _, _, _, _, flags, *fields = _VERSIONED.unpack(c.string_at(at, _VERSIONED.size))
        versioned = True
    else:
        raise ValueError(f"not an unconsumed DLPack capsule: {capsule!r}")
    data, _, _, ndim, code, bits, lanes, shape_at, strides_at, offset = fields
    shape = _int64s(shape_at, ndim)
    strides = _int64s(strides_at, ndim) if strides_at else row_major(shape)
    steps = [stride * bits * lanes // 8 for stride in strides]
    if not data and 0 not in shape:
        raise ValueError("the capsule has elements and no data")
    first = (data or 0) + offset
    return Contents(
        versioned=versioned,
        address=first,
        shape=shape,
        dtype=(code, bits, lanes),
        values=tuple(
            _element(first + sum(map(operator.mul, index, steps)), (code, bits, lanes))
            for index in itertools.product(*map(range, shape))
        ),
        readonly=bool(flags & FLAG_READ_ONLY),
    )


# ---- consumers ------------------------------------------------------------------------------


class NotOffered(Exception):
    """The installed release of the library has no function that takes DLPack."""


@dataclass(frozen=True)
class Seen:
    """The result of an exchange, as the consuming library shows it."""

    shape: tuple[int, ...]
    values: tuple[float | int | bool, ...]
    #: Address of the first element; None where the library does not tell.
    address: int | None
    #: None where the library does not tell.
    writable: bool | None = None


@dataclass(frozen=True)
class Consumer:
    key: str
    label: str
    library: str
    #: The function, as the table of ``known`` names it.
    name: str
    see: Callable[[Any], Seen]
    #: "object", or "capsule" for libraries that take nothing else.
    wants: str = "object"
    #: Lowest version that exists as a consumer.
    since: Version = ()
    #: First version in which it is another one.
    until: Version | None = None
    #: The library whose version decides how it asks, where it is another one.
    asks_through: str = ""

    @property
    def rows(self) -> list[known.Known]:
        return _BUILT_IN[self.key][1:] if self.key in _BUILT_IN else known.rows_of(self.name)

    def function(self) -> Take:
        """Return the library's function, which takes the object."""
        if self.key in _BUILT_IN:
            return _BUILT_IN[self.key][0]
        module = LIBRARIES[self.library].module
        name = self.name.removeprefix("numpy." if self.asks_through else f"{module}.")
        # Once it was private in NumPy.
        for path in (name, f"_{name}"):
            with contextlib.suppress(AttributeError):
                take: Take = operator.attrgetter(path)(loaded(module))
                return _with_capsules(take) if self.wants == "capsule" else take
        raise NotOffered(f"this release of {module} has no {name}")


def _with_capsules(take: Take) -> Take:
    return lambda obj: take(_take_legacy(obj))


def _flat(nested: Any) -> Iterable[float | int | bool]:
    if isinstance(nested, list):
        for item in nested:
            yield from _flat(item)
    else:
        yield nested


def _shown(shape: Iterable[int], nested: Any, address: int | None, writable: Any = None) -> Seen:
    return Seen(tuple(int(n) for n in shape), tuple(_flat(nested)), address, writable)


def _see_numpy(made: Any) -> Seen:
    address = made.__array_interface__["data"][0]
    return _shown(made.shape, made.tolist(), address, made.flags.writeable)


def _see_capsule(capsule: Any) -> Seen:
    contents = read_capsule(capsule)
    writable = not contents.readonly if contents.versioned else None
    return Seen(contents.shape, contents.values, contents.address, writable)


def _see_exported(made: Any) -> Seen:
    """See a result through its own legacy export."""
    seen = _see_capsule(made.__dlpack__())
    return Seen(seen.shape, seen.values, seen.address)


def _see_pyarrow_array(made: Any) -> Seen:
    return _shown((len(made),), made.to_pylist(), made.buffers()[1].address)


def _see_pyarrow_tensor(made: Any) -> Seen:
    seen = made.to_numpy()
    address = seen.__array_interface__["data"][0]
    return _shown(made.shape, seen.tolist(), address, made.is_mutable)


def _see_nanoarrow(made: Any) -> Seen:
    values = list(made.elements())
    return _shown((len(values),), values, made._addr())


def _see_onnxruntime(made: Any) -> Seen:
    if "bfloat16" in made.data_type():  # has no NumPy array
        return _see_exported(made)
    return _shown(made.shape(), made.numpy().tolist(), made.data_ptr())


def _see_paddle(made: Any) -> Seen:
    # Paddle shows bfloat16 to NumPy as the bits of an unsigned integer.
    shown = made.astype("float32") if "bfloat16" in str(made.dtype) else made
    return _shown(made.shape, shown.numpy().tolist(), made.data_ptr())


def _see_tensorflow(made: Any) -> Seen:
    address = read_capsule(loaded("tensorflow").experimental.dlpack.to_dlpack(made)).address
    return _shown(made.shape, made.numpy().tolist(), address)


def _see_memoryview(made: Any) -> Seen:
    address = buffer_address(made)
    return _shown(made.shape, made.tolist(), address, not made.readonly)


def _take_legacy(obj: Any) -> Any:
    return obj if is_capsule(obj) else obj.__dlpack__()


def _take_versioned(obj: Any) -> Any:
    return obj if is_capsule(obj) else obj.__dlpack__(max_version=(1, 3))


def _see_legacy(capsule: Any) -> Seen:
    if read_capsule(capsule).versioned:
        raise TypeError("the capsule is a dltensor_versioned, a dltensor was wanted")
    return _see_capsule(capsule)


def _see_versioned(capsule: Any) -> Seen:
    if not read_capsule(capsule).versioned:
        raise TypeError("the capsule is a dltensor, a dltensor_versioned was wanted")
    return _see_capsule(capsule)


def _like(**facts: Any) -> known.Known:
    return known.Known("", "", **facts)


#: What comes with Python: the function, and how it asks.
_BUILT_IN: dict[str, list[Any]] = {
    "memoryview": [
        memoryview,
        _like(wants="buffer", flag=known.HONOURS, dtypes=known.PLAIN, limits=("dtype",)),
    ],
    "capsule 0.x": [_take_legacy, _like(asks=known.LEGACY, bears_negative=False)],
    "capsule 1.x": [_take_versioned, _like(keywords=("max_version",), bears_negative=False)],
}

CONSUMERS = (
    Consumer("numpy", "numpy", "numpy", "numpy.from_dlpack", _see_numpy, since=(1, 22)),
    Consumer(
        "array_api_strict",
        "strict",
        "array_api_strict",
        "numpy.from_dlpack",
        lambda made: _see_numpy(made._array),
        asks_through="numpy",
    ),
    Consumer(
        "torch",
        "torch",
        "torch",
        "torch.from_dlpack",
        lambda made: _shown(made.shape, made.tolist(), made.data_ptr()),
    ),
    Consumer(
        "jax",
        "jax",
        "jax",
        "jax.numpy.from_dlpack",
        lambda made: _shown(made.shape, made.tolist(), made.unsafe_buffer_pointer()),
    ),
    Consumer("tvm_ffi", "tvm-ffi", "tvm_ffi", "tvm_ffi.from_dlpack", _see_exported),
    Consumer(
        "pyarrow.Array",
        "pa.Array",
        "pyarrow",
        "pyarrow.Array.from_dlpack",
        _see_pyarrow_array,
        since=(26, 0),
    ),
    Consumer(
        "pyarrow.Tensor",
        "pa.Tensor",
        "pyarrow",
        "pyarrow.Tensor.from_dlpack",
        _see_pyarrow_tensor,
        since=(26, 0),
    ),
    Consumer("nanoarrow", "nanoarrow", "nanoarrow", "nanoarrow.c_buffer", _see_nanoarrow),
    Consumer(
        "warp",
        "warp",
        "warp",
        "warp.from_dlpack",
        lambda made: _shown(made.shape, made.numpy().tolist(), made.ptr),
    ),
    Consumer(
        "mlx",
        "mlx",
        "mlx",
        "mlx.core.array",
        lambda made: _shown(made.shape, made.tolist(), None),
    ),
    Consumer(
        "onnxruntime",
        "onnxrt",
        "onnxruntime",
        "onnxruntime.OrtValue.from_dlpack",
        _see_onnxruntime,
    ),
    Consumer("paddle", "paddle", "paddle", "paddle.from_dlpack", _see_paddle, since=(3, 0)),
    Consumer(
        "paddle 2",
        "paddle",
        "paddle",
        "paddle.utils.dlpack.from_dlpack",
        _see_paddle,
        wants="capsule",
        until=(3, 0),
    ),
    Consumer(
        "tensorflow",
        "tf",
        "tensorflow",
        "tensorflow.experimental.dlpack.from_dlpack",
        _see_tensorflow,
        wants="capsule",
    ),
    Consumer("memoryview", "memoryview", "stdlib", "", _see_memoryview, wants="buffer"),
    Consumer("capsule 0.x", "caps. 0.x", "capsule", "", _see_legacy),
    Consumer("capsule 1.x", "caps. 1.x", "capsule", "", _see_versioned),
)
CONSUMER_BY_KEY = {consumer.key: consumer for consumer in CONSUMERS}


def by_dlshim(consumer: Consumer, options: Mapping[str, Any]) -> Take:
    """Return the function that takes an object by way of dlshim."""
    import dlshim

    take, upgrade = consumer.function(), dlshim.upgrade
    if consumer.wants == "capsule":
        make: Callable[..., Any] = dlshim.to_capsule
    elif consumer.wants == "buffer":
        own = dlshim.from_dlpack
        # Only the wrapper has options; without any the object is taken itself.
        make = (lambda obj, **given: own(upgrade(obj, **given))) if options else own
    else:
        make = upgrade
    if options:
        return lambda obj: take(make(obj, **options))
    return lambda obj: take(make(obj))


# ---- producers ----------------------------------------------------------------------------------
@dataclass(frozen=True)
class Case:
    key: str
    title: str
    shape: tuple[int, ...]
    #: Row-major values that every consumer must see.
    values: tuple[float | int | bool, ...]
    dtype: str = "float32"
    #: "dense" (C-contiguous), "transposed" (dense in another order), "step" (with gaps), "reversed"
    layout: str = "dense"
    readonly: bool = False


CASES = (
    Case("line", "float32, one dimension", (6,), (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)),
    Case("grid", "float32, two dimensions", (2, 3), (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)),
    Case(
        "transposed",
        "float32, transposed",
        (3, 2),
        (0.0, 3.0, 1.0, 4.0, 2.0, 5.0),
        layout="transposed",
    ),
    Case("step", "float32, every second element", (3,), (0.0, 2.0, 4.0), layout="step"),
    Case(
        "reversed",
        "float32, reversed (negative stride)",
        (6,),
        (5.0, 4.0, 3.0, 2.0, 1.0, 0.0),
        layout="reversed",
    ),
    Case("readonly", "float32, read-only", (6,), (0.0, 1.0, 2.0, 3.0, 4.0, 5.0), readonly=True),
    Case("scalar", "float32, no dimension", (), (7.0,)),
    Case("empty", "float32, no element", (0, 3), ()),
    Case("bool", "bool", (4,), (True, False, True, True), dtype="bool"),
    Case("uint8", "uint8", (4,), (1, 2, 3, 4), dtype="uint8"),
    Case("bfloat16", "bfloat16", (4,), (1.0, 2.0, 3.0, 4.0), dtype="bfloat16"),
)
CASE_BY_KEY = {case.key: case for case in CASES}
COST_CASE = "line"


@dataclass(frozen=True)
class Made:
    """An object to exchange, and where its first element lies (None: not asked)."""

    obj: Any
    address: int | None


@dataclass(frozen=True)
class Producer:
    key: str
    label: str
    library: str
    cases: tuple[str, ...]
    make: Callable[[Case], Made]
    #: Libraries that the factory needs besides its own.
    needs: tuple[str, ...] = ()
    #: The type is immutable, whatever its capsules say.
    immutable: bool = False
    #: A capsule is used up by one exchange, so repeating it costs a new capsule each time.
    one_shot: bool = False


def _laid_out(
    case: Case, make: Callable[[list[Any]], Any], turned: Callable[[Any], Any] = lambda made: made.T
) -> Any:
    """Lay out what a library makes of a list, which has one dimension."""
    if case.layout == "dense":
        return make(list(case.values)).reshape(case.shape)
    made = make([0, 1, 2, 3, 4, 5])
    if case.layout == "transposed":
        return turned(made.reshape((2, 3)))
    return made[:: 2 if case.layout == "step" else -1]


def _numpy_array(case: Case) -> Any:
    numpy = loaded("numpy")
    dtype = loaded("ml_dtypes").bfloat16 if case.dtype == "bfloat16" else case.dtype
    made = _laid_out(case, lambda values: numpy.array(values, dtype))
    made.flags.writeable = not case.readonly
    return made


def _numpy(case: Case) -> Made:
    made = _numpy_array(case)
    return Made(made, made.__array_interface__["data"][0])


def _pyarrow_array(case: Case) -> Made:
    pyarrow = loaded("pyarrow")
    types = {"float32": pyarrow.float32(), "bool": pyarrow.bool_(), "uint8": pyarrow.uint8()}
    made = pyarrow.array(case.values, types[case.dtype])
    return Made(made, made.buffers()[1].address)


def _pyarrow_tensor(case: Case) -> Made:
    pyarrow = loaded("pyarrow")
    source = _numpy_array(case)
    return Made(pyarrow.Tensor.from_numpy(source), source.__array_interface__["data"][0])


def _tvm_ffi(case: Case) -> Made:
    tvm_ffi = loaded("tvm_ffi")
    made = tvm_ffi.from_dlpack(_raw(case, versioned=False).obj)
    return Made(made, read_capsule(made.__dlpack__()).address)


def _array_api_strict(case: Case) -> Made:
    xp = loaded("array_api_strict")
    # It has no method reshape.
    made = xp.asarray(_numpy_array(case))
    return Made(made, made._array.__array_interface__["data"][0])


def _nanoarrow(case: Case) -> Made:
    nanoarrow = loaded("nanoarrow")
    types = {"float32": nanoarrow.float32(), "uint8": nanoarrow.uint8()}
    made = nanoarrow.c_array(case.values, types[case.dtype]).view().buffer(1)
    return Made(made, read_capsule(made.__dlpack__()).address)


def _torch(case: Case) -> Made:
    torch = loaded("torch")
    dtype = getattr(torch, case.dtype)
    made = _laid_out(case, lambda values: torch.tensor(values, dtype=dtype))
    return Made(made, made.data_ptr())


def _jax(case: Case) -> Made:
    jnp = loaded("jax.numpy")
    dtype = jnp.bool_ if case.dtype == "bool" else getattr(jnp, case.dtype)
    made = jnp.asarray(case.values, dtype=dtype).reshape(case.shape)
    return Made(made, made.unsafe_buffer_pointer())


def _warp(case: Case) -> Made:
    warp = loaded("warp")
    dtype = getattr(warp, case.dtype)

    def make(values: list[Any]) -> Any:
        return warp.array(values, dtype=dtype, device="cpu")

    if case.key == "empty":
        made = warp.empty(case.shape, dtype=dtype, device="cpu")
    else:
        made = _laid_out(case, make, lambda made: made.transpose())
    return Made(made, made.ptr)


def _mlx(case: Case) -> Made:
    mx = loaded("mlx.core")
    dtype = mx.bool_ if case.dtype == "bool" else getattr(mx, case.dtype)
    made = _laid_out(case, lambda values: mx.array(values, dtype))
    mx.eval(made)
    return Made(made, read_capsule(made.__dlpack__()).address)


def _onnxruntime(case: Case) -> Made:
    onnxruntime = loaded("onnxruntime")
    made = onnxruntime.OrtValue.ortvalue_from_numpy(_numpy_array(case))
    return Made(made, made.data_ptr())


def _paddle(case: Case) -> Made:
    paddle = loaded("paddle")
    dtype = "float32" if case.dtype == "bfloat16" else case.dtype
    made = paddle.to_tensor(list(case.values), dtype=dtype, place=paddle.CPUPlace())
    made = made.astype(case.dtype).reshape(case.shape)
    return Made(made, made.data_ptr())


def _tensorflow(case: Case) -> Made:
    tensorflow = loaded("tensorflow")
    with tensorflow.device("CPU:0"):
        made = tensorflow.constant(case.values, dtype=case.dtype, shape=case.shape)
    capsule = tensorflow.experimental.dlpack.to_dlpack(made)
    return Made(made, read_capsule(capsule).address)


def _bytes_of(case: Case) -> bytearray:
    """Return the case's elements, those skipped by a step included, as bytes."""
    if case.layout == "step":
        return bytearray(array.array("f", range(6)).tobytes())
    if case.dtype == "float32":
        values = sorted(case.values) if case.layout == "transposed" else case.values
        return bytearray(array.array("f", values).tobytes())
    if case.dtype == "bfloat16":  # the upper halves of the float32 values
        words = memoryview(array.array("f", case.values).tobytes()).cast("I")
        return bytearray(array.array("H", [word >> 16 for word in words]).tobytes())
    return bytearray(map(int, case.values))


def _bytearray(case: Case) -> Made:
    made = bytearray(map(int, case.values))
    return Made(made, buffer_address(made))


def _array(case: Case) -> Made:
    made = array.array("f", case.values)
    return Made(made, made.buffer_info()[0])


def _memoryview(case: Case) -> Made:
    owner = _bytes_of(case)
    letter: Any = {"float32": "f", "bool": "?", "uint8": "B"}[case.dtype]
    shape = [6] if case.layout == "step" else list(case.shape)
    made: Any = memoryview(owner).cast(letter, shape)
    if case.layout == "step":
        made = made[::2]
    return Made(made.toreadonly() if case.readonly else made, buffer_address(owner))


def _raw(case: Case, *, versioned: bool) -> Made:
    owner = _bytes_of(case)
    holder = (c.c_char * max(len(owner), 1)).from_buffer(owner or bytearray(1))
    strides = {"transposed": (1, 3), "step": (2,)}.get(case.layout)
    if strides is None:
        strides = row_major(case.shape)
    address = c.addressof(holder)
    made = make_capsule(
        address,
        case.shape,
        strides,
        case.dtype,
        versioned=versioned,
        readonly=case.readonly,
        keep=holder,
    )
    return Made(made, address)


_DENSE = ("line", "grid", "scalar", "empty", "bool", "uint8")
_STRIDED = (*_DENSE, "transposed", "step")

PRODUCERS = (
    Producer(
        "numpy",
        "numpy",
        "numpy",
        (*_STRIDED, "reversed", "readonly"),
        _numpy,
    ),
    Producer("ml_dtypes", "numpy+ml_dtypes", "ml_dtypes", ("bfloat16",), _numpy, needs=("numpy",)),
    Producer(
        "array_api_strict",
        "array-api-strict",
        "array_api_strict",
        (*_STRIDED, "reversed"),
        _array_api_strict,
    ),
    Producer(
        "pyarrow.Array",
        "pyarrow Array",
        "pyarrow",
        ("line", "bool", "uint8"),
        _pyarrow_array,
        immutable=True,
    ),
    Producer(
        "pyarrow.Tensor",
        "pyarrow Tensor",
        "pyarrow",
        ("line", "grid", "transposed", "step", "readonly", "uint8"),
        _pyarrow_tensor,
        needs=("numpy",),
    ),
    Producer("nanoarrow", "nanoarrow", "nanoarrow", ("line", "uint8"), _nanoarrow),
    Producer("tvm_ffi", "tvm-ffi", "tvm_ffi", (*_STRIDED, "bfloat16"), _tvm_ffi),
    Producer("torch", "torch", "torch", (*_STRIDED, "bfloat16"), _torch),
    Producer("jax", "jax", "jax", (*_DENSE, "bfloat16"), _jax, immutable=True),
    Producer(
        "tensorflow",
        "tensorflow",
        "tensorflow",
        (*_DENSE, "bfloat16"),
        _tensorflow,
        immutable=True,
    ),
    Producer("paddle", "paddle", "paddle", (*_DENSE, "bfloat16"), _paddle),
    Producer("mlx", "mlx", "mlx", (*_STRIDED, "bfloat16"), _mlx),
    Producer(
        "warp",
        "warp",
        "warp",
        ("line", "grid", "empty", "bool", "uint8", "transposed", "step"),
        _warp,
    ),
    Producer(
        "onnxruntime",
        "onnxruntime",
        "onnxruntime",
        _DENSE,
        _onnxruntime,
        needs=("numpy",),
    ),
    Producer("bytearray", "bytearray", "stdlib", ("uint8",), _bytearray),
    Producer("array.array", "array.array", "stdlib", ("line",), _array),
    Producer(
        "memoryview",
        "memoryview",
        "stdlib",
        ("line", "grid", "scalar", "step", "readonly", "bool", "uint8"),
        _memoryview,
    ),
    Producer(
        "capsule 0.x",
        "capsule, DLPack 0.x",
        "capsule",
        (*_STRIDED, "bfloat16"),
        lambda case: _raw(case, versioned=False),
        one_shot=True,
    ),
    Producer(
        "capsule 1.x",
        "capsule, DLPack 1.x",
        "capsule",
        (*_STRIDED, "readonly", "bfloat16"),
        lambda case: _raw(case, versioned=True),
        one_shot=True,
    ),
)
PRODUCER_BY_KEY = {producer.key: producer for producer in PRODUCERS}


# ---- what is expected ---------------------------------------------------------------------------
def options(cure: str) -> dict[str, Any]:
    name, _, value = cure.partition("=")
    return {name: ast.literal_eval(value)} if cure else {}


@dataclass(frozen=True)
class Exchange:
    """The facts that the limits speak about."""

    producer: Producer
    consumer: Consumer
    case: Case
    versions: Mapping[str, str]

    def is_old(self, library: str, *below: int) -> bool:
        """Whether a library's release is below another."""
        return version_tuple(self.versions.get(library, "0")) < below

    def made_by(self, library: str, *below: int) -> bool:
        """Whether the array is made by a library, in a release below another."""
        return self.producer.library == library and (not below or self.is_old(library, *below))

    def row(self) -> known.Known:
        """The consumer's row for the release that is here, or the nearest one."""
        consumer = self.consumer
        version = self.versions.get(consumer.asks_through or consumer.library, "0")
        row: known.Known = known.nearest(consumer.rows, version_tuple(version))[0]
        # It is handed x.__dlpack__().
        return replace(row, wants="object", keywords=()) if row.wants == "capsule" else row

    def facts(self) -> Facts:
        producer, case = self.producer, self.case
        version = version_tuple(self.versions.get(producer.library, "0"))
        source = known.source_of(producer.key.replace("_", "-"), version)[0]
        strides = {"transposed": (1, 3), "step": (2,), "reversed": (-1,)}.get(case.layout)
        readonly: bool | None = case.readonly or producer.immutable
        if producer.key == "capsule 0.x":
            readonly = None
        return Facts(
            library=producer.key,
            source=source if source and source.since <= version else None,
            immutable=producer.immutable,
            kind="capsule" if producer.library == "capsule" else "object",
            has_dlpack=producer.library != "stdlib",
            has_buffer=producer.library in ("stdlib", "numpy", "jax"),
            dtype=case.dtype,
            shape=case.shape,
            strides=strides or row_major(case.shape),
            readonly=readonly,
            aligned_to=64,
            device=(1, 0),
        )

    def expected(self) -> tuple[Outcome, Outcome]:
        """What comes of it bare, and upgraded."""
        return outcomes(self.facts(), self.row())


def _limit(why: str, covers: Callable[[Exchange], bool], cure: str = "") -> Covered:
    return Outcome("wrong" if cure else "refused", why=why, cure=cure), covers


if TYPE_CHECKING:
    Covered = tuple[Outcome, Callable[[Exchange], bool]]

#: Limits of producers, and faults of consumers, that ``inspect`` does not tell.  Of those that are
#: "wrong", nothing on the way can notice it: the consumer shows something else, without an error.
LIMITS: tuple[Covered, ...] = (
    _limit(
        "Arrow packs booleans into bits, which DLPack cannot describe",
        lambda e: e.case.dtype == "bool" and e.made_by("pyarrow"),
    ),
    _limit(
        "torch before 2.6 exports no booleans",
        lambda e: e.case.dtype == "bool" and e.made_by("torch", 2, 6),
    ),
    _limit(
        "this release of the producer labels its booleans as uint8",
        lambda e: (
            e.case.dtype == "bool"
            and (
                e.made_by("onnxruntime")
                or e.made_by("jax", 0, 4, 24)
                or e.made_by("tensorflow", 2, 19)
                or e.made_by("paddle", 3)
            )
        ),
        'reinterpret="bool"',
    ),
    _limit(
        "pyarrow 21 to 25 exports read-only Tensors without their data (rule T12)",
        lambda e: (
            e.case.readonly
            and e.producer.key == "pyarrow.Tensor"
            and e.made_by("pyarrow", 26)
            and not e.made_by("pyarrow", 21)
        ),
    ),
    _limit(
        "jax before 0.10 misreads transposed data that happen to be aligned",
        lambda e: (
            e.case.layout == "transposed" and e.consumer.library == "jax" and e.is_old("jax", 0, 10)
        ),
        'order="C"',
    ),
)


def limit_of(exchange: Exchange) -> Outcome | None:
    """Return the first limit that covers the exchange; None: it should work."""
    own = next((limit for limit, covers in LIMITS if covers(exchange)), None)
    if own and not own.cure:
        return own
    limit = exchange.expected()[1]
    told = own if limit.result == "works" else limit
    if told and exchange.case.dtype == "bool":
        told = replace(told, result="wrong")  # labelled uint8 on the way, or taken for it
    return told and replace(told, cure=cure_of(exchange.facts(), exchange.row(), told))


#: A child that says nothing for so long is ended, and its exchange counts as hanging.
SILENCE_SECONDS = 180.0


@dataclass
class Cell:
    """One exchange: what it is, what is expected of it, what came of it."""

    exchange: Exchange
    limit: Outcome | None
    bare: dict[str, Any] = field(default_factory=dict)
    upgraded: dict[str, Any] = field(default_factory=dict)

    @property
    def works_bare(self) -> bool:
        return self.bare.get("outcome") == "works"

    @property
    def works_upgraded(self) -> bool:
        return self.upgraded.get("outcome") == "works"

    @property
    def works_with_option(self) -> bool:
        return self.upgraded.get("cured", {}).get("outcome") == "works"

    @property
    def fault(self) -> str | None:
        """What is wrong with the upgraded exchange; None when all is as stated."""
        outcome = self.upgraded["outcome"]
        if outcome == "works":
            return None
        limit = self.limit
        stated = limit is not None and (outcome == "refused" or outcome == limit.result == "wrong")
        if limit is None or not stated:
            return str(self.upgraded["detail"])
        if limit.cure and not self.works_with_option:
            return f"with {limit.cure}: {self.upgraded['cured']['detail']}"
        return None

    @property
    def libraries(self) -> tuple[str, ...]:
        producer, consumer = self.exchange.producer, self.exchange.consumer
        return tuple(dict.fromkeys((producer.library, *producer.needs, consumer.library)))

    def job(self, *, cost: bool) -> dict[str, Any]:
        return {
            "producer": self.exchange.producer.key,
            "consumer": self.exchange.consumer.key,
            "case": self.exchange.case.key,
            "cure": options(self.limit.cure) if self.limit else {},
            "libraries": self.libraries,
            "cost": cost and self.exchange.case.key == COST_CASE,
        }

    def as_json(self) -> dict[str, Any]:
        return {
            "producer": self.exchange.producer.key,
            "consumer": self.exchange.consumer.key,
            "case": self.exchange.case.key,
            "limit": self.limit.why if self.limit else None,
            "bare": self.bare,
            "upgraded": self.upgraded,
            "fault": self.fault,
        }


@dataclass
class Report:
    """All that came of a run."""

    versions: dict[str, str]
    cells: list[Cell]
    #: Libraries that are installed but cannot be imported, with the error.
    broken: dict[str, str] = field(default_factory=dict)
    #: What a library could not make, or has no function to take, with the reason.
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def faults(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.fault]

    def as_json(self) -> dict[str, Any]:
        return {
            "python": sys.version.split()[0],
            "versions": self.versions,
            "broken": self.broken,
            "left_out": self.left_out,
            "faults": len(self.faults),
            "cells": [cell.as_json() for cell in self.cells],
        }


def plan(versions: Mapping[str, str], chosen: set[str]) -> list[Cell]:
    """Return every exchange among the chosen libraries (and what is built in)."""
    here = chosen & (set(versions) | set(known.BUILT_IN))

    def present(consumer: Consumer) -> bool:
        version = known.version_tuple(versions.get(consumer.library, "0"))
        fits = version >= consumer.since and (consumer.until is None or version < consumer.until)
        return consumer.library in here and fits

    cells = []
    for producer in PRODUCERS:
        if producer.library not in here or not versions.keys() >= set(producer.needs):
            continue
        for consumer in filter(present, CONSUMERS):
            for key in producer.cases:
                exchange = Exchange(producer, consumer, CASE_BY_KEY[key], versions)
                cells.append(Cell(exchange, limit_of(exchange)))
    return cells


def _lines(process: subprocess.Popen[str]) -> Iterator[dict[str, Any] | None]:
    """Yield what a child says; None once when it stays silent for too long."""
    said: queue.SimpleQueue[str] = queue.SimpleQueue()
    assert process.stdout is not None
    stdout = process.stdout

    def listen() -> None:
        with stdout:
            for line in stdout:
                said.put(line)
        said.put("")

    threading.Thread(target=listen, daemon=True).start()
    while True:
        try:
            line = said.get(timeout=SILENCE_SECONDS)
        except queue.Empty:
            yield None
            return
        if not line:
            return
        yield json.loads(line)


def _death(process: subprocess.Popen[str], errors: str) -> str:
    code = process.wait()
    try:
        name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
    except ValueError:
        name = f"signal {-code}"
    last = next((line for line in reversed(errors.splitlines()) if line.strip()), "")
    return f"{name}: {last.strip()}" if last else name


class _Child:
    """One child process and the cells that it was given."""

    def __init__(self, mode: str, todo: Sequence[Cell], *, cost: bool) -> None:
        self.mode, self.todo = mode, todo
        self.answered = 0
        self.begun: int | None = None
        self.broken: dict[str, str] = {}
        keys = {key for cell in todo for key in cell.libraries}
        self.job = {
            "mode": mode,
            "libraries": sorted(keys),
            "cells": [cell.job(cost=cost) for cell in todo],
        }

    def talk(self, done: Callable[[Cell], None]) -> str | None:
        """Run until the child ends; return how it died, None when it finished."""
        command = [sys.executable, "-m", __name__]
        with tempfile.TemporaryFile("w+", errors="replace") as errors:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
            assert process.stdin is not None
            # A child that died at once is told by its end, below.
            with contextlib.suppress(BrokenPipeError), process.stdin as its_input:
                its_input.write(json.dumps(self.job))
            silent = False
            for line in _lines(process):
                if line is None:
                    silent = True
                    process.kill()
                    break
                self._hear(line, done)
            errors.seek(0)
            death = _death(process, errors.read())
        if silent:
            return "hangs"
        return None if process.returncode == 0 else death

    def _hear(self, line: dict[str, Any], done: Callable[[Cell], None]) -> None:
        if "broken" in line:
            self.broken = line["broken"]
        elif "begin" in line:
            self.begun = line["begin"]
        else:
            number = line.pop("number")
            setattr(self.todo[number], self.mode, line)
            self.begun = None
            done(self.todo[number])


def _run_group(
    mode: str,
    cells: Sequence[Cell],
    broken: dict[str, str],
    done: Callable[[Cell], None],
    *,
    cost: bool,
) -> None:
    """Carry out cells in as few children as deaths allow."""
    todo = list(cells)
    while todo:
        child = _Child(mode, todo, cost=cost)
        death = child.talk(done)
        broken.update(child.broken)
        todo = [cell for cell in todo if not getattr(cell, mode)]
        todo = [cell for cell in todo if not broken.keys() & set(cell.libraries)]
        if death is None:
            return
        # Without a begun exchange the imports themselves died: nothing can be done.
        victim = child.todo[child.begun] if child.begun is not None else None
        victims = [victim] if victim else todo
        for cell in victims:
            setattr(cell, mode, {"outcome": "died", "detail": death})
            done(cell)
        todo = [cell for cell in todo if cell not in victims]


def run(
    versions: dict[str, str],
    cells: list[Cell],
    *,
    cost: bool = True,
    progress: Callable[[str], None] = lambda what: None,
) -> Report:
    """Carry out all exchanges, bare and upgraded; ``progress`` is called after each."""
    broken: dict[str, str] = {}

    def group(mode: str, members: list[Cell]) -> None:
        def done(cell: Cell) -> None:
            progress(f"{mode:<8} {cell.exchange.producer.label:<22}")

        _run_group(mode, members, broken, done, cost=cost)

    # Apart, because a bare exchange may harm its process without killing it.
    group("bare", cells)
    group("upgraded", cells)
    kept = [cell for cell in cells if not broken.keys() & set(cell.libraries)]
    left_out = {}
    for cell in kept:
        exchange, told = cell.exchange, cell.bare
        if told["outcome"] == "unmade":
            left_out[f"from {exchange.producer.label}, {exchange.case.title}"] = told["detail"]
        elif told["outcome"] == "unoffered":
            left_out[f"into {exchange.consumer.label}"] = told["detail"]
    kept = [cell for cell in kept if cell.bare["outcome"] not in ("unmade", "unoffered")]
    return Report(versions, kept, broken, left_out)


# ---- the child ------------------------------------------------------------------------------

BATCHES = 5
BATCH_SECONDS = 0.002


def _import_libraries(keys: set[str]) -> dict[str, str]:
    """Import in the order that is known to work; return what cannot be imported."""
    broken = {}
    for library in known.BY_KEY.values():
        if library.key in keys:
            try:
                module = importlib.import_module(library.module)
                if library.key == "warp":
                    module.init()
            except Exception as error:
                broken[library.key] = _told(error)
    return broken


def _told(error: BaseException) -> str:
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first}"


def _nanoseconds(take: Take, obj: Any) -> float:
    """Return the cost of one exchange: the least of a few batches."""
    timer = timeit.Timer("take(obj)", globals={"take": take, "obj": obj})
    rounds = 1
    while (taken := timer.timeit(rounds)) < BATCH_SECONDS:
        rounds = max(rounds + 1, int(rounds * min(1.2 * BATCH_SECONDS / max(taken, 1e-9), 10)))
    return min(timer.repeat(BATCHES, rounds)) / rounds * 1e9


def _churn() -> None:
    """Give freed memory away, so that a dangling result shows other values."""
    gc.collect()
    noise = [bytearray(b"\xa5" * size) for size in (16, 24, 32, 64, 128) for _ in range(50)]
    del noise


def _fault(
    producer: Producer,
    case: Case,
    seen: Seen,
) -> str | None:
    if seen.shape != case.shape:
        return f"wrong: shape {seen.shape} instead of {case.shape}"
    if seen.values != case.values:
        return f"wrong: values {list(seen.values)} instead of {list(case.values)}"
    if any(type(a) is not type(b) for a, b in zip(seen.values, case.values, strict=True)):
        return f"wrong: {type(seen.values[0]).__name__} instead of {case.dtype}"
    if seen.writable and (case.readonly or producer.immutable):
        return "wrong: the read-only flag is lost"
    return None


def _is_zero_copy(made: Made, seen: Seen) -> bool | None:
    """Return None where either side does not tell its address, or there is no element."""
    if made.address is None or seen.address is None or not seen.values:
        return None
    return made.address == seen.address


def _exchange(
    cell: Mapping[str, Any], function: Callable[[], Take], *, with_cost: bool
) -> dict[str, Any]:
    """Carry out one exchange; ``function`` finds what takes the object."""
    producer = PRODUCER_BY_KEY[cell["producer"]]
    consumer = CONSUMER_BY_KEY[cell["consumer"]]
    case = CASE_BY_KEY[cell["case"]]
    try:
        made = producer.make(case)
    except Exception as error:
        return {"outcome": "unmade", "detail": _told(error)}
    try:
        take = function()
        with warnings.catch_warnings(record=True) as told_of:
            warnings.simplefilter("always", ReadOnlyWarning)
            result = take(made.obj)
        seen = consumer.see(result)
    except NotOffered as error:
        return {"outcome": "unoffered", "detail": str(error)}
    except Exception as error:
        return {"outcome": "refused", "detail": _told(error)}
    fault = _fault(producer, case, seen)
    if fault:
        return {"outcome": "wrong", "detail": fault}
    zero_copy = _is_zero_copy(made, seen)
    told: dict[str, Any] = {"outcome": "works", "zero_copy": zero_copy, "writable": seen.writable}
    told["warned"] = any(each.category is ReadOnlyWarning for each in told_of)
    if with_cost:
        told["ns"] = _nanoseconds(take, made.obj)
    del made
    _churn()
    try:
        survived = consumer.see(result).values == case.values
    except Exception:
        survived = False
    if not survived:
        return {"outcome": "wrong", "detail": "wrong: the memory was freed while in use"}
    return told


def _carry_out(mode: str, cell: Mapping[str, Any]) -> dict[str, Any]:
    with_cost = cell["cost"] and not PRODUCER_BY_KEY[cell["producer"]].one_shot
    consumer = CONSUMER_BY_KEY[cell["consumer"]]
    if mode == "bare":
        return _exchange(cell, consumer.function, with_cost=with_cost)

    def upgraded(options: Mapping[str, Any]) -> Callable[[], Take]:
        return lambda: by_dlshim(consumer, options)

    told = _exchange(cell, upgraded({}), with_cost=with_cost)
    if cell["cure"] and told["outcome"] != "works":
        told["cured"] = _exchange(cell, upgraded(cell["cure"]), with_cost=False)
    return told


def _talk(job: Mapping[str, Any], out: TextIO) -> None:
    def say(**line: Any) -> None:
        print(json.dumps(line), file=out, flush=True)

    broken = _import_libraries(set(job["libraries"]))
    say(broken=broken)
    # What the imports left is not looked at again: collecting after each exchange must
    # stay cheap.
    gc.disable()
    gc.collect()
    gc.freeze()
    for number, cell in enumerate(job["cells"]):
        if broken.keys() & set(cell["libraries"]):
            continue
        say(begin=number)
        say(number=number, **_carry_out(job["mode"], cell))


def main() -> None:
    """Read a job from standard input; answer on what standard output was."""
    job = json.load(sys.stdin)
    # Libraries print; what they print must not be taken for an answer.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _talk(job, out)
    out.close()
    # Skip finalisation: ctypes deleters must not run without an interpreter.
    os._exit(0)


if __name__ == "__main__":
    main()
