"""Faults that were planted to see whether the kit finds them: arrays over NumPy's, which index and
write as real ones do, each with one fault; and consumers with one fault each.

``planted.toml`` says of each fault what is wrong, which check finds it, and at which level.
"""

from __future__ import annotations

import ctypes as C
import functools
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dlshim_testing.doubles import capsules as caps
from dlshim_testing.drivers import building
from dlshim_testing.partner import Consumer, Producer
from kit import wrong_consumers, wrong_producers


class Of:
    """An array that forwards everything to NumPy's; a fault overrides `give`."""

    def __init__(self, shape: Any, dtype: Any = "float32", array: Any = None) -> None:
        self.array = np.zeros(shape, dtype) if array is None else array

    def __getattr__(self, name: str) -> Any:
        if name == "array" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.array, name)

    @property
    def shape(self) -> Any:
        return self.array.shape

    @property
    def T(self) -> Any:
        return type(self)((), array=self.array.T)

    def __getitem__(self, index: Any) -> Any:
        found = self.array[index]
        return type(self)((), array=found) if isinstance(found, np.ndarray) else found

    def __setitem__(self, index: Any, value: Any) -> None:
        self.array[index] = value

    device = "cpu"

    def __dlpack_device__(self) -> Any:
        return (1, 0)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Any = None,
        dl_device: Any = None,
        copy: Any = None,
    ) -> Any:
        asked = {"max_version": max_version, "dl_device": dl_device, "copy": copy, "stream": stream}
        return self.give(**asked)

    def give(self, **asked: Any) -> Any:
        try:
            return self.array.__dlpack__(**asked)
        except ValueError as error:  # so NumPy before 2.4 refuses a device
            raise BufferError(str(error)) from error


def of(capsule: Any) -> tuple[Any, Any]:
    """The managed tensor and the tensor of a capsule, to be changed in place."""
    versioned = caps.name_of(capsule) == caps.VERSIONED
    kind = caps.ManagedTensorVersioned if versioned else caps.ManagedTensor
    managed = kind.from_address(caps.pointer_of(capsule))
    return managed, managed.dl_tensor


def extents(address: int, count: int) -> Any:
    return (C.c_int64 * count).from_address(address)


def when_freed(capsule: Any, do: Callable[[Callable[[], None]], None]) -> Any:
    """Has the capsule's deleter call ``do(original)`` instead; it holds the lock of Python."""
    managed, _ = of(capsule)
    original, address = managed.deleter, C.addressof(managed)

    def free() -> None:
        C.PYFUNCTYPE(None, C.c_void_p)(original)(address)

    @C.CFUNCTYPE(None, C.c_void_p)
    def deleter(_: int) -> None:
        do(free)

    caps.keep_for_ever(deleter)
    managed.deleter = C.cast(deleter, C.c_void_p).value
    return capsule


# ---- deleters and destructors that Python cannot have: it takes its lock, and loses exceptions -

SOURCE = """
void Py_DecRef(void *);
void *PyUnicode_FromString(const char *);
void PyErr_Clear(void);
void PyErr_SetString(void *, const char *);
extern void *PyExc_ValueError;
int PyCapsule_IsValid(void *, const char *);
char *PyCapsule_GetPointer(void *, const char *);
void *PyCapsule_GetContext(void *);

/* manager_ctx lies behind the DLTensor of a legacy struct, and behind the version of another. */
void drop_legacy(char *tensor) { Py_DecRef(*(void **)(tensor + 48)); }
void drop_versioned(char *tensor) { Py_DecRef(*(void **)(tensor + 8)); }
void make_text(void *tensor) { (void)tensor; Py_DecRef(PyUnicode_FromString("given back")); }

/* A deleter, and a destructor, that clear the exception that is on its way. */
void clears(void *tensor) { (void)tensor; PyErr_Clear(); }
void clears_and_destroys(void *capsule) {
    void (*own)(void *) = (void (*)(void *))PyCapsule_GetContext(capsule);
    PyErr_Clear();
    own(capsule);
}

/* A deleter that leaves an exception behind. */
void leaves_an_error(void *tensor) {
    (void)tensor;
    PyErr_SetString(PyExc_ValueError, "left behind");
}

static void call_deleter(void *capsule, const char *name, int offset) {
    if (PyCapsule_IsValid(capsule, name)) {
        char *tensor = PyCapsule_GetPointer(capsule, name);
        (*(void (**)(void *))(tensor + offset))(tensor);
    }
}
/* A destructor that saves no exception. */
void destroys(void *capsule) {
    call_deleter(capsule, "dltensor", 56);
    call_deleter(capsule, "dltensor_versioned", 16);
}
"""


