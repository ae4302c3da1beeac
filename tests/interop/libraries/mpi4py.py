"""The adapter of mpi4py, a consumer."""

from __future__ import annotations

import importlib

from ..cases import truth
from ..consumers import Consumer, Seen, columns
from ..functions import HONOURS


class Mpi4py(Consumer):
    """A message buffer: the bytes of contiguous memory, no shape and no element type."""

    name = "mpi4py"
    library = "mpi4py"
    buffer_first = True
    modules = ("mpi4py",)
    flag = HONOURS
    keeps_shape = False
    supports_negative = False

    def setup(self):
        self.imported[0].rc.initialize = False
        self.buffer = importlib.import_module("mpi4py.MPI").buffer

    def take(self, obj):
        return self.buffer.frombuffer(obj, readonly=True)

    def look(self, result):
        data = bytes(memoryview(result))
        return Seen((), "", data, result.address, None)

    def layout_limit(self, facts):
        flat = facts.layout.contiguous or columns(facts.layout)
        return None if flat else "mpi4py-strides"

    def want(self, dtype, layout):
        """The memory as it lies: of column-major data that is the transposed order."""
        return truth(dtype, columns(layout) or layout)


CONSUMERS = [Mpi4py]
