"""Adapters of warp, as a producer and as a consumer."""

from __future__ import annotations

import ctypes
import weakref

from ..cases import LAYOUTS, PLAIN, pattern, room
from ..consumers import Consumer, Seen, read_memory
from ..producers import ALIGNED, NOT_READONLY, Made, Producer


class WarpProducer(Producer):
    name = "warp"
    library = "warp-lang"
    modules = ("warp",)
    dtypes = frozenset(n for n in PLAIN if not n.startswith("complex"))
    layouts = frozenset(n for n in NOT_READONLY & ALIGNED if LAYOUTS[n].shape)

    def setup(self):
        (self.warp,) = self.imported
        self.warp.config.quiet = True
        self.warp.init()
        self.dtypes = frozenset(n for n in self.dtypes if hasattr(self.warp, n))
        if hasattr(self.warp, "bfloat16"):
            self.dtypes |= {"bfloat16"}

    def make(self, dtype, layout):
        wp = self.warp
        kind = getattr(wp, dtype.name)
        count = max(room(dtype, layout), 512)
        flat = wp.zeros(count, dtype=kind, device="cpu")
        memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(flat.ptr)
        memory.raw = pattern(dtype, count)
        size = dtype.itemsize
        address = flat.ptr + layout.offset * size
        obj = wp.array(
            ptr=address if layout.size else None,
            dtype=kind,
            shape=layout.shape,
            strides=tuple(s * size for s in layout.strides),
            device="cpu",
        )
        obj._ref = flat
        return Made(obj, self.facts(dtype, layout, address), None, weakref.ref(flat))


class WarpConsumer(Consumer):
    name = "warp"
    library = "warp-lang"
    modules = ("warp",)
    known = "warp.from_dlpack"

    def setup(self):
        (self.warp,) = self.imported
        self.warp.config.quiet = True
        self.warp.init()

    def take(self, obj):
        return self.warp.from_dlpack(obj)

    def look(self, result):
        name = result.dtype.__name__
        size = self.warp.types.type_size_in_bytes(result.dtype)
        strides = tuple(s // size for s in result.strides)
        data = read_memory(result.ptr or 0, size, result.shape, strides)
        return Seen(tuple(result.shape), name, data, result.ptr, None)


PRODUCERS = [WarpProducer]
CONSUMERS = [WarpConsumer]
