"""CUDA and ROCm as data: what a double or a check has to know of the vendor whose fake it runs on.

`of(drv)` is the vendor of a driver.  What HIP does otherwise:

- It has no contexts.  A thread has a current device, 0 at first.
- The default stream is 0, and 1 and 2 are no streams to DLPack (the Python array API standard,
  `__dlpack__`).  CUDA's is 1, and 2 is the per-thread one; HIP's own handle of that is 2 as well
  (`hipStreamPerThread` in `hip_runtime_api.h`).
- Managed memory has no number of its own in DLPack: CuPy calls it 10 (`get_dlpack_device` in
  `cupy/_core/dlpack.pyx`, cupy/cupy@08032b6).
- There is no event of a whole device, and no allocation in the order of a stream is used.
- A failed call is also remembered for the thread (`hipGetLastError`).
"""

from __future__ import annotations

import ctypes as C
from dataclasses import dataclass
from typing import Any

from drivers.control import Fake, HipDriver

DISABLE_TIMING = 2


@dataclass(frozen=True)
class Vendor:
    """Numbers of DLPack, handles that libraries pass, and names of the driver's functions."""

    name: str  # in "cuda:0"
    word: str  # in messages of libraries
    runtime: str  # what dlshim's messages call it
    library: str  # the file, of HIP without the release
    prefix: str
    device_type: int
    host_type: int
    managed_type: int
    legacy: int  # the default stream, as a library passes it
    shown: str  # the default stream in the log
    #: What can be current: a device, or in CUDA nothing.
    currents: tuple[int | None, ...]
    #: Numbers that a consumer can pass for a reserved stream.
    given: tuple[int, ...]
    #: Handles of the default streams, by kind.
    reserved: dict[str, int]
    get_version: str
    get_device: str
    create_event: str
    record: str
    wait: str
    destroy_event: str
    create_stream: str
    destroy_stream: str
    stream_sync: str
    device_sync: str
    is_capturing: str
    exchange_mode: str
    pointer: str
    to_host: str  # a copy of plain bytes
    to_host_kind: tuple[int, ...]  # an argument of it, before the stream
    pitched: str  # a copy of rows
    #: How names of copies begin.
    copies: tuple[str, ...]
    allocations: tuple[str, ...]
    frees: tuple[str, ...]
    #: Questions: they change nothing.
    queries: frozenset[str]

    @property
    def is_hip(self) -> bool:
        return self.prefix == "hip"

    @property
    def edge(self) -> list[str]:
        """The calls of a library that makes an event for each edge."""
        return [self.create_event, self.record, self.wait, self.destroy_event]

    @property
    def syncs(self) -> frozenset[str]:
        """What blocks the host."""
        return frozenset((self.stream_sync, self.device_sync, f"{self.prefix}EventSynchronize"))

    def type_of(self, kind: str) -> int:
        """DLPack's number for a kind of memory, as libraries say it."""
        return {"pinned": self.host_type, "managed": self.managed_type}.get(kind, self.device_type)

    def device_of(self, kind: str, index: int) -> tuple[int, int]:
        """Pinned memory is all devices': it has the number 0."""
        return self.type_of(kind), 0 if kind == "pinned" else index

    def stream(self, drv: Any, kind: str, device: int = 0, name: str = "P") -> int:
        """A handle: "L" and "PTDS" are reserved ones, "B" waits for L and "N" does not."""
        known = self.reserved.get(kind)
        return drv.stream_new(device, kind == "B", name=name) if known is None else known

    def same(self, first: int, second: int) -> bool:
        """In CUDA 0 and 1 both name the default stream."""
        return max(first, self.legacy) == max(second, self.legacy)


