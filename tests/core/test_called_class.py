"""A call of a decorated class's method goes on from the class on which the method was found.

So `super()` leads to what Python would call without the decorator, whatever stands between; and a
call that another greenlet or thread makes meanwhile is no part of it.
"""

from __future__ import annotations

import array
import dataclasses
import functools
import gc
import itertools
import os
import pickle
import sys
import threading
import weakref
from unittest import mock

import pytest

import dlshim
from doubles import child, ctable, gil
from doubles.asking import walk
from doubles.threads import together
from sampling import every

SIX = [0, 1, 2, 3, 4, 5]


def memory_of(x):
    return memoryview(dlshim.from_dlpack(x)).tolist()


# Every way to ask for an export, and for the device.
WAYS = {
    "legacy": lambda x: x.__dlpack__(),
    "versioned": lambda x: x.__dlpack__(max_version=(1, 0)),
    "C table": lambda x: ctable.Table(type(x)).owned(x),
    "upgrade": lambda x: dlshim.upgrade(x).__dlpack__(max_version=(1, 0)),
    "upgrade with options": lambda x: dlshim.upgrade(x, order="C").__dlpack__(),
    "from_dlpack": dlshim.from_dlpack,
    "from_dlpack of a Producer": lambda x: dlshim.from_dlpack(dlshim.upgrade(x)),
    "to_capsule": dlshim.to_capsule,
}
DEVICE_WAYS = {
    "method": lambda x: x.__dlpack_device__(),
    "upgrade": lambda x: dlshim.upgrade(x).__dlpack_device__(),
}


def export(values=SIX):
    return dlshim.upgrade(array.array("i", values)).__dlpack__()


# --- which method comes next ---------------------------------------------------------------------


class Root:
    """The last class of each: nothing is behind it."""

    def __init__(self):
        self.calls, self.device_calls = [], []

    def __dlpack__(self, **_):
        self.calls.append("Root")
        return export()

    def __dlpack_device__(self):
        self.device_calls.append("Root")
        return (1, 0)


def class_of(name, bases, method):
    """A class without methods, or whose methods export, or call super()."""

    def dlpack(self, **asked):
        self.calls.append(name)
        return super(cls, self).__dlpack__(**asked) if method == "super" else export()

    def device(self):
        self.device_calls.append(name)
        return super(cls, self).__dlpack_device__() if method == "super" else (1, 0)

    own = {} if method == "none" else {"__dlpack__": dlpack, "__dlpack_device__": device}
    cls = type(name, bases, own)
    return cls


def diamond(methods):
    """D, whose bases are A and B, whose base is Z; and all four."""
    z, a, b, d = methods
    top = class_of("Z", (Root,), z)
    left, right = class_of("A", (top,), a), class_of("B", (top,), b)
    last = class_of("D", (left, right), d)
    return last, (top, left, right, last)


def check_diamond(case):
    methods, decorated, order = case
    last, classes = diamond(methods)
    plain = last()
    plain.__dlpack__()
    plain.__dlpack_device__()
    for cls, change in list(zip(classes, decorated, strict=True))[::order]:
        if change:
            dlshim.producer(cls)
    for ways, name in ((WAYS, "calls"), (DEVICE_WAYS, "device_calls")):
        for way, ask in ways.items():
            if way == "C table" and not decorated[-1]:
                continue  # of a base, perhaps: it is the same way, or there is none
            for _ in range(2):
                x = last()
                ask(x)
                wanted = getattr(plain, name)
                assert getattr(x, name) == wanted, (way, getattr(x, name), wanted)


@pytest.mark.parametrize("order", [1, -1], ids=["bases first", "bases last"])
@pytest.mark.parametrize("d", ["super", "own", "none"])
def test_every_diamond_is_called_as_without_the_decorator(d, order):
    """A method of a class that is not decorated, between two that are, ran twice."""
    methods = itertools.product(["super", "own", "none"], repeat=3)
    cases = itertools.product(methods, itertools.product([True, False], repeat=4))
    walk(every(9, [((*m, d), decorated, order) for m, decorated in cases]), check_diamond)


