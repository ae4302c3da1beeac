"""Adapters of onnxruntime, as a producer and as a consumer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .. import versions
from ..cases import DTYPES, PLAIN, row_major, strided
from ..consumers import Consumer, Seen, read_memory
from ..producers import Made, Producer, contiguous


class OnnxRuntimeProducer(Producer):
    """Shares the memory of a NumPy array; its capsule does not keep it alive."""

    name = "onnxruntime"
    library = "onnxruntime"
    modules = ("onnxruntime",)
    layouts = contiguous(readonly=False)
    dtypes = frozenset(n for n in PLAIN if not n.startswith("complex"))

    def setup(self):
        self.cls = self.imported[0].OrtValue
        if not hasattr(self.cls, "__dlpack__"):
            raise ImportError("this onnxruntime gives no DLPack from Python")

    def make(self, dtype, layout):
        source = strided(dtype, layout, np.dtype(dtype.name))
        obj = self.cls.ortvalue_from_numpy(source)
        address = obj.data_ptr()
        facts = self.facts(dtype, layout, address)
        if dtype.name == "bool" and versions.of("onnxruntime") < (1, 32):
            facts = replace(facts, legacy_dtype=DTYPES["uint8"])
        return Made(obj, facts, lambda: obj.numpy().tobytes())


class OnnxRuntimeConsumer(Consumer):
    name = "onnxruntime"
    library = "onnxruntime"
    modules = ("onnxruntime",)
    known = "onnxruntime.OrtValue.from_dlpack"
    onnx = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64"}
    onnx.update({9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64"})
    onnx.update({16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz"})
    onnx.update({19: "float8_e5m2", 20: "float8_e5m2fnuz"})

    def setup(self):
        self.cls = self.imported[0].OrtValue
        if not hasattr(self.cls, "from_dlpack"):
            raise ImportError("this onnxruntime takes no DLPack from Python")

    def take(self, obj):
        return self.cls.from_dlpack(obj)

    def look(self, result):
        name = self.onnx[result.element_type()]
        shape = tuple(result.shape())
        size = DTYPES[name].itemsize
        data = read_memory(result.data_ptr(), size, shape, row_major(shape))
        return Seen(shape, name, data, result.data_ptr(), None)


PRODUCERS = [OnnxRuntimeProducer]
CONSUMERS = [OnnxRuntimeConsumer]
