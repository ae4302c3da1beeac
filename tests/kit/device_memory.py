"""Arrays of a device whose memory a fake driver gives; docs/testing.rst shows this class."""

from __future__ import annotations

import math
from typing import Any

from dlshim.testing import Producer, drivers
from dlshim.testing.doubles import capsules


class OnDevice:
    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        self.shape, self.dtype, self.driver = shape, dtype, drivers.current()
        size = max(1, math.prod(shape)) * capsules.itemsize_of(dtype)
        self.driver.make_current(0)  # the primary context of device 0, or device 0 of ROCm
        self.address = self.driver.alloc(size)
        self.driver.put(self.address, bytes(size))  # as if the last kernel had written it

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Any = None,
        dl_device: Any = None,
        copy: Any = None,
    ) -> Any:
        if stream == 0:
            raise ValueError("stream=0 means nothing in CUDA")
        if copy or dl_device not in (None, (2, 0)):
            raise BufferError("nothing is copied here")
        if stream != -1:
            self.driver.make_current(0)  # a context is current on one thread alone
            self.driver.call("cuCtxSynchronize")
        version = (1, 0) if (max_version or (0, 0)) >= (1, 0) else None
        data = self.address if math.prod(self.shape) else None
        return capsules.make(
            self.shape, self.dtype, version=version, device=(2, 0), data=data, owner=self
        )


on_device = Producer(OnDevice)
