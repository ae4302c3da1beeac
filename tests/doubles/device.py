"""Fake producers of device memory, over a fake driver: real calls, in the real order.

The vendor is the driver's (:mod:`doubles.vendors`): what a library does otherwise on ROCm stands in
its class.  On ROCm nobody here changes the current device, for the libraries do not.

Each is made from the driver's control, the stream P on which its unfinished work lies, and what the
array looks like: ``TorchLike(drv, P, device=0, shape=(2, 3))``.  ``write()`` puts a kernel on P
that writes the memory.  An export then does to the driver exactly what the library does, by the
driver's own functions, with the contexts that it pushes, and these calls are logged as made by
"producer": ``drv.log(by="")`` is what everyone else did.  ``keywords`` tells how each export was
asked for, ``deletions`` how many were given back.

One thing is kinder than life: where the CUDA runtime would leave the primary context current on
a thread that had none, these pop it again, so that a changed stack is always someone else's.

``named(cls)`` is the same class under the library's own name, by which rules that are kept per
library find it.
"""

from __future__ import annotations

import ctypes as C
import functools
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from drivers.control import LEGACY, PER_THREAD, Driver

from . import capsules as caps
from . import streams, vendors
from .capsules import CPU, IS_COPIED, Made
from .cuda_interface import CudaOnly, LazyPair
from .producers import ALL_KEYWORDS, Array, Dunder, masquerade, wants_versioned
from .vendors import DISABLE_TIMING

PRODUCER = "producer"


class DriverFailure(RuntimeError):
    """What the library raises when a driver call fails, such as "CUDA error: 400"."""


class Memory:
    """An allocation, how it is laid out, and the stream on which its owner works."""

    def __init__(
        self,
        drv: Any,
        stream: int,
        *,
        device: int = 0,
        kind: str = "device",
        shape: Sequence[int] = (2, 3),
        dtype: str = "float32",
        strides: Sequence[int] | None = None,
        start: int = 0,
        address: int | None = None,
        context: int | None = None,
    ) -> None:
        self.drv, self.stream, self.kind = drv, stream, kind
        self.index = device
        self.context = context or drv.context(device)
        values = bytes(caps.filled(shape, dtype, strides, start))
        if address is None:
            address = drv.alloc(len(values), device, kind, context=self.context)
            drv.put(address, values)
        self.base = address
        self.size = len(values)

    def write(self) -> bool:
        """A kernel on P writes the memory: whether it was racy."""
        return self.drv.write(self.stream, self.base, context=self.context)

    def fill(self, values: bytes) -> None:
        """New bytes, as if the last kernel had written them."""
        self.drv.put(self.base, values)


