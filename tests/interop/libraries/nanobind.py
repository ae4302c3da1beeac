"""Adapters of nanobind, as a producer and as a consumer."""

from __future__ import annotations

import weakref

from .. import nanobind_modules
from ..cases import BY_TRIPLE, DTYPES, strided
from ..consumers import Consumer, Seen
from ..producers import NOT_READONLY, Made, bytes_of
from .numpy import NumPyProducer


class Nanobind31Producer(NumPyProducer):
    """An object that nanobind makes around foreign memory."""

    name = "nanobind 3.1"
    library = "nanobind"
    generation = "3.1.0"
    dtypes = frozenset(DTYPES)

    def setup(self):
        self.module = nanobind_modules.load(self.generation)

    def make(self, dtype, layout):
        source = strided(dtype, layout)
        owner = source.base
        address = source.__array_interface__["data"][0]
        shape, strides = layout.shape, layout.strides
        obj = self.module.give(address, shape, strides, dtype.triple, layout.readonly, source)
        facts = self.facts(dtype, layout, address)
        view, watch = weakref.ref(source), weakref.ref(owner)
        return Made(obj, facts, lambda: bytes_of(view()), watch)


class Nanobind22Producer(Nanobind31Producer):
    """Older generations give a raw legacy capsule, also of constant memory."""

    name = "capsule of nanobind 2.2"
    generation = "2.2.0"
    capsule = True
    layouts = NOT_READONLY

    def make(self, dtype, layout):
        made = super().make(dtype, layout)
        made.read = None
        return made


class Nanobind29Producer(Nanobind22Producer):
    name = "capsule of nanobind 2.9"
    generation = "2.9.2"


class Nanobind(Consumer):
    library = "nanobind"
    generation: str
    function = "take_rw"
    known = "nanobind, writable parameter"
    raises = ("TypeError",)

    def version(self):
        return tuple(int(part) for part in self.generation.split("."))

    def setup(self):
        self.module = nanobind_modules.load(self.generation)

    def take(self, obj):
        return getattr(self.module, self.function)(obj)

    def look(self, result):
        code, bits, lanes = result.dtype()
        dtype = BY_TRIPLE.get((code, bits, lanes))
        return Seen(
            tuple(result.shape()),
            dtype.name if dtype else "?",
            result.read(),
            result.address(),
            None,
        )


class Nanobind22Consumer(Nanobind):
    name = "nanobind 2.2 rw"
    generation = "2.2.0"


class Nanobind22ro(Nanobind22Consumer):
    name = "nanobind 2.2 ro"
    function = "take_ro"
    known = "nanobind, read-only parameter"


class Nanobind29Consumer(Nanobind22Consumer):
    name = "nanobind 2.9 rw"
    generation = "2.9.2"


class Nanobind29ro(Nanobind29Consumer):
    name = "nanobind 2.9 ro"
    function = "take_ro"
    known = "nanobind, read-only parameter"


class Nanobind31Consumer(Nanobind):
    name = "nanobind 3.1 rw"
    generation = "3.1.0"

    def layout_limit(self, facts):
        return "nanobind-readonly" if facts.access != "writable" else None


class Nanobind31ro(Nanobind):
    name = "nanobind 3.1 ro"
    generation = "3.1.0"
    function = "take_ro"
    known = "nanobind, read-only parameter"


class Nanobind212Consumer(Nanobind31Consumer):
    name = "nanobind 2.12 rw"
    generation = "2.12.0"


class Nanobind212ro(Nanobind31ro):
    name = "nanobind 2.12 ro"
    generation = "2.12.0"


PRODUCERS = [Nanobind31Producer, Nanobind22Producer, Nanobind29Producer]
CONSUMERS = [
    Nanobind22Consumer,
    Nanobind22ro,
    Nanobind29Consumer,
    Nanobind29ro,
    Nanobind212Consumer,
    Nanobind212ro,
    Nanobind31Consumer,
    Nanobind31ro,
]
