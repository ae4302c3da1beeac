"""Producers over NumPy's arrays, each of which answers one way of asking wrongly; and C tables with
one wrong function.  ``planted.toml`` says of each what is wrong, and which check finds it.
"""

from __future__ import annotations

import ctypes as C
import enum
from typing import Any

import numpy as np

from dlshim_testing.doubles import capsules as caps
from dlshim_testing.partner import Producer
from kit import wrong_producers
from kit.planted import KEPT, Of, of, when_freed

# ---- methods and keywords ----------------------------------------------------------------------


class DeviceIsText(Of):
    def __dlpack_device__(self) -> Any:
        return "cpu"


class DeviceWithoutNumber(Of):
    def __dlpack_device__(self) -> Any:
        return (1, None)


class DeviceOfThree(Of):
    def __dlpack_device__(self) -> Any:
        return (1, 0, 0)


class Kind(enum.Enum):
    CPU = "cpu"


class DeviceOfNoNumber(Of):
    """The device's type is an enum whose value is text."""

    def __dlpack_device__(self) -> Any:
        return (Kind.CPU, 0)


class DeviceIsAnAttribute(Of):
    @property
    def __dlpack_device__(self) -> Any:
        return (1, 0)


class NoDevice(Of):
    __dlpack_device__ = None


class NoDlDevice(Of):
    """`max_version` is known, and `dl_device` is not."""

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, copy: Any = None) -> Any:
        return self.give(max_version=max_version, copy=copy)


class NoCopyKeyword(Of):
    """`max_version` is known, and `copy` is not."""

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None):  # type: ignore[no-untyped-def]
        return self.give(max_version=max_version, dl_device=dl_device)


class AnyKeyword(Of):
    """A keyword that no edition has is taken."""

    def __dlpack__(self, *, not_a_keyword: Any = None, **asked: Any) -> Any:
        return super().__dlpack__(**asked)


class ByPosition(Of):
    def __dlpack__(self, stream: Any = None, max_version: Any = None, **asked: Any) -> Any:
        return super().__dlpack__(stream=stream, max_version=max_version, **asked)


class NotImplementedYet(Of):
    """`max_version` is there, and a NotImplementedError."""

    def give(self, max_version: Any = None, **asked: Any) -> Any:
        if max_version is not None:
            raise NotImplementedError("max_version")
        return super().give(**asked)


class StreamIsANumber(Of):
    """`stream=None` is a TypeError."""

    def __dlpack__(self, *, stream: Any = -1, **asked: Any) -> Any:
        if stream is None:
            raise TypeError("the stream must be an int")
        return super().__dlpack__(**asked)


class AnyStream(Of):
    """Every stream is taken for memory of the host."""

    def give(self, stream: Any = None, **asked: Any) -> Any:
        return super().give(**asked)


# ---- versions ----------------------------------------------------------------------------------


class AlwaysVersioned(Of):
    """A struct of DLPack 1.x, whether it is asked for or not."""

    def give(self, max_version: Any = None, **asked: Any) -> Any:
        return super().give(max_version=(1, 3), **asked)


class AlwaysLegacy(Of):
    """A struct of DLPack 0.x, whatever `max_version` says."""

    def give(self, max_version: Any = None, **asked: Any) -> Any:
        return super().give(**asked)


class VersionedForZero(Of):
    """`max_version=(0, 8)` gives a struct of DLPack 1.x."""

    def give(self, max_version: Any = None, **asked: Any) -> Any:
        return super().give(max_version=max_version and (1, 0), **asked)


class RefusesOlderMinors(Of):
    def give(self, max_version: Any = None, **asked: Any) -> Any:
        if max_version is not None and (1, 0) <= tuple(max_version) < (1, 3):
            raise BufferError("less than DLPack 1.3 is asked for")
        return super().give(max_version=max_version, **asked)


class RefusesNewerMinors(Of):
    def give(self, max_version: Any = None, **asked: Any) -> Any:
        if max_version is not None and tuple(max_version) > (1, 3):
            raise BufferError("more than DLPack 1.3 is asked for")
        return super().give(max_version=max_version, **asked)


class LegacyForOlderMinors(Of):
    """What is asked for less than DLPack 1.3 is answered with one of 0.x."""

    def give(self, max_version: Any = None, **asked: Any) -> Any:
        older = max_version is not None and tuple(max_version) < (1, 3)
        return super().give(max_version=None if older else max_version, **asked)


