"""`dlshim.live`, `track` and `stats`: what is alive and where it was made, at no cost when off."""

from __future__ import annotations

import gc
import inspect
import pickle
import threading

import pytest

import dlshim
from dlshim import _core
from doubles import child
from doubles.asking import bare, counting, versioned
from doubles.ctable import Table
from doubles.older import InterfaceOnly
from doubles.producers import P1, P2, P3TableOnly


def here(offset=0):
    frame = inspect.currentframe().f_back
    return f"{__file__}:{frame.f_lineno + offset}"


@pytest.fixture(autouse=True)
def as_it_was(hand_on):
    """Tracking ends with handing-on allowed: other tests may want it forbidden."""
    yield
    assert not dlshim.tracking._running
    gc.collect()
    assert dlshim.live() == []


def test_nothing_is_noted_when_it_is_off():
    assert dlshim.live() == []
    held = [dlshim.from_dlpack(P2()), versioned(dlshim.upgrade(P2()))]
    assert dlshim.live() == []
    del held


WAYS = {
    "Tensor": lambda x: dlshim.from_dlpack(x),
    "capsule": lambda x: dlshim.upgrade(x).__dlpack__(),
    "versioned": lambda x: dlshim.upgrade(x).__dlpack__(max_version=(1, 0)),
    "copy": lambda x: dlshim.to_capsule(x, copy=True, max_version=(1, 0)),
    "struct": lambda x: Table(dlshim.Producer).owned(dlshim.upgrade(x)),
}
KINDS = {"Tensor": "Tensor", "capsule": "legacy"}


@pytest.mark.parametrize("cls", [P1, P2, P3TableOnly, InterfaceOnly])
@pytest.mark.parametrize("way", WAYS)
def test_each_export_is_noted_with_its_place_and_end(way, cls):
    x = cls()
    WAYS[way](x)  # what is learned leads to the fast path, which tracking closes
    size = dlshim.from_dlpack(x).nbytes
    with dlshim.track():
        made, line = WAYS[way](x), here()
        (one,) = dlshim.live()
        assert one.kind == KINDS.get(way, "versioned")
        assert (one.device, one.nbytes) == ((1, 0), size)
        assert one.where == line or "struct" in way or __file__ in one.where
    assert dlshim.live() == [one]  # it is alive, though nothing is noted any more
    if way == "struct":
        made.release()
    del made
    gc.collect()
    assert dlshim.live() == []


def test_the_place_is_that_of_the_caller():
    x = P2()
    with dlshim.track():
        tensor = dlshim.from_dlpack(x)
        assert [one.where for one in dlshim.live()] == [here(-1)]
        capsule = dlshim.to_capsule(tensor)
        assert dlshim.live()[1].where == here(-1)
        taken = dlshim.upgrade(capsule)
        assert [one.kind for one in dlshim.live()] == ["Tensor", "legacy", "Tensor"]
        assert dlshim.live()[2].where == here(-2)
    del tensor, capsule, taken


def test_code_whose_module_has_no_name_is_a_place():
    """The export was not noted, and an AttributeError was reported as unraisable."""
    nameless = {"__name__": None, "dlshim": dlshim, "x": P2()}
    with dlshim.track():
        exec("held = dlshim.from_dlpack(x)", nameless)
        assert {one.where for one in dlshim.live()} == {"<string>:1"}
    nameless.clear()


@pytest.mark.parametrize("module", ["torch.utils.dlpack", "jax._src.dlpack", "copy"])
def test_the_lines_of_consumers_are_passed_over(module):
    """They are the same for every export, so they would not tell where a leak is."""
    theirs = {"__name__": module}
    exec("def from_dlpack(x):\n    return x.__dlpack__(max_version=(1, 0))", theirs)
    x = dlshim.upgrade(P2())
    with dlshim.track():
        held = theirs["from_dlpack"](x)
        assert [one.where for one in dlshim.live()] == [here(-1)]
        theirs["__name__"] = "torchy"  # a library that dlshim does not know may be the caller's
        del held
        held = theirs["from_dlpack"](x)
        assert [one.where for one in dlshim.live()] == ["<string>:2"]
        exec(
            compile("held = x.__dlpack__(max_version=(1, 0))", "no name", "exec"),
            {"x": x},
            made := {},
        )
        assert dlshim.live()[-1].where == "no name:1"
    del held, made


def test_a_tensor_of_a_pickle_is_noted():
    for order in ("C", "F"):
        strides = (3, 1) if order == "C" else (1, 2)
        kept = pickle.dumps(dlshim.from_dlpack(P2((2, 3), "int32", strides=strides)))
        with dlshim.track():
            tensor = pickle.loads(kept)
            (one,) = dlshim.live()
            assert one == ("Tensor", (1, 0), 24, here(-2))
        del tensor
        assert dlshim.live() == []


WHAT_A_HANDLER_RAISES = [KeyboardInterrupt, TimeoutError, MemoryError]


