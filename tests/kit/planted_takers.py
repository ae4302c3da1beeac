"""Consumers, each of which takes one thing wrongly.  ``planted.toml`` says of each what is wrong,
and which check finds it.
"""

from __future__ import annotations

import ctypes as C
import math
from collections.abc import Callable
from typing import Any

from dlshim_testing.doubles import capsules as caps
from dlshim_testing.partner import Consumer
from kit.planted import KEPT, of
from kit.wrong_consumers import Right, Taken

# ---- what is read ------------------------------------------------------------------------------


def reading(change: Callable[[caps.View], None]) -> type[Right]:
    """A consumer that takes what it read for something else: ``change(view)``."""

    class Changed(Right):
        def look(self, capsule: Any) -> caps.View:
            view = super().look(capsule)
            if view.version is None or view.version[0] == 1:
                change(view)
            return view

    Changed.__name__ = change.__name__
    return Changed


def strides_of(view: caps.View) -> tuple[int, ...]:
    return caps.row_major(view.shape) if view.strides is None else view.strides


@reading
def strides_in_bytes(view: caps.View) -> None:
    size = caps.itemsize_of(view.dtype)
    if view.strides is not None:
        view.strides = tuple(step // size for step in view.strides)


@reading
def positive_strides(view: caps.View) -> None:
    view.strides = tuple(abs(step) for step in strides_of(view))


@reading
def one_for_zero(view: caps.View) -> None:
    view.strides = tuple(step or 1 for step in strides_of(view))


@reading
def last_stride_of_one(view: caps.View) -> None:
    view.strides = (*strides_of(view)[:-1], 1) if view.shape else ()


@reading
def short_strides(view: caps.View) -> None:
    """Strides have 16 bits."""
    view.strides = tuple((step + 2**15) % 2**16 - 2**15 for step in strides_of(view))


@reading
def offset_in_elements(view: caps.View) -> None:
    view.byte_offset *= caps.itemsize_of(view.dtype)


@reading
def offset_twice(view: caps.View) -> None:
    view.byte_offset *= 2


@reading
def scalars_are_vectors(view: caps.View) -> None:
    if not view.shape:
        view.shape, view.strides = (1,), (1,)


@reading
def six_dimensions(view: caps.View) -> None:
    view.strides = strides_of(view)[:6]
    view.shape = view.shape[:6]


@reading
def extents_of_one_go(view: caps.View) -> None:
    kept = [k for k, extent in enumerate(view.shape) if extent != 1]
    view.strides = tuple(strides_of(view)[k] for k in kept)
    view.shape = tuple(view.shape[k] for k in kept)


@reading
def flat_empties(view: caps.View) -> None:
    if 0 in view.shape:
        view.shape, view.strides = (0,), (1,)


@reading
def reversed_shape(view: caps.View) -> None:
    view.strides, view.shape = strides_of(view)[::-1], view.shape[::-1]


@reading
def bfloat16_is_half(view: caps.View) -> None:
    if view.dtype == caps.DTYPES["bfloat16"]:
        view.dtype = caps.DTYPES["float16"]


@reading
def wide_integers_are_floats(view: caps.View) -> None:
    if view.dtype[0] < 2 and view.dtype[1] >= 32:
        view.dtype = (2, *view.dtype[1:])


@reading
def signed(view: caps.View) -> None:
    if view.dtype[0] == 1:
        view.dtype = (0, *view.dtype[1:])


@reading
def bool_is_a_byte(view: caps.View) -> None:
    if view.dtype[0] == 6:
        view.dtype = (1, 8, 1)


@reading
def handles_are_integers(view: caps.View) -> None:
    if view.dtype[0] == 3:
        view.dtype = (0, *view.dtype[1:])


@reading
def parts_of_complex(view: caps.View) -> None:
    """A complex number is its real part."""
    if view.dtype[0] == 5:
        view.dtype = (2, view.dtype[1] // 2, 1)
        view.strides = tuple(2 * step for step in strides_of(view))


@reading
def any_device(view: caps.View) -> None:
    view.device = (1, 0)


# ---- what is refused ---------------------------------------------------------------------------


def refusing(error: Exception, when: Callable[[caps.View], bool]) -> type[Right]:
    """A consumer that raises this error of what it could take."""

    class Refuses(Right):
        def judge(self, view: caps.View) -> None:
            if when(view):
                raise error
            super().judge(view)

    return Refuses


refuses_null_strides = refusing(TypeError("no strides"), lambda v: v.strides is None)
refuses_many_dimensions = refusing(RuntimeError("too many"), lambda v: len(v.shape) > 6)
refuses_empty = refusing(ZeroDivisionError("no elements"), lambda v: 0 in v.shape)
refuses_empty_with_data = refusing(ValueError("data"), lambda v: 0 in v.shape and v.data != 0)
refuses_read_only = refusing(BufferError("read-only"), lambda v: v.readonly)
refuses_newer_minors = refusing(BufferError("newer"), lambda v: (v.version or (1, 0))[1] > 3)
refuses_versioned = refusing(BufferError("DLPack 1.x"), lambda v: v.version is not None)
refuses_copies = refusing(BufferError("a copy"), lambda v: v.copied)
refuses_by_runtime_error = refusing(RuntimeError("no dtype"), lambda v: v.dtype[0] > 6)
refuses_bool = refusing(BufferError("no bool"), lambda v: v.dtype[0] == 6)


class AnyErrorForDevices(Right):
    """Another device is an AttributeError."""

    def judge(self, view: caps.View) -> None:
        if view.device[0] != 1:
            raise AttributeError("device")
        super().judge(view)


# ---- how it asks -------------------------------------------------------------------------------


class NeverVersioned(Right):
    """DLPack 1.x is never asked for."""

    def ask(self, x: Any, copy: Any) -> Any:
        return x.__dlpack__()


class NoFallback(Right):
    """A producer that does not know `max_version` is not asked again."""

    def ask(self, x: Any, copy: Any) -> Any:
        return x.__dlpack__(max_version=(1, 0), **({} if copy is None else {"copy": copy}))


class VersionIsANumber(Right):
    def ask(self, x: Any, copy: Any) -> Any:
        try:
            return x.__dlpack__(max_version=1, **({} if copy is None else {"copy": copy}))
        except TypeError:
            return x.__dlpack__()


class InventsAKeyword(Right):
    def ask(self, x: Any, copy: Any) -> Any:
        return x.__dlpack__(max_version=(1, 0), read_only=True)


class AllKeywords(Right):
    """All four keywords are always passed."""

    def ask(self, x: Any, copy: Any) -> Any:
        return x.__dlpack__(stream=None, max_version=(1, 0), dl_device=None, copy=copy)


class StreamOfOne(Right):
    """`stream=1` is passed for memory of the host."""

    def ask(self, x: Any, copy: Any) -> Any:
        try:
            return x.__dlpack__(stream=1, max_version=(1, 0))
        except TypeError:
            return x.__dlpack__(stream=1)


class AsksForCopies(Right):
    """`copy=None` asks the producer for a copy."""

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        return super().__call__(x, device=device, copy=True if copy is None else copy)


class TypeErrorForNoMethods(Right):
    """What has no `__dlpack__` is a TypeError."""

    def ask(self, x: Any, copy: Any) -> Any:
        if not hasattr(x, "__dlpack__"):
            raise TypeError("no __dlpack__")
        return super().ask(x, copy)


class ZerosForErrors(Right):
    """An error of the producer becomes an array without elements."""

    def ask(self, x: Any, copy: Any) -> Any:
        try:
            return super().ask(x, copy)
        except Exception:
            return caps.make((0,))


class NoDeviceKeyword(Right):
    def __call__(self, x: Any, *, copy: Any = None) -> Any:  # type: ignore[override]
        return super().__call__(x, copy=copy)


class NoCopyKeyword(Right):
    def __call__(self, x: Any, *, device: Any = None) -> Any:  # type: ignore[override]
        return super().__call__(x, device=device)


# ---- memory, and who gives it back -------------------------------------------------------------


class WritesFirst(Right):
    """The first byte of what was taken is written."""

    def take(self, capsule: Any) -> Any:
        imported = super().take(capsule)
        if imported.view.data and 0 not in imported.view.shape:
            C.memset(imported.view.element_zero, 0x7F, 1)
        return imported


class NeverReadOnly(Right):
    """READ_ONLY is not looked at."""

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        taken = super().__call__(x, device=device, copy=copy)
        taken.read_only = False
        return taken


def keeping(when: Callable[[caps.View], bool]) -> type[Right]:
    """A consumer that never gives back what is so."""

    class Keeps(Right):
        def take(self, capsule: Any) -> Any:
            imported = super().take(capsule)
            if when(imported.view):
                imported.forget()
            return imported

    return Keeps


keeps_empty = keeping(lambda view: 0 in view.shape)
keeps_scalars = keeping(lambda view: not view.shape)
keeps_read_only = keeping(lambda view: view.readonly)
keeps_legacy = keeping(lambda view: view.version is None)


class KeepsOtherMajors(Right):
    """A capsule of another major version is renamed, and never given back."""

    def look(self, capsule: Any) -> caps.View:
        if caps.name_of(capsule) == caps.VERSIONED:
            start = caps.ManagedTensorVersioned.from_address(caps.pointer_of(capsule))
            if start.major != 1:
                caps.rename(capsule)
        return super().look(capsule)


class GivesBackWhatItRefuses(Right):
    """What is refused is given back, and again by the capsule."""

    def judge(self, view: caps.View) -> None:
        try:
            super().judge(view)
        except BufferError:
            caps.call_deleter(view.address, view.name, held=True)
            raise


gives_back_what_it_refuses = Consumer(GivesBackWhatItRefuses(), claims="2025.12")


class HoldsTheCapsule(Right):
    """The memory goes with the producer: nothing but the capsule is held, and for ever."""

    def take(self, capsule: Any) -> Any:
        KEPT.append(capsule)
        return capsule


class WritesTheShape(Right):
    """The producer's own extents are written."""

    def take(self, capsule: Any) -> Any:
        _, tensor = of(capsule)
        if tensor.ndim == 2:
            (C.c_int64 * 2).from_address(tensor.shape)[0] += 1
        return super().take(capsule)


class CopiesTooLittle(Right):
    """A copy has the elements that come first, whatever the strides."""

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        made = super().__call__(x, device=device)
        if not copy:
            return made
        view = made.view
        raw = C.string_at(view.element_zero, math.prod(view.shape) * caps.itemsize_of(view.dtype))
        block = C.create_string_buffer(raw + b"\0")
        held = caps.Made(view.shape, view.dtype, version=(1, 3), memory=block)
        caps.forget(held)
        return Taken((block, held), caps.View(held.address, caps.VERSIONED))


class SharesItsCopies(Right):
    """`copy=True` gives the producer's memory where the producer did not copy."""

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        self.known_device(device)
        capsule = x if isinstance(x, caps.Capsule) else self.ask(x, copy)
        if caps.name_of(capsule) not in (caps.LEGACY, caps.VERSIONED):
            raise ValueError("the capsule was consumed")
        view = self.look(capsule)
        self.judge(view)
        return Taken(self.take(capsule), view, read_only=view.readonly)
