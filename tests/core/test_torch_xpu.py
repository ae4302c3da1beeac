"""Tensors of torch on Intel GPUs: `__dlpack__` takes a stream and syncs nothing.

By a double of the real call shape; there is no such device without hardware.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

import dlshim
from doubles import sycl
from doubles.asking import ASKINGS, tells, versioned
from doubles.sycl import Queue, TorchXpu

pytestmark = pytest.mark.usefixtures("torch")
BOTH = pytest.mark.parametrize("ask", ASKINGS.values(), ids=ASKINGS.keys())


@pytest.fixture
def torch(monkeypatch) -> Any:
    module = sycl.torch_library(0, 1)
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


@BOTH
@pytest.mark.parametrize("asked", [{}, {"stream": None}], ids=["omitted", "None"])
def test_without_a_stream_its_own_is_waited_for(ask, asked, torch):
    x = TorchXpu()
    with ask(dlshim.upgrade(x), **asked) as imported:
        assert imported.view.device == (14, 0)
        assert imported.values() == x.values()
    assert torch.xpu.streams["xpu:0"].log == ["synchronize"]
    assert {call["stream"] for call in x.keywords} <= {None, -1}


@BOTH
def test_a_queue_cannot_be_synced_so_the_host_waits(ask, torch):
    s, x = Queue(), TorchXpu()
    ask(dlshim.upgrade(x), stream=s).release()
    assert torch.xpu.streams["xpu:0"].log == ["synchronize"]
    assert s.log == []
    assert s not in [call["stream"] for call in x.keywords]


@BOTH
def test_minus_one_syncs_nothing(ask, torch):
    ask(dlshim.upgrade(TorchXpu()), stream=-1).release()
    assert torch.xpu.streams["xpu:0"].log == []


def test_empty_tensors_are_not_waited_for(torch):
    versioned(dlshim.upgrade(TorchXpu((0, 3)))).release()
    assert torch.xpu.streams["xpu:0"].log == []


def test_torch_and_its_capsules_number_devices_differently(torch):
    """The capsule decides where the memory is, but its stream torch finds by its own number."""
    x = TorchXpu(index=1, number=2)
    assert x.__dlpack_device__() == (14, 1)
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.view.device == (14, 2)
    assert torch.xpu.streams["xpu:1"].log == ["synchronize"]
    assert torch.xpu.streams["xpu:0"].log == []


def test_without_its_stream_the_user_has_to_name_one(torch):
    del torch.xpu.current_stream
    with pytest.raises(BufferError) as error:
        versioned(dlshim.upgrade(TorchXpu()))
    tells(error.value, "Tensor", "not known", "producer_stream=", "unknown_stream=")
    p = Queue()
    versioned(dlshim.upgrade(TorchXpu(), producer_stream=p)).release()
    assert p.log == ["wait"]
    versioned(dlshim.upgrade(TorchXpu(), unknown_stream="same")).release()


@pytest.mark.parametrize("stream", [0, 1, 2, 77], ids=str)
def test_handles_are_no_queues(stream):
    x = TorchXpu()
    with pytest.raises(TypeError, match="stream"):
        versioned(dlshim.upgrade(x), stream=stream)


def test_a_tensor_of_it_is_ready(torch):
    tensor = dlshim.from_dlpack(TorchXpu((3, 2), "int16"))
    assert torch.xpu.streams["xpu:0"].log == ["synchronize"]
    shown = tensor.__sycl_usm_array_interface__
    assert (shown["shape"], shown["typestr"], shown["syclobj"]) == ((3, 2), "<i2", "0")
    versioned(tensor).release()
    assert torch.xpu.streams["xpu:0"].log == ["synchronize"]