# ---- copies, and the device that is asked for --------------------------------------------------


class CopiesUnasked(Of):
    """An export copies unless `copy=False`."""

    def give(self, copy: Any = None, **asked: Any) -> Any:
        return super().give(copy=True if copy is None else copy, **asked)


class SaysThatItCopied(Of):
    """`copy=True` gives the array's own memory, with the flag IS_COPIED."""

    def give(self, copy: Any = None, **asked: Any) -> Any:
        capsule = super().give(**asked)
        if copy and caps.name_of(capsule) == caps.VERSIONED:
            of(capsule)[0].flags |= caps.IS_COPIED
        return capsule


class CopiesBytes(Of):
    """`copy=True` of a view takes the bytes that come first."""

    def give(self, copy: Any = None, **asked: Any) -> Any:
        if not copy:
            return super().give(copy=copy, **asked)
        made = np.empty(self.array.shape, self.array.dtype)
        C.memmove(made.ctypes.data, self.array.ctypes.data, made.nbytes)
        return made.__dlpack__(copy=True, **asked)


class NeverCopies(Of):
    """`copy=True` is always a BufferError."""

    def give(self, copy: Any = None, **asked: Any) -> Any:
        if copy:
            raise BufferError("it is not copied")
        return super().give(copy=copy, **asked)


class NoCopyFalse(Of):
    """`copy=False` is a NotImplementedError."""

    def give(self, copy: Any = None, **asked: Any) -> Any:
        if copy is False:
            raise NotImplementedError("copy=False")
        return super().give(copy=copy, **asked)


class RefusesItsDevice(Of):
    """`dl_device` is refused, the array's own device too."""

    def give(self, dl_device: Any = None, **asked: Any) -> Any:
        if dl_device is not None:
            raise BufferError("it is not moved")
        return super().give(**asked)


class RuntimeErrorForDevices(Of):
    """Another `dl_device` is a RuntimeError."""

    def give(self, dl_device: Any = None, **asked: Any) -> Any:
        if dl_device is not None and tuple(dl_device) != (1, 0):
            raise RuntimeError(f"no device {dl_device}")
        return super().give(dl_device=dl_device, **asked)


# ---- refusals ----------------------------------------------------------------------------------


class RefusesManyDimensions(Of):
    def give(self, **asked: Any) -> Any:
        if self.array.ndim > 6:
            raise IndexError("more than six dimensions")
        return super().give(**asked)


class RefusesReversed(Of):
    def give(self, **asked: Any) -> Any:
        if min(self.array.strides, default=0) < 0:
            raise ValueError("a negative stride")
        return super().give(**asked)


class RefusesUnsigned(Of):
    def give(self, **asked: Any) -> Any:
        if self.array.dtype == "uint32":
            raise BufferError("no uint32")
        return super().give(**asked)


class SystemErrorForVersions(Of):
    """A result and an exception at once, which Python makes a SystemError."""

    def give(self, max_version: Any = None, **asked: Any) -> Any:
        if max_version:
            raise SystemError("returned a result with an exception set")
        return super().give(**asked)


# ---- capsules ----------------------------------------------------------------------------------


class GivesAPair(Of):
    """`__dlpack__` gives a capsule and a dtype."""

    def give(self, **asked: Any) -> Any:
        return super().give(**asked), "float32"


class GivesNone(Of):
    def give(self, **asked: Any) -> Any:
        return None


class BornUsed(wrong_producers.Right):
    """A capsule has the name of a consumed one."""

    def answer(self, max_version: Any = None, **asked: Any) -> Any:
        made = self._export((1, 3) if max_version else None)
        return made.capsule(name=caps.USED_VERSIONED if max_version else caps.USED_LEGACY)


class OtherStruct(wrong_producers.Right):
    """The name says DLPack 1.x, and the struct is one of 0.x."""

    def answer(self, max_version: Any = None, **asked: Any) -> Any:
        return self._export(None).capsule(name=caps.VERSIONED if max_version else caps.LEGACY)


other_struct = Producer(OtherStruct, claims="2025.12")


class NoVersionedDestructor(wrong_producers.Right):
    """The destructor knows the older name alone."""

    def answer(self, max_version: Any = None, **asked: Any) -> Any:
        made = self._export((1, 3) if max_version else None)
        return made.capsule(destructor=not max_version)


