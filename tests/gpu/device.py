"""A real CUDA device, by nothing but ctypes and libcuda.

A gate is a word of pinned memory.  A stream that waits for it (cuStreamWaitValue32) stands still
until the host opens it, so what waits for that stream stays undone for as long as a test
looks: nothing is left to chance.  Not run on hardware yet (see test_gpu.py).
"""

from __future__ import annotations

import ctypes as C
import datetime
import platform
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import dlshim
from drivers.prototypes import CUDA, DEVICEPTR, OUT, POINTER, UINT

SYSTEM = "libcuda.so.1"
NOT_READY = 600
KINDS = ("L", "PTDS", "blocking", "non-blocking")
WORDS = 4096
WATCHDOG = 10.0  # seconds until a gate opens by itself, and the test has failed

MORE: dict[str, list[Any]] = {"cuMemHostGetDevicePointer_v2": [OUT, POINTER, UINT]}
#: What the results name beside the device: whose releases may matter.
DISTRIBUTIONS = (
    *("dlshim", "torch", "cupy-cuda12x", "cupy-cuda13x", "cupy", "jax", "jaxlib"),
    *("jax-cuda12-plugin", "jax-cuda13-plugin", "warp-lang", "numba", "numba-cuda"),
    *("cuda-core", "cuda-bindings", "cuda-python", "apache-tvm-ffi", "numpy", "pytest"),
)


class NoDevice(Exception):
    pass


class CudaError(RuntimeError):
    pass


