"""What works without dlshim works with it: the cases in which libraries are not alike.

Each check names what a library does (the doubles cite its source) and what a consumer gets with and
without dlshim.  ``test_bare.py`` compares the two over all axes.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

import dlshim
from device import libraries
from device.libraries import CUDA, Current, imported
from device.scene import Scene
from dlshim import _core
from doubles import capsules as caps
from doubles import device as fake
from doubles import streams, vendors
from drivers import HIP_LIVE, checks, run_checks

LIVE = ("9.2", "12.2", "13.0", *HIP_LIVE)
CAPTURES = LIVE[1:]
MODERN_CALL = {"max_version": (1, 0)}
REFUSALS = (TypeError, ValueError, NotImplementedError, AssertionError, RuntimeError)


def refusing(error: type[Exception], base: type = fake.Refusing) -> type:
    """A type that nobody has met."""
    return type(f"Refusing{error.__name__}", (base,), {"error": error})


# --- no stream, and JAX -------------------------------------------------------------------------


def check_jax_waits_where_no_stream_is_named(drv: Any) -> None:
    """The host has waited then, so the data are ready for every stream."""
    for ask in (
        lambda x: x.__dlpack__(),
        lambda x: dlshim.upgrade(x).__dlpack__(),
        lambda x: dlshim.upgrade(x).__dlpack__(stream=None, **MODERN_CALL),
        lambda x: dlshim.to_capsule(x, readonly="share"),
    ):
        scene = Scene(drv)
        x = scene.array(fake.named(fake.JaxLike))
        assert not scene.races(x, ask(x))
        assert x.keywords[-1].get("stream") is None


def check_jax_is_passed_the_stream_that_is_named(drv: Any) -> None:
    for stream in (vendors.of(drv).legacy, "S"):
        scene = Scene(drv)
        x = scene.array(fake.named(fake.JaxLike))
        given = scene.s if stream == "S" else stream
        capsule = dlshim.upgrade(x).__dlpack__(stream=given)
        assert x.keywords[-1]["stream"] == given
        assert not scene.races(x, capsule, given)


# --- streams that are refused -------------------------------------------------------------------


def check_a_stream_refused_by_any_error_is_synced_here(drv: Any) -> None:
    for error in REFUSALS:
        kind = refusing(error)
        for _ in range(2):  # met, and met again
            scene = Scene(drv)
            x = scene.array(kind)
            capsule = dlshim.upgrade(x).__dlpack__(stream=scene.s, **MODERN_CALL)
            assert not scene.races(x, capsule), error
            assert x.keywords[-1].get("stream") is None, error


def check_a_stream_is_dropped_though_none_was_taken_before(drv: Any) -> None:
    """What was learned of None says nothing of another value, nor does its refusal of None."""
    for error in (TypeError, *REFUSALS):
        kind = refusing(error)
        for given in ({}, {"stream": "S"}, {}):
            scene = Scene(drv)
            x = scene.array(kind)
            dlshim.upgrade(x).__dlpack__(stream=None, **MODERN_CALL)
            taken = caps.take(
                dlshim.upgrade(x).__dlpack__(stream=scene.s) if given else dlshim.to_capsule(x)
            )
            assert not drv.read(scene.s, x.address), (error, given, drv.races())
            taken.release()


def check_minus_one_that_is_refused_is_dropped(drv: Any) -> None:
    for error in REFUSALS:
        scene = Scene(drv)
        x = scene.array(refusing(error))
        capsule = dlshim.upgrade(x).__dlpack__(stream=-1)
        assert scene.races(x, capsule), "nobody has asked for a sync"
        own = {entry.name for entry in drv.entries() if not entry.by}
        assert not any("Event" in name or "Synchronize" in name for name in own), (error, own)


def check_jax_on_a_plugin_without_streams_waits(drv: Any) -> None:
    """Asked without a stream it waits, so there is nothing left to sync."""
    for given in ({}, {"stream": vendors.of(drv).legacy}, {"stream": "S"}):
        for _ in range(2):
            scene = Scene(drv)
            x = scene.array(fake.named(fake.JaxWithoutStreams))
            keywords = {"stream": scene.s} if given == {"stream": "S"} else given
            capsule = dlshim.upgrade(x).__dlpack__(**keywords, **MODERN_CALL)
            own = [entry.name for entry in drv.entries() if not entry.by]
            assert not any("Event" in name or "Synchronize" in name for name in own), own
            assert not scene.races(x, capsule)


def check_frames_of_pyav_are_synced(drv: Any) -> None:
    """Its row says that None is all it takes: one call, and dlshim syncs."""
    legacy = vendors.of(drv).legacy
    for given in ("S", legacy, None):
        scene = Scene(drv)
        x = scene.array(fake.named(fake.VideoPlane))
        dlshim.upgrade(x).__dlpack__(stream=-1)
        calls = len(x.keywords)
        stream = scene.s if given == "S" else given
        capsule = dlshim.upgrade(x).__dlpack__(stream=stream)
        assert [k.get("stream") for k in x.keywords[calls:]] == [None]
        assert not scene.races(x, capsule, scene.s if given == "S" else legacy)


def check_that_an_error_about_the_data_comes_out(drv: Any) -> None:
    """The first real error is the cause, though the producer is asked again without the stream."""

    class Broken(fake.DeviceArray):
        TAKES = ("stream", "max_version")
        error: type[Exception] = ValueError

        def answer(self, **asked: Any) -> Any:
            raise self.error(f"this array is not dense, asked with {sorted(asked)}")

    for error in (ValueError, AssertionError, RuntimeError):
        scene = Scene(drv)
        x = scene.array(type("Broken", (Broken,), {"error": error}))
        with pytest.raises(BufferError) as told:
            dlshim.upgrade(x).__dlpack__(stream=scene.s, **MODERN_CALL)
        cause = told.value.__cause__
        assert type(cause) is error and "max_version', 'stream'" in str(cause), cause
    scene = Scene(drv)
    x = scene.array(type("Broken", (Broken,), {"error": BufferError}))
    with pytest.raises(BufferError, match="not dense"):
        dlshim.upgrade(x).__dlpack__(stream=scene.s, **MODERN_CALL)
    assert len(x.keywords) == 1, "a BufferError is about the data"
    caps.close_accounts()


# --- paddle -------------------------------------------------------------------------------------


def with_paddle(version: str) -> Any:
    """A paddle of this release is imported, and none of its types was met."""
    current = Current(streams.TorchStream, 1)
    current.version = version
    _core._hook("forget_plans")
    return current, imported({"paddle": current})


def check_old_paddle_makes_nobody_wait(drv: Any) -> None:
    """Any stream but None blocks the host, so None is passed, and dlshim makes the edge, from
    paddle's current stream."""
    vendor = vendors.of(drv)
    for given in ("omitted", None, -1, vendor.legacy, "S"):
        current, paddle = with_paddle("3.2.0")
        scene = Scene(drv)
        current.handle = scene.p
        with paddle:
            x = scene.array(fake.named(fake.PaddleOld))
            stream = scene.s if given == "S" else given
            keywords = {} if given == "omitted" else {"stream": stream}
            capsule = dlshim.upgrade(x).__dlpack__(**MODERN_CALL, **keywords)
            assert x.keywords[-1]["stream"] is None
            names = [entry.name for entry in drv.entries()]
            assert not vendor.syncs & set(names) and "cuCtxRecordEvent" not in names, names
            assert (vendor.record in names) == (given != -1)
            reader = scene.s if given in ("S", -1) else vendor.legacy
            assert scene.races(x, capsule, reader) == (given == -1)
    _core._hook("forget_plans")


