"""`__cuda_array_interface__` on the fake drivers: whose memory it is, and how it is synced.

Every producer writes through its stream and every consumer reads through its own; what lies
between is dlshim's alone.
"""

from __future__ import annotations

import ctypes as C
import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest

import dlshim
from device import libraries, rocm
from device.matrix import Cell
from device.matrix_run import Calls, warm
from doubles import capsules as caps
from doubles import child, vendors
from doubles import cuda_interface as cai
from doubles import device as fake
from doubles.cuda_interface import CudaOnly, LazyPair, Over, empty
from drivers import (
    ALL_LIVE,
    CUDA_LIVE,
    Driver,
    HipDriver,
    built,
    checks,
    run_checks,
    run_with_driver,
)

CAPTURES = CUDA_LIVE[1:]
#: What only asks, and syncs nothing.
QUERIES = {
    "cuInit", "cuDeviceGet", "cuDeviceGetAttribute", "cuDevicePrimaryCtxGetState",
    "cuDevicePrimaryCtxRetain", "cuCtxGetCurrent", "cuCtxGetDevice", "cuPointerGetAttribute",
    "cuPointerGetAttributes", "cuThreadExchangeStreamCaptureMode",
}  # fmt: skip
#: What blocks the host.
BLOCKS = {"cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize"}
SIZE = 24  # bytes of the doubles' default, (2, 3) of float32


def taken(x: Any, **keywords: Any) -> caps.View:
    """What a consumer is given: it takes the capsule, looks and lets go."""
    imported = caps.take(x.__dlpack__(max_version=(1, 0), **keywords))
    view = imported.view
    imported.release()
    return view


def refused(attempt: Callable[[], Any], *words: str) -> None:
    with pytest.raises(BufferError) as error:
        attempt()
    for word in words:
        assert word in str(error.value), (word, str(error.value))


def ends_well(drv: Any) -> None:
    """Python's lock was never held around a call, and nothing was left behind."""
    assert drv.gil_held_calls(every=True) == {}
    assert not drv.marks("DOUBLE")
    drv.clear_log()


# --- whose memory ---------------------------------------------------------------------------

KINDS = {"device": 2, "pool": 2, "managed": 13}


@checks.on_cuda
def check_the_driver_says_whose_memory_it_is(drv: Driver) -> None:
    for current in (None, 0, 1):
        drv.set_current(None if current is None else drv.context(current))
        stack = drv.context_stack()
        for device in (0, 1):
            for kind, device_type in KINDS.items():
                x = dlshim.upgrade(CudaOnly(address=drv.alloc(SIZE, device, kind)))
                assert x.__dlpack_device__() == (device_type, device)
                for stream in (-1, 1, 2):
                    assert taken(x, stream=stream).device == (device_type, device), kind
        x = dlshim.upgrade(CudaOnly(address=drv.alloc(SIZE, 1, "pinned")))
        assert x.__dlpack_device__() == (3, 0)
        assert taken(x, stream=-1).device == (3, 0)
        assert drv.context_stack() == stack
    ends_well(drv)


def check_the_drivers_word_goes_before_the_objects(drv: Any) -> None:
    x = cai.WithDevice(address=drv.alloc(SIZE, 1), device_id=0)
    assert dlshim.from_dlpack(x).device == vendors.of(drv).device_of("device", 1)


def check_the_question_for_the_device_syncs_nothing(drv: Any) -> None:
    for version, stream in ((2, None), (3, 1), (3, stream_of(drv, "non-blocking", "P"))):
        x = CudaOnly(address=drv.alloc(SIZE, 1), version=version, stream=stream)
        drv.clear_log()
        assert dlshim.upgrade(x).__dlpack_device__() == vendors.of(drv).device_of("device", 1)
        assert not set(drv.calls()) - questions(drv)
    ends_well(drv)