class OnDevice(Array):
    """The producers' common part; `drv`, P and the layout as in :class:`Memory`.  P is the default
    stream where it is not given.

    `rewrites`: when an export is given back, the library at once writes the memory again on P,
    as an allocator does that hands the block to the next array.
    """

    KIND = "device"
    LIBRARY = ("", "")  # module and name of the real class

    def __init__(
        self,
        drv: Any,
        stream: int | None = None,
        *,
        device: int = 0,
        kind: str | None = None,
        shape: Sequence[int] = (2, 3),
        dtype: str = "float32",
        strides: Sequence[int] | None = None,
        start: int = 0,
        address: int | None = None,
        context: int | None = None,
        readonly: bool = False,
        rewrites: bool = False,
        **fields: Any,
    ) -> None:
        self.kind = kind or self.KIND
        self.vendor = vendors.of(drv)
        stream = self.vendor.legacy if stream is None else stream
        self.own = Memory(
            drv, stream, device=device, kind=self.kind, shape=shape, dtype=dtype,
            strides=strides, start=start, address=address, context=context,
        )  # fmt: skip
        self.drv, self.stream, self.index = drv, stream, device
        self.address, self.context = self.own.base, self.own.context
        self.rewrites = rewrites
        where = self.vendor.device_of(self.kind, device)
        memory = (C.c_char * self.own.size).from_address(self.address)
        super().__init__(
            shape, dtype, strides=strides, start=start, device=where, readonly=readonly,
            memory=memory, **fields,
        )  # fmt: skip

    # what a test asks

    def write(self) -> bool:
        """A kernel on P writes the memory: whether it was racy."""
        return self.own.write()

    @property
    def deletions(self) -> int:
        """Deleter calls over all exports."""
        return sum(made.deleted for made in self.exports)

    # what libraries do

    def _export(self, version: tuple[int, int] | None, **fields: Any) -> Made:
        if self.rewrites:
            fields.setdefault("on_delete", self.write)
        return super()._export(version, **fields)

    def answer_in(self, max_version: Any, **fields: Any) -> Any:
        """A capsule in the generation that was asked for."""
        return self._versioned(**fields) if wants_versioned(max_version) else self._legacy()

    @contextmanager
    def calls_in(self, context: int | None = None) -> Iterator[None]:
        """The library's own calls, with the context that it pushes; in HIP there is none."""
        with self.drv.caller(PRODUCER):
            if self.vendor.is_hip:
                yield
                return
            self.do("cuCtxPushCurrent_v2", context or self.context)
            try:
                yield
            finally:
                self.drv.cu.cuCtxPopCurrent_v2(None)

    def do(self, name: str, *arguments: Any) -> None:
        rc = getattr(self.drv.cu, name)(*arguments)
        if rc:
            raise DriverFailure(f"{self.vendor.word} error: {rc} from {name}")

    def current_device(self) -> int:
        with self.drv.caller(PRODUCER):
            return get_device(self.drv)

    def edge(self, p: int, s: int, flags: int = DISABLE_TIMING, context: int | None = None) -> None:
        """S waits for an event recorded on P, by an event of the context."""
        event = C.c_void_p()
        with self.calls_in(context):
            self.do(self.vendor.create_event, C.byref(event), flags)
            try:
                self.do(self.vendor.record, event, p)
                self.do(self.vendor.wait, s, event, 0)
            finally:
                self.do(self.vendor.destroy_event, event)

    def wait_for(self, stream: int) -> None:
        with self.calls_in():
            self.do(self.vendor.stream_sync, stream)

    def copy_out(self, to: int, stream: int) -> None:
        """The whole allocation to `to`, through `stream`, waited for."""
        name, kind = self.vendor.to_host, self.vendor.to_host_kind
        with self.calls_in():
            self.do(name, to, self.address, self.own.size, *kind, stream)
            self.do(self.vendor.stream_sync, stream)

    def to_host(self, max_version: Any, stream: int, flags: int = IS_COPIED) -> Any:
        """A copy in pageable memory, through `stream`, complete when it is given."""
        staged = (C.c_char * self.own.size)()
        self.copy_out(C.addressof(staged), stream)
        block = caps.filled(self.shape, self.dtype)
        size = caps.itemsize_of(self.dtype)
        for k, offset in enumerate(caps.offsets(self.shape, self.strides)):
            source = C.addressof(staged) + (self.start + offset) * size
            C.memmove(C.addressof(block) + k * size, source, size)
        versioned = wants_versioned(max_version)
        made = self._export(
            self.version if versioned else None,
            device=CPU,
            strides=caps.row_major(self.shape),
            start=0,
            byte_offset=0,
            memory=block,
            owner=None,
            on_delete=lambda: caps.poison(block),
            **({"flags": flags} if versioned else {}),
        )
        return made.capsule()


class DeviceArray(OnDevice, Dunder):
    """The common part of those with `__dlpack__`."""


@functools.cache
def named(cls: type) -> type:
    """The class under its library's name: ``named(TorchLike)`` passes for `torch.Tensor`."""
    module, name = cls.LIBRARY
    assert module, f"{cls.__name__} stands for no one library"
    return masquerade(cls, name, module)


def get_device(drv: Any) -> int:
    """`cudaGetDevice` (the current context's, and 0 for a thread that has none), `hipGetDevice`."""
    value = C.c_int()
    rc = getattr(drv.cu, vendors.of(drv).get_device)(C.byref(value))
    if rc and (rc, vendors.of(drv)) != (201, vendors.CUDA):
        raise DriverFailure(f"error: {rc} from {vendors.of(drv).get_device}")
    return 0 if rc else value.value


# --- torch ------------------------------------------------------------------------------


class TorchDevices:
    """The current device as torch 2.1 to 2.15 sees it on one thread.

    pytorch/pytorch `c10/cuda/CUDAFunctions.cpp` (68e217b), built for CUDA 12: a device that has no
    context is only noted when a guard is left (`targetDeviceIndex`), and the note goes before what
    the runtime says.  `cudaSetDevice` makes the device's primary context the current one.  Built
    for ROCm, as for a `CUDA_VERSION` below 12000, it is the runtime's current device, and nothing
    else is noted.
    """

    def __init__(self, drv: Any) -> None:
        self.drv, self.target, self.is_hip = drv, -1, vendors.of(drv).is_hip
        self.unused: set[int] = set()  # devices to be taken for without a context

    def runtime(self) -> int:
        """`cudaGetDevice`; of HIP the log tells nothing, for it is asked around its own calls."""
        return self.drv.device() if self.is_hip else get_device(self.drv)

    def set_runtime(self, device: int) -> None:
        if self.is_hip:
            self.drv.call("hipSetDevice", device)
        else:
            self.drv.call("cuCtxSetCurrent", self.drv.context(device))

    def get(self) -> int:
        """`GetDevice`."""
        with self.drv.caller(PRODUCER):
            return self.target if self.target >= 0 else self.runtime()

    def exchange(self, device: int) -> int:
        """`ExchangeDevice`, which `torch.cuda.device(i).__enter__` calls."""
        with self.drv.caller(PRODUCER):
            before, self.target = self.target, -1
            if before < 0:
                before = self.runtime()
                if before == device:
                    return before
            self.set_runtime(device)
            return before

    def maybe_exchange(self, device: int) -> int:
        """`MaybeExchangeDevice`, which `__exit__` calls."""
        if self.is_hip:
            return self.exchange(device)
        with self.drv.caller(PRODUCER):
            before = self.runtime()
            if before == device:
                return before
            if device not in self.unused and self.drv.primary_active(device):
                self.set_runtime(device)
            else:
                self.target = device
            return before


