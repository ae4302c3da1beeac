"""Adapters of paddle, as a producer and as a consumer."""

from __future__ import annotations

import numpy as np

from .. import versions
from ..cases import DTYPES, PLAIN, pattern, room
from ..consumers import Consumer, Seen
from ..producers import ALIGNED, NON_NEGATIVE, NOT_READONLY, Made, Producer, contiguous


class PaddleProducer(Producer):
    name = "paddle"
    library = "paddlepaddle"
    modules = ("paddle",)
    layouts = NON_NEGATIVE & ALIGNED & NOT_READONLY

    def setup(self):
        (self.paddle,) = self.imported
        # to_tensor, by which they are made, takes no unsigned type above 8 bits from NumPy
        names = PLAIN - {"uint16", "uint32", "uint64"} | {"bfloat16"}
        self.dtypes = frozenset(n for n in names if hasattr(self.paddle, n))
        if versions.of("paddlepaddle") < (3,):
            self.layouts = contiguous(readonly=False)

    def make(self, dtype, layout):
        paddle = self.paddle
        count = max(room(dtype, layout), 512)
        if dtype.name == "bfloat16":
            source = np.frombuffer(pattern(dtype, count), "u2")
        else:
            source = np.frombuffer(pattern(dtype, count), dtype.name)
        flat = paddle.to_tensor(source, dtype=dtype.name, place=paddle.CPUPlace())
        if self.layouts == contiguous(readonly=False):
            obj = paddle.to_tensor(source[: layout.size], place=paddle.CPUPlace())
            obj = obj.reshape(list(layout.shape))
        else:
            size = dtype.itemsize
            obj = paddle.as_strided(
                flat, list(layout.shape), list(layout.strides), layout.offset * size
            )
        if dtype.name == "bool" and versions.of("paddlepaddle") < (3,):
            dtype = DTYPES["uint8"]
        return Made(obj, self.facts(dtype, layout, obj.data_ptr() or None), None)


class PaddleConsumer(Consumer):
    name = "paddle"
    library = "paddlepaddle"
    modules = ("paddle",)
    known = "paddle.utils.dlpack.from_dlpack"

    def setup(self):
        (self.paddle,) = self.imported

    def take(self, obj):
        return self.paddle.utils.dlpack.from_dlpack(obj)

    def look(self, result):
        name = str(result.dtype).removeprefix("paddle.")
        host = result.numpy()
        return Seen(tuple(result.shape), name, host.tobytes(), result.data_ptr(), None)


PRODUCERS = [PaddleProducer]
CONSUMERS = [PaddleConsumer]
