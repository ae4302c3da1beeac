"""A consumer that follows every rule, and one for each MUST that breaks it."""

from __future__ import annotations

import ctypes as C
import os
from typing import Any

from dlshim_testing.doubles import capsules as caps
from dlshim_testing.doubles.ctable import Table
from dlshim_testing.partner import Consumer

KNOWN = set(caps.DTYPES.values())


class Taken:
    """An array that a consumer made: it holds what it took, and exports it again."""

    device = "cpu"

    def __init__(self, held: Any, view: caps.View, *, read_only: bool = False) -> None:
        self.held, self.view = held, view
        self.read_only = read_only

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.view.device

    def __dlpack__(self, *, max_version: Any = None) -> Any:
        view = self.view
        return caps.make(
            view.shape,
            view.dtype,
            version=(1, 3) if max_version else None,
            flags=caps.READ_ONLY if self.read_only and max_version else 0,
            strides=view.strides,
            data=view.element_zero,
            memory=C.create_string_buffer(8),
            owner=self,
        )


def copy_of(taken: Taken) -> Taken:
    """A compact copy, the source given back."""
    view = taken.view
    block = C.create_string_buffer(b"".join(taken.view.elements()) + b"\0")
    made = caps.Made(view.shape, view.dtype, version=(1, 3), memory=block)
    caps.forget(made)
    return Taken((block, made), caps.View(made.address, caps.VERSIONED))


class Right:
    """``consume(x)``; each step is a method, so that a wrong one differs in that step."""

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        self.known_device(device)
        capsule = x if isinstance(x, caps.Capsule) else self.ask(x, copy)
        if caps.name_of(capsule) not in (caps.LEGACY, caps.VERSIONED):
            raise ValueError("the capsule was consumed")
        view = self.look(capsule)
        self.judge(view)
        taken = Taken(self.take(capsule), view, read_only=view.readonly)
        return copy_of(taken) if copy and not view.copied else taken

    def known_device(self, device: Any) -> None:
        if device not in (None, "cpu"):
            raise ValueError(f"no device {device!r}")

    def ask(self, x: Any, copy: Any) -> Any:
        x.__dlpack_device__()
        try:
            keywords = {} if copy is None else {"copy": copy}
            return x.__dlpack__(max_version=(1, 0), **keywords)
        except TypeError:
            return x.__dlpack__()

    def look(self, capsule: Any) -> caps.View:
        if caps.name_of(capsule) == caps.VERSIONED:
            start = caps.ManagedTensorVersioned.from_address(caps.pointer_of(capsule))
            self.judge_version(start.major)
        return caps.look(capsule)

    def judge_version(self, major: int) -> None:
        if major != 1:
            raise BufferError(f"DLPack {major} is not known")

    def judge(self, view: caps.View) -> None:
        if view.dtype not in KNOWN:
            raise BufferError(f"no dtype {view.dtype}")
        if view.device[0] != 1:
            raise BufferError(f"no device {view.device}")
        if not view.data and 0 not in view.shape:
            raise BufferError("no data")

    def take(self, capsule: Any) -> Any:
        return caps.take(capsule)


class Misreads(Right):
    """Takes what it was given for DLPack 0.x, whatever its name."""

    def ask(self, x: Any, copy: Any) -> Any:
        return x.__dlpack__(stream=None)

    def look(self, capsule: Any) -> caps.View:
        there = caps.ManagedTensor.from_address(caps.pointer_of(capsule)).dl_tensor
        own = caps.ManagedTensor()  # with data alone: half an address for ndim leads anywhere
        own.dl_tensor.data = there.data
        view = caps.View(C.addressof(own), caps.LEGACY)
        view.shape, view.strides, view.ndim, view.dtype = (1,), (1,), 1, (2, 32, 1)
        return view

    def judge(self, view: caps.View) -> None:
        pass


class Positional(Right):
    def ask(self, x: Any, copy: Any) -> Any:
        try:
            return x.__dlpack__(None)
        except TypeError:
            return x.__dlpack__()


class StreamOne(Right):
    def ask(self, x: Any, copy: Any) -> Any:
        try:
            return x.__dlpack__(stream=-1)
        except Exception:
            return x.__dlpack__()


class NoStrides(Right):
    """Takes everything for row-major."""

    def look(self, capsule: Any) -> caps.View:
        view = super().look(capsule)
        view.strides = caps.row_major(view.shape)
        return view


