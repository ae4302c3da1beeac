"""Doubles with faults that the checks let through when more than a hundred new ones were put to
them.
``planted.toml`` says of each what is wrong, and which check finds it.
"""

from __future__ import annotations

import ctypes as C
import threading
from typing import Any

import numpy as np

from dlshim_testing.doubles import capsules as caps
from dlshim_testing.partner import Producer
from kit import wrong_consumers, wrong_producers
from kit.planted import KEPT, ExportsACachedCopy, Of, when_freed

# ---- producers ---------------------------------------------------------------------------------


class FreesOnItsThread(Of):
    """The deleter frees nothing on another thread than the one of the export."""

    def give(self, **asked: Any) -> Any:
        own = threading.get_ident()

        def free(original: Any) -> None:
            if threading.get_ident() == own:
                original()

        return when_freed(super().give(**asked), free)


class CopiesWhatIsLocked(Of):
    """With `copy=False` an array that may not be written is copied."""

    def give(self, copy: Any = None, **asked: Any) -> Any:
        if copy is False and not self.array.flags.writeable:
            return self.array.copy().__dlpack__(**asked)
        return super().give(copy=copy, **asked)


class DeviceIsAFloat(Of):
    def __dlpack_device__(self) -> Any:
        return (1.0, 0)


class CopiesRowsOnly(Of):
    """`copy=True` of what is not row-major is a TypeError."""

    def give(self, copy: Any = None, **asked: Any) -> Any:
        if copy and not self.array.flags.c_contiguous:
            raise TypeError("the array is not contiguous")
        return super().give(copy=copy, **asked)


class KeepsARefusal(Of):
    """Each refusal of DLPack 0.x for memory that may not be written leaves a block behind."""

    def give(self, **asked: Any) -> Any:
        try:
            return super().give(**asked)
        except BufferError:
            KEPT.append(bytearray(500))
            raise


class CachedCopyWithoutAssignment(ExportsACachedCopy):
    """The same fault in a library whose arrays have no `array[i, j] = x`."""

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError("the array does not support item assignment")


class GivesAnAddress(Of):
    """`__dlpack__` gives the address of the struct as a number."""

    def give(self, **asked: Any) -> Any:
        KEPT.append(capsule := super().give(**asked))
        return caps.pointer_of(capsule)


class TableDropsReadOnly(wrong_producers.Right):
    """The C table's exports have no flags."""

    def table_export(self) -> Any:
        return self._export((1, 3), flags=0)


table_drops_read_only = Producer(
    TableDropsReadOnly, claims="2025.12", read_only=lambda: TableDropsReadOnly(readonly=True)
)


class Copies(Of):
    """No fault: each export is a copy, and says so."""

    def give(self, copy: Any = None, **asked: Any) -> Any:
        if copy is False:
            raise BufferError("each export is a copy")
        return np.array(self.array).__dlpack__(copy=True, **asked)


# ---- consumers ---------------------------------------------------------------------------------


class ShortOffset(wrong_consumers.Right):
    """byte_offset has 16 bits."""

    def look(self, capsule: Any) -> caps.View:
        view = super().look(capsule)
        view.byte_offset &= 0xFFFF
        return view


class AsksTwice(wrong_consumers.Right):
    """Of two capsules the first is renamed, and never given back."""

    def ask(self, x: Any, copy: Any) -> Any:
        caps.rename(super().ask(x, copy))
        return super().ask(x, copy)


class WritesBehind(wrong_consumers.Right):
    """A byte is written behind the last element."""

    def judge(self, view: caps.View) -> None:
        super().judge(view)
        if view.shape == (5,):
            C.memset(view.element_zero + 5 * caps.itemsize_of(view.dtype), 85, 1)


class PackedAsBytes(wrong_consumers.Right):
    """Elements of less than a byte, and of float8, are taken for bytes."""

    def judge(self, view: caps.View) -> None:
        if view.dtype[1] < 8 or 7 <= view.dtype[0] <= 14:
            view.dtype = (1, 8, 1)
        super().judge(view)


class NoScalars(wrong_consumers.Right):
    def judge(self, view: caps.View) -> None:
        if not view.shape:
            raise BufferError("an array without dimensions")
        super().judge(view)


class WritesUncopied(wrong_consumers.Right):
    """With `copy=False` the flag READ_ONLY is not looked at."""

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        taken = super().__call__(x, device=device, copy=copy)
        taken.read_only = taken.read_only and copy is not False
        return taken


class HidesTheFirstError(wrong_consumers.Right):
    """After whatever error the producer is asked again without keywords."""

    def ask(self, x: Any, copy: Any) -> Any:
        try:
            return super().ask(x, copy)
        except Exception:
            return x.__dlpack__()


class KeepsCopyFalse(wrong_consumers.Right):
    """The producer is not told `copy=False`."""

    def ask(self, x: Any, copy: Any) -> Any:
        return super().ask(x, copy or None)


class AnyAnswer(wrong_consumers.Right):
    """What is no capsule becomes an array of zeros."""

    def ask(self, x: Any, copy: Any) -> Any:
        answer = super().ask(x, copy)
        return answer if isinstance(answer, caps.Capsule) else caps.make((2, 3))


class KeepsTheCapsule(wrong_consumers.Right):
    """The capsule stays for ever, renamed."""

    def take(self, capsule: Any) -> Any:
        KEPT.append(capsule)
        return super().take(capsule)


class CopiesAreLocked(wrong_consumers.Right):
    """Its own copy of what may not be written may not be written."""

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        taken = super().__call__(x, device=device, copy=copy)
        taken.read_only = self.locked
        return taken

    def ask(self, x: Any, copy: Any) -> Any:
        try:
            return x.__dlpack__(max_version=(1, 0), copy=copy)
        except TypeError:
            return x.__dlpack__(max_version=(1, 0))

    def judge(self, view: caps.View) -> None:
        self.locked = view.readonly
        super().judge(view)


class TakesMajorZero(wrong_consumers.Right):
    def judge_version(self, major: int) -> None:
        if major > 1:
            raise BufferError(f"DLPack {major} is not known")
