"""Streams that a producer refuses (rules N2 and N6): a refused value says nothing of the keyword.

Where TypeError, OverflowError or ValueError refuses a stream, None is tried before the keyword is
dropped.  If that is taken, the type takes streams: whatever it is met with first, each other value
is passed to it.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import dlshim
from device.scene import Scene
from dlshim import _core
from doubles import capsules as caps
from doubles import device as fake
from doubles import vendors
from drivers import ALL_LIVE, checks, run_checks

LIVE = ("9.2", "12.2", "13.0", "hip5", "hip7")
CAPTURES = tuple(v for v in LIVE if v != "9.2")
MODERN = {"max_version": (1, 0)}
#: Errors that may be about a value.
OF_A_VALUE = (TypeError, OverflowError, ValueError)


class Choosy(fake.WarpLike):
    """Keeps the standard's rules, but refuses some values by `error`."""

    error: type[Exception] = TypeError
    keeps_out: Any = staticmethod(lambda stream: stream == -1)

    def answer(self, stream: Any = None, **asked: Any) -> Any:
        if stream is not None and self.keeps_out(stream):
            raise self.error(f"{stream} is no stream")
        return super().answer(stream)


def choosy(error: type[Exception], **fields: Any) -> type:
    """A type that nobody has met."""
    return type("Choosy", (Choosy,), {"error": error, **fields})


def passed(x: Any, since: int = 0) -> list[object]:
    return [keywords.get("stream", "omitted") for keywords in x.keywords[since:]]


def check_the_order_of_the_first_calls_does_not_matter(drv: Any) -> None:
    legacy = vendors.of(drv).legacy
    values = (-1, None, "S", "L")
    for error, takes in itertools.product(OF_A_VALUE, (("stream",), fake.ALL_KEYWORDS)):
        for order in itertools.permutations(values):
            kind = choosy(error, TAKES=takes)
            met_minus_one = False
            for value in (*order, -1, "S"):
                scene = Scene(drv)
                x = scene.array(kind)
                stream = {"S": scene.s, "L": legacy}.get(value, value)
                capsule = dlshim.upgrade(x).__dlpack__(stream=stream, **MODERN)
                told = (error, takes, order, value, x.keywords)
                racy = scene.races(x, capsule, legacy if value in (None, "L") else scene.s)
                assert racy == (value == -1), told
                if value == -1:
                    assert passed(x)[-1] is None, told
                    assert not met_minus_one or passed(x) == [None], told
                    met_minus_one = True
                elif value is not None:
                    assert passed(x)[-1] == stream, told


def check_another_value_that_is_refused_is_synced_here(drv: Any) -> None:
    """Nothing is learned of it: the next value is passed, and so is the next -1."""
    for error in OF_A_VALUE:
        refused: list[int] = []
        kind = choosy(error, keeps_out=staticmethod(refused.__contains__))
        for value in ("R", "S", "R", -1):
            scene = Scene(drv)
            refused[:] = [scene.s]
            x = scene.array(kind)
            stream = {"R": scene.s, "S": drv.stream_new(0, False)}.get(value, value)
            capsule = dlshim.upgrade(x).__dlpack__(stream=stream, **MODERN)
            told = (error, value, x.keywords)
            assert passed(x)[-1] == (None if value == "R" else stream), told
            reader = scene.s if value == -1 else stream
            assert scene.races(x, capsule, reader) == (value == -1), told


def check_a_type_without_the_keyword_is_learned(drv: Any) -> None:
    """None was refused as well: from then on it is asked without a stream at once."""
    for value in (-1, "S"):
        kind = type("NoKw", (fake.NoKw,), {})
        for n in range(2):
            scene = Scene(drv)
            x = scene.array(kind)
            stream = scene.s if value == "S" else value
            capsule = dlshim.upgrade(x).__dlpack__(stream=stream, **MODERN)
            assert "stream" not in x.keywords[-1]
            assert len(x.keywords) == 1 or n == 0, x.keywords
            assert scene.races(x, capsule) == (value == -1)


def check_errors_about_the_data_are_not_asked_again_with_none(drv: Any) -> None:
    for error in (BufferError, RuntimeError, NotImplementedError, AssertionError):
        scene = Scene(drv)
        x = scene.array(choosy(error, TAKES=fake.ALL_KEYWORDS))
        try:
            capsule = dlshim.upgrade(x).__dlpack__(stream=-1)
        except BufferError:
            capsule = None
        assert (capsule is None) == (error is BufferError), error
        assert None not in passed(x), (error, x.keywords)
        del capsule
        caps.close_accounts()


def check_the_first_error_is_shown_if_none_is_refused_too(drv: Any) -> None:
    class Broken(fake.DeviceArray):
        TAKES = ("stream",)
        error: type[Exception] = ValueError

        def answer(self, stream: Any = None) -> Any:
            raise self.error(f"not dense, asked with {stream}")

    for error in (ValueError, OverflowError):
        scene = Scene(drv)
        x = scene.array(type("Broken", (Broken,), {"error": error}))
        with pytest.raises(BufferError) as told:
            dlshim.upgrade(x).__dlpack__(stream=-1)
        assert type(told.value.__cause__) is error, told.value.__cause__
        assert "asked with -1" in str(told.value.__cause__)
    caps.close_accounts()


