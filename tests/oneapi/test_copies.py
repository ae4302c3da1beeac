"""oneAPI memory to the host and host memory to oneAPI, by dlshim: what comes out, and after what.

dpctl and dpnp move their own arrays when they are asked in the way of DLPack 1.0; everything here
is memory that its producer does not move.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

import dpctl
import numpy as np
import pytest

import dlshim
from doubles.asking import bare, counting, versioned

from . import runtime
from .runtime import NEW, OLD, ONEAPI, usm, xp
from .test_interface import LAYOUT, LAYOUTS
from .test_sync import Raw

CPU = (1, 0)
DTYPES = ("b1", "i1", "u1", "i2", "u2", "f2", "i4", "u4", "f4", "i8", "u8", "f8", "c8", "c16")


class Legacy:
    """`LegacyContainer` of dpctl/tests/test_usm_ndarray_dlpack.py: it knows only `stream`."""

    def __init__(self, of: Any) -> None:
        self.of, self.streams = of, []

    def __dlpack__(self, stream: Any = None) -> Any:
        self.streams.append(stream)
        return self.of.__dlpack__(stream=stream)

    def __dlpack_device__(self) -> Any:
        return self.of.__dlpack_device__()


#: Producers of an array that do not move it.
SOURCES: dict[str, Any] = {
    "old-style": Legacy,
    "interface": runtime.OnlyInterface,
    "Tensor": dlshim.from_dlpack,
    "Tensor of an interface": lambda x: dlshim.from_dlpack(runtime.OnlyInterface(x)),
}
SOURCE = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())

#: How memory gets to the host.
TAKERS: dict[str, Any] = {
    "np.from_dlpack(device=)": lambda x: np.from_dlpack(dlshim.upgrade(x), device="cpu"),
    "upgrade(device=)": lambda x: np.from_dlpack(dlshim.upgrade(x, device="cpu")),
    "from_dlpack(device=)": lambda x: np.asarray(dlshim.from_dlpack(x, device="cpu")),
    "their from_dlpack(device=)": lambda x: xp.from_dlpack(dlshim.upgrade(x), device=CPU),
}
TAKER = pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS.keys())


# --- to the host ---------------------------------------------------------------------------


@SOURCE
@TAKER
@LAYOUT
def test_what_comes_to_the_host(source, take, layout, kind):
    x = layout(runtime.counting(usm_type=kind))
    y = take(source(x))
    assert type(y) is np.ndarray
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    assert y.tolist() == runtime.values(x)
    assert y.flags.c_contiguous


@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_of_every_type_to_the_host(dtype):
    x = xp.asarray(np.arange(6).astype(dtype))
    y = np.from_dlpack(dlshim.upgrade(Legacy(x), device="cpu"))
    assert y.dtype == np.dtype(dtype)
    assert y.tolist() == np.arange(6).astype(dtype).tolist()


def test_memory_objects_come_to_the_host(kind):
    memory = runtime.memory(24, kind)
    assert np.from_dlpack(dlshim.upgrade(memory, device="cpu")).view("f4").tolist() == [*range(6)]


def test_it_is_a_private_copy_that_does_not_hold_its_source():
    source = Legacy(runtime.counting())
    gone = weakref.ref(source)
    with counting() as count:
        tensor = dlshim.from_dlpack(source, device="cpu")
    assert count.copied == 1
    assert (tensor.device, tensor.is_copied, tensor.readonly) == (CPU, True, False)
    assert tensor.data_ptr() % 64 == 0
    del source
    gc.collect()
    assert gone() is None
    with versioned(dlshim.upgrade(Legacy(runtime.counting())), dl_device=CPU) as imported:
        assert imported.view.copied
    with bare(dlshim.upgrade(Legacy(runtime.counting())), dl_device=CPU) as imported:
        assert imported.view.device == CPU


def test_read_only_memory_is_copied_writable_for_every_generation():
    x = runtime.counting()
    x.flags.writable = False
    for ask in (bare, versioned):
        with ask(dlshim.upgrade(runtime.OnlyInterface(x), device="cpu")) as imported:
            assert not imported.view.readonly
    kept = dlshim.upgrade(runtime.OnlyInterface(x), device="cpu", readonly=True)
    with versioned(kept) as imported:
        assert imported.view.readonly


@SOURCE
def test_no_copy_to_the_host_where_none_is_wanted(source):
    x = source(runtime.counting())
    asked = len(x.streams) if isinstance(x, Legacy) else 0
    for wanted in ({"copy": False}, {}):
        told = {} if wanted else {"copy": False}
        with pytest.raises(dlshim.CopyRequiredError, match="copy=False"):
            versioned(dlshim.upgrade(x, **told), dl_device=CPU, **wanted)
    assert not isinstance(x, Legacy) or len(x.streams) == asked


def test_rows_far_apart_are_fetched_part_by_part():
    """More than 64 MiB between the first and the last byte, and little of it wanted."""
    whole = xp.zeros((6, 1 << 24), dtype="u1")
    x = whole[:, :: 1 << 20]
    x[...] = xp.reshape(xp.arange(96, dtype="u1"), (6, 16))
    y = np.from_dlpack(dlshim.upgrade(Legacy(x), device="cpu"))
    assert y.tolist() == np.arange(96).reshape(6, 16).tolist()
    z = np.from_dlpack(dlshim.upgrade(Legacy(x[::-1, :]), device="cpu"))
    assert z.tolist() == y[::-1].tolist()
    w = np.from_dlpack(dlshim.upgrade(Legacy(x.T), device="cpu"))
    assert w.tolist() == y.T.tolist()


# --- to the host: after what -----------------------------------------------------------------

#: What has unfinished work, and what knows of it.
BUSY: dict[str, Any] = {
    "an old-style producer, which is given a queue": lambda g: dlshim.upgrade(Legacy(g.array)),
    "an array, which its library moves": lambda g: dlshim.upgrade(g.array),
    "an interface of an array, which waits": lambda g: dlshim.upgrade(
        runtime.OnlyInterface(g.array)
    ),
    "a memory object, whose queue is known": lambda g: dlshim.upgrade(g.memory),
    "a Tensor, which remembers the queue": lambda g: dlshim.upgrade(
        dlshim.from_dlpack(g.memory, stream=g.queue)
    ),
    "a Tensor of an array": lambda g: dlshim.upgrade(dlshim.from_dlpack(g.array)),
    "no stream at all, the queue named": lambda g: dlshim.upgrade(
        Raw(g.array), producer_stream=g.queue
    ),
    "a raw capsule, the queue named": lambda g: dlshim.upgrade(
        g.array.__dlpack__(), producer_stream=g.queue
    ),
}


@pytest.mark.parametrize("stream", [None, ...], ids=["None", "a queue"])
@pytest.mark.parametrize("make", BUSY.values(), ids=BUSY.keys())
def test_a_copy_comes_after_the_pending_work(gate, other_queue, make, stream):
    """Whatever the consumer passes: the host is the reader."""
    producer = make(gate)
    with gate.must_wait():
        capsule = producer.__dlpack__(
            max_version=(1, 0), dl_device=CPU, stream=other_queue if stream is ... else None
        )
    values = np.from_dlpack(dlshim.upgrade(capsule)).view("i4")
    assert values.tolist()[0] == NEW


def test_negative_control_what_is_called_ready_is_copied_at_once(gate):
    y = np.from_dlpack(dlshim.upgrade(Raw(gate.array), producer_stream=-1), device="cpu")
    assert y.tolist() == [OLD]
    z = np.from_dlpack(dlshim.upgrade(Raw(gate.array), unknown_stream="same"), device="cpu")
    assert z.tolist() == [OLD]
    assert not gate.is_open


def test_an_unknown_queue_is_refused_and_the_cure_holds(gate):
    with pytest.raises(BufferError, match=r"not known.*\n  .*producer_stream="):
        np.from_dlpack(dlshim.upgrade(Raw(gate.array)), device="cpu")
    assert not gate.is_open


# --- from the host ---------------------------------------------------------------------------

HOST: dict[str, Any] = {
    name: layout for name, layout in LAYOUTS.items() if name not in ("broadcast",)
} | {
    "broadcast": lambda x: np.broadcast_to(x[1], (3, 6)),
    "read-only": lambda x: np.frombuffer(x.tobytes(), "f4").reshape(4, 6),
    "no dimensions": lambda x: np.asarray(x[2, 3]),
}
HOST_LAYOUT = pytest.mark.parametrize("layout", HOST.values(), ids=HOST.keys())


def on_host() -> Any:
    return np.arange(24, dtype="f4").reshape(4, 6)


#: How host memory gets to oneAPI.
SENDERS: dict[str, Any] = {
    "upgrade(device=)": lambda x: xp.from_dlpack(dlshim.upgrade(x, device="oneapi:0")),
    "from_dlpack(device=)": lambda x: xp.from_dlpack(dlshim.from_dlpack(x, device=(ONEAPI, 0))),
    "interface of a Tensor": lambda x: xp.asarray(dlshim.from_dlpack(x, device="oneapi")),
    "consumer's dl_device": lambda x: xp.from_dlpack(
        dlshim.upgrade(
            dlshim.upgrade(x).__dlpack__(max_version=(1, 0), dl_device=(ONEAPI, 0)),
            unknown_stream="same",
        )
    ),
    "legacy": lambda x: xp.from_dlpack(
        dlshim.upgrade(dlshim.upgrade(x).__dlpack__(dl_device=(ONEAPI, 0)), unknown_stream="same")
    ),
}


@pytest.mark.parametrize("send", SENDERS.values(), ids=SENDERS.keys())
@HOST_LAYOUT
def test_what_comes_to_the_device(send, layout):
    x = layout(on_host())
    y = send(x)
    assert type(y) is xp.usm_ndarray
    assert (y.shape, y.dtype, y.usm_type) == (x.shape, x.dtype, "device")
    assert runtime.values(y) == x.tolist()
    assert y.flags.c_contiguous and y.flags.writable
    assert y.sycl_queue == dpctl.get_device_cached_queue("0"), "arrays of their own are there"
    y[...] = -1
    assert x.tolist() == layout(on_host()).tolist(), "it is a copy"


@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_of_every_type_to_the_device(dtype):
    x = np.arange(6).astype(dtype)
    y = xp.from_dlpack(dlshim.upgrade(x, device="oneapi"))
    assert y.dtype == x.dtype
    assert runtime.values(y) == x.tolist()


def test_the_copy_on_the_device_says_what_it_is_and_holds_no_source():
    source = on_host().view(type("Array", (np.ndarray,), {}))
    gone = weakref.ref(source)
    with counting() as count:
        tensor = dlshim.from_dlpack(source, device="oneapi:0")
    assert count.copied == 1
    del source
    gc.collect()
    assert gone() is None
    assert (tensor.device, tensor.is_copied, tensor.readonly) == ((ONEAPI, 0), True, False)
    assert tensor.data_ptr() % 64 == 0
    shown = tensor.__sycl_usm_array_interface__
    assert shown["syclobj"] == dpctl.get_device_cached_queue("0")
    assert np.from_dlpack(dlshim.upgrade(tensor), device="cpu").tolist() == on_host().tolist()
    wide = dlshim.upgrade(on_host(), device="oneapi", align=4096, readonly=True)
    with versioned(wide) as imported:
        assert imported.view.data % 4096 == 0
        assert imported.view.readonly and imported.view.copied
    assert wide.__dlpack_device__() == (ONEAPI, 0)


def test_the_copy_on_the_device_is_complete_for_every_queue(other_queue):
    """No work is pending in it, so no queue has to wait for one: -1 is right as well."""
    x = np.full(1, NEW, "i4")
    for stream in (None, -1, other_queue):
        tensor = dlshim.from_dlpack(x, device="oneapi", stream=stream)
        y = xp.from_dlpack(dlshim.upgrade(tensor, unknown_stream="same"))
        assert runtime.values(y) == [NEW]


def test_no_copy_to_the_device_where_none_is_wanted():
    for options, asked in [({"copy": False}, {}), ({}, {"copy": False})]:
        with pytest.raises(dlshim.CopyRequiredError, match="copy=False"):
            versioned(dlshim.upgrade(on_host(), **options), dl_device=(ONEAPI, 0), **asked)


def test_a_device_that_is_not_there():
    with pytest.raises(BufferError, match=r"96 bytes to oneAPI device 7") as error:
        dlshim.from_dlpack(on_host(), device="oneapi:7")
    assert isinstance(error.value.__cause__, dpctl.SyclQueueCreationError)


def test_no_memory_on_the_device(monkeypatch):
    def fail(*args: Any, **keywords: Any) -> Any:
        raise usm.USMAllocationError("USM allocation failed")

    monkeypatch.setattr(usm, "MemoryUSMDevice", fail)
    with pytest.raises(BufferError, match=r"96 bytes to oneAPI device 0 failed.*USM alloc"):
        dlshim.from_dlpack(on_host(), device="oneapi:0")


# --- from the host: whose copy it is -------------------------------------------------------------


def test_they_copy_into_the_queue_that_they_were_given(queue):
    """Where they can, dpctl and dpnp copy host memory themselves: only they know the queue."""
    assert queue != dpctl.get_device_cached_queue("0")
    for x in (on_host(), on_host()[::2], on_host()[1:, 2:]):
        y = xp.from_dlpack(dlshim.upgrade(x), device=queue)
        assert runtime.values(y) == x.tolist()
        assert y.sycl_queue == queue
    with pytest.raises(BufferError, match="host memory"):
        dlshim.upgrade(on_host()).__dlpack__(max_version=(1, 0), dl_device=(14, 0), copy=None)


@pytest.mark.parametrize("name", ["steps", "columns", "one column", "nothing", "no dimensions"])
def test_what_they_cannot_copy_themselves_is_copied(name):
    x = HOST[name](on_host())
    with pytest.raises(ValueError, match=r"dtype|positive"):
        xp.from_dlpack(x, device="cpu")
    y = xp.from_dlpack(dlshim.upgrade(x), device="cpu")
    assert type(y) is xp.usm_ndarray
    assert runtime.values(y) == x.tolist()


def test_an_empty_array_has_an_address_there():
    """Where it is NULL, dpctl and dpnp raise TypeError."""
    tensor = dlshim.from_dlpack(on_host()[:0], device="oneapi")
    assert tensor.size == 0
    assert tensor.data_ptr() != 0
    assert xp.from_dlpack(tensor).shape == (0, 6)
