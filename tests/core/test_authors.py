"""`dlshim.producer` and `ProducerMixin`: classes of other authors that become modern producers.

Each trap of a class that is changed in place has its test: the author's own method, inheritance,
copies of the class, abstract and generic classes, pickling, lifetimes, and other interpreters.
"""

from __future__ import annotations

import abc
import array
import contextlib
import copy
import dataclasses
import enum
import functools
import gc
import importlib.util
import inspect
import pickle
import sys
import threading
import types
import typing
import weakref
from unittest import mock

import pytest

import dlshim
import doubles.ctable
from doubles import capsules as caps
from doubles import child, gil
from doubles.asking import ASKINGS, bare, counting, tells, versioned, walk
from doubles.delegating import PassesOn
from doubles.older import InterfaceOnly, StructOnly
from doubles.producers import EDITIONS, P1, P2, P1aNoDevice, fresh
from doubles.threads import together

SIX = [0, 1, 2, 3, 4, 5]
BOTH = pytest.mark.parametrize("ask", ASKINGS.values(), ids=ASKINGS.keys())


def of(cls, **options):
    """A subclass of a double that is changed, so that the double itself is not."""
    return dlshim.producer(**options)(type(cls.__name__, (cls,), {}))


@pytest.fixture(autouse=True)
def no_question_is_left():
    """A question to an object that is gone would be taken for one to the next at its address."""
    kept = of(P2)()
    kept.__dlpack_device__()
    yield
    kept.__dlpack__()


class Table(doubles.ctable.Table):
    """A class's table, which gives no views."""

    def __init__(self, owner):
        self.capsule = owner.__dlpack_c_exchange_api__
        self.address = doubles.ctable._pointer(self.capsule, doubles.ctable.NAME)
        self.struct = doubles.ctable.ExchangeTable.from_address(self.address)
        self._owned = doubles.ctable._FromObject(self.struct.managed_tensor_from_py_object_no_sync)


def elsewhere(work):
    """Do it in another thread."""
    together(work, threads=1, rounds=1)


def memory_of(x):
    return memoryview(dlshim.from_dlpack(x)).tolist()


class Buffer(array.array):
    """It lends a buffer, and nothing of DLPack."""

    def __new__(cls):
        return super().__new__(cls, "i", SIX)


def seven(*_, **__):
    """An own method, of whatever kind, whose array is another one."""
    return dlshim.upgrade(array.array("b", [7])).__dlpack__()


def six(self, stream=None):
    """An old own method."""
    return dlshim.upgrade(array.array("i", SIX)).__dlpack__()


def on_host(self):
    return (1, 0)


@dlshim.producer
class Decorated:
    """An old class, at the top of the module so that it can be pickled."""

    def __init__(self):
        self.memory = array.array("i", SIX)
        self.asked = []

    def __dlpack__(self, stream=None):
        self.asked.append("Decorated")
        return dlshim.upgrade(self.memory).__dlpack__()

    __dlpack_device__ = on_host


# --- every generation and every way in -----------------------------------------------------------


@BOTH
def test_a_class_of_every_edition_answers_both_generations(ask):
    def check(cls):
        x = of(cls)()
        for _ in range(3):
            with ask(x) as imported:
                assert imported.view.values() == x.values()
                assert imported.view.element_zero == x.element_zero
        assert x.__dlpack_device__() == (1, 0)

    # Their objects have a method that the class has not: it is shadowed, or shadows ours.
    alone = ("ByGetattr", "InstanceOnly")
    walk({name: cls for name, cls in EDITIONS.items() if name not in alone}, check)


@BOTH
def test_a_class_with_an_older_protocol(ask):
    cases = {"buffer": Buffer, "struct": StructOnly, "interface": InterfaceOnly}

    def check(cls):
        x = of(cls)()
        plain = dlshim.from_dlpack(cls())
        for _ in range(2):
            with ask(x) as imported:
                assert imported.view.shape == plain.shape
        assert x.__dlpack_device__() == (1, 0)

    walk(cases, check)


def test_the_author_is_asked_as_by_upgrade():
    plain, x = P1(), of(P1)()
    for y in (dlshim.upgrade(plain), x):
        with versioned(y), bare(y):
            pass
        y.__dlpack_device__()
    assert x.calls == plain.calls and x.device_calls == plain.device_calls


def test_what_needs_no_change_is_handed_on(hand_on):
    x = of(P2)()
    versioned(x)
    with counting() as count:
        capsule = x.__dlpack__(max_version=(1, 0))
    assert (count.handed_on, count.translated) == ((1, 0) if hand_on else (0, 1))
    assert (caps.pointer_of(capsule) == x.last.address) == hand_on


def test_every_keyword_of_the_standard():
    x = of(P1)()
    with versioned(x, dl_device=(1, 0), copy=True, stream=None) as imported:
        assert imported.view.element_zero != x.element_zero
        assert imported.view.flags & caps.IS_COPIED
    with pytest.raises(dlshim.CopyRequiredError):
        x.__dlpack__(copy=False, dl_device=(2, 0))
    with pytest.raises(TypeError):
        x.__dlpack__(another=1)
    with pytest.raises(TypeError):
        x.__dlpack__(max_version="1.0")


def test_a_consumer_that_asks_for_the_device_first_is_known(hand_on):
    """Negative strides: refused where the device was asked for just before, in this thread (N9)."""
    x = of(P2)((4,), "float32", strides=(-1,), start=3)
    bare(x)
    x.__dlpack_device__()
    with pytest.raises(BufferError) as raised:
        bare(x)
    tells(raised.value, "negative strides")
    bare(x)  # the question is used up
    elsewhere(x.__dlpack_device__)
    bare(x)
    other = of(P2)()
    other.__dlpack_device__()
    bare(x)


def backwards(**more):
    return {"shape": (4,), "dtype": "float32", "strides": (-1,), "start": 3, **more}


def asks_like_torch(x):
    x.__dlpack_device__()
    return x.__dlpack__(max_version=(1, 0))


def test_questions_of_other_threads_and_objects_take_none_away():
    """One place for all threads lost the question: torch got negative strides, and aborted."""
    x, y = of(P2)(**backwards()), of(P2)()
    x.__dlpack_device__()
    versioned(y)
    elsewhere(lambda: asks_like_torch(y))
    elsewhere(y.__dlpack_device__)
    with pytest.raises(BufferError, match="negative strides"):
        x.__dlpack__(max_version=(1, 0))
    x.__dlpack__(max_version=(1, 0))


def test_more_threads_ask_than_there_is_room_for():
    out = child.program("asking_threads", silent=True)
    assert out.strip() == "end"


@pytest.mark.parametrize("inner", [False, True], ids=["own method", "inner array"])
def test_a_question_that_another_method_answers_is_not_seen(inner):
    """So who asks may be torch: only those get negative strides who are known by their call."""
    if inner:

        @dlshim.producer(inner="a")
        class Base:
            def __init__(self):
                self.a = P2(**backwards())
    else:
        Base = of(P2)

    class Answers(Base):
        __dlpack_device__ = on_host

    class Before:
        __dlpack_device__ = on_host

    class Mixed(Before, Base):
        pass

    class Both(Answers):
        def __dlpack__(self, **asked):
            return super().__dlpack__(**asked)

    for cls in (Answers, Mixed, Both):
        x = cls() if inner else cls(**backwards())
        for asked in ({"max_version": (1, 0)}, {}):  # torch from 2.9 on, and before
            x.__dlpack_device__()
            with pytest.raises(BufferError, match="negative strides"):
                x.__dlpack__(**asked)
        x.__dlpack__(max_version=(1, 0), dl_device=None, copy=None)  # NumPy supports them
        assert dlshim.from_dlpack(x).strides == (-1,)
        assert dlshim.from_dlpack(x, order="C").strides == (1,)


class AddsStream(PassesOn):
    def __dlpack__(self, *, stream=None, **asked):
        return dlshim.upgrade(self.inner).__dlpack__(stream=stream, **asked)


