"""Homes of device memory: their streams, their allocator, and what their results remember.

A home whose library has a C table asks that for the stream (H3).  The driver allocates for the
others (H8), and results need no sync of a whole device (H6).
"""

from __future__ import annotations

import gc
import itertools
import threading
from typing import Any

import pytest

import dlshim
from device import libraries, matrix
from device.libraries import CurrentTable, source_of
from device.test_work_stream import Scene
from dlshim import _core
from doubles import capsules as caps
from doubles import device as fake
from doubles import vendors
from doubles.ctable import Refused, Table
from drivers import HIP_LIVE, checks, run_checks

VARIANTS = ("13.0", "12.2", *HIP_LIVE)
GENERIC = Table(dlshim.Producer)
#: Those that have no C table: what another home makes a Producer of.
FOREIGN = ("no keyword", "cupy", "torch 2.8")


def own_home(drv: Any, p: str = "N") -> tuple[Scene, Table]:
    """An array of a library with a C table, and the table of its home."""
    scene = Scene(drv, "table", p)
    return scene, Table(type(scene.upgraded()))


def answer_of(scene: Scene) -> int | None:
    """What the library's own table answers."""
    return Table(CurrentTable).stream(scene.where)


def on_another_thread(function: Any, argument: Any) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function(argument)))
    thread.start()
    thread.join()
    return results[0]


# --- H3: the stream --------------------------------------------------------------------------


def check_the_library_is_asked_at_every_question(drv: Any) -> None:
    """Right after an export, without one, between others' exports, and on another thread."""
    with libraries.of(drv).imported():
        for p in matrix.P_KINDS:
            scene, table = own_home(drv, p)
            source = scene.upgraded()
            assert table.stream(scene.where) == answer_of(scene)
            for _ in range(3):  # met, learned, again
                taken = table.owned(source)
                assert table.stream(scene.where) == answer_of(scene)
                assert table.stream(scene.where) == answer_of(scene)
                del taken
            later = drv.stream_new(0, False, name="later")
            CurrentTable.current = later
            assert table.stream(scene.where) == later
            other = fake.NoKw(drv, drv.stream_new(0, False, name="other"))
            kept = GENERIC.owned(dlshim.upgrade(other))
            assert table.stream(scene.where) == later
            assert on_another_thread(table.stream, scene.where) == later
            del kept, source, other


def check_a_stream_that_was_named_is_answered_once(drv: Any) -> None:
    """By stream= and producer_stream=, until the next export."""
    for option, how in itertools.product(("stream", "producer_stream"), ("owned", "borrow")):
        scene, table = own_home(drv)
        named = drv.stream_new(0, True, name="named")
        source = scene.upgraded(**{option: named})
        kept = getattr(table, how)(source)
        assert table.stream(scene.where) == named, (option, how)
        assert table.stream(scene.where) == answer_of(scene)
        del kept
        kept = getattr(table, how)(source)
        plain = scene.upgraded()
        also = table.owned(plain)
        assert table.stream(scene.where) == answer_of(scene)
        kept_again = getattr(table, how)(source)
        host = table.owned(_core._upgrade_into(type(plain), bytearray(8)))
        assert table.stream(scene.where) == named  # the host's says nothing
        del kept, kept_again, also, plain, source, host


def check_memory_of_another_library_follows_the_home(drv: Any) -> None:
    """S is the home's work stream: what runs there comes after the other library's work."""
    its = libraries.of(drv)
    with its.imported():
        for producer, p, device in itertools.product(
            [name for name in FOREIGN if name in its.make], matrix.P_KINDS, (0, 1)
        ):
            if producer == "no keyword" and p == "N":
                continue  # it is taken for a user of L
            scene, table = own_home(drv)
            home = type(scene.upgraded())
            s = drv.stream_new(device, False, name="S")
            for time in range(3):
                other = Scene(drv, producer, p, device)
                CurrentTable.current = s = drv.stream_new(device, False, name="S")
                source = _core._upgrade_into(home, source_of(producer, other.array))
                kept = table.owned(source)
                told = (producer, p, device, time)
                assert table.stream(other.where) == s, told
                assert not drv.read(s, other.array.address, context=drv.context(device)), (
                    told,
                    drv.races(),
                )
                del kept, source, other


