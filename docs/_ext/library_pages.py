"""What each library can and cannot, in sentences made from data that tests hold.

``.. dlshim-library-index::``   every library: its releases that were tried, and what it asks for
``.. dlshim-library-pages::``   a section for each library
``.. dlshim-need::``            for each library, into which others its arrays need dlshim

The data: ``docs/results/interop*.csv``, which the interop sessions wrote (versions, dates,
exchanges that work, refusals with their reason), the rows by which the interop suite expects
(``tests/interop/functions.py``), ``dlshim.matrix.consumers`` and known faults.
"""

from __future__ import annotations

import importlib
import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from data_tables import list_table, read_rows
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles

from dlshim.habits import MODULES
from dlshim.known.rows import Library
from dlshim.libraries import BY_KEY, FAULTS
from dlshim.matrix.consumers import CONSUMERS

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
functions: Any = importlib.import_module("interop.functions")

Version = tuple[int, ...]


#: The order of the sections; libraries that are not named come after these.
FIRST = (
    "numpy", "torch", "jax", "tensorflow", "paddle", "pyarrow", "nanoarrow", "tvm_ffi", "warp",
    "mlx", "onnxruntime", "array_api_strict", "nanobind", "cuda.core", "open3d", "mxnet",
    "awkward", "mpi4py",
)  # fmt: skip
LIBRARIES = [
    *(row for row in BY_KEY.values() if row.title),
    # Those that only the interop suite knows by a version.
    Library("open3d", "open3d", ("open3d-cpu",), "Open3D"),
    Library("mxnet", "mxnet", ("mxnet",), "MXNet"),
    Library("awkward", "awkward", ("awkward",), "Awkward Array"),
]
LIBRARIES.sort(key=lambda each: FIRST.index(each.key) if each.key in FIRST else len(FIRST))


def adapter_of(library: Library) -> str:
    """How the interop suite calls its adapters and its refusals."""
    return library.key.replace("_", "-")


class Pair(NamedTuple):
    """How many exchanges of two libraries work, and of how many."""

    alone: int
    upgraded: int
    cells: int

    def __str__(self) -> str:
        return f"{self.alone} → {self.upgraded} of {self.cells}"


class Run:
    """An environment, and what was exchanged in it."""

    def __init__(self, name: str, results: Path) -> None:
        def rows(file: str) -> list[dict[str, str]]:
            every = read_rows(results / f"{file}.csv")
            return [row for row in every if row["environment"] == name]

        self.date = rows("interop")[0]["date"]
        self.versions = {row["library"]: row["version"] for row in rows("interop-versions")}
        self.refused = [(row["who"], row["reason"]) for row in rows("interop-refused")]
        self.apart = [row["reason"] for row in rows("interop-absent")]
        self.pairs = {
            (row["producer"], row["consumer"]): Pair(
                int(row["alone"]), int(row["with dlshim"]), int(row["cells"])
            )
            for row in rows("interop-pairs")
        }

    def version(self, library: Library) -> str:
        found = (self.versions.get(name) for name in library.distributions)
        return next(filter(None, found), "").partition("+")[0]


def numbers(version: str) -> Version:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def span(name: str, since: Version, until: Version | None) -> str:
    """A library and its releases: "torch < 2.9", "torch 2.9 and newer"."""
    first, end = (".".join(map(str, each or ())) for each in (since, until))
    if first and end:
        return f"{name} from {first} to before {end}"
    return f"{name} < {end}" if end else f"{name} {first} and newer" if first else name


def code(text: str) -> str:
    """Options and names of a reason, as code."""
    return re.sub(r"(?<![\w`])(\w+=(?:'\w+'|\"\w+\"|True|False))(?!`)", r"``\1``", text)


# ---- sentences ------------------------------------------------------------------------------


