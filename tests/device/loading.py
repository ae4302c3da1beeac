"""What needs a driver and what does not, for the children of ``test_loading.py`` and
``test_hip_runtimes.py``: ``from device.loading import *``, then ``use = Uses("cuda")``."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Callable
from typing import Any

import dlshim
from doubles import capsules as caps
from doubles import device as fake
from doubles import vendors
from doubles.cuda_interface import CudaOnly, empty
from doubles.producers import P2, P0ToDlpack, P1a

__all__ = [
    "AT",
    "HANDLE",
    "P2",
    "CudaOnly",
    "Forked",
    "P0ToDlpack",
    "P1a",
    "Uses",
    "caps",
    "copy",
    "ctypes",
    "dlshim",
    "edge",
    "empty",
    "fake",
    "gc",
    "os",
]

HANDLE = 0x7C2000000010
room = (ctypes.c_char * 64)()
AT = ctypes.addressof(room)
Attempts = dict[str, Callable[[], Any]]


class Uses:
    """By name, for one vendor.  `looks` look for a driver and do not miss it: before the array is
    there nobody knows that it is empty."""

    def __init__(self, name: str) -> None:
        self.vendor = v = {"cuda": vendors.CUDA, "rocm": vendors.ROCM}[name]
        self.here, self.pinned, self.managed = (
            (number, 0) for number in (v.device_type, v.host_type, 13)
        )
        self.needs = self._needs(v.legacy) | ({} if v.is_hip else self._needs_of_cuda())
        self.needs_not = self._needs_not(v.legacy) | ({} if v.is_hip else self._needs_not_of_cuda())
        self.looks: Attempts = {
            "nothing there, copy": lambda: self.copy(P1a, (0, 3)).__dlpack__(),
            "nothing there, copy, modern": lambda: self.copy(P2, (0, 3)).__dlpack__(),
        }

    def up(
        self, cls: Any, device: Any = None, shape: Any = (2, 3), data: int = AT, **options: Any
    ) -> Any:
        return dlshim.upgrade(cls(shape, device=device or self.here, data=data), **options)

    def copy(self, cls: Any, shape: Any = (2, 3), **fields: Any) -> Any:
        return dlshim.upgrade(cls(shape, device=self.here, **fields), device="cpu")

    def _needs(self, legacy: int) -> Attempts:
        up, here = self.up, self.here
        return {
            "edge": lambda: up(P1a).__dlpack__(stream=HANDLE),
            "default stream": lambda: up(P1a).__dlpack__(),
            "a function": lambda: up(P0ToDlpack).__dlpack__(stream=legacy),
            "a raw capsule": lambda: dlshim.upgrade(caps.make(device=here, data=AT)).__dlpack__(
                stream=legacy, max_version=(1, 0)
            ),
            "producer_stream": lambda: up(P1a, producer_stream=legacy).__dlpack__(stream=HANDLE),
            "a copy": lambda: self.copy(P1a, data=AT).__dlpack__(),
            "pinned, P named": lambda: up(P1a, self.pinned, producer_stream=legacy).__dlpack__(),
        }

    def _needs_of_cuda(self) -> Attempts:
        up = self.up
        return {
            "a function, the other stream": lambda: up(P0ToDlpack).__dlpack__(stream=2),
            "two reserved streams": lambda: up(P1a, producer_stream=1).__dlpack__(stream=2),
            "managed memory on the host": lambda: up(P2, self.managed).__dlpack__(),
            "CUDA array interface": lambda: dlshim.upgrade(CudaOnly(address=AT)).__dlpack__(
                stream=-1
            ),
            "guard": lambda: up(P2, on_release="guard").__dlpack__(
                stream=HANDLE, max_version=(1, 0)
            ),
        }

    def _needs_not(self, legacy: int) -> Attempts:
        up, here, v1 = self.up, self.here, {"max_version": (1, 0)}
        pinned, nothing = self.pinned, {"shape": (0, 3)}

        def tensor(cls: Any, stream: int, **fields: Any) -> Any:
            return dlshim.from_dlpack(cls(device=here, data=AT, **fields), stream=stream)

        return {
            # P1a is met: at its first refusal of -1 it would be asked whether a graph is captured.
            "same": lambda: up(P1a, unknown_stream="same").__dlpack__(stream=HANDLE),
            "minus one": lambda: up(P1a).__dlpack__(stream=-1),
            "minus one, modern": lambda: up(P2).__dlpack__(stream=-1, **v1),
            "minus one, function": lambda: up(P0ToDlpack).__dlpack__(stream=-1),
            "minus one, Tensor": lambda: tensor(P1a, -1).__dlpack__(stream=-1),
            "modern, handle": lambda: up(P2).__dlpack__(stream=HANDLE, **v1),
            "modern, None": lambda: up(P2).__dlpack__(**v1),
            "modern, default stream": lambda: up(P2).__dlpack__(stream=legacy),
            "nothing there": lambda: up(P1a, **nothing).__dlpack__(stream=HANDLE),
            "nothing there, copy, capsule": lambda: dlshim.upgrade(
                caps.make((0, 3), device=here), device="cpu"
            ).__dlpack__(),
            "nothing there, copy, Tensor": lambda: dlshim.from_dlpack(
                P2((0, 3), device=here)
            ).__dlpack__(dl_device=(1, 0)),
            "host": lambda: up(P2, (1, 0)).__dlpack__(stream=HANDLE),
            "pinned": lambda: up(P2, pinned).__dlpack__(**v1),
            "pinned, handle": lambda: up(P1a, pinned).__dlpack__(stream=HANDLE),
            "P is S": lambda: up(P1a, producer_stream=HANDLE).__dlpack__(stream=HANDLE),
            "P is S, both the default": lambda: up(P1a, producer_stream=legacy).__dlpack__(),
            "P is ready": lambda: up(P1a, producer_stream=-1).__dlpack__(stream=HANDLE),
            "the device": lambda: up(P2).__dlpack_device__(),
            "inspect": lambda: dlshim.inspect(P2(device=here, data=AT)),
        }

    def _needs_not_of_cuda(self) -> Attempts:
        up, here, managed = self.up, self.here, self.managed

        def says(x: Any, **options: Any) -> Any:
            return dlshim.from_dlpack(x, **options).__cuda_array_interface__["stream"]

        return {
            "minus one, managed": lambda: up(P2, managed).__dlpack__(stream=-1),
            "nothing there, managed": lambda: up(P1a, managed, shape=(0, 3)).__dlpack__(),
            "nothing there, CUDA array interface": lambda: dlshim.upgrade(empty()).__dlpack__(
                stream=HANDLE
            ),
            "nothing there, Tensor": lambda: says(P1a((0, 3), device=here, data=AT)),
            "host, CUDA's stream": lambda: up(P1a, (1, 0)).__dlpack__(stream=2),
            "same, managed": lambda: up(P1a, managed, unknown_stream="same").__dlpack__(),
            "the interface of a Tensor": lambda: (
                says(P2(device=here, data=AT), stream=2) == 2 or 1 / 0
            ),
        }

    def refused(self, what: str) -> str:
        try:
            self.needs[what]()
        except BufferError as error:
            return str(error)
        raise AssertionError(f"{what} went through")

    def driver_calls_refused(self, text: str) -> None:
        for what in self.needs:
            told = self.refused(what)
            assert text in told, (what, told)
        self.nothing_is_left()

    def other_calls_pass(self, *, also_looks: bool = True) -> None:
        for what, go in (self.needs_not | (self.looks if also_looks else {})).items():
            try:
                go()
            except Exception as error:
                raise AssertionError(what) from error
        self.nothing_is_left()

    def nothing_is_left(self) -> None:
        gc.collect()
        assert not caps.accounts(), caps.accounts()


def edge(drv: Any, device: int = 1) -> set[str]:
    """A kernel on P, an export, a kernel on S; what the driver was called for."""
    vendor = vendors.of(drv)
    drv.make_current(0)
    here = drv.now_current()
    p, s = drv.stream_new(device, False, name="P"), drv.stream_new(device, False, name="S")
    x = fake.NoKw(drv, p, device=device)
    assert not x.write()
    drv.clear_log()
    options: list[dict[str, int]] = [{"producer_stream": p}, {}]
    for each in options:
        caps.take(dlshim.upgrade(x, **each).__dlpack__(stream=s)).release()
        assert not drv.read(s, x.address), drv.races()
        drv.call(vendor.stream_sync, s)
        assert not x.write()
    assert drv.now_current() == here and not drv.gil_held_calls(every=True)
    return set(drv.calls())


def copy(drv: Any, device: int = 1) -> None:
    """The same to the host."""
    drv.make_current(0)
    here = drv.now_current()
    p = drv.stream_new(device, False, name="P")
    x = fake.NoKw(drv, p, device=device)
    assert not x.write()
    options: list[dict[str, int]] = [{"producer_stream": p}, {}]
    for each in options:
        taken = caps.take(dlshim.upgrade(x, device="cpu", **each).__dlpack__())
        assert taken.values() == x.values() and not drv.host_read(taken.view.data, 24)
        taken.release()
    assert drv.now_current() == here and not drv.races() and not drv.gil_held_calls(every=True)


class Forked:
    """Exports that a child inherits.  The fake ends the process at any call from a forked child."""

    def __init__(self, drv: Any) -> None:
        drv.start()
        self.drv, self.use = drv, Uses(vendors.of(drv).name)
        self.is_cuda = not self.use.vendor.is_hip
        self.address = drv.alloc(64)
        self.s = s = drv.stream_new(blocking=False)
        self.kept: dict[str, Any] = {
            "edge": self.make().__dlpack__(stream=s),
            "tensor": self.tensor(s),
            "unsynced": self.tensor(-1),
            "copy": self.use.copy(P1a, data=self.address).__dlpack__(max_version=(1, 0)),
        }
        if self.is_cuda:
            guarded = self.make(P2, on_release="guard")
            self.kept["guarded"] = guarded.__dlpack__(stream=s, max_version=(1, 0))
        self.before = drv.counts()
        names = {"cuCtxRecordEvent", self.use.vendor.device_sync}
        assert names & self.before.keys(), self.before

    def make(self, cls: Any = P1a, device: Any = None, **options: Any) -> Any:
        return self.use.up(cls, device, data=self.address, **options)

    def tensor(self, stream: int) -> Any:
        x = P1a((2, 3), device=self.use.here, data=self.address)
        return dlshim.from_dlpack(x, stream=stream)

    def told(self, go: Callable[[], Any]) -> None:
        try:
            go()
        except BufferError as error:
            assert "forked" in str(error) and "spawn" in str(error), error
        else:
            raise AssertionError("went through")

    def in_child(self) -> None:
        s, legacy, kept = self.s, self.use.vendor.legacy, self.kept
        self.told(lambda: self.make().__dlpack__(stream=s))
        self.told(lambda: self.make(producer_stream=legacy).__dlpack__(stream=s))
        self.told(lambda: kept["tensor"].__dlpack__(stream=legacy))
        self.told(lambda: self.use.copy(P1a, data=self.address).__dlpack__())
        self.told(lambda: dlshim.upgrade(CudaOnly(address=self.address)).__dlpack__(stream=-1))
        if self.is_cuda:
            managed = self.use.managed
            self.told(lambda: self.make(P2, managed).__dlpack__())
            self.told(lambda: kept["unsynced"].__cuda_array_interface__)
            self.told(lambda: self.make(P2, on_release="guard").__dlpack__(stream=s))
            assert kept["tensor"].__cuda_array_interface__["stream"] == s
        assert dlshim.upgrade(empty()).__dlpack_device__()[0] == self.use.here[0]
        self.make(P2).__dlpack__(stream=s)
        kept["tensor"].__dlpack__(stream=-1)
        kept["tensor"].__dlpack__(stream=s)
        kept.clear()
        self.use.other_calls_pass()

    @staticmethod
    def fork(go: Callable[[], Any]) -> None:
        child = os.fork()
        if child == 0:
            try:
                go()
            except BaseException:
                import traceback

                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
