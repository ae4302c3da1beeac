"""The table of mutant_matrix.py, and what it says: a row for each mutant, the last one counts."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from mutation import Change

COLUMNS = ["number", "file", "line", "kind", "before", "after"]
COLUMNS += ["noticed", "tests", "asked", "seconds"]
SAMPLE, ASSERTED, NOT_COMPILED = "sample", "static_assert", "uncompiled"
Row = dict[str, str]


def joined(old: str, new: Iterable[str], separator: str) -> str:
    """What a cell has, and what is new."""
    return separator.join(dict.fromkeys([*filter(None, old.split(separator)), *new]))


def read(table: Path) -> dict[int, Row]:
    """The last row of each mutant."""
    if not table.exists():
        return {}
    with table.open(newline="") as file:
        return {int(row["number"]): row for row in csv.DictReader(file)}


def append(table: Path, row: Row) -> None:
    """One write a row: several pieces may have one table."""
    line = io.StringIO()
    writer = csv.DictWriter(line, COLUMNS, lineterminator="\n")
    if not table.exists():
        writer.writeheader()
    writer.writerow(row)
    with table.open("a", newline="") as file:
        file.write(line.getvalue())


def row_of(number: int, file: str, change: Change, text: bytes) -> Row:
    shown = [" ".join(part.decode().split()) for part in (text[change.begin : change.end],
                                                          change.instead)]  # fmt: skip
    line = text[: change.begin].count(b"\n") + 1
    return dict(zip(COLUMNS, (str(number), file, str(line), change.kind, *shown), strict=False))


def noticing(row: Row) -> list[str]:
    """Without how they did."""
    return [each.partition(" ")[0] for each in row["noticed"].split("; ") if each]


def missing(row: Row, names: list[str]) -> list[str]:
    """What the mutant of a row, which may be empty, has yet to meet."""
    if row and {SAMPLE, ASSERTED, NOT_COMPILED} & set(noticing(row)):
        return []
    asked = row.get("asked", "").split()
    return [name for name in [SAMPLE, *names] if name.partition(":")[0] not in asked]


def summary(table: Path) -> int:
    """A file counts as one of few where at most two have noticed a mutant.  Who else would have
    noticed what the sample did is known only with --whole."""
    rows = [row for row in read(table).values() if row["noticed"] != NOT_COMPILED]
    known = json.loads(table.with_suffix(".json").read_text())
    noticed, few, met, outcomes = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    all_asked = max((row["asked"].split() for row in rows), key=len, default=[])
    for row in rows:
        names, asked = noticing(row), row["asked"].split()
        by_sample = SAMPLE in names
        silent = "by others" if names else f"not by {' '.join(asked)}"
        outcomes["by the sample" if by_sample else silent] += 1
        names += [f"{SAMPLE}:{file}" for file in row["tests"].split()]
        noticed.update(names)
        met.update([SAMPLE] if by_sample else asked)
        complete = known["whole"] if by_sample else set(asked) == set(all_asked)
        if complete and len(names) - by_sample <= 2:
            few.update(names)
    met.update({"warnings": len(rows), ASSERTED: len(rows)})
    told = ", ".join(f"{number} {how}" for how, number in outcomes.items())
    print(f"{len(rows)} mutants, noticed: {told}")
    print("noticed  of those met  among at most two")
    for name, number in noticed.most_common():
        print(f"{number:7}  {met[name.partition(':')[0]]:12}  {few[name]:17}  {name}")
    why = {name: why for name, why in known["seconds"].items() if isinstance(why, str)}
    asked = {name for name in known["seconds"] if met[name.partition(":")[0]]}
    asked -= why.keys() | {SAMPLE}
    asked |= noticed.keys() if known["whole"] else set()
    print("never among the few:", *sorted(asked - few.keys()), sep="\n  ")
    print("not asked:", *(f"{name} ({told})" for name, told in why.items()), sep="\n  ")
    speed(rows)
    return 0


def speed(rows: list[Row]) -> None:
    kinds = defaultdict[str, list[float]](list)
    for row in rows:
        language = row["file"].rpartition(".")[2]
        seen = "noticed by the sample" if SAMPLE in noticing(row) else f"met {row['asked']}"
        kinds[f"{language}, {seen}"].append(float(row["seconds"]))
    for kind, seconds in sorted(kinds.items()):
        print(f"{sum(seconds) / len(seconds):8.0f} s a mutant ({len(seconds)}: {kind})")
