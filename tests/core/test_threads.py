"""Exchanges in several threads at once: shared objects, types met for the first time, failures."""

from __future__ import annotations

import contextlib
import gc
import sys
import sysconfig
import threading
import weakref

import pytest

import dlshim
from dlshim import _core
from doubles import capsules as caps
from doubles import scenarios
from doubles.asking import ASKINGS, bare, live, versioned
from doubles.older import InterfaceOnly
from doubles.producers import EDITIONS, P1, P2, P1b, Strict, fresh
from doubles.threads import THREADS, together


@pytest.fixture(autouse=True)
def balance():
    before = live()
    yield
    assert live() == before


def expect(imported, values):
    assert imported.values() == values
    imported.release("released")


@pytest.mark.parametrize("cls", [P1, P2, P1b, Strict], ids=lambda c: c.__name__)
def test_one_producer_shared(cls):
    x = cls()
    upgraded, values = dlshim.upgrade(x), x.values()
    together(lambda: expect(bare(upgraded), values), lambda: expect(versioned(upgraded), values))


def test_one_producer_shared_that_copies():
    x = P2((20, 30), "float32", strides=(1, 20))
    upgraded, values = dlshim.upgrade(x, order="C"), x.values()
    together(lambda: expect(versioned(upgraded), values), rounds=20)


def test_one_tensor_shared():
    x = P2()
    tensor, values = dlshim.from_dlpack(x), x.values()

    def look():
        assert memoryview(tensor).tolist() == [[0, 1, 2], [3, 4, 5]]
        assert tensor.shape == (2, 3)

    together(look, lambda: expect(bare(tensor), values), lambda: expect(versioned(tensor), values))


def test_one_taken_capsule_shared():
    upgraded = dlshim.upgrade(caps.make(version=(1, 0)))
    together(lambda: expect(bare(upgraded), [0, 1, 2, 3, 4, 5]))


@pytest.mark.parametrize("name", [caps.LEGACY, caps.VERSIONED])
def test_a_capsule_that_another_library_takes_and_gives_back_meanwhile(name):
    """It takes no lock of ours: without a GIL its new name may be met at any step."""
    version = (1, 0) if name == caps.VERSIONED else None
    capsule = caps.make(version=version, deleter=False, destructor=False)
    used, unused = (caps._NAMES[each] for each in (f"used_{name}", name))

    def theirs():
        for _ in range(20):
            caps._set_name(capsule, used)
            caps._set_name(capsule, unused)

    def ours():
        for call in (dlshim.from_dlpack, dlshim.upgrade):
            with contextlib.suppress(BufferError):
                call(capsule)
        assert dlshim.inspect(capsule).capsule_state in ("consumed", "unconsumed")

    together(theirs, ours, ours, rounds=300)
    caps._set_name(capsule, used)


@pytest.mark.parametrize("ask", ASKINGS.values(), ids=ASKINGS.keys())
def test_types_met_by_all_threads_at_once(ask):
    for base in (P1, P2, P1b, Strict):
        cls = fresh(base)
        x = cls()
        together(lambda x=x: expect(ask(dlshim.upgrade(x)), x.values()), rounds=5)


def test_plans_forgotten_while_they_are_used():
    x = P1()
    upgraded = dlshim.upgrade(x)

    def exchange():
        expect(versioned(upgraded), x.values())
        expect(bare(dlshim.upgrade(x)), x.values())

    together(exchange, exchange, lambda: _core._hook("forget_plans"))


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED") or sys.version_info >= (3, 14),
    reason="CPython 3.13 without a GIL alone counts an extension's types in one word",
)
def test_objects_of_several_threads_do_not_count_one_type():
    made = (dlshim.upgrade(bytearray(1)), dlshim.from_dlpack(bytearray(1)))
    before = [sys.getrefcount(type(each)) for each in made]
    kept = [(dlshim.upgrade(bytearray(1)), dlshim.from_dlpack(bytearray(1))) for _ in range(9)]
    assert [sys.getrefcount(type(each)) for each in made] == before
    assert len(kept) == 9


def test_types_that_die_while_others_are_met():
    met = []

    def meet():
        x = fresh(P2)()
        met.append(weakref.ref(type(x)))
        expect(versioned(dlshim.upgrade(x)), x.values())

    together(meet, lambda: gc.collect(0), rounds=25)
    gc.collect()
    assert met and not any(kind() for kind in met)


def test_every_edition_in_its_own_thread():
    objects = [cls() for cls in EDITIONS.values()]
    works = [lambda x=x: expect(versioned(dlshim.upgrade(x)), x.values()) for x in objects]
    for k in range(0, len(works), THREADS):
        together(*works[k : k + THREADS], rounds=8)


def test_every_scenario_beside_every_other():
    works = list(scenarios.ALL.values())
    for k in range(0, len(works), THREADS):
        together(*works[k : k + THREADS], rounds=4)


def test_exports_freed_by_other_threads():
    """Made here, freed there: what consumers with their own thread pools do."""
    x = P1()
    kept, lock = [], threading.Lock()

    def make():
        imported = versioned(dlshim.upgrade(x))
        with lock:
            kept.append(imported)

    def free():
        with lock:
            imported = kept.pop() if kept else None
        if imported is not None:
            imported.release("released")

    together(make, free)
    while kept:
        kept.pop().release()


@pytest.mark.skipif(not caps.has_c_threads(), reason="no pthread_create in the C library")
def test_exports_freed_by_threads_of_c_while_python_works():
    def exchange():
        versioned(dlshim.upgrade(P1())).release("c-thread")
        versioned(dlshim.upgrade(bytearray(24))).release("c-thread")

    together(exchange, rounds=15)


def test_failures_in_threads():
    x, good = P2(readonly=True), P2()
    upgraded = dlshim.upgrade(x)

    def refused():
        with pytest.raises(BufferError):
            upgraded.__dlpack__()

    together(refused, lambda: expect(versioned(upgraded), x.values()),
             lambda: expect(bare(dlshim.upgrade(good)), good.values()))  # fmt: skip


def test_proxies_of_different_things_in_several_threads():
    """One thread meets a proxy anew while another keeps the plan of one that holds an array."""

    class Proxy:
        def __init__(self, held):
            self.__dict__["held"] = held

        def __getattr__(self, name):
            return getattr(self.held, name)

    things = [P2((3,), "int16"), InterfaceOnly((3,), "int16"), P1((3,), "int16")]
    failures = []

    def work(shift):
        try:
            for n in range(400):
                with versioned(dlshim.upgrade(Proxy(things[(n + shift) % 3]))) as imported:
                    assert imported.values() == [0, 1, 2]
        except BaseException as failure:
            failures.append(failure)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not failures, failures
