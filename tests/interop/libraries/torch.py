"""Adapters of torch, as a producer and as a consumer."""

from __future__ import annotations

import weakref

from .. import versions
from ..cases import DTYPES, ML, pattern, room
from ..consumers import Consumer, Seen, read_memory
from ..producers import ALIGNED, NON_NEGATIVE, NOT_READONLY, Made, Producer


class TorchProducer(Producer):
    name = "torch"
    library = "torch"
    modules = ("torch",)
    layouts = NON_NEGATIVE & ALIGNED & NOT_READONLY

    def setup(self):
        (self.torch,) = self.imported
        self.dtypes = frozenset(n for n in DTYPES if hasattr(self.torch, n))
        if versions.of("torch") < (2, 10):
            # "float8 types are not supported by dlpack", says its export
            self.dtypes -= ML - {"bfloat16"}
        if versions.of("torch") < (2,):
            self.dtypes -= {"bool"}  # nor bool, at first

    def make(self, dtype, layout):
        torch = self.torch
        kind = getattr(torch, dtype.name)
        raw = torch.zeros(max(4096, room(dtype, layout) * dtype.itemsize), dtype=torch.uint8)
        data = bytearray(pattern(dtype, room(dtype, layout)))
        raw[: len(data)] = torch.frombuffer(data, dtype=torch.uint8)
        flat = raw.view(kind)
        tensor = torch.as_strided(flat, layout.shape, layout.strides, layout.offset)
        address = flat.data_ptr() + layout.offset * dtype.itemsize
        seen = weakref.ref(tensor)
        return Made(
            self.wrap(tensor), self.facts(dtype, layout, address), lambda: read_torch(torch, seen())
        )

    def wrap(self, tensor):
        return tensor


def read_torch(torch, tensor) -> bytes:
    flat = torch.clone(tensor.detach(), memory_format=torch.contiguous_format).reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


class TorchCapsule(TorchProducer):
    name = "capsule of torch"
    capsule = True

    def wrap(self, tensor):
        return self.torch.utils.dlpack.to_dlpack(tensor)

    def make(self, dtype, layout):
        made = super().make(dtype, layout)
        made.read = None
        return made


class TorchVersionedCapsule(TorchCapsule):
    name = "versioned capsule of torch"

    def setup(self):
        super().setup()
        if versions.of("torch") < (2, 9):
            raise ImportError("torch speaks versioned DLPack from 2.9 on")

    def wrap(self, tensor):
        return tensor.__dlpack__(max_version=(1, 0))


class TorchConsumer(Consumer):
    name = "torch"
    library = "torch"
    modules = ("torch",)
    known = "torch.from_dlpack"

    def setup(self):
        (self.torch,) = self.imported

    def take(self, obj):
        return self.torch.from_dlpack(obj)

    def look(self, result):
        name = str(result.dtype).removeprefix("torch.")
        size = result.element_size()
        if result.data_ptr() % size:
            # torch holds it, but its kernels for complex128 kill the process on such addresses
            data = read_memory(result.data_ptr(), size, result.shape, result.stride())
        else:
            data = read_torch(self.torch, result)
        return Seen(tuple(result.shape), name, data, result.data_ptr(), None)


class TorchCopy(TorchConsumer):
    name = "torch(copy=True)"
    asks_copy = True

    def setup(self):
        super().setup()
        if versions.of("torch") < (2, 9):
            raise ImportError("torch.from_dlpack has no copy= before 2.9")

    def take(self, obj):
        return self.torch.from_dlpack(obj, copy=True)


class TorchNoCopy(TorchCopy):
    """Asks exactly as mpi4py does."""

    name = "torch(copy=False)"
    asks_copy = False

    def take(self, obj):
        return self.torch.from_dlpack(obj, copy=False)


class TorchDevice(TorchNoCopy):
    name = "torch(device='cpu')"

    def take(self, obj):
        return self.torch.from_dlpack(obj, device="cpu")


class TorchAsArray(TorchConsumer):
    name = "torch.asarray"
    known = "torch.asarray"
    buffer_first = True

    def setup(self):
        super().setup()
        self.capsule = versions.of("torch") < (2,)  # at first it knew capsules only

    def take(self, obj):
        return self.torch.asarray(obj)


class TorchAsTensor(TorchAsArray):
    name = "torch.as_tensor"

    def take(self, obj):
        return self.torch.as_tensor(obj)


PRODUCERS = [TorchProducer, TorchCapsule, TorchVersionedCapsule]
CONSUMERS = [TorchConsumer, TorchCopy, TorchNoCopy, TorchDevice, TorchAsArray]
COUNTED = [TorchAsTensor]