def test_what_the_method_between_does_to_the_data_is_done_once():
    """It was done twice: the values were wrong."""

    @dlshim.producer
    class Base(Root):
        def __dlpack__(self, **_):
            return export([1, 2, 3])

    class Twice(Base):
        def __dlpack__(self, **_):
            return export([2 * value for value in memory_of(super().__dlpack__())])

    @dlshim.producer
    class Top(Twice):
        def __dlpack__(self, **asked):
            return super().__dlpack__(**asked)

    for cls in (Twice, Top):
        assert memory_of(cls()) == memory_of(dlshim.upgrade(cls())) == [2, 4, 6]
        assert memory_of(cls().__dlpack__()) == [2, 4, 6]


def test_super_reaches_the_inner_array_of_a_base():
    """For the export, and for the device alone, whatever method of the subclass stands before."""

    @dlshim.producer(inner="memory")
    class Inner(Root):
        memory = array.array("i", SIX)

        def __dlpack_device__(self):
            raise AssertionError("the inner array answers")

    class Between(Inner):
        def __dlpack_device__(self):
            self.device_calls.append("Between")
            return super().__dlpack_device__()

    @dlshim.producer
    class Top(Between):
        def __dlpack__(self, **asked):
            self.calls.append("Top")
            return super().__dlpack__(**asked)

    class Last(Top):
        def __dlpack__(self, **_):
            self.calls.append("Last")
            return super().__dlpack__()

    for cls, calls in ((Top, ["Top"]), (dlshim.producer(Last), ["Last", "Top"])):
        for ask in (memory_of, lambda x: memory_of(x.__dlpack__())):
            x = cls()
            assert ask(x) == SIX and x.calls == calls
        x = cls()
        assert x.__dlpack_device__() == (1, 0) and x.device_calls == ["Between"]


@pytest.mark.parametrize("first", ["the subclass", "the base"])
def test_a_base_that_is_decorated_after_an_export(first):
    """The plan of before is replaced."""

    class Left(Root):
        pass

    @dlshim.producer
    class Right(Root):
        def __dlpack__(self, **_):
            return export([1])

    class Both(Left, Right):
        pass

    x = Both()
    assert memory_of(x) == [1] and memory_of(x.__dlpack__()) == [1]
    Left.__dlpack__ = lambda self, **_: export([2])
    dlshim.producer(Left)
    if first == "the subclass":
        dlshim.producer(Both)
    for _ in range(3):
        assert memory_of(x) == [2] and memory_of(x.__dlpack__(max_version=(1, 0))) == [2]


class Counted:
    """A method that counts how often it was met by a search in the classes."""

    def __init__(self, function):
        self.function, self.searches = function, 0

    def __get__(self, x, owner=None):
        return self.function.__get__(x, owner)

    @property
    def __isabstractmethod__(self):
        self.searches += 1
        return False


def counted():
    """A base with counted methods, and a class that is decorated and inherits them."""

    class Base(Root):
        __dlpack__ = Counted(Root.__dlpack__)
        __dlpack_device__ = Counted(Root.__dlpack_device__)

    class First(dlshim.ProducerMixin, Base):
        pass

    class Last(Base, dlshim.ProducerMixin):
        pass

    return vars(Base)["__dlpack__"], vars(Base)["__dlpack_device__"], (First, Last)


@pytest.mark.parametrize("ways", [WAYS, DEVICE_WAYS], ids=["export", "device"])
def test_the_search_of_the_classes_is_made_once_for_a_type(ways):
    """Whatever is asked first.  Else it was made for each export: ten times as slow."""
    for ask in ways.values():
        dlpack, device, classes = counted()
        for cls in classes:
            x = cls()
            ask(x)
            met = dlpack.searches, device.searches
            for _ in range(4):
                ask(x)
            assert (dlpack.searches, device.searches) == met
            ask(type("Sub", (cls,), {})())
            assert dlpack.searches + device.searches > sum(met)  # another type


