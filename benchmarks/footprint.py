"""What dlshim takes beside instructions: memory, growth, import time, size, and how it scales.

    python benchmarks/footprint.py [--wheel FILE] [--json FILE]

Memory is counted by malloc itself (PYTHONMALLOC=malloc, mallinfo2) in a process of its own, so
Linux with glibc >= 2.33 is needed.  Times are the least of many short batches; they are ratios of
one run and never gate.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import pathlib
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

# What: how one is made of a legacy C producer x, and the most bytes that design allows.
LIVE: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "Producer": (lambda shim, x: shim.upgrade(x), 96),
    "translated capsule": (lambda shim, x: shim.to_capsule(x, max_version=VERSION), 288),
    "Tensor": (lambda shim, x: shim.from_dlpack(x), 300),
}


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

    x = dls_floor.legacy()
    found = {}
    bare = [None] * OBJECTS
    gc.disable()
    for what, (make, _) in LIVE.items():
        make(dlshim, x)
        before = in_use()
        for i in range(OBJECTS):
            bare[i] = make(dlshim, x)
        after = in_use()
        found[what] = (after - before) / OBJECTS
        for i in range(OBJECTS):
            bare[i] = None
    return found


def growth() -> dict[str, float]:
    import dls_floor

    import dlshim

    x = dls_floor.legacy()

    def run(times: int) -> None:
        for _ in range(times):
            dlshim.upgrade(x).__dlpack__(max_version=VERSION)
            dlshim.from_dlpack(x)

    run(10_000)
    gc.collect()
    blocks, pages = in_use(), resident()
    run(EXCHANGES // 2)
    gc.collect()
    return {"malloc bytes": in_use() - blocks, "resident bytes": resident() - pages}


def import_time() -> float:
    start = time.perf_counter()
    import dlshim  # noqa: F401

    return (time.perf_counter() - start) * 1000


# ---- times --------------------------------------------------------------------------------


def least(run: Callable[[int], None], loops: int = 400, batches: int = 120) -> float:
    """Nanoseconds of one, by the fastest batch."""
    best = float("inf")
    for _ in range(batches):
        start = time.perf_counter_ns()
        run(loops)
        best = min(best, time.perf_counter_ns() - start)
    return best / loops


def exchange_loop(objects: list[Any]) -> Callable[[int], None]:
    """So many exchanges, over the objects in turn."""
    import dlshim

    upgrade, version = dlshim.upgrade, VERSION

    def run(times: int) -> None:
        for _ in range(times // len(objects)):
            for x in objects:
                upgrade(x).__dlpack__(max_version=version)

    return run


def live_scaling() -> dict[str, float]:
    import dls_floor

    import dlshim

    x = dls_floor.legacy()
    run, found, held = exchange_loop([x]), {}, []
    gc.disable()
    for count in (1, 1_000, 100_000):
        while len(held) < count:
            held.append(dlshim.to_capsule(x, max_version=VERSION))
        found[f"{count} live"] = least(run)
    return found


def thread_scaling() -> dict[str, float]:
    import dls_floor

    loops = 40_000
    found = {}
    for count in (1, 2):
        best = float("inf")
        for _ in range(12):
            runs = [exchange_loop([dls_floor.legacy()]) for _ in range(count)]
            threads = [threading.Thread(target=run, args=(loops // count,)) for run in runs]
            start = time.perf_counter_ns()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            best = min(best, time.perf_counter_ns() - start)
        found[f"{count} threads"] = best / loops
    return found


def type_scaling() -> dict[str, float]:
    import dls_floor

    def make(name: str) -> Any:
        inner = dls_floor.legacy()

        def export(self: Any, stream: Any = None) -> Any:
            return inner.__dlpack__()

        return type(name, (), {"__dlpack__": export})

    one = make("One")
    many = [make(f"T{i}") for i in range(64)]
    return {
        "64 objects of one type": least(exchange_loop([one() for _ in range(64)]), 640),
        "64 types interleaved": least(exchange_loop([each() for each in many]), 640),
    }


def option_cost() -> dict[str, float]:
    import dls_floor

    import dlshim

    x = dls_floor.legacy()
    version = VERSION

    def export(w: Any) -> Callable[[int], None]:
        def run(times: int) -> None:
            for _ in range(times):
                w.__dlpack__(max_version=version)

        return run

    return {
        "no options": least(export(dlshim.upgrade(x))),
        "an option": least(export(dlshim.upgrade(x, readonly=False))),
    }


# ---- all of it ----------------------------------------------------------------------------

PARTS: dict[str, Callable[[], Any]] = {
    "bytes of each live object": live_bytes,
    "growth over 10^6 exchanges": growth,
    "import": lambda: {"ms": import_time()},
    "ns with so many live exports": live_scaling,
    "ns by threads": thread_scaling,
    "ns by types": type_scaling,
    "ns by options": option_cost,
}


def apart(part: str, times: int = 1) -> dict[str, float]:
    """One part in a fresh process; the least of so many."""
    environment = dict(os.environ)
    if "bytes" in part or "growth" in part:
        environment["PYTHONMALLOC"] = "malloc"
    best: dict[str, float] = {}
    for _ in range(times):
        command = [sys.executable, __file__, "--part", part]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        for name, value in json.loads(done.stdout).items():
            best[name] = min(value, best.get(name, value))
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", type=pathlib.Path, help="show its size")
    parser.add_argument("--json", type=pathlib.Path, help="write the values here")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        print(json.dumps(PARTS[arguments.part]()))
        return 0
    build.ensure()
    found = {part: apart(part, 7 if part == "import" else 1) for part in PARTS}
    if arguments.wheel:
        found["wheel"] = {"bytes": arguments.wheel.stat().st_size}
    rows = [(part, name, f"{v:.2f}") for part, d in found.items() for name, v in d.items()]
    print(report.table(("", "", "value"), rows, left=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
