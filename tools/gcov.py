"""Reads what gcov has counted, and the list of what no test reaches.

A branch is told by its file, its function and the text of its source line, so that the list
(tools/uncovered.toml) lives through changes elsewhere in the file.  Only branches whose line was
run are listed, and functions that were never called: whatever else was not run lies behind one
of these.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest brings it

LIST = Path(__file__).with_name("uncovered.toml")
NEVER_CALLED = "(never called)"


class Place(NamedTuple):
    """Where a branch is: lines with one text in one function are one place."""

    file: str
    function: str
    text: str


class Entry(NamedTuple):
    """What the list says of a place."""

    branches: int  # how many are not taken
    why: str
    sometimes: bool  # another thread decides, so that a run may take them


class Line(NamedTuple):
    count: int
    branches: tuple[int, ...]


class Coverage:
    """The counts of all object files, added up by line, but for those of functions that are left
    out; `tree` holds the sources."""

    def __init__(
        self,
        tree: Path,
        units: Iterable[dict[str, Any]],
        left_out: Container[tuple[str, str]] = (),
    ) -> None:
        self.tree, self.left_out = tree, left_out
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
            if (name, function["name"]) not in self.left_out:
                self.calls[name, function["name"]] += function["execution_count"]
        for line in file["lines"]:
            # An included list (.def) has lines of no function; each includer has its own.
            owner = line.get("function_name") or f"in {Path(unit).stem}.c"
            if (name, owner) in self.left_out:
                continue
            key = (name, owner, line["line_number"])
            new = Line(line["count"], tuple(b["count"] for b in line["branches"]))
            old = self.lines.get(key, Line(0, (0,) * len(new.branches)))
            sums = tuple(a + b for a, b in zip(old.branches, new.branches, strict=True))
            self.lines[key] = Line(old.count + new.count, sums)

    def text(self, file: str, number: int) -> str:
        return (self.tree / "src" / file).read_text().splitlines()[number - 1].strip()

    def uncovered(self) -> dict[Place, int]:
        """How many branches are not taken, of lines that were run."""
        found = Counter(
            {Place(f, name, NEVER_CALLED): 1 for (f, name), n in self.calls.items() if n == 0}
        )
        for (file, function, number), line in self.lines.items():
            missing = line.branches.count(0)
            if line.count > 0 and missing:
                found[Place(file, function, self.text(file, number))] += missing
        return found

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


def read(tree: Path, left_out: Container[tuple[str, str]] = ()) -> Coverage:
    """The counts that processes have left beside the object files in `tree`."""
    counts = [str(path.resolve()) for path in sorted(tree.glob("build/**/*.gcda"))]
    if not counts:
        raise RuntimeError("no process has left any counts")
    with tempfile.TemporaryDirectory() as folder:
        command = ["gcov", "--json-format", "--branch-probabilities", *counts]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        units = [json.loads(gzip.decompress(f.read_bytes())) for f in Path(folder).glob("*.gz")]
    return Coverage(tree, units, left_out)


# ---- the list -------------------------------------------------------------------------------


def read_asserts(path: Path = LIST) -> set[tuple[str, str]]:
    """The functions that only asserts call, (file, function); they are not counted."""
    files = tomllib.loads(path.read_text()).get("asserts", {})
    return {(file, function) for file, functions in files.items() for function in functions}


def read_list(path: Path = LIST) -> dict[Place, Entry]:
    """The list; a reason that has a name is put in place of the name."""
    tables = tomllib.loads(path.read_text())
    tables.pop("asserts", None)
    reasons = tables.pop("reasons", {})
    return {
        Place(file, function, text): Entry(
            entry["branches"],
            reasons.get(entry["why"], entry["why"]),
            entry.get("sometimes", False),
        )
        for file, functions in tables.items()
        for function, texts in functions.items()
        for text, entry in texts.items()
    }


def differences(measured: dict[Place, int], listed: dict[Place, Entry]) -> Iterator[str]:
    """What the measurement and the list do not agree in."""
    for place in sorted(measured.keys() | listed.keys()):
        missing = measured.get(place, 0)
        entry = listed.get(place, Entry(0, "", False))
        where = f"{place.file}: {place.function}: {place.text}"
        if missing > entry.branches:
            yield f"{where}: {missing} branches are not taken, {entry.branches} are listed"
        elif missing < entry.branches and not entry.sometimes:
            yield f"{where}: {entry.branches} branches are listed, {missing} are not taken"


def rewrite_list(measured: dict[Place, int], path: Path = LIST) -> None:
    """Brings the list up to date: what is covered goes, what is new has no reason yet."""
    text = path.read_text() if path.exists() else ""
    tables = tomllib.loads(text)
    head = text.split('\n["', 1)[0].rstrip() + "\n"
    for name in ("asserts", "reasons"):
        tables.pop(name, None)
    out, before = [head], ("", "")
    for place in sorted(measured.keys() | kept(tables)):
        old = tables.get(place.file, {}).get(place.function, {}).get(place.text, {})
        if place[:2] != before:
            before = place[:2]
            out.append(f"\n[{json.dumps(place.file)}.{json.dumps(place.function)}]\n")
        branches = max(measured.get(place, 0), old.get("branches", 0) * old.get("sometimes", 0))
        values = f"branches = {branches}, why = {json.dumps(old.get('why', ''))}"
        values += ", sometimes = true" * old.get("sometimes", False)
        out.append(f"{json.dumps(place.text)} = {{ {values} }}\n")
    path.write_text("".join(out))


def kept(tables: dict[str, Any]) -> set[Place]:
    """The entries that stay although a run took their branches."""
    return {
        Place(file, function, text)
        for file, functions in tables.items()
        for function, texts in functions.items()
        for text, entry in texts.items()
        if entry.get("sometimes")
    }
