"""Tables in plain text and csv files, and what they say of the run that made them."""

from __future__ import annotations

import csv
import datetime
import os
import pathlib
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version

Row = Sequence[str]


def table(heads: Row, rows: Iterable[Row], left: int = 1) -> str:
    """The first columns to the left, the others to the right."""
    lines = [list(heads), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def conditions(*distributions: str) -> str:
    """When, where and with what: the first line of a csv file."""
    cpu = pathlib.Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = names[0] if names else platform.processor() or platform.machine()
    told = [f"{datetime.date.today()}: {processor}, {os.cpu_count()} cores"]
    told.append(f"CPython {platform.python_version()}")
    for name in ("dlshim", *distributions):
        try:
            told.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(told)


def write_csv(file: pathlib.Path, told: str, heads: Row, rows: Iterable[Row]) -> None:
    with file.open("w", newline="") as out:
        out.write(f"# {told}\n")
        csv.writer(out, lineterminator="\n").writerows([heads, *rows])
