"""T3: hand on what needs no change, translate the rest; never touch what is the producer's."""

from __future__ import annotations

import ctypes

import pytest

import dlshim
from doubles import capsules as caps
from doubles import consumers
from doubles.asking import ASKINGS, bare, counting, versioned, walk
from doubles.producers import (
    EDITIONS,
    P1,
    P2,
    CopiesAlways,
    P1a,
    P1b,
    P1NullStrides,
    P2Torch,
    P3TableOnly,
    SameCapsule,
    onnxruntime_like,
)

BOTH = pytest.mark.parametrize("ask", ASKINGS.values(), ids=ASKINGS.keys())
OF = {bare: P1, versioned: P2}  # a producer whose own answer has this generation


def exchange(ask, x, **options):
    """One exchange with the counters around it: (import, handed on?)."""
    upgraded = dlshim.upgrade(x, **options)
    ask(upgraded).release()  # learn first: a plan's first use may look at more
    with counting() as count:
        imported = ask(upgraded)
    assert (count.handed_on, count.translated + count.copied) in ((1, 0), (0, 1))
    mine = caps.made_at(imported.view.address)
    assert bool(count.handed_on) == (mine is not None)
    if mine is not None:
        assert mine is x.last
    return imported, bool(count.handed_on)


# --- one predicate decides ------------------------------------------------------------

UNCHANGED = {
    "row-major": {},
    "column-major": {"strides": (1, 2)},
    "zero stride": {"strides": (0, 1)},
    "step": {"strides": (6, 2)},
    "0-d": {"shape": ()},
    "size-1 canonical": {"shape": (1, 3), "strides": (3, 1)},
    "size-1 beside a step": {"shape": (1, 3), "strides": (6, 2)},
    "empty canonical": {"shape": (3, 0, 4), "strides": (0, 4, 1)},
    "handle device with offset": {"device": (8, 0), "byte_offset": 8, "start": 2},
    "unknown dtype": {"dtype": (77, 16, 1)},
    "lanes": {"dtype": (2, 32, 4)},
}


@BOTH
@pytest.mark.parametrize("fields", UNCHANGED.values(), ids=UNCHANGED.keys())
def test_T3_what_needs_no_change_is_handed_on(ask, fields, hand_on):
    imported, handed = exchange(ask, OF[ask](**fields))
    assert handed is hand_on
    imported.release()


CHANGED = {
    "NULL strides": {"null_strides": True},
    "odd stride of a size-1 dimension": {"shape": (1, 3), "strides": (7, 1)},
    "stride 1 in a size-1 dimension": {"shape": (2, 1, 3), "strides": (3, 1, 1)},
    "odd strides of an empty tensor": {"shape": (3, 0, 4), "strides": (0, 0, 0)},
    "meaningless negative stride": {"shape": (1, 3), "strides": (-6, 2)},
    "offset on host": {"byte_offset": 8, "start": 2},
    "no deleter": {"deleter": False},
    "NULL data of an empty tensor": {"shape": (0, 3), "data": None},
}


@BOTH
@pytest.mark.parametrize("fields", CHANGED.values(), ids=CHANGED.keys())
def test_T3_what_needs_a_change_is_translated(ask, fields):
    imported, handed = exchange(ask, OF[ask](**fields))
    assert not handed
    imported.release()


OPTIONS_THAT_CHANGE = {
    "readonly": {"readonly": True},
    "reinterpret": {"reinterpret": "uint32"},
    "assume_device": {"assume_device": (1, 3)},
}


@pytest.mark.parametrize("options", OPTIONS_THAT_CHANGE.values(), ids=OPTIONS_THAT_CHANGE.keys())
def test_T3_options_that_change_the_struct_translate(options):
    imported, handed = exchange(versioned, P2(), **options)
    assert not handed
    imported.release()


OPTIONS_THAT_CHANGE_NOTHING = {
    "readonly of read-only": ({"readonly": True}, {"readonly": True}),
    "writable of writable": ({}, {"readonly": False}),
    "same dtype": ({}, {"reinterpret": "float32"}),
    "same device": ({}, {"assume_device": (1, 0)}),
    "device cpu": ({}, {"device": "cpu"}),
    "no copy": ({}, {"copy": False}),
    "order of contiguous": ({}, {"order": "C"}),
    "order K": ({"strides": (1, 2)}, {"order": "K"}),
    "order auto": ({"strides": (1, 2)}, {"order": "auto"}),
    "align to an item": ({}, {"align": 4}),
    "host stream": ({}, {"stream": 7}),
    "a word for read-only memory": ({}, {"readonly": "share"}),
}


@pytest.mark.parametrize(
    ("fields", "options"),
    OPTIONS_THAT_CHANGE_NOTHING.values(),
    ids=OPTIONS_THAT_CHANGE_NOTHING.keys(),
)
def test_T3_options_that_change_nothing_hand_on(fields, options, hand_on):
    imported, handed = exchange(versioned, P2(**fields), **options)
    assert handed is hand_on
    imported.release()


def test_T3_another_generation_is_translated():
    for ask, cls in ((versioned, P1), (versioned, P1b), (bare, P2)):
        imported, handed = exchange(ask, cls())
        assert not handed
        imported.release()


# --- a fresh capsule per call ---------------------------------------------------------


@BOTH
def test_T3_a_fresh_capsule_per_call(ask):
    def check(cls):
        upgraded = dlshim.upgrade(cls())
        imports = [ask(upgraded) for _ in range(3)]
        assert len({imported.view.address for imported in imports}) == 3
        for imported in imports:
            assert imported.values() == imports[0].values()
        imports[1].release()
        assert imports[0].values() == imports[2].values()

    walk(EDITIONS, check)