class Facts:
    """All the data."""

    def __init__(self, docs: Path) -> None:
        self.docs = docs
        names = dict.fromkeys(row["environment"] for row in read_rows(docs / "results/interop.csv"))
        self.runs = [Run(name, docs / "results") for name in names]
        self.consumers = CONSUMERS

    def modules(self, word: str) -> set[str]:
        """The packages of the modules of which this is known when they ask."""
        return {module.partition(".")[0] for module, words in MODULES if word in words.split()}

    def runs_with(self, library: Library) -> list[Run]:
        """From the oldest release to the newest."""
        runs = [run for run in self.runs if run.version(library)]
        return sorted(runs, key=lambda run: numbers(run.version(library)))

    def fullest(self, library: Library) -> Run:
        """The run with the most other libraries."""
        return max(self.runs_with(library), key=lambda run: len(run.versions))

    def releases(self, library: Library) -> list[str]:
        found = {run.version(library) for run in self.runs_with(library)}
        return sorted(found, key=numbers)

    @staticmethod
    def asks(consumer: Any) -> list[tuple[Version, Version | None, str]]:
        """Which DLPack a consumer asks for: (since, until, "0.x" or "1.x")."""
        spans: list[tuple[Version, Version | None, str]] = []
        for row in sorted(functions.rows_of(consumer.name), key=lambda row: row.since):
            if spans and spans[-1][2] == row.asks:
                spans[-1] = (spans[-1][0], None, row.asks)
            else:
                if spans:
                    spans[-1] = (spans[-1][0], row.since, spans[-1][2])
                spans.append((row.since, None, row.asks))
        return spans

    def takes(self, library: Library) -> Iterator[str]:
        """Sentences about a library as a consumer."""
        said = set()
        for consumer in self.consumers:
            if consumer.library != library.key or library.key in said:
                continue
            said.add(library.key)
            if consumer.wants == "capsule":
                bytes_ = max(row.alignment for row in functions.rows_of(consumer.name))
                call = f"dlshim.to_capsule(x, align={bytes_})" if bytes_ else "dlshim.to_capsule(x)"
                yield f"{library.title} takes raw capsules only: give it ``{call}``."
            if consumer.since:
                yield f"{span(library.title, (), consumer.since)} takes no DLPack objects."
            for since, until, asked in self.asks(consumer):
                if until and until <= consumer.since:
                    continue
                yield self.generation(library, span(self.asking(library), since, until), asked)
        for reason in dict.fromkeys(each for run in self.runs for each in run.apart):
            if reason.startswith(library.key):
                yield f"{reason}."

    def asking(self, library: Library) -> str:
        """Whose releases decide how it asks: some ask through another library."""
        through = {each.asks_through for each in self.consumers if each.library == library.key}
        names = [each.title for each in LIBRARIES if each.key in through]
        return f"{library.title} on {names[0]}" if names else library.title

    def generation(self, library: Library, who: str, asked: str) -> str:
        if "1.x" in asked:
            if library.key in self.modules("HEEDS_NOT"):
                return (f"{who} asks for DLPack 1.x, is told when memory is read-only, and does "
                        "not heed it: dlshim warns, and ``readonly=`` decides.")  # fmt: skip
            return f"{who} asks for DLPack 1.x, and is told when memory is read-only."
        if library.key in self.modules("NEVER_WRITES"):
            return (f"{who} asks for DLPack 0.x, which cannot say read-only.  It never writes, so "
                    "read-only memory needs no option.")  # fmt: skip
        return (f"{who} asks for DLPack 0.x and cannot be told that memory is read-only.  Such "
                "memory needs ``readonly=``.")  # fmt: skip

    def narrower(self, library: Library) -> Iterator[str]:
        """Element types that a release took up."""
        for consumer in self.consumers:
            if consumer.library == library.key:
                rows = sorted(functions.rows_of(consumer.name), key=lambda row: row.since)
                for older, newer in itertools.pairwise(rows):
                    if gained := sorted(newer.dtypes - older.dtypes):
                        who = span(self.asking(library), (), newer.since)
                        yield f"{who} takes no {', '.join(gained)} by DLPack."
                return

    def refusals(self, library: Library) -> Iterator[str]:
        """What it cannot hold, with the releases in which that was seen."""
        seen: dict[str, set[str]] = {}
        for run in self.runs_with(library):
            for who, reason in run.refused:
                if who == adapter_of(library):
                    seen.setdefault(reason, set()).add(run.version(library))
        for reason, releases in seen.items():
            ordered = sorted(releases, key=numbers)
            told = ordered[0] if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}"
            yield f"{code(reason)}  Seen with {told}."

    harms = {
        "kills": "ends the process",
        "wrong": "wrong data",
        "refuses": "refused",
        "leaks": "memory is not given back",
    }

    def known_faults(self, library: Library) -> Iterator[str]:
        for fault in FAULTS:
            if fault.library == library.key:
                who = span(library.title, fault.since, fault.until or None)
                told = f"{who}: {fault.what} ({self.harms[fault.harm]})."
                cured = fault.upgraded != "none"
                yield f"{told}  With dlshim: {code(fault.upgraded)}." if cured else told


