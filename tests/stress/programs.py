"""The programs: each makes what the threads share, and says what they do with it."""

from __future__ import annotations

import copy
import ctypes
import os
import pickle
import random
import signal
from collections import deque
from collections.abc import Callable
from typing import Any

import dlshim
from dlshim import _core
from doubles.ctable import Table

SHAPE, VALUES = (2, 3), [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]

Work = Callable[[], object]
PROGRAMS: dict[str, Callable[[], list[Work]]] = {}


def program(make: Callable[[], list[Work]]) -> Callable[[], list[Work]]:
    """Makes what the threads share, and returns what they do with it, in turns."""
    PROGRAMS[make.__name__] = make
    return make


# ---- things to share ------------------------------------------------------------------------


Floats = ctypes.c_float * SHAPE[1] * SHAPE[0]


def floats() -> Any:
    """A buffer. Those of arrays and memoryviews are counted without a lock by CPython 3.13."""
    return Floats((0, 1, 2), (3, 4, 5))


def tensor(**options: Any) -> Any:
    return dlshim.from_dlpack(floats(), **options)


def class_of_producers(name: str = "Wrapped") -> type:
    """A new class with the protocol in Python. What it exports is a Tensor's."""

    def __init__(self: Any, held: Any = None) -> None:
        self.held = tensor() if held is None else held

    def __dlpack__(self: Any, **keywords: Any) -> Any:
        return self.held.__dlpack__(**keywords)

    def __dlpack_device__(self: Any) -> tuple[int, int]:
        return (1, 0)

    methods = (__init__, __dlpack__, __dlpack_device__)
    return type(name, (), {method.__name__: method for method in methods})


def class_of_holders() -> type:
    """A new class that has an array, and no protocol."""

    def __init__(self: Any) -> None:
        self.held = floats()

    return type("Holds", (), {"__init__": __init__})


class Shared:
    """One thing that all threads use, and that any of them replaces now and then."""

    def __init__(self, make: Callable[[], Any], often: float = 0.25) -> None:
        self.make, self.often, self.thing = make, often, make()

    def get(self) -> Any:
        if random.random() < self.often:
            self.thing = self.make()
        return self.thing


def check(taken: Any) -> None:
    assert memoryview(taken).tolist() == VALUES, "the memory is not what was exported"


def consume(producer: Any, **asked: Any) -> None:
    """A consumer: it asks for a capsule and takes it."""
    check(dlshim.from_dlpack(producer.__dlpack__(**asked)))


VERSIONED = {"max_version": (1, 0)}


# ---- the programs ---------------------------------------------------------------------------


@program
def upgrade() -> list[Work]:
    """upgrade() of sources that are shared, and of new ones of the same types"""
    producers = class_of_producers()
    shared = [floats(), producers(), tensor()]

    def old() -> None:
        for x in shared:
            consume(dlshim.upgrade(x), **VERSIONED)

    def new() -> None:
        kept = [dlshim.upgrade(make()) for make in (floats, producers, tensor) for _ in range(4)]
        consume(kept[-1])
        consume(dlshim.upgrade(dlshim.upgrade(kept[0])))

    return [old, new]


@program
def exchange() -> list[Work]:
    """all ways to ask one and the same Producer"""
    producers = class_of_producers()
    makers = (producers, floats, tensor)
    shared = [Shared(lambda make=make: dlshim.upgrade(make())) for make in makers]

    def ask() -> None:
        for one in shared:
            producer = one.get()
            consume(producer)
            consume(producer, **VERSIONED)
            assert producer.__dlpack_device__() == (1, 0)
            consume(producer, stream=None, max_version=(1, 1), dl_device=None, copy=None)

    return [ask]


@program
def from_dlpack() -> list[Work]:
    """from_dlpack() of one source, of its Producer and of a Tensor"""
    source = Shared(class_of_producers())
    shared = [source, Shared(tensor), Shared(lambda: dlshim.upgrade(source.get()))]

    def take() -> None:
        for one in shared:
            taken = dlshim.from_dlpack(one.get())
            check(taken)
            check(dlshim.from_dlpack(taken))

    return [take]


@program
def attributes() -> list[Work]:
    """every attribute and every protocol of one Tensor, from its first export on"""
    shared = Shared(tensor, 0.5)

    def look() -> None:
        t = shared.get()
        assert t.shape == SHAPE and t.strides == (3, 1) and t.ndim == 2 and t.size == 6
        assert str(t.dtype) == "float32" and t.device == (1, 0) and t.nbytes == 24
        assert t.__array_interface__["shape"] == SHAPE
        assert t.tobytes() == memoryview(t).tobytes()
        assert "float32" in repr(t)

    def export() -> None:
        t = shared.get()
        consume(t)
        consume(t, **VERSIONED)
        check(t.__copy__())
        assert t.__dlpack_device__() == (1, 0)

    return [look, export]


