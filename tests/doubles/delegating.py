"""A producer in Python whose capsules dlshim makes of an array: whatever interrupts it and whatever
ends around it, nothing but dlshim can leak.  And the kinds of exchange that are tried with it.
"""

from __future__ import annotations

import array

import dlshim

SIX = [0, 1, 2, 3, 4, 5]


class Source:
    """A producer in Python whose capsules are made and deleted in C, so that what interrupts it
    cannot make it leak; `during` runs inside of every method."""

    def __init__(self, during=lambda where: None):
        self.memory = array.array("i", SIX)
        self.during = during

    def __dlpack__(self, **keywords):
        self.during("__dlpack__")
        return dlshim.upgrade(self.memory).__dlpack__(**keywords)

    def __dlpack_device__(self):
        self.during("__dlpack_device__")
        return (1, 0)

    def detach(self):
        self.during("detach")
        return self

    def __getattr__(self, name):
        if name != "during":
            self.during("__getattr__")
        raise AttributeError(name)


class Forwarding:
    """A class of a user's that passes on what it is asked."""

    def __init__(self, inner):
        self.inner = inner

    def __dlpack__(self, **asked):
        return self.inner.__dlpack__(**asked)

    def __dlpack_device__(self):
        return self.inner.__dlpack_device__()


class NamesKeywords(Forwarding):
    """It names the keywords, and passes on those that are not None."""

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        asked = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        return self.inner.__dlpack__(**{k: v for k, v in asked.items() if v is not None})


class PassesOn(Forwarding):
    """It hands the call to a Producer, as recipes show."""

    def __dlpack__(self, **asked):
        return dlshim.upgrade(self.inner).__dlpack__(**asked)

    def __dlpack_device__(self):
        return (1, 0)


def values_of(capsule):
    taken = dlshim.from_dlpack(capsule)
    return memoryview(taken).tolist()


CALLS = {
    "legacy": lambda x: values_of(dlshim.upgrade(x).__dlpack__()),
    "versioned": lambda x: values_of(dlshim.upgrade(x).__dlpack__(max_version=(1, 0))),
    "copy": lambda x: values_of(dlshim.upgrade(x).__dlpack__(copy=True)),
    "detach": lambda x: values_of(dlshim.upgrade(x, detach=True).__dlpack__()),
    "to_capsule": lambda x: values_of(dlshim.to_capsule(x)),
    "from_dlpack": lambda x: memoryview(dlshim.from_dlpack(x)).tolist(),
    "device": lambda x: dlshim.upgrade(x).__dlpack_device__() == (1, 0) and SIX,
}
