"""Signals, hooks, callbacks and the recursion limit in the middle of an exchange: an exception that
is raised there comes out as it is, what was taken is given back, and the next exchange works."""

from __future__ import annotations

import gc
import itertools
import signal
import sys
import weakref

import pytest

import dlshim
from dlshim import _core
from doubles import child
from doubles.asking import bare, live, versioned
from doubles.delegating import CALLS, SIX, Source, values_of
from doubles.gil import FREE_THREADED
from doubles.producers import P1, P2, P1b, P3TableOnly

EVERY_CALL = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())


@pytest.fixture(autouse=True)
def handler():
    """Python's own, also where the shell that runs the tests ignores the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def balance():
    before = live()
    yield
    gc.collect()
    assert live() <= before


# --- signals --------------------------------------------------------------------------


def test_an_interrupt_during_the_search_for_a_cure_is_not_lost():
    class Sparse:
        @property
        def is_sparse(self):
            raise KeyboardInterrupt

    with pytest.raises(dlshim.UnsupportedObjectError) as raised:
        dlshim.upgrade(Sparse())
    with pytest.raises(KeyboardInterrupt):
        str(raised.value)  # the cure is looked for when the text is read


@EVERY_CALL
def test_T9_a_keyboard_interrupt_inside_a_producer_comes_out(call):
    """Raised by the handler of a real signal, at every step of the producer's code."""
    met = set()
    for learned in (False, True):
        for k in itertools.count(1):
            steps = itertools.count(1)

            def interrupt(where, k=k, steps=steps):
                if next(steps) == k:
                    met.add(where)
                    signal.raise_signal(signal.SIGINT)

            if not learned:
                _core._hook("forget_plans")
            x, before = Source(interrupt), live()
            try:
                assert call(x) == SIX
            except KeyboardInterrupt:
                assert live() == before
            else:
                assert next(steps) <= k, "it was swallowed"
                break
            x.during = lambda where: None
            assert call(x) == SIX
    assert met & {"__dlpack__", "__dlpack_device__"}


@pytest.mark.parametrize("cls", [P1, P1b, P2, P3TableOnly], ids=lambda c: c.__name__)
@pytest.mark.parametrize("ask", [bare, versioned])
def test_T9_a_keyboard_interrupt_inside_a_deleter_is_reported(cls, ask, monkeypatch):
    """No caller is there to whom it could be raised, and the exchange is over."""
    reports = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: reports.append(report.exc_type))
    x = cls(null_strides=True)
    imported = ask(dlshim.upgrade(x))
    x.last.on_delete = lambda: signal.raise_signal(signal.SIGINT)
    assert imported.values() == SIX
    imported.release()
    assert x.last.deleted == 1 and reports == [KeyboardInterrupt]


@pytest.mark.once
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer signals on this system")
@pytest.mark.parametrize(("sender", "least"), [("timer", 50), ("thread", 10)])
def test_T9_signals_that_arrive_anywhere(sender, least):
    """Also in the first exchange, which imports nothing.

    CPython's lock of a module is plain up to 3.11: a handler that imports what is being imported
    there waits for itself without end, with dlshim and without.
    """
    out = child.program("signals", sender, least, silent=True)
    stopped, turns = map(int, out.split())
    assert turns >= stopped == least


# --- trace and profile functions ------------------------------------------------------


class Hook(BaseException):
    pass


def with_monitoring(function):
    """sys.monitoring of CPython 3.12: calls, returns and raises of Python and of C."""
    monitoring, tool = sys.monitoring, 3
    events = monitoring.events
    monitoring.use_tool_id(tool, "dlshim's tests")
    wanted = (events.PY_START, events.PY_RETURN, events.CALL, events.LINE)
    for event in (*wanted, events.C_RETURN, events.C_RAISE):
        monitoring.register_callback(tool, event, lambda *_: function())
    monitoring.set_events(tool, sum(wanted))

    def end():
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)

    return end


def with_trace(function):
    def trace(frame, event, argument):
        function()
        return trace

    sys.settrace(trace)
    return lambda: sys.settrace(None)


def with_profile(function):
    sys.setprofile(lambda frame, event, argument: function())
    return lambda: sys.setprofile(None)


HOOKS = {"trace": with_trace, "profile": with_profile}
if hasattr(sys, "monitoring"):
    HOOKS["monitoring"] = with_monitoring


class Traced:
    """Install a hook that does `work` at the k-th event of an action."""

    def __init__(self, install, work, k):
        self.work, self.k, self.seen, self.busy = work, k, 0, True
        self.end = install(self.event)

    def event(self):
        if not self.busy:
            self.seen += 1
            if self.k in (self.seen, 0):
                self.busy = True
                try:
                    self.work()
                finally:
                    self.busy = False

    def stop(self):
        self.busy = True
        self.end()