@program
def release() -> list[Work]:
    """exports that one thread makes and another frees, after their source has gone"""
    producers = class_of_producers()
    shared = Shared(tensor, 0.5)
    made: deque[Any] = deque(maxlen=64)

    def make() -> None:
        t = shared.get()
        made.append(t.__dlpack__())
        made.append(dlshim.from_dlpack(t))
        made.append(dlshim.upgrade(producers(t)).__dlpack__(**VERSIONED))
        made.append(dlshim.upgrade(bytearray(24)))

    def free() -> None:
        for _ in range(4):
            try:
                made.pop()
            except IndexError:
                return

    return [make, free]


@program
def eviction() -> list[Work]:
    """plans that go while they are used: types die, and lose __dlpack__ or their objects"""
    shared = Shared(lambda: class_of_producers()(), 0.1)

    def use() -> None:
        x = shared.get()
        consume(dlshim.upgrade(x), **VERSIONED)
        check(dlshim.from_dlpack(x))

    def meet() -> None:
        consume(dlshim.upgrade(class_of_producers()()), **VERSIONED)

    def lose() -> None:
        x = class_of_producers()()
        producer = dlshim.upgrade(x)
        consume(producer)
        del type(x).__dlpack__
        try:
            producer.__dlpack__()
        except (BufferError, dlshim.UnsupportedObjectError):
            return
        raise AssertionError("a type without __dlpack__ was exported")

    def forget() -> None:
        _core._hook("forget_plans")
        use()

    class Other:
        pass

    def leave() -> None:
        held = tensor()

        def found(self: Any, name: str) -> Any:
            self.__class__ = Other
            if name == "__dlpack__":
                return held.__dlpack__
            raise AttributeError(name)

        try:
            dlshim.from_dlpack(type("Leaves", (), {"__getattr__": found})())
        except (BufferError, dlshim.UnsupportedObjectError):
            return
        raise AssertionError("an object that has become an Other was exported")

    kinds = Shared(class_of_producers)
    pairs = Shared(lambda: (x := kinds.get()(), dlshim.upgrade(x)), 0.1)

    def morph() -> None:
        x, producer = pairs.get()
        x.__class__ = kinds.get()
        consume(producer, **VERSIONED)

    return [use, meet, lose, forget, leave, morph]


@program
def inspect() -> list[Work]:
    """inspect() beside exchanges of the same objects"""
    makers = (class_of_producers(), tensor, lambda: dlshim.upgrade(floats()))
    shared = [Shared(make) for make in makers]

    def look() -> None:
        for one in shared:
            assert str(dlshim.inspect(one.get()))

    def use() -> None:
        for one in shared:
            check(dlshim.from_dlpack(one.get()))

    return [look, use]


@program
def to_capsule() -> list[Work]:
    """to_capsule() in both generations; some of the capsules are never consumed"""
    shared = [Shared(class_of_producers()), Shared(tensor), Shared(floats)]

    def make() -> None:
        for one in shared:
            for version in (None, (0, 8), (1, 0)):
                capsule = dlshim.to_capsule(one.get(), max_version=version)
                if random.random() < 0.5:
                    check(dlshim.from_dlpack(capsule))

    return [make]


@program
def capsules() -> list[Work]:
    """raw capsules that threads share: one of them gets the memory, the others an error"""

    class Round:
        def __init__(self) -> None:
            versions = (None, (1, 0))
            self.capsules = [dlshim.to_capsule(tensor(), max_version=v) for v in versions * 4]
            self.takers: list[deque[int]] = [deque() for _ in self.capsules]

    shared = Shared(Round, 0.5)

    def take() -> None:
        this = shared.get()
        for capsule, takers in zip(this.capsules, this.takers, strict=True):
            try:
                taken = dlshim.from_dlpack(capsule)
            except BufferError:
                continue
            takers.append(1)
            assert len(takers) == 1, "a capsule was taken twice"
            check(taken)

    def look() -> None:
        for capsule in shared.get().capsules:
            report = dlshim.inspect(capsule)
            told = (report.capsule_state, report.shape)
            assert told in (("unconsumed", SHAPE), ("consumed", None)), told

    return [take, look]


@program
def table() -> list[Work]:
    """the C table: owned structs and borrowed views of one Producer and of one Tensor"""
    producers = class_of_producers()
    shared = [
        Shared(lambda: dlshim.upgrade(floats())),
        Shared(lambda: dlshim.upgrade(tensor())),
        Shared(lambda: dlshim.upgrade(producers())),
        Shared(tensor),
    ]
    tables = {cls: Table(cls) for cls in {type(one.get()) for one in shared}}

    def use() -> None:
        for one in shared:
            x = one.get()
            functions = tables[type(x)]
            assert functions.borrow(x).values() == [0, 1, 2, 3, 4, 5]
            with functions.owned(x) as imported:
                assert imported.values() == [0, 1, 2, 3, 4, 5]

    return [use]