def check_memory_inside_an_allocation(drv: Any) -> None:
    base = drv.alloc(4096, 1)
    x = CudaOnly((4, 4), address=base + 512, strides=(64, 8), readonly=True)
    view = taken(dlshim.upgrade(x), stream=-1)
    assert view.device == vendors.of(drv).device_of("device", 1)
    assert view.data + view.byte_offset == base + 512
    assert (view.shape, view.strides, view.readonly) == ((4, 4), (16, 2), True)


@checks.on_cuda
def check_memory_that_the_driver_does_not_know(drv: Driver) -> None:
    block = (C.c_char * SIZE)()
    freed = drv.alloc(SIZE)
    drv.free(freed)
    for address in (C.addressof(block), freed, 8):
        for stream in (None, -1, 1):
            x = dlshim.upgrade(CudaOnly(address=address))
            refused(
                lambda x=x, stream=stream: x.__dlpack__(stream=stream),
                "CudaOnly", "no CUDA memory", hex(address),
            )  # fmt: skip
    ends_well(drv)


@checks.on_cuda
def check_system_memory_that_kernels_reach(drv: Driver) -> None:
    """Grace Hopper, HMM: the driver has no allocation there, but the device's kernels read it.  It
    is taken for the current device's, as by CuPy (cupy/cuda/memory.pyx, CUPY_ENABLE_UMP)."""
    for current, device in ((0, 0), (1, 1), (None, 0)):
        drv.reset()
        drv.set_current(None if current is None else drv.context(current))
        p = stream_of(drv, "non-blocking", "P", device)
        s = stream_of(drv, "non-blocking", "S", device)
        address = drv.alloc(SIZE, device, "system")
        assert not drv.write(p, address, context=drv.context(device))
        x = CudaOnly(address=address, version=2)
        refused(lambda x=x, s=s: dlshim.upgrade(x).__dlpack__(stream=s), "no CUDA memory")
        drv.option("pageable_access", 1)
        assert dlshim.upgrade(x).__dlpack_device__() == (2, device)
        assert taken(dlshim.upgrade(x), stream=s).device == (2, device)
        assert not drv.read(s, address, context=drv.context(device))
        ends_well(drv)


@checks.on_cuda
def check_a_driver_that_wants_a_context_for_the_question(drv: Driver) -> None:
    """Any, or one of the memory's device."""
    for wanted, device in ((1, 0), (1, 1), (2, 0), (2, 1)):
        drv.option("pointer_needs_context", wanted)
        drv.set_current(None)
        x = dlshim.upgrade(CudaOnly(address=drv.alloc(SIZE, device)))
        assert taken(x, stream=-1).device == (2, device)
        assert drv.context_stack() == ()
    ends_well(drv)


@checks.only_on(*CAPTURES)
def check_a_capture_elsewhere_is_left_alone(drv: Driver) -> None:
    capturing = drv.stream_new(0, False, name="C")
    x = dlshim.upgrade(CudaOnly(address=drv.alloc(SIZE)))
    thread = threading.Thread(target=lambda: drv.capture_begin(capturing, "global"))
    thread.start()
    thread.join()
    assert taken(x, stream=-1).device == (2, 0)
    assert drv.capture_state(capturing) == "active"


# --- read once --------------------------------------------------------------------------------


@checks.on_cuda
def check_everything_is_read_once_and_on_this_thread(drv: Driver) -> None:
    """cuDF's lazy pair: the look-up pins the buffer, and stream 2 is the reading thread's."""
    asked_by: list[int] = []

    class Threads(LazyPair):
        def __getitem__(self, index: int) -> Any:
            asked_by.append(threading.get_ident())
            return super().__getitem__(index)

    data = Threads(drv.alloc(SIZE))
    x = CudaOnly(stream=2, changes={"data": data})
    wrapped = dlshim.upgrade(x)
    assert (x.times_asked, data.asked) == (0, [])
    taken(wrapped, stream=1)
    assert x.times_asked == 1 and sorted(data.asked) == [0, 1]
    dlshim.from_dlpack(x, stream=1)
    assert x.times_asked == 2 and sorted(data.asked) == [0, 0, 1, 1]
    assert set(asked_by) == {threading.get_ident()}


