"""A producer that follows every rule, and one for each MUST that breaks it."""

from __future__ import annotations

import collections
import ctypes as C
import math
import threading
import weakref
from collections.abc import Callable
from typing import Any

from dlshim_testing.doubles import capsules as caps
from dlshim_testing.doubles.ctable import SetError
from dlshim_testing.doubles.producers import (
    P3,
    RAISES_FROM_BOOL,
    P2LegacyOfReadonly,
    c_table,
    table_capsule,
)
from dlshim_testing.partner import Producer

_ToObject = C.PYFUNCTYPE(C.c_int, C.c_void_p, C.c_void_p)
_made: list[Any] = []


class Imported:
    """What the table makes of a tensor; it owns it."""

    def __init__(self, address: int) -> None:
        self._import = caps.Import(caps.View(address, caps.USED_VERSIONED))

    def __dlpack__(self, **_: Any) -> Any:
        return _again(self._import.view, owner=self)


def _again(view: caps.View, owner: Any, flags: int = 0, version: Any = (1, 3)) -> Any:
    return caps.make(
        view.shape,
        view.dtype,
        version=version,
        strides=view.strides,
        data=view.element_zero,
        memory=C.create_string_buffer(8),
        flags=flags,
        owner=owner,
    )


@_ToObject
def _to_object(tensor: int, out: int) -> int:
    made = Imported(tensor)
    C.pythonapi.Py_IncRef(C.py_object(made))
    C.c_void_p.from_address(out).value = id(made)
    return 0


_Allocate = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_void_p, C.c_void_p, C.c_void_p)


@_Allocate
def _allocate(prototype: int, out: int, context: int, set_error: int) -> int:
    asked = caps.DLTensor.from_address(prototype)
    dtype = asked.code, asked.bits, asked.lanes
    if dtype not in caps.DTYPES.values():
        SetError(set_error)(context, b"BufferError", b"no such dtype")
        return -1
    shape = caps.read_int64s(asked.shape, asked.ndim) or ()
    made = caps.Made(shape, dtype, version=(1, 3))
    made.handed_out = True
    C.c_void_p.from_address(out).value = made.address
    return 0


caps.keep_for_ever(_to_object, _allocate)
IMPORTS, ALLOCATES = (C.cast(each, C.c_void_p).value for each in (_to_object, _allocate))


def table(version: tuple[int, int] = (1, 3), **functions: Any) -> Any:
    """A capsule of a table that works, but for these functions."""
    names = {
        "managed_tensor_to_py_object_no_sync": IMPORTS,
        "managed_tensor_allocator": ALLOCATES,
    } | functions
    return table_capsule(c_table(version, **names))


class Right(P3):
    """Everything of 2023.12 and a C table."""

    __dlpack_c_exchange_api__ = table()

    def __init__(self, shape: Any = (2, 3), dtype: Any = "float32", **fields: Any) -> None:
        if shape and shape[0] > 1000:  # for what the process occupies: no need to count up
            fields = {"memory": (C.c_char * (caps.itemsize_of(dtype) * shape[0]))()} | fields
        super().__init__(shape, dtype, **{"version": (1, 3)} | fields)

    def _export(self, version: Any, **fields: Any) -> Any:
        nothing = {"data": None} if 0 in self.shape else {}
        return super()._export(version, **nothing | fields)

    def resize_(self, extent: int) -> None:
        """Other memory in place; exports keep what they have."""
        self.memory = (C.c_char * (8 * extent))()
        self.shape, self.strides = (extent,), (1,)


class NoMethods:
    shape = (2, 3)


class DeviceIsAList(Right):
    def __dlpack_device__(self) -> Any:
        return [1, 0]


class DeviceOfOthers(Right):
    """Memory of the host is said to be CUDA's."""

    def __dlpack_device__(self) -> Any:
        return 2, 0


class DeviceOne(Right):
    def _export(self, version: Any, **fields: Any) -> Any:
        return super()._export(version, **fields | {"device": (1, 1)})


class OtherName(Right):
    def answer(self, **asked: Any) -> Any:
        return self._export(None).capsule(name="tensor", destructor=False)


class SameCapsule(Right):
    _capsule: Any = None

    def answer(self, **asked: Any) -> Any:
        self._capsule = self._capsule or super().answer(**asked)
        return self._capsule