@pytest.mark.parametrize("cls", [PassesOn, AddsStream])
def test_a_method_that_passes_a_call_on_hides_who_asks(cls):
    """Torch asked the method for the device: what it passes on looks like another consumer."""
    x = cls(P2(**backwards()))
    with pytest.raises(BufferError, match="negative strides"):
        asks_like_torch(x)
    x.__dlpack__(max_version=(1, 0), dl_device=None, copy=None)
    # dlshim around it decides, and its options work.
    assert dlshim.from_dlpack(x).strides == (-1,)
    assert dlshim.from_dlpack(x, order="C").strides == (1,)
    with pytest.raises(BufferError, match="negative strides"):
        asks_like_torch(dlshim.upgrade(x))
    for order in ("C", "K"):
        asks_like_torch(dlshim.upgrade(x, order=order))


@pytest.mark.parametrize("ask", [asks_like_torch, *ASKINGS.values()])
def test_options_reach_what_the_author_wrote(ask):
    """They were lost where a decorated object is asked by its own new method."""
    x = of(P2)(**backwards())
    for options in ({"order": "C"}, {"order": "K"}, {"copy": True}, {"order": "C", "align": 64}):
        ask(dlshim.upgrade(x, **options))
    days = of(InterfaceOnly)(changes={"typestr": caps.native("<M8[D]")})
    with pytest.raises(BufferError):
        ask(dlshim.upgrade(days))
    ask(dlshim.upgrade(days, reinterpret="int64"))
    with versioned(dlshim.upgrade(x, order="K", readonly=True)) as imported:
        assert imported.view.flags & caps.READ_ONLY


def test_detach_gives_the_object_itself():
    """The author's method was taken for one that runs already, and nothing was left to ask."""

    class Grows(P2):
        def detach(self):
            return self

    x = of(Grows)()
    for options in ({}, {"order": "C"}):
        wrapped = dlshim.upgrade(x, detach=True, **options)
        assert wrapped.__dlpack_device__() == (1, 0)
        with versioned(wrapped) as imported:
            assert imported.values() == x.values()
        assert dlshim.from_dlpack(x, detach=True, **options).shape == x.shape


def test_dlshim_s_own_question_is_no_consumer_s():
    """It was left over, and the next consumer was refused negative strides once."""
    x = of(P2)(**backwards())
    for ask in (lambda y: y.__dlpack_device__(), lambda y: y.__dlpack__(max_version=(1, 0))):
        ask(dlshim.upgrade(x, order="C"))
        dlshim.upgrade(x, order="C").__dlpack__()
        x.__dlpack__()


def test_an_array_method_behind_a_decorated_base_stays():
    @dlshim.producer(array=True)
    class Base(P2):
        pass

    class Other:
        def __array__(self, dtype=None, copy=None):
            raise NotImplementedError

    class Both(Base, Other):
        pass

    assert dlshim.producer(array=True)(Both) is Both


def test_a_class_that_forwards_by_getattr_alone_is_refused():
    """It worked bare, and no more when it was changed: our method hid the inner one."""

    class Forwards:
        def __init__(self, a):
            self.__dict__["a"] = a

        def __getattr__(self, name):
            return getattr(self.__dict__["a"], name)

    with pytest.raises(TypeError, match="name its array with inner="):
        dlshim.producer(Forwards)
    assert memory_of(Forwards(P2((6,), "int32"))) == SIX
    assert memory_of(dlshim.producer(inner="a")(Forwards)(P2((6,), "int32"))) == SIX


def test_a_protocol_is_refused():
    class Exports(typing.Protocol):
        def __dlpack__(self, *, stream=None): ...

    with pytest.raises(TypeError, match="is a Protocol"):
        dlshim.producer(Exports)


def test_the_mixin_may_stand_before_the_class_that_has_the_method():
    """In either order both generations come out, and the author's own method is kept."""

    class First(dlshim.ProducerMixin, P1):
        pass

    class Last(P1, dlshim.ProducerMixin):
        pass

    for cls in (First, Last):
        x = cls()
        for ask in (bare, versioned):
            with ask(x) as imported:
                assert imported.values() == x.values()
        with caps.take(x.__dlshim_dlpack__()) as imported:
            assert (imported.view.version, imported.values()) == (None, x.values())


def test_readonly_memory_stays_so():
    x = of(P2)(readonly=True)
    with versioned(x) as imported:
        assert imported.view.flags & caps.READ_ONLY
    with pytest.raises(BufferError):
        x.__dlpack__()


def test_a_class_without_a_device_method():
    x = of(P1aNoDevice)()
    for _ in range(2):
        assert x.__dlpack_device__() == (1, 0)
        with versioned(x) as imported:
            assert imported.view.element_zero == x.element_zero


def test_a_class_that_offers_nothing():
    x = type("Nothing", (dlshim.ProducerMixin,), {})()
    for ask in (x.__dlpack__, x.__dlpack_device__):
        with pytest.raises(dlshim.UnsupportedObjectError) as raised:
            ask()
        tells(raised.value, "Nothing", "offers none of", "inner= to dlshim.producer")


def test_an_attribute_of_the_instance_alone():
    class Late(dlshim.ProducerMixin):
        pass

    x = Late()
    x.keep = InterfaceOnly()
    x.__array_interface__ = x.keep.__array_interface__
    assert memory_of(x) == memory_of(x.keep)


def test_errors_of_the_author_come_through():
    @dlshim.producer
    class Raises:
        def __dlpack__(self, **_):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Raises().__dlpack__()
    x = Decorated()
    x.asked = None  # AttributeError in the author's method
    with pytest.raises(BufferError):
        x.__dlpack__()
    x.asked = []
    assert memory_of(x) == SIX  # nothing is left over


def test_dlshim_asks_the_own_method_itself():
    """One exchange, in which nothing is translated, and the options are those of the array."""
    x = of(Legacy)()
    for make in (dlshim.from_dlpack, lambda x: dlshim.from_dlpack(dlshim.upgrade(x))):
        for _ in range(2):
            with counting() as count:
                tensor = make(x)
            assert (count.taken, count.translated) == (1, 1)  # the inner one is its author's
            assert tensor.version == (0, 8)

    class Backwards(P1):
        def __init__(self):
            super().__init__((4,), "float32", strides=(-1,), start=3)

    assert dlshim.from_dlpack(of(Backwards)()).strides == (-1,)


# Ways by which dlshim asks an object for an export.
BY_DLSHIM = {
    "upgrade": lambda x: dlshim.upgrade(x).__dlpack__(),
    "upgrade with options": lambda x: dlshim.upgrade(x, order="C").__dlpack__(max_version=(1, 0)),
    "upgrade with detach": lambda x: dlshim.upgrade(x, detach=True).__dlpack__(),
    "from_dlpack": dlshim.from_dlpack,
    "from_dlpack of a Producer": lambda x: dlshim.from_dlpack(dlshim.upgrade(x)),
    "from_dlpack with options": lambda x: dlshim.from_dlpack(x, copy=True),
    "to_capsule": dlshim.to_capsule,
}


@pytest.mark.parametrize("inside", BY_DLSHIM.values(), ids=BY_DLSHIM.keys())
def test_dlshim_is_not_asked_for_the_object_inside_of_its_own_method(inside):
    """Without the decorator that has no end.  The error names what to write instead."""

    def wrapped(function):
        @functools.wraps(function)
        def method(*args, **keywords):
            return function(*args, **keywords)

        return method

    def asks(self, stream=None):
        self.entered += 1
        return inside(self)

    def helps(self, stream=None):
        return asks(self)

    class Old(of(P1)):
        entered = 0

        def detach(self):
            return self

    for own in (asks, helps, wrapped(asks), classmethod(asks).__func__):
        cls = dlshim.producer(type("Asks", (Old,), {"__dlpack__": own}))
        for ask in (bare, versioned, Table(cls).owned, *BY_DLSHIM.values()):
            x = cls()
            with pytest.raises(BufferError) as raised:
                ask(x)
            tells(raised.value, "Asks", r"super\(\)\.__dlpack__\(\)", r"dlshim\.upgrade\(inner\)")
            assert x.entered < 5