# --- sync -------------------------------------------------------------------------------------


def stream_of(drv: Any, kind: str, name: str, device: int = 0) -> int:
    short = {"blocking": "B", "non-blocking": "N"}.get(kind, kind)
    return vendors.of(drv).stream(drv, short, device, name)


def consumers_of(drv: Any) -> tuple[str | None, ...]:
    """None, and the kinds of streams that a consumer can pass: 2 is none of ROCm."""
    kinds = (None, *STREAMS)
    return tuple(k for k in kinds if k != "PTDS") if vendors.of(drv).is_hip else kinds


def questions(drv: Any) -> frozenset[str]:
    return vendors.ROCM.queries if vendors.of(drv).is_hip else frozenset(QUERIES)


STREAMS = ("L", "PTDS", "blocking", "non-blocking")


def check_the_stream_of_version_3_is_synced(drv: Any) -> None:
    for producer in STREAMS:
        for consumer in consumers_of(drv):
            for device in (0, 1):
                drv.reset()
                here = drv.now_current()
                p = stream_of(drv, producer, "P", device)
                s = stream_of(drv, consumer, "S", device) if consumer else None
                memory = drv.alloc(SIZE, device)
                drv.write(p, memory)
                drv.clear_log()
                taken(dlshim.upgrade(CudaOnly(address=memory, stream=p or 1)), stream=s)
                case = (producer, consumer, device)
                assert not vendors.of(drv).syncs & set(drv.calls()), case
                assert drv.now_current() == here, case
                assert not drv.read(s or vendors.of(drv).legacy, memory), case
                ends_well(drv)


def check_a_known_stream_that_is_the_consumers_costs_nothing(drv: Any) -> None:
    for kind in consumers_of(drv)[1:]:
        p = stream_of(drv, kind, "P")
        memory = drv.alloc(SIZE)
        drv.clear_log()
        taken(dlshim.upgrade(CudaOnly(address=memory, stream=p or 1)), stream=p)
        assert not set(drv.calls()) - questions(drv), kind


def check_the_driver_is_asked_about_an_address_once(drv: Any) -> None:
    """What it says is kept for the rest of the exchange: for the sync, also where the memory is of
    no context, and for the stream on which it is copied."""
    vendor = vendors.of(drv)
    s = stream_of(drv, "non-blocking", "S")
    kinds = ("device",) if vendor.is_hip else ("device", "pool", "managed")
    takes: dict[str, Callable[[Any], Any]] = {
        "a capsule": lambda x: taken(dlshim.upgrade(x), stream=s),
        "no stream": lambda x: taken(dlshim.upgrade(x)),
        "to_capsule": lambda x: caps.take(dlshim.to_capsule(x)).release(),
        "a Tensor": dlshim.from_dlpack,
        "the host": lambda x: dlshim.from_dlpack(x, device="cpu"),
    }
    for kind in kinds:
        for named in (None, *STREAMS):
            p = stream_of(drv, named, "P") if named else None
            x = CudaOnly(address=drv.alloc(SIZE, 0, kind), version=3 if named else 2, stream=p or 1)
            for how, take in takes.items():
                take(x)
                drv.clear_log()
                take(x)
                assert drv.calls().count(vendor.pointer) == 1, (kind, named, how)


def check_stream_0_with_a_cure(drv: Any) -> None:
    p, s = stream_of(drv, "non-blocking", "P"), stream_of(drv, "non-blocking", "S")
    memory = drv.alloc(SIZE)
    drv.write(p, memory)
    x = CudaOnly(address=memory, stream=0)
    refused(lambda: dlshim.upgrade(x).__dlpack__(stream=s), "CudaOnly", "producer_stream=")
    drv.clear_log()
    taken(dlshim.upgrade(x), stream=-1)
    assert not set(drv.calls()) - questions(drv)
    taken(dlshim.upgrade(x, producer_stream=p), stream=s)
    assert not drv.read(s, memory)
    ends_well(drv)


