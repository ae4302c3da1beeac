"""A producer of device memory that follows every rule, and one for each MUST that breaks it.

They run beside a fake driver, in the process that the kit has started for it.
"""

from __future__ import annotations

import ctypes as C
import functools
from typing import Any

from dlshim_testing import drivers
from dlshim_testing.doubles.capsules import CPU, IS_COPIED
from dlshim_testing.doubles.producers import ALL_KEYWORDS
from dlshim_testing.partner import Producer
from doubles.device import DeviceArray, TorchLike
from doubles.vendors import new_event


@functools.cache
def work_stream() -> int:
    """On which all of these arrays are written; it waits for no other stream by itself."""
    driver = drivers.current()
    assert driver is not None
    return driver.stream_new(blocking=False, name="work")


class Right(DeviceArray):
    """All of 2023.12 for CUDA and ROCm."""

    TAKES = ALL_KEYWORDS

    def __init__(self, shape: Any, dtype: str = "float32", **fields: Any) -> None:
        driver = drivers.current()
        super().__init__(driver, work_stream(), shape=shape, dtype=dtype, **fields)

    def _export(self, version: Any, **fields: Any) -> Any:
        nothing = {"data": None} if 0 in self.shape else {}
        return super()._export(version, **nothing | fields)

    def answer(
        self,
        stream: Any = None,
        max_version: Any = None,
        dl_device: Any = None,
        copy: Any = None,
    ) -> Any:
        if stream in ((1, 2) if self.vendor.is_hip else (0,)):
            raise ValueError(f"there is no stream {stream}")
        if dl_device == CPU:
            return self.on_host(max_version, copy)
        if dl_device not in (None, self.device):
            raise BufferError(f"{dl_device} is not supported")
        if copy:
            raise BufferError("copies are made on the host alone")
        self.sync(self.vendor.legacy if stream is None else stream)
        return self.answer_in(max_version, flags=0)

    def on_host(self, max_version: Any, copy: Any) -> Any:
        if copy is False:
            raise BufferError("the host needs a copy")
        return self.to_host(max_version, self.stream, flags=IS_COPIED)

    def sync(self, stream: int) -> None:
        if stream != -1:
            self.edge(self.stream, stream)


class SyncsNothing(Right):
    """The producers of Paddle before 3.3, of tvm-ffi and of MLX ignore `stream`."""

    def sync(self, stream: int) -> None:
        pass


class WaitsItself(SyncsNothing):
    """Its work is done before anybody gets the array, so that there is nothing to order."""

    def __init__(self, *arguments: Any, **fields: Any) -> None:
        super().__init__(*arguments, **fields)
        self.write()
        self.drv.call(self.vendor.stream_sync, self.stream)


class SaysThatItWaits(SyncsNothing):
    """The same without the wait."""

    def __init__(self, *arguments: Any, **fields: Any) -> None:
        super().__init__(*arguments, **fields)
        self.write()


class SyncsAlways(Right):
    """-1 is taken for the default stream."""

    def sync(self, stream: int) -> None:
        super().sync(self.vendor.legacy if stream == -1 else stream)


class CopyNotWaitedFor(Right):
    """The host is given a copy that still waits for the work before it."""

    def copy_out(self, to: int, stream: int) -> None:
        other = self.drv.stream_new(self.index, blocking=False, name="copies")
        super().copy_out(to, other)


class CopyGivenTooEarly(Right):
    """The host is given a copy that is not done yet."""

    def on_host(self, max_version: Any, copy: Any) -> Any:
        block = (C.c_char * self.own.size)()
        to, kind = C.addressof(block), self.vendor.to_host_kind
        with self.calls_in():
            self.do(self.vendor.to_host, to, self.address, self.own.size, *kind, self.stream)
        version = (1, 0) if max_version else None
        return self._export(version, device=CPU, memory=block).capsule()


class CopiesAnyway(Right):
    def on_host(self, max_version: Any, copy: Any) -> Any:
        return super().on_host(max_version, None)


class LeavesADevice(Right):
    """Another context, or device, is current afterwards."""

    def sync(self, stream: int) -> None:
        super().sync(stream)
        self.drv.make_current(1)


class LeaksEvents(Right):
    def sync(self, stream: int) -> None:
        super().sync(stream)
        with self.calls_in():
            new_event(self.drv)


class TakesAnyStream(Right):
    """0 is taken for CUDA's default stream, as by CuPy."""

    def answer(self, stream: Any = None, **asked: Any) -> Any:
        unknown = (1, 2) if self.vendor.is_hip else (0,)
        return super().answer(stream=None if stream in unknown else stream, **asked)


class TakesNone(Right):
    def answer(self, stream: Any = None, dl_device: Any = None, **asked: Any) -> Any:
        if stream is not None or dl_device == self.device:
            raise ValueError("no stream but None, and no device")
        return super().answer(dl_device=dl_device, **asked)


def target(kind: Any) -> Producer:
    return Producer(kind, claims="2025.12", work_stream=work_stream)


right = target(Right)
waits_itself = Producer(WaitsItself, claims="2025.12", always_ready=True)
says_that_it_waits = Producer(SaysThatItWaits, claims="2025.12", always_ready=True)
waits_itself_unsaid = target(WaitsItself)
syncs_nothing = target(SyncsNothing)
syncs_always = target(SyncsAlways)
copy_not_waited_for = target(CopyNotWaitedFor)
copy_given_too_early = target(CopyGivenTooEarly)
copies_anyway = target(CopiesAnyway)
leaves_a_device = target(LeavesADevice)
leaks_events = target(LeaksEvents)
takes_any_stream = target(TakesAnyStream)
takes_none = target(TakesNone)


def _torch(shape: Any, dtype: str = "float32") -> TorchLike:
    return TorchLike(drivers.current(), work_stream(), shape=shape, dtype=dtype)


def _upgraded(make: Any) -> Producer:
    def upgraded(shape: Any, dtype: str = "float32") -> Any:
        import dlshim

        return dlshim.upgrade(make(shape, dtype))

    return target(upgraded)


upgraded = _upgraded(Right)
upgraded_torch = _upgraded(_torch)
torch = target(_torch)

#: The rule that is broken -> the name of who breaks it.
WRONG = {
    "device-stream": "takes_none",
    "device-stream-refused": "takes_any_stream",
    "device-order": "syncs_nothing",
    "device-no-sync": "syncs_always",
    "device-own": "takes_none",
    "device-to-cpu": "copy_not_waited_for",
    "device-copy-false": "copies_anyway",
    "device-current": "leaves_a_device",
    "device-events": "leaks_events",
}
