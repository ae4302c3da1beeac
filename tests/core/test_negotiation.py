"""N1 to N4 and N8: how a producer is asked, and what is learned from its answers."""

from __future__ import annotations

import gc
import itertools
import weakref
from unittest import mock

import pytest

import dlshim
import sampling
from dlshim import _core
from doubles import capsules as caps
from doubles import child, gil, producers
from doubles.asking import ASKINGS, bare, tells, versioned, walk
from doubles.delegating import Forwarding, NamesKeywords
from doubles.older import InterfaceOnly, StructOnly
from doubles.producers import (
    EDITIONS,
    P1,
    P2,
    P3,
    Asserting,
    Dunder,
    InstanceOnly,
    P0ToDlpack,
    P1a,
    P1aNoDevice,
    P1b,
    P1Positional,
    P2ExactMinor,
    P2NoCopyNoDevice,
    P2Torch,
    P3Failing,
    P3MajorTwo,
    P3NewSpellingInt,
    P3Older,
    P3OldSpelling,
    P3OldSpellingCapsule,
    P3Silent,
    Placeholder,
    PyarrowWithNulls,
    Raises,
    Recorder,
    RefusesLegacyOnly,
    Strict,
    StrictValueError,
    TableMixin,
    Tensorflow,
    fresh,
    masquerade,
    strict_like,
    tensorflow_like,
)

BOTH = pytest.mark.parametrize("ask", ASKINGS.values(), ids=ASKINGS.keys())


def gives(ask, x, y=None):
    """An export of `x` has its values, or those of `y`."""
    with ask(dlshim.upgrade(x)) as imported:
        assert imported.values() == (y or x).values()


# --- N1: one plan per type, learned from success --------------------------------------

# Types that refuse with something else than a TypeError are asked anew each time, and what
# sits on an instance is never generalised.
NOT_LEARNED = {"Strict", "StrictValueError", "Tensorflow", "Asserting", "InstanceOnly", "ByGetattr",
               "P3Silent"}  # fmt: skip
LEARNED = {name: cls for name, cls in EDITIONS.items() if name not in NOT_LEARNED}


def calls_of(x):
    return len(x.calls) + getattr(x, "table_calls", 0)


@BOTH
@pytest.mark.parametrize("cls", LEARNED.values(), ids=LEARNED.keys())
def test_N1_a_learned_exchange_is_exactly_one_call(cls, ask):
    x = cls()
    upgraded = dlshim.upgrade(x)
    ask(upgraded).release()
    before, devices = calls_of(x), x.device_calls
    ask(upgraded).release()
    assert calls_of(x) == before + 1
    assert x.device_calls == devices
    other = cls()  # learned for the type, not for the object
    ask(dlshim.upgrade(other)).release()
    assert calls_of(other) == 1
    assert other.device_calls == 0


@BOTH
@pytest.mark.parametrize("cls", [P1, P1a, P1b, P2, P0ToDlpack], ids=lambda c: c.__name__)
def test_N1_what_was_learned_for_one_generation_holds_for_the_other(cls, ask):
    x = cls()
    for first in ASKINGS.values():
        first(dlshim.upgrade(x)).release()
    before = calls_of(x)
    ask(dlshim.upgrade(x)).release()
    assert calls_of(x) == before + 1


@BOTH
@pytest.mark.parametrize("cls", [Strict, StrictValueError, Asserting], ids=lambda c: c.__name__)
def test_N1_a_step_down_by_another_error_is_for_this_one_exchange(cls, ask):
    """A ValueError may be about this one array: the next one is asked in full again."""
    x = cls()
    for _ in range(3):
        before = len(x.calls)
        ask(dlshim.upgrade(x)).release()
        keywords = x.keywords[before:]
        assert keywords[0].get("max_version") is not None
        assert keywords[-1].get("max_version") is None


@BOTH
@pytest.mark.parametrize("like", [strict_like, tensorflow_like], ids=["strict", "tensorflow"])
def test_N1_a_type_in_the_library_table_is_asked_as_its_row_says(like, ask):
    x = like()()
    ask(dlshim.upgrade(x)).release()
    before = len(x.calls)
    ask(dlshim.upgrade(x)).release()
    assert len(x.calls) == before + 1


class Moody(Dunder):
    """Changes what it takes from one moment to the next, as upgraded libraries do."""

    TAKES = producers.ALL_KEYWORDS

    def answer(self, max_version=None, **asked):
        return self._versioned() if producers.wants_versioned(max_version) else self._legacy()