CUDA = Vendor(
    name="cuda",
    word="CUDA",
    runtime="driver",
    library="libcuda.so.1",
    prefix="cu",
    device_type=2,
    host_type=3,
    managed_type=13,
    legacy=1,
    shown="L",
    currents=(0, 1, None),
    given=(1, 2),
    reserved={"L": 1, "PTDS": 2},
    get_version="cuDriverGetVersion",
    get_device="cuCtxGetDevice",
    create_event="cuEventCreate",
    record="cuEventRecord",
    wait="cuStreamWaitEvent",
    destroy_event="cuEventDestroy_v2",
    create_stream="cuStreamCreate",
    destroy_stream="cuStreamDestroy_v2",
    stream_sync="cuStreamSynchronize",
    device_sync="cuCtxSynchronize",
    is_capturing="cuStreamIsCapturing",
    exchange_mode="cuThreadExchangeStreamCaptureMode",
    pointer="cuPointerGetAttributes",
    to_host="cuMemcpyDtoHAsync_v2",
    to_host_kind=(),
    pitched="cuMemcpy2DAsync_v2",
    copies=("cuMemcpy",),
    allocations=("cuMemAlloc_v2", "cuMemAllocAsync"),
    frees=("cuMemFree_v2", "cuMemFreeAsync"),
    queries=frozenset(
        (
            *("cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuPointerGetAttributes"),
            *("cuDeviceGet", "cuDeviceGetAttribute"),
            *("cuDevicePrimaryCtxGetState", "cuDevicePrimaryCtxRetain"),
            "cuDevicePrimaryCtxRelease",
            *("cuCtxGetCurrent", "cuCtxGetDevice", "cuCtxGetId", "cuStreamGetCtx"),
            *("cuStreamIsCapturing", "cuStreamGetCaptureInfo"),
            "cuThreadExchangeStreamCaptureMode",
        )
    ),
)

ROCM = Vendor(
    name="rocm",
    word="ROCm",
    runtime="HIP runtime",
    library="libamdhip64.so",
    prefix="hip",
    device_type=10,
    host_type=11,
    managed_type=10,
    legacy=0,
    shown="0",
    currents=(0, 1),
    given=(0,),
    reserved={"L": 0, "PTDS": 2},
    get_version="hipRuntimeGetVersion",
    get_device="hipGetDevice",
    create_event="hipEventCreateWithFlags",
    record="hipEventRecord",
    wait="hipStreamWaitEvent",
    destroy_event="hipEventDestroy",
    create_stream="hipStreamCreateWithFlags",
    destroy_stream="hipStreamDestroy",
    stream_sync="hipStreamSynchronize",
    device_sync="hipDeviceSynchronize",
    is_capturing="hipStreamIsCapturing",
    exchange_mode="hipThreadExchangeStreamCaptureMode",
    pointer="hipPointerGetAttributes",
    to_host="hipMemcpyAsync",
    to_host_kind=(2,),
    pitched="hipMemcpy2DAsync",
    copies=("hipMemcpy",),
    allocations=("hipMalloc",),
    frees=("hipFree",),
    queries=frozenset(
        (
            *("hipGetDeviceCount", "hipGetDevice", "hipRuntimeGetVersion", "hipGetErrorName"),
            *("hipPointerGetAttributes", "hipGetStreamDeviceId", "hipStreamIsCapturing"),
            *("hipStreamGetCaptureInfo", "hipThreadExchangeStreamCaptureMode", "hipGetLastError"),
        )
    ),
)


def of(drv: Fake) -> Vendor:
    return ROCM if isinstance(drv, HipDriver) else CUDA


def new_event(drv: Any) -> int:
    """On the current device; without timing."""
    return drv.get(of(drv).create_event, C.c_void_p, DISABLE_TIMING)


def edge(drv: Any, p: int, s: int) -> None:
    """S waits for an event recorded on P, by calls of nobody in particular."""
    vendor, event = of(drv), new_event(drv)
    drv.call(vendor.record, event, p)
    drv.call(vendor.wait, s, event, 0)
    drv.call(vendor.destroy_event, event)
