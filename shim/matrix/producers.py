"""The producers of the matrix, and the arrays that each makes: its cases.

Those of libraries are rows of ``known``; those that come with Python are here.
"""

from __future__ import annotations

import array
from collections.abc import Callable
from typing import Any

from .. import known
from ..known.arrays import STRIDED, Case, Made, Producer, aligned_bytes, capsule_of
from .capsules import buffer_address

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


def _aligned(make: Callable[[], Any]) -> Made:
    """An object whose memory lies at a multiple of 64, where that of one of many does: nobody can
    tell such an object where to place its memory."""
    many = [(each, buffer_address(each) or 0) for each in [make() for _ in range(64)]]
    return Made(*min(many, key=lambda made: made[1] % 64))


def _bytearray(case: Case) -> Made:
    return _aligned(lambda: bytearray(map(int, case.values)))


def _array(case: Case) -> Made:
    return _aligned(lambda: array.array("f", case.values))


def _memoryview(case: Case) -> Made:
    owner = aligned_bytes(case)
    letter: Any = {"float32": "f", "bool": "?", "uint8": "B"}[case.dtype]
    shape = [6] if case.layout == "step" else list(case.shape)
    made: Any = owner.cast(letter, shape)
    if case.layout == "step":
        made = made[::2]
    return Made(made.toreadonly() if case.readonly else made, buffer_address(owner))


_BUILT_IN = (
    Producer("bytearray", "bytearray", "stdlib", ("uint8",), _bytearray, dlpack=False),
    Producer("array.array", "array.array", "stdlib", ("line",), _array, dlpack=False),
    Producer(
        "memoryview",
        "memoryview",
        "stdlib",
        ("line", "grid", "scalar", "step", "readonly", "bool", "uint8"),
        _memoryview,
        dlpack=False,
    ),
    Producer(
        "capsule 0.x",
        "capsule, DLPack 0.x",
        "capsule",
        (*STRIDED, "bfloat16"),
        lambda case: capsule_of(case, versioned=False),
        one_shot=True,
    ),
    Producer(
        "capsule 1.x",
        "capsule, DLPack 1.x",
        "capsule",
        (*STRIDED, "readonly", "bfloat16"),
        lambda case: capsule_of(case, versioned=True),
        one_shot=True,
    ),
)
#: The order of the rows; libraries that are not named come after these.
_FIRST = (
    "numpy",
    "ml_dtypes",
    "array_api_strict",
    "pyarrow",
    "nanoarrow",
    "tvm_ffi",
    "torch",
    "jax",
    "tensorflow",
    "paddle",
    "mlx",
    "warp",
    "onnxruntime",
)
PRODUCERS: tuple[Producer, ...] = (*known.rows("GIVES", _FIRST), *_BUILT_IN)
PRODUCER_BY_KEY = {producer.key: producer for producer in PRODUCERS}
