"""The adapter of awkward, a consumer."""

from __future__ import annotations

from ..consumers import see_numpy
from .numpy import NumPyConsumer


class Awkward(NumPyConsumer):
    name = "awkward"
    inspected = False
    library = "awkward"
    modules = ("awkward",)

    def take(self, obj):
        return self.imported[0].from_dlpack(obj)

    def look(self, result):
        return see_numpy(result.layout.data)

    def layout_limit(self, facts):
        return "awkward-scalar" if facts.layout.shape == () else None


CONSUMERS = [Awkward]