@checks.only_on(*CAPTURES)
def check_old_paddle_inside_its_capture(drv: Any) -> None:
    for given in ("omitted", -1, "P"):
        current, paddle = with_paddle("3.1.1")
        scene = Scene(drv)
        current.handle = scene.p
        with paddle:
            x = fake.named(fake.PaddleOld)(drv, scene.p)
            drv.capture_begin(scene.p, "thread")
            x.write()
            keywords = {} if given == "omitted" else {"stream": scene.p if given == "P" else given}
            caps.take(dlshim.upgrade(x).__dlpack__(**keywords)).release()
            assert drv.capture_state(scene.p) == "active"
            drv.capture_end(scene.p)
        caps.close_accounts()
    _core._hook("forget_plans")


def check_new_paddle_is_passed_the_stream(drv: Any) -> None:
    for version in ("3.3.0", "4.0.0", "not said"):
        current, paddle = with_paddle(version)
        scene = Scene(drv)
        current.handle = scene.p
        with paddle:
            x = scene.array(fake.named(fake.Paddle))
            capsule = dlshim.upgrade(x).__dlpack__(stream=scene.s)
            if version != "not said":
                assert x.keywords[-1]["stream"] == scene.s
            assert not scene.races(x, capsule)
    _core._hook("forget_plans")


