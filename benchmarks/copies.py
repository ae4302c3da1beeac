"""Times copies of host memory by dlshim beside NumPy's and torch's, in one run and on one thread.

    python benchmarks/copies.py [--select REGEX] [--sizes 64,4096] [--items 1,8] [--passes N]
                                [--csv FOLDER]

A cell is a layout, a size of the copy and an item size. The ways of a cell take turns, in another
order each time, and the least time of each counts. Time is what the thread got of a processor, page
faults included, so other programs disturb it little. Each pass is a process of its own; the median
of the ratios of all passes counts. There malloc gives new memory for each copy of FRESH bytes or
more, as it does of itself from 32 MB on. Else a block is what another way has left, and where that
lies decides: at 8 MB, by up to 1.5 for and against each way.
What is copied is an array of NumPy, and a tensor of torch over the same memory; the result is
dropped at once. torch has no negative strides, so it takes no part where NumPy's are.

Ways: `dlshim` is dlshim.from_dlpack(x, copy=True), `numpy` x.copy("C"), `torch` .clone() to
row-major order. NumPy's and torch's are measured twice (`numpy again`): how far two measurements
of one and the same copy lie apart is how far any two can. Copies up to SMALL bytes are measured as
whole exchanges, too: `upgraded` is numpy.from_dlpack(dlshim.upgrade(x), copy=True), `bare`
numpy.from_dlpack(x, copy=True), and `asked` x.__dlpack__(max_version=(1, 0)), the capsule of NumPy
that any exchange needs.

Each table has the worst of all item sizes in each cell: `copies` dlshim over the better of the two
others, `copies-noise` the better of the two over itself, `copies-small` `upgraded` over `bare`, and
`copies-parts` dlshim over `numpy` and `asked` together. Times never gate.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import platform
import random
import re
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import report

ITEMS = {1: "u1", 2: "i2", 4: "f4", 8: "f8", 16: "c16"}
SIZES = (64, 4 << 10, 256 << 10, 8 << 20, 64 << 20)
SMALL = 4 << 10
TURNS = 7
TURNS_MOST = 200  # of short ones
BATCH = 200e-6  # seconds, about
AGAIN = " again"
FRESH = 1 << 20
PATIENCE = 0.1  # seconds for a cell, unless TURNS take longer

Runs = dict[str, Callable[[], Any]]
Times = dict[str, float]
"""way -> nanoseconds in one pass"""
Cells = dict[str, Times]
"""layout, size of the copy and item size, as "reversed/64/8" -> the times of that cell"""


# ---- layouts --------------------------------------------------------------------------------


def square(items: int) -> tuple[int, int]:
    rows = 1 << (items.bit_length() // 2)
    return rows, max(1, items // rows)


def image(items: int, channels: int) -> tuple[int, int, int]:
    """Height, width and number of channels of about so many items."""
    pixels = max(1, items // channels)
    height = max(1, math.isqrt(pixels))
    return height, max(1, pixels // height), channels


def block(dtype: str, *shape: int) -> Any:
    return np.resize(np.arange(251).astype(dtype), shape)


def rows_apart(n: int, dtype: str) -> Any:
    rows, columns = square(n)
    return block(dtype, rows, columns + 3)[:, :columns]


def transposed_odd(n: int, dtype: str) -> Any:
    """No extent is a multiple of a cache line, so that no two rows share the same cache sets."""
    rows, columns = square(n)
    return block(dtype, columns + 3, rows + 5)[:columns, :rows].T


def axes_reversed(n: int, dtype: str) -> Any:
    return block(dtype, *image(n, max(1, round(n ** (1 / 3))))[::-1]).transpose(2, 1, 0)


def to_planes(n: int, dtype: str, channels: int) -> Any:
    return block(dtype, 1, *image(n, channels)).transpose(0, 3, 1, 2)


def to_pixels(n: int, dtype: str, channels: int) -> Any:
    height, width, _ = image(n, channels)
    return block(dtype, 1, channels, height, width).transpose(0, 2, 3, 1)


LAYOUTS: dict[str, Callable[[int, str], Any]] = {
    "contiguous": lambda n, t: block(t, n),
    "rows with gaps": rows_apart,
    "every second item": lambda n, t: block(t, 2 * n)[::2],
    "every fifth item": lambda n, t: block(t, 5 * n)[::5],
    "one channel of three": lambda n, t: block(t, *image(n, 1)[:2], 3)[..., 1],
    "reversed": lambda n, t: block(t, n)[::-1],
    "rows reversed": lambda n, t: block(t, *square(n))[::-1],
    "broadcast along columns": lambda n, t: np.broadcast_to(block(t, square(n)[0], 1), square(n)),
    "broadcast along rows": lambda n, t: np.broadcast_to(block(t, square(n)[1]), square(n)),
    "transposed": lambda n, t: block(t, *square(n)[::-1]).T,
    "transposed, odd pitch": transposed_odd,
    # Real and imaginary parts, given as pairs, wanted as two planes.
    "pairs to planes": lambda n, t: block(t, max(1, n // 2), 2).T,
    "axes reversed": axes_reversed,
    "NHWC to NCHW, 3": lambda n, t: to_planes(n, t, 3),
    "NCHW to NHWC, 3": lambda n, t: to_pixels(n, t, 3),
    "NHWC to NCHW, 64": lambda n, t: to_planes(n, t, 64),
    "NCHW to NHWC, 64": lambda n, t: to_pixels(n, t, 64),
}


# ---- one pass -------------------------------------------------------------------------------


def of_torch(x: Any) -> Runs:
    try:
        import torch
    except ImportError:
        return {}
    if any(step < 0 for step in x.strides):
        return {}
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a broadcast is read-only
        t, form = torch.from_numpy(x), torch.contiguous_format
    return {"torch": lambda: t.clone(memory_format=form)}


def ways(x: Any, size: int) -> Runs:
    import dlshim

    take, upgrade, consume = dlshim.from_dlpack, dlshim.upgrade, np.from_dlpack
    runs: Runs = {"dlshim": lambda: take(x, copy=True), "numpy": lambda: x.copy("C")}
    if size <= SMALL:
        runs["upgraded"] = lambda: consume(upgrade(x), copy=True)
        runs["bare"] = lambda: consume(x, copy=True)
        runs["asked"] = lambda: x.__dlpack__(max_version=(1, 0))
    peers = {"numpy": runs["numpy"]} | of_torch(x)
    return runs | peers | {way + AGAIN: run for way, run in peers.items()}


def seconds(run: Callable[[], Any], loops: int) -> float:
    start = time.thread_time()
    for _ in range(loops):
        run()
    return (time.thread_time() - start) / loops


def measure(runs: Runs) -> Times:
    """Nanoseconds of each way."""
    least, loops = dict.fromkeys(runs, math.inf), {}
    for way, run in runs.items():
        once = min(seconds(run, 1) for _ in range(5))  # the first are slow
        loops[way] = max(1, int(BATCH / max(once, 1e-7)))
    began, turns, order = time.perf_counter(), list(runs.items()), random.Random(0)
    for turn in range(TURNS_MOST):
        if turn >= TURNS and time.perf_counter() - began > PATIENCE:
            break
        order.shuffle(turns)
        for way, run in turns:
            least[way] = min(least[way], seconds(run, loops[way]))
    return {way: round(1e9 * value, 1) for way, value in least.items()}


def one_pass(given: argparse.Namespace) -> Cells:
    found: Cells = {}
    for layout in filter(re.compile(given.select).search, LAYOUTS):
        for size in given.sizes:
            for item in given.items:
                x = LAYOUTS[layout](size // item, ITEMS[item])
                found[f"{layout}/{size}/{item}"] = measure(ways(x, size))
                print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


def in_a_process() -> Cells:
    command = [sys.executable, __file__, *sys.argv[1:], "--one-pass"]
    variables = os.environ | {"MALLOC_MMAP_THRESHOLD_": str(FRESH)}
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=variables).stdout
    cells: Cells = json.loads(told)
    return cells


# ---- what is shown --------------------------------------------------------------------------


def better(times: Times) -> str:
    return min(("numpy", "torch"), key=lambda way: times.get(way, math.inf))


def beside_itself(times: Times) -> float:
    one, two = times[better(times)], times[better(times) + AGAIN]
    return max(one, two) / min(one, two)


#: Table -> its ratio, and the sizes that it has.
TABLES: dict[str, tuple[Callable[[Times], float], float]] = {
    "copies": (lambda times: times["dlshim"] / times[better(times)], math.inf),
    "copies-noise": (beside_itself, math.inf),
    "copies-small": (lambda times: times["upgraded"] / times["bare"], SMALL),
    "copies-parts": (lambda times: times["dlshim"] / (times["numpy"] + times["asked"]), SMALL),
}


def name_of(size: int) -> str:
    units = ((1 << 20, "MB"), (1 << 10, "kB"), (1, "B"))
    unit, name = next(pair for pair in units if size >= pair[0])
    return f"{size // unit} {name}"


def rows_of(passes: list[Cells], ratio: Callable[[Times], float], most: float) -> list[list[str]]:
    """A head, and the worst item size of each cell, as "1.05 (8)"."""
    worst: dict[str, dict[int, tuple[float, str]]] = {}
    for cell in passes[0]:
        layout, size, item = cell.split("/")
        if int(size) <= most:
            value = statistics.median(ratio(found[cell]) for found in passes), item
            row = worst.setdefault(layout, {})
            row[int(size)] = max(row.get(int(size), (0.0, "")), value)
    sizes = list(next(iter(worst.values()), {}))
    rows = [["layout", *map(name_of, sizes)]]
    rows += [[name, *(f"{r[s][0]:.2f} ({r[s][1]})" for s in sizes)] for name, r in worst.items()]
    return rows if sizes else []


def large_pages() -> str:
    file = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
    told = re.findall(r"\[(\w+)\]", file.read_text())[0] if file.exists() else "none"
    return f"Linux {platform.release().partition('-')[0]}, transparent huge pages {told}"


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--select", default="", help="layouts by their name")
    parser.add_argument("--sizes", type=numbers, default=list(SIZES), help="of the copy, in bytes")
    parser.add_argument("--items", type=numbers, default=list(ITEMS), help="sizes of the items")
    parser.add_argument("--passes", type=int, default=1, help="over the grid, each a process")
    parser.add_argument("--one-pass", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--csv", type=pathlib.Path, help="write the tables into this folder")
    given = parser.parse_args()
    if given.one_pass:
        print(json.dumps(one_pass(given)))
        return
    told = f"{report.conditions('numpy', 'torch')}, {large_pages()}"
    passes = [in_a_process() for _ in range(given.passes)]
    print(told)
    for name, (ratio, most) in TABLES.items():
        if rows := rows_of(passes, ratio, most):
            print(f"\n{name}: the worst ratio (of which item size)")
            print(report.table(rows[0], rows[1:]))
            if given.csv:
                report.write_csv(given.csv / f"{name}.csv", told, rows[0], rows[1:])


if __name__ == "__main__":
    main()
