"""Times every operation beside its peers in one run and prints the ratios.

    python benchmarks/bench.py [--groups journeys,...] [--select REGEX] [--csv FILE] [--peers FILE]

All operations take turns, in another order each time, so that a busy machine disturbs each alike.
Shown are the fastest of the short batches, their median, and the ratio of the fastest; ``--csv``
writes cases with and without dlshim, for the manual, ``--peers`` those of the packages that wrap an
object too. Nanoseconds never gate: ``instructions.py``
does.
"""

from __future__ import annotations

import argparse
import gc
import pathlib
import random
import statistics
import time
from collections.abc import Callable

import build

build.add_path()

import operations as ops  # noqa: E402
import report  # noqa: E402

TURNS = 60
WRAPPERS = ("bare", "dlshim", "ctypes-dlpack", "pydlpack")
TRIAL = 3  # how often a statement is run, and then timed, to find the size of a batch
BATCH = 500e-6  # seconds, about: short enough to fall between two turns of other programs

Loop = Callable[[int], None]


def seconds(loop: Loop, times: int) -> float:
    start = time.perf_counter()
    loop(times)
    return time.perf_counter() - start


def loops_of(selected: list[ops.Operation]) -> dict[str, tuple[Loop, int]]:
    """Name -> the loop, and how often a batch goes round it; one that cannot run here is named."""
    names, found = ops.Namespace(), {}
    for operation in selected:
        try:
            loop = ops.make_loop(operation, names)
            loop(TRIAL)
        except Exception as error:  # a peer may refuse; the others are still timed
            print(f"refused: {operation.name}: {type(error).__name__}: {error}".splitlines()[0])
            continue
        times = max(1, int(BATCH / max(seconds(loop, TRIAL) / TRIAL, 1e-8)))
        if operation.most is not None:
            times = min(times, (operation.most - 2 * TRIAL) // TURNS)
        found[operation.name] = loop, times
    return found


def measure(selected: list[ops.Operation]) -> dict[str, list[float]]:
    """Nanoseconds of each batch, the empty loop subtracted."""
    loops = loops_of(selected)
    empty = ops.make_loop(None, ops.Namespace())
    nothing = min(seconds(empty, 10_000) for _ in range(50)) / 10_000
    share = {operation.name: operation.loops for operation in selected}
    found: dict[str, list[float]] = {name: [] for name in loops}
    order = list(loops.items())
    gc.collect()
    gc.disable()
    for _ in range(TURNS):
        random.shuffle(order)
        for name, (loop, times) in order:
            one = seconds(loop, times) / times - nothing
            found[name].append(max(one, 0) / share[name] * 1e9)
    gc.enable()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ops.add_arguments(parser, ops.DEFAULT_GROUPS)
    parser.add_argument("--csv", type=pathlib.Path, help="write cases with and without dlshim")
    parser.add_argument("--peers", type=pathlib.Path, help="write cases beside the other wrappers")
    given = parser.parse_args()
    build.ensure()
    told = report.conditions(*ops.distributions())
    selected = ops.select(given.groups, given.select)
    values = measure(selected)
    least = {name: min(each) for name, each in values.items()}
    median = {name: statistics.median(each) for name, each in values.items()}
    print(told, ops.by_case(selected, least, "ns min", 1, {"ns median": median}), sep="\n\n")
    if given.csv:
        rows = []
        for case in dict.fromkeys(operation.case for operation in selected):
            bare, own = (least.get(f"{case} | {way}") for way in ("bare", "dlshim"))
            if bare and own:
                rows.append((case, f"{bare:.0f}", f"{own:.0f}", f"{own / bare:.2f}"))
        report.write_csv(given.csv, told, ("exchange", "bare", "dlshim", "ratio"), rows)
    if given.peers:
        rows = []
        for case in dict.fromkeys(operation.case for operation in selected):
            each = [least.get(f"{case} | {way}") for way in WRAPPERS]
            if all(each):
                rows.append((case, *(f"{time:.0f}" for time in each)))
        report.write_csv(given.peers, told, ("exchange", *WRAPPERS), rows)


if __name__ == "__main__":
    main()
