"""Adapters of nanoarrow, as a producer and as a consumer."""

from __future__ import annotations

import ctypes
from typing import ClassVar

import numpy as np

from ..consumers import Consumer, Seen
from .numpy import NumPyProducer
from .pyarrow import ARROW_TYPES, ArrowArrayProducer


class NanoarrowView(NumPyProducer):
    """nanoarrow's buffer view: one dimension, contiguous, legacy DLPack."""

    name = "nanoarrow"
    library = "nanoarrow"
    modules = ("nanoarrow",)
    dtypes = ArrowArrayProducer.dtypes
    layouts = frozenset({"contiguous-1d", "offset-1d"})

    def setup(self):
        view = self.wrap(np.zeros(1))
        if not hasattr(view, "__dlpack__"):
            raise ImportError("this nanoarrow gives no DLPack")

    def wrap(self, source):
        return self.imported[0].c_buffer(source).view()


class Nanoarrow(Consumer):
    name = "nanoarrow"
    library = "nanoarrow"
    modules = ("nanoarrow",)
    known = "nanoarrow.c_buffer"
    buffer_first = True
    flat = True
    calls: ClassVar[dict[str, str]] = {"bool": "uint8"}

    def limit(self, facts):
        row = super().limit(facts)
        warp = facts.producer == "warp" and not facts.layout.contiguous
        return "nanoarrow-warp" if warp else row

    def take(self, obj):
        return self.imported[0].c_buffer(obj)

    def look(self, result):
        name = ARROW_TYPES.get(result.data_type, result.data_type)
        address = result._addr()
        return Seen(
            (result.n_elements,), name, ctypes.string_at(address, result.size_bytes), address, None
        )


PRODUCERS = [NanoarrowView]
CONSUMERS = [Nanoarrow]
