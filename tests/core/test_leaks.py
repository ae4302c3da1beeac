"""Nothing is left after a hundred thousand exchanges: no export, no block, no page."""

from __future__ import annotations

import array
import gc
import sys
import warnings
import weakref
from contextlib import suppress

import pytest

import dlshim
import sampling
from doubles import arrow, columns, consumers, gil, older, scenarios
from doubles import capsules as caps
from doubles.asking import live, versioned
from doubles.older import InterfaceOnly, StructOnly
from doubles.producers import (
    P1,
    P2,
    P3,
    ByGetattr,
    CopiesAlways,
    InstanceOnly,
    P1aNoDevice,
    P1b,
    P3TableOnly,
    VersionedAlways,
)

REPEATS = 100_000
#: CPython 3.10 makes a cache for code in its 1 024th run; newer ones have all after some dozens.
WARM_UP = 1_100 if sys.version_info < (3, 11) else 200
PAGES = 4 << 20  # what the allocators may keep beyond the start, in bytes

source = array.array("f", range(6))
raw = dlshim.upgrade(caps.make_of_c())
tensor = dlshim.from_dlpack(source)
plain = dlshim.upgrade(source)
request = arrow.request("+l", "f")  # of lists, which one axis is not
upgrade, from_dlpack, to_capsule = dlshim.upgrade, dlshim.from_dlpack, dlshim.to_capsule
V1 = (1, 0)


def _upgrade():
    upgrade(source)


def _upgrade_with_options():
    upgrade(source, readonly=True, order="C", device="cpu")


def _legacy_dropped():
    upgrade(source).__dlpack__()


def _versioned_dropped():
    upgrade(source).__dlpack__(max_version=V1)


def _copied():
    upgrade(source).__dlpack__(copy=True)


def _taken():
    from_dlpack(upgrade(source))


def _taken_twice():
    from_dlpack(from_dlpack(source))


def _raw():
    raw.__dlpack__(max_version=V1)


def _tensor_exported():
    tensor.__dlpack__()


def _tensor_viewed():
    memoryview(tensor)


def _tensor_described():
    return tensor.shape, tensor.dtype, tensor.__array_interface__


def _tensor_as_a_column():
    tensor.__arrow_c_array__()


def _refused_column():
    with suppress(ValueError):
        tensor.__arrow_c_array__(request)


def _items():
    len(tensor)
    with suppress(IndexError, TypeError):  # TypeError: NumPy is not imported
        tensor["no index"]


def _capsule():
    to_capsule(source, max_version=V1)


def _device():
    plain.__dlpack_device__()


def _refused_type():
    with suppress(TypeError):
        upgrade(5)


def _refused_option():
    with suppress(ValueError):
        upgrade(source, order="F")


def _refused_generation():
    with suppress(BufferError):
        upgrade(b"x").__dlpack__()


SHORT = [_upgrade, _upgrade_with_options, _legacy_dropped, _versioned_dropped, _copied, _taken,
         _taken_twice, _raw, _tensor_exported, _tensor_viewed, _tensor_described,
         _tensor_as_a_column, _refused_column, _items, _capsule, _device, _refused_type,
         _refused_option, _refused_generation]  # fmt: skip


def in_use():
    """(exports, blocks, bytes) that are alive, without what the interpreter may drop at any time.

    CPython's cache of looked-up attributes keeps each name that was looked up, and C code that
    asks for an attribute by a C string makes a new name each time: up to 4 096 names stay.
    """
    older.freed.clear()
    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        getattr(sys, "_clear_type_cache", lambda: None)()
    return live(), caps.blocks_in_use(), caps.resident_bytes()