def check_a_Tensor_follows_the_home(drv: Any) -> None:
    scene, table = own_home(drv)
    home = type(scene.upgraded())
    array = fake.NoKw(drv)
    p = drv.stream_new(0, False, name="P")
    tensor = dlshim.from_dlpack(array, stream=p)
    drv.write(p, array.address)
    CurrentTable.current = s = drv.stream_new(0, False, name="S")
    kept = table.owned(_core._upgrade_into(home, tensor))
    assert table.stream(scene.where) == s and not drv.read(s, array.address), drv.races()
    kept = table.owned(_core._upgrade_into(home, tensor, stream=p))
    assert table.stream(scene.where) == p
    del kept, tensor


# --- H8: the allocator ----------------------------------------------------------------------------


def kinds(drv: Any) -> list[str]:
    """ROCm has no handle for the per-thread default stream."""
    return [p for p in matrix.P_KINDS if not (vendors.of(drv).is_hip and p == "PTDS")]


def allocated(scene: Scene, shape: tuple[int, ...] = (3, 5)) -> caps.Import:
    return GENERIC.allocate(shape, device=scene.where)


def check_the_driver_allocates_for_the_answered_stream(drv: Any) -> None:
    """The kernel writes there, another of the stream reads; the host waits for nothing."""
    for p, device in itertools.product(kinds(drv), (0, 1)):
        scene = Scene(drv, "no keyword", p, device)
        source = scene.upgraded(producer_stream=scene.p)
        kept = GENERIC.owned(source)
        stream = GENERIC.stream(scene.where) or scene.vendor.legacy
        drv.clear_log()
        made = allocated(scene)
        assert made.view.device == scene.where and made.view.shape == (3, 5)
        assert made.view.data % 64 == 0
        told = (p, device)
        context = drv.context(device)
        assert not drv.write(stream, made.view.data, 60, context=context), (told, drv.races())
        assert not drv.read(stream, made.view.data, 60, context=context), (told, drv.races())
        assert not drv.gil_held_calls(every=True), told
        assert not [name for name in drv.calls() if "Synchronize" in name], told
        assert drv.now_current() == scene.current
        assert [name for name in drv.calls() if name in scene.vendor.allocations], told
        made.release()
        del kept, source
        gc.collect()


def check_without_an_answer_the_memory_is_good_everywhere(drv: Any) -> None:
    scene = Scene(drv, "no keyword", "B")
    made = on_another_thread(allocated, scene)
    stream = drv.stream_new(0, False, name="any")
    assert not drv.write(stream, made.view.data, 60), drv.races()
    made.release()


def check_memory_of_no_elements_makes_no_call(drv: Any) -> None:
    scene = Scene(drv, "no keyword", "L")
    drv.clear_log()
    made = allocated(scene, (0, 3))
    assert not made.view.data and made.view.shape == (0, 3) and drv.log(by="") == []
    made.release()


def check_a_capture_on_the_answered_stream_is_refused(drv: Any) -> None:
    scene = Scene(drv, "no keyword", "N")
    source = scene.upgraded(producer_stream=scene.p)
    kept = GENERIC.owned(source)
    GENERIC.stream(scene.where)
    drv.capture_begin(scene.p)
    with pytest.raises(Refused, match="capture"):
        allocated(scene)
    assert drv.capture_state(scene.p) == "active"
    drv.capture_end(scene.p)
    del kept, source


def check_no_such_device(drv: Any) -> None:
    scene = Scene(drv, "no keyword", "L")
    with pytest.raises(Refused) as raised:
        GENERIC.allocate((3,), device=(scene.where[0], 77))
    assert raised.value.args[0] == "BufferError" and "77" in raised.value.args[1]


# --- H6: results ----------------------------------------------------------------------------------


def check_a_result_remembers_the_stream_of_its_kernel(drv: Any) -> None:
    """Whoever takes it next waits for that stream, not for the whole device."""
    for p in kinds(drv):
        scene = Scene(drv, "no keyword", p)
        source = scene.upgraded(producer_stream=scene.p)
        kept = GENERIC.owned(source)
        stream = GENERIC.stream(scene.where) or scene.vendor.legacy
        made = allocated(scene)
        assert not drv.write(stream, made.view.data, 60)
        drv.clear_log()
        tensor = GENERIC.to_object(made.view.address)
        made.forget()
        assert scene.effects() == [], scene.effects()
        s = drv.stream_new(0, False, name="S")
        capsule = tensor.__dlpack__(stream=s, max_version=(1, 0))
        assert not drv.read(s, made.view.data, 60), drv.races()
        effects = " ".join(scene.effects())
        assert "CtxRecord" not in effects and "CtxSync" not in effects, effects
        assert "DeviceSync" not in effects, effects
        del capsule, tensor, kept, source
        gc.collect()


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), VARIANTS))
def test_homes(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
