"""Columns of Arrow in device memory: who waits for their event (rule S27), and when.

Each column is a double after pylibcudf's source, which records an event on P at the export; every
consumer reads on a stream of its own.  What lies between is dlshim's alone.
"""

from __future__ import annotations

import ctypes as C
import itertools
from collections.abc import Callable
from typing import Any

import pytest

import dlshim
from doubles import capsules as caps
from doubles import child, vendors
from doubles.arrow_device import DeviceColumn, DeviceStream, PylibcudfColumn
from drivers import ALL_LIVE, CUDA_LIVE, Driver, checks, run_checks

CAPTURES = (*CUDA_LIVE[1:], "hip6", "hip7")
CAPTURE = "a graph capture is running"


def stream_of(drv: Any, kind: str, name: str, device: int = 0) -> int:
    return vendors.of(drv).stream(drv, kind, device, name)


def kinds(drv: Any) -> tuple[str, ...]:
    """Streams that a consumer can pass: 2 is none of ROCm."""
    return ("L", "B", "N") if vendors.of(drv).is_hip else ("L", "PTDS", "B", "N")


def blocks(drv: Any) -> list[str]:
    """Calls of dlshim's for which the host waits, and edges that it makes of its own."""
    vendor = vendors.of(drv)
    seen = {*vendor.syncs, vendor.record, vendor.create_event, "cuCtxRecordEvent"}
    return [name for name in drv.calls(by="") if name in seen]


def waits(drv: Any) -> list[str]:
    vendor = vendors.of(drv)
    host = f"{vendor.prefix}EventSynchronize"
    return [name for name in drv.calls(by="") if name in {vendor.wait, host, *vendor.syncs}]


def take(x: Any, max_version: Any = (1, 0), **keywords: Any) -> caps.Import:
    return caps.take(x.__dlpack__(max_version=max_version, **keywords))


class Scene:
    """A column with unfinished work on P."""

    def __init__(self, drv: Any, p: str = "N", device: int = 0, current: int = 0, **fields: Any):
        drv.reset()
        self.drv, self.vendor, self.device = drv, vendors.of(drv), device
        drv.make_current(current)
        self.p = stream_of(drv, p, "P", device)
        self.s = stream_of(drv, "N", "S", device)
        self.column = PylibcudfColumn(drv, self.p, device=device, **fields)
        assert not self.column.write()
        self.here, self.events = drv.now_current(), drv.live_events()
        drv.clear_log()

    def take(self, options: dict[str, Any] | None = None, **keywords: Any) -> caps.Import:
        self.drv.clear_log()
        return take(dlshim.upgrade(self.column, **(options or {})), **keywords)

    def refused(self, *words: str, options: dict[str, Any] | None = None, **keywords: Any) -> None:
        with pytest.raises(BufferError) as error:
            self.take(options, **keywords)
        for word in ("PylibcudfColumn", *words):
            assert word in str(error.value), (word, str(error.value))
        assert set(self.column.released) <= {1}, "what was refused is released at once"

    def ends(self, told: object = "") -> None:
        """All is released, once; nothing was called under the lock or left behind."""
        drv = self.drv
        assert set(self.column.released) == {1}, (told, self.column.released)
        assert not drv.races() and not drv.gil_held_calls(every=True), (told, drv.races())
        assert drv.now_current() == self.here and drv.live_events() == self.events, told
        caps.close_accounts()


# --- the consumer's stream waits -------------------------------------------------------------


def check_the_consumers_stream_waits_for_the_event(drv: Any) -> None:
    for p, s, device, current in itertools.product(kinds(drv), kinds(drv), (0, 1), (0, 1)):
        told = (p, s, device, current)
        scene = Scene(drv, p, device, current)
        here = stream_of(drv, s, "reader", device)
        got = scene.take(stream=here)
        assert got.view.device == scene.vendor.device_of("device", device), told
        assert waits(drv) == [scene.vendor.wait] and not blocks(drv), (told, drv.log(by=""))
        context = drv.context(device)
        assert not drv.read(here, scene.column.address, context=context), told
        assert got.view.data == scene.column.address and got.view.readonly, told
        assert scene.column.released == [0], told
        got.release()
        scene.ends(told)


