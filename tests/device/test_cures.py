"""The cures of messages about streams, captures and devices, typed in on the fake drivers.

Each exchange is refused first, with the words of the cure; with the cure it is ordered, or gives
the values.  tests/project/test_cure_texts.py says which message is cured here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

import dlshim
from doubles import advice
from doubles import capsules as caps
from doubles import device as fake
from drivers import ALL_LIVE, Driver, checks, run_checks


def made(drv: Any, stream: int) -> Any:
    """An array with work pending on a stream that its library does not tell."""
    array = fake.NoKw(drv, stream)
    assert not array.write()
    return array


def taken(capsule: Any) -> Any:
    return caps.take(capsule)


def check_a_capture(drv: Any) -> None:
    if isinstance(drv, Driver) and not drv.has("cuStreamIsCapturing"):
        return
    s = drv.stream_new(0, False, name="S")
    x = made(drv, s)
    drv.capture_begin(s, "relaxed")
    with pytest.raises(BufferError, match=r"both as stream= and as producer_stream="):
        dlshim.upgrade(x).__dlpack__(stream=s)
    with taken(dlshim.upgrade(x, stream=s, producer_stream=s).__dlpack__()) as imported:
        assert imported.view.device[0] == x.device[0] and drv.capture_state(s) == "active"
    drv.capture_end(s)
    caps.close_accounts()


def check_stream_zero(drv: Any) -> None:
    """CUDA forbids 0, ROCm 1 and 2: the message names what to pass instead."""
    wrong, right = (0, 1) if isinstance(drv, Driver) else (1, 0)
    x = made(drv, right)
    with pytest.raises(ValueError, match=f"pass {right} for the"):
        dlshim.upgrade(x).__dlpack__(stream=wrong)
    with taken(dlshim.upgrade(x, producer_stream=right).__dlpack__(stream=right)) as imported:
        assert not drv.read(right, imported.view.data)
    caps.close_accounts()


def check_bytes_that_are_called_bool(drv: Any) -> None:
    """They are looked at in a copy on the host, and not on the device (T7)."""
    s = drv.stream_new(0, False, name="S")
    x = made(drv, s)
    bools = dlshim.upgrade(x, producer_stream=s, reinterpret=(6, 8, 4))
    with taken(bools.__dlpack__(stream=s)) as imported:
        assert imported.view.dtype == (6, 8, 4)
    with pytest.raises(BufferError, match="needs bytes that are 0 or 1"):
        dlshim.upgrade(bools, device="cpu").__dlpack__()
    caps.close_accounts()


def check_an_unknown_producers_stream(drv: Any) -> None:
    p, s = drv.stream_new(0, False, name="P"), drv.stream_new(0, False, name="S")
    x = made(drv, p)
    strict = dlshim.upgrade(x, unknown_stream="error")
    with pytest.raises(BufferError, match=r"give producer_stream=, or pass stream=-1"):
        strict.__dlpack__(stream=s)
    with taken(dlshim.upgrade(strict, producer_stream=p).__dlpack__(stream=s)) as imported:
        assert not drv.read(s, imported.view.data), "it waits for P"
    with taken(strict.__dlpack__(stream=-1)) as imported:
        assert imported.view.data == x.own.base
    caps.close_accounts()


def check_a_handle_is_an_int(drv: Any) -> None:
    s = drv.stream_new(0, False, name="S")
    x = dlshim.upgrade(made(drv, s), producer_stream=s)
    with pytest.raises(TypeError, match="pass the handle of the stream as an int"):
        x.__dlpack__(stream=str(s))
    with taken(x.__dlpack__(stream=s)) as imported:
        assert not drv.read(s, imported.view.data)
    caps.close_accounts()


def check_memory_that_is_not_on_the_host(drv: Any) -> None:
    s = drv.stream_new(0, False, name="S")
    x = made(drv, s)
    x.own.fill(bytes(range(64)))
    t = dlshim.from_dlpack(x, producer_stream=s)
    for refused in (memoryview, dlshim.Tensor.tobytes):
        with pytest.raises((BufferError, TypeError), match=r'from_dlpack\(\w, device="cpu"\)'):
            refused(t)
    with memoryview(dlshim.from_dlpack(t, device="cpu")) as view:
        assert view.tobytes() == bytes(range(64))[: view.nbytes] and view.nbytes > 8
    del t
    caps.close_accounts()


def check_a_copy_that_is_not_allowed(drv: Any) -> None:
    s = drv.stream_new(0, False, name="S")
    x = made(drv, s)
    x.own.fill(bytes(range(64)))
    asked = {"producer_stream": s, "device": "cpu"}
    with pytest.raises(dlshim.CopyRequiredError, match="allow it with copy=None"):
        dlshim.from_dlpack(x, copy=False, **asked)
    with memoryview(dlshim.from_dlpack(x, copy=None, **asked)) as view:
        assert view.tobytes() == bytes(range(64))[: view.nbytes]
    caps.close_accounts()


def check_no_refusal_advises_what_the_call_was_given(drv: Any) -> None:
    """With a driver, in a graph capture and outside."""
    s, p = (drv.stream_new(0, False, name=name) for name in "SP")
    x = made(drv, p)
    device = x.device
    makers = {
        "old": lambda: fake.NoKw(drv, p),
        "like torch": lambda: fake.TorchLike(drv, p),
        "a capsule": lambda: fake.NoKw(drv, p).__dlpack__(),
    }
    options = {
        "stream": [-1, None, s],
        "producer_stream": [s, p],
        "unknown_stream": ["same", "error"],
        "device": [(1, 0), device],
        "copy": [True, False],
    }

    @contextlib.contextmanager
    def capture() -> Iterator[None]:
        drv.capture_begin(s, "relaxed")
        yield
        with contextlib.suppress(Exception):
            drv.capture_end(s)

    refused, again = advice.repeated(makers, options, most=3)
    assert again == [] and refused > 50, (refused, again)
    if not isinstance(drv, Driver) or drv.has("cuStreamIsCapturing"):
        refused, again = advice.repeated(makers, options, most=2, around=capture)
        assert again == [] and refused > 50, (refused, again)


# --- the tests ----


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), ALL_LIVE))
def test_cures(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
