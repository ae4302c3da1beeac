"""Fake producers of ROCm memory, over the fake libamdhip64: real calls, in the real order.

As :mod:`doubles.device`, with HIP's calls: there are no contexts, and nobody here changes the
current device, for the libraries do not.  The default stream is 0.
"""

from __future__ import annotations

import ctypes as C
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from drivers.control import HipDriver

from . import device as fake
from .device import PRODUCER
from .producers import ALL_KEYWORDS

DEFAULT = 0
DISABLE_TIMING = 2
TO_HOST = 2


class OnRocm(fake.OnDevice):
    """The producers' common part.  Managed memory has no device of its own: it is 10."""

    DEVICE_TYPES = {"device": 10, "pool": 10, "managed": 10, "pinned": 11}
    drv: HipDriver  # type: ignore[assignment]

    def __init__(self, drv: HipDriver, stream: int = DEFAULT, **fields: Any) -> None:
        super().__init__(drv, stream, **fields)  # type: ignore[arg-type]

    @contextmanager
    def calls_in(self, context: int | None = None) -> Iterator[None]:
        """The library's own calls, on whatever device is current."""
        with self.drv.caller(PRODUCER):
            yield

    def do(self, name: str, *arguments: Any) -> None:
        rc = getattr(self.drv.hip, name)(*arguments)
        if rc:
            raise fake.DriverFailure(f"HIP error: {rc} from {name}")

    def current_device(self) -> int:
        value = C.c_int()
        with self.calls_in():
            self.do("hipGetDevice", C.byref(value))
        return value.value

    def edge(self, p: int, s: int, flags: int = DISABLE_TIMING, context: int | None = None) -> None:
        event = C.c_void_p()
        with self.calls_in():
            self.do("hipEventCreateWithFlags", C.byref(event), flags)
            try:
                self.do("hipEventRecord", event, p)
                self.do("hipStreamWaitEvent", s, event, 0)
            finally:
                self.do("hipEventDestroy", event)

    def wait_for(self, stream: int) -> None:
        with self.calls_in():
            self.do("hipStreamSynchronize", stream)

    def copy_out(self, to: int, stream: int) -> None:
        with self.calls_in():
            self.do("hipMemcpyAsync", to, self.address, self.own.size, TO_HOST, stream)
            self.do("hipStreamSynchronize", stream)


# --- torch --------------------------------------------------------------------------------


class TorchDevices(fake.TorchDevices):
    """torch built for ROCm: the runtime's current device, and nothing else is noted
    (pytorch/pytorch `c10/cuda/CUDAFunctions.cpp` for `CUDA_VERSION` below 12000, 68e217b)."""

    def runtime(self) -> int:
        return self.drv.device()

    def set_runtime(self, device: int) -> None:
        self.drv.call("hipSetDevice", device)

    def maybe_exchange(self, device: int) -> int:
        return self.exchange(device)


class TorchRocm(OnRocm, fake.TorchLike):
    """torch 2.10 to 2.15 built for ROCm, `torch/_tensor.py` `Tensor.__dlpack__`.

    Omitted is -1.  None and 0 are an edge to the default stream; 1 and 2 an AssertionError;
    otherwise as on CUDA, BufferError while another device is current included.
    """

    def sync(self, stream: int | None) -> None:
        if stream is not None and stream in (1, 2):
            raise AssertionError(f"unsupported stream on ROCm: {stream}.")
        stream = stream or DEFAULT
        if stream != self.stream:
            self.edge(self.stream, stream)


class Torch29Rocm(TorchRocm):
    """torch 2.9: an omitted stream is None."""

    OMITTED = None


class CurrentStreams(OnRocm, fake.CurrentStreams):
    """P is the current stream of the *current* device."""

    def edge_from_current(self, stream: int, flags: int) -> None:
        p = self.current.get(self.current_device(), DEFAULT)
        if p != stream:
            self.edge(p, stream, flags)