def grows(action, repeats):
    """Run it often: (exports, blocks, bytes) that are left over."""
    for _ in range(WARM_UP):
        action()
    repeats = sampling.turns(repeats, max(60, repeats // 3))
    before = in_use()
    for _ in range(repeats):
        action()
    return tuple(b - a for a, b in zip(before, in_use(), strict=True))


@pytest.mark.once
@pytest.mark.parametrize("action", SHORT, ids=lambda f: f.__name__.strip("_"))
def test_nothing_is_left_after_many(action):
    exports, blocks, pages = grows(action, REPEATS)
    assert exports == 0
    assert blocks < 100, f"{blocks} blocks more after {REPEATS} repeats"
    assert pages < PAGES, f"{pages} bytes more after {REPEATS} repeats"


CONSUMED = {
    "legacy to versioned": (lambda: P1(), {"max_version": V1}),
    "versioned to legacy": (lambda: P2(), {}),
    "half-modern": (lambda: P1b(), {"max_version": V1}),
    "table": (lambda: P3TableOnly(), {}),
    "producer's copy": (lambda: CopiesAlways(), {"max_version": V1}),
    "raw": (lambda: caps.make(), {}),
    "raw of C": (lambda: caps.make_of_c(), {"max_version": V1}),
}


@pytest.mark.parametrize(("make", "asked"), CONSUMED.values(), ids=CONSUMED.keys())
def test_nothing_is_left_after_many_imports(make, asked):
    def exchange():
        caps.take(upgrade(make()).__dlpack__(**asked)).release("released")

    with caps.short_memory():
        exports, blocks, pages = grows(exchange, 3000)
    assert exports == 0
    assert blocks < 200
    assert pages < PAGES


@pytest.mark.parametrize("scenario", scenarios.ALL.values(), ids=scenarios.ALL.keys())
def test_nothing_is_left_after_many_scenarios(scenario):
    if scenario in scenarios.WITH_NEW_CLASSES:
        gil.need_classes_that_die()
    with caps.short_memory():
        exports, blocks, pages = grows(scenario, 60)
    caps.close_accounts()
    assert exports == 0
    assert blocks < 30, f"{blocks} blocks more after 60 repeats"
    assert pages < PAGES


def test_reference_counts_come_back():
    x, bystander = P2(), object()
    objects = [x, P2, dlshim.Producer, dlshim.Tensor, None, ..., V1, bystander]
    versioned(upgrade(x)).release()
    caps.close_accounts()
    x.exports.clear()
    gc.collect()
    before = [sys.getrefcount(o) for o in objects]
    for _ in range(2_000):  # CPython 3.10 makes a cache for code in its 1 024th run
        versioned(upgrade(x)).release()
        from_dlpack(x)
        upgrade(x, readonly="share").__dlpack__()
        upgrade(x).__dlpack__(max_version=V1, copy=False, dl_device=(1, 0), stream=None)
        for bad in ({"nonsense": bystander}, {"max_version": bystander}, {"stream": bystander}):
            with pytest.raises(TypeError):
                upgrade(x).__dlpack__(**bad)
        with pytest.raises(TypeError):
            upgrade(x, device=bystander)
    del bad
    caps.close_accounts()
    x.exports.clear()
    x.calls.clear()
    gc.collect()
    after = [sys.getrefcount(o) for o in objects]
    for o, a, b in zip(objects, before, after, strict=True):
        if b < 2**30:  # immortal from 3.12 on
            assert b - a <= 6, (o, a, b)


OF_EACH_KIND = [P1, P2, P3, P3TableOnly, InstanceOnly, ByGetattr, P1aNoDevice, CopiesAlways,
                InterfaceOnly, StructOnly, scenarios.Column]  # fmt: skip


@pytest.mark.parametrize("kind", OF_EACH_KIND, ids=lambda kind: kind.__name__)
def test_references_to_an_object_and_to_its_class_come_back(kind):
    """A class may be immortal (3.13 without the GIL): then the object's count alone is judged."""
    x = kind()

    def exchange():
        upgraded = upgrade(x)
        for _ in range(2):
            versioned(upgraded).release()
            upgraded.__dlpack_device__()
        from_dlpack(x)
        del upgraded
        caps.close_accounts()
        getattr(x, "exports", []).clear()
        getattr(x, "calls", []).clear()

    def counted(repeats):
        for _ in range(repeats):
            exchange()
        gc.collect()
        return sys.getrefcount(x), sys.getrefcount(kind)

    with columns.freed():
        before, now = counted(10), counted(100)
    assert all(b - a < 20 for a, b in zip(before, now, strict=True)), (before, now)


def test_references_to_a_class_that_is_assigned_come_back():
    twins = [type("Twin", (InstanceOnly,), {}) for _ in range(2)]
    x = twins[0]()
    gc.collect()
    before = [*map(sys.getrefcount, twins)]
    for i in range(100):
        upgraded = upgrade(x)
        x.__class__ = twins[1 - i % 2]
        versioned(upgraded).release()
    del upgraded
    gc.collect()
    now = [*map(sys.getrefcount, twins)]
    assert all(b - a < 20 for a, b in zip(before, now, strict=True)), (before, now)


def raw_with_unknown_flags():
    capsule = caps.make(version=(1, 0), flags=8)
    from_dlpack(capsule)


def test_failed_exchanges_leave_nothing():
    failing = [
        lambda: upgrade(P2(readonly=True)).__dlpack__(),
        lambda: upgrade(P2(data=None)).__dlpack__(),
        lambda: upgrade(VersionedAlways(flags=8)).__dlpack__(max_version=V1),
        lambda: upgrade(InterfaceOnly(changes={"typestr": caps.native(">f4")})).__dlpack__(),
        lambda: upgrade(P1(strides=(1, 2)), order="C", copy=False).__dlpack__(),
        raw_with_unknown_flags,
    ]

    def fail(action):
        try:
            action()
        except BufferError:
            return
        raise AssertionError("accepted")

    with caps.short_memory():
        for action in failing:
            exports, blocks, pages = grows(lambda action=action: fail(action), 1500)
            assert exports == 0 and blocks < 200 and pages < PAGES


def test_the_end_of_a_type_needs_no_search():
    """The callback of its weak reference knows the address by which the plan is found."""
    cls = type("Met", (P1,), {})
    upgrade(cls())
    (callback,) = filter(None, (each.__callback__ for each in weakref.getweakrefs(cls)))
    assert callback.__self__[1] == id(cls)


def test_types_leave_no_plans_behind():
    """A new class for every exchange, as factories and notebooks make them."""
    gil.need_classes_that_die()

    def meet():
        cls = type("Short", (P1,), {})
        versioned(upgrade(cls())).release()

    with caps.short_memory():
        exports, blocks, pages = grows(meet, 1500)
    assert exports == 0 and blocks < 400 and pages < PAGES


def test_many_exports_at_once():
    kept = [upgrade(source).__dlpack__(max_version=V1) for _ in range(20_000)]
    assert live() >= 20_000
    kept.clear()
    imports = [consumers.ask_like_numpy2(upgrade(source)) for _ in range(500)]
    for imported in imports:
        imported.release()
    gc.collect()