@BOTH
def test_N1_where_the_learned_form_fails_another_serves_once(ask):
    """The class changes, or one object is different: what has worked stays learned."""
    cls = fresh(Moody)
    x = cls()
    for takes, calls in (
        (producers.ALL_KEYWORDS, 1),
        (("stream",), 2),
        ((), 2),
        (producers.ALL_KEYWORDS, 1),
        (("stream",), 2),
    ):
        cls.TAKES = takes
        for _ in range(2):
            gives(ask, x)
        before = len(x.calls)
        ask(dlshim.upgrade(x)).release()
        assert len(x.calls) == before + calls


def test_N1_one_objects_typeerror_does_not_cost_its_type_the_flag():
    """A legacy answer cannot say read-only: max_version stays learned for the others."""

    class Sticky(producers.P2LegacyOfReadonly):
        def __dlpack__(self, **asked):
            if self.refuses and asked.get("max_version") is not None:
                raise TypeError("this one object has no 1.x form")
            return super().__dlpack__(**asked)

    good, bad = Sticky(readonly=True), Sticky()
    good.refuses, bad.refuses = False, True
    assert dlshim.from_dlpack(good).readonly
    for _ in range(3):
        assert dlshim.from_dlpack(bad).shape == bad.shape
        assert dlshim.from_dlpack(good).readonly
        with versioned(dlshim.upgrade(good)) as imported:
            assert imported.view.flags & caps.READ_ONLY


class Positional(Forwarding):
    def __dlpack__(self, stream=None, max_version=None):
        return (
            self.inner.__dlpack__()
            if max_version is None
            else self.inner.__dlpack__(max_version=max_version)
        )


@BOTH
@pytest.mark.parametrize("base", [Forwarding, NamesKeywords, Positional], ids=lambda c: c.__name__)
@pytest.mark.parametrize("order", [*itertools.permutations(["new", "old", "new", "bare"])], ids=str)
def test_N1_what_an_array_refuses_costs_the_class_that_holds_it_no_flag(order, base, ask):
    """The signature of the class takes max_version: the refusal is the array's own."""
    cls = fresh(base)
    for held in order:
        # Asked bare, it gives a legacy capsule of read-only memory, without a word.
        new = producers.P2LegacyOfReadonly(readonly=True)
        x = {"new": new, "old": P1()}.get(held) or P1()
        if held == "bare":
            x.TAKES = ()
        if held == "new" and ask is bare:
            with pytest.raises(BufferError, match="read-only"):
                ask(dlshim.upgrade(cls(x)))
            continue
        with ask(dlshim.upgrade(cls(x))) as imported:
            assert imported.values() == x.values()
            assert ask is bare or imported.view.readonly == (held == "new")
        assert held != "new" or len(x.calls) == 1


@BOTH
def test_N1_a_signature_that_refuses_is_learned(ask):
    """A method of Python that takes no max_version, and none that takes any keyword."""

    class Own(P1):
        def __dlpack__(self, *, stream=None):
            return super().__dlpack__(stream=stream)

    class Takes(P1):
        def __dlpack__(self, **asked):
            return super().__dlpack__(**asked)

    for base, learned in ((Own, True), (Takes, False)):
        cls = fresh(base)
        ask(dlshim.upgrade(cls())).release()
        x = cls()
        ask(dlshim.upgrade(x)).release()
        assert (len(x.calls) == 1) == learned, x.calls


@BOTH
def test_N1_an_interrupt_of_the_look_at_the_signature_comes_out(ask):
    class Interrupted(P1):
        def __getattribute__(self, name):
            if name == "__dlpack__" and self.calls:
                raise KeyboardInterrupt
            return super().__getattribute__(name)

    x = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        ask(dlshim.upgrade(x))
    assert len(x.calls) == 1


def test_N1_relearning_happens_once_per_exchange():
    """A type that refuses everything ends in an error, not in a loop."""
    cls = fresh(Moody)
    x = cls()
    versioned(dlshim.upgrade(x)).release()

    def refuse(self, **asked):
        raise TypeError("not today")

    cls.answer = refuse
    before = len(x.calls)
    with pytest.raises(BufferError):
        versioned(dlshim.upgrade(x))
    assert len(x.calls) - before <= 12


