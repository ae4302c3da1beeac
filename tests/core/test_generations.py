"""T1 and T2: which generation comes out, whatever went in and whatever was accepted."""

from __future__ import annotations

import pytest

import dlshim
from doubles import capsules as caps
from doubles import child, consumers
from doubles.asking import ASKINGS, bare, tells, versioned, walk
from doubles.producers import (
    EDITIONS,
    P1,
    P2,
    CopiesAlways,
    P0Mxnet,
    P0ToDlpack,
    P1b,
    P1NullStrides,
    P2Torch,
    P3TableOnly,
    VersionedAlways,
)

EVERY = pytest.mark.parametrize("cls", EDITIONS.values(), ids=EDITIONS.keys())
BOTH = pytest.mark.parametrize("ask", ASKINGS.values(), ids=ASKINGS.keys())


# --- T1: the capsule's name decides ---------------------------------------------------


@EVERY
def test_T1_T2_every_edition_answers_either_generation(cls):
    for ask in ASKINGS.values():
        x = cls((2, 3), "float32")
        for _ in range(3):  # the first time it is learned how to ask
            with ask(dlshim.upgrade(x)) as imported:
                assert imported.values() == x.values()
                assert imported.view.element_zero == x.element_zero
                assert imported.view.shape == (2, 3)
                assert imported.view.strides == (3, 1)
                assert imported.view.dtype == (2, 32, 1)
                assert imported.view.device == (1, 0)
                assert imported.view.byte_offset == 0
                assert imported.view.deleter


def walk_generations(ask, *arguments, **fields):
    def check(cls):
        x = cls(*arguments, **fields)
        imported = ask(x)
        assert imported.values() == x.values()
        assert imported.view.element_zero == x.element_zero
        imported.release()

    walk(EDITIONS, check)


@pytest.mark.parametrize("ask", consumers.OBJECT_CONSUMERS.values(), ids=lambda f: f.__name__)
def test_every_edition_reaches_every_consumer(ask):
    walk_generations(lambda x: ask(dlshim.upgrade(x)), (2, 3), "float32")


@pytest.mark.parametrize("ask", consumers.CAPSULE_CONSUMERS.values(), ids=lambda f: f.__name__)
def test_every_edition_reaches_every_capsule_consumer(ask):
    walk_generations(lambda x: ask(dlshim.to_capsule(x)), (2, 1, 3), "int32", strides=(3, 77, 1))


def test_every_edition_reaches_one_dimensional_consumers():
    walk_generations(lambda x: consumers.ask_like_nanoarrow(dlshim.upgrade(x)), (6,), "float32")


def test_T1_accepting_max_version_proves_nothing():
    """P1b takes the keyword and answers legacy; the consumer still gets what it asked for."""
    with versioned(dlshim.upgrade(P1b())) as imported:
        assert imported.view.version == (1, 3)
        assert imported.view.flags == 0


def test_T1_versioned_without_being_asked():
    with bare(dlshim.upgrade(VersionedAlways())) as imported:
        assert imported.values() == [0, 1, 2, 3, 4, 5]


OTHER_MAJORS = [(2, 0), (0, 8), (7, 1), (4294967295, 0)]


@BOTH
@pytest.mark.parametrize("version", OTHER_MAJORS)
def test_T1_another_major_from_a_producer(ask, version):
    x = VersionedAlways(version=version)
    with pytest.raises(BufferError) as error:
        ask(dlshim.upgrade(x))
    tells(error.value, "VersionedAlways", "version", str(version[0]))
    assert [made.deleted for made in x.exports] == [1] * len(x.exports)


@BOTH
@pytest.mark.parametrize("version", OTHER_MAJORS)
def test_T1_another_major_in_a_raw_capsule(ask, version):
    capsule = caps.make(version=version)
    made = caps.made_of(capsule)
    with pytest.raises(BufferError) as error:
        ask(dlshim.upgrade(capsule))
    tells(error.value, "version", str(version[0]))
    del capsule
    assert made.deleted == 1


@pytest.mark.once
@pytest.mark.parametrize("way", ["producer", "capsule", "from_dlpack"])
def test_T1_nothing_but_the_version_is_read_of_another_major(way):
    """Every other field is rubbish: reading it would be seen, following it would crash."""
    child.program("another_major", way)


@pytest.mark.parametrize("minor", [0, 1, 2, 3, 4, 99])
def test_T1_any_minor_is_read(minor):
    x = VersionedAlways(version=(1, minor), readonly=True)
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.values() == x.values()
        assert imported.view.readonly
    assert dlshim.from_dlpack(x).readonly