# ---- directives -----------------------------------------------------------------------------


class Pages(SphinxDirective):
    """A section for each library."""

    def run(self) -> list[nodes.Node]:
        facts = Facts(Path(self.env.srcdir))
        for path in (facts.docs / "results").glob("interop*.csv"):
            self.env.note_dependency(str(path))
        lines: list[str] = []
        for library in LIBRARIES:
            if facts.releases(library):
                lines += self.section(facts, library)
        box = nodes.section()
        nested_parse_with_titles(self.state, StringList(lines, source="results"), box)
        return box.children

    def section(self, facts: Facts, library: Library) -> list[str]:
        runs = facts.runs_with(library)
        dates = sorted({run.date for run in runs})
        when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        lines = [library.title, "-" * len(library.title), ""]
        lines += [f"Tried with {', '.join(facts.releases(library))}, on {when}.", ""]
        for label, sentences in (
            ("How it asks", [*facts.takes(library), *facts.narrower(library)]),
            ("What it cannot hold", list(facts.refusals(library))),
            ("Known faults", list(facts.known_faults(library))),
        ):
            if sentences:
                lines += [f"**{label}**", "", *(f"* {each}" for each in sentences), ""]
        return [*lines, *self.partners(library, facts.fullest(library))]

    def partners(self, library: Library, run: Run) -> list[str]:
        rows = []
        for other in LIBRARIES:
            into = run.pairs.get((adapter_of(other), adapter_of(library)))
            out = run.pairs.get((adapter_of(library), adapter_of(other)))
            if run.version(other) and (into or out):
                cells = (str(pair or "—") for pair in (into, out))
                rows.append((f"{other.title} {run.version(other)}", *cells))
        if not rows:
            return []
        head = ("partner", f"into {library.title}", f"from {library.title}")
        version = f"{library.title} {run.version(library)}"
        title = f"Exchanges that work with {version}: alone → with dlshim, of how many"
        return [*list_table([head, *rows], (34, 33, 33), title), ""]


class Index(SphinxDirective):
    """Each library in one line."""

    def run(self) -> list[nodes.Node]:
        facts = Facts(Path(self.env.srcdir))
        rows = [("library", "releases that were tried")]
        for library in LIBRARIES:
            if releases := facts.releases(library):
                rows.append((f"`{library.title}`_", ", ".join(releases)))
        return self.parse_text_to_nodes("\n".join(list_table(rows, (30, 70))))


class Need(SphinxDirective):
    """For each library: which others take its arrays alone, and which need dlshim."""

    def run(self) -> list[nodes.Node]:
        facts = Facts(Path(self.env.srcdir))
        rows = [("from", "all pass into", "some need it into")]
        for library in LIBRARIES:
            if facts.releases(library):
                rows.append(self.row(facts, library))
        rows = [row for row in rows if row[1:] != ("—", "—")]
        made = self.parse_text_to_nodes("\n".join(list_table(rows, (20, 30, 50))))
        for node in made:  # tools/words.py counts it apart
            node["classes"].append("recorded")
        return made

    @staticmethod
    def row(facts: Facts, library: Library) -> tuple[str, str, str]:
        run = facts.fullest(library)
        without, with_it = [], []
        for other in LIBRARIES:
            pair = run.pairs.get((adapter_of(library), adapter_of(other)))
            if pair is None or other is library:
                continue
            more = pair.upgraded - pair.alone
            if more <= 0:
                without.append(other.title)
            else:
                with_it.append(f"{other.title} ({more} of {pair.cells})")
        title = f"{library.title} {run.version(library)}"
        return title, ", ".join(without) or "—", ", ".join(with_it) or "—"


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("dlshim-library-index", Index)
    app.add_directive("dlshim-library-pages", Pages)
    app.add_directive("dlshim-need", Need)
    return {"parallel_read_safe": True}
