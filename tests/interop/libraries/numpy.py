"""Adapters of NumPy, and of what hangs on it."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from .. import versions
from ..cases import ML, DType, strided
from ..consumers import Consumer, see_numpy
from ..functions import LEGACY
from ..producers import IMMUTABLE, Made, Producer, Unmakeable, bytes_of


class NumPyProducer(Producer):
    name = "numpy"
    modules = ("numpy",)

    def np_dtype(self, dtype: DType):
        return np.dtype(dtype.name)

    def array(self, dtype, layout) -> tuple[np.ndarray, Any]:
        made = strided(dtype, layout, self.np_dtype(dtype))
        return made, weakref.ref(made.base)

    def wrap(self, source: np.ndarray):
        """What is given away: the array itself, or something that holds it."""
        return source

    def make(self, dtype, layout):
        source, watch = self.array(dtype, layout)
        address = source.__array_interface__["data"][0]
        facts = self.facts(dtype, layout, address)
        obj = self.wrap(source)
        view = weakref.ref(source)
        return Made(obj, facts, lambda: bytes_of(view()) if view() is not None else b"", watch)


class NumPyMl(NumPyProducer):
    """NumPy arrays of ml_dtypes' types, which NumPy itself refuses to export."""

    name = "numpy of ml_dtypes"
    library = "ml_dtypes"
    modules = ("ml_dtypes",)
    dtypes = frozenset(ML)

    def setup(self):
        (ml,) = self.imported
        self.dtypes = frozenset(n for n in ML if hasattr(ml, n))

    def np_dtype(self, dtype):
        return np.dtype(getattr(self.imported[0], dtype.name))


class NumPyScalar(Producer):
    """``np.float32(1.5)``: an immutable value; each look at it is a fresh array of no dimension."""

    name = "numpy scalar"
    layouts = frozenset({"scalar"})

    def make(self, dtype, layout):
        value = strided(dtype, layout, np.dtype(dtype.name))[()]
        return Made(value, self.facts(dtype, layout, None, IMMUTABLE), value.tobytes)


class MemoryView(NumPyProducer):
    name = "memoryview"

    def wrap(self, source):
        return memoryview(source)


class OnlyInterface(NumPyProducer):
    name = "__array_interface__ only"

    class Object:
        def __init__(self, source):
            self._source = source

        @property
        def __array_interface__(self):
            return self._source.__array_interface__

    def wrap(self, source):
        return self.Object(source)


class OnlyStruct(OnlyInterface):
    name = "__array_struct__ only"

    class Object:
        def __init__(self, source):
            self._source = source

        @property
        def __array_struct__(self):
            return self._source.__array_struct__


class NumPyCapsule(NumPyProducer):
    name = "capsule of numpy"
    capsule = True
    keywords: dict = {}

    def wrap(self, source):
        try:
            return source.__dlpack__(**self.keywords)
        except (TypeError, BufferError) as error:
            raise Unmakeable(str(error)) from error

    def make(self, dtype, layout):
        made = super().make(dtype, layout)
        made.read = None
        return made


class NumPyVersionedCapsule(NumPyCapsule):
    name = "versioned capsule of numpy"
    keywords = {"max_version": (1, 0)}

    def setup(self):
        if versions.of("numpy") < (2, 1):
            raise ImportError("NumPy speaks versioned DLPack from 2.1 on")


class NumPyConsumer(Consumer):
    name = "numpy"
    library = "numpy"
    modules = ("numpy",)
    known = "numpy.from_dlpack"

    def version(self):
        return versions.of("numpy")

    def setup(self):
        self.function = getattr(np, "from_dlpack", None) or np._from_dlpack

    def take(self, obj):
        return self.function(obj)

    def look(self, result):
        return see_numpy(result)


class NumPyCopy(NumPyConsumer):
    name = "numpy(copy=True)"
    asks_copy = True

    def setup(self):
        super().setup()
        if self.asks == LEGACY:
            raise ImportError("numpy.from_dlpack has no copy= before 2.1")

    def take(self, obj):
        return self.function(obj, copy=True)


class NumPyDevice(NumPyCopy):
    name = "numpy(device='cpu')"
    asks_copy = False

    def take(self, obj):
        return self.function(obj, device="cpu")


PRODUCERS = [
    NumPyProducer,
    NumPyMl,
    NumPyScalar,
    MemoryView,
    OnlyInterface,
    OnlyStruct,
    NumPyCapsule,
    NumPyVersionedCapsule,
]
CONSUMERS = [NumPyConsumer, NumPyCopy, NumPyDevice]