class NoDestructor(Right):
    def answer(self, max_version: Any = None, **asked: Any) -> Any:
        version = (1, 3) if max_version else None
        return self._export(version).capsule(destructor=False)


@C.PYFUNCTYPE(None, C.c_void_p)
def _always(capsule: int) -> None:
    for name, kind in ((b"used_dltensor", caps.LEGACY), (b"used_dltensor_versioned", "v")):
        if caps._dying_is_valid(capsule, name):
            address = caps._dying_get_pointer(capsule, name)
            caps.call_deleter(
                address, kind if kind == caps.LEGACY else caps.USED_VERSIONED, held=True
            )


caps.keep_for_ever(_always)


class DeletesUsed(Right):
    """Its destructor calls the deleter under the used name."""

    DESTRUCTOR = _always

    def answer(self, max_version: Any = None, **asked: Any) -> Any:
        made = self._export((1, 3) if max_version else None)
        made.handed_out = True
        return caps.new_capsule(made.address, made.name, self.DESTRUCTOR)


class NeedsTheGil(Right):
    """Its deleter calls into Python without taking the interpreter's lock."""

    def _export(self, version: Any, **fields: Any) -> Any:
        made = super()._export(version, **fields)
        made.struct.deleter = C.cast(C.pythonapi.PyDict_New, C.c_void_p).value
        return made


@C.CFUNCTYPE(None, C.c_void_p)
def _nothing(address: int) -> None:
    pass


caps.keep_for_ever(_nothing)


class FreesNothing(Right):
    """Its deleter does nothing."""

    def _export(self, version: Any, **fields: Any) -> Any:
        made = super()._export(version, **fields)
        made.struct.deleter = C.cast(_nothing, C.c_void_p).value
        return made


@C.PYFUNCTYPE(None, C.c_void_p)
def _twice(capsule: int) -> None:
    structs = {b"dltensor": caps.ManagedTensor, b"dltensor_versioned": caps.ManagedTensorVersioned}
    for name, kind in structs.items():
        if caps._dying_is_valid(capsule, name):
            struct = kind.from_address(caps._dying_get_pointer(capsule, name))
            for _ in range(2):  # whoever watches the struct may have changed it meanwhile
                C.PYFUNCTYPE(None, C.c_void_p)(struct.deleter)(C.addressof(struct))


caps.keep_for_ever(_twice)


class DeletesTwice(FreesNothing, DeletesUsed):
    """Its destructor calls the deleter twice; the first call leaves the struct as it is."""

    DESTRUCTOR = _twice


class NullDeleter(Right):
    """No export can be given back; the memory goes with the array all the same."""

    def _export(self, version: Any, **fields: Any) -> Any:
        own = {"data": self.element_zero, "memory": C.create_string_buffer(8), "owner": None}
        return super()._export(version, **fields | own | {"deleter": False})


class KeepsForEver(NullDeleter):
    """No export can be given back, and each array stays for ever."""

    KEPT: list[Any] = []

    def __init__(self, *arguments: Any, **fields: Any) -> None:
        super().__init__(*arguments, **fields)
        self.KEPT.append(self)


class GivesMemoryToTheNext(Right):
    """The memory of an array that is gone is that of the next one; its exports hold nothing."""

    FREE: list[Any] = []

    def _export(self, version: Any, **fields: Any) -> Any:
        return super()._export(version, **fields | {"owner": None})

    def __init__(self, shape: Any, dtype: Any = "float32", **fields: Any) -> None:
        if shape and shape[0] > 1000:
            return super().__init__(shape, dtype, **fields)
        block = self.FREE.pop() if self.FREE else (C.c_char * 4096)()
        C.memset(block, 0, 4096)
        return super().__init__(shape, dtype, **{"memory": block} | fields)

    def __del__(self) -> None:
        if C.sizeof(self.memory) == 4096:
            self.FREE.append(self.memory)


class DeviceRaises(Right):
    def __dlpack_device__(self) -> Any:
        raise RuntimeError("no device")


class StridesInBytes(Right):
    def _export(self, version: Any, **fields: Any) -> Any:
        if self.strides == caps.row_major(self.shape):
            size = caps.itemsize_of(self.dtype)
            fields |= {"strides": tuple(size * step for step in self.strides)}
        return super()._export(version, **fields)


