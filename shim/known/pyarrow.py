"""PyArrow: Array, Tensor and FixedShapeTensorArray."""

from __future__ import annotations

from typing import Any

from .arrays import Case, Consumer, Made, Producer, Seen, loaded, numpy_array, shown
from .rows import Fault, Library, unsaid_immutable

LIBRARY = Library("pyarrow", "pyarrow", ("pyarrow",), "PyArrow")

FAULTS = (
    unsaid_immutable("pyarrow", (15,), (26,)),
    Fault(
        "pyarrow",
        "copy=True of a strided Tensor",
        "wrong",
        since=(26,),
        upgraded="cured",
        source="M8",
    ),
    Fault(
        "pyarrow",
        "FixedShapeTensorArray.from_dlpack ignores gaps",
        "wrong",
        since=(26,),
        upgraded='order="C"',
        source="habits.py",
    ),
    Fault(
        "pyarrow",
        "FixedShapeTensorArray.from_dlpack of arrays without rows",
        "kills",
        since=(26,),
        upgraded="none",
        source="habits.py",
    ),
)


def _pyarrow_array(case: Case) -> Made:
    pyarrow = loaded("pyarrow")
    types = {"float32": pyarrow.float32(), "bool": pyarrow.bool_(), "uint8": pyarrow.uint8()}
    made = pyarrow.array(case.values, types[case.dtype])
    return Made(made, made.buffers()[1].address)


def _pyarrow_tensor(case: Case) -> Made:
    pyarrow = loaded("pyarrow")
    source = numpy_array(case)
    return Made(pyarrow.Tensor.from_numpy(source), source.__array_interface__["data"][0])


def _see_pyarrow_array(made: Any) -> Seen:
    return shown((len(made),), made.to_pylist(), made.buffers()[1].address)


def _see_pyarrow_tensor(made: Any) -> Seen:
    seen = made.to_numpy()
    address = seen.__array_interface__["data"][0]
    return shown(made.shape, seen.tolist(), address, made.is_mutable)


GIVES = (
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
)

TAKES = (
    Consumer(
        "pyarrow.Array",
        "pyarrow.Array",
        "pyarrow",
        "pyarrow.Array.from_dlpack",
        _see_pyarrow_array,
        since=(26, 0),
    ),
    Consumer(
        "pyarrow.Tensor",
        "pyarrow.Tensor",
        "pyarrow",
        "pyarrow.Tensor.from_dlpack",
        _see_pyarrow_tensor,
        since=(26, 0),
    ),
)
