"""Dr.Jit: arrays and tensors of its host back ends, and of CUDA."""

from __future__ import annotations

from .rows import COPIES, LEGACY_FIRST, Fault, Known, Library, Source, also, unsaid_immutable

LIBRARY = Library("drjit", "drjit", ("drjit",))

SOURCES = (
    Source(
        "drjit", "drjit", (1, 5), (1, 6), frozenset({"stream"}), versioned=False, immutable=True
    ),
)

FAULTS = (
    unsaid_immutable("drjit", (1, 5), source="habits.py"),
    Fault(
        "drjit",
        "scatter() writes to read-only memory",
        "wrong",
        since=(1, 5),
        upgraded='none, or readonly="copy"',
        source="habits.py",
    ),
)

#: Those of other dtypes take theirs alone.  NumPy's arrays of any dtype and layout are converted
#: first, as nanobind does it, which Dr.Jit is made with.
_TENSOR = [
    Known(
        "drjit.llvm.TensorXf",
        "drjit",
        (1, 5),
        (1, 6),
        asks=LEGACY_FIRST,
        converts=True,
        dtypes=frozenset({"float32"}),
        limits=("dtype", "strides"),
        raises=("TypeError",),
        no_way=("TypeError",),
        passes_on="TypeError",
    )
]

FUNCTIONS = (
    *_TENSOR,
    *also("drjit.scalar.TensorXf", _TENSOR, memory=COPIES),
    *also("drjit.scalar.ArrayXf", _TENSOR, memory=COPIES, limits=("one", "dtype", "strides")),
)