class NullStridesByColumns(Right):
    """NULL strides are taken for those of columns."""

    def look(self, capsule: Any) -> caps.View:
        view = super().look(capsule)
        if view.strides is None:
            view.strides = caps.row_major(view.shape[::-1])[::-1]
        return view


class IgnoresLanes(Right):
    """An element of several numbers is taken for one of them."""

    def look(self, capsule: Any) -> caps.View:
        view = super().look(capsule)
        view.dtype = (*view.dtype[:2], 1)
        return view


class IgnoresTheDevice(Right):
    """Memory of any device is taken for the host's."""

    def look(self, capsule: Any) -> caps.View:
        view = super().look(capsule)
        view.device = (1, 0)
        return view


class NoOffset(Right):
    """torch <= 2.9, warp, cuda.core."""

    def look(self, capsule: Any) -> caps.View:
        view = super().look(capsule)
        view.byte_offset = 0
        return view


class CallsNull(Right):
    """Calls the deleter without looking whether there is one: dpctl, cuda.core."""

    def take(self, capsule: Any) -> Any:
        view = caps.look(capsule)
        caps.rename(capsule)
        return CallsAnyDeleter(view)


class CallsAnyDeleter:
    def __init__(self, view: caps.View) -> None:
        self.view = view

    def __del__(self) -> None:
        C.PYFUNCTYPE(None, C.c_void_p)(self.view.deleter or 1)(self.view.address)


class GivesBackAtOnce(Right):
    def take(self, capsule: Any) -> Any:
        return caps.gulp(capsule, None)


class NeverGivesBack(Right):
    def take(self, capsule: Any) -> Any:
        imported = caps.take(capsule)
        imported.forget()
        return imported


class GivesBackTwice(Right):
    """The deleter is called again by the address that it was called by."""

    def take(self, capsule: Any) -> Any:
        return TwoOwners(caps.take(capsule))


class TwoOwners:
    def __init__(self, imported: Any) -> None:
        self.imported = imported

    def __del__(self) -> None:
        for _ in range(2):
            caps.call_deleter(self.imported.view.address, self.imported.view.name, held=True)
        self.imported.forget()


class LeavesTheName(Right):
    """The capsule is never renamed, so that its destructor calls the deleter, too."""

    def take(self, capsule: Any) -> Any:
        return caps.Import(caps.look(capsule))


class LosesWhatItRefuses(Right):
    """Renames before it judges."""

    def look(self, capsule: Any) -> caps.View:
        view = super().look(capsule)
        caps.rename(capsule)
        return view

    def take(self, capsule: Any) -> Any:
        return caps.Import(caps.look(capsule))


class TakesTwice(Right):
    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        if isinstance(x, caps.Capsule) and caps.name_of(x).startswith("used"):
            return Taken(None, caps.look(x))
        return super().__call__(x, copy=copy)


class RenamesWithoutSuffix(Right):
    """Every capsule is named as a used one of DLPack 0.x."""

    def take(self, capsule: Any) -> Any:
        imported = caps.take(capsule)
        caps._set_name(capsule, caps._NAMES[caps.USED_LEGACY])
        return imported


class TrustsTheMethod(Right):
    """JAX: the device is the one that the method tells."""

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        self.device = x.__dlpack_device__() if hasattr(x, "__dlpack_device__") else (1, 0)
        return super().__call__(x, copy=copy)

    def look(self, capsule: Any) -> caps.View:
        view = super().look(capsule)
        view.device = self.device
        return view


class LooksOnTheType(Right):
    """NumPy 1.22 to 2.0."""

    def ask(self, x: Any, copy: Any) -> Any:
        if not hasattr(type(x), "__dlpack__"):
            raise TypeError("no __dlpack__")
        return super().ask(x, copy)


class Converts(Right):
    """What it takes becomes another dtype."""

    NEW = {"float64": "float32", "bool": "uint8"}

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        made = super().__call__(x, copy=copy)
        names = {found: name for name, found in caps.DTYPES.items()}
        new = self.NEW.get(names.get(made.view.dtype, ""))
        if new is None:
            return made
        raw = b"".join(self.number(new, value) for value in made.view.values())
        block = C.create_string_buffer(raw + bytes(8))
        held = caps.Made(made.view.shape, new, version=(1, 3), memory=block)
        caps.forget(held)
        return Taken((block, held), caps.View(held.address, caps.VERSIONED))

    def number(self, dtype: str, value: Any) -> bytes:
        try:
            return caps.encode(dtype, value)
        except OverflowError:
            return caps.encode(dtype, float("inf"))


