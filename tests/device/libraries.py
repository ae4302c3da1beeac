"""Libraries that are "imported", as far as dlshim looks, and know their current stream."""

from __future__ import annotations

import ctypes as C
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from doubles import capsules as caps
from doubles.device import TorchGuard
from doubles.producers import TableMixin, _CurrentStream, c_table, table_capsule


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
    for name, current in libraries.items():
        module: Any = types.ModuleType(name)
        module.cuda, module.get_raw_stream = current, getattr(current, "get_raw_stream", None)
        module.device = types.SimpleNamespace(cuda=current)  # as paddle has it
        module.__version__ = current.version
        sys.modules[name] = module
    try:
        yield
    finally:
        for name in libraries:
            del sys.modules[name]


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
