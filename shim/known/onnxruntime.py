"""ONNX Runtime: OrtValue."""

from __future__ import annotations

from typing import Any

from .arrays import (
    DENSE,
    Case,
    Consumer,
    Made,
    Producer,
    Seen,
    loaded,
    numpy_array,
    see_exported,
    shown,
)
from .rows import Fault, Library

LIBRARY = Library(
    "onnxruntime",
    "onnxruntime",
    ("onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino"),
    "ONNX Runtime",
)


FAULTS = (
    Fault(
        "onnxruntime",
        "its capsules do not keep their memory alive",
        "wrong",
        since=(1, 26),
        upgraded="cured",
        source="M1",
    ),
    Fault(
        "onnxruntime", "ignores byte offsets", "wrong", since=(1, 26), upgraded="cured", source="M6"
    ),
)


def _onnxruntime(case: Case) -> Made:
    onnxruntime = loaded("onnxruntime")
    made = onnxruntime.OrtValue.ortvalue_from_numpy(numpy_array(case))
    return Made(made, made.data_ptr())


def _see_onnxruntime(made: Any) -> Seen:
    if "bfloat16" in made.data_type():  # has no NumPy array
        return see_exported(made)
    return shown(made.shape(), made.numpy().tolist(), made.data_ptr())


GIVES = (
    Producer(
        "onnxruntime",
        "onnxruntime",
        "onnxruntime",
        DENSE,
        _onnxruntime,
        needs=("numpy",),
    ),
)

TAKES = (
    Consumer(
        "onnxruntime",
        "onnxruntime",
        "onnxruntime",
        "onnxruntime.OrtValue.from_dlpack",
        _see_onnxruntime,
    ),
)