def check_without_sync_it_would_race(drv: Any) -> None:
    """The control: -1, and version 3 that promises too much, sync nothing."""
    p, s = stream_of(drv, "non-blocking", "P"), stream_of(drv, "non-blocking", "S")
    for stream, named in ((-1, p), (s, None)):
        memory = drv.alloc(SIZE)
        drv.write(p, memory)
        drv.clear_log()
        taken(dlshim.upgrade(CudaOnly(address=memory, stream=named)), stream=stream)
        assert not set(drv.calls()) - questions(drv)
        assert drv.read(s, memory)
        ends_well(drv)


def check_none_and_no_key_are_a_promise(drv: Any) -> None:
    memory = drv.alloc(SIZE)
    for named in (None, CudaOnly.DROP):
        for stream in (None, *vendors.of(drv).given, stream_of(drv, "non-blocking", "S")):
            drv.clear_log()
            taken(dlshim.upgrade(CudaOnly(address=memory, stream=named)), stream=stream)
            assert not set(drv.calls()) - questions(drv)


def check_older_versions_say_nothing(drv: Any) -> None:
    """Every stream of the device is waited for; a stream in the dict is not version 2's."""
    vendor = vendors.of(drv)
    for version in (0, 1, 2):
        for producer in STREAMS:
            for consumer in consumers_of(drv):
                drv.reset()
                p = stream_of(drv, producer, "P")
                s = stream_of(drv, consumer, "S") if consumer else None
                memory = drv.alloc(SIZE)
                drv.write(p, memory)
                drv.clear_log()
                x = CudaOnly(address=memory, version=version, stream=s or 1)
                taken(dlshim.upgrade(x), stream=s)
                waited = bool(vendor.syncs & set(drv.calls()))
                assert waited is not drv.has("cuCtxRecordEvent")
                assert not drv.read(s or vendor.legacy, memory), (version, producer, consumer)
                ends_well(drv)


def check_older_versions_with_options(drv: Any) -> None:
    p, s = stream_of(drv, "non-blocking", "P"), stream_of(drv, "non-blocking", "S")
    memory = drv.alloc(SIZE)
    x = CudaOnly(address=memory, version=2)
    drv.write(p, memory)
    drv.clear_log()
    taken(dlshim.upgrade(x, producer_stream=p), stream=s)
    assert not {"cuCtxRecordEvent", *vendors.of(drv).syncs} & set(drv.calls())
    assert not drv.read(s, memory)
    drv.clear_log()
    taken(dlshim.upgrade(x, unknown_stream="same"), stream=s)
    assert not set(drv.calls()) - questions(drv)
    refused(lambda: dlshim.upgrade(x, unknown_stream="error").__dlpack__(stream=s), "CudaOnly")


@checks.on_cuda
def check_the_per_thread_stream_is_the_exporting_threads(drv: Driver) -> None:
    memory = drv.alloc(SIZE)
    s = stream_of(drv, "non-blocking", "S")
    wrapped = dlshim.upgrade(CudaOnly(address=memory, stream=2))
    racy: list[bool] = []

    def elsewhere() -> None:
        drv.write(2, memory)
        taken(wrapped, stream=s)
        racy.append(drv.read(s, memory))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert racy == [False]


@checks.on_cuda
def check_memory_that_the_host_reads(drv: Driver) -> None:
    """NumPy takes pinned and managed memory, passes no stream and reads at once."""
    for kind in ("pinned", "managed"):
        for producer in STREAMS:
            for version in (2, 3):
                if kind == "pinned" and version == 2:
                    continue  # nobody tracks what is unfinished there (S5)
                drv.reset()
                p = stream_of(drv, producer, "P")
                memory = drv.alloc(SIZE, kind=kind)
                drv.write(p, memory)
                x = CudaOnly(address=memory, version=version, stream=p)
                taken(dlshim.upgrade(x))
                assert not drv.host_read(memory, SIZE), (kind, producer, version)
                ends_well(drv)


# --- without elements -----------------------------------------------------------------------