class PlacedElsewhere:
    """An array of Paddle on this device, and Paddle's current device is this one."""

    def __init__(self, drv: Any, index: int, place: int | None) -> None:
        drv.reset()
        drv.make_current(0)
        self.drv, self.context = drv, drv.context(index)
        drv.context(1 - index)
        self.current, self.paddle = with_paddle("3.3.1")
        self.p = self.current.handle = drv.stream_new(index, False, name="P")
        self.s = drv.stream_new(index, False, name="S")
        self.x = fake.named(fake.Paddle)(drv, self.p, device=index)
        fake.PADDLE.place = self.place = place
        assert not self.x.write()
        drv.clear_log()

    def races(self, capsule: Any) -> bool:
        racy = self.drv.read(self.s, self.x.address, context=self.context)
        caps.take(capsule).release()
        return racy

    def ends(self) -> None:
        assert fake.PADDLE.place == self.place, "it is as it was"
        fake.PADDLE.place = 0
        caps.close_accounts()
        _core._hook("forget_plans")


@checks.on_cuda
def check_paddles_own_current_device_is_set_around_its_call(drv: Any) -> None:
    """Its event is of its current device, which need not be the array's nor the driver's."""
    for index, place in ((1, 0), (0, 1), (1, None), (0, None)):
        scene = PlacedElsewhere(drv, index, place)
        with scene.paddle:
            if place is None:
                with pytest.raises(AttributeError, match="get_device_id"):
                    scene.x.__dlpack__(stream=scene.s)
            else:
                assert scene.races(scene.x.__dlpack__(stream=scene.s)), "bare"
        scene.ends()
        for version in ({}, MODERN_CALL):
            scene = PlacedElsewhere(drv, index, place)
            with scene.paddle:
                capsule = dlshim.upgrade(scene.x).__dlpack__(stream=scene.s, **version)
                assert scene.x.keywords[-1]["stream"] == scene.s
                assert not scene.races(capsule), (index, place)
                own = {entry.name for entry in drv.entries() if not entry.by}
                assert vendors.of(drv).record not in own, "Paddle makes the edge"
            scene.ends()


@checks.on_cuda
def check_paddles_guard_is_not_entered_without_need(drv: Any) -> None:
    entered: list[str] = []
    scene = PlacedElsewhere(drv, 0, 0)
    with scene.paddle:
        module: Any = sys.modules["paddle"]
        module.device.device_guard = entered.append
        for stream in (-1, 1, scene.s):
            caps.take(dlshim.upgrade(scene.x).__dlpack__(stream=stream)).release()
    assert entered == []
    scene.ends()


# --- torch's own current device -----------------------------------------------------------------


class Parked:
    """Only device 1 was used: torch has noted 0 as its current device, without a context there."""

    def __init__(self, drv: Any, current: str) -> None:
        drv.reset()
        self.context = drv.context(1)
        user = drv.context_new(1) if current == "another" else None
        drv.set_current({"primary": self.context, "none": None, "another": user}[current])
        self.devices = CUDA.current["torch"].devices = fake.torch_devices(drv)
        self.devices.target = 0
        self.devices.unused.add(0)
        self.drv = drv
        self.p = CUDA.current["torch"].handle = drv.stream_new(1, False, name="P")
        self.s = drv.stream_new(1, False, name="S")
        self.stack = drv.context_stack()

    def ends(self) -> None:
        assert self.drv.context_stack() == self.stack
        assert self.devices.get() == 0
        self.devices.target = -1
        self.devices.unused.clear()
        CUDA.current["torch"].handle = 1
        caps.close_accounts()


