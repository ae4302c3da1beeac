"""T9: names, destructors, and errors that are pending while something dies."""

from __future__ import annotations

import gc

import pytest

import dlshim
from doubles import capsules as caps
from doubles import consumers, producers, sycl
from doubles.asking import ASKINGS, bare, live, tells, versioned, walk
from doubles.gil import with_gil
from doubles.producers import P1, P2, CopiesAlways, P1a, P1b, P3TableOnly, VersionedAlways

BOTH = pytest.mark.parametrize("version", [None, (1, 0)], ids=["legacy", "versioned"])

# Each way out, as a function that gives a fresh capsule of the generation asked for.
SOURCES = {
    "P1": lambda **asked: dlshim.upgrade(P1()).__dlpack__(**asked),
    "P1b": lambda **asked: dlshim.upgrade(P1b()).__dlpack__(**asked),
    "P2": lambda **asked: dlshim.upgrade(P2()).__dlpack__(**asked),
    "table": lambda **asked: dlshim.upgrade(P3TableOnly()).__dlpack__(**asked),
    "copy": lambda **asked: dlshim.upgrade(P2(), copy=True).__dlpack__(**asked),
    "producer's copy": lambda **asked: dlshim.upgrade(CopiesAlways()).__dlpack__(**asked),
    "buffer": lambda **asked: dlshim.upgrade(bytearray(24)).__dlpack__(**asked),
    "raw": lambda **asked: dlshim.upgrade(caps.make()).__dlpack__(**asked),
    "raw versioned": lambda **asked: dlshim.upgrade(caps.make(version=(1, 0))).__dlpack__(**asked),
    "tensor": lambda **asked: dlshim.from_dlpack(P2()).__dlpack__(**asked),
    "to_capsule": lambda **asked: dlshim.to_capsule(P1(), **asked),
}
EVERY = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())


@EVERY
@BOTH
def test_T9_an_unconsumed_capsule_frees_itself(source, version):
    capsule = source(max_version=version)
    assert caps.look(capsule).deleter  # never NULL (T10)
    del capsule
    gc.collect()
    assert caps.accounts() == []


STYLES = [caps.take, caps.take_and_clear, caps.take_by_used_name, caps.seize, caps.hold]


@EVERY
@BOTH
def test_T9_every_style_of_consuming_frees_once(source, version):
    def check(style):
        for how in ("held", "released"):
            imported = style(source(max_version=version))
            assert len(imported.values()) in (6, 24)
            imported.release(how)
            del imported
            assert caps.accounts() == []

    walk({style.__name__: style for style in STYLES}, check)


@EVERY
@BOTH
def test_T9_the_destructor_acts_on_the_unused_name_only(source, version):
    before = live()
    capsule = source(max_version=version)
    imported = caps.take(capsule)
    del capsule
    gc.collect()
    assert live() == before + (1 if caps.made_at(imported.view.address) is None else 0)
    imported.values()
    imported.release()
    assert live() == before


def test_T9_the_source_capsule_is_renamed_when_it_is_taken():
    for name, version in ((caps.LEGACY, None), (caps.VERSIONED, (1, 0))):
        capsule = caps.make(version=version)
        upgraded = dlshim.upgrade(capsule)
        assert caps.name_of(capsule) == f"used_{name}"
        del upgraded
        assert caps.name_of(capsule) == f"used_{name}"


def test_T9_a_raw_capsule_without_a_destructor_is_freed_by_its_taker():
    upgraded = dlshim.upgrade(caps.make(destructor=False))
    del upgraded
    tensor = dlshim.from_dlpack(caps.make(destructor=False, version=(1, 0)))
    del tensor
    gc.collect()
    assert caps.accounts() == []


def test_T9_a_used_capsule_is_refused_and_left_alone():
    capsule = caps.make()
    first = dlshim.upgrade(capsule)
    for take in (dlshim.upgrade, dlshim.from_dlpack, dlshim.to_capsule):
        with pytest.raises(BufferError) as error:
            take(capsule)
        tells(error.value, "used|consumed")
    with bare(first) as imported:
        assert imported.values() == [0, 1, 2, 3, 4, 5]


def test_T9_a_capsule_used_by_somebody_else_is_refused():
    capsule = caps.make(version=(1, 0))
    theirs = consumers.ask_like_tvmffi(capsule)
    with pytest.raises(BufferError):
        dlshim.upgrade(capsule)
    theirs.release()


def test_T9_a_foreign_capsule_is_refused_and_left_alone():
    made = caps.Made()
    for name in ("something_else", "dlpack_exchange_api", "dltensor_v9", "arrow_array"):
        capsule = caps.new_capsule(made.address, name)
        for take in (dlshim.upgrade, dlshim.from_dlpack, dlshim.to_capsule):
            with pytest.raises(BufferError) as error:
                take(capsule)
            tells(error.value, name)
        assert caps.name_of(capsule) == name
    nameless = caps._new(made.address, None, None)
    with pytest.raises(BufferError):
        dlshim.upgrade(nameless)
    assert not made.deleted


