"""What a consumer makes of a double, and how its result is read."""

from __future__ import annotations

import contextlib
import ctypes as C
import gc
import importlib
from typing import Any, NamedTuple

from .catalogue import Broken, NotApplicable, insist
from .doubles import capsules as caps
from .doubles import producers
from .doubles.structs import ANY
from .exports import on_a_thread
from .partner import Consumer, said

ALIGNED = 64


def aligned(memory: Any) -> Any:
    """The same bytes at an address at which every consumer can share them."""
    size = C.sizeof(memory)
    room = (C.c_char * (size + ALIGNED))()
    begin = -C.addressof(room) % ALIGNED
    block = (C.c_char * size).from_buffer(room, begin)
    C.memmove(C.addressof(block), C.addressof(memory), size)
    return block


class Lending:
    """Poisons what it lent when the last deleter is called, so that a later read shows.

    Its capsules are kept until the consumer has returned: one that goes while an exception is
    pending would run its destructor, which is Python, with that exception.
    """

    def __init__(self, *arguments: Any, **fields: Any) -> None:
        super().__init__(*arguments, **fields)
        self.memory = aligned(self.memory)
        self.given: list[Any] = []
        self.first: Any = None
        """What an import before made of this, which is kept."""
        self.again = False
        """Whether its memory will be imported once more, so that it has to stay till then."""

    def _export(self, version: Any, **fields: Any) -> caps.Made:
        memory, exports = fields.get("memory", self.memory), self.exports

        def poison() -> None:
            if not self.again and all(each.deleted for each in exports if each.memory is memory):
                caps.poison(memory)

        return super()._export(version, **{"on_delete": poison} | fields)

    def __dlpack__(self, *arguments: Any, **keywords: Any) -> Any:
        capsule = super().__dlpack__(*arguments, **keywords)
        self.given.append(capsule)
        return capsule


class Legacy(Lending, producers.P1):
    """`__dlpack__(*, stream=None)`: DLPack 0.x."""


class NoKeywords(Lending, producers.P1a):
    """`__dlpack__()`: DLPack 0.x."""


class LegacyAnswer(Lending, producers.P1b):
    """Every keyword is taken, and DLPack 0.x answered."""


class Versioned(Lending, producers.P2):
    """Everything of 2023.12; DLPack 0.x where no `max_version` is given."""


class VersionedAlways(Lending, producers.VersionedAlways):
    """DLPack 1.x whatever was asked."""


class SaysHost:
    """Mixed in before another double: the method says the host, whatever the capsule says."""

    def __dlpack_device__(self) -> Any:
        self.device_calls += 1  # type: ignore[attr-defined]
        return caps.CPU


class LegacySaysHost(SaysHost, Legacy):
    """DLPack 0.x of a device that the method does not tell."""


class VersionedSaysHost(SaysHost, Versioned):
    """The same of DLPack 1.x."""