def under(install, work, k, action):
    """What the action gave or raised, and how many events there were."""
    traced = Traced(install, work, k)
    gc.disable()  # what others have the collector call would meet the hook, too
    try:
        traced.busy = False
        given = action()
        traced.busy = True
    except Hook:
        given = Hook
    finally:
        traced.stop()
        gc.enable()
    return given, traced.seen


@EVERY_CALL
@pytest.mark.parametrize("install", HOOKS.values(), ids=HOOKS.keys())
def test_T9_a_hook_that_exchanges_itself(install, call):
    other, count = Source(), [0]

    def exchange():
        count[0] += 1
        assert memoryview(dlshim.from_dlpack(other)).tolist() == SIX

    got, events = under(install, exchange, 0, lambda: call(Source()))
    assert got == SIX and count[0] >= events > 3


@EVERY_CALL
@pytest.mark.parametrize("install", HOOKS.values(), ids=HOOKS.keys())
def test_T9_a_hook_that_raises_at_every_event(install, call):
    def fail():
        raise Hook

    raised = 0
    for k in itertools.count(1):
        x, before = Source(), live()
        got, events = under(install, fail, k, lambda x=x: call(x))
        assert got in (SIX, Hook)
        assert live() == before, (k, got)
        raised += got is Hook
        assert call(x) == SIX
        if events < k:
            break
    assert raised > 3


@EVERY_CALL
@pytest.mark.parametrize("install", HOOKS.values(), ids=HOOKS.keys())
def test_T9_a_hook_that_drops_the_source(install, call):
    for k in itertools.count(1):
        held = [Source()]
        dead = weakref.ref(held[0])
        got, events = under(
            install, held.clear, k, lambda held=held: call(held[0]) if held else SIX
        )
        assert got == SIX, k
        held.clear()
        assert dead() is None
        if events < k:
            break


# --- callbacks of the collector and of weak references --------------------------------


@EVERY_CALL
def test_T9_a_collection_in_the_middle_calls_dlshim(call):
    """At every allocation of a container, with a callback that exchanges, and with everything
    frozen in between."""
    other, count, busy = Source(), [0], [False]

    def callback(phase, info):
        if not busy[0]:
            busy[0] = True
            count[0] += 1
            assert memoryview(dlshim.from_dlpack(other)).tolist() == SIX
            dlshim.upgrade(other).__dlpack__()
            busy[0] = False

    threshold, ring = gc.get_threshold(), []
    ring.append(ring)
    gc.callbacks.append(callback)
    gc.set_threshold(1, 1, 1)
    try:
        for frozen in (False, True):
            for _ in range(5):
                cycle = [Source(), dlshim.upgrade(Source()), dlshim.from_dlpack(Source())]
                cycle.append(cycle)
                assert call(cycle[0]) == SIX
                if frozen:
                    gc.freeze()
                del cycle
                gc.collect(0)
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(callback)
        gc.unfreeze()
    # Without the GIL a collection starts only when a quarter of all objects are new.
    assert count[0] >= (20 if FREE_THREADED else 21)
    gc.collect()
    gc.freeze()


@pytest.mark.parametrize("copied", [True, False])
def test_T9_a_weak_references_callback_exchanges_as_the_source_dies(copied):
    """The source dies inside of the exchange, or with the capsule."""
    died, other = [], Source()

    def gone(reference):
        died.append(memoryview(dlshim.from_dlpack(other)).tolist())
        dlshim.upgrade(other).__dlpack__()

    class Dying(Source):
        def __dlpack__(self, **keywords):
            held.clear()
            return super().__dlpack__(**keywords)

    for _ in range(3):
        held = [Dying()]
        watch = weakref.ref(held[0], gone)
        capsule = dlshim.to_capsule(held[0], copy=copied or None)
        assert watch() is None or not copied
        assert values_of(capsule) == SIX
        del capsule
        assert watch() is None
    assert died == [SIX] * 3


@pytest.mark.once
def test_T9_a_cycle_with_a_memoryview_whose_buffer_is_held():
    """CPython 3.10 to 3.12 clear the memoryview first, and crash where the buffer is released."""
    assert child.program("cycle_of_a_memoryview", silent=True).strip() == "end"


# --- the recursion limit --------------------------------------------------------------


@pytest.mark.once
def test_T9_the_recursion_limit_inside_a_producer():
    """At every depth near the limit: the right values, or the RecursionError itself."""
    came, refused = map(int, child.program("recursion_limit", silent=True).split())
    assert came > 7 and refused > 7


# --- warnings -------------------------------------------------------------------------


@pytest.mark.once
def test_no_warning_over_the_whole_api():
    """As errors, with the development mode and the checks of bytes against str."""
    options = ("-W", "error", "-X", "dev", "-bb")
    assert child.program("whole_api", options=options, silent=True).strip() == "done"
    run = "import runpy, sys; sys.argv[1:] = ['streams']; runpy.run_module('dlshim', None, {})"
    out = child.run(run.format("'__main__'"), options=options, silent=True)
    assert "stream" in out