class Device:
    """Device 0, its primary context, and a stream of every kind for either side."""

    def __init__(self, library: str) -> None:
        try:
            self.lib = C.CDLL(library)
        except OSError as error:
            raise NoDevice(f"no CUDA driver: {error}") from None
        if hasattr(self.lib, "fake_asynchronous"):
            self.lib.fake_asynchronous(1)  # a fake of the kit, whose operations else run at once
        for name, arguments in {**CUDA, **MORE}.items():
            if hasattr(self.lib, name):
                getattr(self.lib, name).argtypes = arguments
        count = C.c_int()
        rc = self.lib.cuInit(0) or self.lib.cuDeviceGetCount(C.byref(count))
        if rc or not count.value:
            raise NoDevice(f"no CUDA device: the driver answers {rc}, {count.value} devices")
        self.figures: list[tuple[str, str]] = []
        self.slowest = 0.0
        self.entered = ExitStack()  # what a test has made current, until its end
        self.rounds = 100_000 if library == SYSTEM else 1_000  # others are tried out, not measured
        self.context = self.get("cuDevicePrimaryCtxRetain", C.c_void_p, 0)
        self.call("cuCtxSetCurrent", self.context)
        self.streams: dict[tuple[str, str], int] = {}
        for who in ("P", "S"):
            self.streams[who, "L"], self.streams[who, "PTDS"] = 1, 2
            for kind in KINDS[2:]:
                made = self.get("cuStreamCreate", C.c_void_p, int(kind == "non-blocking"))
                self.streams[who, kind] = made
        self.event = self.get("cuEventCreate", C.c_void_p, 2)
        self.words = self.alloc("device", 4 * WORDS)
        self._word = self.pinned(64)
        self._word_there = self.get("cuMemHostGetDevicePointer_v2", DEVICEPTR, self._word, 0)
        self.out = (C.c_uint32 * WORDS).from_address(self.pinned(4 * WORDS))
        for stream in set(self.streams.values()):  # whatever is loaded late is loaded now
            self.set(0, stream)
            self.copy_out(stream)

    # --- calls ----

    def has(self, name: str) -> bool:
        return hasattr(self.lib, name)

    def call(self, name: str, *arguments: Any) -> None:
        rc = getattr(self.lib, name)(*arguments)
        if rc:
            raise CudaError(f"{name}: error {rc}")

    def get(self, name: str, kind: Any, *arguments: Any) -> Any:
        value = kind()
        self.call(name, C.byref(value), *arguments)
        return value.value

    def attribute(self, number: int) -> int:
        return self.get("cuDeviceGetAttribute", C.c_int, number, 0)

    def current(self) -> int | None:
        return self.get("cuCtxGetCurrent", C.c_void_p)

    # --- memory and work ----

    def alloc(self, kind: str, size: int) -> int:
        if kind == "managed":
            return self.get("cuMemAllocManaged", DEVICEPTR, size, 1)
        if kind == "pool":
            return self.get("cuMemAllocAsync", DEVICEPTR, size, self.streams["P", "non-blocking"])
        return self.pinned(size) if kind == "pinned" else self.get("cuMemAlloc_v2", DEVICEPTR, size)

    def pinned(self, size: int) -> int:
        return self.get("cuMemHostAlloc", C.c_void_p, size, 3)  # portable, mapped

    def rest(self) -> None:
        """No library's stream is current, nothing runs, the words are 7, and nothing was copied out
        of them."""
        self.entered.close()
        self.call("cuCtxSetCurrent", self.context)
        self.call("cuCtxSynchronize")
        self.set(7, 1)
        self.call("cuCtxSynchronize")
        C.memset(C.addressof(self.out), 0, C.sizeof(self.out))

    def set(self, value: int, stream: int, address: int = 0, words: int = WORDS) -> None:
        """A kernel on `stream` writes."""
        self.call("cuMemsetD32Async", address or self.words, value, words, stream)

    def copy_out(self, stream: int, address: int = 0) -> None:
        """A copy on `stream` reads; what it saw is in `out`."""
        there, size = C.addressof(self.out), C.sizeof(self.out)
        self.call("cuMemcpyDtoHAsync_v2", there, address or self.words, size, stream)

    def seen(self) -> set[int]:
        return set(self.out)

    def edge(self, before: int, after: int) -> None:
        self.call("cuEventRecord", self.event, before)
        self.call("cuStreamWaitEvent", after, self.event, 0)

    def finishes(self, stream: int, seconds: float) -> int:
        """0 as soon as the stream has nothing left to do, NOT_READY if it still has then."""
        end = time.monotonic() + seconds
        while (rc := self.lib.cuStreamQuery(stream)) == NOT_READY and time.monotonic() < end:
            time.sleep(0.001)
        return rc

    def is_capturing(self, stream: int) -> bool:
        state = C.c_int()
        self.call("cuStreamIsCapturing", stream, C.byref(state))
        return state.value == 1

    @contextmanager
    def capture(self, stream: int) -> Iterator[list[int]]:
        """What is given to `stream` goes into a graph, whose handle the list then holds."""
        graph, made = C.c_void_p(), list[int]()
        self.call("cuStreamBeginCapture_v2", stream, 0)
        try:
            yield made
        finally:
            rc = self.lib.cuStreamEndCapture(stream, C.byref(graph))
        assert rc == 0, f"the capture was broken: error {rc}"
        made.append(graph.value or 0)

    # --- gates ----

    def needs_gates(self) -> str:
        name = "cuStreamWaitValue32_v2"
        name = name if self.has(name) else "cuStreamWaitValue32"
        if not self.has(name):
            pytest.fail("this driver has no cuStreamWaitValue32: nothing is proved of order")
        C.c_uint32.from_address(self._word).value = 1  # open: the trial passes at once
        rc = getattr(self.lib, name)(self.streams["P", "non-blocking"], self._word_there, 1, 0)
        if rc:
            pytest.fail(
                f"cuStreamWaitValue32 is switched off here, error {rc}, as under Windows's WDDM "
                "and on some virtual GPUs: nothing is proved of order"
            )
        self.call("cuCtxSynchronize")
        return name

    @contextmanager
    def gate(self, stream: int) -> Iterator[Gate]:
        """`stream` stands still inside the block, unless the gate is opened; then all is done."""
        name = self.needs_gates()
        gate = Gate(C.c_uint32.from_address(self._word))
        try:
            self.call(name, stream, self._word_there, 1, 0)  # 0: greater or equal
            yield gate
        finally:
            gate.open()
            self.call("cuCtxSetCurrent", self.context)
            self.call("cuCtxSynchronize")
        assert not gate.fired, f"something waited for the gate, which opened after {WATCHDOG} s"

    # --- results ----

    def figure(self, name: str, value: str) -> None:
        print(f"{name}: {value}")
        self.figures.append((name, value))

    def results(self, stats: dict[str, list[Any]]) -> str:
        """What a run has shown, and of what: the one file to send."""
        name = C.create_string_buffer(128)
        self.call("cuDeviceGetName", name, 128, 0)
        version = self.get("cuDriverGetVersion", C.c_int)
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
        ).stdout.strip()
        told = {kind: stats.get(kind, []) for kind in ("passed", "failed", "error", "skipped")}
        counts = ", ".join(f"{len(reports)} {kind}" for kind, reports in told.items())
        broken = [(report.nodeid, report.longreprtext) for kind in ("failed", "error")
                  for report in told[kind]]  # fmt: skip
        skipped = Counter(str(report.longrepr[2]) for report in told["skipped"])
        lines = [
            f"# Tests on a GPU: {datetime.date.today().isoformat()}",
            "",
            counts + ".",
            "",
            f"* card: {name.value.decode()}, compute capability "
            f"{self.attribute(75)}.{self.attribute(76)}",
            f"* driver: API {version // 1000}.{version % 1000 // 10}, {driver_release()}",
            f"* system: {platform.platform()}, CPython {platform.python_version()}",
            f"* dlshim {dlshim.__version__} at commit {commit or 'unknown'}",
            *(f"* {each} {found}" for each, found in sorted(installed().items())),
            "",
            *(f"* {figure}: {value}" for figure, value in self.figures),
            f"* slowest export past a closed gate: {self.slowest * 1e6:.0f} us",
            "",
            *(f"* skipped {count}: {reason}" for reason, count in sorted(skipped.items())),
        ]
        for nodeid, text in broken:
            lines += ["", f"## {nodeid}", "", *(f"    {line}" for line in text.splitlines())]
        return "\n".join(lines) + "\n"


def installed() -> dict[str, str]:
    there = {name: next(iter(metadata.distributions(name=name)), None) for name in DISTRIBUTIONS}
    return {name: found.version for name, found in there.items() if found}


def driver_release() -> str:
    """As the kernel's module has it; the API's version is shared by many."""
    try:
        return Path("/proc/driver/nvidia/version").read_text().splitlines()[0]
    except OSError:
        return "its release is not told"


class Gate:
    def __init__(self, word: Any) -> None:
        self._word, self.fired = word, False
        word.value = 0
        self._watchdog = threading.Timer(WATCHDOG, self._fire)
        self._watchdog.daemon = True
        self._watchdog.start()

    @property
    def closed(self) -> bool:
        return not self._word.value

    def _fire(self) -> None:
        self.fired = True
        self._word.value = 1

    def open(self) -> None:
        self._watchdog.cancel()
        self._word.value = 1