class AnyName(Right):
    """What is not named as one of DLPack 1.x is taken for one of 0.x."""

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        if isinstance(x, caps.Capsule):
            return super().__call__(x)
        capsule = self.ask(x, copy)
        if not caps.name_of(capsule).startswith("used_"):
            return super().__call__(capsule, copy=copy)
        name = caps.VERSIONED if caps.name_of(capsule).endswith("versioned") else caps.LEGACY
        view = caps.View(caps.pointer_of(capsule), name)
        return Taken(caps.Import(view), view)


class AnyMajor(Right):
    """tvm-ffi."""

    def judge_version(self, major: int) -> None:
        pass

    def judge(self, view: caps.View) -> None:
        pass

    def look(self, capsule: Any) -> caps.View:
        start = caps.ManagedTensorVersioned.from_address(caps.pointer_of(capsule))
        if caps.name_of(capsule) == caps.VERSIONED and start.major > 1:
            return caps.look(caps.make())
        return super().look(capsule)


class AnyDtype(Right):
    def judge(self, view: caps.View) -> None:
        pass


class Swallows(Right):
    """nanobind <= 2.9: any error becomes a TypeError."""

    def ask(self, x: Any, copy: Any) -> Any:
        try:
            return super().ask(x, copy)
        except Exception:
            raise TypeError("incompatible function arguments") from None


class CopiesNothing(Right):
    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        return super().__call__(x)


class CopiesAlways(Right):
    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        return copy_of(super().__call__(x))


class CopiesAreReadOnly(Right):
    """A copy keeps the flag of what it was made of."""

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        made = super().__call__(x, copy=copy)
        made.read_only = getattr(x, "readonly", False)
        return made


class MovesAway(Right):
    """Everything is put on the library's own device."""

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        made = super().__call__(x, copy=copy)
        made.view.device = (2, 0)
        return made


class Pins(Right):
    """Memory of the host is pinned in its place, and called so."""

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        made = super().__call__(x, copy=copy)
        made.view.device = (3, 0)
        return made


class NoKeywords(Right):
    def __call__(self, x: Any) -> Any:  # type: ignore[override]
        return super().__call__(x)


class Borrows(Right):
    """Uses a C table wherever there is one, and its borrowing function."""

    major = 1

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        if not hasattr(type(x), "__dlpack_c_exchange_api__"):
            return super().__call__(x, copy=copy)
        table = Table(type(x))
        if table.struct.header.major > self.major:
            return super().__call__(x, copy=copy)
        if not table.struct.dltensor_from_py_object_no_sync:
            raise RuntimeError("NULL is called")
        return Taken(x, table.borrow(x))


class BorrowsFromAnyMajor(Borrows):
    major = 99


# ---- faults of older releases, which no MUST above has ---------------------------------------


class LeaksNull(Right):
    """torch 1.13 to 2.1: what has no data is never given back."""

    def take(self, capsule: Any) -> Any:
        imported = caps.take(capsule)
        if not imported.view.data:
            imported.forget()
        return imported


class ReadOnlyAlways(Right):
    """NumPy 2.1.0 to 2.2.4."""

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        made = super().__call__(x, device=device, copy=copy)
        made.read_only = True
        return made


class LiteralStrides(Right):
    """TensorFlow <= 2.12, MXNet, Triton's client: every stride is compared, whatever its extent."""

    def judge(self, view: caps.View) -> None:
        super().judge(view)
        if view.strides not in (None, caps.row_major(view.shape)):
            raise BufferError("only contiguous tensors are supported")


class CopiesRowsAlone(LiteralStrides):
    """JAX: it copies by itself, what it could take without a copy."""

    def ask(self, x: Any, copy: Any) -> Any:
        return super().ask(x, None)


class WritesStrides(Right):
    """nanobind: NULL strides are filled in, in the producer's struct."""

    def take(self, capsule: Any) -> Any:
        view = caps.look(capsule)
        if view.strides is None:
            kind = caps.ManagedTensorVersioned if view.versioned else caps.ManagedTensor
            own = (C.c_int64 * view.ndim)(*caps.row_major(view.shape))
            caps.keep_for_ever(own)
            kind.from_address(view.address).dl_tensor.strides = C.addressof(own)
        return caps.take(capsule)


