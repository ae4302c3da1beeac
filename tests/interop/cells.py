"""One cell: an array is made, handed over, looked at; then either side is dropped first and the
other looked at again; at the end nothing may be left."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from .cases import DType, Layout, truth
from .consumers import Consumer, Seen
from .model import Expected, expect, told
from .producers import Producer, Unmakeable

# What can come out. The first two are exchanges that work.
OK, COPIED = "ok", "copied"
ERROR, WRONG, DANGLING, LEAK, HARMED = "error", "wrong", "dangling", "leak", "harmed"
NA, CRASH, HANG = "n/a", "crash", "hang"
WORKS = (OK, COPIED)


@dataclass
class Outcome:
    kind: str
    detail: str = ""
    bases: tuple[str, ...] = ()
    """Names of the exception's class and its bases."""
    writable: bool | None = None
    expected: Expected | None = None
    warned: tuple[str, ...] = ()
    """Of what the exchange has warned: category and text, each once."""

    @property
    def works(self) -> bool:
        return self.kind in WORKS


class Shim:
    """How the array gets from producer to consumer."""

    name = "bare"

    def __init__(self) -> None:
        self.setup()

    def setup(self) -> None:
        pass

    def give(self, producer: Producer, consumer: Consumer, made):
        obj = producer.bare(made)
        if consumer.capsule and not producer.capsule and obj is made.obj:
            return obj.__dlpack__()
        return obj

    def live(self) -> int:
        """How many exports the shim itself still holds open."""
        return 0


class Upgraded(Shim):
    name = "upgraded"

    def setup(self) -> None:
        import dlshim
        from dlshim import _core

        self.dlshim, self.counters = dlshim, _core._counters

    def give(self, producer, consumer, made):
        if consumer.capsule:
            return self.dlshim.to_capsule(made.obj)
        if consumer.buffer:
            return self.dlshim.from_dlpack(made.obj)
        return self.dlshim.upgrade(made.obj)

    def live(self):
        return self.counters()["live"]


class ThroughTensor(Upgraded):
    """By way of ``dlshim.Tensor``: taken once, exported again."""

    name = "tensor"

    def give(self, producer, consumer, made):
        tensor = self.dlshim.from_dlpack(made.obj)
        return self.dlshim.to_capsule(tensor) if consumer.capsule else tensor


class NoCure(Exception):
    """The plain call works, or its error names no option of dlshim alone, or it has used a raw
    capsule up."""


class Cured(Upgraded):
    """With the first option that the error of the plain call names, dlshim's or the library's."""

    name = "cured"

    def give(self, producer, consumer, made):
        from dlshim.trial.ways import options_in

        try:
            consumer.take(super().give(producer, consumer, made))
        except Exception as error:
            said = str(error)
        else:
            said = ""
        options = [each for each in options_in(said) if "share" not in each]
        # copy=None is for the consumer's own call, in place of its copy=False.
        if not options or "copy=None" in said or type(made.obj).__name__ == "PyCapsule":
            raise NoCure
        call = {"capsule": "to_capsule", "buffer": "from_dlpack"}
        name = next((call[kind] for kind in call if getattr(consumer, kind)), "upgrade")
        return eval(f"dlshim.{name}(x, {options[0]})", {"dlshim": self.dlshim, "x": made.obj})


class PyDlpack(Shim):
    """A peer: the package pydlpack, which wraps an object in the same place."""

    name = "pydlpack"

    def setup(self):
        import dlpack

        self.wrap = dlpack.asdlpack

    def give(self, producer, consumer, made):
        wrapped = self.wrap(made.obj)
        return wrapped.__dlpack__() if consumer.capsule else wrapped


class CtypesDlpack(Shim):
    """A peer: ctypes-dlpack, which takes an object's struct at once and exports it anew."""

    name = "ctypes-dlpack"

    def setup(self):
        from ctypes_dlpack import DLPackArray, array_as_dlpack

        self.wrap = lambda x: DLPackArray(array_as_dlpack(x, max_version=(1, 0)))

    def give(self, producer, consumer, made):
        wrapped = self.wrap(made.obj)
        return wrapped.__dlpack__() if consumer.capsule else wrapped


#: Packages that do a part of what dlshim does, run between the same libraries.
PEERS = (PyDlpack, CtypesDlpack)
SHIMS = {shim.name: shim for shim in (Shim, Upgraded, ThroughTensor, Cured, *PEERS)}


def run(producer: Producer, consumer: Consumer, dtype: DType, layout: Layout, shim: Shim):
    try:
        made = producer.make(dtype, layout)
    except Unmakeable as error:
        return Outcome(NA, str(error))
    facts = told(made.facts, consumer, shim.name)
    expected = expect(facts, consumer, shim.name)
    cell = _Cell(consumer, shim, dtype, layout, facts)
    before = shim.live()
    outcome = cell.producer_first(producer, made)
    made = None
    if outcome.works:
        outcome = cell.consumer_first(producer, producer.make(dtype, layout), outcome)
    left = left_behind(cell, shim, before)
    if left:
        outcome = Outcome(LEAK, left)
    outcome.expected = expected
    outcome.warned = tuple(sorted(cell.warned))
    return outcome