class Proxy:
    """Forwards everything by `__getattr__`: the type itself has neither method."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __getattr__(self, name: str) -> Any:
        return getattr(self._array, name)


class Used:
    """Mixed in before another double: its capsules were consumed before."""

    def __dlpack__(self, *arguments: Any, **keywords: Any) -> Any:
        capsule = super().__dlpack__(*arguments, **keywords)  # type: ignore[misc]
        caps.rename(capsule)
        return capsule


class UsedLegacy(Used, Legacy):
    """A consumed capsule of DLPack 0.x."""


class UsedVersioned(Used, Versioned):
    """A consumed capsule of DLPack 1.x, or 0.x where no `max_version` is given."""


class WithTable(Lending, producers.P3):
    """A C table beside `__dlpack__`."""


class WithTableNoBorrow(Lending, producers.P3NoBorrow):
    """A C table without the borrowing function."""


class WithTableMajorTwo(Lending, producers.P3MajorTwo):
    """A C table of a version that nobody knows."""


class ReadOnly(Versioned):
    """Memory that may not be written."""

    FLAGS = caps.READ_ONLY

    def __init__(self, *arguments: Any, **fields: Any) -> None:
        super().__init__(*arguments, **{"flags": self.FLAGS} | fields)
        self.readonly = bool(self.FLAGS & caps.READ_ONLY)


class IsCopied(ReadOnly):
    """A copy that the consumer alone has."""

    FLAGS = caps.IS_COPIED


class ReadOnlyCopy(ReadOnly):
    """Both flags at once."""

    FLAGS = caps.READ_ONLY | caps.IS_COPIED


class NoCopy(Versioned):
    """A producer of DLPack 1.x that does not know the keyword `copy`: the consumer copies."""

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> Any:
        return super().__dlpack__(stream=stream, max_version=max_version)


class ReadOnlyNoCopy(NoCopy, ReadOnly):
    """The same of memory that may not be written."""


EDITIONS = {"legacy": Legacy, "versioned": Versioned}
FLAGS = {"read-only": ReadOnly, "copied": IsCopied, "read-only copy": ReadOnlyCopy}
#: Producers of which a copy is asked; who does not know the keyword leaves it to the consumer.
SOURCES = EDITIONS | {
    "read-only": ReadOnly,
    "without copy=": NoCopy,
    "read-only without copy=": ReadOnlyNoCopy,
}
SAY_HOST = {"legacy": LegacySaysHost, "versioned": VersionedSaysHost}
USED = {"legacy": UsedLegacy, "versioned": UsedVersioned}


class Seen(NamedTuple):
    """What a consumer's result holds, by the result's own protocols."""

    shape: tuple[int, ...]
    dtype: tuple[int, int, int]
    elements: list[bytes]
    address: int
    read_only: bool | None
    """None: the result has no way to say it."""


def observe(result: Any) -> Seen:
    """Reads a result by its own `__dlpack__`, else by whatever dlshim takes."""
    read_only = None
    try:
        with memoryview(result) as buffer:
            read_only = buffer.readonly
    except Exception:
        pass
    why = []
    for give in (
        lambda: result.__dlpack__(max_version=(1, 3)),
        lambda: result.__dlpack__(),
        lambda: _by_dlshim(result),
    ):
        try:
            capsule = give()
            view = caps.look(capsule)
            if view.device[0] not in (1, 3, 11, 13):
                raise NotApplicable(f"the result is on device {view.device}")
            if read_only is None and view.versioned:
                read_only = view.readonly
            elements = view.elements() if view.data or 0 in view.shape else []
            return Seen(view.shape, view.dtype, elements, view.element_zero, read_only)
        except NotApplicable as reason:
            why.append(str(reason))
        except Exception as error:
            why.append(said(error))
    raise NotApplicable(f"the result, of type {type(result).__name__}, cannot be read: {why[-1]}")


def _by_dlshim(result: Any) -> Any:
    return its_own(WITH_DLSHIM).to_capsule(result, max_version=(1, 0))


WITH_DLSHIM = "a result without `__dlpack__` is read by dlshim"


def its_own(why: str) -> Any:
    """dlshim, which the kit has two uses for and does without otherwise."""
    try:
        return importlib.import_module("dlshim")
    except ImportError as error:
        raise NotApplicable(f"{why}, which is not installed: pip install dlshim") from error


class Refused(NamedTuple):
    kind: type[BaseException]
    text: str
    cause: BaseException | None
    """What the exception says it comes from (``raise ... from cause``)."""


class OddDtype(Legacy):
    """What any consumer refuses."""

    def __init__(self) -> None:
        super().__init__(dtype=(99, 8, 1))


class UnknownDevice(Versioned):
    """The same."""

    def __init__(self) -> None:
        super().__init__(device=(99, 0))


def at_once(consume: Any, subject: Any, keywords: dict[str, Any]) -> Any:
    return consume(subject, **keywords)


def after_refusals(consume: Any, subject: Any, keywords: dict[str, Any]) -> Any:
    for refused in (OddDtype(), UnknownDevice(), object()):
        with contextlib.suppress(Exception):
            consume(refused)
    return consume(subject, **keywords)


def on_another_thread(consume: Any, subject: Any, keywords: dict[str, Any]) -> Any:
    return on_a_thread(lambda: consume(subject, **keywords))


def once_more(consume: Any, subject: Any, keywords: dict[str, Any]) -> Any:
    subject.again = True
    try:
        subject.first = consume(subject, **keywords)  # whose end would end the memory of both
    finally:
        subject.again = False
    return consume(subject, **keywords)


#: When and where an object is imported, one step beside "at once".
HOW = {
    "after refusals": after_refusals,
    "on a thread": on_another_thread,
    "once more": once_more,
}


class Stopped(BaseException):
    """What only an exception is that a double raises and no handler of `Exception` catches."""


class Interrupted(Stopped, KeyboardInterrupt):
    """Ctrl-C."""


class Exits(Stopped, SystemExit):
    """``sys.exit()``."""


class Trial:
    """One import: what the consumer made of a double, or how it refused it."""

    def __init__(self, consumer: Consumer, array: Any, how: str = "", **keywords: Any) -> None:
        self.array = array
        self.left: list[str] = []
        """The names that the capsules have afterwards."""
        self.result: Any = None
        self.refused: Refused | None = None
        try:
            subject = self._subject(consumer.wants)
            self.result = HOW.get(how, at_once)(consumer.consume, subject, keywords)
        except (Exception, Stopped) as error:
            self.refused = Refused(type(error), said(error), error.__cause__)
        self.left = [caps.name_of(capsule) for capsule in array.given]
        array.given.clear()

    def _subject(self, wants: str) -> Any:
        if wants == "object":
            return self.array
        versioned = isinstance(self.array, Versioned | VersionedAlways)
        if versioned != (wants == "versioned capsule"):
            raise_not = "1.x" if versioned else "0.x"
            raise _NotAsked(f"the consumer takes no capsules of DLPack {raise_not}")
        keywords = {"max_version": (1, 0)} if versioned else {}
        return self.array.__dlpack__(**keywords)

    @property
    def made(self) -> caps.Made:
        """The producer's side of what was consumed last."""
        if not self.array.exports:
            raise NotApplicable("the consumer never asked for a capsule")
        return self.array.last

    def taken(self) -> Trial:
        """Itself; NotApplicable where the consumer refuses."""
        if self.refused:
            raise NotApplicable(f"the consumer refuses: {self.refused.text}")
        return self

    def finish(self) -> caps.Made:
        """Drops the result, and everything that leads to it."""
        self.result = None
        if not self.made.deleted:  # a cycle may hold the result
            gc.collect()
        return self.made