@checks.on_cuda
def check_torchs_own_current_device_is_set_around_its_call(drv: Any) -> None:
    for current in ("primary", "none"):
        for given in ({}, {"stream": 1}, {"stream": -1}, {"stream": "S"}):
            with CUDA.imported():
                scene = Parked(drv, current)
                x = fake.named(fake.TorchLike)(drv, scene.p, device=1)
                assert not x.write()
                with pytest.raises(BufferError, match="different CUDA device index"):
                    x.__dlpack__(stream=-1)
                stream = {"stream": scene.s} if given == {"stream": "S"} else given
                taken = caps.take(dlshim.upgrade(x).__dlpack__(**MODERN_CALL, **stream))
                if given == {"stream": "S"}:
                    assert not drv.read(scene.s, x.address, context=scene.context)
                taken.release()
                scene.ends()


@checks.on_cuda
def check_old_torch_syncs_from_the_stream_of_the_arrays_device(drv: Any) -> None:
    """It takes the current stream of its current device for P, and does not compare devices."""
    with CUDA.imported():
        scene = Parked(drv, "primary")
        x = fake.named(fake.TorchOld)(drv, scene.p, device=1)
        assert not x.write()
        taken = caps.take(dlshim.upgrade(x).__dlpack__(stream=scene.s))
        assert not drv.read(scene.s, x.address, context=scene.context)
        taken.release()
        scene.ends()


def check_torchs_guard_is_not_entered_without_need(drv: Any) -> None:
    """Where torch's current device is the array's, no guard is made; -1 asks nothing."""
    entered: list[int] = []
    with libraries.of(drv).imported():
        scene = Scene(drv)
        current = libraries.of(drv).current["torch"]
        current.devices = fake.torch_devices(drv)
        asked = current.device
        current.device = lambda index: entered.append(index) or asked(index)
        try:
            x = scene.array(fake.named(fake.TorchLike))
            for stream in (-1, vendors.of(drv).legacy, scene.s):
                caps.take(dlshim.upgrade(x).__dlpack__(stream=stream)).release()
        finally:
            del current.device
        assert entered == []
    caps.close_accounts()


def check_a_guard_that_fails_changes_nothing(drv: Any) -> None:
    """What torch raises when it is asked for its device is forgotten; torch then says itself what
    is wrong."""

    class Broken(fake.TorchDevices):
        def get(self) -> int:
            raise RuntimeError("Cannot re-initialize CUDA in forked subprocess")

    with libraries.of(drv).imported():
        scene = Scene(drv)
        libraries.of(drv).current["torch"].devices = Broken(drv)
        x = scene.array(fake.named(fake.TorchLike))
        caps.take(dlshim.upgrade(x).__dlpack__(stream=scene.s)).release()
        libraries.of(drv).current["torch"].devices = None
    caps.close_accounts()


# --- inside a graph capture ---------------------------------------------------------------------


CALLS = {
    "bare": lambda x: x.__dlpack__(),
    "upgraded": lambda x: dlshim.upgrade(x).__dlpack__(),
    "upgraded, versioned": lambda x: dlshim.upgrade(x).__dlpack__(**MODERN_CALL),
    "to_capsule": lambda x: dlshim.to_capsule(x, stream=-1),  # else it would wait (S25)
    "a second layer": lambda x: dlshim.upgrade(dlshim.upgrade(x, order="K")).__dlpack__(),
}


@checks.only_on(*CAPTURES)
def check_torch_without_a_stream_inside_its_capture(drv: Any) -> None:
    """torch takes a stream that is not named for -1 (torch/_tensor.py, 00960f7)."""
    for blocking, (name, ask) in ((b, c) for b in (False, True) for c in CALLS.items()):
        scene = Scene(drv)
        p = drv.stream_new(0, blocking, name="capturing")
        current = Current(streams.TorchStream, 0)
        current.handle = p
        with imported({"torch": current}):
            x = fake.named(fake.TorchLike)(drv, p)
            drv.capture_begin(p, "thread")
            x.write()
            drv.clear_log()
            taken = caps.take(ask(x))
            assert x.keywords[-1].get("stream", -1) == -1, name
            assert drv.capture_state(p) == "active", name
            assert not drv.read(p, x.address), name
            drv.capture_end(p)
            taken.release()
        caps.close_accounts()
        del scene


