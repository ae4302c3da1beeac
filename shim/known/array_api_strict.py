"""array-api-strict, which asks as the NumPy below it."""

from __future__ import annotations

from .arrays import STRIDED, Case, Consumer, Made, Producer, loaded, numpy_array, see_numpy
from .rows import Fault, Library

LIBRARY = Library("array_api_strict", "array_api_strict", ("array-api-strict",), "array-api-strict")

FAULTS = (
    Fault(
        "array_api_strict",
        "max_version, not by a TypeError",
        "refuses",
        since=(1,),
        until=(2, 2),
        upgraded="cured",
        source="case 5",
    ),
)


def _array_api_strict(case: Case) -> Made:
    xp = loaded("array_api_strict")
    # It has no method reshape.
    made = xp.asarray(numpy_array(case))
    return Made(made, made._array.__array_interface__["data"][0])


GIVES = (
    Producer(
        "array_api_strict",
        "array-api-strict",
        "array_api_strict",
        (*STRIDED, "reversed"),
        _array_api_strict,
    ),
)

TAKES = (
    Consumer(
        "array_api_strict",
        "array-api-strict",
        "array_api_strict",
        "numpy.from_dlpack",
        lambda made: see_numpy(made._array),
        asks_through="numpy",
    ),
)