class _NotAsked(NotApplicable):
    pass


def narrow(consumer: Consumer, array: Any) -> None:
    """Gives the double a dtype that the consumer is said to take; NotApplicable where it has none.
    Descriptions that mean nothing, which are tuples, stay as they are."""
    if not consumer.dtypes or not isinstance(array.dtype, str):
        return
    dtype = consumer.usual(array.dtype)
    if dtype not in consumer.dtypes:
        raise NotApplicable(f"the target is said to take {', '.join(consumer.dtypes)} alone")
    if dtype != array.dtype:
        items = array.byte_offset // caps.itemsize_of(array.dtype)
        array.dtype, array.byte_offset = dtype, items * caps.itemsize_of(dtype)
        array.memory = aligned(caps.filled(array.shape, dtype, array.strides, array.start))


PLAIN = (2, 3)  # the shape of doubles where a check names none


def trial(consumer: Consumer, array: Any, how: str = "", **keywords: Any) -> Trial:
    if how == "once more":
        objects_only(consumer)
    narrow(consumer, array)
    if consumer.one_dimension and (array.shape, array.strides) == (PLAIN, (3, 1)):
        array.shape, array.strides = (6,), (1,)
    if consumer.one_dimension and len(array.shape) != 1 and not array.null_strides:
        raise NotApplicable("the consumer takes one dimension alone")
    array.flat = consumer.flat
    made = Trial(consumer, array, how, **keywords)
    if made.refused and made.refused.kind is _NotAsked:
        raise NotApplicable(made.refused.text)
    if not made.refused and never_asked(array):
        raise NotApplicable(NEVER_ASKS)
    return made


NEVER_ASKS = (
    "the consumer takes an object with `__dlpack__`, and never asks it for a capsule: it reads it "
    "by another protocol, or keeps it as it is"
)


def never_asked(array: Any) -> bool:
    """Whether no method of the double was called, nor a function of its C table."""
    asked = [array.exports, array.calls, array.device_calls]
    return not any([*asked, getattr(array, "table_calls", 0), getattr(array, "table_borrows", 0)])


def numbers(dtype: tuple[int, int, int], elements: list[bytes]) -> list[Any]:
    return [caps.decode(dtype, raw) for raw in elements]


def same_values(seen: Seen, array: Any, what: str) -> None:
    """The result has the double's shape and values; another dtype must hold the same numbers."""
    dtype = caps.dtype_tuple(array.dtype)
    meant = caps.offsets(array.shape, array.strides)
    wanted = [caps.encode(dtype, array.start + offset) for offset in meant]
    if array.flat:
        if meant != sorted(meant):
            raise NotApplicable("the result is bytes in no order")
        insist(b"".join(seen.elements) == b"".join(wanted), f"{what}: other bytes were read")
        return
    insist(seen.shape == array.shape, f"{what}: shape {array.shape} became {seen.shape}")
    if seen.dtype == dtype:
        found = seen.elements == wanted
    else:
        found = numbers(seen.dtype, seen.elements) == numbers(dtype, wanted)
    if not found:
        raise Broken(
            f"{what}: {numbers(seen.dtype, seen.elements)[:8]} was read of dtype {seen.dtype}, "
            f"where {numbers(dtype, wanted)[:8]} of dtype {dtype} lies"
        )