@checks.on_cuda
def check_empty_arrays_call_nothing(drv: Driver) -> None:
    drv.set_current(drv.context(1))
    drv.clear_log()
    before = drv.counts()
    for cls in (cai.WithDevice, cai.WithDeviceId, cai.WithDeviceInt):
        for stream in (None, -1, 1, 2, 99):
            x = dlshim.upgrade(empty(cls, device_id=0, version=2))
            assert taken(x, stream=stream).device == (2, 0)
    assert dlshim.from_dlpack(x, stream=5).__cuda_array_interface__["stream"] is None
    assert drv.counts() == before and drv.calls() == []


@checks.on_cuda
def check_empty_arrays_that_say_no_device_lie_on_the_first(drv: Driver) -> None:
    """The driver is not even asked which device is current (S10)."""
    for current in (None, 0, 1):
        drv.set_current(None if current is None else drv.context(current))
        drv.clear_log()
        for stream in (None, -1, 1, 2, "wait"):
            tensor = dlshim.from_dlpack(empty(), stream=stream)
            assert tensor.device == (2, 0) and tensor.__cuda_array_interface__["stream"] is None
            dlshim.to_capsule(empty(), unknown_stream="error")
        assert drv.calls() == [], current


# --- a Tensor's own word ------------------------------------------------------------------


#: jax-ml/jax@cec06d116c, `jax/_src/numpy/array_constructors.py` `array`; the module before 0.6.
JAX = ("jax._src.numpy.array_constructors", "jax._src.numpy.lax_numpy")
ASKS_AS_JAX = """
def array(x):
    if hasattr(x, "__cuda_array_interface__"):
        return x.__cuda_array_interface__
"""


def jnp_array(module: str, x: Any) -> Any:
    """`jaxlib/py_array.cc` drops 1 and 2, and a handle that is not XLA's own ends in NOT_FOUND
    (openxla/xla, `LocalDeviceState::GetStreamFromExternalStream`): only None is of use."""
    namespace: dict[str, Any] = {"__name__": module}
    exec(ASKS_AS_JAX, namespace)
    entry = namespace["array"](x)["stream"]
    if entry is not None and entry > 2:
        raise RuntimeError("NOT_FOUND: GetStreamFromExternalStream failed to find stream")
    return entry


@checks.on_cuda
def check_JAX_which_drops_the_stream_is_waited_for(drv: Driver) -> None:
    """jnp.asarray prefers this protocol; XLA's streams wait for none of the default ones."""
    for consumer, module in itertools.product((*STREAMS, None, -1), JAX):
        drv.reset()
        drv.set_current(drv.context(1))
        p = stream_of(drv, "non-blocking", "P", 1)
        xla = stream_of(drv, "non-blocking", "XLA", 1)
        s = consumer if consumer in (None, -1) else stream_of(drv, consumer, "S", 1)
        memory = drv.alloc(SIZE, 1)
        drv.write(p, memory)
        x = cai.CudaOnly((2, 3), "float32", address=memory, version=3, stream=p)
        tensor = dlshim.from_dlpack(x, stream=s)
        before = drv.context_stack()
        assert jnp_array(module, tensor) is None, (consumer, module)
        assert not drv.read(xla, memory), (consumer, module)
        assert drv.context_stack() == before and not drv.gil_held_calls(every=True)
        # Others are told the stream as ever.
        said = tensor.__cuda_array_interface__["stream"]
        assert said == (1 if consumer in (None, -1) else s), (consumer, said)


@checks.on_cuda
def check_JAX_and_what_is_ready(drv: Driver) -> None:
    drv.set_current(drv.context(0))
    for tensor in (
        dlshim.from_dlpack(fake.NoKw(drv, 1, shape=(0, 3))),
        dlshim.from_dlpack(fake.NoKw(drv, 1), stream="wait"),
    ):
        drv.clear_log()
        assert jnp_array(JAX[0], tensor) is None
        assert drv.calls(by="") == []


