"""Adapters of MAX, as a producer and as a consumer."""

from __future__ import annotations

import weakref

import numpy as np

from ..cases import DTYPES, PLAIN, row_major, strided
from ..consumers import Consumer, Seen, read_memory
from ..producers import Made, Producer, bytes_of, contiguous


class BufferProducer(Producer):
    """Shares the memory of a NumPy array."""

    name = "max"
    library = "max"
    modules = ("max.driver",)
    dtypes = frozenset(n for n in PLAIN if not n.startswith("complex"))
    layouts = contiguous(readonly=False)

    def can(self, dtype, layout):
        # Of a boolean without dimensions from_numpy raises an IndexError.
        return super().can(dtype, layout) and (dtype.name != "bool" or layout.shape != ())

    def make(self, dtype, layout):
        source = strided(dtype, layout, np.dtype(dtype.name))
        obj = self.imported[0].Buffer.from_numpy(source)
        facts = self.facts(dtype, layout, obj._data_ptr())
        return Made(obj, facts, lambda: bytes_of(obj.to_numpy()), weakref.ref(source.base))


class BufferConsumer(Consumer):
    name = "max"
    library = "max"
    modules = ("max.driver",)
    known = "max.driver.Buffer.from_dlpack"
    blind_to = ("stride wrong",)
    """It ignores strides."""

    def take(self, obj):
        made = self.imported[0].Buffer.from_dlpack(obj)
        made.dtype  # noqa: B018  (found out at the first question: what it cannot name, it refuses)
        return made

    def look(self, result):
        shape, name = tuple(result.shape), result.dtype.name
        size = DTYPES[name].itemsize
        data = read_memory(result._data_ptr(), size, shape, row_major(shape))
        return Seen(shape, name, data, result._data_ptr(), None)


PRODUCERS = [BufferProducer]
CONSUMERS = [BufferConsumer]
