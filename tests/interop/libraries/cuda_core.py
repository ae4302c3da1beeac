"""Adapters of cuda_core, as a producer and as a consumer."""

from __future__ import annotations

from ..cases import PLAIN, row_major
from ..consumers import Consumer, Seen, read_memory
from ..functions import HONOURS
from .numpy import NumPyProducer


class CudaCoreProducer(NumPyProducer):
    """A view of host memory; it keeps the read-only flag of what it views."""

    name = "cuda.core"
    library = "cuda-core"
    modules = ("cuda.core.utils",)

    def wrap(self, source):
        return self.imported[0].StridedMemoryView.from_dlpack(source, stream_ptr=-1)


class CudaCoreConsumer(Consumer):
    name = "cuda.core"
    library = "cuda-core"
    modules = ("cuda.core.utils",)
    flag = HONOURS
    dtype_row = "cuda-core-dtype"
    dtypes = frozenset(PLAIN | {"bfloat16"})

    def take(self, obj):
        view = self.imported[0].StridedMemoryView.from_dlpack(obj, stream_ptr=-1)
        view.dtype  # noqa: B018  (found out at the first question: what it cannot name, it refuses)
        return view

    def look(self, result):
        size = result.dtype.itemsize
        strides = result.strides or row_major(result.shape)
        data = read_memory(result.ptr, size, result.shape, strides)
        return Seen(tuple(result.shape), result.dtype.name, data, result.ptr, not result.readonly)


PRODUCERS = [CudaCoreProducer]
CONSUMERS = [CudaCoreConsumer]