@program
def copies() -> list[Work]:
    """one Producer that copies, and keeps the memory of its last copy; pickles"""
    producers = class_of_producers()
    shared = [
        Shared(lambda: dlshim.upgrade(producers(), copy=True), 0.1),
        Shared(lambda: dlshim.upgrade(floats(), align=4096), 0.1),
        Shared(lambda: dlshim.upgrade(producers()), 0.1),
    ]
    one = Shared(tensor)

    def make() -> None:
        for each in shared:
            consume(each.get(), **VERSIONED)
            consume(each.get(), copy=True)
            check(dlshim.from_dlpack(each.get(), copy=True))
        check(copy.deepcopy(one.get()))
        check(pickle.loads(pickle.dumps(one.get())))

    return [make]


@program
def caches() -> list[Work]:
    """what the module remembers of callers: new tuples of names and versions, options, dtypes"""
    producers = class_of_producers()
    shared = Shared(lambda: dlshim.upgrade(producers()))
    names = ("stream", "max_version", "dl_device", "copy")

    def ask() -> None:
        producer = shared.get()
        keywords = dict.fromkeys(random.sample(names, random.randrange(5)))
        if "max_version" in keywords:
            keywords["max_version"] = (random.randrange(2), random.randrange(3))
        consume(producer, **keywords)

    def options() -> None:
        changed = dlshim.upgrade(shared.get(), readonly=False, order="K")
        consume(dlshim.upgrade(changed, copy=random.choice((None, True))))
        assert "order" in repr(changed)

    def dtypes() -> None:
        t = dlshim.from_dlpack(shared.get())
        assert t.dtype == "float32" and hash(t.dtype) == hash(t.dtype)
        assert bool(dlshim.from_dlpack(bytearray(8)).dtype)

    return [ask, options, dtypes]


@program
def classes() -> list[Work]:
    """objects of decorated classes; classes that change, and that several threads decorate"""
    Inner = dlshim.producer(class_of_holders(), inner="held")
    Old = dlshim.producer(class_of_producers())

    class Own(Old):  # type: ignore[valid-type,misc]
        def __dlpack__(self, **keywords: Any) -> Any:
            return super().__dlpack__(**keywords)

    dlshim.producer(Own)
    shared = [Shared(Inner), Shared(Old), Shared(Own)]
    tables = {cls: Table(cls) for cls in (Inner, Old, Own)}

    bare = Shared(class_of_producers, 0.5)

    def decorate() -> None:
        cls = dlshim.producer(bare.get())
        consume(cls(), **VERSIONED)
        check(dlshim.from_dlpack(cls()))

    def use() -> None:
        for one in shared:
            x = one.get()
            consume(x)
            consume(x, **VERSIONED)
            check(dlshim.from_dlpack(x))
            assert x.__dlpack_device__() == (1, 0)
            with tables[type(x)].owned(x) as imported:
                assert imported.values() == [0, 1, 2, 3, 4, 5]

    def change() -> None:
        new = dlshim.producer(class_of_producers("New"))
        consume(new(), **VERSIONED)
        del new.__dlpack__
        consume(Own(new().held), **VERSIONED)

    return [use, use, change, decorate]


@program
def tracking() -> list[Work]:
    """track() that threads begin and stop while others export"""
    producers = class_of_producers()
    shared = [Shared(producers), Shared(tensor), Shared(floats)]

    def use() -> None:
        for one in shared:
            consume(dlshim.upgrade(one.get()), **VERSIONED)
            check(dlshim.from_dlpack(one.get()))

    def watch() -> None:
        size = random.randrange(1_000, 1_000_000)
        with dlshim.track():
            noted = dlshim.from_dlpack(bytearray(size))
            assert size in {made.nbytes for made in dlshim.live()}, "it was not noted"
            use()
            assert noted.nbytes == size

    return [use, watch]


@program
def forks() -> list[Work]:
    """forks beside exchanges of shared Tensors, new types and track(); the child does the same"""
    shared = Shared(tensor, 0.5)
    dlshim.track().stop()  # imported before the threads start

    def use() -> None:
        for _ in range(20):
            consume(shared.get())
            check(dlshim.from_dlpack(class_of_producers()(shared.get())))
            dlshim.track().stop()

    def fork() -> None:
        if not hasattr(os, "fork"):
            return
        # What CPython locks for itself (a dict that is written, say) is not touched in the child.
        one = shared.get()
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            status = 1
            try:
                consume(one)
                check(dlshim.from_dlpack(class_of_producers()(one)))
                dlshim.track().stop()
                status = 0
            finally:
                os._exit(status)
        ended = os.waitpid(child, 0)[1]
        assert ended == 0, f"a child failed, or hangs: its status is {ended}"

    return [fork, use, use, use]