def check_it_waits_before_the_release(drv: Any) -> None:
    """cuDF destroys its event in the release."""
    scene = Scene(drv)
    got = scene.take(stream=scene.s)
    got.release()
    names = [e.name for e in drv.entries() if not e.is_mark]
    assert names.index(scene.vendor.wait) < names.index(scene.vendor.destroy_event)
    scene.ends()


def check_a_release_has_pythons_lock(drv: Any) -> None:
    """pylibcudf drops a reference in its release, on whatever thread that is.  A function of the
    driver stands for the release here, because the driver sees who holds the lock."""
    for how in ("held", "released", "c-thread") if caps.has_c_threads() else ("held", "released"):
        scene = Scene(drv)
        function = scene.vendor.get_version
        fill = scene.column.fill

        def fill_with(made: Any, fill: Any = fill, function: str = function) -> None:
            fill(made)
            made.array.release = C.cast(getattr(drv.cu, function), C.c_void_p)

        scene.column.fill = fill_with
        got = scene.take(stream=-1)
        drv.reset()
        got.release(how)
        assert drv.counts()[function] == 1, how
        assert drv.gil_held_calls(every=True) == {function: 1}, how


def check_none_is_the_default_stream(drv: Any) -> None:
    for p, version in itertools.product(("N", "B"), (None, (1, 0))):
        scene = Scene(drv, p)
        got = scene.take({"readonly": "share"}, max_version=version)
        assert waits(drv) == [scene.vendor.wait] and not blocks(drv)
        assert not drv.read(scene.vendor.legacy, scene.column.address)
        got.release()
        scene.ends()


def check_without_the_wait_it_would_race(drv: Any) -> None:
    """The control: -1 says that nobody has to wait."""
    scene = Scene(drv)
    got = scene.take(stream=-1)
    assert drv.calls(by="") == []
    assert drv.read(scene.s, scene.column.address)
    got.release()
    assert scene.column.released == [1]


def check_no_event_is_no_work(drv: Any) -> None:
    for stream in (None, -1, "N"):
        scene = Scene(drv)
        scene.column.record = lambda: None
        scene.column.destroy = lambda event: None
        got = scene.take(stream=scene.s if stream == "N" else stream)
        assert drv.calls(by="") == [], stream
        got.release()
        assert scene.column.released == [1]


def check_no_policy_is_asked(drv: Any) -> None:
    """The work is known, so the options for unknown streams and producer_stream change nothing."""
    for options in (
        *({"unknown_stream": word} for word in ("error", "same", "legacy", "auto")),
        {"producer_stream": -1},
    ):
        scene = Scene(drv)
        got = scene.take(options, stream=scene.s)
        assert waits(drv) == [scene.vendor.wait], options
        assert not drv.read(scene.s, scene.column.address), options
        got.release()
        scene.ends(options)


def check_each_export_has_an_event_of_its_own(drv: Any) -> None:
    scene = Scene(drv)
    wrapped = dlshim.upgrade(scene.column)
    for number in range(3):
        assert not scene.column.write()
        got = take(wrapped, stream=scene.s)
        assert not drv.read(scene.s, scene.column.address), number
        got.release()
        # The next kernel of the producer has to come after this reader.
        vendors.edge(drv, scene.s, scene.p)
    scene.ends()
    assert scene.column.released == [1, 1, 1]


