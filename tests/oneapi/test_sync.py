"""Two queues, one of them with unfinished work: who waits for whom.

Deterministic: the kernel ends only when the test opens its gate, so what
waits for it cannot have run, and what was not has run (the negative controls).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dlshim
from doubles import capsules as caps

from . import runtime
from .runtime import NEW, OLD, Gate, Queue

V1 = (1, 0)


class Raw:
    """An old producer: a legacy capsule, and no word for a stream."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def __dlpack__(self) -> Any:
        return self.of.__dlpack__()

    def __dlpack_device__(self) -> Any:
        return self.of.__dlpack_device__()


def exported(x: Any, stream: Any, **options: Any) -> Any:
    """Kept until the consumer has done its work."""
    return taken(dlshim.upgrade(x, **options), stream)


def taken(producer: Any, stream: Any) -> Any:
    return caps.take(producer.__dlpack__(max_version=V1, stream=stream))


def tensor_of(gate: Gate) -> Any:
    return dlshim.from_dlpack(gate.memory, stream=gate.queue)


#: What is exported for the queue S, and how.
WAYS: dict[str, Callable[[Gate, Queue], Any]] = {
    "array: its library makes the edge": lambda g, s: exported(g.array, s),
    "array, stream named by the user": lambda g, s: taken(dlshim.upgrade(g.array, stream=s), None),
    "memory object": lambda g, s: exported(g.memory, s),
    "capsule in syclobj": lambda g, s: exported(
        runtime.OnlyInterface(g.memory, syclobj=g.queue._get_capsule()), s
    ),
    "old producer": lambda g, s: exported(Raw(g.array), s, producer_stream=g.queue),
    "raw capsule": lambda g, s: exported(g.array.__dlpack__(), s, producer_stream=g.queue),
    "filter string": lambda g, s: exported(
        runtime.OnlyInterface(g.memory, syclobj="cpu"), s, producer_stream=g.queue
    ),
    "Tensor": lambda g, s: exported(tensor_of(g), s),
    "from_dlpack": lambda g, s: dlshim.from_dlpack(g.memory, stream=s),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_work_in_the_consumers_queue_comes_after_the_producers(gate, other_queue, way):
    kept = way(gate, other_queue)
    assert not gate.is_open, "the export waited on the host"
    reader = gate.reader(other_queue)
    assert not reader.done
    gate.open()
    assert reader.read() == NEW
    del kept


#: The same without a stream for dlshim to sync.
UNSYNCED: dict[str, Callable[[Gate, Queue], Any]] = {
    "array, None": lambda g, s: exported(g.array, None),
    "array, -1": lambda g, s: exported(g.array, -1),
    "memory object, -1": lambda g, s: exported(g.memory, -1),
    "old producer, ready by the user's word": lambda g, s: exported(
        Raw(g.array), s, unknown_stream="same"
    ),
    "from_dlpack, -1": lambda g, s: dlshim.from_dlpack(g.memory, stream=-1),
}


@pytest.mark.parametrize("way", UNSYNCED.values(), ids=UNSYNCED.keys())
def test_negative_control_without_sync_the_consumer_reads_old_data(gate, other_queue, way):
    kept = way(gate, other_queue)
    reader = gate.reader(other_queue)
    assert reader.read() == OLD
    assert not gate.is_open
    del kept


def test_one_queue_needs_no_sync(gate):
    kept = exported(gate.memory, gate.queue)
    assert not gate.is_open
    del kept


def asked_by_torch(x: Any, **passed: Any) -> Any:
    """torch 2.9 to 2.15 for an XPU: the device first, and no stream (pytorch/pytorch#195825); with
    pytorch/pytorch#195828 `torch.xpu.current_stream().sycl_queue`, the address of a queue."""
    upgraded = dlshim.upgrade(x)
    assert upgraded.__dlpack_device__() == (14, 0)
    return caps.take(upgraded.__dlpack__(max_version=V1, **passed))


class Wrapper:
    """Hands everything on; nobody knows the queue of what is in it."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.of.__dlpack__(**keywords)

    def __dlpack_device__(self) -> Any:
        return self.of.__dlpack_device__()


#: What the host asks for without a stream.
WAITS: dict[str, Callable[[Gate], Any]] = {
    "memory object": lambda g: exported(g.memory, None),
    "legacy": lambda g: caps.take(dlshim.upgrade(g.memory).__dlpack__()),
    "to_capsule": lambda g: caps.take(dlshim.to_capsule(g.memory)),
    "from_dlpack": lambda g: dlshim.from_dlpack(g.memory),
    "interface of an array": lambda g: exported(runtime.OnlyInterface(g.array), None),
    "old producer": lambda g: exported(Raw(g.array), None, producer_stream=g.queue),
    "copy to the host": lambda g: exported(g.array, None, device="cpu"),
    "interface of a Tensor": lambda g: tensor_of(g).__sycl_usm_array_interface__,
    "Tensor": lambda g: exported(tensor_of(g), None),
    "torch": lambda g: asked_by_torch(g.array),
    "torch, memory object": lambda g: asked_by_torch(g.memory),
    "torch, Tensor": lambda g: asked_by_torch(tensor_of(g)),
    "torch, wrapper": lambda g: asked_by_torch(Wrapper(g.array)),
    "torch, address": lambda g: asked_by_torch(g.array, stream=g.queue.addressof_ref()),
    "torch, wrapper, address": lambda g: asked_by_torch(
        Wrapper(g.array), stream=g.queue.addressof_ref()
    ),
}


@pytest.mark.parametrize("way", WAITS.values(), ids=WAITS.keys())
def test_without_a_queue_the_host_waits(gate, way):
    with gate.must_wait():
        kept = way(gate)
    del kept


def test_what_a_tensor_of_an_array_shows_is_ready(gate):
    """As the array's own property would be: without a stream dpctl syncs nothing, so the Tensor
    remembers the array's queue."""
    tensor = dlshim.from_dlpack(gate.array)
    assert not gate.is_open, "taking it waits for nobody"
    with gate.must_wait():
        shown = tensor.__sycl_usm_array_interface__
    assert shown["syclobj"] == gate.queue


#: What a Tensor that was taken without a stream hands on.
ONWARD: dict[str, Callable[[Any], Any]] = {
    "None": lambda tensor: exported(tensor, None),
    "legacy": lambda tensor: caps.take(dlshim.to_capsule(tensor)),
    "another Tensor": dlshim.from_dlpack,
}


@pytest.mark.parametrize("way", ONWARD.values(), ids=ONWARD.keys())
def test_what_a_tensor_of_an_array_hands_on_is_ready(gate, way):
    tensor = dlshim.from_dlpack(gate.array)
    with gate.must_wait():
        kept = way(tensor)
    del kept


def test_a_tensor_of_an_array_syncs_other_queues_behind_the_arrays(gate, other_queue):
    tensor = dlshim.from_dlpack(gate.array)
    kept = exported(tensor, other_queue)
    reader = gate.reader(other_queue)
    assert not gate.is_open and not reader.done
    gate.open()
    assert reader.read() == NEW
    del kept


def test_a_queue_that_wants_an_order_is_refused_where_the_producers_is_not_known(gate, other_queue):
    """Without one nothing is asked for, as by dpctl's own arrays."""
    for x in (Raw(gate.array), runtime.OnlyInterface(gate.memory, syclobj="cpu")):
        with pytest.raises(BufferError, match=r"not known.*\n  .*producer_stream="):
            exported(x, other_queue)
        kept = exported(x, None)
        assert not gate.is_open
        del kept


def test_negative_control_torch_reads_too_early_bare(gate):
    for asked in ({}, {"max_version": V1}):
        assert gate.array.__dlpack_device__()[0] == 14
        caps.take(gate.array.__dlpack__(**asked)).release()
    assert not gate.is_open
    with pytest.raises(TypeError):
        gate.array.__dlpack__(max_version=V1, stream=gate.queue.addressof_ref())


def test_small_numbers_are_refused_as_dpctl_does(gate):
    for stream in (0, 1, 2):
        for x in (gate.array, dlshim.upgrade(gate.array)):
            with pytest.raises(TypeError, match="stream"):
                x.__dlpack__(stream=stream)
    assert not gate.is_open


def test_looking_neither_waits_nor_syncs(gate):
    for x in (gate.array, gate.memory, runtime.OnlyInterface(gate.memory)):
        dlshim.inspect(x)
        repr(dlshim.upgrade(x))
        assert dlshim.upgrade(x).__dlpack_device__() == (14, 0)
    assert not gate.is_open