class TorchOldRocm(CurrentStreams, fake.TorchOld):
    """torch 2.8 for ROCm: `__dlpack__(self, stream=None)`, always legacy.

    Omitted, None and -1 sync nothing; 0 is the default stream; all others are handles as they
    are, 1 and 2 too.
    """

    def answer(self, stream: Any = None) -> Any:
        if stream is not None and type(stream) is not int:
            raise TypeError("stream must be ``int`` or ``none``")
        if stream is not None and stream != -1:
            self.edge_from_current(stream, DISABLE_TIMING)
        return self._legacy()


# --- CuPy ---------------------------------------------------------------------------------


class NoInterface:
    """`cupy/_core/core.pyx`: on ROCm `__cuda_array_interface__` is an AttributeError."""

    @property
    def __cuda_array_interface__(self) -> Any:
        raise AttributeError("HIP/ROCm does not support cuda array interface")


class CupyRocm(NoInterface, CurrentStreams, fake.CupyLike):
    """CuPy 14 and 15 built for ROCm, `cupy/_core/core.pyx` `__dlpack__`.

    None is 0; -1 is nothing; less than -1, 1, 2 and what is no int are a ValueError.  Managed
    memory is exported as ROCm's.
    """

    def sync(self, stream: Any) -> None:
        if stream is None:
            stream = DEFAULT
        elif not isinstance(stream, int) or stream < -1 or stream in (1, 2):
            raise ValueError(
                "On ROCm/HIP, the valid stream for the DLPack protocol is -1, 0, or any value "
                f"> 2, but {stream} was provided"
            )
        if stream >= 0:
            self.edge_from_current(stream, self.TIMING)


class CupyOldRocm(CupyRocm, fake.Cupy13):
    """CuPy 10 to 13 for ROCm: the keyword `stream` alone, always legacy."""

    TAKES = ("stream",)
    answer = fake.Cupy13.answer


# --- others -------------------------------------------------------------------------------


class Silent(OnRocm, fake.Silent):
    """nanobind's nb_ndarray over ROCm memory: takes every keyword, and does nothing with it."""

    TAKES = ALL_KEYWORDS


class Careful(OnRocm, fake.DeviceArray):
    """A library that nobody has heard of: keeps the rules, sets its array's device and restores
    the one that was current."""

    TAKES = ("stream",)

    @contextmanager
    def calls_in(self, context: int | None = None) -> Iterator[None]:
        before = C.c_int()
        with self.drv.caller(PRODUCER):
            self.do("hipGetDevice", C.byref(before))
            self.do("hipSetDevice", self.index)
            try:
                yield
            finally:
                self.do("hipSetDevice", before.value)

    def answer(self, stream: Any = None) -> Any:
        stream = DEFAULT if stream is None else stream
        if not isinstance(stream, int) or stream < -1 or stream in (1, 2):
            raise TypeError("not a stream of ROCm")
        if stream not in (-1, self.stream):
            self.edge(self.stream, stream)
        return self._legacy()


class NoKw(OnRocm, fake.NoKw):
    """`__dlpack__(self)` without any keyword."""


class RawFn(OnRocm, fake.RawFn):
    """`torch.utils.dlpack.to_dlpack` of a ROCm tensor: a legacy capsule, nothing is synced."""


class ToDlpack(OnRocm, fake.ToDlpack):
    """`toDlpack()` alone: CuPy 9 and older for ROCm."""


class PinnedBuffer(OnRocm, fake.Silent):
    """Pinned memory under its own label, (11, 0), as the standard has it."""

    KIND = "pinned"


# --- the CUDA array interface ---------------------------------------------------------------


class Cai(fake.Cai):
    """`__cuda_array_interface__` over memory of HIP; the dict says no device."""

    def __init__(self, drv: HipDriver, stream: int = DEFAULT, **fields: Any) -> None:
        super().__init__(drv, stream, **fields)  # type: ignore[arg-type]


class Cai2(Cai):
    """torch for ROCm, `torch/_tensor.py` `Tensor.__cuda_array_interface__`: version 2, whatever
    the device (`is_cuda` is true), no stream, no wait."""

    VERSION, SAYS_STREAM = 2, False


class Cai3(Cai):
    """Version 3: 1 is the default stream, for 0 is forbidden there, and 2 the per-thread one."""
