"""How exchanges scale over threads, on an interpreter without the GIL.

Two threads do the same in short batches.  A batch counts if its thread had a processor the whole
time, and the other thread too: other processes then change nothing, they only make such batches
rare.  The first quarter of the batches tells the time.  Shown is how many times the work of one
thread the two do, with an object of their own each and with one that they share; the interpreter
itself makes threads wait that change the count of one object, as the first two rows say.  (Tuples
of keywords too: 3.13 counts the constants of a module that comes from a .pyc.  None is used here.)

Eight threads take turns on the processors, so what is shown of them is the time that their
operations cost.  Fails below LEAST for objects of their own.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import dlshim

LEAST = 1.8
BATCH, BATCHES = 150_000, int(os.environ.get("BATCHES", "2500"))  # nanoseconds of one batch
#: Begin, end and CPU time of a batch, in seconds.
Batch = tuple[float, float, float]
upgrade, take = dlshim.upgrade, dlshim.from_dlpack


class Producer:
    def __init__(self) -> None:
        self.tensor = take(bytearray(64))

    def __dlpack__(self, stream: object = None) -> object:
        return self.tensor.__dlpack__()


def attribute(x: Any, n: int) -> None:
    for _ in range(n):
        x.__class__  # noqa: B018


def view(x: Any, n: int) -> None:
    for _ in range(n):
        memoryview(x)


def wrap(x: Any, n: int) -> None:
    for _ in range(n):
        upgrade(x)


def export(x: Any, n: int) -> None:
    for _ in range(n):
        x.__dlpack__()


def taken(x: Any, n: int) -> None:
    for _ in range(n):
        take(x)


def exported_and_taken(x: Any, n: int) -> None:
    for _ in range(n):
        take(x.__dlpack__())


def wrapped_and_taken(x: Any, n: int) -> None:
    for _ in range(n):
        take(upgrade(x))


def memory() -> bytearray:
    return bytearray(64)


def tensor() -> Any:
    return take(bytearray(64))


Work = Callable[[Any, int], None]
#: What makes an object, what is done with it, and some nanoseconds for that.
ROWS: dict[str, tuple[Callable[[], Any], Work, int]] = {
    "x.__class__ (no dlshim)": (memory, attribute, 40),
    "memoryview(x) (no dlshim)": (memory, view, 150),
    "upgrade(bytearray)": (memory, wrap, 80),
    "upgrade(x) of a class": (Producer, wrap, 80),
    "Tensor.__dlpack__": (tensor, export, 110),
    "from_dlpack(bytearray)": (memory, taken, 300),
    "from_dlpack(Tensor)": (tensor, taken, 220),
    "from_dlpack(Tensor.__dlpack__())": (tensor, exported_and_taken, 450),
    "from_dlpack(upgrade(x)) of a class": (Producer, wrapped_and_taken, 450),
}


def run(makers: list[Callable[[], Any]], work: Work, n: int) -> list[list[Batch]]:
    """The batches of each thread; each makes its object."""
    done: list[list[Batch]] = [[] for _ in makers]
    start = threading.Barrier(len(makers))

    def go(number: int) -> None:
        x = makers[number]()
        work(x, 100)
        start.wait()
        for _ in range(BATCHES):
            spent, begin = time.thread_time(), time.perf_counter()
            work(x, n)
            end = time.perf_counter()
            done[number].append((begin, end, time.thread_time() - spent))

    threads = [threading.Thread(target=go, args=(number,)) for number in range(len(makers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return done


def had_a_processor(batch: Batch) -> bool:
    begin, end, spent = batch
    return end - begin < 1.03 * spent + 6e-6


def together(mine: list[Batch], other: list[Batch]) -> list[Batch]:
    """The batches during which the other thread ran too."""
    found, first = [], 0
    for batch in filter(had_a_processor, mine):
        begin, end, _ = batch
        while first < len(other) and other[first][1] <= begin:
            first += 1
        meanwhile = [each for each in other[first : first + 20] if each[0] < end]
        shared = sum(min(end, each[1]) - max(begin, each[0]) for each in meanwhile)
        if all(map(had_a_processor, meanwhile)) and shared > 0.95 * (end - begin):
            found.append(batch)
    return found


def nanoseconds(batches: list[Batch], n: int) -> float | None:
    """Of one operation; None where too few batches tell."""
    times = sorted(end - begin for begin, end, _ in batches)
    return times[len(times) // 4] / n * 1e9 if len(times) >= 8 else None


def times_of_two(alone: float, batches: list[list[Batch]], n: int) -> float | None:
    one, two = batches
    each = nanoseconds(together(one, two) + together(two, one), n)
    return each and 2 * alone / each


def main(names: list[str]) -> int:
    low = False
    print(f"{'':36}one thread   two, own   two, one shared   eight, own (CPU)")
    for name, (make, work, cost) in ROWS.items():
        if names and not any(each in name for each in names):
            continue
        n = max(20, BATCH // cost)
        batches = run([make], work, n)[0]
        alone = nanoseconds(list(filter(had_a_processor, batches)), n) or float("nan")
        own = times_of_two(alone, run([make] * 2, work, n), n)
        one = make()
        shared = times_of_two(alone, run([lambda x=one: x] * 2, work, n), n)
        eight = [batch for each in run([make] * 8, work, n // 4) for batch in each]
        spent = sum(cpu for _, _, cpu in eight) / sum(cpu for _, _, cpu in batches)
        times = [f"{each:8.2f}x" if each else "not told " for each in (own, shared)]
        cpu = f"{spent / 2:5.2f} times that of one"
        print(f"{name:36}{alone:7.0f} ns  {times[0]}         {times[1]}   {cpu}", flush=True)
        low |= own is not None and own < LEAST
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(f"GIL {'on' if gil else 'off'}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return 1 if low and not gil else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