def check_signals_come_out_of_the_second_call(drv: Any) -> None:
    class Interrupted(fake.DeviceArray):
        TAKES = ("stream",)
        error: type[BaseException] = KeyboardInterrupt

        def answer(self, stream: Any = None) -> Any:
            raise TypeError if stream is not None else self.error

    for error in (KeyboardInterrupt, MemoryError, SystemExit):
        scene = Scene(drv)
        x = scene.array(type("Interrupted", (Interrupted,), {"error": error}))
        with pytest.raises(error):
            dlshim.upgrade(x).__dlpack__(stream=-1)
    caps.close_accounts()


# --- in a graph capture -------------------------------------------------------------------------

REFUSED = "a graph capture is running, and it refuses stream=-1"


@checks.only_on(*CAPTURES)
def check_none_does_not_stand_for_minus_one_in_a_capture(drv: Any) -> None:
    """None could lead the work into the default stream, and end the capture."""
    for error, is_met, row in itertools.product(OF_A_VALUE, (False, True), (False, True)):
        kind = fake.named(fake.MaxBuffer) if row else choosy(error)
        scene = Scene(drv)
        x = scene.array(kind)
        if is_met:
            caps.take(dlshim.upgrade(x).__dlpack__(stream=-1)).release()
        capturing = drv.stream_new(0, True, name="capturing")
        drv.capture_begin(capturing, "thread")
        calls = len(x.keywords)
        with pytest.raises(BufferError, match=REFUSED):
            dlshim.upgrade(x).__dlpack__(stream=-1, **MODERN)
        assert None not in passed(x, calls), (error, is_met, row)
        assert drv.capture_state(capturing) == "active", (error, is_met, row)
        drv.capture_end(capturing)
        caps.take(dlshim.upgrade(x).__dlpack__(stream=-1, **MODERN)).release()
        assert passed(x)[-1] is None
        caps.close_accounts()
    _core._hook("forget_plans")


@checks.only_on(*CAPTURES)
def check_the_cure_of_that_refusal(drv: Any) -> None:
    """The capturing stream is passed instead of -1."""
    scene = Scene(drv)
    p = drv.stream_new(0, True, name="capturing")
    x = choosy(TypeError)(drv, p)
    drv.capture_begin(p, "thread")
    assert not x.write()
    with pytest.raises(BufferError, match="give the capturing stream as stream="):
        dlshim.upgrade(x).__dlpack__(stream=-1)
    caps.take(dlshim.upgrade(x).__dlpack__(stream=p)).release()
    assert drv.capture_state(p) == "active" and not drv.read(p, x.address)
    drv.capture_end(p)
    del scene
    caps.close_accounts()


@checks.only_on(*CAPTURES)
def check_a_type_that_takes_minus_one_alone_is_served_in_a_capture(drv: Any) -> None:
    """Its TypeError is about max_version, which it meets for the first time."""
    scene = Scene(drv)
    x = scene.array(choosy(TypeError, keeps_out=staticmethod(lambda stream: False)))
    capturing = drv.stream_new(0, True, name="capturing")
    drv.capture_begin(capturing, "thread")
    caps.take(dlshim.upgrade(x).__dlpack__(stream=-1, **MODERN)).release()
    assert passed(x)[-1] == -1 and None not in passed(x)
    assert drv.capture_state(capturing) == "active"
    drv.capture_end(capturing)
    caps.close_accounts()


# --- MAX ----------------------------------------------------------------------------------------


def check_max_is_passed_none_at_once(drv: Any) -> None:
    scene = Scene(drv)
    x = scene.array(fake.named(fake.MaxBuffer))
    capsule = dlshim.upgrade(x).__dlpack__(stream=-1, **MODERN)
    assert x.keywords == [{"stream": None, "max_version": (1, 0)}]
    assert scene.races(x, capsule), "nobody has asked for a sync"
    scene = Scene(drv)
    x = scene.array(fake.named(fake.MaxBuffer))
    capsule = dlshim.upgrade(x).__dlpack__(stream=scene.s, **MODERN)
    assert passed(x) == [scene.s] and not scene.races(x, capsule)


def check_that_max_waits_for_none_is_not_believed(drv: Any) -> None:
    """JAX does; of MAX nobody knows: it is passed a stream that dlshim waits for."""
    scene = Scene(drv)
    x = scene.array(fake.named(fake.MaxBuffer))
    capsule = dlshim.to_capsule(x)
    assert passed(x) not in ([None], [-1])
    assert not scene.races(x, capsule)


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), LIVE))
def test_refused_streams(variant: str, name: str) -> None:
    assert set(LIVE) <= set(ALL_LIVE)
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