def test_the_cures_of_a_method_that_asks_itself_give_the_values():
    @dlshim.producer
    class Calls(Decorated):
        def __dlpack__(self, stream=None):
            return super().__dlpack__()

    @dlshim.producer
    class Wraps(Decorated):
        def __dlpack__(self, stream=None):
            return dlshim.upgrade(self.memory).__dlpack__()

    for cls in (Calls, Wraps):
        assert memory_of(cls()) == memory_of(cls().__dlpack__()) == SIX


def test_dlshim_exports_other_objects_and_in_other_threads_inside_of_an_own_method():
    @dlshim.producer
    class Node:
        def __init__(self, inner=None):
            self.inner, self.entered = inner, False

        def __dlpack__(self, **asked):
            if self.inner is not None:
                return dlshim.upgrade(self.inner).__dlpack__(**asked)
            if not self.entered:  # the next call of it begins anew, in a thread of its own
                self.entered = True
                got = []
                elsewhere(lambda: got.append(dlshim.to_capsule(self)))
                return got[0]
            return dlshim.upgrade(array.array("i", SIX)).__dlpack__()

    for make in (Node, lambda: Node(Node()), lambda: Node(Node(Node()))):
        assert memory_of(make()) == memory_of(make().__dlpack__()) == SIX


def test_the_own_device_method_may_export_the_object():
    """By its own methods, by a consumer, and by dlshim, as without the decorator."""
    ways = {
        "method": lambda x: x.__dlpack__(),
        "from_dlpack": dlshim.from_dlpack,
        "device by upgrade": lambda x: dlshim.upgrade(x).__dlpack_device__(),
    }

    def check(inside):
        @dlshim.producer
        class Exports:
            __dlpack__ = six

            def __dlpack_device__(self):
                assert inside(self) is not None
                return (1, 0)

        for ask in (lambda x: x.__dlpack_device__(), bare, versioned, memory_of):
            for _ in range(2):
                assert ask(Exports()) is not None

    walk(ways, check)


def test_a_base_without_a_device_method_answers_by_an_export():
    """super().__dlpack_device__() of a base that has none: the export does not ask again."""

    @dlshim.producer
    class Base:
        __dlpack__ = six

    class Sub(Base):
        def __dlpack_device__(self):
            return super().__dlpack_device__()

    for cls in (Sub, dlshim.producer(type("Again", (Sub,), {}))):
        for ask in (lambda x: x.__dlpack_device__(), bare, versioned, memory_of):
            for _ in range(2):
                assert ask(cls()) is not None


# --- an inner array ------------------------------------------------------------------------------


class Holder:
    def __init__(self):
        self._array = P1()

    def view(self):
        return self._array

    @property
    def shown(self):
        return self._array


class Slotted:
    __slots__ = ("_array",)

    def __init__(self):
        self._array = P1()


@BOTH
@pytest.mark.parametrize(
    "cls, inner", [(Holder, "_array"), (Holder, "view"), (Holder, "shown"), (Slotted, "_array")]
)
def test_an_inner_array(cls, inner, ask):
    x = of(cls, inner=inner)()
    for _ in range(2):
        with ask(x) as imported:
            assert imported.view.element_zero == x._array.element_zero
        assert x.__dlpack_device__() == (1, 0)
    x._array = P2((3,))  # another type
    with ask(x) as imported:
        assert imported.view.shape == (3,)
    with Table(type(x)).owned(x) as imported:
        assert imported.view.shape == (3,)


# Every way in which an object is asked.
WAYS = {
    "method": lambda x: x.__dlpack__(),
    "device": lambda x: x.__dlpack_device__(),
    "table": lambda x: Table(type(x)).owned(x),
    "upgrade": dlshim.upgrade,
    "from_dlpack": dlshim.from_dlpack,
    "to_capsule": dlshim.to_capsule,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_what_is_wrong_with_an_inner_array_is_a_buffer_error(way):
    class Failing:
        error = None
        value = None

        @property
        def made(self):
            if self.error is not None:
                raise self.error
            return self.value

        def called(self, needed):
            raise AssertionError

    named = dlshim.producer(inner="made")(Failing)()
    called = of(Failing, inner="called")()
    missing = of(Failing, inner="missing")()
    for x, name, kind in (
        (named, "made' is None", None),
        (called, "called", TypeError),
        (missing, "missing", AttributeError),
    ):
        with pytest.raises(BufferError) as raised:
            way(x)
        tells(raised.value, "Failing", f"inner array '{name}")
        assert type(raised.value.__cause__) is (kind or type(None))
    for value, cause in ([1], TypeError), (object(), dlshim.UnsupportedObjectError):
        named.value = value
        with pytest.raises(BufferError) as raised:
            way(named)
        tells(raised.value, "Failing", "'made' cannot be exported", type(value).__name__)
        assert type(raised.value.__cause__) is cause
    for error in (RuntimeError("why"), BufferError("why"), KeyError("why")):
        named.error = error
        with pytest.raises(BufferError) as raised:
            way(named)
        tells(raised.value, "Failing", "made", "why")
        assert raised.value.__cause__ is error
    for error in (MemoryError(), KeyboardInterrupt(), SystemExit()):
        named.error = error
        with pytest.raises(type(error)) as raised:
            way(named)
        assert raised.value is error
    named.error, named.value = None, array.array("i", SIX)
    way(named)  # nothing is left over


class Parts:
    """It has a buffer, a shape and a dtype, and no array."""

    def __init__(self, *parts):
        self.parts = parts


PARTS = {
    "rows": (bytearray(24), (2, 3), "int32"),
    "a list of extents": (bytearray(24), [3, 2], "float32"),
    "no dimensions": (bytearray(16), (), "complex128"),
    "no rows": (bytearray(), (0, 3), "int8"),
    "no columns": (array.array("d"), (2, 0), "float64"),
    "no dtype of a buffer": (memoryview(bytearray(8)), (2, 2), "bfloat16"),
    "a dtype of three numbers": (array.array("i", SIX), (3,), (0, 64, 1)),
    "read-only": (bytes(6), (6,), "uint8"),
}


@BOTH
@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS.keys())
def test_an_inner_buffer_with_a_shape_and_a_dtype(parts, ask):
    buffer, shape, dtype = parts
    x = of(Parts, inner="parts")(*parts)
    assert x.__dlpack_device__() == (1, 0)
    taken = dlshim.from_dlpack(x)
    assert (taken.shape, taken.dtype) == (tuple(shape), dtype)
    assert taken.readonly == isinstance(buffer, bytes)
    assert bytes(taken.tobytes()) == bytes(memoryview(buffer).cast("B"))
    if taken.readonly and ask is bare:
        with pytest.raises(BufferError, match="read-only"):
            ask(x)
        return
    for _ in range(2):
        with ask(x) as imported:
            assert imported.view.shape == tuple(shape)
            assert imported.view.dtype == tuple(taken.dtype)
    with Table(type(x)).owned(x) as imported:
        assert imported.view.readonly == taken.readonly


def test_an_inner_buffer_is_held_by_the_export_and_shared():
    x = of(Parts, inner="parts")(bytearray(b"abcdef"), (6,), "uint8")
    with versioned(x) as imported:
        x.parts[0][0] = 122
        assert imported.values()[0] == 122
        with pytest.raises(BufferError):
            x.parts[0].clear()  # it is exported
    x.parts[0].clear()


WRONG_PARTS = {
    "two of them": ((b"ab", (2,)), "it is a tuple of 2\n  give (buffer, shape, dtype)", TypeError),
    "too short": ((b"ab", (3,), "uint8"), "2 bytes are not (3,) elements of uint8", ValueError),
    "too long": ((b"abcd", (3,), "uint8"), "4 bytes are not (3,) elements of uint8", ValueError),
    "below 0": ((b"ab", (-2,), "uint8"), "2 bytes are not (-2,) elements", ValueError),
    "an int as shape": ((b"ab", 2, "uint8"), "shape 2 is no tuple of extents", TypeError),
    "no ints": ((b"ab", (2.0,), "uint8"), "'float' object cannot be interpreted", TypeError),
    "no dtype": ((b"ab", (2,), "uint9"), "'uint9' names no dtype", ValueError),
    "no buffer": ((2, (2,), "uint8"), "bytes-like object is required, not 'int'", TypeError),
}