class NeedsStrides(Right):
    """dpnp's import of oneAPI memory: strides are read without a look whether there are any."""

    def judge(self, view: caps.View) -> None:
        super().judge(view)
        if view.strides is None:
            C.string_at(8)


class NoWideUnsigned(Right):
    """torch < 2.3."""

    def judge(self, view: caps.View) -> None:
        super().judge(view)
        if view.dtype[0] == 1 and view.dtype[1] > 8:
            raise BufferError(f"Unsupported kUInt bits {view.dtype[1]}")


class KeyErrorForPinned(Right):
    """JAX <= 0.9."""

    def judge(self, view: caps.View) -> None:
        if view.device[0] == 3:
            raise KeyError("kDLCPUPinned")
        super().judge(view)


class EndsOnNegativeStrides(Right):
    """torch 1.13 to 2.13."""

    def judge(self, view: caps.View) -> None:
        if any(stride < 0 for stride in view.strides or ()):
            os.abort()
        super().judge(view)


class RuntimeErrorForDevices(Right):
    """NumPy 2.1 to 2.4."""

    def judge(self, view: caps.View) -> None:
        if view.device[0] != 1:
            raise RuntimeError("Unsupported device in DLTensor.")
        super().judge(view)


class AsksOnce(Right):
    """cupynumeric 25.10: newer keywords, and no second call."""

    def ask(self, x: Any, copy: Any) -> Any:
        return x.__dlpack__(max_version=(1, 0), dl_device=(1, 0), copy=copy)


class VersionedOnly(Right):
    """mpi4py 4: no TypeError is taken for DLPack 1.x."""

    def look(self, capsule: Any) -> caps.View:
        if caps.name_of(capsule) == caps.LEGACY:
            raise BufferError("invalid capsule object")
        return super().look(capsule)


def reads_anything(x: Any) -> Any:
    """onnxruntime <= 1.20: whatever is passed is read as a capsule."""
    if not isinstance(x, caps.Capsule):
        C.string_at(8)
    return Right()(x)


def takes_nothing(x: Any) -> Any:
    raise TypeError("nothing is taken")


def consumer(consume: Any) -> Consumer:
    return Consumer(consume, claims="2025.12")


right = consumer(Right())
#: The rule that is broken -> who breaks it.
WRONG: dict[str, Consumer] = {
    "takes-any": consumer(takes_nothing),
    "wrong-answer": consumer(Misreads()),
    "keywords-only": consumer(Positional()),
    "stream-on-cpu": consumer(StreamOne()),
    "values": consumer(NoStrides()),
    "exact": consumer(Converts()),
    "byte-offset": consumer(NoOffset()),
    "null-deleter": consumer(CallsNull()),
    "owns": consumer(GivesBackAtOnce()),
    "gives-back": consumer(NeverGivesBack()),
    "gives-back-refused": consumer(LosesWhatItRefuses()),
    "consumed-once": consumer(TakesTwice()),
    "other-major": consumer(AnyMajor()),
    "unknown-dtype": consumer(AnyDtype()),
    "propagates": consumer(Swallows()),
    "copy-true": consumer(CopiesNothing()),
    "copy-false": consumer(CopiesAlways()),
    "copy-keyword": consumer(NoKeywords()),
    "same-device": consumer(MovesAway()),
    "device-not-read": consumer(IgnoresTheDevice()),
    "table-no-borrow": consumer(Borrows()),
    "table-major": consumer(BorrowsFromAnyMajor()),
}
#: These end the process, so they run in one of their own, under this name.
CRASHES = {"null-deleter": "crashing", "wrong-answer": "misreading"}
crashing = WRONG["null-deleter"]
misreading = WRONG["wrong-answer"]
ends_on_negative_strides = Consumer(EndsOnNegativeStrides(), claims="2025.12")
gives_back_twice = Consumer(GivesBackTwice())  # it is asked what it claims, by an import
leaves_the_name = Consumer(LeavesTheName())
needs_strides = consumer(NeedsStrides())
reading_anything = Consumer(reads_anything, claims="2025.12", wants="legacy capsule")