def test_a_base_whose_method_is_replaced_after_an_export():
    """mock.patch does that.  The plan that was kept is made anew, and then once more."""

    class Base(Root):
        def __dlpack__(self, **_):
            return export([1])

    class Between(Base):
        pass

    @dlshim.producer
    class Top(Between):
        pass

    @dlshim.producer
    class Above(Top):
        pass

    def two(self, **_):
        return export([2])

    def three(self):
        return (10, 1)  # a device whose type is no host's

    for cls in (Top, Above):
        for owner in (Base, Between):
            for ask in WAYS.values():
                ask(cls())
            with mock.patch.object(owner, "__dlpack__", two, create=True):
                for way, ask in WAYS.items():
                    got = ask(cls())
                    if way.startswith("from_dlpack"):
                        assert memoryview(got).tolist() == [2], (cls, owner)
            with mock.patch.object(owner, "__dlpack_device__", three, create=True):
                assert cls().__dlpack_device__() == (10, 1)
            assert memory_of(cls()) == [1] and cls().__dlpack_device__() == (1, 0)


# --- plans and types that end --------------------------------------------------------------------


def test_a_type_that_ends_while_its_plan_is_kept():
    """By a method that lives on.  The next type at its address is another one."""
    gil.need_classes_that_die()

    @dlshim.producer
    class Base:
        def __init__(self):
            self.kept = array.array("i", SIX)

        @property
        def __array_interface__(self):
            return dlshim.from_dlpack(self.kept).__array_interface__

    class One:
        def __dlpack__(self, **_):
            return export([1])

    class Two:
        def __dlpack__(self, **_):
            return export([2])

    wanted = {(): SIX, (One,): [1], (Two,): [2], (Two, One): [2]}
    seen, again = set(), 0
    for n in range(400):
        bases, values = list(wanted.items())[n % 4]
        cls = type("Short", (Base, *bases), {})
        again += id(cls) in seen
        seen.add(id(cls))
        x = cls()
        for _ in range(2):
            assert memory_of(x) == memory_of(x.__dlpack__()) == values
            assert x.__dlpack_device__() == (1, 0)
        reference = weakref.ref(cls)
        del x, cls
        gc.collect()
        assert reference() is None
    if not again:
        pytest.skip("no address was used twice here, as under a sanitizer that keeps freed memory")


def test_many_types_by_one_method_leave_nothing():
    gil.need_classes_that_die()

    @dlshim.producer
    class Base(Root):
        pass

    def work(n):
        kept = [type("Short", (Base,), {}) for _ in range(n)]
        for cls in kept * 2:
            assert memory_of(cls().__dlpack__()) == SIX
            assert cls().__dlpack_device__() == (1, 0)
        return [weakref.ref(cls) for cls in kept]

    growths, blocks = [], sys.getallocatedblocks()
    for _ in range(6):
        references = work(60)
        gc.collect()
        assert not any(reference() for reference in references)
        del references
        before, blocks = blocks, sys.getallocatedblocks()
        growths.append(blocks - before)
    # What a class left behind would be left in every round; what else this
    # process allocates meanwhile, such as tables that grow, is not.
    assert min(growths[1:]) < 30, growths


def test_a_method_whose_class_has_gone_is_collected():
    """Its plans lead back to the function, and that to the class."""
    gil.need_classes_that_die()

    def make():
        @dlshim.producer
        class Refers(Root):
            def __dlpack__(self, **_):
                assert Refers
                return export()

            def __dlpack_device__(self):
                assert Refers
                return (1, 0)

        return Refers

    cls = make()
    x = cls()
    x.kept = [dlshim.upgrade(x), x.__dlpack__, cls.__dlpack__, dlshim.from_dlpack(x)]
    assert x.__dlpack_device__() == (1, 0) and memory_of(x.__dlpack__()) == SIX
    gone = [weakref.ref(cls), weakref.ref(x)]
    del cls, x
    gc.collect()
    assert [reference() for reference in gone] == [None, None]


# --- one method for each class -------------------------------------------------------------------