@pytest.mark.parametrize("parts", [[bytearray(2), (2,), "uint8"], [1, 2], []])
def test_an_inner_list_is_no_array_and_no_parts(parts):
    x = of(Parts, inner="parts")()
    x.parts = parts
    for way in WAYS.values():
        with pytest.raises(BufferError) as raised:
            way(x)
        assert str(raised.value).endswith(
            "its inner array 'parts' cannot be exported: TypeError: it is a list\n  give an array, "
            "or the tuple (buffer, shape, dtype)"
        )


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("parts, told, kind", WRONG_PARTS.values(), ids=WRONG_PARTS.keys())
def test_what_is_wrong_with_an_inner_buffer_is_a_buffer_error(parts, told, kind, way):
    x = of(Parts, inner="parts")(*parts)
    with pytest.raises(BufferError) as raised:
        way(x)
    assert f"inner array 'parts' cannot be exported: {kind.__name__}: " in str(raised.value)
    assert told in str(raised.value) and type(raised.value.__cause__) is kind


@pytest.mark.parametrize(
    "way",
    [dlshim.from_dlpack, lambda x: x.__dlpack_device__()],
    ids=["from_dlpack", "device question"],
)
def test_an_interrupt_while_the_class_is_asked_for_the_inner_array_reaches_the_caller(way):
    class Meta(type):
        def __getattr__(cls, name):
            raise KeyboardInterrupt if name == "_array" else AttributeError(name)

    cls = of(Meta("Holder", (), {"__init__": Holder.__init__}), inner="_array")
    with pytest.raises(KeyboardInterrupt):
        way(cls())


def test_an_inner_array_with_options_that_do_not_fit():
    """Options are not the object's fault: their errors stay what they are."""
    x = of(Holder, inner="_array")()
    x._array = dlshim.upgrade(P1(), device="cuda:0")
    with pytest.raises(ValueError) as expected:
        dlshim.upgrade(x._array, like=P1())
    with pytest.raises(ValueError) as raised:
        dlshim.upgrade(x, like=P1())
    assert str(raised.value) == str(expected.value)


# What is exported, and options: as they work for the inner array itself, they work for the object.
STRAIGHT = {
    "negative strides": (lambda: P2((4,), "float32", strides=(-1,), start=3), {}),
    "order": (lambda: P2((4,), "float32", strides=(-1,), start=3), {"order": "K"}),
    "copy": (lambda: P2((4,), "float32", strides=(-1,), start=3), {"copy": True}),
    "row-major": (lambda: P2((4,), "float32", strides=(-1,), start=3), {"order": "C"}),
    "reinterpret": (P2, {"reinterpret": "int32"}),
    "detach": (lambda: Detachable(), {"detach": True}),
    "a Producer": (lambda: dlshim.upgrade(P2(), readonly=True), {}),
    "a Tensor": (lambda: dlshim.from_dlpack(P2()), {}),
}


class Detachable(P2):
    def detach(self):
        return self


@pytest.mark.parametrize("make, options", STRAIGHT.values(), ids=STRAIGHT.keys())
def test_what_works_for_an_inner_array_works_for_its_holder(make, options):
    """The row of negative strides shows that no method of the holder's class is asked: who asks
    those is unknown, and takes little (N9)."""

    def facts(tensor):
        assert isinstance(tensor, dlshim.Tensor)
        return tensor.shape, tensor.strides, tensor.dtype, tensor.readonly, tensor.tobytes()

    wanted = facts(dlshim.from_dlpack(make(), **options))
    for depth in (1, 2):
        for _ in range(2):
            x = of(Holder, inner="_array")()
            x._array = make()
            for _ in range(depth - 1):
                outer = of(Holder, inner="view")()
                outer._array, x = x, outer
            assert facts(dlshim.from_dlpack(x, **options)) == wanted
            assert facts(dlshim.from_dlpack(dlshim.upgrade(x, **options))) == wanted
            capsule = dlshim.to_capsule(x, max_version=(1, 0), **{"order": "K", **options})
            assert facts(dlshim.from_dlpack(capsule))[0] == wanted[0]


def test_an_inner_capsule():
    x = of(Holder, inner="_array")()
    x._array = P2().__dlpack__()
    assert dlshim.from_dlpack(x).shape == P2().shape
    with pytest.raises(BufferError) as raised:
        dlshim.from_dlpack(x)
    tells(raised.value, "Holder", "'_array'", "consumed")


def test_dlshim_takes_the_inner_array_of_the_moment():
    x = of(Holder, inner="_array")()
    assert dlshim.upgrade(x).source is x._array
    first = x._array
    x._array = P2((3,))
    assert dlshim.from_dlpack(x).shape == (3,)
    assert dlshim.upgrade(x).source is not first


def test_an_override_goes_before_the_inner_array():
    """Of a subclass, of one object, and of the class itself, put there later."""
    cls = of(Holder, inner="_array")

    class Sub(cls):
        __dlpack__ = seven

    x = cls()
    plain = memory_of(x)
    assert memory_of(Sub()) == [7]
    x.__dlpack__ = seven
    assert memory_of(x) == [7] and dlshim.upgrade(x).source is x
    del x.__dlpack__
    assert memory_of(x) == plain
    cls.__dlpack__ = seven
    assert memory_of(x) == [7]
    del cls.__dlpack__
    with pytest.raises((BufferError, dlshim.UnsupportedObjectError)):
        memory_of(x)


def test_an_inner_array_that_is_the_object_itself():
    class Itself:
        def array(self):
            return self

    for inner in ("_array", "array"):
        x = of(Itself, inner=inner)()
        x._array = x
        for ask in WAYS.values():
            with pytest.raises(BufferError) as raised:
                ask(x)
            tells(raised.value, "Itself", f"inner array '{inner}' is the object itself")
            assert raised.value.__cause__ is None


def test_inner_arrays_that_go_round():
    x, y = of(Holder, inner="_array")(), of(Holder, inner="_array")()
    x._array, y._array = y, x
    for ask in WAYS.values():
        with pytest.raises(RecursionError):
            ask(x)


def test_an_inner_array_goes_before_an_own_method():
    x = of(Decorated, inner="memory")()
    assert memory_of(x) == SIX and x.asked == []


def test_an_own_method_goes_before_the_inner_array_of_a_base():
    @dlshim.producer
    class Own(of(Holder, inner="_array")):
        __dlpack__ = seven

    assert memory_of(Own()) == [7]


# --- the author's own method ---------------------------------------------------------------------


@BOTH
def test_super_leads_from_one_decorated_class_to_the_next(ask):
    @dlshim.producer
    class Sub(Decorated):
        def __dlpack__(self, **asked):
            self.asked.append("Sub")
            return super().__dlpack__(**asked)

        def __dlpack_device__(self):
            return super().__dlpack_device__()

    for _ in range(2):
        x = Sub()
        ask(x)
        assert x.asked[0] == "Sub" and x.asked[-1] == "Decorated"
        assert set(x.asked) == {"Sub", "Decorated"}
        assert x.__dlpack_device__() == (1, 0)


@BOTH
def test_an_override_is_not_bypassed(ask):
    """Neither by the methods nor by the C table; and super() in it reaches the author's method."""

    class Sub(Decorated):
        def __dlpack__(self, **asked):
            self.asked.append("Sub")
            return super().__dlpack__(**asked)

    x = Sub()
    for export in (ask, Table(Sub).owned):
        x.asked.clear()
        export(x)
        assert x.asked == ["Sub", "Decorated"]
    x.asked.clear()
    assert memory_of(x) == SIX and x.asked == ["Sub", "Decorated"]


def test_an_override_of_the_device_is_not_bypassed():
    class Sub(Decorated):
        def __dlpack_device__(self):
            self.asked.append("device")
            return super().__dlpack_device__()

    x = Sub()
    assert x.__dlpack_device__() == (1, 0)
    assert x.asked == ["device"]
    versioned(x)
    assert "device" in x.asked[1:] and "Decorated" in x.asked


