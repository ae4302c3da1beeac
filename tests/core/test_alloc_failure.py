"""T9: the n-th allocation fails, for every n: MemoryError, nothing leaked or half-consumed."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
import re
import sys

import pytest
from project.tree import SRC, without_comments

import dlshim
from dlshim import _core
from doubles import capsules as caps
from doubles import scenarios, steps
from doubles.asking import ASKINGS, live
from doubles.gil import FREE_THREADED
from doubles.older import InterfaceOnly
from doubles.producers import P1, P2, CopiesAlways

reached = False  # Was there an n-th allocation when `failing` ran last?


def failing(n, action):
    """Run `action` with the n-th allocation failing: what it gave, or the MemoryError."""
    global reached
    _core._hook("fail_alloc", n)
    try:
        return action(), None
    except MemoryError as error:
        # CPython 3.10 crashes where a collection runs while a MemoryError lets its frames go.
        return None, error.with_traceback(None)
    finally:
        try:  # If none has failed so far, one of these will.
            for _ in range(n):
                dlshim.to_capsule(bytes(1), copy=True)
        except MemoryError:
            reached = False
        else:
            reached = True
        _core._hook("fail_alloc", -1)


def numbers():
    """1, 2, 3 ... and the first number that no allocation has, for a loop that calls `failing`."""
    for n in itertools.count(1):
        yield n
        if not reached:
            return


@pytest.mark.parametrize("scenario", scenarios.ALL.values(), ids=scenarios.ALL.keys())
def test_every_scenario_survives_every_failing_allocation(scenario):
    scenario()
    for learned in (True, False):
        for n in numbers():
            if not learned:
                _core._hook("forget_plans")
            before = live()
            _, error = failing(n, scenario)
            del error
            if live() != before or caps.accounts():
                gc.collect()
            assert caps.accounts() == [], n
            assert live() == before, n
    scenario()


# --- every road -----------------------------------------------------------------------


def rows(file, pattern):
    text = without_comments((SRC / file).read_text()).replace("\\\n", "\n")
    return re.findall(pattern, text, re.M)


@pytest.mark.once
def test_the_steps_reach_every_protocol_and_every_option():
    """A protocol or an option that is added needs a step."""
    table = rows("types/plan.h", r"#define DLS_PROTOCOL_LIST\(X\)((?:\s*X\(.*\))+)")
    protocols = set(re.findall(r"X\((\w+),", *table))
    assert protocols | {"CAPSULE"} == {protocol for protocol, _ in steps.SOURCES}
    assert set(steps.OPTIONS) == set(rows("request/options.def", r"^OPTION\((\w+),"))
    read = {name for name in protocols if f"[DLS_PROTOCOL_{name}]" in older()}
    arrow = {name for name in protocols if name.startswith("ARROW_")}
    assert read == {"CUDA", "SYCL", "STRUCT", "INTERFACE", "BUFFER"} | arrow
    for (protocol, name), option in itertools.product(steps.SOURCES, [*steps.OPTIONS, "all"]):
        for export in ("legacy", "versioned"):
            assert f"{protocol} {name}, {export}, {option}" in steps.STEPS


def older():
    return (SRC / "protocols" / "protocols.c").read_text()


@pytest.mark.once
@pytest.mark.parametrize("option", steps.OPTIONS)
def test_every_option_is_obeyed_by_some_step(option):
    """Not refused by all of them, which would reach nothing behind the refusal."""
    done = 0
    for name, step in steps.STEPS.items():
        if name.endswith(f"versioned, {option}"):
            with contextlib.suppress(BufferError):
                step()()
                done += 1
    assert done >= 2


def usual(step):
    """How it ends where nothing fails."""
    action = step()
    try:
        action()
    except BufferError as error:
        return type(error)
    return None


def failed(n, action, wanted):
    """Did the failure show?  The refusal that is usual does not count."""
    try:
        return failing(n, action)[1] is not None
    except BufferError as refused:
        assert type(refused) is wanted, n
        return False


@pytest.mark.parametrize("source", steps.SOURCES, ids=" ".join)
def test_every_road_survives_every_failing_allocation(source):
    """The failure is a MemoryError, or does not show; nothing is left."""
    named = {k: v for k, v in steps.STEPS.items() if k.startswith(" ".join(source) + ",")}
    showed = 0
    for (name, step), learned in itertools.product(named.items(), (True, False)):
        wanted = usual(step)
        caps.close_accounts()
        before = live()
        for n in numbers():
            if not learned:
                _core._hook("forget_plans")
            action = step()  # held here: see raw()
            showed += failed(n, action, wanted)
            del action
            assert live() <= before, (name, n)
            caps.close_accounts()
    assert showed >= len(named) or source == ("DLPACK", "refusing")


# --- steps of one kind ----------------------------------------------------------------


def raw(take, version=None):
    # In a variable: an argument's last reference would fall with the error already set, and a
    # destructor written in Python cannot survive that.
    capsule = caps.make(version=version)
    return take(capsule)


@dlshim.producer
class Link:
    """Its own method asks the next one's, so that as many calls run at once as there are."""

    def __init__(self, following):
        self.following = following

    def __dlpack__(self, **asked):
        return self.following.__dlpack__(**asked)


