"""Adapters of mxnet, as a producer and as a consumer."""

from __future__ import annotations

import ctypes

import numpy as np

from ..cases import strided
from ..consumers import Consumer, Seen
from ..functions import LEGACY
from ..producers import Made, Producer, contiguous


class MxNetProducer(Producer):
    """Has methods that give a capsule, no ``__dlpack__``."""

    name = "mxnet"
    library = "mxnet"
    modules = ("mxnet",)
    dtypes = frozenset({"int8", "int32", "int64", "uint8", "float16", "float32", "float64"})
    layouts = contiguous(readonly=False, ndim=(1, 2, 3)) - {"empty-0", "empty-0x3", "empty-3x0x4"}

    def make(self, dtype, layout):
        (mx,) = self.imported
        source = strided(dtype, layout, np.dtype(dtype.name))
        obj = mx.nd.array(source, dtype=dtype.name)
        obj.wait_to_read()
        return Made(obj, self.facts(dtype, layout, None), lambda: obj.asnumpy().tobytes())

    def bare(self, made):
        return made.obj.to_dlpack_for_write()


class MxNetConsumer(Consumer):
    name = "mxnet"
    library = "mxnet"
    modules = ("mxnet",)
    capsule = True
    asks = LEGACY
    supports_negative = False
    dtype_row = "mxnet-dtype"
    dtypes = frozenset({"int8", "int32", "int64", "uint8", "float16", "float32", "float64"})

    def take(self, obj):
        return self.imported[0].nd.from_dlpack(obj)

    def look(self, result):
        address = ctypes.c_void_p()
        from mxnet.base import _LIB, check_call

        check_call(_LIB.MXNDArrayGetData(result.handle, ctypes.byref(address)))
        host = result.asnumpy()
        return Seen(host.shape, host.dtype.name, host.tobytes(), address.value, None)

    def layout_limit(self, facts):
        return None if facts.layout.contiguous else "mxnet-strides"


PRODUCERS = [MxNetProducer]
CONSUMERS = [MxNetConsumer]
