"""Passes for torch 2.10 and newer (see standing.py)."""

from __future__ import annotations

import ctypes as C
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace
from typing import Any

import standing
from standing import drv

from doubles import device as fake
from doubles.producers import masquerade

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
    return _new(count, 0)


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
    current_device=_devices.get,
    device=lambda index: fake.TorchGuard(_devices, index),
)
