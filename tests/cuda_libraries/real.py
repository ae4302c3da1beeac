"""The libraries of this suite, unmodified, and how their arrays meet the fake driver.

They run on a fake libcuda (`dlshim_testing.drivers`), so this module is worth something only in a
child in which that is mapped first; pytest imports it only to learn the checks' names.  What runs
here is the libraries' own host code: numba-cuda's arrays, streams and copies, cuda.core's buffers,
streams and views, tvm-ffi's import.  Kernels are the fake's `write` and `read`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from drivers import Driver

# The 12.2 driver is older than the bindings, and libraries say so once.
warnings.filterwarnings("ignore", message="cuda-bindings was built for CUDA major version")

np: Any = pytest.importorskip("numpy")
cuda: Any = pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")
core: Any = pytest.importorskip("cuda.core", reason="cuda.core is not installed")
tvm_ffi: Any = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not installed")
View: Any = pytest.importorskip("cuda.core.utils").StridedMemoryView

#: The drivers on which these releases of the libraries run.
VARIANTS = ("12.2", "13.0")
#: Kinds of stream, as either side can have them: the legacy one, the per-thread one, one that
#: syncs itself with L (numba makes such), one that does not (cuda.core makes such).
KINDS = ("L", "PTDS", "B", "N")
#: Where the two streams do not sync by themselves (rule S13).
UNSYNCED = {
    ("L", "N"), ("PTDS", "B"), ("PTDS", "N"), ("B", "PTDS"), ("B", "B"), ("B", "N"),
    ("N", "L"), ("N", "PTDS"), ("N", "B"), ("N", "N"),
}  # fmt: skip

_made: dict[tuple[str, str], Any] = {}
#: numba gives memory back in whatever context is current, and cases are left without one.
_kept: list[Any] = []


def at_device(drv: Driver, device: int | None) -> None:
    drv.set_current(None if device is None else drv.context(device))


def stream(kind: str, who: str) -> Any:
    """numba's object for one of the four kinds; P and S have streams of their own."""
    if (kind, who) not in _made:
        if kind == "N":
            keep = core.Device(0).create_stream()  # non-blocking unless asked otherwise
            made = cuda.external_stream(int(keep.handle))
            made.keep = keep
        else:
            make = {
                "L": cuda.legacy_default_stream,
                "PTDS": cuda.per_thread_default_stream,
                "B": cuda.stream,
            }
            made = make[kind]()
        _made[kind, who] = made
    return _made[kind, who]


def core_stream(kind: str, who: str) -> Any:
    """The same stream as an object of cuda.core."""
    if kind == "L":
        return core.LEGACY_DEFAULT_STREAM
    if kind == "PTDS":
        return core.PER_THREAD_DEFAULT_STREAM
    return core.Stream.from_handle(int(stream(kind, who)))


def pointer(array: Any) -> int:
    return array.__cuda_array_interface__["data"][0]


class Case:
    """An array of numba whose stream P has written it, and a consumer's stream S."""

    def __init__(
        self, drv: Driver, p: str = "N", s: str = "N", *, data: Any = None, current: int | None = 0
    ) -> None:
        drv.reset()
        self.drv = drv
        at_device(drv, 0)
        core.Device(0).set_current()
        self.P, self.S = stream(p, "P"), stream(s, "S")
        self.p, self.s = int(self.P), int(self.S)
        self.data = np.arange(12, dtype=np.float32).reshape(3, 4) if data is None else data
        self.array = cuda.to_device(self.data, stream=self.P)
        _kept.append(self.array)
        self.address, self.bytes = pointer(self.array), self.data.nbytes
        self.write()
        at_device(drv, current)
        self.stack = drv.context_stack()
        drv.clear_log()

    def write(self) -> bool:
        return bool(self.bytes) and self.drv.write(self.p, self.address, self.bytes)

    def read(self, stream: int | None = None) -> bool:
        """A kernel on S, or on `stream`, reads the array: whether that was a race."""
        return self.drv.read(self.s if stream is None else stream, self.address, self.bytes)

    def host_read(self) -> bool:
        return self.drv.host_read(self.address, self.bytes)

    def buffer(self) -> Any:
        """The same memory as a Buffer of cuda.core, which says nothing about streams."""
        return core.Buffer.from_handle(self.address, self.bytes, owner=self.array)

    def check(self, told: object = "") -> None:
        """What holds for every exchange: contexts as before, Python's lock free, no capture."""
        assert self.drv.context_stack() == self.stack, told
        assert not self.drv.gil_held_calls(), (told, self.drv.gil_held_calls())
        assert not self.drv.marks(), (told, self.drv.marks())

    def syncs(self) -> list[str]:
        """The calls that sync or wait, with what they are about."""
        names = ("Record", "Wait", "Synchronize")
        return [
            f"{entry.name} {entry.args.get('stream', '')}".strip()
            for entry in self.drv.entries()
            if any(name in entry.name for name in names)
        ]

    def to_core(self, source: Any, stream: int | None = None) -> Any:
        """cuda.core takes it: `stream=S, max_version=(1, 3)` is what it asks."""
        return View.from_dlpack(source, stream_ptr=self.s if stream is None else stream)


def cases(drv: Driver, **options: Any) -> Iterator[tuple[str, str, Case]]:
    """Every kind of P with every kind of S."""
    for p in KINDS:
        for s in KINDS:
            yield p, s, Case(drv, p, s, **options)


def blocks(calls: list[str]) -> list[str]:
    return [call for call in calls if "Synchronize" in call]


def edge(calls: list[str]) -> bool:
    """Exactly one event: recorded, and waited for by a stream, not by the host."""
    return [call.split()[0] for call in calls] == ["cuEventRecord", "cuStreamWaitEvent"]


class Given:
    """An address with a dict of the CUDA array interface, from which numba makes an array."""

    def __init__(self, address: int, shape: tuple[int, ...], stream: int | None) -> None:
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": "<f4", "data": (address, False), "version": 3,
            "stream": stream,
        }  # fmt: skip


def numba_over(address: int, shape: tuple[int, ...], stream: int | None) -> Any:
    """A DeviceNDArray over memory of any kind, on that stream; numba does not wait here."""
    return cuda.as_cuda_array(Given(address, shape, stream), sync=False)