def chain(length):
    x = P1()
    for _ in range(length):
        x = Link(x)
    return x


TAKES_FLOATS = dlshim.kernel(
    lambda *x, **named: None, takes="tensor", dtypes={0: ("int8", "float32"), "order": "float32"}
)
MANY = dlshim.kernel(lambda *x: None, takes="tensor")
OTHER_ORDER = (
    getattr(ctypes.c_int32, "__ctype_be__" if sys.byteorder == "little" else "__ctype_le__") * 3
)
STEPS = {
    "calls in calls": lambda: chain(20).__dlpack__(),
    "calls in calls, by dlshim": lambda: dlshim.from_dlpack(Link(chain(20))),
    "export": lambda: dlshim.upgrade(P1()).__dlpack__(max_version=(1, 0)),
    "legacy export": lambda: dlshim.upgrade(P2()).__dlpack__(),
    "copy": lambda: dlshim.upgrade(P2()).__dlpack__(copy=True),
    "producer's copy": lambda: dlshim.upgrade(CopiesAlways()).__dlpack__(),
    "from_dlpack": lambda: dlshim.from_dlpack(P1()),
    "options": lambda: dlshim.upgrade(P1(), readonly=True, order="C"),
    "what is accepted": lambda: dlshim.from_dlpack(
        P2(), dtypes=("int8", "float32"), ndims=2, writable=True, order="C"
    ),
    "options that change nothing": lambda: dlshim.from_dlpack(P2(), order="C", align=1),
    "a kernel": lambda: dlshim.kernel(len, dtypes={0: ("int8", "float32")}),
    "a call": lambda: TAKES_FLOATS(P2(), order=[P2()]),
    "buffer": lambda: dlshim.from_dlpack(bytearray(3)),
    "many arguments": lambda: MANY(*[P2() for _ in range(12)]),
    "many that were met": lambda: (MANY(P2()), MANY(*[P2() for _ in range(12)])),
    "many axes": lambda: dlshim.from_dlpack(InterfaceOnly((1,) * 9)),
    "the other byte order": lambda: dlshim.from_dlpack(OTHER_ORDER(1, 2, 3), copy=True),
    "bytes called booleans": lambda: dlshim.from_dlpack(bytearray(3), reinterpret="bool"),
    "raw": lambda: raw(lambda capsule: dlshim.upgrade(capsule).__dlpack__()),
    "raw to tensor": lambda: raw(lambda capsule: dlshim.from_dlpack(capsule).__dlpack__(), (1, 0)),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
def test_a_failed_allocation_is_a_memoryerror(step):
    """The switch bites: every n fails but the last, for which there is no allocation."""
    _core._hook("hand_on", False)
    results = []
    for n in numbers():
        _core._hook("forget_plans")
        results.append(failing(n, step)[1] is not None)
    gc.collect()
    # Without the GIL the memory of plans is used again and not allocated.
    assert len(results) > (0 if FREE_THREADED else 1)
    assert results == [True] * (len(results) - 1) + [False]  # no failure is overlooked


@pytest.mark.parametrize("ask", ASKINGS.values(), ids=ASKINGS.keys())
def test_a_kernel_that_looks_gives_the_answer_back(ask):
    """The answer of an array of a type that was met, which its Producer keeps."""
    k = dlshim.kernel(lambda x: ask(x).values(), dtypes="float32", returns=None)
    for _ in range(2):
        k(P2())
    results = [failing(n, lambda: k(P2()))[1] is not None for n in numbers()]
    gc.collect()
    assert len(results) > 1
    assert results == [True] * (len(results) - 1) + [False]


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_raw_capsule_is_whole_or_taken_never_half(version):
    """The name changes as the last step that can fail."""
    for n in numbers():
        capsule = caps.make(version=version)
        made = caps.made_of(capsule)
        upgraded, error = failing(n, lambda capsule=capsule: dlshim.upgrade(capsule))
        fresh = caps.name_of(capsule) in (caps.LEGACY, caps.VERSIONED)
        if error is not None and fresh:
            with caps.take(capsule) as imported:  # still good for somebody else
                assert imported.values() == [0, 1, 2, 3, 4, 5]
        elif error is not None:
            assert made.deleted == 1
        else:
            assert not fresh and not made.deleted
        del upgraded, capsule
        assert made.deleted == 1


@pytest.mark.parametrize("ask", ASKINGS.values(), ids=ASKINGS.keys())
def test_a_producer_can_be_asked_again_after_a_failure(ask):
    x = P1()
    upgraded = dlshim.upgrade(x)
    for n in numbers():
        imported, error = failing(n, lambda: ask(upgraded))
        del error
        if imported is not None:
            imported.release()
        with ask(upgraded) as again:
            assert again.values() == x.values()