def test_each_class_has_methods_of_its_own():
    @dlshim.producer
    class Base(Root):
        pass

    @dlshim.producer
    class Sub(Base):
        pass

    for cls in (Base, Sub):
        method = cls.__dlpack__
        assert method.__objclass__ is cls
        assert method.__qualname__ == f"{cls.__qualname__}.__dlpack__"
        assert dlshim.producer(cls).__dlpack__ is method  # again
    method, x = Base.__dlpack__, Sub()
    calls = {
        "called": lambda: method(x),
        "bound": lambda: method.__get__(x, Sub)(),
        "bound without a class": lambda: method.__get__(x)(),  # CPython's own end the process
        "with a tuple": lambda: type(method).__call__(method, x, max_version=(1, 0)),
        "partial": lambda: functools.partial(method, x)(stream=None),
    }
    walk(calls, lambda call: memory_of(call()) == SIX or pytest.fail("another array"))
    assert method.__get__(None, Base) is method
    assert repr(method) == f"<method '{method.__qualname__}'>"
    assert (method.__name__, method.__doc__[:6]) == ("__dlpack__", "Export")
    for call in (method, type(method).__call__.__get__(method)):
        with pytest.raises(TypeError, match="needs an argument"):
            call()
    with pytest.raises(TypeError, match="doesn't apply"):
        method.__get__(Root())
    with pytest.raises(TypeError, match=r"'Sub' objects doesn't apply to a '.*Base' object"):
        Sub.__dlpack__(Base())
    with pytest.raises(TypeError, match="takes no arguments"):
        Base().__dlpack_device__(1)
    with pytest.raises(TypeError, match="takes no arguments"):
        Base().__dlpack_device__(stream=1)


def copied(cls):
    """Another class of the members, as dataclass(slots=True) and attrs make it."""
    own = {k: v for k, v in vars(cls).items() if k not in ("__dict__", "__weakref__")}
    return type(cls)(cls.__name__, cls.__bases__, own)


def test_a_copy_of_a_class_and_the_class_itself():
    """The copy gets methods of its own, and both work on, with subclasses of each."""

    def classes(change, copy):
        @change
        class Base(Root):
            def __dlpack__(self, **_):
                self.calls.append("Base")
                return export()

        @copy
        @change
        class Middle(Base):
            def __dlpack__(self, **asked):
                self.calls.append("Middle")
                return Base.__dlpack__(self, **asked)

        class Between(Middle):
            def __dlpack__(self, **asked):
                self.calls.append("Between")
                return super().__dlpack__(**asked)

        @change
        class Top(Between):
            def __dlpack__(self, **asked):
                self.calls.append("Top")
                return super().__dlpack__(**asked)

        return Base, Middle, Between, Top

    kept = []

    def keeps(cls):
        kept.append(cls)
        return copied(cls)

    made = classes(dlshim.producer, keeps)
    for cls in (*made, kept[0], dataclasses.dataclass(slots=True)(made[1])):
        wanted = [base.__name__ for base in cls.__mro__[:-2]]
        for ask in WAYS.values():
            for _ in range(2):
                x = cls.__new__(cls)
                Root.__init__(x)
                ask(x)
                assert x.calls == wanted


def test_a_method_that_calls_ours_instead_of_us():
    """As mock.patch does, and those who trace methods: ours of before is called with the object."""

    @dlshim.producer
    class Base(Root):
        def __dlpack__(self, **_):
            self.calls.append("Base")
            return export()

    class Sub(Base):
        pass

    ours, device = Base.__dlpack__, Base.__dlpack_device__

    def traced(self, **asked):
        self.calls.append("traced")
        return ours(self, **asked)

    def traced_device(self):
        self.device_calls.append("traced")
        return device(self)

    new = {"__dlpack__": traced, "__dlpack_device__": traced_device}
    for owner, cls in ((Base, Base), (Base, Sub), (Sub, Sub)):
        with mock.patch.multiple(owner, **new):
            for way, ask in WAYS.items():
                x = cls()
                ask(x)
                assert x.calls == ["traced", "Base"], (owner, cls, way)
            for way, ask in DEVICE_WAYS.items():
                x = cls()
                assert ask(x) == (1, 0) and x.device_calls == ["traced", "Root"], (owner, cls, way)
        x = cls()
        assert memory_of(x) == SIX and x.calls == ["Base"]


