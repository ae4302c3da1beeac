"""Adapters of mlx, as a producer and as a consumer."""

from __future__ import annotations

import numpy as np

from ..cases import DTYPES, pattern, room
from ..consumers import Consumer, Seen
from ..producers import ALIGNED, NON_NEGATIVE, NOT_READONLY, Made, Producer


class MlxProducer(Producer):
    name = "mlx"
    library = "mlx"
    modules = ("mlx.core",)
    layouts = NON_NEGATIVE & ALIGNED & NOT_READONLY

    def setup(self):
        (self.mx,) = self.imported
        names = {"bool": "bool_"}
        self.kinds = {n: getattr(self.mx, names.get(n, n), None) for n in DTYPES}
        self.dtypes = frozenset(n for n, kind in self.kinds.items() if kind is not None)
        self.mx.set_default_device(self.mx.cpu)

    def make(self, dtype, layout):
        mx = self.mx
        count = max(room(dtype, layout), 512)
        source = np.frombuffer(pattern(dtype, count), "u1")
        flat = mx.array(source).view(self.kinds[dtype.name])
        mx.eval(flat)
        obj = mx.as_strided(flat, layout.shape, layout.strides, layout.offset)
        mx.eval(obj)
        start = np.frombuffer(memoryview(flat).cast("B"), "u1").__array_interface__["data"][0]
        address = start + layout.offset * dtype.itemsize
        return Made(obj, self.facts(dtype, layout, address), None)


class MlxConsumer(Consumer):
    name = "mlx"
    library = "mlx"
    modules = ("mlx.core",)
    known = "mlx.core.from_dlpack"

    def setup(self):
        (self.mx,) = self.imported
        self.mx.set_default_device(self.mx.cpu)

    def take(self, obj):
        return self.mx.from_dlpack(obj)

    def look(self, result):
        mx = self.mx
        name = str(result.dtype).removeprefix("mlx.core.").rstrip("_")
        if result.size == 0:
            return Seen(tuple(result.shape), name, b"", None, None)
        flat = mx.contiguous(result).reshape(-1).view(mx.uint8)
        return Seen(tuple(result.shape), name, bytes(memoryview(flat)), None, None)


class MlxArray(MlxConsumer):
    name = "mlx.core.array"

    def take(self, obj):
        return self.mx.array(obj)


PRODUCERS = [MlxProducer]
CONSUMERS = [MlxConsumer]
COUNTED = [MlxArray]
