"""The rows of one environment in the tables that the manual reads.

    python -m tests.interop.report FOLDER     runs the whole matrix here, for FOLDER/interop*.csv

or ``python -m pytest tests/interop --interop-report FOLDER``, which writes what the tests ran. Rows
of other environments stay.
"""

from __future__ import annotations

import csv
import datetime
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

if __package__ == "tests.interop":  # run from the repository root: the package is `interop`
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from interop import cells, runner, versions
    from interop.refusals import REFUSALS
    from interop.summary import Summary
else:
    from . import cells, runner, versions
    from .refusals import REFUSALS
    from .summary import Summary

PEERS = {peer.name: peer.name for peer in cells.PEERS}
SHIMS = {"upgraded": "dlshim", **PEERS, "tensor": "dlshim.Tensor"}
COUNTS = ("cells", "bare ok", "ok", "curable", "cured", "broken", "refused on purpose")

#: File -> its columns after the environment.
TABLES = {
    "interop": ("date", "through", *COUNTS),
    "interop-versions": ("library", "version"),
    "interop-pairs": ("producer", "consumer", "cells", "alone", "with dlshim"),
    "interop-refused": ("cells", "who", "reason"),
    "interop-absent": ("reason",),
}

#: Producers that belong to no library.
PLAIN = {
    "__array_interface__ only", "__array_struct__ only", "array.array", "bytearray", "bytes",
    "ctypes array", "memoryview", "mmap",
}  # fmt: skip


def environment_name() -> str:
    return os.environ.get("DLSHIM_INTEROP_ENV", "here")


def library_of(adapter: str) -> str:
    """ "torch" of "versioned capsule of torch" and of "torch(copy=True)"."""
    name = re.sub(r"^(?:versioned )?capsule of ", "", adapter)
    return re.match(r"cuda\.core|[\w-]+", name)[0]


def version_rows(present: runner.Presence) -> Iterable[tuple]:
    from . import libraries

    used = {a.library for a in libraries.PRODUCERS if a.name in present.producers}
    used |= {a.library for a in libraries.CONSUMERS if a.name in present.consumers}
    found = {name: versions.text(name) for name in used | {"dlshim", *PEERS}}
    return [item for item in sorted(found.items()) if item[1]]


def pair_rows(table: dict[tuple[str, str], Counter]) -> Iterable[tuple]:
    """One row a pair of libraries, over all their adapters."""
    sums: dict[tuple[str, str], Counter] = {}
    for (producer, consumer), count in table.items():
        if producer not in PLAIN:
            pair = library_of(producer), library_of(consumer)
            sums.setdefault(pair, Counter()).update(count)
    return [(*pair, n["cells"], n["bare"], n["upgraded"]) for pair, n in sorted(sums.items())]


def refused_rows(summary: Summary) -> Iterable[tuple]:
    count = Counter(each.row for each in summary.shim("upgraded").values() if each.row)
    ordered = sorted(count.items(), key=lambda item: (-item[1], item[0]))
    return [(n, REFUSALS[row].who, REFUSALS[row].reason) for row, n in ordered]


def absent_rows(absent: dict[str, str]) -> Iterable[tuple]:
    """Reasons that a release gives; that a library is not installed says nothing of it."""
    told = (reason.partition(": ")[2] for _, reason in sorted(absent.items()))
    return [(each,) for each in dict.fromkeys(told) if re.search(r" (before|from) \d", each)]


def rows(summary: Summary, present: runner.Presence) -> dict[str, Iterable[tuple]]:
    today = datetime.date.today().isoformat()
    counts = {name: summary.counts(shim) for shim, name in SHIMS.items() if summary.shim(shim)}
    return {
        "interop": [(today, name, *map(n.__getitem__, COUNTS)) for name, n in counts.items()],
        "interop-versions": version_rows(present),
        "interop-pairs": pair_rows(summary.table()),
        "interop-refused": refused_rows(summary),
        "interop-absent": absent_rows(present.absent),
    }


def put(folder: Path, environment: str, told: dict[str, Iterable[tuple]]) -> None:
    """Rows of this environment instead of those that were there; by environment in each file."""
    for name, columns in TABLES.items():
        path = folder / f"{name}.csv"
        lines = path.read_text(encoding="utf-8").splitlines()[1:] if path.exists() else []
        kept = [row for row in csv.reader(lines) if row[0] != environment]
        kept += [[environment, *map(str, row)] for row in told[name]]
        with path.open("w", newline="", encoding="utf-8") as file:
            out = csv.writer(file, lineterminator="\n")
            out.writerow(("environment", *columns))
            out.writerows(sorted(kept, key=lambda row: row[0]))


def write(folder: str | Path, summary: Summary, present: runner.Presence) -> None:
    put(Path(folder), environment_name(), rows(summary, present))


def main(folder: str) -> int:
    present = runner.presence()
    summary = Summary(runner.run(runner.whole(present), log=runner.say))
    write(folder, summary, present)
    print("%s: %d red" % (environment_name(), len(summary.red())))
    return 1 if summary.red() or summary.broken() else 0


if __name__ == "__main__":
    if __package__ == "tests.interop":
        from interop import report

        sys.exit(report.main(sys.argv[1]))
    sys.exit(main(sys.argv[1]))