@BOTH
def test_N1_failures_teach_nothing(ask):
    """The first object of a type fails for its data's sake; the second is asked in full."""
    cls = fresh(Moody)
    good = cls.answer

    def fail(self, **asked):
        raise TypeError("unsupported data") if asked else RuntimeError("unsupported data")

    cls.answer = fail
    with pytest.raises(BufferError):
        ask(dlshim.upgrade(cls()))
    cls.answer = good
    x = cls()
    ask(dlshim.upgrade(x)).release()
    assert x.keywords[0].get("max_version") is not None


def test_N1_a_plan_does_not_keep_its_type_alive():
    gil.need_classes_that_die()
    for base in (P1, P2, P3, P0ToDlpack, InstanceOnly, InterfaceOnly):
        cls = fresh(base)
        dead = weakref.ref(cls)
        versioned(dlshim.upgrade(cls())).release()
        del cls
        caps.close_accounts()
        gc.collect()
        assert dead() is None, base.__name__


def test_N1_a_type_at_the_address_of_a_dead_one_is_met_anew():
    for base in (P1, P2, P1a, P0ToDlpack, InterfaceOnly) * 20:
        cls = fresh(base)
        x = cls()
        gives(versioned, x)
        del cls, x
        caps.close_accounts()
        gc.collect(0)


def test_N1_many_types_in_turn():
    """Plans must not be confused, moved or evicted while a Producer owns one."""
    classes = [fresh(base) for base in LEARNED.values() for _ in range(4)]
    objects = [cls() for cls in classes]
    upgraded = [dlshim.upgrade(x) for x in objects]
    for _ in range(3):
        for x, u in zip(objects, upgraded, strict=True):
            with versioned(u) as imported:
                assert imported.view.element_zero == x.element_zero


def test_N1_forgotten_plans_leave_producers_usable():
    upgraded = dlshim.upgrade(P1())
    versioned(upgraded).release()
    _core._hook("forget_plans")
    versioned(upgraded).release()
    versioned(dlshim.upgrade(P1())).release()


@BOTH
def test_N1_an_object_that_changes_its_class(ask):
    first, second = fresh(P1), fresh(P2)
    x = first()
    upgraded = dlshim.upgrade(x)
    ask(upgraded).release()
    x.__class__ = second
    with ask(upgraded) as imported:
        assert imported.values() == x.values()
    assert x.keywords[-1].get("max_version") is not None or ask is bare


def test_N1_the_plan_of_a_dead_class_fits_no_class():
    """A new class may get the address of the dead one."""
    gil.need_classes_that_die()
    first = fresh(P3)
    x = first()
    upgraded = dlshim.upgrade(x)
    assert _core._planned_type(upgraded) == id(first)
    x.__class__ = fresh(P2)
    assert _core._planned_type(upgraded) == id(first)
    gone = weakref.ref(first)
    del first
    gc.collect()
    assert gone() is None
    assert _core._planned_type(upgraded) == 0
    versioned(upgraded).release()


def test_N1_the_table_of_a_dead_class_is_not_called():
    """A class without a table gets the address of a dead class that had one."""
    gil.need_classes_that_die()

    class Without(TableMixin, P2):
        pass

    hits = 0
    for _ in range(300):
        has_table = {"__dlpack_c_exchange_api__": P3.__dlpack_c_exchange_api__}
        first = type("First", (Without,), has_table)
        x, address = first(), id(first)
        upgraded = dlshim.upgrade(x)
        x.__class__ = Without
        del first
        gc.collect()
        for other in [type("Other", (Without,), {}) for _ in range(8)]:
            if id(other) == address:
                hits += 1
                x.__class__ = other
                versioned(upgraded).release()
                assert (x.table_calls, len(x.calls)) == (0, 1)
    if hits == 0:
        pytest.skip("no class got the address of a dead one in 2400 tries")


def test_N1_an_object_that_changed_its_class_is_asked_for_its_device():
    """As any object is: no export is made where the new class answers."""
    x = fresh(P1)(device=(13, 1))
    upgraded = dlshim.upgrade(x)
    x.__class__ = fresh(P2)
    assert upgraded.__dlpack_device__() == (13, 1)
    assert x.device_calls == 1 and x.calls == []


@BOTH
def test_N1_a_lie_about_the_class_is_not_believed(ask):
    class Liar(P1a):
        __class__ = property(lambda self: P2)

    versioned(dlshim.upgrade(P2())).release()
    x = Liar()
    gives(ask, x)