# --- T2: max_version ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        (None, caps.LEGACY),
        ((0, 8), caps.LEGACY),
        ((0, 0), caps.LEGACY),
        ((0, 99), caps.LEGACY),
        ((1, 0), caps.VERSIONED),
        ((1, 1), caps.VERSIONED),
        ((1, 99), caps.VERSIONED),
        ((2, 0), caps.VERSIONED),
        ([1, 0], caps.VERSIONED),
        ([0, 8], caps.LEGACY),
        (range(1, 3), caps.VERSIONED),
    ],
)
def test_T2_max_version_selects_the_generation(asked, name):
    def check(cls):
        for x in (dlshim.upgrade(cls()), dlshim.from_dlpack(cls())):
            capsule = x.__dlpack__(max_version=asked)
            assert caps.name_of(capsule) == name
        assert caps.name_of(dlshim.to_capsule(cls(), max_version=asked)) == name

    walk([P0ToDlpack, P1, P1b, P2, VersionedAlways, P3TableOnly], check)


@pytest.mark.parametrize(
    "asked", [1, 1.0, "10", (1,), (1, 0, 0), (), ("1", "0"), (1.0, 0), object(), {1, 0}]
)
def test_T2_max_version_of_another_form_is_a_typeerror(asked):
    x = P2()
    for ask in (
        lambda: dlshim.upgrade(x).__dlpack__(max_version=asked),
        lambda: dlshim.from_dlpack(x).__dlpack__(max_version=asked),
        lambda: dlshim.to_capsule(x, max_version=asked),
    ):
        with pytest.raises(TypeError) as error:
            ask()
        tells(error.value, "max_version")


def test_T2_bad_max_version_asks_the_producer_nothing():
    x = P2()
    with pytest.raises(TypeError):
        dlshim.upgrade(x).__dlpack__(max_version=1)
    assert x.calls == []


@pytest.mark.parametrize("cls", [P0ToDlpack, P0Mxnet, P1, P1NullStrides, P1b])
def test_T2_a_legacy_source_is_stamped_with_our_level(cls):
    with versioned(dlshim.upgrade(cls())) as imported:
        assert imported.view.version == (1, 3)


@pytest.mark.parametrize("asked", [(1, 0), (1, 1), (1, 3), (1, 9), (2, 0)])
def test_T2_the_stamp_does_not_follow_the_question(asked):
    with versioned(dlshim.upgrade(P1()), max_version=asked) as imported:
        assert imported.view.version == (1, 3)


@pytest.mark.parametrize("version", [(1, 0), (1, 1), (1, 3)])
def test_T2_a_versioned_source_keeps_its_stamp_only_when_handed_on(version, hand_on):
    with versioned(dlshim.upgrade(P2(version=version))) as imported:
        assert imported.view.version == (version if hand_on else (1, 3))


def test_T2_translated_for_null_strides_is_stamped_anew():
    """1.3 promises strides, which the producer's 1.0 did not."""
    with versioned(dlshim.upgrade(P2(null_strides=True))) as imported:
        assert imported.view.version == (1, 3)
        assert imported.view.strides == (3, 1)


def test_T2_copies_bear_our_stamp():
    with versioned(dlshim.upgrade(P2(version=(1, 0))), copy=True) as imported:
        assert imported.view.version == (1, 3)


@BOTH
def test_T2_a_tensor_answers_both(ask):
    for cls in (P1, P2, P2Torch, CopiesAlways):
        x = cls()
        tensor = dlshim.from_dlpack(x)
        for _ in range(2):
            with ask(tensor) as imported:
                assert imported.values() == x.values()
                assert imported.name == {bare: caps.LEGACY, versioned: caps.VERSIONED}[ask]


@pytest.mark.parametrize("minor", [1 << 16, 1 << 64, 1 << 70])
def test_a_minor_version_may_be_of_any_size(minor):
    for _ in range(2):  # as at first, and as it was learned
        with caps.take(dlshim.upgrade(P2()).__dlpack__(max_version=(1, minor))) as imported:
            assert imported.name == caps.VERSIONED


def test_stream_may_be_given_by_position():
    with caps.take(dlshim.upgrade(P1()).__dlpack__(None)) as imported:
        assert imported.name == caps.LEGACY
    with caps.take(dlshim.upgrade(P2()).__dlpack__(-1, max_version=(1, 0))) as imported:
        assert imported.name == caps.VERSIONED
    with pytest.raises(TypeError):
        dlshim.upgrade(P2()).__dlpack__(None, (1, 0))


@pytest.mark.parametrize("keyword", ["read_only", "maxversion", "nonsense"])
def test_unknown_keywords_are_typeerrors(keyword):
    """So that consumers' own fallbacks work (torch 2.14 will pass read_only)."""
    x = P2()
    for wrapped in (dlshim.upgrade(x), dlshim.from_dlpack(x)):
        calls = len(x.calls)
        with pytest.raises(TypeError) as error:
            wrapped.__dlpack__(**{keyword: True})
        tells(error.value, keyword)
        assert len(x.calls) == calls


def test_keywords_in_any_order():
    x = P2()
    orders = [
        {"max_version": (1, 3), "dl_device": None, "copy": None},
        {"copy": None, "dl_device": None, "max_version": (1, 3), "stream": None},
        {"stream": None, "max_version": (1, 3)},
        {"dl_device": (1, 0), "max_version": (1, 0), "copy": False},
    ]
    for asked in orders:
        with versioned(dlshim.upgrade(x), **asked) as imported:
            assert imported.values() == x.values()
