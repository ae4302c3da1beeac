"""The adapter of awkward, a consumer."""

from __future__ import annotations

from .. import versions
from ..consumers import see_numpy
from .numpy import NumPyConsumer


class Awkward(NumPyConsumer):
    name = "awkward"
    library = "awkward"
    modules = ("awkward",)
    known = "awkward.from_dlpack"

    def version(self):
        return versions.of("awkward")

    def take(self, obj):
        return self.imported[0].from_dlpack(obj)

    def look(self, result):
        return see_numpy(result.layout.data)


CONSUMERS = [Awkward]