def test_a_subclass_that_overrides_the_export_answers_for_the_device():
    @dlshim.producer
    class Base:
        def __dlpack__(self, **_):
            raise AssertionError("the subclass exports")

    class Sub(Base):
        def __dlpack__(self, **_):
            return dlshim.upgrade(array.array("i", SIX)).__dlpack__()

    assert Sub().__dlpack_device__() == (1, 0)


def test_an_override_of_one_object():
    x = Decorated()
    x.__dlpack__ = seven
    with Table(Decorated).owned(x) as imported:
        assert imported.view.values() == [7]
    assert x.asked == []


def test_a_method_that_is_replaced_later():
    cls = of(Decorated)
    x = cls()
    assert memory_of(x) == SIX
    cls.__dlpack__ = seven
    assert memory_of(x) == [7]
    with Table(cls).owned(x) as imported:
        assert imported.view.values() == [7]


def test_a_base_whose_method_is_replaced_later():
    class Base:
        def __dlpack__(self, **_):
            raise AssertionError("it was replaced")

    x = of(Base)()
    Base.__dlpack__ = seven
    assert memory_of(x) == [7]


def test_a_base_that_comes_after_in_the_mro():
    """Found when the object is asked: the changed class has nothing of its own."""

    class Mixin(dlshim.ProducerMixin):
        pass

    class Late(Mixin, P1):
        pass

    x = Late()
    for _ in range(3):
        with versioned(x) as imported:
            assert imported.view.element_zero == x.element_zero


def test_methods_for_other_objects_run_meanwhile():
    @dlshim.producer
    class Chain:
        def __init__(self, inner):
            self.inner = inner

        def __dlpack__(self, **asked):
            return self.inner.__dlpack__(**asked)

        def __dlpack_device__(self):
            return self.inner.__dlpack_device__()

    x = Decorated()
    for _ in range(40):
        x = Chain(x)
    for _ in range(2):
        assert memory_of(x) == SIX
        assert x.__dlpack_device__() == (1, 0)


def test_one_class_is_decorated_in_several_threads():
    """Each sees it whole, as it was or as it becomes."""
    for _ in range(150):
        cls = fresh(P2)

        def work(cls=cls):
            dlshim.producer(cls)
            assert memory_of(cls()) == [[0, 1, 2], [3, 4, 5]]

        together(work, threads=4, rounds=1, interval=1e-6)


def test_no_code_of_a_metaclass_runs_under_the_lock():
    """It may want a lock which a forking thread has."""
    ran = []

    def note(value=None):
        ran.append(dlshim.locks.changing._is_owned())
        return value

    class ByProperty(type):
        __dlpack__ = property(lambda cls: note(), lambda cls, value: note())

    class ByRepr(type):
        def __repr__(cls):
            return note("a class")

    class Own(metaclass=ByProperty):
        __dlpack_device__ = on_host

    with contextlib.suppress(TypeError):
        dlshim.producer(Own)
    seen = len(ran)

    class Refuses(metaclass=ByRepr):
        def __dlpack__(self, **_):
            raise BufferError

        __dlpack_device__ = on_host

    with mock.patch("dlshim.decorator.setattr", refusing, create=True):
        with pytest.raises(TypeError, match="a class cannot be changed"):
            dlshim.producer(Refuses)
    assert seen and len(ran) > seen and not any(ran)


def refusing(*_):
    raise AttributeError("it may not be set")


def test_two_threads_in_the_own_method_of_one_object():
    """The other thread's call is not taken for one that came back."""
    inside = threading.Barrier(2)

    @dlshim.producer
    class Meets(Buffer):
        def __dlpack__(self, **_):
            inside.wait(child.HANGS)
            return dlshim.upgrade(array.array("b", [7])).__dlpack__()

    x, got = Meets(), []
    together(lambda: got.append(memory_of(x)), threads=2, rounds=1)
    assert got == [[7], [7]]


def test_twenty_threads_in_own_methods_that_call_super():
    """Each goes its own way."""
    inside = threading.Barrier(20)

    class Calls(Decorated):
        def __dlpack__(self, **asked):
            if not self.entered:
                self.entered = True
                inside.wait(child.HANGS)
            return super().__dlpack__(**asked)

    Calls = dlshim.producer(Calls)
    objects, got = [Calls() for _ in range(20)], []
    for x in objects:
        x.entered = False
    together(*(lambda x=x: got.append(memory_of(x)) for x in objects), threads=20, rounds=1)
    assert got == [SIX] * 20


class Method:
    """A method that is an object; `owner` is an attribute of another purpose."""

    owner = "me"

    def __call__(self, **_):
        return seven()


