"""Doubles that are right in each rule's plain case, and wrong one step beside it: with two keywords
at once, in another element size, after a refusal, on another thread, of memory that may not be
written.  ``planted.toml`` says of each what is wrong, and which check finds it.
"""

from __future__ import annotations

import ctypes as C
import itertools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from dlshim_testing.doubles import capsules as caps
from dlshim_testing.partner import Consumer, Producer
from kit.planted import KEPT, Of, extents, library, of, when_freed
from kit.planted_takers import reading, strides_of
from kit.wrong_consumers import Right, copy_of

# ---- producers ---------------------------------------------------------------------------------

OWN = (1, 0)


def base_of(array: Any) -> Any:
    while array.base is not None:
        array = array.base
    return array


def told_strides(capsule: Any) -> Any:
    _, tensor = of(capsule)
    return extents(tensor.strides, tensor.ndim) if tensor.strides else []


def copied_by(change: Callable[[Any, Any], Any]) -> type[Of]:
    """What `copy=True` gives is made by ``change(array, copy)`` of the array and a right copy."""

    class Changed(Of):
        def give(self, copy: Any = None, **asked: Any) -> Any:
            if not copy:
                return super().give(copy=copy, **asked)
            made = change(self.array, np.array(self.array))
            capsule = made.__dlpack__(**asked)
            if caps.name_of(capsule) == caps.VERSIONED:
                of(capsule)[0].flags |= caps.IS_COPIED
            return capsule

    Changed.__name__ = change.__name__
    return Changed


def asking(change: Callable[..., dict[str, Any]]) -> type[Of]:
    """The keywords are changed before they are looked at: ``change(array, **asked)``."""

    class Changed(Of):
        def give(self, **asked: Any) -> Any:
            return super().give(**change(self.array, **asked))

    Changed.__name__ = change.__name__
    return Changed


class OffsetsOfFour(Of):
    """The offset of a view counts 4 bytes an element."""

    def give(self, **asked: Any) -> Any:
        capsule = super().give(**asked)
        _, tensor = of(capsule)
        start = base_of(self.array).ctypes.data
        if not asked.get("copy") and tensor.data:
            tensor.data = start + (tensor.data - start) // self.array.itemsize * 4
        return capsule


