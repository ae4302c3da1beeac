"""Adapters of tensorflow, as a producer and as a consumer."""

from __future__ import annotations

import numpy as np

from .. import versions
from ..cases import DTYPES, PLAIN, strided
from ..consumers import Consumer, Seen, legacy_struct
from ..producers import IMMUTABLE, Made, Producer, contiguous


class TensorFlowProducer(Producer):
    name = "tensorflow"
    library = "tensorflow-cpu"
    modules = ("tensorflow",)
    layouts = contiguous(readonly=False)

    def setup(self):
        (self.tf,) = self.imported
        self.kinds = {n: n for n in PLAIN} | {"bfloat16": self.tf.bfloat16.as_numpy_dtype}
        self.dtypes = frozenset(self.kinds)

    def make(self, dtype, layout):
        obj = self.tf.constant(strided(dtype, layout, np.dtype(self.kinds[dtype.name])))
        view = obj._numpy()  # numpy() is this and a copy; of no dimension it is a NumPy scalar
        address = view.__array_interface__["data"][0] if layout.shape else None
        if dtype.name == "bool" and versions.of("tensorflow-cpu") < (2, 13):
            dtype = DTYPES["uint8"]
        facts = self.facts(dtype, layout, address, IMMUTABLE)
        return Made(obj, facts, lambda: obj.numpy().tobytes())


class TensorFlowConsumer(Consumer):
    name = "tensorflow"
    library = "tensorflow-cpu"
    modules = ("tensorflow",)
    known = "tensorflow.experimental.dlpack.from_dlpack"

    def setup(self):
        (self.tf,) = self.imported
        self.tf.constant(0.0)  # the context must be there
        self.function = self.tf.experimental.dlpack.from_dlpack

    def take(self, obj):
        return self.function(obj)

    def look(self, result):
        host = result._numpy()  # numpy() is this and a copy
        if result.shape.rank:
            address = host.__array_interface__["data"][0]
        else:  # a NumPy scalar, so a copy after all
            capsule = self.tf.experimental.dlpack.to_dlpack(result)
            address = legacy_struct(capsule).data
        return Seen(tuple(result.shape), result.dtype.name, host.tobytes(), address, None)


PRODUCERS = [TensorFlowProducer]
CONSUMERS = [TensorFlowConsumer]