@functools.cache
def library() -> Any:
    folder = Path(tempfile.mkdtemp())
    source = folder / "planted.c"
    source.write_text(SOURCE)
    command = [
        building.compiler(),
        "-shared",
        "-fPIC",
        "-o",
        str(folder / "planted.so"),
        str(source),
    ]
    subprocess.run(command, check=True)
    return C.CDLL(str(folder / "planted.so"))


class DropsWithoutTheLock(wrong_producers.Right):
    """Its deleter is a Py_DECREF alone."""

    def function(self, version: Any) -> Any:
        return library().drop_versioned if version else library().drop_legacy

    def _export(self, version: Any, **fields: Any) -> Any:
        made = super()._export(version, **fields)
        owner = bytearray(8)
        C.pythonapi.Py_IncRef(C.py_object(owner))
        made.struct.manager_ctx = id(owner)
        made.struct.deleter = C.cast(self.function(version), C.c_void_p).value
        return made


class MakesTextWithoutTheLock(DropsWithoutTheLock):
    """Its deleter makes a str, and drops it."""

    def function(self, version: Any) -> Any:
        return library().make_text


_set_context = caps._api("PyCapsule_SetContext", C.c_int, C.py_object, C.c_void_p)


class DestructorClears(Of):
    """The capsule's destructor clears the exception that is on its way."""

    def give(self, **asked: Any) -> Any:
        capsule = super().give(**asked)
        _set_context(capsule, caps.destructor_of(capsule))
        caps._set_destructor(capsule, C.cast(library().clears_and_destroys, C.c_void_p))
        return capsule


class DeleterClears(Of):
    """The deleter clears the exception that is on its way."""

    def give(self, **asked: Any) -> Any:
        capsule = super().give(**asked)
        of(capsule)[0].deleter = C.cast(library().clears, C.c_void_p).value
        caps._set_destructor(capsule, C.cast(library().destroys, C.c_void_p))
        return capsule


# ---- views -------------------------------------------------------------------------------------


class ExportsACachedCopy(Of):
    """What is not row-major is exported from a copy that is kept."""

    _kept: Any = None

    def give(self, **asked: Any) -> Any:
        if self.array.flags.c_contiguous:
            return super().give(**asked)
        if self._kept is None:
            self._kept = np.ascontiguousarray(self.array)
        return self._kept.__dlpack__(**asked)


class MovesItself(Of):
    """An export gives a view row-major memory of its own, in place."""

    def give(self, **asked: Any) -> Any:
        self.array = np.ascontiguousarray(self.array)
        return super().give(**asked)


class CutsDimensions(Of):
    """What is behind the fourth extent is cut off."""

    def give(self, **asked: Any) -> Any:
        capsule = super().give(**asked)
        _, tensor = of(capsule)
        tensor.ndim = min(tensor.ndim, 4)
        return capsule


class ReversesDimensions(Of):
    """Above four dimensions the extents stand in the other order."""

    def give(self, **asked: Any) -> Any:
        capsule = super().give(**asked)
        _, tensor = of(capsule)
        if tensor.ndim > 4:
            told = extents(tensor.shape, tensor.ndim)
            told[:] = list(told)[::-1]
        return capsule


class StrideOfOne(Of):
    """One column of a wider array has the stride of a row-major array."""

    def give(self, **asked: Any) -> Any:
        capsule = super().give(**asked)
        _, tensor = of(capsule)
        if tensor.ndim == 2 and self.array.shape[1] == 1 and tensor.strides:
            extents(tensor.strides, 2)[0] = 1
        return capsule


class DeviceOfRowsAlone(Of):
    """`__dlpack_device__` fails of what is not row-major."""

    def __dlpack_device__(self) -> Any:
        if not self.array.flags.c_contiguous:
            raise ValueError("not contiguous")
        return (1, 0)


# ---- refusals ----------------------------------------------------------------------------------


class RefusesEmpty(Of):
    def give(self, **asked: Any) -> Any:
        if not self.array.size:
            raise RuntimeError("the array is empty")
        return super().give(**asked)


class RefusesViews(Of):
    def give(self, **asked: Any) -> Any:
        if not self.array.flags.c_contiguous:
            raise RuntimeError("the array is not contiguous")
        return super().give(**asked)