@BOTH
def test_N1_what_is_on_the_instance_is_never_generalised(ask):
    class Bag:
        pass

    x = P1()
    with_method, without = Bag(), Bag()
    with_method.__dlpack__ = x.__dlpack__
    gives(ask, with_method, x)
    with pytest.raises(dlshim.UnsupportedObjectError):
        dlshim.upgrade(without)
    other, y = Bag(), P2((4,), "int8")
    other.__dlpack__ = y.__dlpack__
    gives(ask, other, y)
    gives(ask, with_method, x)


@BOTH
def test_N1_an_instances_own_method_goes_before_its_class(ask):
    """As `obj.__dlpack__` does for every consumer; also where the class was met before."""
    cls = fresh(P1)
    x, y = cls(), P1((7,), "int16")
    gives(ask, x)
    x.__dlpack__ = y.__dlpack__
    gives(ask, x, y)
    assert dlshim.from_dlpack(x).shape == (7,)
    del x.__dlpack__
    gives(ask, x)


REPLACED = {
    "function": lambda y: lambda self, **asked: y.__dlpack__(**asked),
    "staticmethod": lambda y: staticmethod(y.__dlpack__),
    "classmethod": lambda y: classmethod(lambda cls, **asked: y.__dlpack__(**asked)),
    "property": lambda y: property(lambda self: y.__dlpack__),
    "mock": lambda y: mock.Mock(side_effect=y.__dlpack__),
}


@BOTH
@pytest.mark.parametrize("kind", REPLACED)
def test_N1_a_method_that_is_replaced_on_the_class_is_called(kind, ask):
    cls = fresh(P1)
    x, y = cls(), P1((7,), "int16")
    upgraded = dlshim.upgrade(x)
    ask(upgraded).release()
    with mock.patch.object(cls, "__dlpack__", REPLACED[kind](y)):
        for each in (upgraded, dlshim.upgrade(x)):
            with ask(each) as imported:
                assert imported.values() == y.values()
    with ask(upgraded) as imported:
        assert imported.values() == x.values()


REPLACED_ELSEWHERE = {
    "on the base": lambda cls, method: setattr(cls.__base__, "__dlpack__", method),
    "by another base": lambda cls, method: setattr(
        cls, "__bases__", (type("Other", (P1,), {"__dlpack__": method}),)
    ),
    "by __getattribute__": lambda cls, method: setattr(
        cls,
        "__getattribute__",
        lambda self, name: (
            method.__get__(self) if name == "__dlpack__" else object.__getattribute__(self, name)
        ),
    ),
}


@BOTH
@pytest.mark.parametrize("where", REPLACED_ELSEWHERE)
def test_N1_a_method_that_is_replaced_for_the_class_is_called(where, ask):
    cls = type("Child", (type("Base", (P1,), {}),), {})
    x, y = cls(), P1((7,), "int16")
    upgraded = dlshim.upgrade(x)
    for _ in range(2):
        ask(upgraded).release()
    REPLACED_ELSEWHERE[where](cls, lambda self, **asked: y.__dlpack__(**asked))
    for each in (upgraded, dlshim.upgrade(x)):
        with ask(each) as imported:
            assert imported.values() == y.values()


@BOTH
def test_N1_a_method_of_the_metaclass_is_not_the_object_s(ask):
    def never(cls, **asked):
        raise AssertionError("obj.__dlpack__ does not find it")

    meta = type("Meta", (type,), {})
    cls = meta("Child", (P1,), {})
    x = cls()
    ask(dlshim.upgrade(x)).release()
    meta.__dlpack__ = never
    gives(ask, x)


@BOTH
def test_N1_a_method_that_becomes_none_is_not_offered(ask):
    cls = fresh(P1)
    upgraded = dlshim.upgrade(cls())
    ask(upgraded).release()
    cls.__dlpack__ = None
    with pytest.raises(BufferError, match="its type has changed"):
        ask(upgraded)
    with pytest.raises(dlshim.UnsupportedObjectError):
        dlshim.upgrade(cls())


