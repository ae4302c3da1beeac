"""Consumers for trials, good and bad, and objects for them; a child process imports these."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import warnings
import weakref

import numpy

import dlshim


class Own:
    """An array that offers DLPack alone, and tells its values."""

    def __init__(self, values: list[float], dtype: str = "float32") -> None:
        self.held = numpy.array(values, dtype)

    def __dlpack__(self, stream=None):
        return self.held.__dlpack__()

    def __dlpack_device__(self):
        return self.held.__dlpack_device__()

    def tolist(self):
        return self.held.tolist()


class Masked(Own):
    """Its second value is missing, which DLPack does not show."""

    def tolist(self):
        return [self.held.tolist()[0], None]


class Silent(Own):
    """Nobody tells its values."""

    tolist = None


class OnDevice(Own):
    def __dlpack_device__(self):
        return 2, 0


class Unpicklable(Own):
    def __reduce__(self):
        raise TypeError("it holds a handle")


def readonly():
    x = numpy.arange(4.0)
    x.flags.writeable = False
    return x


def take(x):
    return numpy.from_dlpack(x)


def refuse(x):
    raise ValueError("no such thing")


def refuse_all_but_rows(x):
    """It takes row-major arrays alone, and names no cure."""
    made = numpy.from_dlpack(x)
    if not made.flags.c_contiguous:
        raise ValueError("not contiguous")
    return made


def die(x):
    os.kill(os.getpid(), signal.SIGKILL)


def leave(x):
    raise SystemExit(3)


class _DiesLater:
    def __init__(self, held):
        self.held = held

    def tolist(self):
        return self.held.tolist()

    def __add__(self, other):
        os.kill(os.getpid(), signal.SIGKILL)


def die_later(x):
    return _DiesLater(numpy.from_dlpack(x))


def hang(x):
    threading.Event().wait()


def copy(x):
    return numpy.from_dlpack(x).copy()


def narrow(x):
    return numpy.from_dlpack(x).astype("float32")


def truncate(x):
    return numpy.from_dlpack(x).astype("int32")


def misread(x):
    """It takes every array for a row-major one, as Paddle does those of negative strides."""
    made = numpy.from_dlpack(x)
    start = made.reshape(-1)[:1]
    return numpy.lib.stride_tricks.as_strided(start, made.shape)


def flatten(x):
    return numpy.from_dlpack(x).reshape(1, -1)


def warn(x):
    warnings.warn("soon it will be gone", DeprecationWarning, stacklevel=1)
    return numpy.from_dlpack(x)


def write_to(x):
    """It takes any memory for writable, as torch does."""
    made = numpy.from_dlpack(x)
    room = (ctypes.c_char * max(made.nbytes, 1)).from_address(made.ctypes.data)
    room.held = made
    return numpy.frombuffer(room, made.dtype).reshape(made.shape)


def dangle(x):
    """What it gives reads memory of x, which it does not keep."""
    return _Freed(numpy.array(numpy.from_dlpack(x)), getattr(x, "source", x))


class _Freed:
    """The end of the memory shows for sure."""

    def __init__(self, held, owner):
        self.held, self.owner = held, weakref.ref(owner)

    def tolist(self):
        return (self.held if self.owner() is not None else self.held + 1).tolist()


class _Late:
    """A copy that is made when it is first read."""

    shape = (4,)

    def __init__(self, source):
        self.source, self.made = source, None

    @property
    def copied(self):
        if self.made is None:
            self.made = self.source.copy()
        return self.made

    def tolist(self):
        return self.copied.tolist()

    @property
    def __array_interface__(self):
        return self.copied.__array_interface__

    def __setitem__(self, index, value):
        raise TypeError("it never changes")

    def __getitem__(self, index):
        return self.copied[index]


def read_late(x):
    return _Late(numpy.from_dlpack(x))


def add_up(x, weight=1):
    return numpy.from_dlpack(x).sum() * weight


def add_up_wrongly(x):
    """It computes, and with what dlshim makes it computes something else."""
    return numpy.from_dlpack(x).sum() + isinstance(x, dlshim.Producer)


def dice(x):
    return numpy.random.default_rng().random(3)


def capsule_only(x):
    if type(x).__name__ != "PyCapsule":
        raise TypeError("a capsule is needed")
    return numpy.asarray(dlshim.from_dlpack(x))
