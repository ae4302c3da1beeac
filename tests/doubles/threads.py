"""Work in several threads at once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

THREADS, ROUNDS = 6, 60


def together(
    *works: Callable[[], object],
    threads: int = THREADS,
    rounds: int = ROUNDS,
    interval: float = 1e-5,
) -> None:
    """Run the functions in threads that start at once; raise what any of them raised."""
    failures: list[BaseException] = []
    start = threading.Barrier(threads)

    def run(work: Callable[[], object]) -> None:
        try:
            start.wait(400)
            for _ in range(rounds):
                work()
        except BaseException as failure:
            failures.append(failure)
            start.abort()

    before = sys.getswitchinterval()
    sys.setswitchinterval(interval)
    try:
        started = [
            threading.Thread(target=run, args=(works[k % len(works)],)) for k in range(threads)
        ]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    if failures:
        raise failures[0]
