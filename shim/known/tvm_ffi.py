"""apache-tvm-ffi."""

from __future__ import annotations

from .arrays import (
    STRIDED,
    Case,
    Consumer,
    Made,
    Producer,
    capsule_of,
    exported_address,
    loaded,
    see_exported,
)
from .rows import Fault, Library

LIBRARY = Library("tvm_ffi", "tvm_ffi", ("apache-tvm-ffi",), "apache-tvm-ffi")

FAULTS = (
    Fault(
        "tvm_ffi",
        "copy=True without max_version does not copy",
        "wrong",
        since=(0, 1),
        upgraded="cured",
        source="M15",
    ),
)


def _tvm_ffi(case: Case) -> Made:
    tvm_ffi = loaded("tvm_ffi")
    made = tvm_ffi.from_dlpack(capsule_of(case, versioned=False).obj)
    return Made(made, exported_address(made))


GIVES = (Producer("tvm_ffi", "tvm-ffi", "tvm_ffi", (*STRIDED, "bfloat16"), _tvm_ffi),)

TAKES = (Consumer("tvm_ffi", "tvm-ffi", "tvm_ffi", "tvm_ffi.from_dlpack", see_exported),)
