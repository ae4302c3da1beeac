"""How independent exchanges scale over threads, on an interpreter without the GIL.

Every thread exchanges objects of its own: upgrade(), __dlpack__() and from_dlpack().  Shown is how
many times the exchanges of one thread several threads make in the same time; the best of some
rounds, because other processes can only lower it.  It wants as many idle cores as threads, and
fails without the GIL below LEAST of what is possible.
"""

from __future__ import annotations

import os
import sys
import threading
import time

import dlshim

THREADS, ROUNDS, EXCHANGES = 2, 7, 20000
LEAST = 0.9


def exchange(barrier: threading.Barrier, spent: list[float], number: int) -> None:
    x = dlshim.from_dlpack(bytearray(64))

    class Producer:
        def __dlpack__(self, **keywords: object) -> object:
            return x.__dlpack__(**keywords)

    producer = Producer()
    upgrade, take = dlshim.upgrade, dlshim.from_dlpack
    barrier.wait()
    begin = time.perf_counter()
    for _ in range(EXCHANGES):
        take(upgrade(producer).__dlpack__(max_version=(1, 0)))
    spent[number] = time.perf_counter() - begin


def seconds(threads: int) -> float:
    """Of the slowest thread, in the best round."""
    rounds = []
    for _ in range(ROUNDS):
        barrier, spent = threading.Barrier(threads), [0.0] * threads
        workers = [
            threading.Thread(target=exchange, args=(barrier, spent, number))
            for number in range(threads)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        rounds.append(max(spent))
    return min(rounds)


def main() -> int:
    one, many = seconds(1), seconds(THREADS)
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    times = THREADS * one / many
    print(f"{one / EXCHANGES * 1e9:.0f} ns an exchange in one thread")
    print(f"{times:.2f} times as many exchanges in {THREADS} threads")
    print(f"GIL {'on' if gil else 'off'}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return 1 if times < LEAST * THREADS and not gil else 0


if __name__ == "__main__":
    sys.exit(main())