@pytest.mark.parametrize("error", WHAT_A_HANDLER_RAISES)
@pytest.mark.parametrize("way", WAYS)
def test_what_a_signal_handler_raises_ends_the_export(way, error, monkeypatch):
    """Ctrl-C was reported as unraisable, and the program went on."""
    from dlshim import tracking

    x = P2()
    reports = []
    monkeypatch.setattr("sys.unraisablehook", reports.append)

    def interrupted(**_):
        raise error("now")

    with dlshim.track():
        monkeypatch.setitem(vars(tracking), "made", interrupted)
        with pytest.raises(error, match="now"):
            WAYS[way](x)
        gc.collect()
        assert dlshim.live() == []
    assert not reports


def test_tracking_goes_on_in_a_with_block():
    """What was stopped noted nothing in a with block, and said nothing of that."""
    tracking = dlshim.track()
    tracking.stop()
    with tracking:
        held = dlshim.from_dlpack(P2())
        assert len(dlshim.live()) == 1
    del held


def test_exports_end_on_any_thread():
    with dlshim.track():
        held = [bare(dlshim.upgrade(P1())) for _ in range(20)]
        assert len(dlshim.live()) == 20
        threads = [threading.Thread(target=one.release, args=("held",)) for one in held]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert dlshim.live() == []


def test_blocks_may_overlap(hand_on):
    first = dlshim.track()
    with dlshim.track():
        first.stop()
        held = dlshim.from_dlpack(P2())
        assert len(dlshim.live()) == 1
    first.stop()  # again does no harm
    other = dlshim.from_dlpack(P2())
    assert len(dlshim.live()) == 1
    del held, other


def test_the_fast_path_is_open_before_and_after():
    _core._hook("hand_on", True)
    wrapped = dlshim.upgrade(P2())
    for _ in range(2):
        wrapped.__dlpack__(max_version=(1, 0))
        with counting() as count:
            wrapped.__dlpack__(max_version=(1, 0))
        assert (count.handed_on, count.translated) == (1, 0)
        with dlshim.track(), counting() as count:
            wrapped.__dlpack__(max_version=(1, 0))
        assert (count.handed_on, count.translated) == (0, 1)


def test_memory_that_runs_out():
    x = P1()
    with dlshim.track():
        for n in range(1, 20):
            _core._hook("fail_alloc", n)
            try:
                got = versioned(dlshim.upgrade(x))
            except MemoryError:
                pass
            else:
                break
            finally:
                _core._hook("fail_alloc", -1)
        assert 1 < n < 19
    del got


def test_a_failure_to_note_does_not_spoil_the_export(monkeypatch):
    """It fails while Python ends, when functions are taken from their modules."""

    def fails(**_):
        raise AttributeError("no note")

    said = []
    monkeypatch.setattr("sys.unraisablehook", said.append)
    with dlshim.track():
        monkeypatch.setattr(dlshim.tracking, "made", fails)
        x = P1()
        with versioned(dlshim.upgrade(x)) as imported:
            assert imported.view.values() == x.values()
        assert dlshim.live() == []
    assert [type(one.exc_value) for one in said] == [AttributeError]


@pytest.mark.once
def test_exports_are_told_to_their_own_import():
    """The first export after the switch took the module of that name, which may be another's."""
    child.program("tracked_by_its_own_import")


@pytest.mark.once
def test_tracking_that_begins_after_another_import_is_its_own():
    child.run("""
    import array, sys
    import dlshim
    old, track, live, x = dlshim, dlshim.track, dlshim.live, array.array("i", [1])
    for name in [name for name in sys.modules if name.split(".")[0] == "dlshim"]:
        del sys.modules[name]
    import dlshim
    dlshim.live()
    with track():
        capsule = old.to_capsule(x)
        assert len(live()) == 1 and dlshim.live() == []
    """)


def test_what_was_done_is_counted():
    gc.collect()  # what earlier tests left in cycles is not freed between the counts
    before = dlshim.stats()
    capsule = dlshim.to_capsule(P1(), max_version=(1, 0))
    after = dlshim.stats()
    assert after["translated"] == before["translated"] + 1
    assert after["live"] == before["live"] + 1
    assert set(after) == {"handed_on", "translated", "copied", "taken", "live"}
    del capsule
    assert dlshim.stats()["live"] == before["live"]


@pytest.mark.once
def test_an_interpreter_may_end_while_exports_are_tracked():
    code = """
    import array, dlshim
    dlshim.track()
    held = dlshim.upgrade(array.array("i", [1, 2])).__dlpack__()
    tensor = dlshim.from_dlpack(array.array("i", [1, 2]))
    print(len(dlshim.live()))
    """
    assert child.run(code, silent=True).split() == ["2"]


def test_tensors_of_plain_memory_are_counted():
    """They have no struct of dlshim's, and a leak of them was missed."""
    gc.collect()
    before = dlshim.stats()["live"]
    kept = [dlshim.from_dlpack(P2()) for _ in range(3)]
    assert dlshim.stats()["live"] == before + 3
    copies = [dlshim.from_dlpack(b"12"), dlshim.from_dlpack(P2(), copy=True)]
    del kept[0], copies
    gc.collect()
    assert dlshim.stats()["live"] == before + 2
    kept.clear()
    assert dlshim.stats()["live"] == before


def test_a_tensor_that_cannot_be_made_is_not_counted():
    gc.collect()
    before = dlshim.stats()["live"]
    for _ in range(40):
        with pytest.raises(BufferError):
            dlshim.from_dlpack(P2(device=(99, 0)), device="cpu")
    assert dlshim.stats()["live"] == before
