"""How independent exchanges scale over threads, on an interpreter without the GIL.

    python tools/free_threaded.py scaling        or, with such an interpreter:
    python benchmarks/threads.py [--threads 2] [--report FILE]

Every thread exchanges objects of its own: upgrade(), __dlpack__() and from_dlpack(). Shown is how
many times the exchanges of one thread several threads make in the same time, by the clock and by
the threads' own processor time; the best of some rounds, because other processes can only lower it.
The first wants as many idle cores as threads. The second tells only what waiting for each other's
caches costs, and not much where the threads seldom run at the same time.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from pathlib import Path

import dlshim

ROUNDS, EXCHANGES = 7, 20000


def exchange(barrier: threading.Barrier, spent: list[tuple[float, float]], number: int) -> None:
    x = dlshim.from_dlpack(bytearray(64))

    class Producer:
        def __dlpack__(self, **keywords: object) -> object:
            return x.__dlpack__(**keywords)

    producer = Producer()
    upgrade, take = dlshim.upgrade, dlshim.from_dlpack
    barrier.wait()
    begin, own = time.perf_counter(), time.thread_time()
    for _ in range(EXCHANGES):
        take(upgrade(producer).__dlpack__(max_version=(1, 0)))
    spent[number] = (time.perf_counter() - begin, time.thread_time() - own)


def seconds(threads: int) -> tuple[float, float]:
    """Of the slowest thread: by the clock, and of processor time."""
    barrier, spent = threading.Barrier(threads), [(0.0, 0.0)] * threads
    workers = [
        threading.Thread(target=exchange, args=(barrier, spent, number))
        for number in range(threads)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    clock, own = zip(*spent, strict=True)
    return max(clock), max(own)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--report", type=Path, metavar="FILE", help="write what came of it as JSON")
    given = parser.parse_args()
    ones, many = ([seconds(n) for _ in range(ROUNDS)] for n in (1, given.threads))
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    load = os.getloadavg()[0]
    report: dict[str, object] = {"date": time.strftime("%Y-%m-%d", time.gmtime())}
    report |= {"gil": "on" if gil else "off", "threads": given.threads}
    for by, which in enumerate(("the clock", "processor time")):
        one, all_of_them = (min(each[by] for each in rounds) for rounds in (ones, many))
        times = given.threads * one / all_of_them
        print(f"by {which}: {one / EXCHANGES * 1e9:.0f} ns an exchange in one thread,")
        print(f"    {times:.2f} times as many exchanges in {given.threads} threads")
        report[f"times by {which}"] = round(times, 2)
    print(f"GIL {'on' if gil else 'off'}, load {load:.1f} on {os.cpu_count()} cores")
    if given.report:
        given.report.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