@checks.on_cuda
def check_a_tensor_says_where_its_data_are_ready(drv: Driver) -> None:
    for consumer in STREAMS:
        drv.reset()
        memory = drv.alloc(SIZE, 1)
        p = stream_of(drv, "non-blocking", "P", 1)
        s = stream_of(drv, consumer, "S", 1)
        drv.write(p, memory)
        tensor = dlshim.from_dlpack(CudaOnly(address=memory, stream=p), stream=s)
        said = tensor.__cuda_array_interface__
        assert said["stream"] == s and said["data"] == (memory, False)
        assert not drv.read(said["stream"], memory)
        t = stream_of(drv, "non-blocking", "T", 1)
        taken(dlshim.upgrade(Over(tensor)), stream=t)
        assert not drv.read(t, memory), consumer
        ends_well(drv)


@checks.on_cuda
def check_a_tensor_that_was_not_synced_is_when_it_says_so(drv: Driver) -> None:
    for producer in STREAMS:
        for current in (None, 0, 1):
            for device in (0, 1):
                drv.reset()
                p = stream_of(drv, producer, "P", device)
                memory = drv.alloc(SIZE, device)
                tensor = dlshim.from_dlpack(CudaOnly(address=memory, stream=p), stream=-1)
                drv.write(p, memory)
                drv.set_current(None if current is None else drv.context(current))
                stack = drv.context_stack()
                drv.clear_log()
                said = tensor.__cuda_array_interface__
                waited = bool(BLOCKS & set(drv.calls()))
                assert said["stream"] == 1
                assert waited is not drv.has("cuCtxRecordEvent")
                assert drv.context_stack() == stack
                assert not drv.read(1, memory), (producer, current, device)
                ends_well(drv)


@checks.only_on(*CAPTURES)
def check_a_tensor_that_cannot_be_synced_says_so(drv: Driver) -> None:
    memory = drv.alloc(SIZE)
    tensor = dlshim.from_dlpack(CudaOnly(address=memory), stream=-1)
    capturing = drv.stream_new(0, True, name="C")
    drv.capture_begin(capturing, "relaxed")
    refused(lambda: tensor.__cuda_array_interface__, "Tensor", "capture")
    assert drv.capture_state(capturing) == "active"
    drv.capture_end(capturing)
    assert tensor.__cuda_array_interface__["stream"] == 1


@checks.on_cuda
def check_a_tensor_of_memory_that_the_host_reads(drv: Driver) -> None:
    p = stream_of(drv, "non-blocking", "P")
    for kind in ("pinned", "managed"):
        memory = drv.alloc(SIZE, kind=kind)
        drv.write(p, memory)
        tensor = dlshim.from_dlpack(CudaOnly(address=memory, stream=p))
        assert tensor.__cuda_array_interface__["stream"] is None, "the host has waited"
        assert not drv.host_read(memory, SIZE)


@checks.on_cuda
def check_another_threads_own_stream_has_no_name(drv: Driver) -> None:
    memory = drv.alloc(SIZE)
    made: list[Any] = []

    def elsewhere() -> None:
        drv.write(2, memory)
        tensor = dlshim.from_dlpack(CudaOnly(address=memory, stream=2), stream=2)
        assert tensor.__cuda_array_interface__["stream"] == 2
        made.append(tensor)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert made[0].__cuda_array_interface__["stream"] == 1
    assert not drv.read(1, memory)


# --- ROCm ---


