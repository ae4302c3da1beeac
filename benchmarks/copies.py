"""Times copies of host memory by dlshim beside NumPy's and torch's, in one run and on one thread.

    python benchmarks/copies.py [--select REGEX] [--sizes 64,4096] [--items 1,8] [--passes N]
                                [--json FILE] [--csv FOLDER]

A cell is a layout, a size of the copy and an item size. The ways of a cell take turns, in another
order each time, and the least time of each counts. Time is what the thread got of a processor, page
faults included, so other programs disturb it little. Each pass is a process of its own; the median
of the ratios of all passes counts. There malloc gives new memory for each copy of FRESH bytes or
more, as it does of itself from 32 MB on. Else a block is what another way has left, and where that
lies decides: at 8 MB, by up to 1.5 for and against each way.
What is copied is an array of NumPy, and a tensor of torch over the same memory; the result is
dropped at once. torch has no negative strides: it flips a straight tensor instead, which is shown
and is no part of the ratio.

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
import csv
import datetime
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
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
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
Cell = dict[str, list[float]]
"""way -> nanoseconds in each pass"""
Cells = dict[str, dict[str, dict[str, Cell]]]
"""layout -> bytes -> item size -> cell"""


def square(items: int) -> tuple[int, int]:
    rows = 1 << (items.bit_length() // 2)
    return rows, max(1, items // rows)


def image(items: int, channels: int) -> tuple[int, int, int]:
    """Height, width and number of channels of about so many items."""
    pixels = max(1, items // channels)
    height = max(1, math.isqrt(pixels))
    return height, max(1, pixels // height), channels


def block(*shape: int, dtype: str) -> np.ndarray[Any, Any]:
    return np.resize(np.arange(251).astype(dtype), shape)


def contiguous(n: int, dtype: str) -> Any:
    return block(n, dtype=dtype)


def rows_apart(n: int, dtype: str) -> Any:
    rows, columns = square(n)
    return block(rows, columns + 3, dtype=dtype)[:, :columns]


def every_second(n: int, dtype: str) -> Any:
    return block(2 * n, dtype=dtype)[::2]


def every_fifth(n: int, dtype: str) -> Any:
    return block(5 * n, dtype=dtype)[::5]


def reversed_items(n: int, dtype: str) -> Any:
    return block(n, dtype=dtype)[::-1]


def reversed_rows(n: int, dtype: str) -> Any:
    return block(*square(n), dtype=dtype)[::-1]


def broadcast_columns(n: int, dtype: str) -> Any:
    rows, columns = square(n)
    return np.broadcast_to(block(rows, 1, dtype=dtype), (rows, columns))


def broadcast_rows(n: int, dtype: str) -> Any:
    rows, columns = square(n)
    return np.broadcast_to(block(columns, dtype=dtype), (rows, columns))


def transposed(n: int, dtype: str) -> Any:
    rows, columns = square(n)
    return block(columns, rows, dtype=dtype).T


def transposed_odd(n: int, dtype: str) -> Any:
    """No extent is a multiple of a cache line, so that no two rows share the same cache sets."""
    rows, columns = square(n)
    return block(columns + 3, rows + 5, dtype=dtype)[:columns, :rows].T


def pairs_apart(n: int, dtype: str) -> Any:
    """Real and imaginary parts, given as pairs, wanted as two planes."""
    return block(max(1, n // 2), 2, dtype=dtype).T


def axes_reversed(n: int, dtype: str) -> Any:
    height, width, depth = image(n, max(1, round(n ** (1 / 3))))
    return block(depth, width, height, dtype=dtype).transpose(2, 1, 0)


def to_planes(channels: int) -> Callable[[int, str], Any]:
    def make(n: int, dtype: str) -> Any:
        return block(1, *image(n, channels), dtype=dtype).transpose(0, 3, 1, 2)

    return make


def to_pixels(channels: int) -> Callable[[int, str], Any]:
    def make(n: int, dtype: str) -> Any:
        height, width, _ = image(n, channels)
        return block(1, channels, height, width, dtype=dtype).transpose(0, 2, 3, 1)

    return make


def one_channel(n: int, dtype: str) -> Any:
    height, width, _ = image(n, 1)
    return block(height, width, 3, dtype=dtype)[..., 1]


LAYOUTS: dict[str, Callable[[int, str], Any]] = {
    "contiguous": contiguous,
    "rows with gaps": rows_apart,
    "every second item": every_second,
    "every fifth item": every_fifth,
    "one channel of three": one_channel,
    "reversed": reversed_items,
    "rows reversed": reversed_rows,
    "broadcast along columns": broadcast_columns,
    "broadcast along rows": broadcast_rows,
    "transposed": transposed,
    "transposed, odd pitch": transposed_odd,
    "pairs to planes": pairs_apart,
    "axes reversed": axes_reversed,
    "NHWC to NCHW, 3": to_planes(3),
    "NCHW to NHWC, 3": to_pixels(3),
    "NHWC to NCHW, 64": to_planes(64),
    "NCHW to NHWC, 64": to_pixels(64),
}


def of_torch(x: np.ndarray[Any, Any]) -> Runs:
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(1)
    back = [axis for axis, step in enumerate(x.strides) if step < 0]
    straight = x[tuple(slice(None, None, -1 if step < 0 else 1) for step in x.strides)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a broadcast is read-only
        t = torch.from_numpy(straight)
    if back:
        return {"torch.flip": lambda: torch.flip(t, back)}
    form = torch.contiguous_format
    return {"torch": lambda: t.clone(memory_format=form)}


def ways(x: np.ndarray[Any, Any], size: int) -> Runs:
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


def measure(runs: Runs) -> dict[str, float]:
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


def grid(arguments: argparse.Namespace) -> Iterator[tuple[str, int, int]]:
    for layout in LAYOUTS:
        if re.search(arguments.select, layout):
            for size in arguments.sizes:
                yield from ((layout, size, item) for item in arguments.items)


def one_pass(arguments: argparse.Namespace) -> Cells:
    found: Cells = {}
    for layout, size, item in grid(arguments):
        x = LAYOUTS[layout](size // item, ITEMS[item])
        by_item = found.setdefault(layout, {}).setdefault(str(size), {})
        by_item[str(item)] = {way: [ns] for way, ns in measure(ways(x, size)).items()}
        print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


def cells_of(found: Cells) -> Iterator[Cell]:
    for by_size in found.values():
        for by_item in by_size.values():
            yield from by_item.values()


def run(arguments: argparse.Namespace) -> Cells:
    if arguments.one_pass:
        return one_pass(arguments)
    passes = [in_a_process(arguments) for _ in range(arguments.passes)]
    for later in passes[1:]:
        for cell, more in zip(cells_of(passes[0]), cells_of(later), strict=True):
            for way, times in more.items():
                cell[way] += times
    return passes[0]


def in_a_process(arguments: argparse.Namespace) -> Cells:
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "pass.json"
        words = [sys.executable, __file__, "--select", arguments.select, "--json", str(file)]
        words.append("--one-pass")
        for name in ("sizes", "items"):
            words += [f"--{name}", ",".join(map(str, getattr(arguments, name)))]
        variables = os.environ | {"MALLOC_MMAP_THRESHOLD_": str(FRESH)}
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=variables)
        cells: Cells = json.loads(file.read_text())["nanoseconds"]
        return cells


# ---- what is shown --------------------------------------------------------------------------


Times = dict[str, float]
"""way -> nanoseconds in one pass"""


def better(times: Times) -> str:
    return min(("numpy", "torch"), key=lambda way: times.get(way, math.inf))


def beside_libraries(times: Times) -> float:
    return times["dlshim"] / times[better(times)]


def beside_itself(times: Times) -> float:
    one, two = times[better(times)], times[better(times) + AGAIN]
    return max(one, two) / min(one, two)


def beside_parts(times: Times) -> float:
    return times["dlshim"] / (times["numpy"] + times["asked"])


def beside_bare(times: Times) -> float:
    return times["upgraded"] / times["bare"]


def median(ratio: Callable[[Times], float], cell: Cell) -> float:
    passes = zip(*cell.values(), strict=True)
    return statistics.median(ratio(dict(zip(cell, times, strict=True))) for times in passes)


def name_of(size: int) -> str:
    units = ((1 << 20, "MB"), (1 << 10, "kB"), (1, "B"))
    unit, name = next(pair for pair in units if size >= pair[0])
    return f"{size // unit} {name}"


def rows_of(
    found: Cells, ratio: Callable[[Times], float], wanted: Callable[[int], bool]
) -> list[list[str]]:
    """The worst item size of each cell, as "1.05 (8)" where it matters, and a head."""
    first = next(iter(found.values()))
    sizes = [size for size in first if wanted(int(size))]
    rows = [["layout", *(name_of(int(size)) for size in sizes)]]
    for layout, by_size in found.items():
        row = [layout]
        for size in sizes:
            worst, item = max((median(ratio, cell), item) for item, cell in by_size[size].items())
            row.append(f"{worst:.2f} ({item})")
        rows.append(row)
    return rows if sizes else []


def tables(found: Cells) -> dict[str, list[list[str]]]:
    made = {
        "copies": rows_of(found, beside_libraries, lambda size: True),
        "copies-noise": rows_of(found, beside_itself, lambda size: True),
        "copies-small": rows_of(found, beside_bare, lambda size: size <= SMALL),
        "copies-parts": rows_of(found, beside_parts, lambda size: size <= SMALL),
    }
    return {name: rows for name, rows in made.items() if rows}


def processor() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def large_pages() -> str:
    file = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return re.findall(r"\[(\w+)\]", file.read_text())[0] if file.exists() else "none"


def conditions() -> dict[str, str]:
    compiler = subprocess.run(["cc", "--version"], capture_output=True, text=True).stdout
    versions = {name: version(name) for name in ("numpy", "torch") if name_is_installed(name)}
    return {
        "date": datetime.date.today().isoformat(),
        "processor": processor(),
        "kernel": platform.release().partition("-")[0],
        "transparent huge pages": large_pages(),
        "compiler": compiler.partition("\n")[0],
        "python": platform.python_version(),
        **versions,
    }


def name_is_installed(name: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(name) is not None


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def write_csv(folder: pathlib.Path, made: dict[str, Iterable[list[str]]]) -> None:
    for name, rows in made.items():
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--select", default="", help="layouts by their name")
    parser.add_argument("--sizes", type=numbers, default=list(SIZES), help="of the copy, in bytes")
    parser.add_argument("--items", type=numbers, default=list(ITEMS), help="sizes of the items")
    parser.add_argument("--passes", type=int, default=1, help="over the grid, each a process")
    parser.add_argument("--one-pass", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=pathlib.Path, help="write all times here")
    parser.add_argument("--csv", type=pathlib.Path, help="write the tables into this folder")
    arguments = parser.parse_args()
    said, found = conditions(), run(arguments)
    print(", ".join(f"{name} {value}" for name, value in said.items()))
    for name, rows in tables(found).items():
        print(f"\n{name}: the worst ratio (of which item size)")
        print(report.table(rows[0], rows[1:]))
    if arguments.json:
        text = json.dumps({"conditions": said, "nanoseconds": found}, indent=1)
        # One line for each cell.
        text = re.sub(r"\{\s+([^{}]*?)\s+\}", lambda m: "{" + " ".join(m[1].split()) + "}", text)
        arguments.json.write_text(text + "\n")
    if arguments.csv:
        write_csv(arguments.csv, tables(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