@BOTH
@pytest.mark.parametrize("kind", ["method on the instance", "descriptor"])
def test_N1_a_class_that_says_none_is_not_taken_for_changed(kind, ask):
    """The object has a method: a BufferError is the last word, and nobody is asked twice."""
    calls = []

    def export(**asked):
        calls.append(asked)
        raise BufferError("refused")

    class NoneOnClass:
        __dlpack__ = None

    class Descriptor:
        def __get__(self, obj, cls):
            return None if obj is None else export

    class Described:
        __dlpack__ = Descriptor()

    x = Described() if kind == "descriptor" else NoneOnClass()
    if kind != "descriptor":
        x.__dlpack__ = export
    x.__dlpack_device__ = lambda: (1, 0)
    upgraded = dlshim.upgrade(x)
    for expected in (1, 2):
        with pytest.raises(BufferError, match="refused"):
            ask(upgraded)
        assert len(calls) == expected


# --- N2: the protocols in turn -------------------------------------------------------------------


class BesideDlpack(TableMixin, P2):
    """The class that owns the table may define __dlpack__ itself: torch.Tensor does."""

    __dlpack_c_exchange_api__ = P3.__dlpack_c_exchange_api__

    def __dlpack__(self, *args, **kwargs):
        return super().__dlpack__(*args, **kwargs)


#: Whose table serves.
TABLES = {
    "a capsule": P3,
    "an int": P3NewSpellingInt,
    "the old spelling": P3OldSpelling,
    "the old spelling, a capsule": P3OldSpellingCapsule,
    "of the base": fresh(P3),
    "beside a __dlpack__ of the class": BesideDlpack,
    "behind a newer one": P3Older,  # `prev_api` is walked to the table of the major that we know
}


@BOTH
@pytest.mark.parametrize("cls", TABLES.values(), ids=TABLES.keys())
def test_N2_the_table_goes_first(cls, ask):
    x = cls()
    gives(ask, x)
    assert x.table_calls == 1 and x.calls == []


def with_table(api):
    return type("Odd", (TableMixin, P2), {"__dlpack_c_exchange_api__": api})


def table_raises(kind):
    return type("Fails", (P3Failing,), {"failure": kind})


#: Whose table does not serve, and __dlpack__ does.
PASSED_OVER = {
    "fails without an exception": P3Silent,
    "of a major that nobody knows": P3MajorTwo,
    "0": with_table(0),
    "None": with_table(None),
    "text": with_table("x"),
    "a float": with_table(3.5),
    "bytes": with_table(b"abc"),
    "a capsule of another name": with_table(
        caps.new_capsule(P3OldSpelling.__c_dlpack_exchange_api__, "other")
    ),
    "raises TypeError": table_raises(TypeError),
    "raises RuntimeError": table_raises(RuntimeError),
    "raises NotImplementedError": table_raises(NotImplementedError),
    "raises ValueError": table_raises(ValueError),
}


@BOTH
@pytest.mark.parametrize("cls", PASSED_OVER.values(), ids=PASSED_OVER.keys())
def test_N2_a_table_that_cannot_is_passed_over(cls, ask):
    x = cls()
    gives(ask, x)
    assert x.calls


def test_N2_a_table_says_read_only():
    x = P3(readonly=True)
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.view.readonly
    with pytest.raises(BufferError):
        bare(dlshim.upgrade(x))


def test_N2_a_subclass_that_overrides_dlpack_is_not_asked_by_its_bases_table():
    class Overrides(P3):
        def answer(self, **asked):
            raise BufferError("not this one")

        def __dlpack__(self, *args, **kwargs):
            return super().__dlpack__(*args, **kwargs)

    x = Overrides()
    with pytest.raises(BufferError) as error:
        versioned(dlshim.upgrade(x))
    tells(error.value, "not this one")
    assert x.table_calls == 0


def test_N2_the_table_is_looked_up_on_the_type():
    x = P2()
    x.__dlpack_c_exchange_api__ = P3.__dlpack_c_exchange_api__
    gives(versioned, x)
    assert x.calls


@pytest.mark.once
@pytest.mark.parametrize("api", [-1, True, 3, 2**70])
def test_N2_a_table_address_that_cannot_be_one_is_passed_over(api):
    """In a process of its own: following such an address would crash."""
    child.run(f"""
        import dlshim
        from doubles.asking import versioned
        from doubles.producers import P2

        x = type("Odd", (P2,), {{"__c_dlpack_exchange_api__": {api!r}}})()
        with versioned(dlshim.upgrade(x)) as imported:
            assert imported.values() == x.values()
    """)


