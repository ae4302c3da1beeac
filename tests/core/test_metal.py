"""torch and MLX on Apple's GPUs (S8): the host waits for what nobody else waits for.

By doubles of both; there is no such device without the hardware.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

import dlshim
from doubles.asking import ASKINGS, versioned
from doubles.metal import METAL, MlxArray, TorchMps, torch_library

BOTH = pytest.mark.parametrize("ask", ASKINGS.values(), ids=ASKINGS.keys())


@pytest.fixture
def log(monkeypatch) -> list[str]:
    """What torch was told to do."""
    made: list[str] = []
    monkeypatch.setitem(sys.modules, "torch", torch_library(made))
    return made


@BOTH
@pytest.mark.parametrize(
    "asked",
    [{}, {"stream": None}, {"stream": 1}, {"stream": 2**40}, {"stream": SimpleNamespace(ptr=3)}],
    ids=["omitted", "None", "1", "handle", "object"],
)
def test_torch_is_waited_for_after_it_gave_its_memory(ask, asked, log):
    x = TorchMps()
    with ask(dlshim.upgrade(x), **asked) as imported:
        assert imported.view.device == METAL
        assert imported.values() == x.values()
    assert log == ["synchronize"]
    assert [keywords["stream"] for keywords in x.keywords] == [-1], "it was passed none"


@BOTH
def test_minus_one_waits_for_nothing(ask, log):
    ask(dlshim.upgrade(TorchMps()), stream=-1).release()
    assert log == []


@BOTH
def test_empty_tensors_are_not_waited_for(ask, log):
    ask(dlshim.upgrade(TorchMps((0, 3))), stream=None).release()
    assert log == []


def test_bare_nobody_waits(log):
    """The negative control: that is what the row is for."""
    versioned(TorchMps()).release()
    assert log == []


def test_a_tensor_of_it_is_ready(log):
    tensor = dlshim.from_dlpack(TorchMps())
    assert log == ["synchronize"]
    versioned(tensor).release()
    assert log == ["synchronize"]


@BOTH
def test_mlx_has_waited(ask, log):
    """So a stream that somebody passes needs nothing, and nobody else is waited for."""
    for stream in (None, 1, 2**40):
        x = MlxArray()
        with ask(dlshim.upgrade(x), stream=stream) as imported:
            assert imported.view.device == METAL
        assert x.keywords == [{"stream": None}]
    assert log == []


def test_other_devices_of_torch_are_not_waited_for(log):
    versioned(dlshim.upgrade(TorchMps(device=(12, 0)))).release()
    assert log == []


def test_without_its_function_torch_is_served_as_before(log):
    del sys.modules["torch"].mps
    versioned(dlshim.upgrade(TorchMps())).release()
    with pytest.raises(BufferError, match="stream"):
        versioned(dlshim.upgrade(TorchMps()), stream=1)


def test_what_the_wait_raises_is_the_cause(log):
    def fail() -> Any:
        raise RuntimeError("MPS is not available")

    sys.modules["torch"].mps.synchronize = fail
    with pytest.raises(BufferError, match="waiting for its library's work failed") as error:
        versioned(dlshim.upgrade(TorchMps()))
    assert isinstance(error.value.__cause__, RuntimeError)