class StridesByColumns(Right):
    """Row-major memory, and the strides of columns; only some ways tell that it is row-major."""

    def _export(self, version: Any, **fields: Any) -> Any:
        if self.strides == caps.row_major(self.shape):
            fields |= {"strides": caps.column_major(self.shape)}
        return super()._export(version, **fields)


class Cleared:
    """The memory is zero at first, so that the elements count up only where they were written."""

    def __init__(self, shape: Any, dtype: Any = "float32", **fields: Any) -> None:
        super().__init__(shape, dtype, **fields)
        C.memset(self.memory, 0, C.sizeof(self.memory))

    def nested(self, at: int = 0, axis: int = 0) -> Any:
        if axis == len(self.shape):
            size = caps.itemsize_of(self.dtype)
            raw = C.string_at(caps.address_of(self.memory) + at * size, size)
            return caps.decode(caps.dtype_tuple(self.dtype), raw)
        steps = caps.row_major(self.shape)
        return [self.nested(at + k * steps[axis], axis + 1) for k in range(self.shape[axis])]


class ListsRows(Cleared, StridesByColumns):
    def tolist(self) -> Any:
        return self.nested()


class IndexesRows(Cleared, StridesByColumns):
    def __getitem__(self, index: Any) -> Any:
        found = self.nested()
        for k in index:
            found = found[k]
        return found


class PicksRows(Cleared, StridesByColumns):
    """An index for each axis gives an array without dimensions, which is no number."""

    def __getitem__(self, index: Any) -> Any:
        at = sum(k * s for k, s in zip(index, caps.row_major(self.shape), strict=True))
        return Right((), self.dtype, memory=self.memory, start=at)


class ArraysOfRows(Cleared, StridesByColumns):
    def __array__(self) -> Any:
        size = math.prod(self.shape) * caps.itemsize_of(self.dtype)
        form = {"float32": "f", "int32": "i", "float64": "d"}[self.dtype]
        raw = bytearray(C.string_at(caps.address_of(self.memory), size))
        return memoryview(raw).cast(form, self.shape)


class SetsRows(ListsRows):
    """It says of each export that it may not be written."""

    def _versioned(self, flags: Any = None, **fields: Any) -> Any:
        return super()._versioned(caps.READ_ONLY, **fields)

    def __setitem__(self, index: Any, value: Any) -> None:
        at = sum(k * s for k, s in zip(index, caps.row_major(self.shape), strict=True))
        raw = caps.encode(self.dtype, value)
        C.memmove(caps.address_of(self.memory) + at * len(raw), raw, len(raw))


class KeepsQuiet(Cleared, StridesByColumns):
    """Nothing but its exports shows the elements."""


class FreesWithTheArray(Right):
    """What it exports dies with the object."""

    def _export(self, version: Any, **fields: Any) -> Any:
        return super()._export(version, **fields | {"owner": None})

    def __del__(self) -> None:
        caps.poison(self.memory)


class LosesCopies(Right):
    """The memory of a copy is freed at once: the next array has it."""

    LAST: list[Any] = []

    def _copied(self, version: Any, flags: int = caps.IS_COPIED) -> Any:
        block = caps.filled(self.shape, self.dtype)
        C.memmove(block, self.memory, C.sizeof(block) - 64)
        LosesCopies.LAST.append(block)
        fields = {"strides": caps.row_major(self.shape), "memory": block, "owner": None}
        return self._export(version, flags=flags if version else 0, **fields).capsule()

    def __init__(self, *arguments: Any, **fields: Any) -> None:
        for block in LosesCopies.LAST:
            caps.poison(block)
        LosesCopies.LAST.clear()
        super().__init__(*arguments, **fields)


class HoldsNothing(Right):
    """The memory of what it exports is the object's own, and goes with it: onnxruntime."""

    def _export(self, version: Any, **fields: Any) -> Any:
        own = {"data": self.element_zero, "memory": C.create_string_buffer(8), "owner": None}
        return super()._export(version, **fields | own)


class Camera:
    """Frames of 16 elements, whatever shape is asked for; they do not tell their shape."""

    def __init__(self, shape: Any, dtype: Any = "float32") -> None:
        self._frame = Right((16,), dtype)

    def __dlpack__(self, **asked: Any) -> Any:
        return self._frame.__dlpack__(**asked)

    def __dlpack_device__(self) -> Any:
        return 1, 0