@pytest.mark.parametrize(
    "failure", [MemoryError("m"), KeyboardInterrupt(), KeyError("k")], ids=repr
)
def test_N2_what_a_table_raises_of_another_kind_is_final(failure):
    cls = fresh(P3Failing)
    cls.failure = failure
    fatal = not isinstance(failure, KeyError)
    with pytest.raises(type(failure) if fatal else BufferError) as error:
        versioned(dlshim.upgrade(cls()))
    assert failure in (error.value, error.value.__cause__)


@BOTH
def test_N2_a_producers_bufferror_ends_it(ask):
    """It is about the data: no other keyword will cure it."""
    failure = BufferError("Only tensors without holes")
    x = Raises(failure)
    with pytest.raises(BufferError) as error:
        ask(dlshim.upgrade(x))
    assert failure in (error.value, error.value.__cause__)
    tells(error.value, "holes")
    assert len(x.calls) == 1


def numpys(base):
    """A legacy consumer has it asked for a legacy capsule first (N3)."""
    return masquerade(base, "ndarray", "numpy")


@pytest.mark.parametrize(("of", "first"), [(fresh, {"max_version": (1, 0)}), (numpys, {})])
def test_N2_a_bufferror_about_legacy_leads_to_versioned(of, first):
    x = of(RefusesLegacyOnly)()
    with bare(dlshim.upgrade(x, readonly="share")) as imported:
        assert imported.values() == x.values()
    assert x.keywords[0] == first
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.view.readonly


#: What a producer says in the end: the edition, the class of its error, its words.
REFUSALS = {
    "TypeError": (P2, TypeError, "the data are sparse"),
    "NotImplementedError": (P2, NotImplementedError, "the data are sparse"),
    "ValueError": (P2, ValueError, "the data are sparse"),
    "RuntimeError": (P2, RuntimeError, "the data are sparse"),
    "AssertionError": (P2, AssertionError, "the data are sparse"),
    "after the refusal of a keyword": (P1, RuntimeError, "tensors that require gradient"),
    "after that, BufferError": (P1, BufferError, "layout not supported"),
    "after the refusal of a table": (P3Failing, BufferError, "layout not supported"),
}


@BOTH
@pytest.mark.parametrize(("base", "kind", "said"), REFUSALS.values(), ids=REFUSALS.keys())
def test_N2_what_no_protocol_gives_is_a_bufferror_with_its_cause(base, kind, said, ask):
    """A TypeError too: letting it out would make the consumer try its other ways.  What refused
    a keyword, or the quicker table, says nothing of the data, and is not named as the cause."""

    class Sparse(base):
        def answer(self, **asked):
            raise kind(said)

    with pytest.raises(BufferError) as error:
        ask(dlshim.upgrade(Sparse()))
    assert type(error.value) is BufferError
    tells(error.value, "Sparse", said)
    cause = error.value.__cause__
    assert type(cause) is kind and said in str(cause) and cause.__cause__ is None


@BOTH
def test_N2_a_typeerror_about_the_data(ask):
    """pyarrow says TypeError for nulls; the caller sees a BufferError that says nulls."""
    x = PyarrowWithNulls()
    with pytest.raises(BufferError) as error:
        ask(dlshim.upgrade(x))
    tells(error.value, "nulls")
    cause = error.value.__cause__
    assert type(cause) is TypeError and "nulls" in str(cause)


class Odd(BaseException):
    pass


class Unusual(Exception):
    """As TensorFlow's InvalidArgumentError, which derives from none of the usual classes."""


PASSED = [MemoryError, KeyboardInterrupt, SystemExit, GeneratorExit, Odd]
OF_THE_DATA = [KeyError, AttributeError, ZeroDivisionError, OSError, StopIteration, Unusual]


@BOTH
@pytest.mark.parametrize("kind", PASSED, ids=lambda k: k.__name__)
def test_N2_everything_else_comes_through_as_it_is(kind, ask):
    failure = kind("as it is")
    x = Raises(failure)
    with pytest.raises(kind) as error:
        ask(dlshim.upgrade(x))
    assert error.value is failure
    assert len(x.calls) == 1


@BOTH
@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("kind", OF_THE_DATA, ids=lambda k: k.__name__)
def test_N2_what_concerns_the_data_is_a_buffer_error(kind, learned, ask):
    """Of whatever class: the consumer meets one, with the producer's own as its cause."""

    class Moody(P2):
        failure: Exception | None = None

        def __dlpack__(self, **asked):
            if self.failure is not None:
                self.calls.append(asked)
                raise self.failure
            return super().__dlpack__(**asked)

    if learned:
        ask(dlshim.upgrade(Moody())).release()
    x = Moody()
    x.failure = kind("as it is")
    with pytest.raises(BufferError, match=f"Moody.*{kind.__name__}.*as it is") as error:
        ask(dlshim.upgrade(x))
    assert error.value.__cause__ is x.failure
    assert len(x.calls) == 1