class GivesForeign(producers.GivesRubbish):
    """`__dlpack__` that answers with something that is no fresh DLPack capsule."""


@pytest.mark.parametrize("rubbish", [None, 42, "dltensor", object(), [1, 2], b"x"])
def test_T9_an_answer_that_is_no_capsule(rubbish):
    for ask in ASKINGS.values():
        with pytest.raises(BufferError) as error:
            ask(dlshim.upgrade(GivesForeign(rubbish)))
        tells(error.value, "GivesForeign")


def test_T9_an_answer_that_is_a_foreign_or_used_capsule():
    made = caps.Made()
    foreign = caps.new_capsule(made.address, "arrow_array_stream")
    used = caps.make()
    theirs = caps.take(used)
    for rubbish in (foreign, used):
        for ask in ASKINGS.values():
            with pytest.raises(BufferError) as error:
                ask(dlshim.upgrade(GivesForeign(rubbish)))
            tells(error.value, "GivesForeign")
    theirs.release()


# --- an exception is pending ----------------------------------------------------------


@pytest.mark.parametrize("ask", ASKINGS.values(), ids=ASKINGS.keys())
def test_T9_a_python_destructor_does_not_eat_the_error(ask):
    """numpy#32697: destructors written in Python ran with the error set, and it was lost."""
    seen = []

    class Loud(VersionedAlways):
        def _export(self, version, **fields):
            return super()._export(version, **(fields | {"on_delete": lambda: seen.append(1)}))

    with pytest.raises(BufferError) as error:
        ask(dlshim.upgrade(Loud(flags=8)))
    tells(error.value, "flag")
    assert seen == [1]


def test_T9_our_destructor_does_not_eat_a_consumers_error():
    """The real NumPy drops our capsule with its own error set."""
    np = pytest.importorskip("numpy", reason="the error path of the real NumPy")
    x = P1(dtype=(77, 16, 1))  # legacy, so that NumPy gets a capsule of ours
    with pytest.raises((BufferError, RuntimeError)) as error:
        np.from_dlpack(dlshim.upgrade(x))
    assert not isinstance(error.value, SystemError)
    tells(error.value, "dtype")
    assert x.last.deleted == 1


def test_T9_a_source_that_dies_with_an_error_pending_keeps_it():
    """The last reference to a source falls while the exchange fails."""
    seen = []

    class Dies(VersionedAlways):
        def __del__(self):
            try:
                raise KeyError("inside __del__")
            except KeyError:
                seen.append(1)

    with pytest.raises(BufferError) as error:
        dlshim.to_capsule(Dies(flags=8))
    tells(error.value, "flag")
    error = None
    gc.collect()
    caps.close_accounts()
    gc.collect()
    assert seen == [1]


@BOTH
def test_T9_failing_consumers_do_not_leak(version):
    """A consumer that refuses after it asked drops an unconsumed capsule."""
    for _ in range(3):
        capsule = dlshim.upgrade(P2()).__dlpack__(max_version=version)
        try:
            raise RuntimeError("layout refused")
        except RuntimeError:
            del capsule
    with versioned(dlshim.upgrade(P1())):
        pass


# --- a capsule that others hold too ----------------------------------------------------------


class Keeps(P1a):
    """Keeps its capsule, as a producer that hands out one and the same does."""

    def __dlpack__(self, *args, **keywords):
        self.kept = super().__dlpack__(*args, **keywords)
        return self.kept


@with_gil("a shared capsule is claimed before it is read, and its other holder gets the error")
@pytest.mark.parametrize("ndim", [1, 6])
@pytest.mark.parametrize("asked", [{}, {"max_version": (1, 0)}], ids=str)
def test_T9_a_shared_capsule_may_be_consumed_while_queues_are_synced(asked, ndim):
    """Whoever consumes it owns the struct, and may write to it or free it."""
    x = Keeps((2,) * ndim, device=(14, 0))

    class Consumer(sycl.Queue):
        def submit_barrier(self, dependent_events=()):
            stolen.append(caps.take(x.kept))
            shape_of(stolen[0])[:] = [-(2**40)] * ndim
            return super().submit_barrier(dependent_events)

    def shape_of(imported):
        return (caps.C.c_int64 * ndim).from_address(imported.view.shape_address)

    stolen: list[caps.Import] = []
    with pytest.raises(BufferError) as error:
        dlshim.upgrade(x, producer_stream=sycl.Queue()).__dlpack__(stream=Consumer(), **asked)
    tells(error.value, "Keeps", "consumed by another holder")
    assert len(stolen) == 1
    shape_of(stolen[0])[:] = [2] * ndim
    stolen[0].release()
