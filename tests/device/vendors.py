"""CUDA and ROCm as one axis: what a check needs to know of the vendor whose fake it runs on."""

from __future__ import annotations

from typing import Any

from doubles import device as fake
from doubles import rocm
from drivers import HipDriver

CUDA_VARIANTS = ("9.2", "12.2", "12.5", "13.0")
HIP_VARIANTS = ("hip5", "hip6", "hip7")
ALL = (*CUDA_VARIANTS, *HIP_VARIANTS)


class Vendor:
    """`of(drv)` is the vendor of a driver."""

    def __init__(self, drv: Any) -> None:
        self.drv = drv
        self.is_hip = isinstance(drv, HipDriver)
        self.device_type = 10 if self.is_hip else 2
        self.host_type = 11 if self.is_hip else 3
        self.name = "rocm" if self.is_hip else "cuda"
        self.legacy = 0 if self.is_hip else 1
        self.doubles: Any = rocm if self.is_hip else fake
        #: Memory of pools, which is freed without a wait of the host.
        self.pools = drv.has("cuCtxRecordEvent") if not self.is_hip else False
        self.stream_sync = "hipStreamSynchronize" if self.is_hip else "cuStreamSynchronize"
        self.copies = ("hipMemcpy",) if self.is_hip else ("cuMemcpy",)
        self.allocations = ("hipMalloc",) if self.is_hip else ("cuMemAlloc_v2", "cuMemAllocAsync")
        self.frees = ("hipFree",) if self.is_hip else ("cuMemFree_v2", "cuMemFreeAsync")

    def make_current(self, device: int | None) -> None:
        if self.is_hip:
            self.drv.set_device(device or 0)
        else:
            self.drv.set_current(None if device is None else self.drv.context(device))

    def now_current(self) -> Any:
        return self.drv.device() if self.is_hip else self.drv.context_stack()

    def no_keyword(self, stream: int, **fields: Any) -> Any:
        return self.doubles.NoKw(self.drv, stream, **fields)


def of(drv: Any) -> Vendor:
    return Vendor(drv)
