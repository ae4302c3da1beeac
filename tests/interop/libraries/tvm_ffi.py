"""Adapters of tvm_ffi, as a producer and as a consumer."""

from __future__ import annotations

from ..consumers import Consumer, see_dlpack
from ..producers import NOT_READONLY
from .numpy import NumPyProducer


class TvmFfiProducer(NumPyProducer):
    name = "tvm-ffi"
    library = "apache-tvm-ffi"
    modules = ("tvm_ffi",)
    layouts = NOT_READONLY

    def wrap(self, source):
        return self.imported[0].from_dlpack(source)


class TvmFfiConsumer(Consumer):
    name = "tvm-ffi"
    library = "apache-tvm-ffi"
    modules = ("tvm_ffi",)
    known = "tvm_ffi.from_dlpack"

    def take(self, obj):
        return self.imported[0].from_dlpack(obj)

    def look(self, result):
        return see_dlpack(result)


PRODUCERS = [TvmFfiProducer]
CONSUMERS = [TvmFfiConsumer]