class Packed(Right):
    """Eight bools in a byte."""

    def __init__(self, shape: Any, dtype: Any = "bool") -> None:
        super().__init__(shape, dtype, memory=(C.c_char * (math.prod(shape) // 8 + 1))())

    def _export(self, version: Any, **fields: Any) -> Any:
        return super()._export(version, **fields | {"dtype": (6, 1, 1)})


class FreesLate(Right):
    """Large memory that was given back goes when there are 128 MB of it, as a sanitizer does."""

    FREED: collections.deque[Any] = collections.deque(maxlen=128)

    def __del__(self) -> None:
        if C.sizeof(self.memory) > 8000:
            self.FREED.append(self.memory)


class FreesOnAThread(Right):
    """Large memory that was given back goes half a second later, on another thread."""

    FREED: list[Any] = []

    def __del__(self) -> None:
        if C.sizeof(self.memory) > 8000:
            self.FREED.append(self.memory)
            if len(self.FREED) == 1:
                threading.Timer(0.5, self.FREED.clear).start()


class WrongShape(Right):
    def _export(self, version: Any, **fields: Any) -> Any:
        shape = tuple(reversed(self.shape))
        return super()._export(
            version, **fields | {"shape": shape, "strides": caps.row_major(shape)}
        )


class BoolAsByte(Right):
    """bool as uint8: torch <= 1.9."""

    def _export(self, version: Any, **fields: Any) -> Any:
        return super()._export(version, **fields | {"dtype": "uint8"})


class NullStrides(Right):
    def __init__(self, *arguments: Any, **fields: Any) -> None:
        super().__init__(*arguments, **fields | {"null_strides": True})


class NullData(Right):
    """pyarrow 25's Tensor of a read-only array."""

    def _export(self, version: Any, **fields: Any) -> Any:
        return super()._export(version, **fields | {"data": None})


class OneFurther(Right):
    """A struct of DLPack 0.x begins at the second element."""

    def __init__(self, shape: Any = (2, 3), dtype: Any = "float32", **fields: Any) -> None:
        wide = {"memory": caps.filled((math.prod(shape) + 1,), dtype)}
        super().__init__(shape, dtype, **wide | fields)

    def _export(self, version: Any, **fields: Any) -> Any:
        return super()._export(version, **fields | ({} if version else {"start": 1}))


class NoStream(Right):
    TAKES = ("max_version", "dl_device", "copy")


class OnlyStream(Right):
    TAKES = ("stream",)


class MajorTwo(Right):
    def __init__(self, *arguments: Any, **fields: Any) -> None:
        super().__init__(*arguments, **fields | {"version": (2, 0)})


class VersionAsked(Right):
    """The struct of 1.x says whatever version was asked for."""

    def answer(self, max_version: Any = None, **asked: Any) -> Any:
        self.version = max_version or self.version
        return super().answer(max_version=max_version, **asked)


class CopiesNothing(Right):
    def answer(self, copy: Any = None, **asked: Any) -> Any:
        return super().answer(**asked)


class CopiesWithoutFlag(Right):
    """torch 2.9 to 2.15."""

    def _copied(self, version: Any, flags: int = 0) -> Any:
        return super()._copied(version, flags=0)


class AlwaysCopied(Right):
    def _versioned(self, flags: Any = None, **fields: Any) -> Any:
        return super()._versioned(caps.IS_COPIED, **fields)


class CopiesAlways(Right):
    def answer(self, max_version: Any = None, copy: Any = None, **asked: Any) -> Any:
        if copy is False:
            return self._copied((1, 3) if max_version else None)
        return super().answer(max_version=max_version, copy=copy, **asked)


class ExportsCopies(Right):
    """Each export is a copy of its own, whose memory is poisoned when it goes."""

    def answer(self, max_version: Any = None, copy: Any = None, **asked: Any) -> Any:
        if copy is False:
            raise BufferError("a copy is needed, and copy=False")
        return self._copied((1, 3) if max_version else None)


class CopiesWhateverIsAsked(Right):
    """Each export is a copy, for `copy=False` too."""

    def answer(self, max_version: Any = None, **asked: Any) -> Any:
        return self._copied((1, 3) if max_version else None)


class CopiesUnlessAsked(Right):
    """Each export is a copy, but for `copy=False`."""

    def answer(self, max_version: Any = None, copy: Any = None, **asked: Any) -> Any:
        version = (1, 3) if max_version else None
        return self._export(version).capsule() if copy is False else self._copied(version)


class ExportsOneCopy(ExportsCopies):
    """All exports that live at a time share a copy, which is made anew when the last has gone."""

    _copy: Any = None

    def _copied(self, version: Any, flags: int = 0) -> Any:
        array = self._copy and self._copy()
        if array is None:
            array = OwnCopy(self.shape, self.dtype, version=(1, 3))
            C.memset(array.memory, 0, C.sizeof(array.memory))
            self._copy = weakref.ref(array)
        return array._export(version).capsule()


class OwnCopy(Right):
    def __del__(self) -> None:
        caps.poison(self.memory)


class ValueErrorForNoCopy(Right):
    """What needs a copy is a ValueError: torch and CuPy."""

    def answer(self, copy: Any = None, **asked: Any) -> Any:
        if copy is False:
            raise ValueError("a copy is needed, and copy=False")
        return super().answer(copy=copy, **asked)


class BufferErrorForNoCopy(Right):
    """Each array needs a copy, and says so."""

    def answer(self, copy: Any = None, **asked: Any) -> Any:
        if copy is False:
            raise BufferError("a copy is needed, and copy=False")
        return super().answer(copy=copy, **asked)


class OneCopy(Right):
    """`copy=True` gives one and the same copy each time."""

    _copy: Any = None

    def _copied(self, version: Any, flags: int = caps.IS_COPIED) -> Any:
        self._copy = self._copy or Right(self.shape, self.dtype)
        return self._copy._export(version, flags=flags if version else 0).capsule()


class CopiesAreReadOnly(Right):
    """A copy keeps the flag of the array."""

    def _copied(self, version: Any, flags: int = caps.IS_COPIED) -> Any:
        return super()._copied(version, flags | (caps.READ_ONLY if self.readonly else 0))


class NeverWritten(CopiesAreReadOnly):
    """No array of the library may be written."""

    def __init__(self, shape: Any = (2, 3), dtype: Any = "float32", **fields: Any) -> None:
        super().__init__(shape, dtype, **fields | {"readonly": True})


class AnyDevice(Right):
    def check(self, **_: Any) -> None:
        pass


class WritableSays(Right):
    """Read-only memory without its flag."""

    def _versioned(self, flags: Any = None, **fields: Any) -> Any:
        return super()._versioned(0, **fields)


class NeverSaysWritable(Right):
    """Everything has the flag READ_ONLY, and the array may be written."""

    def _versioned(self, flags: Any = None, **fields: Any) -> Any:
        return super()._versioned(caps.READ_ONLY, **fields)

    def __setitem__(self, index: Any, value: Any) -> None:
        pass


class OldEmpties(OnlyStream):
    """DLPack 0.x alone, with data of an array without elements."""

    def _export(self, version: Any, **fields: Any) -> Any:
        return super()._export(version, **{"data": "memory"} | fields)


class OldCopies(OnlyStream):
    """DLPack 0.x alone, and each export is a copy."""

    def answer(self, **asked: Any) -> Any:
        return self._copied(None)


class AlwaysPadded(Right):
    """Everything has the flag of elements of less than a byte."""

    def _versioned(self, flags: Any = None, **fields: Any) -> Any:
        return super()._versioned(caps.SUBBYTE_PADDED, **fields)


class RefusesReadOnlyOtherwise(Right):
    """pyarrow 26: DLPack 0.x of memory that may not be written is a NotImplementedError."""

    def _legacy(self, **fields: Any) -> Any:
        if self.readonly:
            raise NotImplementedError("Cannot export readonly array")
        return super()._legacy(**fields)

    def answer(self, max_version: Any = None, **asked: Any) -> Any:
        if max_version is None and self.readonly and not asked.get("copy"):
            return self._legacy()
        return super().answer(max_version=max_version, **asked)


class ValueErrorForKeywords(Right):
    """array-api-strict with an `api_version` before 2023.12: the keywords are refused."""

    def __dlpack__(self, *arguments: Any, **asked: Any) -> Any:
        if {*asked} - {"stream"}:
            raise ValueError("these keywords need api_version 2023.12")
        return super().__dlpack__(*arguments, **asked)


class TableIsInt(Right):
    __dlpack_c_exchange_api__ = 1234


class TableOfTwo(Right):
    __dlpack_c_exchange_api__ = table((2, 0))


class TableWithoutStream(Right):
    __dlpack_c_exchange_api__ = table(current_work_stream=None)


class TableOfElsewhere(Right):
    """The table's export lies elsewhere than the method's; so does what is borrowed."""

    def table_export(self) -> Any:
        other = caps.filled(self.shape, self.dtype)
        return self._export((1, 3), memory=other)


class TableFrees(Right):
    """What the table exports dies with the object."""

    def table_export(self) -> Any:
        return self._export((1, 3), owner=None)

    def __del__(self) -> None:
        caps.poison(self.memory)


@_ToObject
def _copying(tensor: int, out: int) -> int:
    view = caps.View(tensor, caps.USED_VERSIONED)
    made = Right(view.shape, view.dtype)
    caps.call_deleter(tensor, caps.USED_VERSIONED, held=True)
    C.pythonapi.Py_IncRef(C.py_object(made))
    C.c_void_p.from_address(out).value = id(made)
    return 0


caps.keep_for_ever(_copying)


class TableCopies(Right):
    __dlpack_c_exchange_api__ = table(
        managed_tensor_to_py_object_no_sync=C.cast(_copying, C.c_void_p).value
    )


_Stream = C.PYFUNCTYPE(C.c_int, C.c_int32, C.c_int32, C.c_void_p)


@_Stream
def _no_stream(kind: int, index: int, out: int) -> int:
    return -1


caps.keep_for_ever(_no_stream, RAISES_FROM_BOOL)


class TableHasNoHost(Right):
    __dlpack_c_exchange_api__ = table(current_work_stream=C.cast(_no_stream, C.c_void_p).value)


@_Allocate
def _no_memory(prototype: int, out: int, context: int, set_error: int) -> int:
    return -1


@C.PYFUNCTYPE(C.c_int, C.c_void_p, C.c_void_p)
def _silent(array: int, out: int) -> int:
    return -1


caps.keep_for_ever(_no_memory, _silent)


class TableAllocatesNothing(Right):
    """The allocator fails, and does not say why."""

    __dlpack_c_exchange_api__ = table(managed_tensor_allocator=C.cast(_no_memory, C.c_void_p).value)


class TableFailsSilently(Right):
    """What is refused is refused by the table without an exception."""

    __dlpack_c_exchange_api__ = table(
        managed_tensor_from_py_object_no_sync=C.cast(_silent, C.c_void_p).value
    )

    def answer(self, **asked: Any) -> Any:
        raise BufferError("no such export")


class TableLosesBlocks(Right):
    """Each export by the table loses a block of memory."""

    def table_export(self) -> Any:
        C.CDLL(None).malloc(200)
        return super().table_export()


# ---- faults of older releases, which no MUST above has ---------------------------------------


class RefusesBool(Right):
    """torch 1.10 to 1.13, NumPy <= 1.24."""

    def _export(self, version: Any, **fields: Any) -> Any:
        if self.dtype == "bool":
            raise BufferError("Bool type is not supported by dlpack")
        return super()._export(version, **fields)


class NullDataOfReadOnly(P2LegacyOfReadonly):
    """pyarrow 21 to 25: a Tensor of a read-only NumPy array."""

    def _export(self, version: Any, **fields: Any) -> Any:
        return super()._export(version, **fields | ({"data": None} if self.readonly else {}))


class LosesReplacedMemory(Right):
    """torch 2.13: an export keeps the array, and not the memory that it has now."""

    def resize_(self, extent: int) -> None:
        caps.poison(self.memory)
        super().resize_(extent)

    def resize(self, extent: int) -> None:
        self.resize_(extent)

    def set_(self, other: Right) -> None:
        self.resize_(*other.shape)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "data" and isinstance(value, Right):
            self.set_(value)
        else:
            super().__setattr__(name, value)


class OneShot(Right):
    """JAX <= 0.2: the first export gives the buffer away."""

    def answer(self, **asked: Any) -> Any:
        if self.exports:
            raise RuntimeError("Cannot convert deleted buffer to DLPack tensor")
        return super().answer(**asked)


class ValueErrorForDevices(Right):
    """NumPy 2.1 to 2.3."""

    def check(self, dl_device: Any = None, **asked: Any) -> None:
        if dl_device not in (None, (1, 0)):
            raise ValueError("unsupported device requested")


class RefusesByRuntimeError(Right):
    """torch <= 2.8, for tensors that require a gradient."""

    def answer(self, **asked: Any) -> Any:
        raise RuntimeError("Can't export tensors that require gradient")


class KeepsWhatItRefuses(Right):
    """torch 1.13 to 2.9: the struct is made before the dtype is judged."""

    def answer(self, **asked: Any) -> Any:
        _made.append(self)
        raise BufferError("float8 types are not supported by dlpack")


class Pinned(Right):
    """torch: the method says kDLCUDAHost of pinned memory, the capsule kDLCPU."""

    DEVICE = (3, 0)


def named(told: tuple[int, int], written: tuple[int, int]) -> Producer:
    """Memory that the method and the capsule name differently."""

    class Named(Right):
        def __dlpack_device__(self) -> Any:
            return told

        def _export(self, version: Any, **fields: Any) -> Any:
            return super()._export(version, **fields | {"device": written})

    return wrong(Named)


def special() -> tuple[Any, list[Any]]:
    return Right((3,), "float32"), [0, -1, -2]


right = Producer(Right, read_only=lambda: Right(readonly=True), claims="2025.12")


def wrong(kind: Callable[..., Any], **options: Any) -> Producer:
    return Producer(kind, **{"claims": "2025.12"} | options)


#: The rule that is broken -> who breaks it.
WRONG: dict[str, Producer] = {
    "methods": wrong(lambda shape, dtype: NoMethods()),
    "device-pair": wrong(DeviceIsAList),
    "device-told": wrong(DeviceOfOthers),
    "device-id": wrong(DeviceOne),
    "capsule-name": wrong(OtherName),
    "fresh-capsule": wrong(SameCapsule),
    "destructor-frees": wrong(NoDestructor),
    "deleter-frees": wrong(FreesNothing),
    "destructor-spares": wrong(DeletesUsed),
    "deleter-without-gil": wrong(NeedsTheGil),
    "keeps-memory": wrong(FreesWithTheArray),
    "shape": wrong(WrongShape),
    "dtype": wrong(BoolAsByte),
    "strides-present": wrong(NullStrides),
    "data-present": wrong(NullData),
    "values": wrong(OneFurther),
    "special-values": wrong(Right, special={"negated": special}),
    "stream-none": wrong(NoStream),
    "keywords": wrong(OnlyStream),
    "known-major": wrong(MajorTwo),
    "copy-true": wrong(CopiesNothing),
    "copied-flag": wrong(CopiesWithoutFlag),
    "copied-falsely": wrong(AlwaysCopied),
    "copy-false": wrong(CopiesAlways),
    "copy-false-error": wrong(ValueErrorForNoCopy),
    "other-device": wrong(AnyDevice),
    "read-only-flag": wrong(WritableSays, read_only=lambda: WritableSays(readonly=True)),
    "not-exported": wrong(Right, refused={"sparse": Right}),
    "table-capsule": wrong(TableIsInt),
    "table-version": wrong(TableOfTwo),
    "table-functions": wrong(TableWithoutStream),
    "table-export": wrong(TableOfElsewhere),
    "table-deleter": wrong(TableFrees),
    "table-borrow": wrong(TableOfElsewhere),
    "table-import": wrong(TableCopies),
    "table-stream": wrong(TableHasNoHost),
    "table-frees": wrong(TableLosesBlocks),
    "table-allocator": wrong(TableAllocatesNothing),
    "table-failure": wrong(Right, refused={"sparse": TableFailsSilently}),
}
null_data_of_read_only = wrong(
    NullDataOfReadOnly, read_only=lambda: NullDataOfReadOnly(readonly=True)
)
refuses_by_runtime_error = wrong(Right, refused={"requires grad": RefusesByRuntimeError})
keeps_what_it_refuses = wrong(Right, refused={"float8": KeepsWhatItRefuses})
legacy_of_read_only = wrong(P2LegacyOfReadonly, read_only=lambda: P2LegacyOfReadonly(readonly=True))
#: These end the process, so they run in one of their own, under this name.
CRASHES = {"deleter-without-gil": "crashing"}
crashing = WRONG["deleter-without-gil"]
camera = wrong(Camera)
packed = wrong(Packed, dtypes=("bool",))
holds_nothing = wrong(HoldsNothing)
refuses_read_only_otherwise = wrong(
    RefusesReadOnlyOtherwise, read_only=lambda: RefusesReadOnlyOtherwise(readonly=True)
)
copies_without_flag = WRONG["copied-flag"]
refuses_nothing = WRONG["not-exported"]
