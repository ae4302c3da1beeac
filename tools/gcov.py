"""Reads what gcov has counted: lines, branches and calls, by file and function."""

from __future__ import annotations

import gzip
import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Line(NamedTuple):
    count: int
    branches: tuple[int, ...]


class Coverage:
    """The counts of all object files, added up by line; `tree` holds the sources."""

    def __init__(self, tree: Path, units: Iterable[dict[str, Any]]) -> None:
        self.tree = tree
        self.lines: dict[tuple[str, str, int], Line] = {}
        self.calls: Counter[tuple[str, str]] = Counter()
        for unit in units:
            for file in unit["files"]:
                self._add(file, unit["data_file"])

    def _add(self, file: dict[str, Any], unit: str) -> None:
        if not file["file"].startswith("src/"):
            return
        name = file["file"].removeprefix("src/")
        for function in file["functions"]:
            self.calls[name, function["name"]] += function["execution_count"]
        for line in file["lines"]:
            # An included list (.def) has lines of no function; each includer has its own.
            owner = line.get("function_name") or f"in {Path(unit).stem}.c"
            key = (name, owner, line["line_number"])
            new = Line(line["count"], tuple(b["count"] for b in line["branches"]))
            old = self.lines.get(key, Line(0, (0,) * len(new.branches)))
            sums = tuple(a + b for a, b in zip(old.branches, new.branches, strict=True))
            self.lines[key] = Line(old.count + new.count, sums)

    def not_reached(self) -> Iterator[str]:
        """Each function that was never called, and each line that was run with branches that were
        not taken.  Whatever else was not run lies behind one of these."""
        for (file, function), calls in sorted(self.calls.items()):
            if calls == 0:
                yield f"{file}: {function} is never called"
        for (file, function, number), line in sorted(self.lines.items()):
            missing = line.branches.count(0)
            if line.count > 0 and missing:
                text = (self.tree / "src" / file).read_text().splitlines()[number - 1].strip()
                yield f"{file}:{number}: {function}: {missing} branches are not taken: {text}"

    def by_file(self) -> dict[str, dict[str, list[int]]]:
        """For each file, of lines and of branches: how many were run, and how many there are."""
        files: dict[str, dict[str, list[int]]] = {}
        for (file, _, _), line in sorted(self.lines.items()):
            sums = files.setdefault(file, {"lines": [0, 0], "branches": [0, 0]})
            sums["lines"][0] += line.count > 0
            sums["lines"][1] += 1
            sums["branches"][0] += sum(count > 0 for count in line.branches)
            sums["branches"][1] += len(line.branches)
        return files

    def total(self, what: str) -> tuple[int, int]:
        """How many "lines" or "branches" were run, and how many there are."""
        sums = [file[what] for file in self.by_file().values()]
        return sum(run for run, _ in sums), sum(there for _, there in sums)


def read(tree: Path) -> Coverage:
    """The counts that processes have left beside the object files in `tree`."""
    counts = [str(path.resolve()) for path in sorted(tree.glob("build/**/*.gcda"))]
    if not counts:
        raise RuntimeError("no process has left any counts")
    with tempfile.TemporaryDirectory() as folder:
        command = ["gcov", "--json-format", "--branch-probabilities", *counts]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        units = [json.loads(gzip.decompress(f.read_bytes())) for f in Path(folder).glob("*.gz")]
    return Coverage(tree, units)