METHODS = {
    "function": seven,
    "staticmethod": staticmethod(seven),
    "classmethod": classmethod(seven),
    "partialmethod": functools.partialmethod(seven),
    "callable": Method(),
    "property": property(lambda self: seven),
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_methods_of_every_kind(method):
    def calls_super(self, **asked):
        return super(again, self).__dlpack__(**asked)

    base = type("Base", (), {"__dlpack__": method})
    for cls in (of(base), dlshim.producer(base)):
        again = dlshim.producer(type("Again", (cls,), {"__dlpack__": calls_super}))
        for x in (cls(), again()):
            for _ in range(2):
                assert memory_of(x) == [7]


def test_the_own_methods_stay_reachable():
    """As the class or a base has them, also beside an inner array."""

    class Base:
        _array = array.array("i", SIX)

        def __dlpack__(self, stream=None):
            """Doc of the author."""
            return self, stream

        @classmethod
        def __dlpack_device__(cls):
            return cls

    for cls in (type("Direct", (), dict(vars(Base))), type("Inherits", (Base,), {})):
        own, wanted = cls.__dlpack__, inspect.signature(cls.__dlpack__)
        for change in (dlshim.producer, dlshim.producer(inner="_array"), dlshim.producer):
            x = change(cls)()
            assert x.__dlshim_dlpack__(5) == (x, 5) and x.__dlshim_dlpack_device__() is cls
            method = cls.__dlshim_dlpack__
            assert inspect.signature(method) == wanted and inspect.unwrap(method) is own
            assert (method.__qualname__, method.__doc__) == (own.__qualname__, own.__doc__)
        assert memory_of(x) == SIX and x.__dlshim_inner__ == "_array"
        shown = x.__dlpack__  # with the name of the class once it is bound
        assert shown.__qualname__ == f"{cls.__name__}.__dlpack__"
        assert next(iter(inspect.signature(shown).parameters)) == "stream"


def test_none_is_not_offered():
    @dlshim.producer
    class Refuses(Buffer):
        __dlpack__ = None
        __dlpack_device__ = None

    assert memory_of(Refuses()) == SIX


# --- the class -----------------------------------------------------------------------------------


def test_the_class_is_changed_in_place():
    class Plain(Buffer):
        """Doc."""

        def other(self):
            return 1

    members = {k: v for k, v in vars(Plain).items() if k not in ("__dict__", "__weakref__")}
    assert dlshim.producer(Plain) is Plain
    assert members.items() <= vars(Plain).items()
    put = set(vars(Plain)) - set(members) - {"__dict__", "__weakref__", "__abstractmethods__"}
    assert put == {
        "__dlpack__",
        "__dlpack_device__",
        "__dlpack_c_exchange_api__",
        "__c_dlpack_exchange_api__",
        "__dlshim_methods__",
    }
    assert dlshim.producer(Plain) is Plain  # twice does no harm
    assert memory_of(Plain()) == SIX
    assert "max_version" in inspect.signature(Plain.__dlpack__).parameters
    assert Plain.__dlpack__.__doc__


def test_twice_keeps_the_own_method():
    cls = of(Decorated)
    x = dlshim.producer(dlshim.producer(cls))()
    assert memory_of(x) == SIX and x.asked == ["Decorated"]


@pytest.mark.parametrize("cls", [int, array.array, memoryview, dlshim.Producer, dlshim.Tensor])
def test_types_that_cannot_be_changed(cls):
    with pytest.raises(TypeError) as raised:
        dlshim.producer(cls)
    tells(raised.value, "cannot be changed", r"dlshim\.upgrade")


def test_what_is_no_class():
    for value in (3, "_array"):
        with pytest.raises(TypeError) as raised:
            dlshim.producer(value)
        tells(raised.value, "classes", "inner=", r"dlshim\.upgrade")


def test_a_class_with_nothing_to_export():
    class Nothing:
        def method(self):
            return 1

    class Abstract(abc.ABC):
        @abc.abstractmethod
        def other(self): ...

    class Capsule:
        def to_dlpack(self):
            return P2().__dlpack__()

    before = dict(vars(Nothing))
    for change in (dlshim.producer, dlshim.producer(array=True)):
        with pytest.raises(TypeError) as raised:
            change(Nothing)
        tells(raised.value, "Nothing", "nothing to export", "inner=", "__dlpack__", "ProducerMixin")
    assert dict(vars(Nothing)) == before
    for cls in (Abstract, Capsule, Buffer, StructOnly, InterfaceOnly):
        of(cls)
        dlshim.producer(cls) if cls in (Abstract, Capsule) else None
    dlshim.from_dlpack(Capsule())
    dlshim.producer(inner="method")(Nothing)


WRONG = {
    "inner: a number": ({"inner": 5}, "inner=5 is not the name"),
    "inner: nothing": ({"inner": ""}, "inner='' is not the name"),
    "inner: a path": ({"inner": "a.b"}, "inner='a.b' is not the name"),
    "array": ({"array": 5}, "array=5 is neither True nor False"),
}


@pytest.mark.parametrize("options, text", WRONG.values(), ids=WRONG.keys())
def test_options_that_are_wrong(options, text):
    for change in (
        lambda: dlshim.producer(**options),  # before there is a class
        lambda: dlshim.producer(Holder, **options),
        lambda: types.new_class("Mixed", (dlshim.ProducerMixin,), options),
    ):
        with pytest.raises(TypeError, match=text):
            change()
    assert "__dlpack__" not in vars(Holder)


def test_an_unknown_option_of_the_mixin():
    class Takes:
        def __init_subclass__(cls, *, iner, **keywords):
            super().__init_subclass__(**keywords)
            cls.taken = iner

    with pytest.raises(TypeError) as raised:
        types.new_class("Mixed", (dlshim.ProducerMixin,), {"iner": "_array"})
    tells(raised.value, "Mixed", "inner=, array= and from_dlpack=, not iner=")
    made = types.new_class("Mixed", (dlshim.ProducerMixin, Takes), {"iner": "_array"})
    assert made.taken == "_array"


def test_a_private_name():
    class __Mangled:
        def __init__(self):
            self.__array = P1()

    x = dlshim.producer(inner="__array")(__Mangled)()
    assert memory_of(x) == memory_of(P1())

    class Mixed(dlshim.ProducerMixin, inner="__array"):
        def __init__(self):
            self.__array = P1()

    class Dunder(Holder):
        __both__ = property(lambda self: self._array)

    assert memory_of(Mixed()) == memory_of(of(Dunder, inner="__both__")()) == memory_of(P1())


@pytest.mark.parametrize("error", [TypeError, AttributeError, RuntimeError, KeyboardInterrupt])
def test_a_metaclass_that_refuses(error):
    """At any of the attributes: then the class is as before."""

    class Meta(type):
        left = None

        def __setattr__(cls, name, value):
            if Meta.left == 0:
                raise error("no")
            if Meta.left is not None:
                Meta.left -= 1
            super().__setattr__(name, value)

    cls = Meta("WithMeta", (Buffer,), {"__dlpack_device__": lambda self: (1, 0), "a": 1})
    before = dict(vars(cls))
    for left in range(5):
        Meta.left = left
        with pytest.raises(TypeError if error is AttributeError else error) as raised:
            dlshim.producer(inner="a")(cls)
        if error in (TypeError, AttributeError):
            tells(raised.value, "WithMeta", "cannot be changed", "dlshim.upgrade")
        assert dict(vars(cls)) == before
    Meta.left = None
    assert memory_of(dlshim.producer(cls)()) == SIX


def test_super_of_a_subclass_is_asked_once():
    """The author's own method exports, and there is no device method: it runs once all the same."""

    class Counts(dlshim.ProducerMixin, array.array):
        calls = 0

        def __dlpack__(self, **asked):
            Counts.calls += 1
            return super().__dlpack__(**asked)

    class Inner(dlshim.ProducerMixin, inner="memory"):
        memory = array.array("i", SIX)

    class Inherits(Inner):
        def __dlpack__(self, **asked):
            Counts.calls += 1
            return super().__dlpack__(**asked)

    for make in (lambda: Counts("i", SIX), Inherits):
        for ask in (memory_of, lambda x: x.__dlpack_device__() and SIX):
            for _ in range(2):
                Counts.calls = 0
                assert ask(make()) == SIX
                assert Counts.calls == 1


@pytest.mark.parametrize("order", ["above", "below"])
def test_dataclasses_with_slots(order):
    """dataclass(slots=True) makes another class of the members."""

    def declare(cls):
        made = dataclasses.dataclass(slots=True)
        return dlshim.producer(made(cls)) if order == "above" else made(dlshim.producer(cls))

    @declare
    class Data:
        memory: object = dataclasses.field(default_factory=lambda: array.array("i", SIX))

        def __dlpack__(self, stream=None):
            return dlshim.upgrade(self.memory).__dlpack__()

    @declare
    class Inside(dlshim.ProducerMixin, inner="memory"):
        memory: object = dataclasses.field(default_factory=lambda: array.array("i", SIX))

    for cls in (Data, Inside):
        for ask in (bare, versioned, Table(cls).owned):
            with ask(cls()) as imported:
                assert imported.view.values() == SIX
        assert dataclasses.replace(cls()) == cls()
        assert [field.name for field in dataclasses.fields(cls)] == ["memory"]
        assert not hasattr(Data(), "__dict__")


def test_abstract_classes():
    class Base(abc.ABC):
        @abc.abstractmethod
        def __dlpack__(self, **_): ...

        @abc.abstractmethod
        def other(self): ...

    dlshim.producer(Base)
    assert Base.__abstractmethods__ == {"__dlpack__", "other"}
    assert Base.__dlpack__.__isabstractmethod__

    @dlshim.producer
    class Concrete(Base):
        def __init__(self):
            self.memory = array.array("i", SIX)

        def __buffer__(self, _):  # from 3.12 on
            return memoryview(self.memory)

        @property
        def __array_interface__(self):
            address, size = self.memory.buffer_info()
            return {
                "data": (address, False),
                "shape": (size,),
                "typestr": caps.native("<i4"),
                "version": 3,
            }

        def other(self):
            return 1

    assert not inspect.isabstract(Concrete) and memory_of(Concrete()) == SIX

    class Own(Base):
        __dlpack__ = seven

        def other(self):
            return 1

    assert memory_of(Own()) == [7] and Own().__dlpack_device__() == (1, 0)
    with Table(Own).owned(Own()) as imported:
        assert imported.view.values() == [7]


class Remembers:
    """It looks at its subclasses itself."""

    def __init_subclass__(cls, *, word, **keywords):
        super().__init_subclass__(**keywords)
        cls.word = word


def abstract_class(*bases, **more):
    """A class with old abstract methods."""

    @abc.abstractmethod
    def dlpack(self, stream=None): ...

    @abc.abstractmethod
    def dlpack_device(self): ...

    members = {"__dlpack__": dlpack, "__dlpack_device__": dlpack_device, **more}
    keywords = {"word": "base"} if bases else {}
    return abc.ABCMeta("Base", bases, members, **keywords)


def hook(cls, *, more, **keywords):
    super(cls.__mro__[-3], cls).__init_subclass__(word="sub", **keywords)
    cls.more = more


class Remembered:
    """A hook without a ``__get__``."""

    def __call__(self):
        pass


# An abstract class, and the keywords that its subclasses take.
ABSTRACT = {
    "plain": (lambda: dlshim.producer(abstract_class()), {}),
    "twice": (lambda: dlshim.producer(dlshim.producer(abstract_class())), {}),
    "another method": (lambda: dlshim.producer(abstract_class(__dlpack__=None)), {}),
    "slots": (lambda: dataclasses.dataclass(slots=True)(dlshim.producer(abstract_class())), {}),
    "a hook": (
        lambda: dlshim.producer(abstract_class(Remembers, __init_subclass__=classmethod(hook))),
        {"more": 5},
    ),
    "a hook that is no function": (
        lambda: dlshim.producer(abstract_class(__init_subclass__=Remembered())),
        {},
    ),
    "a hook of a base": (lambda: dlshim.producer(abstract_class(Remembers)), {"word": "sub"}),
}


@BOTH
@pytest.mark.parametrize("make, keywords", ABSTRACT.values(), ids=ABSTRACT.keys())
def test_subclasses_of_an_abstract_class_may_take_old_keywords(make, keywords, ask):
    base = make()

    class Middle(base, **keywords):
        pass

    class Concrete(Middle, **keywords):
        def __init__(self):
            self.memory = array.array("i", SIX)

        def __dlpack__(self, stream=None):
            return dlshim.upgrade(self.memory).__dlpack__()

        __dlpack_device__ = on_host

    class Mixed(P1, base, **keywords):
        pass

    class Unfinished(Middle, **keywords):
        def __dlpack__(self, stream=None):
            raise AssertionError

    for cls in (base, Middle, Unfinished):  # nothing is filled in that the author wants written
        assert "__dlpack_device__" in cls.__abstractmethods__
        with pytest.raises(TypeError, match="abstract"):
            cls()
    for cls in (Concrete, Mixed, types.new_class("Sub", (Concrete,), keywords)):
        with ask(cls()) as imported:
            assert imported.view.values() == (P1().values() if cls is Mixed else SIX)
        assert cls().__dlpack_device__() == (1, 0)
        assert {name: getattr(cls, name) for name in keywords} == keywords
    assert memory_of(Concrete()) == SIX


def test_a_subclass_of_an_abstract_class_may_offer_nothing():
    class Closed(dlshim.producer(abstract_class())):
        __dlpack__ = None
        __dlpack_device__ = None

    assert vars(Closed)["__dlpack__"] is vars(Closed)["__dlpack_device__"] is None
    with pytest.raises(dlshim.UnsupportedObjectError):
        dlshim.from_dlpack(Closed())


def test_a_subclass_that_cannot_be_changed_is_left_as_it_is():
    class Closed(abc.ABCMeta):
        def __setattr__(cls, name, value):
            if cls.__name__ == "Sub" and "dlpack" in name:
                raise TypeError(f"{name} stays")
            super().__setattr__(name, value)

    base = dlshim.producer(Closed("Base", (abstract_class(),), {}))

    class Sub(base):
        def __dlpack__(self, stream=None):
            return seven()

        __dlpack_device__ = on_host

    assert "__dlshim_dlpack__" not in vars(Sub)
    assert dlshim.from_dlpack(Sub()).tobytes() == b"\7"


@pytest.mark.parametrize("again", [dlshim.producer, lambda cls: cls])
def test_an_abstract_class_decorated_twice_around_slots(again):
    inner = dlshim.producer(dlshim.producer(abstract_class()))
    base = again(dataclasses.dataclass(slots=True)(inner))

    class Sub(base):
        def __dlpack__(self, stream=None):
            return seven()

        __dlpack_device__ = on_host

    assert memory_of(Sub()) == [7]


def test_keywords_that_no_class_takes_are_refused_as_by_python():
    base = dlshim.producer(abstract_class())
    with pytest.raises(TypeError, match=r"Sub.__init_subclass__\(\) takes no keyword arguments"):
        types.new_class("Sub", (base,), {"word": 1})


def test_generic_classes():
    kind = typing.TypeVar("kind")

    @dlshim.producer
    class Generic(typing.Generic[kind]):
        __dlpack__ = seven

    assert memory_of(Generic[int]()) == [7]
    assert isinstance(Generic[int](), Generic)
    assert Generic.__parameters__ == (kind,)

    class Sub(Generic[str]):
        pass

    assert memory_of(Sub()) == [7]


def test_metaclasses_and_protocols():
    class Meta(type):
        def __call__(cls, *args):
            made = super().__call__(*args)
            made.made_by = cls
            return made

    @typing.runtime_checkable
    class Exports(typing.Protocol):
        def __dlpack__(self) -> object: ...

    cls = dlshim.producer(Meta("WithMeta", (Buffer,), {}))
    assert type(cls) is Meta and cls().made_by is cls
    assert isinstance(cls(), Exports) and memory_of(cls()) == SIX


def test_pickling_and_copying():
    x = Decorated()
    y = pickle.loads(pickle.dumps(x))
    assert type(y) is Decorated and memory_of(y) == SIX
    assert pickle.loads(pickle.dumps(Decorated)) is Decorated
    assert memory_of(copy.deepcopy(x)) == SIX
    assert pickle.loads(pickle.dumps(x.__dlpack_device__))() == (1, 0)


def test_the_mixin():
    class Mixed(dlshim.ProducerMixin, inner="_array"):
        def __init__(self):
            self._array = P1()

    class Sub(Mixed):
        pass

    class Own(dlshim.ProducerMixin):
        __dlpack__ = seven

    class Old(dlshim.ProducerMixin, P1):
        pass

    class Slots(dlshim.ProducerMixin, inner="a"):
        __slots__ = ("a",)

    for cls in (Mixed, Sub):
        with versioned(cls()) as imported:
            assert imported.view.values() == P1().values()
    assert memory_of(Own()) == [7]
    x = Old()
    with versioned(x) as imported:
        assert imported.view.element_zero == x.element_zero
    assert not hasattr(Slots(), "__dict__")
    assert isinstance(x, dlshim.ProducerMixin)

    class Refuses(Own):
        def __init_subclass__(cls, *, word, **keywords):
            super().__init_subclass__(**keywords)
            cls.word = word

    class Last(Refuses, word="w"):
        pass

    assert Last.word == "w" and memory_of(Last()) == [7]


# --- the C table and __array__ -------------------------------------------------------------------


def test_the_table_of_a_class():
    table = Table(Decorated)
    assert Decorated.__c_dlpack_exchange_api__ == table.address
    assert not table.struct.dltensor_from_py_object_no_sync
    assert table.address != Table(dlshim.Producer).address
    x = Decorated()
    for _ in range(3):
        with table.owned(x) as imported:
            assert imported.view.values() == SIX
    with pytest.raises(dlshim.UnsupportedObjectError):
        table.owned(object())
    with table.owned(Buffer()) as imported:
        assert imported.view.values() == SIX
    with pytest.raises(TypeError):
        Table(dlshim.Producer).owned(x)


def test_array_is_added_on_request():
    numpy = pytest.importorskip("numpy", reason="__array__ makes an array of NumPy")
    assert not hasattr(of(Buffer), "__array__")
    x = of(Decorated, array=True)()
    y = numpy.asarray(x)
    assert y.tolist() == SIX and y.ctypes.data == x.memory.buffer_info()[0]
    assert numpy.array(x, dtype="f4").dtype == numpy.float32
    held = of(Holder, inner="_array", array=True)()
    assert numpy.asarray(held).shape == held._array.shape


def test_an_own_array_method_is_not_replaced():
    class Own(Buffer):
        def __array__(self, dtype=None, copy=None):
            return "own"

    class Inherits(Own):
        pass

    class Abstract(Buffer, metaclass=abc.ABCMeta):
        @abc.abstractmethod
        def __array__(self): ...

    for cls in (Own, Inherits):
        with pytest.raises(TypeError) as raised:
            dlshim.producer(array=True)(cls)
        tells(raised.value, cls.__name__, "__array__ of its own", "array=True")
        assert cls().__array__() == "own" and "__dlpack__" not in vars(cls)
    dlshim.producer(array=True)(dlshim.producer(array=True)(of(Buffer)))
    assert "__array__" in vars(of(Abstract, array=True))


def test_the_mixin_beside_protocols_enums_and_metaclasses():
    class Exports(typing.Protocol):
        memory: object

        def __dlpack__(self, **keywords) -> object: ...

        def __init_subclass__(cls, *, word=None, **keywords):
            super().__init_subclass__(**keywords)
            cls.word = word

    class Meta(abc.ABCMeta):
        def __new__(cls, name, bases, members, tag=None, **keywords):
            made = super().__new__(cls, name, bases, members, **keywords)
            made.tag = tag
            return made

    class Holds:
        def __init__(self):
            self.memory = array.array("i", SIX)

    class First(Holds, dlshim.ProducerMixin, Exports, inner="memory", word="w"):
        pass

    class Last(Holds, Exports, dlshim.ProducerMixin, inner="memory"):
        pass

    class WithMeta(Holds, dlshim.ProducerMixin, metaclass=Meta, inner="memory", tag="t"):
        pass

    class Kind(dlshim.ProducerMixin, enum.Enum, inner="memory"):
        SIX = 6

        @property
        def memory(self):
            return array.array("i", range(self.value))

    for x in (First(), Last(), WithMeta(), Kind.SIX):
        assert memory_of(x) == SIX
        with versioned(x) as imported:
            assert imported.view.values() == SIX
    assert First.word == "w" and WithMeta.tag == "t"
    # typing refuses it: a protocol inherits from protocols alone, a NamedTuple from nothing.
    with pytest.raises(TypeError, match=r"^Protocols can only inherit from other protocols"):

        class _(dlshim.ProducerMixin, typing.Protocol):
            pass

    class Fields(typing.NamedTuple):
        memory: object

    assert memory_of(dlshim.producer(inner="memory")(Fields)(array.array("i", SIX))) == SIX


# --- lifetimes -----------------------------------------------------------------------------------


@BOTH
def test_an_export_holds_the_object_as_that_of_upgrade_does(ask):
    def life(make):
        x = make()
        reference = weakref.ref(x)
        imported = ask(x if hasattr(type(x), "__c_dlpack_exchange_api__") else dlshim.upgrade(x))
        del x
        gc.collect()
        held = reference() is not None
        imported.release()
        del imported
        gc.collect()
        assert reference() is None
        return held

    for cls in (P1, P2, StructOnly):
        assert life(of(cls)) == life(cls), cls


def test_an_object_is_not_kept_alive():
    cls = of(Decorated)
    x = cls()
    reference, count = weakref.ref(x), sys.getrefcount(x)
    for ask in (bare, versioned, Table(cls).owned):
        ask(x)
    x.__dlpack_device__()
    with pytest.raises(TypeError):
        x.__dlpack__(wrong=1)
    assert sys.getrefcount(x) == count
    del x
    assert reference() is None


def test_a_class_is_not_kept_alive():
    gil.need_classes_that_die()
    for inner in (None, "memory"):
        cls = of(Decorated, inner=inner)
        late = type("Late", (type("Base", (dlshim.ProducerMixin,), {}), P1), {})
        for each in (cls, late):
            x = each()
            memory_of(x)
            x.__dlpack_device__()
        references = [weakref.ref(cls), weakref.ref(late)]
        del cls, late, each, x
        gc.collect()
        assert [r() for r in references] == [None, None]


class Legacy:
    """An old class in Python whose export does not hold the object."""

    def __init__(self):
        self.memory = array.array("i", SIX)

    def __dlpack__(self, stream=None):
        return dlshim.upgrade(self.memory).__dlpack__()


KEPT = {
    "a Tensor": dlshim.from_dlpack,
    "a Tensor with options": lambda x: dlshim.from_dlpack(x, order="K"),
    "a Tensor of a Producer": lambda x: dlshim.from_dlpack(dlshim.upgrade(x)),
    "a Producer": dlshim.upgrade,
    "a buffer": lambda x: memoryview(dlshim.from_dlpack(x)),
}


@pytest.mark.parametrize("make", KEPT.values(), ids=KEPT.keys())
def test_an_object_that_keeps_what_is_made_of_it_is_collected(make):
    for options in ({}, {"inner": "memory"}):
        x = of(Legacy, **options)()
        reference = weakref.ref(x)
        x.kept = make(x)
        del x
        gc.collect()
        assert reference() is None


def test_memory_that_runs_out():
    from dlshim import _core

    for ask in (bare, versioned, Table(Decorated).owned):
        for n in range(1, 40):
            _core._hook("forget_plans")
            x = Decorated()
            _core._hook("fail_alloc", n)
            try:
                got = ask(x)
            except (MemoryError, BufferError):
                pass
            else:
                assert got.view.values() == SIX
                break
            finally:
                _core._hook("fail_alloc", -1)
        assert 1 < n < 39
        del got


# --- imports and interpreters --------------------------------------------------------------------


@pytest.mark.once
def test_nothing_is_imported_for_a_class():
    told = child.program("imports_of_a_producer_class").split()
    assert "dlshim.decorator" in told and "dlshim.arrays" not in told and "typing" not in told


@pytest.mark.once
def test_a_class_outlives_the_module():
    said = child.program("class_outlives_the_module").splitlines()
    assert said[-1] == "[1, 2] True", said


@pytest.mark.once
def test_subinterpreters_have_classes_of_their_own():
    pytest.importorskip("_testcapi", reason="it makes subinterpreters")
    assert child.program("classes_of_subinterpreters").split() == ["end"]


# ---- classes of others ----------------------------------------------------------------------


@pytest.fixture
def library(monkeypatch):
    """A finished package with a class of its own, and what runs in it."""
    package = types.ModuleType("a_library")
    exec("class Array:\n    def __dlpack__(self): ...\ndef run(f, *a): return f(*a)", vars(package))
    monkeypatch.setitem(sys.modules, "a_library", package)
    return package


def test_a_class_of_another_package_is_not_changed(library):
    """Everybody in the process saw torch.Tensor changed."""
    before = dict(vars(library.Array))
    with pytest.raises(
        TypeError, match="belongs to a_library, whose other users would see it"
    ) as told:
        dlshim.producer(library.Array)
    assert "wrap its objects with dlshim.upgrade(x), or decorate a subclass of your own" in str(
        told.value
    )
    with pytest.raises(TypeError, match="belongs to a_library"):
        dlshim.producer(inner="array")(library.Array)
    assert dict(vars(library.Array)) == before
    sub = dlshim.producer(type("Mine", (library.Array,), {}))
    assert "__dlpack__" in vars(sub)


def test_a_package_changes_its_own_class_and_one_that_calls_it(library):
    assert library.run(dlshim.producer, library.Array) is library.Array
    library._core = types.ModuleType("_a_library")

    class Unfinished:
        def __dlpack__(self): ...

    Unfinished.__module__ = "a_library"  # its definition has not ended: the name is not there
    assert dlshim.producer(Unfinished) is Unfinished


def test_a_compiled_part_of_a_package_is_the_package(library, monkeypatch):
    compiled = types.ModuleType("_a_library")
    monkeypatch.setitem(sys.modules, "_a_library", compiled)
    compiled.Array = type("Array", (), {"__dlpack__": lambda self: None})
    compiled.Array.__module__ = "_a_library"
    assert library.run(dlshim.producer, compiled.Array) is compiled.Array


def test_a_class_whose_qualified_name_is_another_module_s_is_not_changed(library):
    """jax.Array was changed: its module is `jax`, its qualified name `jaxlib._jax.Array`."""
    library.Array.__qualname__ = "b_library._core.Array"
    with pytest.raises(TypeError, match="belongs to a_library"):
        dlshim.producer(inner="array")(library.Array)


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not here")
def test_jax_stays_as_it_is():
    """In a process of its own: other tests have doubles of a JAX that is not imported."""
    child.run("""
        import dlshim, jax
        try:
            dlshim.producer(jax.Array)
        except TypeError as error:
            assert "belongs to jax" in str(error), error
        else:
            raise AssertionError("jax.Array was changed")
        """)


def test_torch_stays_as_it_is():
    torch = pytest.importorskip("torch")
    own = torch.Tensor.__dlpack__
    with pytest.raises(TypeError, match="belongs to torch"):
        dlshim.producer(torch.Tensor)
    assert torch.Tensor.__dlpack__ is own
