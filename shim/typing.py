"""The type of what dlshim takes as an array, for signatures that a type checker reads.

Stubs of extensions whose parameters are those of ``dlshim.hpp`` name it.  A list is none, nor is a
number; which arrays a function takes, by dtype and shape, no type checker knows.
"""

import sys
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from typing_extensions import Buffer, CapsuleType
elif sys.version_info >= (3, 13):
    from collections.abc import Buffer
    from types import CapsuleType
else:  # without names in Python
    Buffer = memoryview
    CapsuleType = object

__all__ = ["Array"]


class HasDLPack(Protocol):
    """Arrays of NumPy, PyTorch, JAX, CuPy and most others."""

    def __dlpack__(self, *args: Any, **keywords: Any) -> Any: ...


class HasArrayInterface(Protocol):
    @property
    def __array_interface__(self) -> Any: ...


class HasCudaArrayInterface(Protocol):
    @property
    def __cuda_array_interface__(self) -> Any: ...


class HasSyclInterface(Protocol):
    @property
    def __sycl_usm_array_interface__(self) -> Any: ...


class HasArrowArray(Protocol):
    def __arrow_c_array__(self, *args: Any, **keywords: Any) -> Any: ...


class HasArrowStream(Protocol):
    """Columns of polars, pandas, PyArrow and others."""

    def __arrow_c_stream__(self, *args: Any, **keywords: Any) -> Any: ...


Array: TypeAlias = (
    HasDLPack
    | HasArrayInterface
    | HasCudaArrayInterface
    | HasSyclInterface
    | HasArrowArray
    | HasArrowStream
    | Buffer
    | CapsuleType
)
"""What ``upgrade`` takes: arrays of any protocol, columns, buffers and capsules."""
