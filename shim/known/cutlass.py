"""CUTLASS's CuTe DSL, whose kernels take arrays."""

from __future__ import annotations

from .rows import BF16, LEGACY, REAL, Known, Library

LIBRARY = Library("cutlass", "cutlass", ("nvidia-cutlass-dsl",))

_FLOAT8 = frozenset(
    {"float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"}
)

#: It keeps the capsule, under its name, and reads the layout when that is asked for.  With
#: enable_tvm_ffi=True it calls tvm_ffi.from_dlpack instead.
FUNCTIONS = (
    Known(
        "cutlass.cute.runtime.from_dlpack",
        "cutlass",
        (4, 8),
        (4, 9),
        asks=LEGACY,
        keywords=("stream",),
        dtypes=REAL | BF16 | _FLOAT8,
        limits=("dtype",),
        raises=("RuntimeError", "AttributeError"),
        no_way=("AttributeError",),
        devices=(2,),
        stream="stream -1",
    ),
)