@checks.only_on(*CAPTURES)
def check_a_copy_of_ours_is_no_part_of_a_capture(drv: Any) -> None:
    """What counts as within the capture has not run, so dlshim cannot copy it."""
    needs_a_copy = {"align": 1024}  # no memory of the fake has it
    for kind in (fake.TorchLike, fake.Torch29, fake.TorchOld):
        scene = Scene(drv)
        p = drv.stream_new(0, False, name="capturing")
        current = Current(streams.TorchStream, 0)
        current.handle = p
        with imported({"torch": current}):
            x = fake.named(kind)(drv, p)
            drv.capture_begin(p, "relaxed")
            x.write()
            with pytest.raises(BufferError, match="a graph capture is running"):
                dlshim.upgrade(x, **needs_a_copy).__dlpack__(**MODERN_CALL)
            assert drv.capture_state(p) == "active" and not drv.races(), kind
            drv.capture_end(p)
        caps.close_accounts()
        del scene


@checks.only_on(*CAPTURES)
def check_a_tensor_taken_inside_a_capture_remembers_the_capturing_stream(drv: Any) -> None:
    scene = Scene(drv)
    with libraries.of(drv).imported():
        libraries.of(drv).current["torch"].handle = scene.p
        x = fake.named(fake.TorchLike)(drv, scene.p)
        drv.capture_begin(scene.p, "thread")
        x.write()
        tensor = dlshim.from_dlpack(x)
        taken = caps.take(tensor.__dlpack__(stream=scene.p))
        assert not drv.read(scene.p, x.address)
        with pytest.raises(BufferError, match="a graph capture is running"):
            tensor.__dlpack__(stream=scene.s)
        assert drv.capture_state(scene.p) == "active"
        drv.capture_end(scene.p)
        taken.release()
        libraries.of(drv).current["torch"].handle = vendors.of(drv).legacy
    del tensor
    caps.close_accounts()


@checks.only_on(*CAPTURES)
def check_torch_is_passed_minus_one_where_nobody_can_tell_its_stream(drv: Any) -> None:
    scene = Scene(drv)
    x = scene.array(fake.named(fake.TorchLike))
    drv.capture_begin(scene.p, "thread")
    caps.take(dlshim.upgrade(x).__dlpack__()).release()
    assert x.keywords[-1]["stream"] == -1
    assert drv.capture_state(scene.p) == "active"
    drv.capture_end(scene.p)
    caps.close_accounts()


@checks.only_on(*CAPTURES)
def check_who_ignores_streams_takes_part_in_the_capture(drv: Any) -> None:
    """tvm-ffi: who names no stream while P captures works in the capture, bare and upgraded."""
    scene = Scene(drv)
    with libraries.of(drv).imported():
        x = libraries.of(drv).make["tvm-ffi"](drv, scene.p)
        drv.capture_begin(scene.p, "thread")
        x.write()
        caps.take(dlshim.upgrade(x).__dlpack__()).release()
        with pytest.raises(BufferError, match="a graph capture is running"):
            dlshim.upgrade(x).__dlpack__(stream=None)
        assert drv.capture_state(scene.p) == "active"
        drv.capture_end(scene.p)
        libraries.of(drv).current["tvm_ffi"].handle = vendors.of(drv).legacy
    caps.close_accounts()


@checks.only_on(*CAPTURES)
def check_a_library_nobody_knows_is_passed_what_the_consumer_said(drv: Any) -> None:
    """It may capture on a stream of its own, which nobody can see.  None and 1 mean the same to it,
    or they do not: MegEngine takes None for "no sync" (`to_dlpack` in megengine/utils/dlpack.py).
    """

    class Careful(fake.WarpLike):
        def answer(self, stream: Any = None) -> Any:
            return super().answer(-1 if stream is None else stream)

    for given in ({}, {"stream": None}):
        scene = Scene(drv)
        x = scene.array(type("Careful", (Careful,), {}))
        drv.capture_begin(scene.p, "thread")
        caps.take(dlshim.upgrade(x).__dlpack__(**given)).release()
        assert drv.capture_state(scene.p) == "active"
        drv.capture_end(scene.p)
    caps.close_accounts()


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), LIVE))
def test_like_bare(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
