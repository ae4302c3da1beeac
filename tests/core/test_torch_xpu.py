"""Tensors of torch on Intel GPUs: `__dlpack__` takes a stream and syncs nothing.

By a double of the real call shape; there is no such device without hardware.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

import dlshim
from doubles import capsules as caps
from doubles import sycl
from doubles.asking import ASKINGS, tells, versioned
from doubles.producers import P2, fresh
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


@pytest.mark.parametrize("stream", [0, 1, 2], ids=str)
def test_small_numbers_are_no_queues(stream):
    x = TorchXpu()
    with pytest.raises(TypeError, match="stream"):
        versioned(dlshim.upgrade(x), stream=stream)


@BOTH
def test_the_address_of_a_queue_cannot_be_synced_so_the_host_waits(ask, torch):
    """`torch.xpu.Stream.sycl_queue`, which torch will pass (pytorch/pytorch#195828)."""
    x = TorchXpu()
    with ask(dlshim.upgrade(x), stream=sycl.XpuStream.sycl_queue) as imported:
        assert imported.values() == x.values()
    assert torch.xpu.streams["xpu:0"].log == ["synchronize"]
    with pytest.raises(TypeError, match="stream"):
        ask(dlshim.upgrade(x, producer_stream=sycl.XpuStream.sycl_queue), stream=Queue())


# --- torch as the consumer -----------------------------------------------------------------


def from_dlpack(x: Any, **passed: Any) -> Any:
    """What torch 2.9 to 2.15 asks of memory on an XPU (torch/utils/dlpack.py, `from_dlpack`): the
    device, then everything but a stream; with pytorch/pytorch#195828, its queue's address."""
    assert x.__dlpack_device__()[0] == 14
    return versioned(x, **passed)


STREAMS = pytest.mark.parametrize(
    "passed", [{}, {"stream": sycl.XpuStream.sycl_queue}], ids=["omitted", "address"]
)


@pytest.fixture
def dpctl(monkeypatch) -> list[Queue]:
    """The imported library, and the queues that dlshim made with it."""
    module, made = sycl.library(), []

    def make(what: Any) -> Queue:
        made.append(Queue(what))
        return made[-1]

    module.SyclQueue = make  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "dpctl", module)
    monkeypatch.setitem(sys.modules, "dpctl.memory", sycl.memory_library())
    return made


@STREAMS
def test_torch_reads_after_the_host_has_waited_for_a_producer_that_syncs(dpctl, passed):
    x = fresh(P2)((3,), device=(14, 0))
    from_dlpack(dlshim.upgrade(x), **passed).release()
    (queue,) = dpctl
    assert x.keywords[-1]["stream"] is queue
    assert queue.log == ["wait"]


@STREAMS
def test_torch_reads_after_the_host_has_waited_for_the_queue_that_is_known(dpctl, passed):
    x = sycl.Memory()
    from_dlpack(dlshim.upgrade(x), **passed).release()
    tensor = dlshim.from_dlpack(sycl.SyclOnly(), stream=(queue := Queue()))
    queue.log.clear()
    from_dlpack(tensor, **passed).release()
    assert (x.queue.log, queue.log, dpctl) == (["wait"], ["wait"], [])


def test_torch_is_served_as_before_where_there_is_no_queue_to_pass(monkeypatch):
    for name in ("dpctl", "dpctl.memory"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    x = fresh(P2)((3,), device=(14, 0))
    from_dlpack(dlshim.upgrade(x)).release()
    assert x.keywords[-1].get("stream") is None
    with pytest.raises(BufferError, match=r"no queue could be made.*not imported"):
        from_dlpack(dlshim.upgrade(x), stream=0x7F00)


def test_whoever_passes_None_asks_for_no_sync(dpctl):
    """dpctl's convention, and what dpctl and dpnp themselves ask."""
    for asked in ({"stream": None}, {"dl_device": None, "copy": None}, {"stream": -1}):
        x = fresh(P2)((3,), device=(14, 0))
        upgraded = dlshim.upgrade(x)
        upgraded.__dlpack_device__()
        versioned(upgraded, **asked).release()
        assert x.keywords[-1].get("stream") is None
    versioned(dlshim.upgrade(x)).release()  # the device was not asked: nobody's way of asking
    assert dpctl == []


def test_a_tensor_of_it_is_ready(torch):
    tensor = dlshim.from_dlpack(TorchXpu((3, 2), "int16"))
    assert torch.xpu.streams["xpu:0"].log == ["synchronize"]
    shown = tensor.__sycl_usm_array_interface__
    assert (shown["shape"], shown["typestr"], shown["syclobj"]) == ((3, 2), caps.native("<i2"), "0")
    versioned(tensor).release()
    assert torch.xpu.streams["xpu:0"].log == ["synchronize"]
