"""A class with an importer, and results that come home to it, in any interpreter."""

from __future__ import annotations

import array

import dlshim

from . import capsules as caps

kept = []


class Own:
    def __init__(self):
        self.inner = array.array("f", [1, 2, 3])

    def __dlpack__(self, **keywords):
        return dlshim.upgrade(self.inner).__dlpack__(**keywords)

    def __dlpack_device__(self):
        return (1, 0)

    @classmethod
    def from_dlpack(cls, tensor):
        return cls, tensor


def result(table):
    """What the table makes of a struct, which has no deleter: ctypes cannot be called back in a
    subinterpreter."""
    kept.append(caps.Made(shape=(2, 3), dtype="float32", version=(1, 3), deleter=False))
    return table.to_object(kept[-1].address)