@checks.on_hip
def check_what_the_interface_says_of_its_stream(drv: HipDriver) -> None:
    """1 is the null stream, for 0 is forbidden; 2 is hipStreamPerThread; on the memory's device."""
    warm(drv)
    for entry, device, current in itertools.product((1, 2, "P"), (0, 1), (0, 1)):
        drv.reset()
        s = drv.stream_new(device, False, name="S")
        p = {1: 0, 2: 2}.get(entry) if entry != "P" else drv.stream_new(device, False, name="P")
        drv.set_device(device)
        x = fake.Cai3(drv, p, entry=p if entry == "P" else entry, device=device)
        x.write()
        drv.set_device(current)
        drv.clear_log()
        given = caps.take(dlshim.upgrade(x).__dlpack__(stream=s))
        assert given.view.device == (10, device)
        name = {1: "0", 2: "PTDS", "P": "P"}[entry]
        assert Calls.at(drv, device).effects() == rocm.moved(
            Cell("cai 3", device=device, current=current),
            [f"hipEventRecord {name} on D", "hipStreamWaitEvent S on D"],
        )
        assert not drv.read(s, x.address) and drv.device() == current
        given.release()
    x = fake.Cai3(drv, 0, entry=0)
    with pytest.raises(BufferError, match="must not be 0"):
        dlshim.upgrade(x).__dlpack__(stream=s)


@checks.on_hip
def check_the_device_of_an_interface(drv: HipDriver) -> None:
    for device in (0, 1):
        for kind, label in (("device", (10, device)), ("pool", (10, device)), ("pinned", (11, 0))):
            drv.reset()
            x = fake.Cai3(drv, 0, entry=None, device=device, kind=kind)
            assert dlshim.upgrade(x).__dlpack_device__() == label
            given = caps.take(dlshim.upgrade(x).__dlpack__(stream=-1))
            assert given.view.device == label and given.view.data == x.address
            given.release()


@checks.on_hip
def check_an_interface_is_copied_to_the_host(drv: HipDriver) -> None:
    for producer, p in itertools.product(("cai 2", "cai 3"), ("L", "B", "N")):
        drv.reset()
        drv.set_device(1)
        x = libraries.ROCM.make[producer](drv, vendors.ROCM.stream(drv, p, 1), device=1)
        assert not x.write()
        drv.set_device(0)
        given = caps.take(dlshim.upgrade(x, device="cpu").__dlpack__(max_version=(1, 0)))
        assert given.view.device == (1, 0)
        assert given.view.values() == caps.numbers((2, 3), "float32")
        assert not drv.host_read(given.view.data, 24) and not drv.races(), drv.races()
        assert drv.device() == 0
        given.release()


@checks.on_hip
def check_cupys_arrays_have_no_interface(drv: HipDriver) -> None:
    """The property is an AttributeError on ROCm: nobody asks for it twice."""
    drv.reset()
    x = libraries.ROCM.make["cupy"](drv, 0)
    given = caps.take(dlshim.upgrade(x).__dlpack__(stream=-1))
    assert given.view.device == (10, 0)
    given.release()
    caps.close_accounts()


@checks.on_hip
def check_a_tensor_of_rocm_has_no_interface_of_cuda(drv: HipDriver) -> None:
    """Whoever reads it would ask libcuda for the pointer."""
    drv.reset()
    tensor = dlshim.from_dlpack(fake.NoKw(drv, 0), stream=-1)
    with pytest.raises(AttributeError, match="__cuda_array_interface__"):
        _ = tensor.__cuda_array_interface__
    assert not hasattr(dlshim.upgrade(fake.NoKw(drv, 0)), "__cuda_array_interface__")
    del tensor
    caps.close_accounts()


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), ALL_LIVE))
def test_cuda_interface(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]


# --- drivers that do not work --------------------------------------------------------------

NO_SERVICE = """
import dlshim
from doubles.cuda_interface import CudaOnly, empty
import pytest

for stream in (None, -1, 1):
    with pytest.raises(BufferError, match=arguments[0]):
        dlshim.upgrade(CudaOnly(address=4096)).__dlpack__(stream=stream)
    dlshim.upgrade(empty()).__dlpack__(stream=stream)
"""


@pytest.mark.parametrize(("variant", "words"), [("stub", "stub.*34"), ("nodev", "no device.*100")])
def test_a_driver_that_does_not_work(variant: str, words: str) -> None:
    run_with_driver(variant, NO_SERVICE, words)


def test_empty_arrays_load_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """One lies where the loader looks; a look at it would map it."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(built("13.0").parent))
    child.program("driver_mapped")
