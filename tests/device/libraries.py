"""Libraries that are "imported", as far as dlshim looks, and know their current stream; and how the
producers of the matrix are made, for either vendor."""

from __future__ import annotations

import ctypes as C
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from doubles import capsules as caps
from doubles import device as fake
from doubles import streams, vendors
from doubles.device import TorchGuard
from doubles.producers import TableMixin, _CurrentStream, c_table, masquerade, table_capsule
from doubles.vendors import Vendor


class Current:
    """`torch.cuda` and `cupy.cuda`, which are called so on ROCm as well."""

    def __init__(self, form: Callable[[int], object], legacy: int) -> None:
        self.form, self.legacy, self.handle = form, legacy, legacy

    def current_stream(self, device: int) -> object:
        return self.form(0 if self.handle == self.legacy else self.handle)

    version = "2.13.0"
    #: Those of `torch.cuda`, where a test says which (doubles.device.TorchDevices).
    devices: Any = None

    def current_device(self) -> int:
        return self.devices.get()

    def device(self, index: int) -> object:
        return TorchGuard(self.devices, index)

    def get_current_stream(self) -> object:
        return self.current_stream(0)


class Environment(Current):
    """tvm-ffi: the number that `use_raw_stream` was given, 0 where it was not."""

    def get_raw_stream(self, device: object) -> object:
        return self.form(self.handle)


class Named(Current):
    """`nvcv.cuda.Stream.current`, a property of the class."""

    @property
    def Stream(self) -> object:
        return types.SimpleNamespace(current=self.current_stream(0))


@contextmanager
def imported(libraries: Mapping[str, Current]) -> Iterator[None]:
    before = {name: sys.modules.get(name) for name in libraries}
    for name, current in libraries.items():
        module: Any = types.ModuleType(name)
        module.cuda, module.get_raw_stream = current, getattr(current, "get_raw_stream", None)
        guard = fake.PADDLE.device_guard
        module.device = types.SimpleNamespace(  # as paddle has it
            cuda=current, get_device=fake.PADDLE.get_device, device_guard=guard
        )
        module.__version__ = current.version
        sys.modules[name] = module
    try:
        yield
    finally:
        for name, module in before.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module


def _work_stream(device_type: int, device_id: int, out: int) -> int:
    C.c_void_p.from_address(out).value = CurrentTable.current
    return 0


_work_stream_c = _CurrentStream(_work_stream)
caps.keep_for_ever(_work_stream_c)


class CurrentTable(TableMixin):
    """A C table whose `current_work_stream` is P, NULL (None here) for the default."""

    current: int | None = None
    __dlpack_c_exchange_api__ = table_capsule(
        c_table(current_work_stream=C.cast(_work_stream_c, C.c_void_p).value)
    )


# --- producers ----------------------------------------------------------------------------


class TvmFfi(fake.Silent):
    """tvm-ffi's Tensor: ignores `stream`; its module says the environment's stream of a device."""

    LIBRARY = ("tvm_ffi.core", "Tensor")


class TableOnly(CurrentTable, fake.OnDevice):
    """A C table and nothing else."""

    def __init__(self, drv: Any, stream: int | None = None, **keywords: Any) -> None:
        super().__init__(drv, stream, **keywords)
        CurrentTable.current = None if self.stream == self.vendor.legacy else self.stream


class NumbaArray(fake.Cai2):
    """numba's DeviceNDArray, told to say version 2: `stream` is an attribute of the object."""

    def __init__(self, drv: Any, stream: int = 1, **keywords: Any) -> None:
        super().__init__(drv, stream, **keywords)
        self.p, self.stream = stream, streams.NumbaStream(0 if stream == 1 else stream)


class WarpArray(fake.Cai2):
    """Warp's array, `__cuda_array_interface__` alone: the stream is the device's."""

    def __init__(self, drv: Any, stream: int = 1, **keywords: Any) -> None:
        super().__init__(drv, stream, **keywords)
        current = streams.WarpStream(0 if stream == 1 else stream)
        self.device = types.SimpleNamespace(stream=current)


@dataclass(frozen=True)
class Libraries:
    """Those of one vendor: what says a current stream, and how a producer of the matrix is made."""

    current: Mapping[str, Current]
    make: Mapping[str, Callable[..., Any]]

    def imported(self) -> AbstractContextManager[None]:
        return imported(self.current)

    def stand_on(self, stream: int) -> None:
        """All of them work on this stream now."""
        for current in self.current.values():
            current.handle = stream


def source_of(kind: str, array: Any) -> Any:
    """What upgrade is given."""
    if kind == "capsule":
        return array()
    return array((1, 0)) if kind == "versioned capsule" else array


def _libraries(vendor: Vendor, more: Mapping[str, Current], own: Mapping[str, Any]) -> Libraries:
    current = {
        "torch": Current(streams.TorchStream, vendor.legacy),
        "cupy": Current(streams.CupyStream, vendor.legacy),
        "tvm_ffi": Environment(int, vendor.legacy),
        **more,
    }

    def with_current(library: str, cls: type) -> Callable[..., Any]:
        def make(drv: Any, stream: int, **keywords: Any) -> Any:
            current[library].handle = stream
            return cls(drv, stream, **keywords)

        return make

    make = {
        "torch": fake.named(fake.TorchLike),
        "torch 2.9": fake.named(fake.Torch29),
        "torch 2.8": fake.named(fake.TorchOld),
        "nanobind": fake.named(fake.Silent),
        "tvm-ffi": with_current("tvm_ffi", fake.named(TvmFfi)),
        "no keyword": fake.NoKw,
        "capsule": fake.RawFn,
        "versioned capsule": fake.RawFn,
        "toDlpack": fake.ToDlpack,
        "cupy's toDlpack": with_current("cupy", masquerade(fake.ToDlpack, "ndarray", "cupy")),
        "table": TableOnly,
        "cai 2": fake.Cai2,
        "torch's cai 2": with_current("torch", masquerade(fake.Cai2, "Tensor", "torch")),
        "cai 3": fake.Cai3,
        "cai 3, None": partial(fake.Cai3, entry=None),
        "cai 3, no key": partial(fake.Cai3, entry=fake.Cai.DROP),
        **own,
    }
    return Libraries(current, make)


CUDA = _libraries(
    vendors.CUDA,
    {"nvcv": Named(streams.NvcvStream, 1)},
    {
        "cupy": fake.named(fake.CupyLike),
        "cupy 13": fake.named(fake.Cupy13),
        "warp": fake.named(fake.WarpLike),
        "jax": fake.named(fake.JaxLike),
        "unheard of": fake.WarpLike,
        "cv-cuda": fake.named(fake.NvcvLike),
        "tensorflow": fake.named(fake.TensorFlowLike),
        "cai 0": fake.Cai0,
        "cai 1": fake.Cai1,
        "cudf": fake.CudfLike,
        "warp's cai 2": masquerade(WarpArray, "array", "warp._src.types"),
        "numba's cai 2": masquerade(NumbaArray, "DeviceNDArray", "numba.cuda.cudadrv.devicearray"),
        "numba": fake.named(fake.NumbaLike),
        "pycuda": fake.named(fake.PycudaLike),
        "rmm": fake.named(fake.RmmLike),
        "pylibcudf": fake.named(fake.PylibcudfLike),
    },
)
ROCM = _libraries(
    vendors.ROCM,
    {},
    {
        "cupy": fake.named(fake.CupyRocm),
        "old cupy": fake.named(fake.Cupy13Rocm),
        "unheard of": fake.Careful,
    },
)


def of(drv: Any) -> Libraries:
    return ROCM if vendors.of(drv).is_hip else CUDA
