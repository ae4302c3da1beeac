"""Adapters of pyarrow, as a producer and as a consumer."""

from __future__ import annotations

import ctypes
from dataclasses import replace

from .. import versions
from ..cases import DTYPES, PLAIN, backing
from ..consumers import Consumer, Seen, see_numpy
from ..producers import IMMUTABLE, NON_NEGATIVE, NOT_READONLY, STATED, Made, Producer, contiguous
from .numpy import NumPyProducer


class ArrowArrayProducer(Producer):
    name = "pyarrow.Array"
    library = "pyarrow"
    modules = ("pyarrow",)
    dtypes = frozenset(n for n in PLAIN if not n.startswith("complex") and n != "bool")
    layouts = frozenset({"empty-0", "contiguous-1d", "offset-1d"})

    def make(self, dtype, layout):
        (pa,) = self.imported
        # pyarrow takes the memory as it lies; JAX shares only what is aligned to 64 bytes.
        memory = backing(dtype, layout)
        memory.flags.writeable = False
        whole = pa.array(memory.view(dtype.name))
        obj = whole.slice(layout.offset, layout.size)
        address = obj.buffers()[1].address + obj.offset * dtype.itemsize
        access = STATED if versions.of("pyarrow") >= (26,) else IMMUTABLE
        facts = self.facts(dtype, layout, address, access)
        return Made(obj, facts, lambda: obj.to_numpy(zero_copy_only=False).tobytes())


class ArrowTensorProducer(NumPyProducer):
    name = "pyarrow.Tensor"
    library = "pyarrow"
    modules = ("pyarrow",)
    dtypes = ArrowArrayProducer.dtypes | {"bool"}
    layouts = NON_NEGATIVE

    def setup(self):
        if versions.of("pyarrow") < (21,):
            raise ImportError("pyarrow.Tensor speaks DLPack from 21 on")
        if versions.of("pyarrow") < (26,):
            # a read-only tensor exports NULL data (refused, see tests/core)
            self.layouts = NON_NEGATIVE & NOT_READONLY

    def make(self, dtype, layout):
        made = super().make(dtype, layout)
        if dtype.name == "bool":
            made.facts = replace(made.facts, dtype=DTYPES["uint8"])
        return made

    def wrap(self, source):
        return self.imported[0].Tensor.from_numpy(source)


class ArrowFixedShape(NumPyProducer):
    name = "pyarrow.FixedShapeTensorArray"
    library = "pyarrow"
    modules = ("pyarrow",)
    dtypes = ArrowArrayProducer.dtypes
    layouts = contiguous(readonly=False, ndim=(2, 3)) - {"empty-0x3", "empty-3x0x4"}

    def setup(self):
        if versions.of("pyarrow") < (26,):
            raise ImportError("pyarrow.FixedShapeTensorArray was not tried before 26")

    def make(self, dtype, layout):
        made = super().make(dtype, layout)
        obj = made.obj
        made.facts = replace(made.facts, access=STATED)
        made.read = lambda: obj.to_numpy_ndarray().tobytes()  # it keeps the memory alone
        return made

    def wrap(self, source):
        return self.imported[0].FixedShapeTensorArray.from_numpy_ndarray(source)


ARROW_TYPES = {"halffloat": "float16", "float": "float32", "double": "float64"}
ARROW_TYPES["half_float"] = "float16"


class ArrowTensorConsumer(Consumer):
    name = "pyarrow.Tensor"
    library = "pyarrow"
    modules = ("pyarrow",)
    known = "pyarrow.Tensor.from_dlpack"

    def setup(self):
        (self.pa,) = self.imported
        if not hasattr(self.pa.Tensor, "from_dlpack"):
            raise ImportError("pyarrow takes DLPack from 26 on")

    def take(self, obj):
        return self.pa.Tensor.from_dlpack(obj)

    def look(self, result):
        seen = see_numpy(result.to_numpy())
        # of a tensor without elements it says immutable, whatever it was
        seen.writable = result.is_mutable if seen.data else None
        return seen


class ArrowArrayConsumer(ArrowTensorConsumer):
    name = "pyarrow.Array"
    known = "pyarrow.Array.from_dlpack"

    def take(self, obj):
        return self.pa.Array.from_dlpack(obj)

    def look(self, result):
        name = ARROW_TYPES.get(str(result.type), str(result.type))
        size = DTYPES[name].itemsize
        buffer = result.buffers()[1]
        address = (buffer.address if buffer else 0) + result.offset * size
        data = ctypes.string_at(address, len(result) * size) if len(result) else b""
        return Seen((len(result),), name, data, address, buffer.is_mutable if buffer else None)


PRODUCERS = [ArrowArrayProducer, ArrowTensorProducer, ArrowFixedShape]
CONSUMERS = [ArrowTensorConsumer, ArrowArrayConsumer]