def check_a_tensor_remembers_the_consumers_stream(drv: Any) -> None:
    scene = Scene(drv)
    tensor = dlshim.from_dlpack(scene.column, stream=scene.s)
    drv.clear_log()
    other = stream_of(drv, "N", "other")
    got = take(tensor, stream=other)
    assert not drv.read(other, scene.column.address)
    got.release()
    assert scene.column.released == [0]
    del tensor
    assert scene.column.released == [1]


def check_an_empty_column_needs_nobody(drv: Any) -> None:
    scene = Scene(drv)
    scene.column.length = 0
    got = scene.take(stream=scene.s)
    assert drv.calls(by="") == [] and got.view.shape == (0,)
    got.release()
    assert scene.column.released == [1]


# --- the host waits ----------------------------------------------------------------------------


def check_who_names_no_stream_at_all_makes_the_host_wait(drv: Any) -> None:
    host = f"{vendors.of(drv).prefix}EventSynchronize"
    for how in ("to_capsule", "to_capsule 1.x", "stream option", "Tensor"):
        scene = Scene(drv)
        got: Any = {
            "to_capsule": lambda x: dlshim.to_capsule(x, readonly="share"),
            "to_capsule 1.x": lambda x: dlshim.to_capsule(x, max_version=(1, 0)),
            "stream option": lambda x: take(dlshim.upgrade(x, stream="wait")),
            "Tensor": lambda x: dlshim.from_dlpack(x, stream="wait"),
        }[how](scene.column)
        assert waits(drv) == [host] and blocks(drv) == [host], (how, drv.log(by=""))
        assert not drv.read(scene.s, scene.column.address), how
        del got
        scene.ends(how)


def check_memory_that_the_host_reads(drv: Any) -> None:
    """Pinned and managed memory for a consumer that names no stream."""
    host = f"{vendors.of(drv).prefix}EventSynchronize"
    for kind in ("pinned", "managed") if not vendors.of(drv).is_hip else ("pinned",):
        scene = Scene(drv, kind=kind)
        got = scene.take()
        assert waits(drv) == [host], kind
        assert not drv.host_read(scene.column.address, 24), kind
        got.release()
        scene.ends(kind)


@checks.on_cuda
def check_managed_memory_that_the_host_may_not_touch_beside_kernels(drv: Driver) -> None:
    scene = Scene(drv, kind="managed")
    drv.option("concurrent_managed", 0)
    got = scene.take()
    assert waits(drv) == ["cuCtxSynchronize"]
    got.release()
    drv.option("concurrent_managed", 1)
    scene.ends()


def check_a_copy_to_the_host_comes_after_the_event(drv: Any) -> None:
    for stream, kind in itertools.product((None, -1), ("device", "pinned")):
        scene = Scene(drv, kind=kind)
        got = scene.take({"device": "cpu", "copy": True}, stream=stream)
        told = (stream, kind)
        assert got.view.device == (1, 0) and got.view.values() == [0, 1, 2, 3, 4, 5], told
        assert not drv.races(), (told, drv.races())
        got.release()
        scene.ends(told)


def check_a_copy_on_the_device_comes_after_the_event(drv: Any) -> None:
    for stream in (None, -1, "S"):
        scene = Scene(drv)
        got = scene.take({"copy": True}, stream=scene.s if stream == "S" else stream)
        assert not drv.races(), (stream, drv.races())
        assert scene.column.released == [1], "the source is not held"
        assert not drv.read(scene.s, got.view.data)
        got.release()


# --- captures ------------------------------------------------------------------------------------


@checks.only_on(*CAPTURES)
def check_a_capture_on_the_consumers_stream_is_left_alone(drv: Any) -> None:
    scene = Scene(drv)
    drv.capture_begin(scene.s, "relaxed")
    scene.refused(CAPTURE, "stream=-1", stream=scene.s)
    assert drv.capture_state(scene.s) == "active" and waits(drv) == []
    scene.take(stream=-1).release()
    assert drv.capture_state(scene.s) == "active"
    drv.capture_end(scene.s)
    scene.ends()


