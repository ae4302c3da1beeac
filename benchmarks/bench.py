"""Times every operation beside its peers in one run and prints the ratios.

    python benchmarks/bench.py [--groups calls,journeys,...] [--select REGEX] [--summary FILE]
                               [pyperf's options]

pyperf starts fresh processes for each operation; ``-o FILE.json`` keeps every value, and
``--summary FILE`` what the manual shows (a dated file in docs/results).  Shown are
the smallest value (the least disturbed) and the median; the ratio is that of the smallest.
Nanoseconds never gate: ``instructions.py`` does.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import math
import os
import pathlib
import platform
import statistics
import sys
import time
from collections.abc import Callable

import build

build.add_path()

import operations as ops  # noqa: E402
import report  # noqa: E402

SEPARATOR = ";"
BATCHES = 16


def _forward(command: list[str], arguments: argparse.Namespace) -> None:
    """What pyperf's worker processes must be told to see the same list."""
    command.extend(("--groups", arguments.groups, "--select", arguments.select))
    command.extend(("--skip", arguments.skip))


def fastest(loop: Callable[[int], None], loops: int) -> float:
    """Seconds for that many loops, by the fastest of up to 16 batches.

    A batch is short enough to fall between two turns of other processes on a busy machine.
    """
    batch = max(1, loops // BATCHES)
    best = math.inf
    for _ in range(max(1, loops // batch)):
        start = time.perf_counter()
        loop(batch)
        best = min(best, time.perf_counter() - start)
    return best / batch * loops


def time_function(operation: ops.Operation) -> Callable[[int], float]:
    """For pyperf: the seconds that so many loops take, the empty loop subtracted."""
    made: list[Callable[[int], None]] = []

    def measure(loops: int) -> float:
        if not made:
            names = ops.Namespace()
            made.extend((ops.make_loop(operation, names), ops.make_loop(None, names)))
            made[0](1)
        gc.collect()
        gc.disable()
        took, empty = (fastest(loop, loops) for loop in made)
        gc.enable()
        return max(took - empty, 1e-9)

    return measure


def refusals(selected: list[ops.Operation]) -> dict[str, str]:
    """The operations that cannot run here, with the reason."""
    failed = {}
    for operation in selected:
        try:
            ops.make_loop(operation, ops.Namespace())(1)
        except Exception as error:
            failed[operation.name] = f"{type(error).__name__}: {error}".splitlines()[0]
    return failed


def make_runner():
    try:
        import pyperf
    except ModuleNotFoundError:
        raise SystemExit("pyperf is not installed: pip install pyperf") from None
    runner = pyperf.Runner(
        values=5, warmups=1, processes=3, min_time=0.01, add_cmdline_args=_forward
    )
    runner.argparser.add_argument("--groups", default=",".join(ops.DEFAULT_GROUPS))
    runner.argparser.add_argument("--select", default="")
    runner.argparser.add_argument("--skip", default="", help=argparse.SUPPRESS)
    runner.argparser.add_argument("--summary", type=pathlib.Path, help="write what a reader wants")
    runner.parse_args()
    return runner


def main() -> None:
    runner = make_runner()
    arguments = runner.args
    worker = arguments.worker
    groups = list(ops.GROUPS) if arguments.groups == "all" else arguments.groups.split(",")
    if not worker:
        build.ensure()
        print(report.versions(), flush=True)
    selected = ops.select(groups, arguments.select)
    failed = {} if worker else refusals(selected)
    if not worker:
        arguments.skip = SEPARATOR.join(failed)  # workers know their benchmark by its number
    skip = arguments.skip.split(SEPARATOR)
    smallest: dict[str, float] = {}
    median: dict[str, float] = {}
    for operation in selected:
        if operation.name in skip:
            continue
        benchmark = runner.bench_time_func(
            operation.name,
            time_function(operation),
            inner_loops=operation.loops,
            metadata={"case": operation.case, "way": operation.way},
        )
        if benchmark is not None and not worker:
            values = benchmark.get_values()
            smallest[operation.name] = min(values) * 1e9
            median[operation.name] = statistics.median(values) * 1e9
    if not worker:
        print_results(selected, smallest, median, failed)
        if arguments.summary:
            written = json.dumps(summary(selected, smallest, median), indent=1)
            arguments.summary.write_text(written + "\n")


def processor() -> str:
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def summary(
    selected: list[ops.Operation], smallest: dict[str, float], median: dict[str, float]
) -> dict[str, object]:
    """When, where and with what it was measured; nanoseconds by case and way."""
    told: dict[str, dict[str, list[int]]] = {}
    for operation in selected:
        if operation.name in smallest:
            both = [round(smallest[operation.name]), round(median[operation.name])]
            told.setdefault(operation.case, {})[operation.way] = both
    named = (line.partition(": ")[2] for line in report.versions().splitlines())
    return {
        "date": datetime.date.today().isoformat(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "libraries": [each for each in named if not each.startswith("not installed")],
        "nanoseconds, smallest and median": told,
    }


def print_results(
    selected: list[ops.Operation],
    smallest: dict[str, float],
    median: dict[str, float],
    failed: dict[str, str],
) -> None:
    print(f"\n{sys.implementation.name} {sys.version.split()[0]}, nanoseconds")
    print(report.by_road(selected, smallest, "ns min", digits=1, beside=("ns median", median)))
    for name, reason in failed.items():
        print(f"refused: {name}: {reason}")


if __name__ == "__main__":
    main()
