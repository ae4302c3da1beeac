"""The producers of the matrix, and the arrays that each makes: its cases.

The functions that make them run only in a child process, which has imported the library; they
return the object with the address of its first element.
"""

from __future__ import annotations

import array
import ctypes as c
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..arrays import row_major
from ..libraries import loaded
from .capsules import buffer_address, make_capsule, read_capsule


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