@checks.only_on(*CAPTURES)
def check_a_capture_on_a_blocking_stream_is_left_alone(drv: Any) -> None:
    """Nobody tells whether the event was recorded in it."""
    scene = Scene(drv)
    other = stream_of(drv, "B", "C")
    drv.capture_begin(other, "relaxed")
    for keywords in ({}, {"stream": scene.s}):
        scene.refused(CAPTURE, **keywords)
        assert drv.capture_state(other) == "active" and waits(drv) == []
    with pytest.raises(BufferError, match=CAPTURE):
        dlshim.to_capsule(scene.column, readonly="share")
    assert drv.capture_state(other) == "active"
    drv.capture_end(other)
    scene.ends()


# --- what cannot be waited for ----------------------------------------------------------------


def check_an_event_that_is_none(drv: Any) -> None:
    cell = C.c_void_p()
    scene = Scene(drv)
    scene.column.record = lambda: C.addressof(cell)
    scene.column.destroy = lambda event: None
    for stream in (None, scene.s):
        scene.refused("no event", "stream=-1", stream=stream)
    got = scene.take({"stream": -1})
    assert got.view.values() == [0, 1, 2, 3, 4, 5]
    got.release()
    assert drv.calls(by="") == [] and set(scene.column.released) == {1}


def check_an_event_that_the_driver_does_not_take(drv: Any) -> None:
    scene = Scene(drv)
    drv.fail_next(f"{scene.vendor.prefix}EventSynchronize", 400)
    with pytest.raises(BufferError, match="the event belongs to another device or was destroyed"):
        dlshim.to_capsule(scene.column, max_version=(1, 0))
    assert scene.column.released == [1]


def check_a_call_that_fails(drv: Any) -> None:
    for call, keywords, error in (
        (vendors.of(drv).wait, {"stream": "S"}, RuntimeError),
        (f"{vendors.of(drv).prefix}EventSynchronize", {}, RuntimeError),
    ):
        scene = Scene(drv)
        drv.fail_next(call, 700)
        with pytest.raises(error, match=call.removesuffix("_v2")):
            if keywords:
                scene.take(stream=scene.s)
            else:
                dlshim.to_capsule(scene.column, max_version=(1, 0))
        assert scene.column.released == [1]


def check_missing_values_that_the_host_cannot_read(drv: Any) -> None:
    """A bitmap on the device is never looked at; a count of 0 is believed."""
    scene = Scene(drv, bitmap=8)
    scene.take(stream=scene.s).release()
    for count in (2, -1):
        scene = Scene(drv, bitmap=8, null_count=count)
        scene.refused("missing", "fill them with its own library first", stream=scene.s)
        assert drv.calls(by="") == [] and scene.column.released == [1]
    scene = Scene(drv, null_count=-1)
    scene.take(stream=scene.s).release()  # without a bitmap nothing is missing


# --- chunks ------------------------------------------------------------------------------------


def check_a_device_stream_of_one_chunk(drv: Any) -> None:
    for empty in (False, True):
        scene = Scene(drv)
        nothing = PylibcudfColumn(drv, scene.p, length=0)
        chunks = [nothing, scene.column, nothing] if empty else [scene.column]
        x = DeviceStream(chunks, device_type=scene.vendor.device_type)
        drv.clear_log()
        got = take(dlshim.upgrade(x), stream=scene.s)
        assert x.released == 1, "the stream goes back as soon as its chunks are taken"
        assert waits(drv) == [scene.vendor.wait]
        assert not drv.read(scene.s, scene.column.address)
        assert scene.column.released == [0] and set(nothing.released) <= {1}
        got.release()
        scene.ends(empty)


