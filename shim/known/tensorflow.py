"""TensorFlow."""

from __future__ import annotations

from typing import Any

from .arrays import DENSE, Case, Consumer, Made, Producer, Seen, exported_address, loaded, shown
from .rows import Fault, Library, unsaid_immutable

LIBRARY = Library(
    "tensorflow",
    "tensorflow",
    ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tensorflow-macos"),
    "TensorFlow",
)


FAULTS = (
    Fault(
        "tensorflow",
        "exports of text and resources",
        "kills",
        since=(2, 2),
        upgraded="refused",
        source="habits.py",
    ),
    Fault(
        "tensorflow",
        "computes with memory that is not aligned to 64 bytes",
        "kills",
        since=(2, 2),
        upgraded="align=64",
        source="tensorflow/tensorflow#36862",
    ),
    unsaid_immutable("tensorflow", (2, 2)),
    Fault(
        "tensorflow",
        "exports scalars with shape (1,)",
        "wrong",
        since=(2, 2),
        upgraded="cured",
        source="M17",
    ),
)


def _tensorflow(case: Case) -> Made:
    tensorflow = loaded("tensorflow")
    with tensorflow.device("CPU:0"):
        made = tensorflow.constant(case.values, dtype=case.dtype, shape=case.shape)
    capsule = tensorflow.experimental.dlpack.to_dlpack(made)
    return Made(made, exported_address(capsule))


def _see_tensorflow(made: Any) -> Seen:
    address = exported_address(loaded("tensorflow").experimental.dlpack.to_dlpack(made))
    return shown(made.shape, made.numpy().tolist(), address)


GIVES = (
    Producer(
        "tensorflow",
        "tensorflow",
        "tensorflow",
        (*DENSE, "bfloat16"),
        _tensorflow,
        immutable=True,
    ),
)

TAKES = (
    Consumer(
        "tensorflow",
        "tensorflow",
        "tensorflow",
        "tensorflow.experimental.dlpack.from_dlpack",
        _see_tensorflow,
        wants="capsule",
    ),
)
