"""Objects that leave their class while they are looked at: it ends with them."""

import contextlib
import ctypes
import gc

import dlshim


class Other:
    pass


def leave(x):
    x.__class__ = Other
    gc.collect()
    x.kept = [b"\xff" * 1000 + bytes(n) for n in range(200)]


tensor = dlshim.from_dlpack((ctypes.c_float * 6)())


def attribute(name, offered):
    if name == offered:
        return lambda **asked: tensor.__dlpack__(**asked)
    raise AttributeError(name)


def found(self, name):
    if type(self) is not Other:
        leave(self)
    return attribute(name, offered)


calls = dlshim.upgrade, dlshim.from_dlpack, dlshim.to_capsule, dlshim.inspect
for offered in ("__dlpack__", "nothing"):  # noqa: B007 - found() reads it
    for call in calls:
        for _ in range(20):
            x = type("Leaves", (), {"__getattr__": found})()
            with contextlib.suppress(dlshim.UnsupportedObjectError, BufferError):
                call(x)
print("end")