@BOTH
def test_T3_a_tensor_gives_a_fresh_capsule_per_call(ask):
    x = P2()
    tensor = dlshim.from_dlpack(x)
    imports = [ask(tensor) for _ in range(3)]
    assert len({imported.view.address for imported in imports}) == 3
    made = x.last
    del tensor
    for imported in imports:
        assert not made.deleted
        imported.release()
    assert made.deleted == 1


@BOTH
@pytest.mark.parametrize("version", [None, (1, 0)])
def test_T3_a_taken_capsule_is_exported_again_and_again(ask, version):
    capsule = caps.make(version=version)
    made = caps.made_of(capsule)
    upgraded = dlshim.upgrade(capsule)
    assert caps.name_of(capsule).startswith("used_")
    imports = [ask(upgraded) for _ in range(3)]
    del upgraded, capsule
    for imported in imports:
        assert not made.deleted
        assert imported.values() == [0, 1, 2, 3, 4, 5]
        imported.release()
    assert made.deleted == 1


# --- what is never handed on ----------------------------------------------------------


def test_T3_a_capsule_that_others_hold_is_not_handed_on():
    x = SameCapsule()
    capsule = dlshim.upgrade(x).__dlpack__()
    assert capsule is not x.cached
    assert capsule is not None and caps.look(capsule).address != x.last.address
    with caps.take(capsule) as imported:
        assert imported.values() == x.values()


def test_T3_a_held_capsule_cannot_be_exported_twice():
    """The first exchange took it: the second is refused, and nothing is freed twice."""
    x = SameCapsule()
    first = bare(dlshim.upgrade(x))
    with pytest.raises(BufferError):
        dlshim.upgrade(x).__dlpack__()
    assert first.values() == x.values()


def test_T3_a_copy_that_the_producer_made_is_not_handed_on():
    """T8: it must live until the next export, whatever the consumer does with its capsule."""
    capsule = dlshim.upgrade(CopiesAlways()).__dlpack__(max_version=(1, 0))
    assert caps.made_at(caps.look(capsule).address) is None
    assert caps.look(capsule).flags == caps.IS_COPIED


def test_T3_a_capsule_that_does_not_own_its_memory_is_not_handed_on():
    x = onnxruntime_like()((4,), "uint8")
    for _ in range(2):
        capsule = dlshim.upgrade(x).__dlpack__()
        assert caps.made_at(caps.look(capsule).address) is None


# --- what is the producer's stays as it was -------------------------------------------

WAYS = {
    "numpy2": consumers.ask_like_numpy2,
    "nanobind3": consumers.ask_like_nanobind3_rw,
    "mpi4py41": consumers.ask_like_mpi4py41,
    "cudacore": consumers.ask_like_cudacore,
    "jax": consumers.ask_like_jax,
    "tvmffi": consumers.ask_like_tvmffi,
}


@pytest.mark.parametrize("ask", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("cls", [P1, P1a, P2, P2Torch])
def test_T3_the_producers_struct_is_never_modified(cls, ask):
    def check(fields):
        x = cls(**fields)
        imported = ask(dlshim.upgrade(x))
        made = x.last
        fresh = x._export(None if made.name == caps.LEGACY else x.version, flags=0)
        ours, theirs = caps.View(made.address, made.name), caps.View(fresh.address, fresh.name)
        assert ours.fields() == theirs.fields()
        assert ours.manager_ctx == theirs.manager_ctx and ours.deleter == theirs.deleter
        imported.release()

    walk([{}, {"null_strides": True}, {"start": 2, "byte_offset": 8},
          {"shape": (0, 3), "data": None}], check)  # fmt: skip


@pytest.mark.parametrize("cls", [P1NullStrides, P2])
def test_T3_a_translated_struct_is_an_allocation_of_its_own(cls):
    """nanobind writes its strides into the struct it was given: that must be ours."""
    x = cls(null_strides=True)
    imported = versioned(dlshim.upgrade(x))
    made = x.last
    before = made.snapshot()
    view = imported.view
    assert view.address != made.address
    assert view.shape_address != made.struct.dl_tensor.shape
    assert view.strides_address not in (0, made.struct.dl_tensor.strides)
    raw = caps.ManagedTensorVersioned.from_address(view.address)
    ctypes.memset(view.strides_address, 0x11, 16)
    ctypes.memset(view.shape_address, 0x11, 16)
    raw.dl_tensor.strides = None
    assert made.snapshot() == before
    imported.release()
    assert made.deleted == 1


@BOTH
def test_T3_the_struct_goes_back_to_its_own_deleter_once(ask):
    for cls in (P1, P2, P1b, P3TableOnly, CopiesAlways):
        x = cls()
        upgraded = dlshim.upgrade(x)
        imported = ask(upgraded)
        made = x.last
        assert made.deleted == 0
        imported.release()
        del upgraded
        assert made.deleted == 1


@pytest.mark.once
def test_counters_tell_handed_on_translated_copied_and_taken():
    with counting() as count:
        bare(dlshim.upgrade(P1())).release()
    assert (count.handed_on, count.translated, count.copied, count.taken) == (1, 0, 0, 0)
    with counting() as count:
        versioned(dlshim.upgrade(P1())).release()
    assert (count.handed_on, count.translated, count.copied) == (0, 1, 0)
    with counting() as count:
        versioned(dlshim.upgrade(P1()), copy=True).release()
    assert (count.handed_on, count.copied) == (0, 1)
    with counting() as count:
        tensor = dlshim.from_dlpack(P1())
    assert count.taken == 1
    with counting() as count:
        bare(tensor).release()
    assert (count.handed_on, count.translated) == (0, 1)
