"""Copies of oneAPI memory by the objects of dpctl, on doubles of them.

The same on a real runtime, with pending work: tests/oneapi/test_copies.py.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
from typing import Any

import pytest

import dlshim
from dlshim import _core
from doubles import sycl
from doubles.asking import ASKINGS, bare, counting, tells, versioned
from doubles.producers import P1, P2, Array, P1a, P1b, fresh
from doubles.sycl import DpctlArray, Memory, Queue, SyclOnly, TorchXpu, UsmMemory

CPU, ONEAPI = (1, 0), (14, 0)
BOTH = pytest.mark.parametrize("ask", ASKINGS.values(), ids=ASKINGS.keys())


class Library:
    """The imported dpctl, and every queue that was made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.queues: list[Queue] = []
        self.dpctl, self.memory = sycl.library(), sycl.memory_library()
        self.dpctl.SyclQueue = self.make  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "dpctl", self.dpctl)
        monkeypatch.setitem(sys.modules, "dpctl.memory", self.memory)
        monkeypatch.setattr(UsmMemory, "made", [])

    def make(self, what: Any = 0) -> Queue:
        self.queues.append(Queue(what))
        return self.queues[-1]

    @property
    def log(self) -> list[Any]:
        return [entry for queue in self.queues for entry in queue.log]


@pytest.fixture
def library(monkeypatch) -> Library:
    return Library(monkeypatch)


@pytest.fixture
def no_library(monkeypatch) -> None:
    for name in ("dpctl", "dpctl.memory"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def old(shape: Any = (2, 3), dtype: str = "float32", **fields: Any) -> Array:
    """`__dlpack__(stream=None)` and no more, around memory of oneAPI."""
    return fresh(P1)(shape, dtype, device=ONEAPI, **fields)


# --- to the host ---------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((2, 3), {}),
        ((), {}),
        ((2, 3), {"strides": (1, 2)}),
        ((2, 3), {"strides": (-3, -1), "start": 5}),
        ((2, 2), {"strides": (0, 2)}),
        ((3, 1), {"strides": (2, 7), "start": 1}),
    ],
    ids=str,
)
def test_what_comes_to_the_host(library, ask, shape, layout):
    x = old(shape, **layout)
    with counting() as count, ask(dlshim.upgrade(x), dl_device=CPU) as imported:
        assert (imported.view.device, imported.view.shape) == (CPU, shape)
        assert imported.values() == x.values()
        assert imported.view.data % 64 == 0
        assert imported.view.data != x.element_zero
        assert imported.view.copied or ask is bare
    assert count.copied == 1
    assert x.last.deleted == 1, "the source is not held"


def test_a_producer_that_takes_streams_is_given_the_queue_of_the_copy(library):
    x = old()
    versioned(dlshim.upgrade(x), dl_device=CPU).release()
    (queue,) = library.queues
    assert [call["stream"] for call in x.keywords if "stream" in call][-1] is queue
    assert queue.log == ["wait", ("memcpy", 24)]
    versioned(dlshim.upgrade(old()), dl_device=CPU, stream=Queue()).release()
    assert library.queues == [queue], "one is kept for each device"
    versioned(dlshim.upgrade(fresh(P1)((3,), device=(14, 2))), dl_device=CPU).release()
    assert [q.sycl_device.number for q in library.queues] == [0, 2]


@pytest.mark.parametrize("cls", [P1a, DpctlArray, Memory, TorchXpu], ids=lambda c: c.__name__)
def test_others_have_their_own_queue_waited_for(library, cls, monkeypatch):
    torch = sycl.torch_library(0)
    monkeypatch.setitem(sys.modules, "torch", torch)
    named = Queue()
    made = {
        P1a: lambda: fresh(P1a)((6,), "uint8", device=ONEAPI),
        TorchXpu: lambda: TorchXpu((6,), "uint8"),
        DpctlArray: lambda: DpctlArray((6,), "uint8", syclobj=named),
        Memory: lambda: Memory(6, syclobj=named),
    }
    x = made[cls]()
    options = {"producer_stream": named} if cls is P1a else {}
    with versioned(dlshim.upgrade(x, **options), dl_device=CPU) as imported:
        assert len(imported.values()) == 6
    waited = torch.xpu.streams["xpu:0"].log if cls is TorchXpu else named.log
    assert waited[0] in ("wait", "synchronize")


def test_memory_that_names_its_queue_is_copied_in_that_queue(library):
    x = SyclOnly((2, 3), syclobj=Queue())
    with versioned(dlshim.upgrade(x), dl_device=CPU) as imported:
        assert imported.values() == [0, 1, 2, 3, 4, 5]
    assert x.queue.log == ["wait", ("memcpy", 24)]
    assert library.queues == []


@pytest.mark.parametrize("stream", [None, -1, "queue"], ids=str)
def test_the_host_is_the_reader_whatever_the_stream(library, stream):
    passed = Queue() if stream == "queue" else stream
    x = old()
    with versioned(dlshim.upgrade(x), dl_device=CPU, stream=passed) as imported:
        assert imported.values() == x.values()
    assert library.log[0] == "wait"


