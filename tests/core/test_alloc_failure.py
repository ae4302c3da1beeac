"""T9: the n-th allocation fails, for every n: MemoryError, nothing leaked or half-consumed."""

from __future__ import annotations

import gc
import sys

import pytest

import dlshim
from dlshim import _core
from doubles import capsules as caps
from doubles import child, scenarios
from doubles.asking import ASKINGS, live
from doubles.producers import P1, P2, CopiesAlways

MOST = 24  # no scenario allocates more often in one step


def failing(n, action):
    """Run `action` with the n-th allocation failing: what it gave, or the MemoryError."""
    _core._hook("fail_alloc", n)
    try:
        return action(), None
    except MemoryError as error:
        return None, error
    finally:
        _core._hook("fail_alloc", -1)


@pytest.mark.parametrize("scenario", scenarios.ALL.values(), ids=scenarios.ALL.keys())
def test_every_scenario_survives_every_failing_allocation(scenario):
    scenario()
    for learned in (True, False):
        for n in range(1, MOST):
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


def raw(take, version=None):
    # In a variable: an argument's last reference would fall with the error already set, and a
    # destructor written in Python cannot bear that.
    capsule = caps.make(version=version)
    return take(capsule)


STEPS = {
    "export": lambda: dlshim.upgrade(P1()).__dlpack__(max_version=(1, 0)),
    "legacy export": lambda: dlshim.upgrade(P2()).__dlpack__(),
    "copy": lambda: dlshim.upgrade(P2()).__dlpack__(copy=True),
    "producer's copy": lambda: dlshim.upgrade(CopiesAlways()).__dlpack__(),
    "from_dlpack": lambda: dlshim.from_dlpack(P1()),
    "options": lambda: dlshim.upgrade(P1(), readonly=True, order="C"),
    "buffer": lambda: dlshim.from_dlpack(bytearray(3)),
    "raw": lambda: raw(lambda capsule: dlshim.upgrade(capsule).__dlpack__()),
    "raw to tensor": lambda: raw(lambda capsule: dlshim.from_dlpack(capsule).__dlpack__(), (1, 0)),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
def test_a_failed_allocation_is_a_memoryerror(step):
    """The switch bites: some n fails, and from some n on nothing does."""
    _core._hook("hand_on", False)
    results = [failing(n, step)[1] is not None for n in range(1, MOST)]
    gc.collect()
    assert any(results)
    assert not results[-1]
    assert results == sorted(results, reverse=True)  # no allocation's failure is overlooked


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_raw_capsule_is_whole_or_taken_never_half(version):
    """The name changes as the last step that can fail."""
    for n in range(1, MOST):
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
    for n in range(1, MOST):
        imported, error = failing(n, lambda: ask(upgraded))
        del error
        if imported is not None:
            imported.release()
        with ask(upgraded) as again:
            assert again.values() == x.values()


@pytest.mark.once
@pytest.mark.skipif(sys.version_info < (3, 10), reason="set_nomemory as it is since 3.10")
def test_pythons_own_allocations_may_fail_too():
    """With the interpreter's test hook, in a process of its own: no crash, no live export."""
    out = child.run("""
        import sys
        try:
            import _testcapi
        except ImportError:
            print("no _testcapi")
            sys.exit()
        import array, gc
        import dlshim
        from dlshim import _core

        source = array.array("i", range(6))
        tensor = dlshim.from_dlpack(source)

        def upgrade(): return dlshim.upgrade(source)
        def options(): return dlshim.upgrade(source, readonly=True, order="C", device="cpu")
        def versioned(): return dlshim.upgrade(source).__dlpack__(max_version=(1, 0))
        def legacy(): return dlshim.upgrade(source).__dlpack__()
        def copy(): return dlshim.upgrade(source).__dlpack__(copy=True)
        def take(): return dlshim.from_dlpack(source)
        def again(): return tensor.__dlpack__(max_version=(1, 0))
        def nested(): return dlshim.from_dlpack(dlshim.upgrade(tensor))
        def attributes(): return tensor.dtype, tensor.__array_interface__, repr(tensor)
        def capsule(): return dlshim.to_capsule(source)
        def device(): return dlshim.upgrade(source).__dlpack_device__()
        kept = dlshim.upgrade(source).__dlpack__(max_version=(1, 0)), tensor.__dlpack__()
        def peek(): return [_core._peek(each) for each in kept]

        failed = 0
        start, stop = _testcapi.set_nomemory, _testcapi.remove_mem_hooks
        for action in (upgrade, options, versioned, legacy, copy, take, again, nested, attributes,
                       capsule, device, peek):
            for forget in (False, True):
                action()
                live = _core._counters()["live"]
                for n in range(60):
                    if forget:
                        _core._hook("forget_plans")
                    error = None
                    start(n, n + 1)
                    try:
                        action()
                    except MemoryError:
                        stop()
                        failed += 1
                    except BaseException as other:
                        stop()
                        error = other
                    stop()
                    assert error is None, (action.__name__, n, error)
                    assert _core._counters()["live"] == live, (action.__name__, n)
        gc.collect()
        assert failed > 50, failed
        print(failed)
    """)
    if "no _testcapi" in out:
        pytest.skip("this Python has no _testcapi")