class RefusesScalars(Of):
    def give(self, **asked: Any) -> Any:
        if not self.array.ndim:
            raise TypeError("the array has no dimensions")
        return super().give(**asked)


class PlainDevicesAlone(Of):
    """`dl_device` is compared by its text: an enum, as the standard has it, is refused."""

    def give(self, dl_device: Any = None, **asked: Any) -> Any:
        if dl_device is not None and str(dl_device) != "(1, 0)":
            raise BufferError(f"no device {dl_device}")
        return super().give(dl_device=dl_device, **asked)


# ---- what stays, and what goes too early -------------------------------------------------------

KEPT: list[Any] = []


class KeepsCopies(Of):
    """What `copy=True` gives is never freed."""

    def give(self, copy: Any = None, **asked: Any) -> Any:
        if not copy:
            return super().give(copy=copy, **asked)
        array = self.array.copy()
        KEPT.append(array)
        capsule = array.__dlpack__(**asked)
        if caps.name_of(capsule) == caps.VERSIONED:
            of(capsule)[0].flags |= caps.IS_COPIED
        return capsule


class KeepsWhatHasAnotherDevice(Of):
    """Each export that is refused for its `dl_device` keeps the array."""

    def give(self, dl_device: Any = None, **asked: Any) -> Any:
        if dl_device is not None and tuple(dl_device) != (1, 0):
            KEPT.append(self.array)
            raise BufferError(f"no device {dl_device}")
        return super().give(dl_device=dl_device, **asked)


class KeepsStructs(Of):
    """The array goes with its deleter, and a block beside the struct stays for ever."""

    def give(self, **asked: Any) -> Any:
        C.CDLL(None).malloc(80)
        return super().give(**asked)


class OneOwnerForAll(wrong_producers.Right):
    """All exports of an array share one owner, which the first deleter drops."""

    def __init__(self, *arguments: Any, **fields: Any) -> None:
        super().__init__(*arguments, **fields)
        self._state = {"array": True, "dropped": False}

    def _export(self, version: Any, **fields: Any) -> Any:
        memory, state = self.memory, self._state

        def drop() -> None:
            state["dropped"] = True
            if not state["array"]:
                caps.poison(memory)

        return super()._export(version, **{"owner": None, "on_delete": drop} | fields)

    def __del__(self) -> None:
        self._state["array"] = False
        if self._state["dropped"]:
            caps.poison(self.memory)


class FieldsDieWithTheArray(wrong_producers.Right):
    """Shape and strides of a struct are the array's own."""

    def __init__(self, *arguments: Any, **fields: Any) -> None:
        super().__init__(*arguments, **fields)
        self._fields: list[Any] = []

    def _export(self, version: Any, **fields: Any) -> Any:
        made = super()._export(version, **fields)
        made.owner = None
        own = (C.c_int64 * 8)(*made.shape)
        self._fields.append(own)
        made.struct.dl_tensor.shape = C.addressof(own)
        made._kept = own
        return made

    def __del__(self) -> None:
        for own in self._fields:
            caps.poison(own)


class OneShapeForAll(Of):
    """The extents of all structs are one block of memory."""

    BLOCK = (C.c_int64 * 64)()

    def give(self, **asked: Any) -> Any:
        capsule = super().give(**asked)
        _, tensor = of(capsule)
        self.BLOCK[: tensor.ndim] = list(self.array.shape)
        tensor.shape = C.addressof(self.BLOCK)
        return capsule


class ShortExtents(Of):
    """Extents have 32 bits."""

    def give(self, **asked: Any) -> Any:
        capsule = super().give(**asked)
        _, tensor = of(capsule)
        told = extents(tensor.shape, tensor.ndim)
        told[:] = [extent & 0xFFFFFFFF for extent in told]
        return capsule


class CopyOrDevice(Of):
    """Where the array's own device is asked for, `copy` is not looked at."""

    def give(self, dl_device: Any = None, copy: Any = None, **asked: Any) -> Any:
        own = dl_device is not None and tuple(dl_device) == (1, 0)
        return super().give(dl_device=dl_device, copy=None if own else copy, **asked)


class CopiesToADevice(Of):
    """Where the array's own device is asked for, the export is a copy, with `copy=False` too."""

    def give(self, dl_device: Any = None, copy: Any = None, **asked: Any) -> Any:
        own = dl_device is not None and tuple(dl_device) == (1, 0)
        return super().give(dl_device=dl_device, copy=True if own else copy, **asked)