class StridesOfFour(Of):
    """Strides count 4 bytes an element, in a library without assignment."""

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError("the array does not support item assignment")

    def give(self, **asked: Any) -> Any:
        capsule = super().give(**asked)
        _, tensor = of(capsule)
        own = (C.c_int64 * max(1, tensor.ndim))(*(step // 4 for step in self.array.strides))
        caps.keep_for_ever(own)
        tensor.strides = C.addressof(own)
        return capsule


def cleared_from(copy: Any, begin: int) -> Any:
    """The copy, of which the bytes from here on are zero."""
    raw = copy.reshape(-1).view("u1")
    raw[begin:] = 0
    return copy


@copied_by
def copies_four_bytes(array: Any, copy: Any) -> Any:
    return cleared_from(copy, 4 * array.size) if array.size else copy


@copied_by
def copies_eight_bytes(array: Any, copy: Any) -> Any:
    return cleared_from(copy, 8 * array.size) if array.size else copy


@copied_by
def copies_64_kib(array: Any, copy: Any) -> Any:
    return cleared_from(copy, 1 << 16) if array.size else copy


@copied_by
def copies_one_plane(array: Any, copy: Any) -> Any:
    if array.ndim > 2 and array.size:
        copy[1:] = 0
    return copy


@copied_by
def squeezes(array: Any, copy: Any) -> Any:
    return copy.squeeze()


@copied_by
def by_way_of_floats(array: Any, copy: Any) -> Any:
    if copy.dtype != np.int64:
        return copy
    with np.errstate(invalid="ignore"):
        return copy.astype("f8").astype(copy.dtype)


@copied_by
def adds_nothing(array: Any, copy: Any) -> Any:
    return copy + 0 if copy.dtype.kind == "f" else copy


@asking
def version_or_device(array: Any, max_version: Any, dl_device: Any, **asked: Any) -> Any:
    return {**asked, "dl_device": dl_device, "max_version": None if dl_device else max_version}


@asking
def version_or_no_copy(array: Any, max_version: Any, copy: Any, **asked: Any) -> Any:
    return {**asked, "copy": copy, "max_version": None if copy is False else max_version}


@asking
def copy_or_device(array: Any, copy: Any, dl_device: Any, **asked: Any) -> Any:
    return {**asked, "dl_device": dl_device, "copy": None if dl_device and copy else copy}


@asking
def no_copy_to_a_device(array: Any, copy: Any, dl_device: Any, **asked: Any) -> Any:
    if copy and dl_device:
        raise TypeError("copy and dl_device exclude each other")
    return {**asked, "dl_device": dl_device, "copy": copy}


@asking
def no_sharing_to_a_device(array: Any, copy: Any, dl_device: Any, **asked: Any) -> Any:
    if copy is False and dl_device:
        raise TypeError("copy and dl_device exclude each other")
    return {**asked, "dl_device": dl_device, "copy": copy}


@asking
def enum_or_copy(array: Any, copy: Any, dl_device: Any, **asked: Any) -> Any:
    if copy and dl_device and type(dl_device[0]) is not int:
        raise TypeError("the type of the device is no int")
    return {**asked, "dl_device": dl_device, "copy": copy}


@asking
def no_sharing_for_old(array: Any, max_version: Any, copy: Any, **asked: Any) -> Any:
    if copy is False and not max_version:
        raise TypeError("copy=False needs max_version")
    return {**asked, "max_version": max_version, "copy": copy}


class StreamOrVersion(Of):
    """`stream=None` beside `max_version` is a TypeError."""

    def __dlpack__(self, *, max_version: Any = None, **keywords: Any) -> Any:
        if "stream" in keywords and max_version:
            raise TypeError("stream and max_version exclude each other")
        return super().__dlpack__(max_version=max_version, **keywords)


@asking
def locked_is_not_copied(array: Any, **asked: Any) -> Any:
    if asked["copy"] and not array.flags.writeable:
        raise BufferError("the array may not be written")
    return asked


@asking
def locked_is_not_copied_for_old(array: Any, **asked: Any) -> Any:
    if asked["copy"] and not asked["max_version"] and not array.flags.writeable:
        raise BufferError("the array may not be written")
    return asked


class Sulks(Of):
    """After one export that was refused the array refuses every other."""

    refused = False

    def give(self, **asked: Any) -> Any:
        if self.refused:
            raise BufferError("an export was refused before")
        try:
            return super().give(**asked)
        except Exception:
            self.refused = True
            raise


class LocksAfterARefusal(Sulks):
    """After one export that was refused the others have the flag READ_ONLY."""

    def give(self, **asked: Any) -> Any:
        refused, self.refused = self.refused, False
        capsule = super().give(**asked)
        self.refused = refused
        if refused and caps.name_of(capsule) == caps.VERSIONED:
            of(capsule)[0].flags |= caps.READ_ONLY
        return capsule


class Later(Of):
    """Every export but the first is wrong."""

    exports = 0

    def change(self, capsule: Any) -> None:
        raise NotImplementedError

    def give(self, **asked: Any) -> Any:
        capsule = super().give(**asked)
        self.exports += 1
        if self.exports > 1:
            self.change(capsule)
        return capsule


class LaterBeginLater(Later):
    """Later exports begin at the second element."""

    def change(self, capsule: Any) -> None:
        if self.array.size > 1:
            of(capsule)[1].byte_offset += self.array.itemsize


class LaterDropTheFlag(Later):
    """Later exports lose READ_ONLY."""

    def change(self, capsule: Any) -> None:
        if caps.name_of(capsule) == caps.VERSIONED:
            of(capsule)[0].flags &= ~caps.READ_ONLY


class CopiesOnce(Of):
    """Only the first `copy=True` of an array copies."""

    copied = False

    def give(self, copy: Any = None, **asked: Any) -> Any:
        again, self.copied = self.copied, self.copied or bool(copy)
        return super().give(copy=None if copy and again else copy, **asked)


class UncopiedDropsTheFlag(Of):
    """READ_ONLY is lost where `copy=False` is given."""

    def give(self, **asked: Any) -> Any:
        capsule = super().give(**asked)
        if asked["copy"] is False and caps.name_of(capsule) == caps.VERSIONED:
            of(capsule)[0].flags &= ~caps.READ_ONLY
        return capsule


class OneAtATime(Of):
    """Only one export of an array may live."""

    lives = False

    def give(self, **asked: Any) -> Any:
        if self.lives:
            raise BufferError("the array is exported already")
        capsule = super().give(**asked)
        self.lives = True

        def free(original: Any) -> None:
            self.lives = False
            original()

        return when_freed(capsule, free)


class OfItsThread(Of):
    """An export on another thread than that of the array is a RuntimeError."""

    def __init__(self, *arguments: Any, **fields: Any) -> None:
        super().__init__(*arguments, **fields)
        self.thread = threading.get_ident()

    def on_another(self, asked: dict[str, Any]) -> Any:
        raise RuntimeError("this is another thread")

    def give(self, **asked: Any) -> Any:
        if threading.get_ident() != self.thread:
            return self.on_another(asked)
        return super().give(**asked)


class EmptyOnOtherThreads(OfItsThread):
    """An export on another thread has nothing but zeros."""

    def on_another(self, asked: dict[str, Any]) -> Any:
        return np.zeros_like(self.array).__dlpack__(**asked)


class DeviceFirst(Of):
    """`__dlpack__` works only after `__dlpack_device__` was asked."""

    asked = False

    def __dlpack_device__(self) -> Any:
        self.asked = True
        return OWN

    def give(self, **asked: Any) -> Any:
        if not self.asked:
            raise BufferError("no device was asked for")
        return super().give(**asked)


class DeviceLeaks(Of):
    """The deleter of what `dl_device=(1, 0)` gives frees nothing."""

    def give(self, **asked: Any) -> Any:
        capsule = super().give(**asked)
        return when_freed(capsule, lambda original: None) if asked["dl_device"] else capsule


class DeviceDropsTheFlag(Of):
    """READ_ONLY is lost where `dl_device` is given."""

    FLAG = caps.READ_ONLY

    def give(self, **asked: Any) -> Any:
        capsule = super().give(**asked)
        if asked["dl_device"] and caps.name_of(capsule) == caps.VERSIONED:
            of(capsule)[0].flags &= ~self.FLAG
        return capsule


class DeviceDropsCopied(DeviceDropsTheFlag):
    """IS_COPIED is lost where `dl_device` is given."""

    FLAG = caps.IS_COPIED


class ViewsDropTheFlag(Of):
    """READ_ONLY is lost where the array is not row-major."""

    def give(self, **asked: Any) -> Any:
        capsule = super().give(**asked)
        if not self.array.flags.c_contiguous and caps.name_of(capsule) == caps.VERSIONED:
            of(capsule)[0].flags &= ~caps.READ_ONLY
        return capsule


class EmptyDropsTheFlag(Of):
    """READ_ONLY is lost where there are no elements."""

    def give(self, **asked: Any) -> Any:
        if self.array.size or self.array.flags.writeable:
            return super().give(**asked)
        return np.empty_like(self.array).__dlpack__(**asked)


class DeviceHoldsNothing(Of):
    """What `dl_device=(1, 0)` gives does not keep the memory."""

    def give(self, **asked: Any) -> Any:
        capsule = super().give(**asked)
        if asked["dl_device"] and not asked["copy"]:
            other = np.array(self.array)
            capsule = other.__dlpack__(max_version=asked["max_version"])
            _, tensor = of(capsule)
            tensor.data = self.array.ctypes.data
            told = told_strides(capsule)
            told[:] = [step // self.array.itemsize for step in self.array.strides]
        return capsule


class DeviceOfNumPy(Of):
    """The number of the device is one of NumPy's integers."""

    def __dlpack_device__(self) -> Any:
        return (1, np.int64(0))


class CutsSixteen(Of):
    """Dimensions after the sixteenth are cut off."""

    def give(self, **asked: Any) -> Any:
        capsule = super().give(**asked)
        _, tensor = of(capsule)
        tensor.ndim = min(tensor.ndim, 16)
        return capsule


class SixtyFourInTurns(Of):
    """64 blocks of memory serve all exports in turns: the 65th has that of the first."""

    BLOCKS = itertools.cycle([(C.c_int64 * 64)() for _ in range(64)])

    def give(self, **asked: Any) -> Any:
        capsule = super().give(**asked)
        _, tensor = of(capsule)
        block = next(self.BLOCKS)
        block[: tensor.ndim] = list(self.array.shape)
        tensor.shape = C.addressof(block)
        return capsule


class LeavesAnError(Of):
    """The deleter leaves an exception."""

    def give(self, **asked: Any) -> Any:
        capsule = super().give(**asked)
        of(capsule)[0].deleter = C.cast(library().leaves_an_error, C.c_void_p).value
        caps._set_destructor(capsule, C.cast(library().destroys, C.c_void_p))
        return capsule


leaves_an_error = Producer(LeavesAnError)

# ---- consumers ---------------------------------------------------------------------------------


class Asked(Right):
    """Keeps what it was asked for."""

    copy: Any = None
    device: Any = None
    subject: Any = None

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        self.subject, self.device, self.copy = x, device, copy
        return super().__call__(x, device=device, copy=copy)


def kept(change: Callable[[Any, Any], Any]) -> type[Asked]:
    """A consumer whose result is changed afterwards: ``change(self, made)``."""

    class Changed(Asked):
        def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
            made = super().__call__(x, device=device, copy=copy)
            return change(self, made) or made

    Changed.__name__ = change.__name__
    return Changed


def itemsize(view: caps.View) -> int:
    return view.dtype[1] * view.dtype[2] // 8


@reading
def whole_offsets(view: caps.View) -> None:
    view.byte_offset -= view.byte_offset % 4


@reading
def whole_addresses(view: caps.View) -> None:
    view.data -= view.element_zero % 4


@reading
def strides_of_four(view: caps.View) -> None:
    if itemsize(view) > 4 and view.strides is not None:
        view.strides = tuple(step * 4 // itemsize(view) for step in view.strides)


@reading
def strides_of_two(view: caps.View) -> None:
    """Elements of two bytes are taken to lie four bytes apart."""
    if itemsize(view) == 2:
        view.strides = tuple(2 * step for step in strides_of(view))


@reading
def sixteen_dimensions(view: caps.View) -> None:
    view.strides = strides_of(view)[:16]
    view.shape = view.shape[:16]


@reading
def short_extents(view: caps.View) -> None:
    """Extents of arrays with elements have 31 bits."""
    if 0 not in view.shape:
        view.shape = tuple(extent & 0x7FFFFFFF for extent in view.shape)


@reading
def bytes_for_old_bools(view: caps.View) -> None:
    if view.dtype[0] == 6 and not view.versioned:
        view.dtype = (1, 8, 1)


class OneFlagAlone(Right):
    """READ_ONLY is heeded where no other flag is set."""

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        made = super().__call__(x, device=device, copy=copy)
        made.read_only = made.view.flags == caps.READ_ONLY
        return made


class HandsBack(Right):
    """Its own arrays are handed back as they are, with `copy=True` too."""

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        return x if isinstance(x, Of) else super().__call__(x, device=device, copy=copy)


class CopiesItsOwn(Right):
    """Its own arrays are copied, with `copy=False` too."""

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        made = super().__call__(x, device=device, copy=copy)
        return copy_of(made) if isinstance(x, Of) else made


class Caches(Right):
    """Results are kept by the address of their memory."""

    def __init__(self) -> None:
        self.made: dict[int, Any] = {}

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        made = super().__call__(x, device=device, copy=copy)
        return self.made.setdefault(made.view.element_zero, made)


class AsksForTruth(Right):
    """The truth of the object is asked."""

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        if not x:
            raise ValueError("nothing was given")
        return super().__call__(x, device=device, copy=copy)


def not_copied(when: Callable[[Any, caps.View], bool]) -> type[Asked]:
    """A consumer that copies by itself, and shares in some case though `copy=True` is asked."""

    class Shares(Asked):
        def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
            made = super().__call__(x, device=device, copy=False if copy is False else None)
            return copy_of(made) if copy and not when(self, made.view) else made

    return Shares


shares_to_a_device = not_copied(lambda self, view: self.device is not None)
shares_read_only = not_copied(lambda self, view: view.readonly)
shares_complex = not_copied(lambda self, view: view.dtype[0] == 5)
shares_what_begins_later = not_copied(lambda self, view: view.byte_offset > 0)


@kept
def copies_what_is_not_float32(self: Any, made: Any) -> Any:
    return copy_of(made) if self.copy is False and made.view.dtype != (2, 32, 1) else made


@kept
def copies_to_a_device(self: Any, made: Any) -> Any:
    return copy_of(made) if self.copy is False and self.device is not None else made


def copying(change: Callable[[Any], Any]) -> type[Asked]:
    """A consumer whose copies of float32 are changed: ``change(array of NumPy)``."""

    class Changed(Asked):
        def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
            made = super().__call__(x, device=device)
            if not copy:
                return made
            made = copy_of(made)
            view = made.view
            if view.dtype == (2, 32, 1) and view.shape:
                raw = (C.c_char * (4 * max(1, int(np.prod(view.shape))))).from_address(
                    view.element_zero
                )
                numbers = np.frombuffer(raw, "f4")
                numbers[:] = change(numbers)
            return made

    Changed.__name__ = change.__name__
    return Changed


@copying
def adds_zero(numbers: Any) -> Any:
    return numbers + np.float32(0)


@copying
def one_nan(numbers: Any) -> Any:
    return np.where(np.isnan(numbers), np.float32("nan"), numbers)


class LosesTheFlagToADevice(Asked):
    """READ_ONLY is lost where `device` is given."""

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        made = super().__call__(x, device=device, copy=copy)
        made.read_only = made.view.readonly and device is None
        return made


def swallowing(*kinds: type[BaseException], new: type[BaseException]) -> type[Right]:
    """A consumer that makes another exception of these."""

    class Swallows(Right):
        def ask(self, x: Any, copy: Any) -> Any:
            try:
                return super().ask(x, copy)
            except kinds as error:
                if type(error) is RuntimeError:
                    raise
                raise new("the producer failed") from None

    return Swallows


swallows_interrupts = swallowing(KeyboardInterrupt, new=RuntimeError)
swallows_exits = swallowing(SystemExit, new=BufferError)
swallows_below_runtime_error = swallowing(RuntimeError, new=ValueError)


class AsksAgainWhateverIsSaid(Right):
    """A producer that refuses `max_version` by a BufferError is asked again without it."""

    def ask(self, x: Any, copy: Any) -> Any:
        try:
            return super().ask(x, copy)
        except BufferError:
            if copy is False:
                raise
            return x.__dlpack__()


class OfTheFirstThread(Right):
    """On another thread than the first the result is empty."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()

    def look(self, capsule: Any) -> caps.View:
        view = super().look(capsule)
        if threading.get_ident() != self.thread:
            view.shape = (0,) * len(view.shape)
        return view


class DeviceKeepsAll(Asked):
    """What was imported with `device` is never given back."""

    def take(self, capsule: Any) -> Any:
        imported = caps.take(capsule)
        if self.device is not None:
            imported.forget()
        return imported


class OtherThreadsKeepAll(OfTheFirstThread):
    """What was imported on another thread than the first is never given back."""

    def look(self, capsule: Any) -> caps.View:
        return Right.look(self, capsule)

    def take(self, capsule: Any) -> Any:
        imported = caps.take(capsule)
        if threading.get_ident() != self.thread:
            imported.forget()
        return imported


class Turn:
    """What a result keeps: it goes when the result goes, or when its turn is over."""

    def __init__(self, owners: list[Any], owner: Any) -> None:
        self.owners, self.place = owners, [owner]
        owners.append(self.place)
        if len(owners) > 64:
            owners.pop(0).clear()

    def __del__(self) -> None:
        self.place.clear()


class SixtyFourOwners(Right):
    """64 owners are kept in turns: the 65th import gives the first one's memory back."""

    def __init__(self) -> None:
        self.owners: list[Any] = []

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        made = super().__call__(x, device=device, copy=copy)
        made.held = Turn(self.owners, made.held)
        return made


class OffendedForEver(Right):
    """After one import that was refused every later one is refused."""

    offended = False

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        if self.offended:
            raise BufferError("an import was refused before")
        try:
            return super().__call__(x, device=device, copy=copy)
        except Exception:
            self.offended = True
            raise


class OncePerObject(Right):
    """An object that was imported before is refused."""

    def __init__(self) -> None:
        self.known: set[int] = set()

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        if id(x) in self.known:
            raise BufferError("the object was imported before")
        KEPT.append(x)
        self.known.add(id(x))
        return super().__call__(x, device=device, copy=copy)


own = Producer(Of, claims="2025.12")


def with_own(kind: Any) -> Consumer:
    """A target that has arrays of its own."""
    return Consumer(kind(), claims="2025.12", own=own)


hands_back = with_own(HandsBack)
copies_its_own = with_own(CopiesItsOwn)
right_with_own = with_own(Right)