class _Cell:
    def __init__(self, consumer, shim, dtype, layout, facts):
        self.consumer, self.shim, self.facts = consumer, shim, facts
        self.want, self.source = consumer.want(dtype, layout), truth(dtype, layout)
        self.watched: list = []
        self.warned: set[str] = set()

    def producer_first(self, producer, made) -> Outcome:
        """Hand over, look, drop the producer's side, look again."""
        self.watch(made)
        try:
            with self.heard():
                given = self.shim.give(producer, self.consumer, made)
                result = self.consumer.take(given)
        except Exception as error:
            return failed(error)
        try:
            seen = self.consumer.look(result)
        except Exception as error:
            return Outcome(WRONG, "cannot be read: %s" % failed(error).detail)
        outcome = self.compare(seen)
        if not outcome.works:
            return outcome
        made.obj = made.read = None
        del given, made, seen
        scribble(len(self.want))
        if self.consumer.look(result).data != self.want:
            return Outcome(DANGLING, "other values after the producer was dropped")
        return outcome

    def consumer_first(self, producer, made, outcome) -> Outcome:
        """Hand over, drop the consumer's side, read the source."""
        self.watch(made)
        result = self.consumer.take(self.shim.give(producer, self.consumer, made))
        del result
        scribble(len(self.want))
        if made.read is not None and made.read() != self.source:
            return Outcome(HARMED, "the source has other values after the consumer was dropped")
        return outcome

    def watch(self, made) -> None:
        if made.watch is not None:
            self.watched.append(made.watch)

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Every warning counts, also one that has been given before."""
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                yield
            finally:
                for each in told:
                    text = " ".join(str(each.message).split())
                    self.warned.add("%s: %s" % (each.category.__name__, text[:200]))

    def compare(self, seen: Seen) -> Outcome:
        facts = self.facts
        if self.consumer.keeps_shape:
            shape = (facts.layout.size,) if self.consumer.flat else facts.layout.shape
            if seen.shape != shape:
                return Outcome(WRONG, "shape %s instead of %s" % (seen.shape, shape))
            dtype = self.consumer.calls.get(facts.dtype.name, facts.dtype.name)
            if seen.dtype != dtype:
                return Outcome(WRONG, "%s instead of %s" % (seen.dtype, dtype))
        if seen.data != self.want:
            return Outcome(WRONG, "values")
        same = seen.address == facts.address or not facts.layout.size or facts.address is None
        return Outcome(OK if same else COPIED, writable=seen.writable)


def failed(error: BaseException) -> Outcome:
    bases = tuple(c.__name__ for c in type(error).__mro__ if c not in (BaseException, object))
    text = " ".join(str(error).split())
    return Outcome(ERROR, "%s: %s" % (type(error).__name__, text[:200]), bases)


def scribble(size: int) -> None:
    """Memory that was freed is overwritten (the allocator does it, see ``runner.ENVIRONMENT``);
    small blocks that Python and NumPy keep for themselves are taken up again and filled here."""
    for bytes_ in (size, 2176, 4096):
        np.full(max(bytes_, 16), 0xA5, "u1")
        bytearray(b"\xa5" * max(bytes_, 16))


def left_behind(cell: _Cell, shim: Shim, before: int) -> str:
    def left():
        alive = sum(ref() is not None for ref in cell.watched)
        exports = shim.live() - before
        if alive or exports:
            return "%d sources alive, %d exports not released" % (alive, exports)
        return ""

    if not left():
        return ""
    gc.collect()
    for _ in cell.consumer.waits():
        if not left():
            break
    return left()


def judge(outcome: Outcome) -> str:
    """Why this upgraded cell is red; "" if it is as expected."""
    want = outcome.expected
    if outcome.kind == NA:
        return ""
    if want is None:
        return outcome.kind
    if outcome.kind == ERROR:
        if want.works:
            return "refused: " + outcome.detail
        if not set(outcome.bases) & set(want.raises):
            return "refused (%s) with another error: %s" % (want.row, outcome.detail)
        return ""
    if (outcome.kind == WRONG and want.changes) or (outcome.kind == LEAK and want.leaks):
        return ""
    if not outcome.works:
        return "%s: %s" % (outcome.kind, outcome.detail)
    if not want.works:
        return "arrived although %s" % want.row
    if want.shares is not None and want.shares != (outcome.kind == OK):
        return "copied" if want.shares else "shared, a copy was expected"
    unknown = want.writable is None or outcome.writable is None
    if not unknown and want.writable != outcome.writable:
        return "read-only" if want.writable else "writable"
    return ""
