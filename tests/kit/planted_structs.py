"""Producers over NumPy's arrays, each of whose structs says one thing wrong.

``planted.toml`` says of each what is wrong, and which check finds it.
"""

from __future__ import annotations

import ctypes as C
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dlshim_testing.doubles import capsules as caps
from dlshim_testing.partner import Producer
from kit.planted import Of, extents, of


def struct(change: Callable[[Any, Any], None]) -> type[Of]:
    """A producer whose structs are changed by ``change(array, struct)`` before they go out."""

    class Changed(Of):
        def give(self, **asked: Any) -> Any:
            capsule = super().give(**asked)
            change(self.array, of(capsule)[0])
            return capsule

    Changed.__name__ = change.__name__
    return Changed


def tensor(change: Callable[[Any, Any], None]) -> type[Of]:
    """The same for what the DLTensor says: ``change(array, tensor)``."""

    def inside(array: Any, managed: Any) -> None:
        change(array, managed.dl_tensor)

    inside.__name__ = change.__name__
    return struct(inside)


def steps(array: Any) -> list[int]:
    return [step // array.itemsize for step in array.strides]


def rewrite(address: int, numbers: Sequence[int]) -> None:
    if address and numbers:
        extents(address, len(numbers))[:] = list(numbers)


def reshape(told: Any, shape: Sequence[int], strides: Sequence[int]) -> None:
    """Other dimensions, of which there are no more than before."""
    told.ndim = len(shape)
    rewrite(told.shape, shape)
    rewrite(told.strides, strides)


# ---- strides -----------------------------------------------------------------------------------


@tensor
def positive_strides(array: Any, told: Any) -> None:
    rewrite(told.strides, [abs(step) for step in steps(array)])


@tensor
def unsigned_strides(array: Any, told: Any) -> None:
    rewrite(told.strides, [step % 2**32 for step in steps(array)])


@tensor
def strides_of_rows(array: Any, told: Any) -> None:
    rewrite(told.strides, caps.row_major(array.shape))


@tensor
def no_strides_of_views(array: Any, told: Any) -> None:
    told.strides = None


@tensor
def first_stride_short(array: Any, told: Any) -> None:
    if array.ndim > 1 and array.shape[0] > 1 and abs(steps(array)[0]) > 2:
        rewrite(told.strides, [steps(array)[0] - 1, *steps(array)[1:]])


@tensor
def one_for_zero(array: Any, told: Any) -> None:
    rewrite(told.strides, [step or 1 for step in steps(array)])


STRIDES = (C.c_int64 * 64)()


@tensor
def one_block_of_strides(array: Any, told: Any) -> None:
    STRIDES[: array.ndim] = steps(array)
    told.strides = C.addressof(STRIDES)


# ---- shape -------------------------------------------------------------------------------------


@tensor
def extents_of_one_go(array: Any, told: Any) -> None:
    kept = [k for k, extent in enumerate(array.shape) if extent != 1]
    reshape(told, [array.shape[k] for k in kept], [steps(array)[k] for k in kept])


@tensor
def vectors_of_rows(array: Any, told: Any) -> None:
    """Row-major memory of several dimensions is one vector."""
    if array.ndim > 1 and array.flags.c_contiguous:
        reshape(told, [array.size], [1])


@tensor
def ndim_of_scalars(array: Any, told: Any) -> None:
    told.ndim = array.ndim or -1


@tensor
def one_for_no_extent(array: Any, told: Any) -> None:
    rewrite(told.shape, [extent or 1 for extent in array.shape])


@tensor
def flat_empties(array: Any, told: Any) -> None:
    if not array.size:
        reshape(told, [0], [1])


@tensor
def last_extent_short(array: Any, told: Any) -> None:
    if array.ndim and array.shape[-1] > 2:
        rewrite(told.shape, [*array.shape[:-1], array.shape[-1] - 1])


@tensor
def first_extent_long(array: Any, told: Any) -> None:
    if array.ndim == 1 and array.size > 2:
        rewrite(told.shape, [array.size + 1])


@tensor
def last_two_swapped(array: Any, told: Any) -> None:
    if array.ndim > 2:
        rewrite(told.shape, [*array.shape[:-2], array.shape[-1], array.shape[-2]])


# ---- where the elements begin ------------------------------------------------------------------


def offset_of(array: Any) -> int:
    """In bytes, from where the whole begins."""
    whole = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    here, there = (each.__array_interface__["data"][0] for each in (array, whole))
    return here - there if array.size else 0


@tensor
def offset_in_elements(array: Any, told: Any) -> None:
    told.data = (told.data or 0) - offset_of(array)
    told.byte_offset = offset_of(array) // array.itemsize


@tensor
def offset_twice(array: Any, told: Any) -> None:
    told.byte_offset = offset_of(array)


@tensor
def offset_lost(array: Any, told: Any) -> None:
    told.data = (told.data or 0) - offset_of(array)


@tensor
def offset_of_a_byte(array: Any, told: Any) -> None:
    told.data = (told.data or 0) - offset_of(array)
    told.byte_offset = offset_of(array) & 31


# ---- dtypes ------------------------------------------------------------------------------------


@tensor
def bits_are_bytes(array: Any, told: Any) -> None:
    told.bits = array.itemsize


@tensor
def no_lanes(array: Any, told: Any) -> None:
    told.lanes = 0


@tensor
def complex_of_two_lanes(array: Any, told: Any) -> None:
    if array.dtype.kind == "c":
        told.code, told.bits, told.lanes = 2, 4 * array.itemsize, 2


@tensor
def complex_by_its_part(array: Any, told: Any) -> None:
    if array.dtype.kind == "c":
        told.bits = 4 * array.itemsize


@tensor
def bool_of_one_bit(array: Any, told: Any) -> None:
    if array.dtype.kind == "b":
        told.bits = 1


@tensor
def signed(array: Any, told: Any) -> None:
    if array.dtype.kind == "u":
        told.code = 0


@tensor
def integers_are_floats(array: Any, told: Any) -> None:
    if array.dtype == "int64":
        told.code = 2


@tensor
def half_is_bfloat16(array: Any, told: Any) -> None:
    if array.dtype == "float16":
        told.code = 4


@tensor
def half_precision(array: Any, told: Any) -> None:
    """float64 is float32 of twice as many elements, of which the first half is told."""
    if array.dtype == "float64":
        told.bits = 32


# ---- flags -------------------------------------------------------------------------------------


@struct
def flags_swapped(array: Any, managed: Any) -> None:
    if hasattr(managed, "flags"):
        managed.flags = (managed.flags & 1) << 1 | managed.flags >> 1


@struct
def unknown_flag(array: Any, managed: Any) -> None:
    if hasattr(managed, "flags"):
        managed.flags |= 1 << 8


@struct
def flags_are_not_set(array: Any, managed: Any) -> None:
    """The upper half is what lay there before."""
    if hasattr(managed, "flags"):
        managed.flags |= 0xDEADBEEF << 32


@struct
def major_zero(array: Any, managed: Any) -> None:
    if hasattr(managed, "flags"):
        managed.major, managed.minor = 0, 8


@tensor
def unknown_device_type(array: Any, told: Any) -> None:
    told.device_type = 5


@tensor
def second_gpu(array: Any, told: Any) -> None:
    """Host memory is said to be that of the second GPU."""
    told.device_type, told.device_id = 2, 1


# ---- arrays that are made in special ways ------------------------------------------------------


def with_broadcast(kind: type[Of]) -> Producer:
    """The producer, and an array of it whose rows are one and the same memory."""

    def broadcast() -> tuple[Any, list[Any]]:
        rows = np.lib.stride_tricks.as_strided(np.arange(3, dtype="float32"), (2, 3), (0, 4))
        return kind((), array=rows), [0, 1, 2, 0, 1, 2]

    return Producer(kind, claims="2025.12", special={"broadcast": broadcast})


class CopiesStrides(Of):
    """A copy has the strides of the array, zeros too, so that its elements share memory."""

    def give(self, copy: Any = None, **asked: Any) -> Any:
        if not copy:
            return super().give(copy=copy, **asked)
        once = tuple(slice(0, 1) if step == 0 else slice(None) for step in self.array.strides)
        made = self.array[once].copy()
        again = np.lib.stride_tricks.as_strided(made, self.array.shape, self.array.strides)
        capsule = (again if 0 in self.array.strides else self.array.copy()).__dlpack__(**asked)
        if caps.name_of(capsule) == caps.VERSIONED:
            of(capsule)[0].flags |= caps.IS_COPIED
        return capsule


unsigned = Producer(unsigned_strides, claims="2025.12")
copies_strides = with_broadcast(CopiesStrides)
broadcast_as_rows = with_broadcast(one_for_zero)


class ExportsSwapped(Of):
    """Other byte orders go out as if they were native."""

    def give(self, **asked: Any) -> Any:
        native = self.array.view(self.array.dtype.newbyteorder("="))
        return native.__dlpack__(**asked)


exports_swapped = Producer(
    ExportsSwapped,
    claims="2025.12",
    refused={"swapped": lambda: ExportsSwapped((), array=np.arange(3).astype(">i4"))},
)


class ExportsText(Of):
    """Text goes out as its bytes."""

    def give(self, **asked: Any) -> Any:
        text = self.array.dtype.kind == "U"
        return (self.array.view("uint8") if text else self.array).__dlpack__(**asked)


exports_text = Producer(
    ExportsText,
    claims="2025.12",
    refused={"text": lambda: ExportsText((), array=np.array(["ab", "c"]))},
)


class RefusesByTypeError(Of):
    """What DLPack cannot describe is a TypeError."""

    def give(self, **asked: Any) -> Any:
        try:
            return super().give(**asked)
        except BufferError as error:
            raise TypeError(str(error)) from None


refuses_by_type_error = Producer(
    RefusesByTypeError,
    claims="2025.12",
    refused={"text": lambda: RefusesByTypeError((), array=np.array(["ab", "c"]))},
)


class LocksItsCopies(Of):
    """A copy of what may not be written has the flag READ_ONLY."""

    def give(self, copy: Any = None, **asked: Any) -> Any:
        capsule = super().give(copy=copy, **asked)
        if copy and not self.array.flags.writeable and caps.name_of(capsule) == caps.VERSIONED:
            of(capsule)[0].flags |= caps.READ_ONLY
        return capsule