class TorchGuard:
    """`torch.cuda.device(i)` (`torch/cuda/__init__.py`)."""

    def __init__(self, devices: TorchDevices, index: int) -> None:
        self.devices, self.index, self.before = devices, index, -1

    def __enter__(self) -> None:
        self.before = self.devices.exchange(self.index)

    def __exit__(self, *raised: object) -> bool:
        self.index = self.devices.maybe_exchange(self.before)
        return False


@functools.cache
def torch_devices(drv: Any) -> TorchDevices:
    """That of the driver's torch."""
    return TorchDevices(drv)


def current_of_torch(x: OnDevice) -> int:
    """What the library's own call finds."""
    return OnDevice.current_device(x) if x.vendor.is_hip else torch_devices(x.drv).get()


class TorchLike(DeviceArray):
    """torch 2.10 to 2.15, `torch/_tensor.py` `Tensor.__dlpack__`.

    Omitted is -1, which syncs nothing; None is an edge to the default stream, whose handle is 0.
    BufferError for 2, AssertionError for 0 (on ROCm for 1 and 2), TypeError for anything but int
    (bool too), and BufferError while another device is current, whatever the stream.  P is the
    current stream of the array's device; no edge when that is the consumer's.  Says 1.3 when asked
    for a version; a copy for `dl_device` is not flagged and runs on the current stream.
    """

    TAKES = ALL_KEYWORDS
    LIBRARY = ("torch", "Tensor")
    OMITTED: Any = -1

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **({"version": (1, 3)} | kwargs))

    def answer(self, **asked: Any) -> Any:
        stream = asked.get("stream", self.OMITTED)
        self.insist_on_the_current_device()
        if stream is not None and type(stream) is not int:
            raise TypeError("stream must be ``int`` or ``none``")
        if stream != -1:
            self.sync(stream)
        max_version, target = asked.get("max_version"), asked.get("dl_device")
        if target is not None and tuple(target) != self.device:
            if tuple(target) != CPU:
                raise BufferError(f"cannot move the tensor to {tuple(target)}")
            if asked.get("copy") is False:
                raise ValueError("cannot move the tensor without copying it")
            return self.to_host(max_version, self.stream, flags=0)
        if asked.get("copy"):
            return self.answer_in(max_version, flags=0, data=self.clone())
        return self.answer_in(max_version, flags=0)

    def current_device(self) -> int:
        return current_of_torch(self)

    def clone(self) -> int:
        """`at::maybeCopyTensor` (`aten/src/ATen/DLConvertor.cpp`, commit 04c86e56): a kernel on
        the current stream, which the consumer's does not wait for any more."""
        address = self.drv.alloc(self.own.size, self.index, context=self.context)
        self.drv.put(address, self.drv.bytes_at(self.address, self.own.size))
        assert not self.drv.read(self.stream, self.address, context=self.context)
        assert not self.drv.write(self.stream, address, context=self.context)
        return address

    def insist_on_the_current_device(self) -> None:
        current = self.current_device()
        if current != self.index:
            raise BufferError(
                "Can't export tensors on a different CUDA device index. "
                f"Expected: {self.index}. Current device: {current}."
            )

    def sync(self, stream: int | None) -> None:
        vendor = self.vendor
        if stream == PER_THREAD and not vendor.is_hip:
            raise BufferError("per-thread default stream is not supported.")
        if stream in ((1, 2) if vendor.is_hip else (0,)):
            raise AssertionError(f"unsupported stream on {vendor.word}: {stream}.")
        if stream is None or stream == vendor.legacy:
            stream = 0
        if not vendor.same(stream, self.stream):
            self.edge(self.stream, stream)


class Torch29(TorchLike):
    """torch 2.9, the same but that an omitted stream is None: an edge to the default stream."""

    OMITTED = None