def check_several_chunks_on_a_device_are_refused(drv: Any) -> None:
    for options in ({}, {"order": "C"}, {"copy": True}, {"device": "cpu"}):
        scene = Scene(drv)
        other = PylibcudfColumn(drv, scene.p)
        x = DeviceStream([scene.column, other], device_type=scene.vendor.device_type)
        with pytest.raises(BufferError, match="several chunks of device memory"):
            take(dlshim.upgrade(x, **options), stream=scene.s)
        assert (scene.column.released, other.released, x.released) == ([1], [1], 1), options
        assert waits(drv) == [], options


# --- labels ------------------------------------------------------------------------------------


def check_the_device_question(drv: Any) -> None:
    for device in (0, 1):
        scene = Scene(drv, device=device)
        want = scene.vendor.device_of("device", device)
        assert dlshim.upgrade(scene.column).__dlpack_device__() == want
        assert drv.calls(by="") == [] and set(scene.column.released) <= {1}
        assert dlshim.inspect(scene.column).device is None
        assert dlshim.inspect(scene.column, export=True).device == want
        assert set(scene.column.released) == {1}


def check_the_host_copy_is_not_asked_for(drv: Any) -> None:
    scene = Scene(drv)
    for ask in (
        lambda: scene.take(stream=scene.s).release(),
        lambda: scene.take({"device": "cpu"}).release(),
        lambda: dlshim.from_dlpack(scene.column),
    ):
        ask()
    assert scene.column.copied_to_host == 0


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), ALL_LIVE))
def test_columns_on_a_device(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]


# --- without a driver ------------------------------------------------------------------------


def test_without_a_driver() -> None:
    child.program("columns_without_a_driver")


MEMORY = (C.c_int32 * 6)(*range(6))
EVENT = C.c_void_p(0x7C2000000010)
#: oneAPI, OpenCL, Vulkan, Metal, and the host, whose memory needs no event.
OTHERS = (14, 4, 7, 8)


@pytest.mark.parametrize("kind", OTHERS)
def test_events_of_other_devices_are_refused(kind: int) -> None:
    """The event is not looked at: nobody says what it points to."""
    x = DeviceColumn(C.addressof(MEMORY), device=(kind, 0), event=8)
    asks: tuple[Callable[[], Any], ...] = (
        lambda: take(dlshim.upgrade(x)),
        lambda: take(dlshim.upgrade(x, unknown_stream="same")),
        lambda: dlshim.to_capsule(x, max_version=(1, 0)),
        lambda: dlshim.from_dlpack(x),
    )
    for ask in asks:
        with pytest.raises(BufferError, match=r"event .*\n  .* pass stream=-1"):
            ask()
    assert x.released == [1] * len(x.released)
    got = take(dlshim.upgrade(x, stream=-1))
    assert got.view.device == (kind, 0) and got.view.data == C.addressof(MEMORY)
    got.release()
    x.event = None
    take(dlshim.upgrade(x)).release()
    assert set(x.released) == {1}


@pytest.mark.parametrize("number", [-1, 0, 5])
def test_the_host_has_one_number(number: int) -> None:
    """pyarrow says -1."""
    x = DeviceColumn(C.addressof(MEMORY), device=(1, number))
    tensor = dlshim.from_dlpack(x)
    assert tensor.device == (1, 0) and memoryview(tensor).tolist() == [0, 1, 2, 3, 4, 5]
    assert tensor.data_ptr() == C.addressof(MEMORY) and tensor.readonly
    del tensor
    assert x.released == [1] and x.copied_to_host == 0


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2**62])
def test_numbers_of_devices_that_dlpack_cannot_say(number: int) -> None:
    x = DeviceColumn(C.addressof(MEMORY), device=(2, number))
    with pytest.raises(BufferError, match="device"):
        take(dlshim.upgrade(x), stream=-1)
    assert x.released == [1]


def test_an_event_on_the_host_is_refused() -> None:
    x = DeviceColumn(C.addressof(MEMORY), event=C.addressof(EVENT))
    with pytest.raises(BufferError, match="event"):
        dlshim.from_dlpack(x)
    assert x.released == [1]
