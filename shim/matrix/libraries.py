"""The small arrays that are exchanged, how each library makes and takes them, and shows what came.

First raw capsules, made and read without dlshim and any library: the independent witness.  Then
the consumers: the function is the one that a user of the library calls; the upgraded exchange
differs only in its argument, ``dlshim.upgrade(obj)`` (``dlshim.to_capsule(obj)`` where the library
takes nothing but capsules, ``dlshim.from_dlpack(obj)`` where it takes buffers).  Then the cases and
the producers, whose functions run only in a child process, which has imported the library; they
return the object with the address of its first element.
"""

from __future__ import annotations

import array
import contextlib
import ctypes as c
import itertools
import operator
import struct
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .. import known
from ..arrays import row_major
from ..known import BY_KEY as LIBRARIES
from ..known import TRIPLES, Version, loaded

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

Take = Callable[[Any], Any]


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


def upgraded(consumer: Consumer, options: Mapping[str, Any]) -> Take:
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


def _numpy_array(case: Case) -> Any:
    numpy = loaded("numpy")
    if case.dtype == "bfloat16":
        dtype = numpy.dtype(loaded("ml_dtypes").bfloat16)
    else:
        dtype = numpy.dtype(case.dtype)
    if case.layout == "transposed":
        return numpy.arange(6, dtype=dtype).reshape(2, 3).T
    if case.layout == "step":
        return numpy.arange(6, dtype=dtype)[::2]
    if case.layout == "reversed":
        return numpy.arange(6, dtype=dtype)[::-1]
    made = numpy.array(case.values, dtype=dtype).reshape(case.shape)
    made.setflags(write=not case.readonly)
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
    dtype = getattr(xp, case.dtype)
    if case.layout == "transposed":
        made = xp.reshape(xp.arange(6, dtype=dtype), (2, 3)).T
    elif case.layout == "step":
        made = xp.arange(6, dtype=dtype)[::2]
    elif case.layout == "reversed":
        made = xp.flip(xp.arange(6, dtype=dtype))
    else:
        made = xp.reshape(xp.asarray(list(case.values), dtype=dtype), case.shape)
    return Made(made, made._array.__array_interface__["data"][0])


def _nanoarrow(case: Case) -> Made:
    nanoarrow = loaded("nanoarrow")
    types = {"float32": nanoarrow.float32(), "uint8": nanoarrow.uint8()}
    made = nanoarrow.c_array(case.values, types[case.dtype]).view().buffer(1)
    return Made(made, read_capsule(made.__dlpack__()).address)


def _torch(case: Case) -> Made:
    torch = loaded("torch")
    if case.layout == "transposed":
        made = torch.arange(6, dtype=torch.float32).reshape(2, 3).t()
    elif case.layout == "step":
        made = torch.arange(6, dtype=torch.float32)[::2]
    else:
        made = torch.tensor(case.values, dtype=getattr(torch, case.dtype)).reshape(case.shape)
    return Made(made, made.data_ptr())


def _jax(case: Case) -> Made:
    jnp = loaded("jax.numpy")
    dtype = jnp.bool_ if case.dtype == "bool" else getattr(jnp, case.dtype)
    made = jnp.asarray(case.values, dtype=dtype).reshape(case.shape)
    return Made(made, made.unsafe_buffer_pointer())


def _warp(case: Case) -> Made:
    warp = loaded("warp")
    dtypes = {"float32": warp.float32, "bool": warp.bool, "uint8": warp.uint8}
    dtype = dtypes[case.dtype]
    if case.layout == "transposed":
        made = warp.array([[0, 1, 2], [3, 4, 5]], dtype=dtype, device="cpu").transpose()
    elif case.layout == "step":
        made = warp.array(list(range(6)), dtype=dtype, device="cpu")[::2]
    elif case.key == "empty":
        made = warp.empty(case.shape, dtype=dtype, device="cpu")
    else:
        made = warp.array(list(case.values), dtype=dtype, device="cpu").reshape(case.shape)
    return Made(made, made.ptr)


def _mlx(case: Case) -> Made:
    mx = loaded("mlx.core")
    if case.layout == "transposed":
        made = mx.arange(6, dtype=mx.float32).reshape(2, 3).T
    elif case.layout == "step":
        made = mx.arange(6, dtype=mx.float32)[::2]
    else:
        dtypes = {"bool": mx.bool_}
        dtype = dtypes.get(case.dtype) or getattr(mx, case.dtype)
        made = mx.array(list(case.values), dtype=dtype).reshape(case.shape)
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