@BOTH
def test_N2_a_producer_is_not_called_again_after_it_succeeded(ask):
    def check(cls):
        x = cls()
        ask(dlshim.upgrade(x)).release()
        inner = getattr(x, "inner", x)
        handed_out = [made for made in inner.exports if made.handed_out]
        assert len(handed_out) == (2 if cls is producers.P3NullData else 1)

    walk(EDITIONS, check)


def test_N2_the_protocols_after_the_dunder():
    """capsule function, then array struct, then array interface, then buffer."""
    struct, interface = StructOnly((4,), "int32"), InterfaceOnly((5,), "int32")
    last = {"__array_interface__": property(lambda self: interface.__array_interface__)}
    both = last | {"__array_struct__": property(lambda self: struct.__array_struct__)}
    for base, members, shape in (
        (P0ToDlpack, both, (2, 3)),
        (object, both, (4,)),
        (bytearray, last, (5,)),
    ):
        with versioned(dlshim.upgrade(type("Some", (base,), members)())) as imported:
            assert imported.view.shape == shape


# --- N3: asked for 1.x even for a legacy consumer -------------------------------------


def test_N3_a_modern_producer_is_asked_for_1x_by_a_legacy_consumer():
    for cls in (Recorder, P2Torch, P2NoCopyNoDevice, P2ExactMinor):
        x = cls()
        for _ in range(2):
            bare(dlshim.upgrade(x)).release()
            assert x.keywords[-1].get("max_version") == (1, 0)
            assert x.last.name == caps.VERSIONED


def test_N3_or_the_flag_would_be_lost():
    x = producers.P2LegacyOfReadonly(readonly=True)
    assert caps.name_of(x.__dlpack__()) == caps.LEGACY  # it says nothing by itself
    with pytest.raises(BufferError):
        bare(dlshim.upgrade(x))


def test_N3_the_version_asked_for_is_1_0():
    """metatensor's producers refuse any other minor."""
    x = P2ExactMinor()
    for asked in ((1, 0), (1, 3), (1, 99)):
        versioned(dlshim.upgrade(x), max_version=asked).release()
    assert {k["max_version"] for k in x.keywords if k.get("max_version")} == {(1, 0)}


def test_keywords_are_given_only_where_they_are_needed():
    x = Recorder()
    versioned(dlshim.upgrade(x)).release()
    versioned(dlshim.upgrade(x), dl_device=(1, 0), copy=False, stream=-1).release()
    for keywords in x.keywords:
        assert keywords.get("stream") is None
        assert not keywords.get("copy")
        assert keywords.get("dl_device") in (None, (1, 0))


# --- N4: what a dropped keyword asked for is still to do -------------------------------


@BOTH
@pytest.mark.parametrize("cls", [P1, P1Positional, P1a, P1aNoDevice, P0ToDlpack, P2NoCopyNoDevice],
                         ids=lambda c: c.__name__)  # fmt: skip
def test_N4_a_dropped_copy_is_made(cls, ask):
    x = cls()
    with ask(dlshim.upgrade(x), copy=True) as imported:
        assert imported.view.element_zero != x.element_zero
        assert imported.values() == x.values()


@BOTH
@pytest.mark.parametrize("cls", [P1, P1a, P1aNoDevice, P0ToDlpack, P2NoCopyNoDevice, Tensorflow],
                         ids=lambda c: c.__name__)  # fmt: skip
def test_N4_a_dropped_device_is_checked(cls, ask):
    x = cls()
    with ask(dlshim.upgrade(x), dl_device=(1, 0)) as imported:
        assert imported.view.element_zero == x.element_zero
    with pytest.raises(BufferError) as error:
        ask(dlshim.upgrade(x), dl_device=(3, 0))
    tells(error.value, "device")


@pytest.mark.parametrize(
    "device", [1, (1,), (1, 0, 0), (None, 0), ("1", 0), (1.0, 0), object()], ids=sampling.told_of
)
def test_N4_dl_device_of_another_form_is_a_typeerror(device):
    x = P2()
    with pytest.raises(TypeError) as error:
        dlshim.upgrade(x).__dlpack__(dl_device=device)
    tells(error.value, "dl_device")
    assert x.calls == []


