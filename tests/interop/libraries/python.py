"""Adapters of what comes with Python: producers."""

from __future__ import annotations

import array
import ctypes
import mmap
import weakref

import numpy as np

from ..cases import PLAIN, pattern
from ..producers import Made, Producer, contiguous


class ByteArray(Producer):
    name = "bytearray"
    library = "python"
    dtypes = frozenset({"uint8"})
    layouts = frozenset({"empty-0", "contiguous-1d"})

    def new(self, data: bytes):
        return bytearray(data)

    def make(self, dtype, layout):
        data = pattern(dtype, layout.size)
        obj = self.new(data)
        address = ctypes.addressof(ctypes.c_char.from_buffer(obj)) if data else None
        return Made(obj, self.facts(dtype, layout, address), lambda: data)


class Mmap(ByteArray):
    name = "mmap"
    layouts = frozenset({"contiguous-1d"})

    def new(self, data):
        memory = mmap.mmap(-1, len(data))
        memory[:] = data
        return memory


class Bytes(Producer):
    name = "bytes"
    library = "python"
    dtypes = frozenset({"uint8"})
    layouts = frozenset({"readonly-1d"})

    def make(self, dtype, layout):
        obj = bytes(bytearray(pattern(dtype, layout.size)))
        address = np.frombuffer(obj, "u1").__array_interface__["data"][0]
        return Made(obj, self.facts(dtype, layout, address), lambda: bytes(obj))


class StdArray(Producer):
    name = "array.array"
    library = "python"
    codes = {"int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I"}
    codes.update(int64="q", uint64="Q", float32="f", float64="d")
    dtypes = frozenset(codes)
    layouts = frozenset({"empty-0", "contiguous-1d"})

    def make(self, dtype, layout):
        data = pattern(dtype, layout.size)
        obj = array.array(self.codes[dtype.name], data)
        address = obj.buffer_info()[0] if data else None
        return Made(obj, self.facts(dtype, layout, address), obj.tobytes, weakref.ref(obj))


class Ctypes(Producer):
    name = "ctypes array"
    library = "python"
    codes = {n: getattr(ctypes, "c_" + n) for n in PLAIN if n.startswith(("int", "uint"))}
    codes.update(bool=ctypes.c_bool, float32=ctypes.c_float, float64=ctypes.c_double)
    dtypes = frozenset(codes)
    layouts = contiguous(readonly=False)

    def make(self, dtype, layout):
        kind = self.codes[dtype.name]
        for extent in reversed(layout.shape):
            kind = kind * extent
        data = pattern(dtype, layout.size)
        obj = kind.from_buffer_copy(data) if data else kind()
        address = ctypes.addressof(obj) if data else None
        return Made(obj, self.facts(dtype, layout, address), lambda: data)


PRODUCERS = [ByteArray, Mmap, Bytes, StdArray, Ctypes]