# ---- what the checks of several subjects share --------------------------------------------------

SOME = ("bool", "int32", "float32", "float64", "complex64")
#: One for each size of elements.
SIZES = ("float32", "bool", "int16", "float64", "complex128")
FEW = ("float32", "int64")

#: What a struct may lawfully say; the fields of a double.
LAYOUTS: dict[str, dict[str, Any]] = {
    name: ANY[name]
    for name in (
        "plain", "scalar", "empty", "strides of another order", "broadcast", "rows with gaps",
        "every second item", "gaps around an extent of one", "odd stride on an extent of one",
    )
} | {
    "vector": {"shape": (5,)},
    "cube": {"shape": (2, 3, 4)},
    "cube of another order": {"shape": (2, 3, 4), "strides": (1, 8, 2)},
    "column": {"shape": (5, 1)},
    "reversed": {"shape": (5,), "strides": (-1,), "start": 4},
    "rows reversed": {"strides": (-3, 1), "start": 3},
    "all alike": {"strides": (0, 0)},
    "begins at the second element": {"shape": (5,), "start": 1},
    "one dimension without elements": {"shape": (0,)},
    "eight dimensions": {"shape": (1, 2, 1, 2, 1, 2, 1, 1)},
    "thirty-two dimensions": {"shape": (2, *[1] * 14, 3, *[1] * 15, 2)},
}  # fmt: skip

VECTORS = (2, 32, 4)  # four floats are one element

REFUSABLE: dict[str, dict[str, Any]] = {
    "vectors": {"dtype": VECTORS},
    "unknown code": {"dtype": (99, 8, 1)},
    "reversed": LAYOUTS["reversed"],
    "broadcast": LAYOUTS["broadcast"],
    "rows with gaps": LAYOUTS["rows with gaps"],
    "unknown device": {"device": (99, 0)},
    "opaque": {"dtype": (3, 64, 1)},
}


def edition_is_taken(c: Consumer, edition: str, dtype: str = "float32") -> None:
    """NotApplicable where not even a plain array of this edition is taken: other rules say so."""
    if refused := trial(c, EDITIONS[edition](dtype=dtype)).refused:
        raise NotApplicable(f"a plain {dtype} is refused, too: {refused.text}")


def is_taken(c: Consumer, array: Any, what: str) -> None:
    made = trial(c, array)
    insist(not made.refused, f"{what}: {made.refused and made.refused.text}")
    same_values(observe(made.result), array, what)


def objects_only(c: Consumer) -> None:
    if c.wants != "object":
        raise NotApplicable("the consumer takes capsules, and asks nobody")


def bound_by_from_dlpack(c: Consumer) -> None:
    objects_only(c)
    if not c.is_from_dlpack:
        raise NotApplicable("the function is not the standard's from_dlpack")


def calls_of(c: Consumer, array: Any) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    objects_only(c)
    trial(c, array)
    if not array.calls:
        raise NotApplicable("the consumer never calls __dlpack__")
    return array.calls


def read_rightly(c: Consumer, array: Any, what: str) -> None:
    made = trial(c, array).taken()
    same_values(observe(made.result), array, what)


def versioned_is_taken(c: Consumer, array: Any, what: str) -> Trial:
    """What only a struct of DLPack 1.x can say."""
    edition_is_taken(c, "versioned", array.dtype)
    made = trial(c, array)
    if not array.exports or array.last.name != caps.VERSIONED:
        raise NotApplicable("the consumer asks for DLPack 0.x")
    insist(not made.refused, f"{what}: {made.refused and made.refused.text}")
    return made


def with_copy(c: Consumer, array: Any, copy: bool, **keywords: Any) -> Trial:
    bound_by_from_dlpack(c)
    if trial(c, Versioned(), copy=None, **keywords).refused:
        raise NotApplicable("the consumer does not know the keyword copy")
    return trial(c, array, copy=copy, **keywords)


def device_of_results(c: Consumer) -> Any:
    """What the consumer takes as `device=` for the device on which its results are anyhow."""
    bound_by_from_dlpack(c)
    made = trial(c, Versioned()).taken()
    if (device := getattr(made.result, "device", None)) is None or callable(device):
        raise NotApplicable("the result does not tell its device as `device=` takes it")
    if refused := trial(c, Versioned(), device=device).refused:
        raise NotApplicable(f"device={device!r} is refused: {refused.text}")
    return device