class FreezesItself(Of):
    """An array that was exported may not be written any more."""

    frozen = False

    def give(self, **asked: Any) -> Any:
        capsule = super().give(**asked)
        self.frozen = True
        return capsule

    @property
    def flags(self) -> Any:
        return None

    def __setitem__(self, index: Any, value: Any) -> None:
        if self.frozen:
            raise ValueError("the array was exported")
        super().__setitem__(index, value)


# ---- consumers ---------------------------------------------------------------------------------


class KeepsCopiesOfOthers(wrong_consumers.Right):
    """With `copy=True` the producer's memory is never given back."""

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        self.copies = bool(copy)
        return super().__call__(x, device=device, copy=copy)

    def take(self, capsule: Any) -> Any:
        imported = caps.take(capsule)
        if self.copies:
            imported.forget()
        return imported


class KeepsWhatTheCapsuleRefuses(wrong_consumers.Right):
    """A device that the method tells is refused before the export, another one without a word to
    the deleter."""

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        if hasattr(x, "__dlpack_device__") and x.__dlpack_device__()[0] != 1:
            raise BufferError("no such device")
        return super().__call__(x, device=device, copy=copy)

    def judge(self, view: caps.View) -> None:
        if view.device[0] != 1:
            caps.rename(self.capsule)
        super().judge(view)

    def look(self, capsule: Any) -> caps.View:
        self.capsule = capsule
        return super().look(capsule)


class FoldsTheOffset(wrong_consumers.Right):
    """`byte_offset` of the producer's own struct is added to its data."""

    def look(self, capsule: Any) -> caps.View:
        _, tensor = of(capsule) if caps.look(capsule).version != (2, 0) else (None, None)
        if tensor is not None and tensor.byte_offset:
            tensor.data += tensor.byte_offset
            tensor.byte_offset = 0
        return super().look(capsule)


class AnyDeviceName(wrong_consumers.Right):
    """`device=` is not looked at."""

    def known_device(self, device: Any) -> None:
        pass


class ShortImports(wrong_consumers.Right):
    """Extents have 32 bits."""

    def look(self, capsule: Any) -> caps.View:
        view = super().look(capsule)
        view.shape = tuple(extent & 0xFFFFFFFF for extent in view.shape)
        return view


class Sliced(wrong_consumers.Taken):
    """An import that gives views of itself."""

    holds = True

    def __getitem__(self, index: slice) -> Any:
        start, _, step = index.indices(self.view.shape[0])
        view = caps.View(self.view.address, self.view.name)
        view.shape = (len(range(*index.indices(self.view.shape[0]))), *view.shape[1:])
        strides = view.strides or caps.row_major(view.shape)
        view.data += start * strides[0] * caps.itemsize_of(view.dtype)
        view.strides = (strides[0] * step, *strides[1:])
        return Sliced(self.held if self.holds else None, view)


class Slices(wrong_consumers.Right):
    KIND: Any = Sliced

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        made = super().__call__(x, device=device, copy=copy)
        return self.KIND(made.held, made.view, read_only=made.read_only)


class LooseSlice(Sliced):
    holds = False


class SlicesHoldNothing(Slices):
    """A view of an import does not keep its memory."""

    KIND = LooseSlice


class LooseExport(wrong_consumers.Taken):
    def __dlpack__(self, *, max_version: Any = None) -> Any:
        view = self.view
        return caps.make(
            view.shape, view.dtype, version=(1, 3) if max_version else None, strides=view.strides,
            data=view.element_zero, memory=C.create_string_buffer(8),
        )  # fmt: skip


class ExportsHoldNothing(Slices):
    """What was imported and is exported again does not keep its memory."""

    KIND = LooseExport


class KeepsTheProducer(wrong_consumers.Right):
    """The object that it was given stays for ever."""

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        KEPT.append(x)
        return super().__call__(x, device=device, copy=copy)


def producer(kind: Any, claims: str = "2025.12") -> Producer:
    """A target of a class; a target stays what it is."""
    return kind if isinstance(kind, Producer) else Producer(kind, claims=claims)


def consumer(kind: Any, claims: str = "2025.12") -> Consumer:
    return kind if isinstance(kind, Consumer) else Consumer(kind(), claims=claims)


drops_without_the_lock = producer(DropsWithoutTheLock)
makes_text_without_the_lock = producer(MakesTextWithoutTheLock)
right = producer(Of)
slices = consumer(Slices)