def test_an_unknown_queue_is_refused_and_the_cures_hold(library):
    x = fresh(P1a)((3,), device=ONEAPI)
    with pytest.raises(BufferError) as error:
        versioned(dlshim.upgrade(x), dl_device=CPU)
    tells(error.value, "queue is not known", "producer_stream=", "unknown_stream=")
    assert x.last.deleted == 1
    for cure in ({"producer_stream": -1}, {"unknown_stream": "same"}):
        with versioned(dlshim.upgrade(x, **cure), dl_device=CPU) as imported:
            assert imported.values() == x.values()


@BOTH
def test_empty_arrays_touch_nothing(library, ask):
    x = old((0, 3))
    with ask(dlshim.upgrade(x), dl_device=CPU) as imported:
        assert (imported.view.device, imported.view.shape) == (CPU, (0, 3))
    assert library.queues == [] and UsmMemory.made == []


def test_a_shape_that_lies_about_elements_is_noticed(library):
    """The attribute says that there are none, the capsule has six."""

    class Lying:
        shape = (0,)

        def __dlpack__(self, stream: Any = None) -> Any:
            return old().__dlpack__(stream=stream)

        def __dlpack_device__(self) -> Any:
            return ONEAPI

    x = Lying()
    with pytest.raises(BufferError, match="not known"):
        versioned(dlshim.upgrade(x), dl_device=CPU)
    with versioned(dlshim.upgrade(x, unknown_stream="same"), dl_device=CPU) as imported:
        assert len(imported.values()) == 6


@BOTH
def test_no_copy_where_none_is_wanted(library, ask):
    x = old()
    with pytest.raises(dlshim.CopyRequiredError, match="copy=False"):
        ask(dlshim.upgrade(x), dl_device=CPU, copy=False)
    with pytest.raises(dlshim.CopyRequiredError, match="copy=False"):
        ask(dlshim.upgrade(x, device="cpu", copy=False))
    assert x.keywords == []


@BOTH
def test_without_the_library_only_the_producer_can_move_it(no_library, ask):
    with pytest.raises(BufferError) as error:
        ask(dlshim.upgrade(old()), dl_device=CPU)
    tells(error.value, "(14, 0)", "(1, 0)", r"library's own function first \(torch's \.cpu\(\)")


def test_what_the_library_raises_is_the_cause(library, monkeypatch):
    def fail(self: Any, dest: Any, src: Any, count: int) -> None:
        raise RuntimeError("SyclQueue.memcpy operation encountered an error")

    with monkeypatch.context() as patch:
        patch.setattr(Queue, "memcpy", fail)
        for ask, layout in itertools.product(ASKINGS.values(), ({}, {"strides": (1, 2)})):
            with pytest.raises(
                BufferError, match=r"copying it to the host failed.*memcpy"
            ) as error:
                ask(dlshim.upgrade(old(**layout)), dl_device=CPU)
            assert isinstance(error.value.__cause__, RuntimeError)
        with pytest.raises(BufferError, match=r"24 bytes to oneAPI device 0 failed"):
            dlshim.from_dlpack(P2(), device="oneapi")
    monkeypatch.setattr(Queue, "wait", fail)
    with pytest.raises(BufferError, match="synchronising SYCL queues failed"):
        versioned(dlshim.upgrade(old()), dl_device=CPU)
    with pytest.raises(BufferError, match=r"no queue could be made for its device.*'7'"):
        versioned(dlshim.upgrade(fresh(P1)(device=(14, 7))), dl_device=CPU)


def test_a_library_that_lacks_what_copies_take(library):
    del library.dpctl.SyclQueue
    with pytest.raises(BufferError, match=r"no queue could be made.*not imported"):
        versioned(dlshim.upgrade(old()), dl_device=CPU)
    del library.memory.MemoryUSMDevice
    with pytest.raises(BufferError, match=r"24 bytes to oneAPI device 0.*not imported"):
        dlshim.from_dlpack(P2(), device="oneapi")
    library.dpctl.get_device_cached_queue = None
    with pytest.raises(BufferError, match=r"24 bytes to oneAPI device 0.*NoneType"):
        dlshim.from_dlpack(P2(), device="oneapi")
    del library.memory.as_usm_memory
    with pytest.raises(BufferError, match="host memory"):
        dlshim.from_dlpack(P2(), device="oneapi")


def test_a_library_whose_getattr_fails_offers_no_copies_and_nothing_is_reported(
    library, monkeypatch
):
    """PyObject_HasAttrString tells of such an error from CPython 3.13 on."""
    reported: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    del library.memory.as_usm_memory
    library.memory.__getattr__ = lambda name: 1 // 0
    with pytest.raises(BufferError, match="host memory"):
        dlshim.from_dlpack(P2(), device="oneapi")
    assert reported == []


# --- from the host ---------------------------------------------------------------------------


def bytes_of(memory: UsmMemory) -> bytes:
    return ctypes.string_at(memory._pointer, memory.nbytes)


