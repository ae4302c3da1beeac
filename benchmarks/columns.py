"""Columns: instructions and nanoseconds beside each library's own way, in one run.

    python benchmarks/columns.py [--csv FOLDER]

`to NumPy` and `to torch` stand beside the library's own way; `to a capsule` beside the least that
reading the column costs (floor/arrow.c). `--csv` writes the table of the manual.
"""

from __future__ import annotations

import argparse
import pathlib

import build

build.add_path()

import bench  # noqa: E402
import instructions  # noqa: E402
import operations as ops  # noqa: E402
import report  # noqa: E402

HEADS = (
    *("exchange", "own_ns", "floor_ns", "dlshim_ns", "ratio_ns"),
    *("own", "floor", "dlshim", "ratio"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csv", type=pathlib.Path, help="write columns.csv into this folder")
    given = parser.parse_args()
    build.ensure()
    selected = ops.select(["columns"])
    counted = instructions.count(["columns"], "")
    timed = {name: min(each) for name, each in bench.measure(selected).items()}
    rows = []
    for case in dict.fromkeys(operation.case for operation in selected):
        reference = next(each.reference for each in selected if each.case == case)
        row = [case]
        for found in (timed, counted):
            own, least, ours = (found.get(f"{case} | {w}") for w in (reference, "floor", "dlshim"))
            row += [f"{each:.0f}" if each else "" for each in (own, least, ours)]
            row.append(f"{ours / own:.2f}" if own and ours else "")
        rows.append(row)
    told = report.conditions(*ops.distributions())
    print(told, report.table(HEADS, rows), sep="\n\n")
    if given.csv:
        report.write_csv(given.csv / "columns.csv", told, HEADS, rows)


if __name__ == "__main__":
    main()