def test_a_method_that_is_given_to_another_class_by_name():
    """`__dlpack__ = Base.__dlpack__`: it is the base's, whatever comes before that in the MRO."""

    def classes(change):
        @change
        class Base(Root):
            def __dlpack__(self, **_):
                self.calls.append("Base")
                return export()

        class Other(Base):
            def __dlpack__(self, **_):
                self.calls.append("Other")
                return export()

        class Named(Other):
            __dlpack__ = Base.__dlpack__
            __dlpack_device__ = Base.__dlpack_device__

        @change
        class Top(Named):
            pass

        return Base, change(Other), Named, Top

    for cls in classes(dlshim.producer):
        for way, ask in WAYS.items():
            if way == "C table" and cls.__name__ == "Named":
                continue
            x = cls()
            ask(x)
            assert x.calls == ["Other" if cls.__name__ == "Other" else "Base"], (cls, way)


def test_the_method_of_another_object():
    """It was taken for the object's own, whose method was called instead."""

    @dlshim.producer
    class Own(Root):
        def __dlpack__(self, **_):
            self.calls.append("Own")
            return export()

    x, y = Own(), Own()
    x.__dlpack__ = y.__dlpack__
    for ask in (memory_of, lambda x: memory_of(dlshim.upgrade(x))):
        assert ask(x) == SIX and x.calls == []
    assert len(y.calls) == 2


class Pickled(Root):
    pass


dlshim.producer(Pickled)


def test_a_method_pickles_by_its_class():
    assert pickle.loads(pickle.dumps(Pickled.__dlpack__)) is Pickled.__dlpack__


def test_a_class_that_was_copied_is_not_kept_alive():
    gil.need_classes_that_die()
    cls = dlshim.producer(type("Old", (Root,), dict(vars(Root))))
    x = copied(cls)()
    assert memory_of(x) == SIX and memory_of(cls()) == SIX
    gone = weakref.ref(cls)
    del cls
    gc.collect()
    assert gone() is None and memory_of(x) == SIX


# --- calls that run meanwhile --------------------------------------------------------------------


def test_an_export_of_the_same_object_from_within_its_method():
    """Another consumer asks it, as without the decorator: it begins anew."""

    def classes(change):
        @change
        class Base(Root):
            def __dlpack__(self, **_):
                self.calls.append("Base")
                if len(self.calls) < 6:
                    consumer(self)
                return export()

        @change
        class Sub(Base):
            def __dlpack__(self, **asked):
                self.calls.append("Sub")
                if len(self.calls) < 3:
                    return self.__dlpack__(**asked)
                return super().__dlpack__(**asked)

        return Base, Sub

    def consumer(x):
        x.__dlpack_device__()
        x.__dlpack__(max_version=(1, 0))

    for plain, cls in zip(classes(lambda cls: cls), classes(dlshim.producer), strict=True):
        for _ in range(2):
            x, y = plain(), cls()
            assert memory_of(x.__dlpack__()) == memory_of(y.__dlpack__()) == SIX
            assert x.calls == y.calls and len(y.calls) >= 6


def test_two_threads_in_the_methods_of_one_object():
    """Each goes its own way by super()."""
    inside = threading.Barrier(2)

    @dlshim.producer
    class Base(Root):
        def __dlpack__(self, **_):
            inside.wait(child.HANGS)
            return export()

    @dlshim.producer
    class Sub(Base):
        def __dlpack__(self, **asked):
            self.calls.append("Sub")
            inside.wait(child.HANGS)
            return super().__dlpack__(**asked)

    for ask in (memory_of, lambda x: memory_of(x.__dlpack__())):
        x, got = Sub(), []
        together(lambda x=x, ask=ask, got=got: got.append(ask(x)), threads=2, rounds=1)
        assert got == [SIX, SIX] and x.calls == ["Sub"] * 2


not_sanitized = pytest.mark.skipif(
    bool(os.environ.get("DLSHIM_SANITIZED")),
    reason="greenlets copy their stacks, which no sanitizer follows",
)


