"""Passes for torch 2.10 and newer (see standing.py)."""

from __future__ import annotations

import ctypes as C
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace
from typing import Any

import standing
from standing import drv

from doubles import capsules as caps
from doubles import device as fake
from doubles.producers import (
    TableMixin,
    _Allocator,
    _CurrentStream,
    c_table,
    masquerade,
    table_capsule,
)

__version__ = "2.13.0"
int32 = "int32"


class Stream(standing.Stream):
    def __init__(self, handle: int = 0) -> None:
        super().__init__(handle or standing.make_stream())

    @property
    def cuda_stream(self) -> int:
        return 0 if self.handle == 1 else self.handle


class _Tensor(fake.TorchLike):
    def data_ptr(self) -> int:
        return self.address

    def tolist(self) -> list[int]:
        return standing.read(self)

    def __add__(self, one: int) -> Any:
        assert one == 1
        return standing.add_one(self, _new(self.shape[0], self.index))


Tensor = masquerade(_Tensor, "Tensor", "torch")
_current = standing.Current(Stream)
_allocated: list[caps.Made] = []


@_Allocator
def _allocate(prototype: int, out: int, context: int, set_error: int) -> int:
    """`at::empty` (torch/csrc/Module.cpp: DLTensorAllocator), of bytes."""
    want = caps.DLTensor.from_address(prototype)
    count = C.c_int64.from_address(want.shape).value
    address = drv.alloc(count, want.device_id)
    made = caps.Made(
        (count,), "uint8", device=(2, want.device_id), data=address, memory=bytearray(1),
        version=(1, 3), on_delete=lambda: drv.free(address),
    )  # fmt: skip
    made.handed_out = True
    _allocated.append(made)
    C.c_void_p.from_address(out).value = made.address
    return 0


@_CurrentStream
def _work_stream(device_type: int, device_id: int, out: int) -> int:
    C.c_void_p.from_address(out).value = _current.stream.cuda_stream or None
    return 0


class _WithTable(TableMixin, _Tensor):
    __dlpack_c_exchange_api__ = table_capsule(
        c_table(
            managed_tensor_allocator=C.cast(_allocate, C.c_void_p).value,
            current_work_stream=C.cast(_work_stream, C.c_void_p).value,
        )
    )


caps.keep_for_ever(_allocate, _work_stream)
_Like = masquerade(_WithTable, "Tensor", "torch")


class CUDAGraph:
    runnable: int = 0

    def replay(self) -> None:
        drv.call("cuGraphLaunch", self.runnable, _current.stream.handle)


@contextmanager
def _graph(graph: CUDAGraph) -> Iterator[None]:
    stream, made = Stream(), C.c_void_p()
    with _current.at(stream):
        drv.call("cuStreamBeginCapture_v2", stream.handle, 0)
        yield
        drv.call("cuStreamEndCapture", stream.handle, C.byref(made))
    graph.runnable = drv.get("cuGraphInstantiateWithFlags", C.c_void_p, made, 0)


def _new(count: int, index: int) -> Any:
    stream = _current.stream.handle if index == 0 else 1
    return Tensor(drv, stream, device=index, shape=(count,), dtype="int32")


def full(shape: tuple[int], value: int, dtype: Any, device: str) -> Any:
    return standing.fill(_new(shape[0], int(device.partition(":")[2] or 0)), value)


def empty(count: int, device: str) -> Any:
    """One with a C table, by whose allocator others get memory."""
    return _Like(drv, _current.stream.handle, device=0, shape=(count,), dtype="int32")


def from_dlpack(x: Any, device: str) -> standing.Taken:
    assert device == "cuda"
    x.__dlpack_device__()
    return standing.Taken(x.__dlpack__(max_version=(1, 0), dl_device=(2, 255)))


def _stream_of(device: Any = None) -> Stream:
    return _current.stream if device in (None, 0) else Stream(1)


def _at(stream: Stream) -> AbstractContextManager[Any]:
    return _current.at(stream)


_devices = fake.torch_devices(drv)
cuda = SimpleNamespace(
    is_available=lambda: True,
    Stream=Stream,
    stream=_at,
    current_stream=_stream_of,
    synchronize=lambda: drv.call("cuCtxSynchronize"),
    CUDAGraph=CUDAGraph,
    graph=_graph,
    device_count=lambda: 2,
    memory_allocated=lambda: sum(not made.deleted for made in _allocated),
    current_device=_devices.get,
    device=lambda index: fake.TorchGuard(_devices, index),
)