# ---- memory ------------------------------------------------------------------------------------


class KeepsExports(Of):
    """Every array that was exported stays."""

    def give(self, **asked: Any) -> Any:
        KEPT.append(self.array)
        return super().give(**asked)


class ClearsWhatIsGivenBack(Of):
    """The deleter sets memory to zero that the array still has."""

    def give(self, **asked: Any) -> Any:
        array = self.array

        def clear(original: Any) -> None:
            if array.flags.c_contiguous:
                C.memset(array.__array_interface__["data"][0], 0, array.nbytes)
            original()

        return when_freed(super().give(**asked), clear)


class WritesAtExport(Of):
    """An export sets the first element to one."""

    def give(self, **asked: Any) -> Any:
        if self.array.size and self.array.flags.writeable:
            self.array[(0,) * self.array.ndim] = 1
        return super().give(**asked)


class KeepsUnused(Of):
    """A capsule that nobody consumes keeps the array."""

    def give(self, **asked: Any) -> Any:
        capsule = super().give(**asked)
        C.pythonapi.Py_IncRef(C.py_object(capsule))
        return capsule


# ---- C tables ----------------------------------------------------------------------------------

Allocate, Export = wrong_producers._Allocate, wrong_producers._ToObject


def with_table(**functions: Any) -> type[wrong_producers.Right]:
    """A producer of whose C table these functions are others."""
    table = wrong_producers.table(
        **{
            name: value if value is None else C.cast(value, C.c_void_p).value
            for name, value in functions.items()
        }
    )
    caps.keep_for_ever(*[each for each in functions.values() if each])
    return type("WithTable", (wrong_producers.Right,), {"__dlpack_c_exchange_api__": table})


def allocated(prototype: int, out: int, shape: Any = None, dtype: Any = None) -> int:
    asked = caps.DLTensor.from_address(prototype)
    told = caps.read_int64s(asked.shape, asked.ndim) or ()
    made = caps.Made(shape or told, dtype or (asked.code, asked.bits, asked.lanes), version=(1, 3))
    made.handed_out = True
    C.c_void_p.from_address(out).value = made.address
    return 0


@Allocate
def of_one_element(prototype: int, out: int, context: int, set_error: int) -> int:
    return allocated(prototype, out, shape=(1,))


@Allocate
def of_bytes(prototype: int, out: int, context: int, set_error: int) -> int:
    return allocated(prototype, out, dtype=(1, 8, 1))


@Allocate
def nothing_at_all(prototype: int, out: int, context: int, set_error: int) -> int:
    C.c_void_p.from_address(out).value = None
    return 0


@Export
def no_error(array: int, out: int) -> int:
    C.c_void_p.from_address(out).value = None
    return 0


table_without_allocator = with_table(managed_tensor_allocator=None)
table_without_import = with_table(managed_tensor_to_py_object_no_sync=None)
table_without_export = with_table(managed_tensor_from_py_object_no_sync=None)
allocates_one_element = with_table(managed_tensor_allocator=of_one_element)
allocates_bytes = with_table(managed_tensor_allocator=of_bytes)
allocates_null = with_table(managed_tensor_allocator=nothing_at_all)


class RefusesInSilence(wrong_producers.Right):
    """What is refused is NULL without an error by the table."""

    __dlpack_c_exchange_api__ = with_table(
        managed_tensor_from_py_object_no_sync=no_error
    ).__dlpack_c_exchange_api__

    def answer(self, **asked: Any) -> Any:
        raise BufferError("it is not exported")


table_refuses_in_silence = Producer(
    wrong_producers.Right, claims="2025.12", refused={"sparse": RefusesInSilence}
)


class TableOfOtherDtype(wrong_producers.Right):
    """By the table the elements are unsigned."""

    def table_export(self) -> Any:
        return self._export((1, 3), dtype="uint32" if self.dtype == "float32" else self.dtype)


class TableOfOtherShape(wrong_producers.Right):
    """By the table the extents stand in the other order."""

    def table_export(self) -> Any:
        shape = self.shape[::-1]
        return self._export((1, 3), shape=shape, strides=caps.row_major(shape))


class TableKeepsArrays(wrong_producers.Right):
    """Each export by the table keeps its array."""

    def table_export(self) -> Any:
        KEPT.append(self)
        return super().table_export()
