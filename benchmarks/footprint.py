"""What dlshim takes beside instructions: memory, growth, import time, and how it scales.

    python benchmarks/footprint.py

Memory is counted by malloc itself (PYTHONMALLOC=malloc, mallinfo2) in a process of its own, so
Linux with glibc >= 2.33 is needed. Times are the least of many short batches; they are ratios of
one run and never gate.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import build

build.add_path()

import report  # noqa: E402

OBJECTS = 20_000
EXCHANGES = 1_000_000
VERSION = (1, 3)


class _Mallinfo(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]


def in_use() -> int:
    function = ctypes.CDLL(None).mallinfo2
    function.restype = _Mallinfo
    info = function()
    return info.uordblks + info.hblkhd


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


# ---- in processes of their own ------------------------------------------------------------


def live_bytes() -> dict[str, float]:
    """Bytes of malloc for each live object, with the foreign struct that it holds."""
    import dls_floor

    import dlshim

    x, found = dls_floor.Legacy(), {}
    bare: list[Any] = [None] * OBJECTS
    gc.disable()
    for what, make in {
        "Producer": lambda: dlshim.upgrade(x),
        "translated capsule": lambda: dlshim.to_capsule(x, max_version=VERSION),
        "Tensor": lambda: dlshim.from_dlpack(x),
    }.items():
        make()
        before = in_use()
        for i in range(OBJECTS):
            bare[i] = make()
        found[what] = (in_use() - before) / OBJECTS
        for i in range(OBJECTS):
            bare[i] = None
    return found


def growth() -> dict[str, float]:
    import dls_floor

    import dlshim

    x = dls_floor.Legacy()

    def run(times: int) -> None:
        for _ in range(times):
            dlshim.upgrade(x).__dlpack__(max_version=VERSION)
            dlshim.from_dlpack(x)
        gc.collect()

    run(10_000)
    blocks, pages = in_use(), resident()
    run(EXCHANGES // 2)
    return {"malloc bytes": in_use() - blocks, "resident bytes": resident() - pages}


def import_time() -> dict[str, float]:
    start = time.perf_counter()
    import dlshim  # noqa: F401

    return {"ms": (time.perf_counter() - start) * 1000}


def exchange_loop() -> Callable[[int], None]:
    import dls_floor

    import dlshim

    x, upgrade, version = dls_floor.Legacy(), dlshim.upgrade, VERSION

    def run(times: int) -> None:
        for _ in range(times):
            upgrade(x).__dlpack__(max_version=version)

    return run


def least(run: Callable[[], Any], batches: int) -> float:
    """Nanoseconds of the fastest batch."""
    best = float("inf")
    for _ in range(batches):
        start = time.perf_counter_ns()
        run()
        best = min(best, time.perf_counter_ns() - start)
    return best


def live_scaling() -> dict[str, float]:
    import dls_floor

    import dlshim

    x, run, found, held = dls_floor.Legacy(), exchange_loop(), {}, []
    gc.disable()
    for count in (1, 1_000, 100_000):
        while len(held) < count:
            held.append(dlshim.to_capsule(x, max_version=VERSION))
        found[f"{count} live"] = least(lambda: run(400), 120) / 400
    return found


def thread_scaling() -> dict[str, float]:
    """So many exchanges shared by one thread and by two."""
    loops, found = 40_000, {}
    for count in (1, 2):

        def share(count: int = count) -> None:
            runs = [exchange_loop() for _ in range(count)]
            threads = [threading.Thread(target=run, args=(loops // count,)) for run in runs]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        found[f"{count} threads"] = least(share, 12) / loops
    return found


#: What is measured, how, and in how many processes, of which the least counts.
PARTS: dict[str, tuple[Callable[[], dict[str, float]], int]] = {
    "bytes of each live object": (live_bytes, 1),
    "growth over 10^6 exchanges": (growth, 1),
    "import": (import_time, 7),
    "ns with so many live exports": (live_scaling, 1),
    "ns by threads": (thread_scaling, 1),
}


def apart(part: str) -> dict[str, float]:
    counted = {"PYTHONMALLOC": "malloc"} if "bytes" in part or "growth" in part else {}
    best: dict[str, float] = {}
    for _ in range(PARTS[part][1]):
        command = [sys.executable, __file__, part]
        told = subprocess.run(command, env=os.environ | counted, capture_output=True, check=True)
        for name, value in json.loads(told.stdout).items():
            best[name] = min(value, best.get(name, value))
    return best


def main() -> None:
    if len(sys.argv) == 2:
        print(json.dumps(PARTS[sys.argv[1]][0]()))
        return
    build.ensure()
    rows = [(part, name, f"{v:.2f}") for part in PARTS for name, v in apart(part).items()]
    print(report.table(("", "", "value"), rows, left=2))


if __name__ == "__main__":
    main()
