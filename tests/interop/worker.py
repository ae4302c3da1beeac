"""A child process that runs batches of cells and survives as long as the libraries let it.

The parent writes one batch a line to standard input: [producer, consumer, shim, dtypes, first,
skip], with ``dtypes`` empty for all, ``first`` the number of the cell to begin with and ``skip`` a
list of layouts to leave out. Each
result is one line in the results file. Before each cell its number goes into a small shared file,
so that after a crash the parent knows which cell it was.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib.util
import json
import mmap
import os
import struct
import sys
import warnings
from functools import cache

from . import cells, faults, libraries
from .cases import DTYPES, LAYOUTS

BATCH_DONE = 2**32 - 1


@cache
def order() -> list:
    """All cells of one batch, in an order that parent and child share."""
    return [(dtype, layout) for layout in LAYOUTS.values() for dtype in DTYPES.values()]


def by_name(adapters) -> dict:
    return {adapter.name: adapter for adapter in adapters}


PRODUCERS = by_name(libraries.PRODUCERS)
CONSUMERS = by_name([*libraries.CONSUMERS, *libraries.COUNTED])


@cache
def adapter(cls):
    """One per process; imports the library."""
    if "tensorflow" in getattr(cls, "modules", ()) and importlib.util.find_spec("paddle"):
        import paddle  # noqa: F401  (importing it after tensorflow kills the process)
    made = cls()
    gc.collect()
    gc.freeze()  # what libraries brought with them need not be searched after every cell
    return made


def shim(name: str):
    if name.startswith("fault:"):
        return faults.shim(name.removeprefix("fault:"))
    return cells.SHIMS[name]


def serve(results: str, progress: str) -> None:
    faulthandler.enable()
    warnings.simplefilter("ignore")
    with open(progress, "r+b") as file:
        shared = mmap.mmap(file.fileno(), 8)
    with open(results, "a", buffering=1, encoding="utf-8") as out:
        for line in sys.stdin:
            ended = in_child(json.loads(line), out, shared)
            if ended:
                print("died %d" % ended, flush=True)
                continue
            shared[:4] = struct.pack("<I", BATCH_DONE)
            print("done", flush=True)


FORKS = {"numpy", "ml_dtypes", "python", "array-api-strict", "nanobind", "apache-tvm-ffi"}
FORKS |= {"cuda-core", "pyarrow", "torch"}
"""Libraries that work in a forked child (JAX and TensorFlow leave their threads behind)."""


def in_child(task, out, shared) -> int:
    """torch dies of every negative stride, and importing it again each time takes seconds: its
    batches run in forked children. Returns the signal that ended one; 0 where all is well."""
    producer, consumer = PRODUCERS[task[0]], CONSUMERS[task[1]]
    if consumer.library != "torch" or producer.library not in FORKS:
        batch(task, out, shared)
        return 0
    for each in (producer, consumer, shim(task[2])):
        adapter(each)
    child = os.fork()
    if not child:
        try:
            batch(task, out, shared)
            out.flush()
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status)
    if status:
        raise RuntimeError("a batch ended in its middle")
    return 0


def batch(task, out, shared) -> None:
    producer_name, consumer_name, shim_name, dtypes, first, skip = task
    producer, consumer = adapter(PRODUCERS[producer_name]), adapter(CONSUMERS[consumer_name])
    way = adapter(shim(shim_name))
    for number, (dtype, layout) in enumerate(order()):
        if number < first or layout.name in skip or not producer.can(dtype, layout):
            continue
        if dtypes and dtype.name not in dtypes:
            continue
        shared[:4] = struct.pack("<I", number)
        try:
            outcome = cells.run(producer, consumer, dtype, layout, way)
        except Exception as error:  # a broken adapter, not a broken exchange: say so, go on
            outcome = cells.failed(error)
            outcome.kind = "adapter"
        want = outcome.expected
        out.write(
            json.dumps(
                [
                    number,
                    outcome.kind,
                    outcome.detail,
                    cells.judge(outcome),
                    (want.row or "") if want else "",
                    (want.refused_by or "") if want else "",
                    outcome.writable,
                    outcome.warned,
                ]
            )
            + "\n"
        )


def main() -> None:
    # The libraries' own words go to the log, the protocol has standard output for itself.
    protocol = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(protocol, "w")
    serve(*sys.argv[1:3])
    sys.stdout.flush()
    os._exit(0)  # what libraries do at exit is not part of any cell


if __name__ == "__main__":
    main()