class Waits(Root):
    """Its methods wait for other greenlets, as gevent's do where they read a file."""

    def __init__(self, wait):
        super().__init__()
        self.wait = wait

    def __dlpack__(self, **_):
        self.calls.append("Waits")
        self.wait()
        return export()

    def __dlpack_device__(self):
        self.device_calls.append("Waits")
        self.wait()
        return (1, 0)


class CallsSuper(dlshim.ProducerMixin, Waits):
    def __dlpack__(self, **asked):
        self.calls.append("CallsSuper")
        self.wait()
        return super().__dlpack__(**asked)

    def __dlpack_device__(self):
        self.wait()
        return super().__dlpack_device__()


class HasBuffer(array.array):
    """What it offers beside its method is something else."""

    def __new__(cls, wait):
        made = super().__new__(cls, "b", [7])
        made.calls, made.device_calls, made.wait = [], [], wait
        return made

    __dlpack__, __dlpack_device__ = Waits.__dlpack__, Waits.__dlpack_device__


def in_greenlets(ask, greenlets=3):
    """What each greenlet got that asks the same object, where each goes on when all have begun."""
    from greenlet import getcurrent, greenlet

    main, got = getcurrent(), []

    def run(x):
        try:
            got.append(ask(x))
        except Exception as error:
            got.append(error)

    def begin(cls):
        x = cls(lambda: main.switch())
        started = [greenlet(run) for _ in range(greenlets)]
        for each in started:
            each.switch(x)
        assert all(started), "a greenlet ended without waiting"
        while any(started):
            for each in filter(None, started):
                each.switch()
        return x, got

    return begin


@not_sanitized
@pytest.mark.parametrize("cls", [Waits, CallsSuper, HasBuffer])
def test_greenlets_of_one_thread_export_one_object(cls):
    """The second export was taken for a super() call of the first, and refused."""
    pytest.importorskip("greenlet", reason="gevent and eventlet are made of it")
    changed = dlshim.producer(type(cls.__name__, (cls,), {}))
    calls = {Waits: 1, CallsSuper: 2, HasBuffer: 1}[cls]

    def check(ask):
        for _ in range(2):
            x, got = in_greenlets(lambda x: memory_of(ask(x)))(changed)
            assert got == [SIX] * 3
            assert len(x.calls) == 3 * calls

    exports = {way: ask for way, ask in WAYS.items() if way != "C table"}
    walk({**exports, "as it is": lambda x: x}, check)
    _, got = in_greenlets(lambda x: x.__dlpack_device__())(changed)
    assert got == [(1, 0)] * 3


@not_sanitized
def test_greenlets_that_are_imported_late_and_one_that_ends_inside():
    pytest.importorskip("greenlet", reason="gevent and eventlet are made of it")
    out = child.program("late_greenlets", silent=True)
    assert out.strip() == "[[7], [7], [7]]"


# --- an own method that asks dlshim --------------------------------------------------------------


def star(*given):
    return dlshim.upgrade(given[0]).__dlpack_device__()


def deleted(self):
    me = self
    del self
    return dlshim.upgrade(me).__dlpack_device__()


def renamed(self):
    me, self = self, None
    return dlshim.upgrade(me).__dlpack_device__()


@pytest.mark.parametrize("method", [star, deleted, renamed])
def test_an_own_device_method_that_asks_dlshim_is_seen_to_run(method):
    """By its frame, whatever it has made of the name of its object."""

    def export_itself(*given):
        return dlshim.to_capsule(given[0])

    members = {"__dlpack__": lambda self, **_: export([1]), "__dlpack_device__": method}
    cls = dlshim.producer(type("Asks", (), members))
    assert cls().__dlpack_device__() == (1, 0)
    assert dlshim.upgrade(cls()).__dlpack_device__() == (1, 0)
    cls = dlshim.producer(type("Asks", (), {"__dlpack__": export_itself}))
    with pytest.raises(BufferError, match="asks dlshim to export the object itself"):
        dlshim.upgrade(cls()).__dlpack__()
