"""Adapters of jax, as a producer and as a consumer."""

from __future__ import annotations

import importlib
import time

import numpy as np

from .. import versions
from ..cases import DTYPES, ML, PLAIN, strided
from ..consumers import Consumer, Seen
from ..producers import IMMUTABLE, STATED, Made, Producer, contiguous


class JaxProducer(Producer):
    name = "jax"
    library = "jax"
    modules = ("jax", "jax.numpy")
    layouts = contiguous(readonly=False)

    def setup(self):
        jax, self.jnp = self.imported
        jax.config.update("jax_enable_x64", True)
        # DLPack has float8 since 2025; older releases make such arrays and cannot export them
        names = DTYPES if versions.of("jax") >= (0, 6) else PLAIN | {"bfloat16"}
        self.bool = DTYPES["bool" if versions.of("jax") >= (0, 4, 24) else "uint8"]
        # versioned capsules, and with them the flag, came between 0.10 and 0.12
        self.access = STATED if versions.of("jax") >= (0, 12) else IMMUTABLE
        try:
            ml = importlib.import_module("ml_dtypes")
        except ImportError:
            ml = None
        self.kinds = {n: getattr(ml, n, None) if n in ML else n for n in names}
        self.dtypes = frozenset(n for n, kind in self.kinds.items() if kind is not None)

    def make(self, dtype, layout):
        source = strided(dtype, layout, np.dtype(self.kinds[dtype.name]))
        obj = self.jnp.array(source, copy=True)
        if dtype.name == "bool":
            dtype = self.bool
        facts = self.facts(dtype, layout, obj.unsafe_buffer_pointer(), self.access)
        return Made(obj, facts, lambda: np.asarray(obj).tobytes())


class JaxConsumer(Consumer):
    name = "jax"
    library = "jax"
    modules = ("jax", "jax.numpy")
    known = "jax.numpy.from_dlpack"

    def setup(self):
        jax, self.jnp = self.imported
        jax.config.update("jax_enable_x64", True)
        self.capsule = versions.of("jax") < (0, 4, 16)
        if self.capsule:  # before the table
            self.never_writes = self.supports_negative = False
        self.function = getattr(self.jnp, "from_dlpack", None)
        if self.capsule:
            self.function = importlib.import_module("jax.dlpack").from_dlpack

    def take(self, obj):
        return self.function(obj)

    def look(self, result):
        host = np.asarray(result)
        return Seen(
            tuple(result.shape),
            result.dtype.name,
            host.tobytes(),
            result.unsafe_buffer_pointer(),
            None,
        )

    def waits(self):
        """XLA copies in a thread of its own and lets go of the source there."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            yield


PRODUCERS = [JaxProducer]
CONSUMERS = [JaxConsumer]