# --- N8: hasattr proves nothing -------------------------------------------------------


class PlaceholderAndInterface(Placeholder):
    __array_interface__ = property(lambda self: self.interface.__array_interface__)


class PlaceholderAndStruct(Placeholder):
    __array_struct__ = property(lambda self: self.interface.__array_struct__)


class PlaceholderAndMethod(Placeholder):
    def toDlpack(self):
        return self._legacy()


@BOTH
def test_N8_placeholders_fall_through(ask):
    for cls, older in (
        (PlaceholderAndInterface, InterfaceOnly),
        (PlaceholderAndStruct, StructOnly),
        (PlaceholderAndMethod, None),
    ):
        x = cls()
        x.interface = older() if older else x
        for _ in range(2):
            with ask(dlshim.upgrade(x)) as imported:
                assert imported.view.element_zero == x.interface.element_zero


class PlaceholderBytes(bytearray):
    def __dlpack__(self, **asked):
        raise NotImplementedError("__dlpack__")


@BOTH
def test_N8_placeholders_fall_through_to_the_buffer(ask):
    with ask(dlshim.upgrade(PlaceholderBytes(b"abc"))) as imported:
        assert imported.values() == [97, 98, 99]


@BOTH
def test_N8_an_empty_placeholder_is_a_bufferror_when_asked(ask):
    upgraded = dlshim.upgrade(Placeholder())  # offers something by its looks
    with pytest.raises(BufferError) as error:
        ask(upgraded)
    tells(error.value, "Placeholder")
    assert isinstance(error.value.__cause__, NotImplementedError)


def test_N8_attributes_that_are_no_methods():
    for value in (None, 3, "x"):
        cls = type("Null", (), {"__dlpack__": value})
        with pytest.raises((dlshim.UnsupportedObjectError, BufferError)):
            dlshim.upgrade(cls()).__dlpack__()


@BOTH
def test_N8_a_function_beside_a_placeholder_is_learned(ask):
    """`__dlpack__` refuses every call by a TypeError; the capsule function serves."""

    class Needy(P0ToDlpack):
        def __dlpack__(self, need, /):
            raise AssertionError("nobody gives it what it needs")

    x = Needy()
    for _ in range(2):
        gives(ask, x)


# --- N1: a learned exchange is one call --------------------------------------------------------


@BOTH
@pytest.mark.parametrize("words", [{"dl_device": (1, 0)}, {"copy": True}, {"stream": -1},
                                   {"dl_device": (1, 0), "copy": False}, {"stream": 5}],
                         ids=str)  # fmt: skip
@pytest.mark.parametrize("cls", [P1, P1a, P1aNoDevice, P2NoCopyNoDevice, Tensorflow, P0ToDlpack],
                         ids=lambda c: c.__name__)  # fmt: skip
def test_N1_a_learned_exchange_is_one_call_whatever_is_asked(cls, words, ask):
    """The consumer's own device, copy or a stream: nothing is tried that was refused before."""
    cls = fresh(cls)
    ask(dlshim.upgrade(cls())).release()
    x = cls()
    for n in range(1, 4):
        ask(dlshim.upgrade(x), **words).release()
        assert len(x.keywords) == n, x.keywords
        assert len(x.exports) == n


class WhereTests(P2):
    """The device question answers what the test says, after the type was met on the host."""

    said = (1, 0)

    def __dlpack_device__(self):
        if isinstance(self.said, BaseException):
            raise self.said
        return self.said


def test_N5_a_learned_type_is_asked_for_its_device_where_it_must_be_known():
    cls = fresh(WhereTests)
    versioned(dlshim.upgrade(cls())).release()
    x = cls()
    x.said = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        versioned(dlshim.upgrade(x), dl_device=(1, 0))
    x.said = ValueError("unknown")
    versioned(dlshim.upgrade(x), dl_device=(1, 0)).release()
    with pytest.raises((TypeError, BufferError)):
        dlshim.upgrade(x).__dlpack__(max_version=(1, 0), stream=object())
    x = cls(device=(7, 0))
    x.said = (7, 0)
    with versioned(dlshim.upgrade(x), dl_device=(7, 0)) as imported:
        assert imported.view.device == (7, 0)
    assert len(x.keywords) == 1