class CurrentStreams(DeviceArray):
    """Libraries that take the current stream of the *current* device for P.

    `current` gives the library's current stream by device; where it says nothing that is the
    array's P on its own device and the legacy stream on others.
    """

    def __init__(self, *args: Any, current: dict[int, int] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.current = {self.index: self.stream} | (current or {})

    def edge_from_current(self, stream: int, flags: int) -> None:
        here = self.current_device()
        p = self.current.get(here, self.vendor.legacy)
        if not self.vendor.same(p, stream):
            self.edge(p, stream, flags, context=self.drv.context(here))


class TorchOld(CurrentStreams):
    """torch 2.8, `torch/_tensor.py`: `__dlpack__(self, stream=None)`, always legacy.

    Omitted, None and -1 sync nothing.  1 (on ROCm 0) is the default stream; all others are taken
    for handles as they are.  The event is recorded on the current stream of the current device,
    which is not checked against the array's.
    """

    TAKES = ("stream",)
    POSITIONAL = 1
    LIBRARY = ("torch", "Tensor")

    def answer(self, stream: Any = None) -> Any:
        if stream is not None and type(stream) is not int:
            raise TypeError("stream must be ``int`` or ``none``")
        if stream is not None and stream != -1:
            self.edge_from_current(0 if stream == self.vendor.legacy else stream, DISABLE_TIMING)
        return self._legacy()

    def current_device(self) -> int:
        return current_of_torch(self)


class TorchPinned(DeviceArray):
    """torch's pinned tensors: the device is (3, 0) but the capsule says (1, 0); any stream but
    None and -1 is an AssertionError; the default is -1 (2.10 to 2.15, `torch/_tensor.py`)."""

    KIND = "pinned"
    TAKES = ALL_KEYWORDS
    LIBRARY = ("torch", "Tensor")

    def answer(self, stream: Any = -1, max_version: Any = None, **asked: Any) -> Any:
        if stream not in (None, -1):
            raise AssertionError("stream should be None on cpu.")
        fields = {"device": CPU}
        if wants_versioned(max_version):
            return self._versioned(flags=0, **fields)
        return self._legacy(**fields)


# --- other libraries that honour the stream -----------------------------------------------


class CupyLike(CurrentStreams):
    """CuPy 14 and 15, `cupy/_core/core.pyx` `__dlpack__`.

    Omitted and None are an edge to the legacy stream, -1 nothing, 0 a warning and the legacy
    stream; no int (and less than -1) is a ValueError, but a bool passes.  The event, made with
    timing, is recorded on the current stream of the current device, whatever the array's.
    On ROCm 0 is the default stream, and 1 and 2 are a ValueError.
    With `dl_device` (1, 0): a copy through the current stream that was waited for, or for managed
    memory the memory itself, still called managed; `copy=True` otherwise BufferError.
    """

    TAKES = ALL_KEYWORDS
    LIBRARY = ("cupy", "ndarray")
    TIMING = 0

    def answer(
        self, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        to_cpu = dl_device is not None and tuple(dl_device) != self.device
        if to_cpu and tuple(dl_device) != CPU:
            raise BufferError("unsupported device requested.")
        if to_cpu and copy is False and self.kind != "managed":
            raise ValueError("GPU memory cannot be exported to CPU without copy.")
        if not to_cpu and copy:
            raise BufferError("copy=True only supported for copy to CPU.")
        if not (to_cpu and stream is None):
            self.sync(stream)
        if not to_cpu:
            return self.answer_in(max_version)
        stream = self.current.get(self.current_device(), self.vendor.legacy)
        if self.kind == "managed" and not copy:
            self.wait_for(stream)
            return self.answer_in(max_version)
        return self.to_host(max_version, stream)

    def sync(self, stream: Any) -> None:
        if stream is None:
            stream = self.vendor.legacy
        self.insist_on_a_stream(stream)
        if stream == 0 and not self.vendor.is_hip:
            warnings.warn(
                "Stream 0 is passed from a library that you are converting to", stacklevel=4
            )
            stream = LEGACY
        if stream != -1:
            self.edge_from_current(int(stream), self.TIMING)

    def insist_on_a_stream(self, stream: Any) -> None:
        vendor, valid = self.vendor, "-1, 1, 2, or any larger value"
        if vendor.is_hip:
            valid = "-1, 0, or any value > 2"
        reserved = (1, 2) if vendor.is_hip else ()
        if not isinstance(stream, int) or stream < -1 or stream in reserved:
            name = "ROCm/HIP" if vendor.is_hip else "CUDA"
            raise ValueError(
                f"On {name}, the valid stream for the DLPack protocol is {valid}, "
                f"but {stream} was provided"
            )


class Cupy13(CupyLike):
    """CuPy 13.0 to 13.3: the same with the keyword `stream` alone, always legacy."""

    TAKES = ("stream",)

    def answer(self, stream: Any = None) -> Any:
        self.sync(stream)
        return self._legacy()


class _NoInterface:
    """`cupy/_core/core.pyx`: on ROCm `__cuda_array_interface__` is an AttributeError."""

    @property
    def __cuda_array_interface__(self) -> Any:
        raise AttributeError("HIP/ROCm does not support cuda array interface")


class CupyRocm(_NoInterface, CupyLike):
    """CuPy built for ROCm."""


class Cupy13Rocm(_NoInterface, Cupy13):
    """CuPy 10 to 13 built for ROCm."""


class CupyManaged(CupyLike):
    """CuPy over managed memory: device 13."""

    KIND = "managed"


class JaxLike(DeviceArray):
    """JAX 0.10 and 0.11, `jax/_src/array.py` and `jaxlib/dlpack.cc`: legacy whatever was asked.

    Omitted and None make the host wait until the array is ready.  Any int goes to the driver as a
    handle, -1 and 0 too: the stream waits for the event of the array's definition.
    """

    TAKES = ALL_KEYWORDS
    LIBRARY = ("jaxlib._jax", "ArrayImpl")

    def answer(
        self, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        if stream is None:
            self.wait_for(self.stream)
        elif not isinstance(stream, int):
            raise TypeError("buffer_to_dlpack_managed_tensor(): incompatible function arguments")
        else:
            self.edge(self.stream, stream % 2**64)
        if dl_device is not None and tuple(dl_device) != self.device:
            if tuple(dl_device) != CPU or copy is False:
                raise BufferError("unsupported device")
            return self.to_host(None, self.stream)
        return self._legacy()


class WarpDevice(tuple):
    """The device of DLPack, and `warp.Device.stream`: the stream that Warp works on there."""

    stream: streams.WarpStream


class WarpLike(DeviceArray):
    """Warp 1.19, `warp/_src/types.py` `array.__dlpack__(self, stream=None)`, legacy.

    Omitted and None are an edge to the legacy stream, -1 nothing, 0 a handle; TypeError for less
    than -1 and for what is no int.  P is the stream of the array's own device.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.device = WarpDevice(self.device)
        self.device.stream = streams.WarpStream(
            0 if self.stream == self.vendor.legacy else self.stream
        )

    TAKES = ("stream",)
    POSITIONAL = 1
    LIBRARY = ("warp._src.types", "array")

    def answer(self, stream: Any = None) -> Any:
        if stream is None:
            stream = self.vendor.legacy
        elif not isinstance(stream, int) or stream < -1:
            raise TypeError("DLPack stream must None or an integer >= -1")
        if stream not in (-1, self.stream):
            self.edge(self.stream, stream)
        return self._legacy()


class Careful(DeviceArray):
    """A library of ROCm that nobody has heard of: keeps the rules, sets its array's device and
    restores the one that was current."""

    TAKES = ("stream",)

    @contextmanager
    def calls_in(self, context: int | None = None) -> Iterator[None]:
        with self.drv.caller(PRODUCER):
            before = get_device(self.drv)
            self.do("hipSetDevice", self.index)
            try:
                yield
            finally:
                self.do("hipSetDevice", before)

    def answer(self, stream: Any = None) -> Any:
        stream = self.vendor.legacy if stream is None else stream
        if not isinstance(stream, int) or stream < -1 or stream in (1, 2):
            raise TypeError("not a stream of ROCm")
        if stream not in (-1, self.stream):
            self.edge(self.stream, stream)
        return self._legacy()


class PaddleOld(DeviceArray):
    """Paddle 3.0 to 3.2, `python/paddle/base/dygraph/tensor_patch_methods.py` `__dlpack__(self,
    stream=None)` before PaddlePaddle/Paddle#76840: for every value but None, -1 and 1 too, the host
    waits for the current stream; an int never equals its Stream."""

    TAKES = ("stream",)
    POSITIONAL = 1
    LIBRARY = ("paddle", "Tensor")

    def answer(self, stream: Any = None) -> Any:
        if stream is not None:
            self.wait_for(self.stream)
        return self._legacy()


class PaddleDevices:
    """`paddle.device` and Paddle's current device, which is the process's and not the driver's:
    the number of a GPU, or None for the CPU (`python/paddle/device/__init__.py`, 3.3.1)."""

    def __init__(self) -> None:
        self.place: int | None = 0

    def get_device(self) -> str:
        return "cpu" if self.place is None else f"gpu:{self.place}"

    @contextmanager
    def device_guard(self, device: str) -> Iterator[None]:
        before, self.place = self.place, int(device.removeprefix("gpu:"))
        try:
            yield
        finally:
            self.place = before


PADDLE = PaddleDevices()


class Paddle(CurrentStreams):
    """Paddle 3.3.1, the same file: omitted, None and 1 are an edge to the legacy stream, -1 is
    nothing, TypeError for what is no int, ValueError for 0 and 2.  The event is recorded on the
    current stream of Paddle's current device, whatever the array's; the CPU has no such number.
    What `dl_device` and `copy` do is C++, which its wheel does not show: they are TypeErrors
    here."""

    TAKES = ("stream", "max_version")
    LIBRARY = ("paddle", "Tensor")

    def current_device(self) -> int:
        if PADDLE.place is None:
            raise AttributeError("'CPUPlace' object has no attribute 'get_device_id'")
        return PADDLE.place

    def answer(self, stream: Any = None, max_version: Any = None) -> Any:
        if stream is not None and not isinstance(stream, int):
            raise TypeError("stream must be an integer or None.")
        if stream in (0, 2):
            raise ValueError(f"For CUDA, stream={stream} is not supported.")
        assert stream is None or stream >= -1, "stream should be a valid stream pointer."
        if stream != -1:
            consumer = self.vendor.legacy if stream is None else stream
            self.edge_from_current(consumer, DISABLE_TIMING)
        return self.answer_in(max_version)


# --- producers that refuse streams, but not by a TypeError ------------------------------------


class MaxBuffer(DeviceArray):
    """MAX 26.7, `max._core.driver.Buffer.__dlpack__(self, *, stream: int | None = None, **kwargs)`,
    an unsigned number: -1 is a TypeError.  Nobody says what it does for None; here nothing."""

    TAKES = ALL_KEYWORDS
    LIBRARY = ("max._core.driver", "Buffer")

    def answer(self, stream: Any = None, max_version: Any = None, **ignored: Any) -> Any:
        if stream is not None:
            if type(stream) is not int or stream < 0:
                raise TypeError("__dlpack__(): incompatible function arguments")
            self.edge(self.stream, stream)
        return self.answer_in(max_version)


class JaxWithoutStreams(JaxLike):
    """JAX on a PJRT plugin that has no stream extension: XlaRuntimeError, which is a RuntimeError
    (openxla/xla `xla/pjrt/c_api_client/pjrt_c_api_client.cc`
    `PjRtCApiExternalReference::WaitUntilBufferReadyOnStream`, 138cd58)."""

    def answer(self, stream: Any = None, **asked: Any) -> Any:
        if stream is not None:
            raise RuntimeError(
                "UNIMPLEMENTED: Stream extension not implemented in this PJRT plugin."
            )
        return super().answer(**asked)


class Refusing(DeviceArray):
    """Takes the keyword `stream`, refuses every value but None by `error`, and syncs nothing."""

    TAKES = ("stream",)
    error: type[Exception] = NotImplementedError

    def answer(self, stream: Any = None) -> Any:
        if stream is not None:
            raise self.error("streams are not supported: pass None")
        return self._legacy()


class VideoPlane(Refusing):
    """A plane of PyAV's CUDA frames (PyAV-Org/PyAV `av/video/plane.py`, 7dee9f0f), which says "Pass
    stream=None and synchronize before calling __dlpack__"."""

    LIBRARY = ("av.video.plane", "VideoPlane")


# --- producers that sync nothing -----------------------------------------------------------


class Silent(DeviceArray):
    """Takes every keyword and does nothing with the stream: nanobind's nb_ndarray
    (`src/nb_ndarray.cpp`), tvm-ffi (`cython/tensor.pxi`), cuda.core's Buffer, JAX's FFI Buffer.
    BufferError for another `dl_device`."""

    TAKES = ALL_KEYWORDS
    LIBRARY = ("nanobind", "nb_ndarray")

    def answer(self, max_version: Any = None, dl_device: Any = None, **asked: Any) -> Any:
        if dl_device is not None and tuple(dl_device) != self.device:
            raise BufferError("unsupported dl_device")
        return self.answer_in(max_version)


class PinnedBuffer(Silent):
    """cuda.core's Buffer over pinned memory, `cuda/core/_memory/_buffer.pyx`: device (3, 0)."""

    KIND = "pinned"
    LIBRARY = ("cuda.core._memory._buffer", "Buffer")


class NvcvLike(DeviceArray):
    """CV-CUDA, `python/mod_nvcv/ExternalBuffer.cpp` (CVCUDA/CV-CUDA@da51fc96): `__dlpack__`
    with `stream=1` looks at no stream and answers legacy; of what it was given by the CUDA array
    interface it says device 0.  Its work is in `nvcv.cuda.Stream.current`
    (`python/mod_nvcv/Stream.cpp`)."""

    TAKES = ("stream",)
    POSITIONAL = 1
    LIBRARY = ("nvcv", "ExternalBuffer")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.device = (2, 0)

    def answer(self, stream: Any = 1) -> Any:
        return self._legacy()


class GpuMatLike(NvcvLike):
    """OpenCV 5.0, `modules/core/misc/python/pyopencv_core.hpp` (`to_dlpack`): the stream is parsed
    as a C int, so None is a TypeError and a handle an OverflowError; every keyword is taken and
    none is heeded; always legacy, and the device is always 0."""

    TAKES = ALL_KEYWORDS
    LIBRARY = ("cv2.cuda", "GpuMat")

    def answer(self, stream: Any = 0, **asked: Any) -> Any:
        if type(stream) is not int:
            raise TypeError("'NoneType' object cannot be interpreted as an integer")
        if not -(2**31) <= stream < 2**31:
            raise OverflowError("signed integer is greater than maximum")
        return self._legacy()


class CtypesArray(Silent):
    """ctypes-dlpack 0.1.1, `ctypes_dlpack/_dlpack.py` (`DLPackArray`): RuntimeError for every
    stream but None, BufferError for copy=True."""

    LIBRARY = ("ctypes_dlpack._dlpack", "DLPackArray")

    def answer(self, stream: Any = None, copy: Any = None, **asked: Any) -> Any:
        if stream is not None:
            raise RuntimeError("only `stream=None` is currently supported")
        if copy:
            raise BufferError("only `copy=False` is supported")
        return super().answer(**asked)


class ValiLike(DeviceArray):
    """VALI, `src/python_vali/src/PySurface.cpp` (RomanArzumanyan/VALI@2e29773): `__dlpack__`
    with `stream=0` takes an int, TypeError for None, and does nothing with it; always legacy.  The
    capsule does not keep the surface (`src/TC/src/SurfacePlane.cpp`, `ToDLPack`)."""

    TAKES = ("stream",)
    POSITIONAL = 1
    LIBRARY = ("python_vali._python_vali", "Surface")

    def answer(self, stream: Any = 0) -> Any:
        if type(stream) is not int:
            raise TypeError("__dlpack__(): incompatible function arguments")
        return self._legacy()


class NoKw(DeviceArray):
    """`__dlpack__(self)` without any keyword: MLX 0.14 to 0.31, JAX 0.3.15."""

    TAKES = ()

    def answer(self) -> Any:
        return self._legacy()


class TensorFlowLike(DeviceArray):
    """TensorFlow 2.21, `tensorflow/python/framework/ops.py`: RuntimeError for any stream but None,
    for a device and for a copy; reading the handle blocks the host until the operation is done.

    `label`: the device that it says, TensorFlow's own number (`tensorflow/c/eager/dlpack.cc`,
    GetDlContext), and a GPU for int32 that lies on the host (tensorflow#41307)."""

    TAKES = ALL_KEYWORDS
    LIBRARY = ("tensorflow.python.framework.ops", "EagerTensor")

    def __init__(self, *args: Any, label: tuple[int, int] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.device = label or self.device

    def answer(
        self, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        for name, value in (("stream", stream), ("dl_device", dl_device), ("copy", copy or None)):
            if value is not None:
                raise RuntimeError(f"tf.Tensor does not support DLPack export with {name}={value}")
        self.wait_for(self.stream)
        return self._legacy()


class RawFn(OnDevice):
    """A function that gives a legacy capsule and syncs nothing: `torch.utils.dlpack.to_dlpack`,
    `paddle.utils.dlpack.to_dlpack`.  Call it."""

    def __call__(self, version: tuple[int, int] | None = None) -> Any:
        self.calls.append(((), {}))
        return self._legacy() if version is None else self._export(version, flags=0).capsule()


class ToDlpack(OnDevice):
    """An object with `toDlpack()` and nothing else: CuPy 9 and older, which synced nothing."""

    def toDlpack(self) -> Any:
        self.calls.append(((), {}))
        return self._legacy()


# --- host memory, strict about streams --------------------------------------------------------


class NumPyLike(Dunder):
    """NumPy 2.1 and newer: RuntimeError for any stream but None, -1 too; host memory."""

    TAKES = ALL_KEYWORDS

    def answer(self, stream: Any = None, max_version: Any = None, **asked: Any) -> Any:
        if stream is not None:
            raise RuntimeError("NumPy only supports stream=None.")
        return self._versioned() if wants_versioned(max_version) else self._legacy()


class PyArrowLike(Dunder):
    """pyarrow's Tensor (`pyarrow/tensor.pxi`): NotImplementedError for any stream but None."""

    TAKES = ("stream",)

    def answer(self, stream: Any = None) -> Any:
        if stream is not None:
            raise NotImplementedError("Only stream=None is supported.")
        return self._legacy()


# --- the CUDA array interface -------------------------------------------------------------------


class Cai(CudaOnly):
    """`__cuda_array_interface__` alone, over memory of the fake driver; `times_asked` counts.

    `entry` is what the dict says about its stream (P, None, 0, 1, 2, a handle, or DROP for no such
    key); where it is not given, the ENTRY of the class.  0 is not allowed there, so HIP's default
    stream is 1.  Nothing is recorded and nobody waits: the dict is all there is.
    """

    VERSION = 3
    P: Any = object()
    ENTRY: Any = P

    def __init__(
        self,
        drv: Any,
        stream: int | None = None,
        *,
        entry: Any = P,
        device: int = 0,
        kind: str = "device",
        shape: Sequence[int] = (2, 3),
        dtype: str = "float32",
        address: int | None = None,
        context: int | None = None,
        **fields: Any,
    ) -> None:
        self.vendor = vendors.of(drv)
        stream = self.vendor.legacy if stream is None else stream
        self.own = Memory(
            drv, stream, device=device, kind=kind, shape=shape, dtype=dtype, address=address,
            context=context,
        )  # fmt: skip
        self.drv, self.stream, self.index = drv, stream, device
        self.address, self.context = self.own.base, self.own.context
        entry = self.ENTRY if entry is self.P else entry
        entry = (stream or LEGACY) if entry is self.P else entry
        given = 0 if 0 in shape else self.address
        super().__init__(shape, dtype, address=given, version=self.VERSION, stream=entry, **fields)

    write = OnDevice.write


class Cai0(Cai):
    """Version 0, no stream: rmm's DeviceBuffer and cuDF's buffers."""

    VERSION, ENTRY = 0, CudaOnly.DROP


class Cai1(Cai):
    """Version 1, with a mask that is None: numba of 2019."""

    VERSION, ENTRY = 1, CudaOnly.DROP

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._entries["mask"] = None


class Cai2(Cai):
    """Version 2, no stream, no wait: torch (`torch/_tensor.py`), JAX (`jaxlib/py_array.cc`),
    Warp (`warp/_src/types.py`)."""

    VERSION, ENTRY = 2, CudaOnly.DROP


class Cai3(Cai):
    """Version 3: numba-cuda (its array's default stream), CuPy (its current stream; 1 or 2 for 0).

    As numba has it `stream` is also an attribute of the object.
    """


class NumbaLike(Cai3):
    """numba-cuda, `numba_cuda/numba/cuda/cudadrv/devicearray.py` (NVIDIA/numba-cuda@b18b944b):
    `stream` is 0 where none was chosen, and the dict then says None; kernels and copies without a
    stream are in the default stream all the same."""

    LIBRARY = ("numba.cuda.cudadrv.devicearray", "DeviceNDArray")

    def __init__(self, drv: Driver, stream: int = LEGACY, **keywords: Any) -> None:
        entry = None if stream == LEGACY else stream
        super().__init__(drv, stream, entry=entry, **keywords)
        self.stream = 0 if stream == LEGACY else stream


class PycudaLike(Cai3):
    """PyCUDA, `pycuda/gpuarray.py` `GPUArray` (inducer/pycuda@19bed90): version 3, and always
    `"stream": None`; operations without a stream are in the default stream."""

    LIBRARY = ("pycuda.gpuarray", "GPUArray")
    ENTRY = None


class RmmLike(Cai0):
    """rmm, `python/rmm/rmm/pylibrmm/device_buffer.pyx` `DeviceBuffer` (rapidsai/rmm@5d50a37b):
    version 0; the stream of its allocation is a member that Python cannot see."""

    LIBRARY = ("rmm.pylibrmm.device_buffer", "DeviceBuffer")


class CudfColumn(Cai1):
    """cuDF, `python/cudf/cudf/core/column/column.py` `ColumnBase` (rapidsai/cudf@6a22d1d2f90):
    version 1; the work is in pylibcudf's default stream, which is L, or with
    CUDF_PER_THREAD_STREAM=1 the per-thread one (`python/pylibcudf/pylibcudf/utils.pyx`)."""

    LIBRARY = ("cudf.core.column.column", "ColumnBase")


class PylibcudfLike(Cai3):
    """pylibcudf, `python/pylibcudf/pylibcudf/column.pyx` `OwnerWithCAI` and `gpumemoryview.pyx`
    (rapidsai/cudf@6a22d1d2f90): version 3 without a stream, though nobody has waited."""

    LIBRARY = ("pylibcudf.gpumemoryview", "gpumemoryview")
    ENTRY = CudaOnly.DROP


class RaftLike(PylibcudfLike):
    """pylibraft, `python/pylibraft/pylibraft/common/device_ndarray.py` (rapidsai/raft@2141422b1):
    NumPy's dict with another address, so version 3 without a stream."""

    LIBRARY = ("pylibraft.common.device_ndarray", "device_ndarray")


class CuvsLike(Cai2):
    """cuVS, `python/cuvs/cuvs/common/device_tensor_view.pyx` (rapidsai/cuvs@ff0c8076b)."""

    LIBRARY = ("cuvs.common.device_tensor_view", "DeviceTensorView")


class CudfLike(Cai0):
    """cuDF's spillable buffers (`cudf/core/buffer/spillable_buffer.py`): `data` is a Sequence, no
    tuple, and looks the pointer up when asked; each look-up pins the buffer. `asked` lists them."""

    LIBRARY = ("cudf.core.buffer.spillable_buffer", "SpillableBufferCAIWrapper")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pair = LazyPair(*self._entries["data"])
        self._entries["data"] = self.pair

    @property
    def asked(self) -> list[int]:
        return self.pair.asked


#: Every producer with a __dlpack__ that honours its stream argument in some way.
HONOURING = (TorchLike, Torch29, TorchOld, CupyLike, Cupy13, JaxLike, WarpLike)
#: Those that leave every sync to whoever asks.
IGNORING = (Silent, NoKw)
