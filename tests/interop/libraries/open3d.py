"""Adapters of open3d, as a producer and as a consumer."""

from __future__ import annotations

from ..cases import PLAIN
from ..consumers import Consumer, see_numpy
from ..functions import LEGACY
from ..producers import ALIGNED, NON_NEGATIVE, NOT_READONLY
from .numpy import NumPyProducer


class Open3dProducer(NumPyProducer):
    name = "open3d"
    library = "open3d-cpu"
    modules = ("open3d", "open3d.core")
    dtypes = frozenset(PLAIN - {"float16", "complex64", "complex128"})
    # It reads the buffer protocol's format; NumPy's of what is not aligned ("=f") it does not know.
    layouts = NON_NEGATIVE & NOT_READONLY & ALIGNED

    def wrap(self, source):
        return self.imported[1].Tensor.from_numpy(source)


class Open3dConsumer(Consumer):
    name = "open3d"
    library = "open3d-cpu"
    modules = ("open3d", "open3d.core")
    capsule = True
    asks = LEGACY
    supports_negative = False
    dtype_row = "open3d-dtype"
    dtypes = frozenset(PLAIN - {"float16", "complex64", "complex128"})

    def take(self, obj):
        return self.imported[1].Tensor.from_dlpack(obj)

    def look(self, result):
        return see_numpy(result.numpy())


PRODUCERS = [Open3dProducer]
CONSUMERS = [Open3dConsumer]