@BOTH
@pytest.mark.parametrize(
    "layout",
    [{}, {"strides": (1, 2)}, {"strides": (-3, -1), "start": 5}, {"readonly": True}],
    ids=str,
)
def test_what_comes_to_the_device(library, ask, layout):
    x = P2((2, 3), "int16", **layout)
    with counting() as count, ask(dlshim.upgrade(x), dl_device=ONEAPI) as imported:
        view = imported.view
        assert (view.device, view.shape, view.strides) == (ONEAPI, (2, 3), (3, 1))
        assert not view.readonly
        (memory,) = UsmMemory.made
        assert (view.data, view.byte_offset) == (memory._pointer, 0)
        numbers = memoryview(bytes_of(memory)).cast("h").tolist()
        assert numbers == x.values()
        assert memory.alignment == 64
        assert memory.sycl_queue is library.dpctl.get_device_cached_queue("0")
        assert x.last.deleted == 1, "the source is not held"
    assert count.copied == 1


def test_an_empty_array_is_given_a_byte(library):
    tensor = dlshim.from_dlpack(P2((0, 3)), device="oneapi:0")
    (memory,) = UsmMemory.made
    assert (memory.nbytes, tensor.data_ptr()) == (1, memory._pointer)
    assert memory.sycl_queue.log == []


def test_options_of_the_copy(library):
    with versioned(dlshim.upgrade(P2(), device="oneapi", align=256, readonly=True)) as imported:
        assert imported.view.readonly and imported.view.copied
        assert imported.view.data % 256 == 0
    with pytest.raises(dlshim.CopyRequiredError, match="copy=False") as error:
        versioned(dlshim.upgrade(P2(), device="oneapi", copy=False))
    assert error.value.reason == "device"
    assert dlshim.upgrade(P2(), device="oneapi").__dlpack_device__() == ONEAPI


def test_a_tensor_there_names_the_queue(library):
    tensor = dlshim.from_dlpack(P2(), device="oneapi:0")
    assert (tensor.device, tensor.is_copied) == (ONEAPI, True)
    shown = tensor.__sycl_usm_array_interface__
    assert shown["syclobj"] is library.dpctl.get_device_cached_queue("0")
    assert shown["data"] == (tensor.data_ptr(), False)
    with versioned(tensor, dl_device=CPU) as imported:
        assert imported.values() == P2().values()


def test_no_memory_on_the_device(library):
    with pytest.raises(BufferError, match=r"2097152 bytes to oneAPI device 0 failed") as error:
        dlshim.from_dlpack(bytearray(1 << 21), device="oneapi")
    assert isinstance(error.value.__cause__, sycl.USMAllocationError)


def test_a_consumer_that_copies_itself_is_left_to_do_it(library):
    """dpctl and dpnp know the queue, and ask so; they cannot copy everything."""
    asked = {"max_version": (1, 0), "dl_device": ONEAPI, "copy": None}
    with pytest.raises(BufferError, match="host memory"):
        dlshim.upgrade(P2()).__dlpack__(**asked)
    with pytest.raises(BufferError, match="host memory"):
        dlshim.upgrade(P2((2, 2), strides=(3, 1))).__dlpack__(**asked)
    for x in (P2(()), P2((0, 3)), P2((2, 3), strides=(1, 2)), P2((3,), strides=(-1,), start=2)):
        versioned(dlshim.upgrade(x), **asked).release()
    torch_like = dlshim.upgrade(P2())
    torch_like.__dlpack_device__()
    versioned(torch_like, **(asked | {"copy": True})).release()
    versioned(dlshim.upgrade(P2(), device="oneapi"), **(asked | {"dl_device": None})).release()


def test_without_the_library_there_is_no_copy_to_oneapi(no_library):
    for x in (P2(), P1b(), P1()):
        with pytest.raises(BufferError) as error:
            versioned(dlshim.upgrade(x), dl_device=ONEAPI)
        tells(error.value, "host memory", "(14, 0)")


def test_other_memory_is_not_sent_there(library):
    with pytest.raises(BufferError, match=r"\(8, 0\)"):
        versioned(dlshim.upgrade(fresh(P1)(device=(8, 0))), dl_device=ONEAPI)


# --- allocation failures ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "to"),
    [
        (lambda: old(strides=(1, 2)), CPU),
        (lambda: old((2,) * 9, strides=tuple(1 << i for i in range(9))), CPU),
        (lambda: P2(strides=(1, 2)), ONEAPI),
    ],
    ids=["to the host", "nine axes to the host", "to the device"],
)
def test_allocations_that_fail_leave_no_export(library, make, to):
    def fails(n):
        x = make()
        _core._hook("fail_alloc", n)
        try:
            versioned(dlshim.upgrade(x), dl_device=to).release()
        except MemoryError:
            return True
        finally:
            _core._hook("fail_alloc", -1)
            assert all(made.deleted == 1 for made in x.exports)
        return False

    before = _core._counters()["live"]
    failed = [fails(n) for n in range(1, 20)]
    assert failed == sorted(failed, reverse=True) and 2 <= sum(failed) < 19
    assert _core._counters()["live"] == before
