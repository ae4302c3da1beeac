"""Adapters of array_api_strict, as a producer and as a consumer."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..cases import PLAIN
from ..consumers import see_numpy
from .numpy import NumPyConsumer, NumPyProducer


class StrictProducer(NumPyProducer):
    name = "array-api-strict"
    library = "array-api-strict"
    modules = ("array_api_strict",)
    dtypes = frozenset(PLAIN - {"float16"})

    def setup(self):
        (xp,) = self.imported
        self.cls = type(xp.asarray(np.zeros(1)))

    def wrap(self, source):
        return self.cls._new(source, None) if self.takes_device else self.cls._new(source)

    @cached_property
    def takes_device(self):
        import inspect

        return "device" in inspect.signature(self.cls._new).parameters


class StrictConsumer(NumPyConsumer):
    """Asks as the NumPy below it."""

    name = "array-api-strict"
    library = "array-api-strict"
    modules = ("array_api_strict",)

    def limit(self, facts):
        return None if facts.dtype.name in PLAIN - {"float16"} else "strict-dtype"

    def take(self, obj):
        return self.imported[0].from_dlpack(obj)

    def look(self, result):
        return see_numpy(result._array)


PRODUCERS = [StrictProducer]
CONSUMERS = [StrictConsumer]
