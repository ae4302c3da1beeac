"""Tables of the manual that are printed from the data that the code walks.

``.. dlshim-libraries::``   the rows of src/exchange/libraries.def
``.. dlshim-cures::``       the ways to an array that messages name, by CURES in shim/cures.py
``.. dlshim-consumers::``   the rows of src/request/consumers.def
``.. dlshim-limits::``      the limits that the matrix command knows
``.. dlshim-interop::``     the interop sessions in one table, by interop.csv
``.. dlshim-platforms::``   wheels by tools/wheels.toml, built and run by platforms.json
``.. dlshim-interpreters::`` who ran the core suite, by interpreters.json
``.. dlshim-threads::``     stress without the GIL, by threads.json
``.. dlshim-environments::``  what each of its environments is for
``.. dlshim-yardstick::``   dlshim beside pydlpack, by interop.csv
``.. dlshim-times::``       nanoseconds of whole exchanges, by the newest times-DATE.json
``.. dlshim-results::``     the dated result files in docs/results/
``.. dlshim-replays:: SUBJECT``  the rows of tests/replays/replays.toml, and where they passed
``.. dlshim-replay-counts::``    how many of each kind there are
``.. dlshim-suites::``          the suites of other projects, by tests/upstream
``.. dlshim-amendments::``      their tests that cannot pass upgraded
``.. dlshim-streams:: CUDA``     one family of devices in src/gpu/sync_rules.def
``.. dlshim-tasks::``             what the tasks of that table come down to, by the code itself
``.. dlshim-messages:: FIRST LAST``  messages that `explain` knows, from one row to another
``.. dlshim-producers::``        how producers treat a stream, and which libraries are known to
``.. dlshim-current-streams::``  where libraries say on which stream they work now
``.. dlshim-gpu-pairs::``        library x library with CUDA memory, by tests/device/pairs.toml
``.. dlshim-gpu-notes::``        why a column of that table is as it is
``.. dlshim-gpu-read::``         the pairs that were read in the sources alone
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import tomllib
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from dlshim import _core, consumers, stream_table
from dlshim.cli.messages import MESSAGES, Message
from dlshim.matrix import pairs

Row = tuple[str, ...]


def rows_of(path: Path, macro: str) -> Iterable[Row]:
    """The arguments of each row ``MACRO(...)`` of a table; the parts of a text are joined."""
    text = re.sub(r" */\*.*?\*/", "", path.read_text(), flags=re.S)
    for row in re.findall(rf"^{macro}\((.*?)\)$", text, re.M | re.S):
        cells = re.findall(r'(?:"[^"]*"\s*)+|[^",\s][^",]*', row)
        yield tuple(
            "".join(re.findall(r'"([^"]*)"', cell)) if cell[0] == '"' else cell.strip()
            for cell in cells
        )


class Library(NamedTuple):
    """A row of src/exchange/libraries.def."""

    name: str
    module: str
    type: str
    traits: str
    functions: str


def libraries(source: Path) -> list[Library]:
    return [Library(*row) for row in rows_of(source / "exchange" / "libraries.def", "LIBRARY")]


def has_trait(row: Library, trait: str) -> bool:
    return f"DLS_LIB_{trait}" in re.findall(r"\w+", row.traits)


class Table(SphinxDirective):
    """A list-table of rows that a subclass gives."""

    header: Row = ()
    widths: tuple[int, ...] = ()  # none: as the cells need

    @property
    def source(self) -> Path:
        return Path(self.env.srcdir).parent / "src"

    def rows(self) -> Iterable[Row]:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        rows = list(self.rows())
        lines = [".. list-table::", "   :header-rows: 1"]
        lines += [f"   :widths: {' '.join(map(str, self.widths)) or 'auto'}", ""]
        for row in (self.header, *rows):
            for number, cell in enumerate(row):
                lines.append(f"   {'* ' if number == 0 else '  '}- {cell}")
        box = nodes.container()
        self.state.nested_parse(StringList(lines, source="data"), self.content_offset, box)
        return box.children


class Libraries(Table):
    header = ("library", "class", "what is known of it")
    widths = (15, 25, 60)

    def meanings(self) -> dict[str, str]:
        """What each trait means, from the list in the header."""
        header = self.source / "exchange" / "library.h"
        # The C formatter may have broken a text into several literals.
        rows = re.findall(r'X\((\w+),[\s\\]*\d+,[\s\\]*((?:"[^"]*"[\s\\]*)+)\)', header.read_text())
        return {name: "".join(re.findall(r'"([^"]*)"', text)) for name, text in rows}

    def rows(self) -> Iterable[Row]:
        meanings = self.meanings()
        for row in libraries(self.source):
            known = [meanings[trait] for trait in meanings if has_trait(row, trait)]
            if row.functions:
                known.append(
                    "capsules from "
                    + " or ".join(f"``{name}``" for name in row.functions.split("|"))
                )
            yield row.name, f"``{row.module}``: ``{row.type}``", "; ".join(known) or "—"


class Cures(Table):
    """The ways to an array that messages name: the rows of CURES in shim/cures.py."""

    header = ("the object", "what to give instead")
    widths = (60, 40)
    kinds = {
        "wrapper": "wraps other arrays and has ``{}``",
        "flag": "its ``{}`` is true",
        "method": "has ``{}``",
        "view": "has a ``{}`` that can be exported",
        "type": "is of a type ``{}``",
    }

    def rows(self) -> Iterable[Row]:
        from dlshim.cures import CURES

        for kind, what, text in CURES:
            if text is not None:
                name = f"{what}*" if what.endswith(".") else what
                yield self.kinds[kind].format(name), f"``{text}``"


class Consumers(Table):
    header = ("passes", "device asked first", "gets negative strides", "who")
    widths = (30, 15, 15, 40)
    keywords = {
        "DLS_ASK_STREAM": "stream",
        "DLS_ASK_VERSION": "max_version",
        "DLS_ASK_DEVICE": "dl_device",
        "DLS_ASK_COPY": "copy",
        "DLS_ASKED_NONE": "a None",
        "DLS_ASKED_1_0": "max_version=(1, 0)",
    }

    def names(self, mask: str) -> str:
        given = re.findall(r"\w+", mask)
        return ", ".join(name for word, name in self.keywords.items() if word in given)

    def rows(self) -> Iterable[Row]:
        table = self.source / "request" / "consumers.def"
        for must, must_not, question, bears, who in rows_of(table, "CONSUMER"):
            passes = self.names(must) or "anything"
            if must_not != "0":
                passes += f"; not {self.names(must_not)}"
            asked = {"1": "yes", "0": "no"}.get(question, "either")
            yield passes, asked, "yes" if bears == "1" else "no", who


class Limits(Table):
    header = ("limit", "works with")
    widths = (65, 35)

    def rows(self) -> Iterable[Row]:

        for limit, _ in pairs.LIMITS:
            yield limit.why, f"``{limit.cure}``" if limit.cure else "—"
        for name, told in consumers.LIMITS.items():
            who = dict.fromkeys(row.name for row in consumers.CONSUMERS if name in row.limits)
            cure = f"``{told.cure}``" if told.cure else "—"
            yield f"{', '.join(who)}: {told.reason}", cure


# ---- streams ------------------------------------------------------------------------------


def together(rows: Iterable[Row]) -> list[Row]:
    """Rows that differ only in their first cell become one."""
    names: dict[Row, list[str]] = {}
    for name, *cells in rows:
        names.setdefault(tuple(cells), []).append(name)
    return [("; ".join(joined), *cells) for cells, joined in names.items()]


def turned(rows: Iterable[Row]) -> list[Row]:
    return list(zip(*rows, strict=True))


class Streams(Table):
    """What `python -m dlshim streams FAMILY` prints; what is the same stands once."""

    required_arguments = 1
    final_argument_whitespace = True

    @staticmethod
    def cell(cell: stream_table.Cell) -> str:
        passed = "—" if cell.passed == "-" else cell.passed and f"``{cell.passed}``"
        refused = not cell.passed
        task = cell.task if refused else cell.task and f"``{cell.task}``"
        return " → ".join(filter(None, (passed, task)))

    def rows(self) -> Iterable[Row]:
        cells = stream_table.cells(self.arguments[0])
        values = next(iter(cells.values()))
        rows = together(
            (producer, *map(self.cell, row.values())) for producer, row in cells.items()
        )
        self.header, *rows = turned(together(turned([("", *values), *rows])))
        return rows


class Tasks(Table):
    """Every task that needs P, as `dls_sync_action_find` answers with and without CUDA 12.5."""

    header = ("task", "P is known", "``auto``", "``legacy``: P is L", "``same``", "``error``")
    policies = ("auto", "legacy", "same", "error")

    knowledge = ("unknown", "ready", "known")

    def words(self, name: str) -> list[str]:
        """The texts of a list in src/core/sync_words.h."""
        text = (self.source / "core" / "sync_words.h").read_text()
        entries = text.partition(f"#define DLS_{name}_LIST(X)")[2].partition("\n\n")[0]
        return re.findall(r'X\(\w+, "([^"]*)"\)', entries)

    def action(self, task: str, known: str, policy: str) -> str:
        asked = (
            self.words("TASK").index(task),
            self.knowledge.index(known),
            *(5, 7),
            self.policies.index(policy),
        )
        new, old = (
            self.words("ACTION")[_core._sync_action(*asked, (can_record_device, *5 * [False]))]
            for can_record_device in (True, False)
        )
        return new if new == old else f"{new}; before CUDA 12.5: {old}"

    def rows(self) -> Iterable[Row]:
        tasks = dict.fromkeys(row["task"] for row in _core._sync_rules())
        for task in tasks:
            if "(P" in task:
                unknown = [self.action(task, "unknown", policy) for policy in self.policies]
                yield f"``{task}``", self.action(task, "known", "auto"), *unknown


class Producers(Table):
    header = ("kind", "what it does with a stream", "known to be so")
    widths = (18, 47, 35)
    meanings = {
        "modern": ("", "synchronises its work with the stream that it is passed"),
        "modern, not 2": ("REFUSES_TWO", "the same, but refuses 2, the per-thread default stream"),
        "modern, not -1": ("NO_MINUS_ONE", "the same, but takes -1 for a handle"),
        "modern, unheard of": ("", "the same, but nobody can tell its stream: it has no C table, "
                               "and its library is not in the table of S11; all others"),
        "ignores stream": ("IGNORES_STREAM", "takes the keyword and orders nothing"),
        "no stream": ("", "does not take the keyword, or is no ``__dlpack__`` at all: raw "
                          "capsules, capsule functions, the CUDA array interface, a "
                          ":class:`dlshim.Tensor`"),
        "has waited": ("WAITS", "returns when the data are ready"),
    }  # fmt: skip

    def rows(self) -> Iterable[Row]:
        for kind in stream_table.cells("CUDA"):
            trait, meaning = self.meanings[kind]
            names = [row.name for row in libraries(self.source) if has_trait(row, trait)]
            yield kind, meaning, ", ".join(dict.fromkeys(names)) or "—"


class CurrentStreams(Table):
    header = ("library", "class", "asked for its current stream")
    widths = (20, 40, 40)

    def rows(self) -> Iterable[Row]:
        table = self.source / "exchange" / "libraries.def"
        paths = {
            name: path
            for name, device, path in rows_of(table, "CURRENT_STREAM")
            if device == "dl_kDLCUDA"
        }
        for row in libraries(self.source):
            if path := paths.get(row.name):
                where = f"the object's ``{path}``" if path.startswith(".") else f"``{path}``"
                yield row.name, f"``{row.module}``: ``{row.type}``", where


# ---- library x library --------------------------------------------------------------------


class GpuPairs(Table):
    """Each cell of tests/device/pairs.toml in few letters; test_pairs.py holds the file."""

    costs = {"": "yes", "the host waits": "waits", "the whole device": "device"}

    @property
    def data(self) -> dict[str, Any]:
        tests = Path(self.env.srcdir).parent / "tests"
        return tomllib.loads((tests / "device" / "pairs.toml").read_text())

    def short(self, outcome: str) -> str:
        kind = re.split("[:,]", outcome)[0]
        if kind != "ordered":
            return {"refused": "no", "race": "**race**", "crash": "**crash**"}[kind]
        _, _, cost = outcome.partition(", ")
        return self.costs[cost.split(", ")[-1]]

    def rows(self) -> Iterable[Row]:
        cells = self.data["cells"]
        self.header = ("from ↓ to →", *next(iter(cells.values())))
        for producer, row in cells.items():
            told = (tuple(map(self.short, cell)) for cell in row.values())
            short = (bare if bare == now else f"{bare} → {now}" for bare, now in told)
            yield f"**{producer}**", *short


class GpuNotes(GpuPairs):
    header = ("consumer", "what to know of it")
    widths = (20, 80)

    def rows(self) -> Iterable[Row]:
        for consumer, note in self.data["notes"].items():
            yield consumer, re.sub("`+", "``", note)


class GpuRead(GpuPairs):
    header = ("from", "to", "works bare", "works upgraded", "read in")
    widths = (15, 15, 25, 25, 20)

    def rows(self) -> Iterable[Row]:
        for row in self.data["read"]:
            yield row["from"], row["to"], row["bare"], row["upgraded"], f"``{row['source']}``"


# ---- replays ------------------------------------------------------------------------------


class Replays(Table):
    """Cases of one subject: what broke, what dlshim does, where the replay was seen to pass."""

    header = ("case", "what broke", "what dlshim does", "replay")
    widths = (24, 30, 26, 20)
    required_arguments = 1
    final_argument_whitespace = True

    @property
    def folder(self) -> Path:
        return Path(self.env.srcdir).parent / "tests" / "replays"

    @staticmethod
    def link(cited: str) -> str:
        return f"`{cited} <https://github.com/{cited.replace('#', '/issues/')}>`__"

    @staticmethod
    def where(test: str, sessions: dict[str, Any]) -> str:
        names = [name for name, told in sessions.items() if test in told["passed"]]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return ", ".join(names[:3]) + more or "not run yet"

    @classmethod
    def replay(cls, row: dict[str, Any], sessions: dict[str, Any]) -> str:
        if "why_not" in row:
            return f"none: {row['why_not']}"
        test, *also = (
            f"``{node.partition('::')[2]}`` ({cls.where(node, sessions)})"
            for node in [row["test"], *row.get("also", [])]
        )
        told = f"{row['kind']}: {test}" + (f"; also {', '.join(also)}" if also else "")
        return f"{told}. {row['note']}" if "note" in row else told

    def rows(self) -> Iterable[Row]:
        cases = tomllib.loads((self.folder / "replays.toml").read_text())["case"]
        newest = sorted((Path(self.env.srcdir) / "results").glob("replays-*.json"))[-1]
        sessions = json.loads(newest.read_text())["sessions"]
        for row in cases:
            if row["subject"] == self.arguments[0]:
                cited = "; ".join(self.link(each) for each in row["reference"])
                case = f"**{row['id']}.** {row['title']}" + (f" ({cited})" if cited else "")
                yield case, row["broke"], row["cure"], self.replay(row, sessions)


class ReplayCounts(Replays):
    header = ("kind", "cases", "seen to pass")
    widths = (40, 30, 30)
    required_arguments = 0

    def rows(self) -> Iterable[Row]:
        cases = tomllib.loads((self.folder / "replays.toml").read_text())["case"]
        newest = sorted((Path(self.env.srcdir) / "results").glob("replays-*.json"))[-1]
        sessions = json.loads(newest.read_text())["sessions"].values()
        seen = {test for told in sessions for test in told["passed"]}
        for kind in ("real", "double", "own", "none"):
            rows = [row for row in cases if row.get("kind", "none") == kind]
            count = sum(row.get("test") in seen for row in rows)
            yield kind, str(len(rows)), "—" if kind == "none" else str(count)


# ---- reliability --------------------------------------------------------------------------


class Figures(Table):
    """What was tried, how often, and what came of it, by the newest file of each kind."""

    header = ("what", "figures", "to repeat")
    widths = (24, 50, 26)

    def newest(self, pattern: str) -> Any:
        path = sorted((Path(self.env.srcdir) / "results").glob(pattern))[-1]
        read = json.loads if path.suffix == ".json" else tomllib.loads
        return read(path.read_text())

    @staticmethod
    def number(value: float) -> str:
        return f"{value:,.0f}".replace(",", " ")

    def fuzzing(self) -> Iterable[Row]:
        targets = self.newest("fuzz-*.json")["targets"]
        core = [told for name, told in targets.items() if name != "boundary"]
        for what, told in (("the C core", core), ("the boundary", [targets["boundary"]])):
            runs = self.number(sum(each["executions"] for each in told))
            seconds = self.number(sum(each["seconds"] for each in told))
            crashes = sum(len(each["crashes"]) for each in told)
            figures = f"{runs} executions in {seconds} s, {crashes} crashes"
            yield f"fuzzing of {what}", figures, "``nox -s fuzz``"

    def faults(self) -> Iterable[Row]:
        faults = self.newest("faults.toml")
        pythons = [
            told for told in faults["pythons_allocations"].values() if isinstance(told, dict)
        ]
        trials = self.number(sum(told["trials"] for told in pythons))
        calls = self.number(sum(told["trials"] for told in faults["driver_calls"].values()))
        drivers = ", ".join(faults["driver_calls"])
        figures = f"{trials} trials on {len(pythons)} versions of CPython: no crash, nothing left"
        yield "allocations that fail", figures, "``nox -s faults-3.12``"
        yield "driver calls that fail", f"{calls} trials on fakes of {drivers}", "``nox -s suite``"

    def rows(self) -> Iterable[Row]:
        cases = tomllib.loads(
            (Path(self.env.srcdir).parent / "tests" / "replays" / "replays.toml").read_text()
        )["case"]
        kinds = [row.get("kind", "none") for row in cases]
        replayed = len(kinds) - kinds.count("none")
        figures = (
            f"{len(kinds)}, {replayed} replayed, {kinds.count('real')} on the libraries that fail"
        )
        yield "known cases", figures, "``nox -s replays``, ``nox -s interop-NAME``"
        model = self.newest("model-*.json")
        cases_, steps = self.number(model["cases"]), self.number(model["steps"])
        figures = f"{cases_} cases, {steps} steps, {self.number(model['exchanges'])} exchanges"
        yield "a model of exchanges", figures, "``nox -s model``"
        yield from self.fuzzing()
        yield from self.faults()
        coverage = self.newest("coverage-*.json")
        told = [f"{coverage[what][2]} % of {what}" for what in ("lines", "branches")]
        yield "coverage of the C code", ", ".join(told), "``nox -s coverage``"
        yield (
            "ASan and UBSan",
            "the core suite, 0 reports, in every run of CI",
            "``nox -s sanitize``",
        )
        yield "a debug build of CPython", "the core suite; references counted", "``nox -s debug``"
        yield "memcheck", "591 tests, 0 errors", "``nox -s memcheck``"
        yield (
            "clang-tidy, cppcheck, -fanalyzer",
            "0 open findings",
            "``nox -s tidy``, ``nox -s lint``",
        )
        yield "mutants", "each sync rule left out once: noticed", "``nox -s mutants``"


# ---- beside others ------------------------------------------------------------------------


class Interop(Table):
    """docs/results/interop.csv in seven columns, which fit the page."""

    header = (
        "environment", "through", "exchanges", "work alone → with it", "curable → cured", "broken",
        "refused on purpose",
    )  # fmt: skip
    widths = (16, 18, 12, 18, 16, 8, 12)

    def rows(self) -> Iterable[Row]:
        with (Path(self.env.srcdir) / "results" / "interop.csv").open(newline="") as file:
            for row in csv.DictReader(file):
                yield (
                    row["environment"],
                    row["through"],
                    row["cells"],
                    f"{row['bare ok']} → {row['ok']}",
                    f"{row['curable']} → {row['cured']}",
                    row["broken"],
                    row["refused on purpose"],
                )


class Platforms(Table):
    """The rows of tools/wheels.toml with what docs/results/platforms.json has seen of them."""

    header = ("wheel", "processor", "built, checked by", "hardened", "core suite", "where")
    widths = (18, 12, 18, 16, 18, 18)
    #: What the file says, and in a few words; the rest is demanded of every wheel.
    hardening = {
        "RELRO": "RELRO",
        "BIND_NOW": "BIND_NOW",
        "FORTIFY": "FORTIFY",
        "stack protector": "stack protector",
        "address at random": "ASLR",
        "data not executable": "NX",
    }

    @classmethod
    def hardened(cls, seen: dict[str, Any]) -> str:
        """What protects it; then, after "no", what could and does not."""
        told = [(word, seen["file"][what]) for what, word in cls.hardening.items()
                if what in seen.get("file", ())]  # fmt: skip
        has, lacks = ([word for word, good in told if good is wanted] for wanted in (True, False))
        return ", ".join([*has, *(f"no {word}" for word in lacks)]) or "—"

    @staticmethod
    def built(seen: dict[str, Any]) -> str:
        if not seen:
            return "not built yet"
        size = f"{seen['bytes'] / 1000:.1f} kB"
        return f"{seen['date']}, {seen['compiler']}, {size}; {', '.join(seen['audited'])}"

    @staticmethod
    def ran(line: dict[str, Any]) -> tuple[str, str]:
        seen = line.get("run") or line.get("loaded")
        if not seen:
            return "not run", "—"
        of = "" if seen.get("sha256") == line["built"].get("sha256") else ", an earlier wheel"
        if "run" not in line:
            inputs = f"the C core passes {seen['inputs of the C core']} inputs of the fuzzers"
            return f"not run; loads, and {inputs}", f"{seen['date']}, {seen['on']}, no Python{of}"
        counts = (f"{seen[word]} {word}" for word in ("passed", "failed", "skipped"))
        left = f"; left out: {seen['left out']}" if seen.get("left out") else ""
        return ", ".join(counts) + left, f"{seen['date']}, {seen['interpreter']}, {seen['on']}{of}"

    def rows(self) -> Iterable[Row]:
        root = Path(self.env.srcdir).parent
        known = json.loads((root / "docs" / "results" / "platforms.json").read_text())
        wheels = tomllib.loads((root / "tools" / "wheels.toml").read_text())
        for name, row in wheels.items():
            seen = known.get(name, {})
            tag = row["platform"].partition(".")[0]
            built = seen.get("built", {})
            about = f"``{tag}``", row["processor"], self.built(built), self.hardened(built)
            yield *about, *self.ran(seen)


class Interpreters(Table):
    """The interpreters that have run the core suite, by docs/results/interpreters.json."""

    header = ("CPython", "processor", "extension", "core suite", "date")
    widths = (22, 12, 30, 24, 12)

    def rows(self) -> Iterable[Row]:
        file = Path(self.env.srcdir) / "results" / "interpreters.json"
        for seen in json.loads(file.read_text()).values():
            version = seen["interpreter"].removeprefix("CPython ")
            gil = "" if seen["GIL"] == "on" else ", without the GIL"
            counts = (f"{seen[word]} {word}" for word in ("passed", "failed", "skipped"))
            extension = f"``{seen['extension']}``, {seen['sha256']}"
            yield f"{version}{gil}", seen["processor"], extension, ", ".join(counts), seen["date"]


class Threads(Table):
    """The programs of tools/stress.py without the GIL, by docs/results/threads.json."""

    header = ("program", "rounds", "left over", "ThreadSanitizer")
    widths = (20, 30, 16, 34)

    @property
    def data(self) -> dict[str, Any]:
        file = Path(self.env.srcdir) / "results" / "threads.json"
        told: dict[str, Any] = json.loads(file.read_text())
        return told

    def rows(self) -> Iterable[Row]:
        sanitized = self.data.get("tsan", {}).get("programs", {})
        for name, seen in self.data["stress"]["programs"].items():
            under = sanitized.get(name)
            told = f"{under['rounds']} rounds, no report" if under else "not run"
            yield f"``{name}``", str(seen["rounds"]), str(seen["left"]), told

    def run(self) -> list[nodes.Node]:
        runs = []
        for what, word in (("stress", "The rounds"), ("tsan", "Those under ThreadSanitizer")):
            seen = self.data.get(what)
            if seen is None:
                continue
            runs.append(
                f"{word} were made on {seen['date']} by {seen['threads']} threads in "
                f"{seen['seconds']:g} seconds for each program, {seen['interpreter']}, "
                f"{seen['machine']}, GIL {seen['gil']}."
            )
        scaling = self.data["scaling"]
        runs.append(
            f"{scaling['threads']} threads made {scaling['times by the clock']} times as many "
            f"independent exchanges as one ({scaling['date']})."
        )
        text = "  ".join(runs)
        return [nodes.paragraph(text, text), *super().run()]


class Environments(Table):
    """What the environments of that table are for, by tests/interop/environments.toml."""

    header = ("environment", "Python", "what it is for")
    widths = (22, 12, 66)

    def rows(self) -> Iterable[Row]:
        tests = Path(self.env.srcdir).parent / "tests"
        for name, row in tomllib.loads(
            (tests / "interop" / "environments.toml").read_text()
        ).items():
            if row.get("tests", "tests/interop") == "tests/interop":
                yield name, row["python"], row["why"]


class Yardstick(Table):
    """The two lines of docs/results/interop.csv that were run through either package."""

    header = ("through", "fail alone, could work", "of these work", "work alone, fail through it")
    widths = (28, 24, 24, 24)

    def rows(self) -> Iterable[Row]:
        with (Path(self.env.srcdir) / "results" / "interop.csv").open(newline="") as file:
            lines = [row for row in csv.DictReader(file) if row["environment"] == "newest"]
        for row in lines:
            if row["through"] in ("dlshim", "pydlpack"):
                name = f"{row['through']} ({row['date']})"
                lost = f"{row['broken']}, and {row['refused on purpose']} refused on purpose"
                yield name, row["curable"], row["cured"], lost


# ---- times --------------------------------------------------------------------------------


class Times(Table):
    """Nanoseconds of whole exchanges bare and upgraded; above it, where they were measured."""

    header = ("exchange", "without dlshim", "with dlshim", "ratio")
    widths = (40, 20, 20, 20)

    @property
    def data(self) -> dict[str, Any]:
        newest = sorted((Path(self.env.srcdir) / "results").glob("times-*.json"))[-1]
        told: dict[str, Any] = json.loads(newest.read_text())
        return told

    def rows(self) -> Iterable[Row]:
        for case, ways in self.data["nanoseconds, smallest and median"].items():
            if "bare" in ways and "dlshim" in ways:
                bare, own = ways["bare"][0], ways["dlshim"][0]
                yield case, f"{bare} ns", f"{own} ns", f"{own / bare:.2f}"

    def run(self) -> list[nodes.Node]:
        told = self.data
        text = (
            f"Measured on {told['date']}: {told['processor']}, {told['cores']} cores, CPython "
            f"{told['python']}, {', '.join(told['libraries'])}.  Each number is the fastest of "
            "many short batches; below 1 in the last column is faster with dlshim."
        )
        return [nodes.paragraph(text, text), *super().run()]


# ---- messages -----------------------------------------------------------------------------


class Messages(SphinxDirective):
    """Rows of shim/cli/messages.py with the examples of tests/interop/messages.toml."""

    required_arguments = 2
    longest = 150

    def table(self) -> dict[str, Any]:
        file = Path(self.env.srcdir).parent / "tests" / "interop" / "messages.toml"
        return tomllib.loads(file.read_text())

    def examples(self, table: dict[str, Any]) -> dict[str, list[str]]:
        """The messages of each row, in one line each."""
        texts: dict[str, list[str]] = {}
        for example in table["message"]:
            text = " ".join(re.sub(r"\x1b\[[\d;]*m", "", example["text"]).split())
            cut = text if len(text) <= self.longest else f"{text[: self.longest]} ..."
            seen = texts.setdefault(example["row"], [])
            if cut not in seen:
                seen.append(cut)
        return texts

    @staticmethod
    def reference(cited: str) -> str:
        if "#" in cited:
            return Replays.link(cited)
        return f"rule {cited} (:doc:`{'streams' if cited[0] == 'S' else 'rules'}`)"

    def lines(self, row: Message, said: dict[str, Any], texts: list[str]) -> Iterable[str]:
        yield f"``{texts[0]}``"
        yield f"    *{said['who']}.*  {row.cause}"
        for text in texts[1:]:
            yield from ("", f"    also: ``{text}``")
        yield from ("", "    .. code-block:: python", "")
        yield from (f"       {cure}" for cure in row.cures)
        if see := said.get("see"):
            yield from ("", f"    See {', '.join(map(self.reference, see))}.")
        yield ""

    def run(self) -> list[nodes.Node]:
        keys = [row.key for row in MESSAGES]
        first, last = (keys.index(key) for key in self.arguments)
        lines: list[str] = []
        table = self.table()
        examples, said = self.examples(table), {row["key"]: row for row in table["row"]}
        for row in MESSAGES[first : last + 1]:
            lines += self.lines(row, said[row.key], examples[row.key])
        box = nodes.container()
        self.state.nested_parse(StringList(lines, source="messages"), self.content_offset, box)
        return box.children


# ---- suites of other projects -------------------------------------------------------------


class Suites(Table):
    """What each suite came to, in the newest report."""

    header = ("suite", "files from", "tests", "pass bare", "pass upgraded", "objects upgraded")
    widths = (20, 36, 11, 11, 11, 11)

    @property
    def report(self) -> list[dict[str, Any]]:
        newest = sorted((Path(self.env.srcdir) / "results").glob("upstream-*.json"))[-1]
        return list(json.loads(newest.read_text()).values())

    @staticmethod
    def origin(suite: dict[str, Any]) -> str:
        kind, _, rest = suite["source"].partition(" ")
        package = f"{suite['package']} {suite['files of']}"
        where = {"sdist": "the source distribution", "wheel": "the wheel"}.get(kind)
        told = f"{where} of {package}" if where else f"Debian's source package, {rest}, {package}"
        return f"{told}; ``{suite['session']}``"

    def rows(self) -> Iterable[Row]:
        for suite in self.report:
            name = f"{suite['project']} {suite['version']}"
            if not (told := suite["figures"]):
                yield suite["project"], suite["why not"] or "not run yet", *4 * ("—",)
                continue
            tests = f"{told['tests']}, {told['skipped']} skipped"
            passed = told["passed"]
            both = sorted({passed["upgraded"], passed["translated"]})
            upgraded = " to ".join(map(str, both))
            exchanged = str(told["exchanged"])
            yield name, self.origin(suite), tests, str(passed["bare"]), upgraded, exchanged


class Amendments(Suites):
    header = ("suite", "test", "why it cannot pass upgraded")
    widths = (15, 40, 45)

    def rows(self) -> Iterable[Row]:
        for suite in self.report:
            for test, why in suite["amended"].items():
                yield f"{suite['project']} {suite['version']}", f"``{test}``", why


class Results(SphinxDirective):
    """Links to the result files, newest first."""

    def run(self) -> list[nodes.Node]:
        folder = Path(self.env.srcdir) / "results"
        names = [path.name for path in folder.iterdir() if path.suffix != ".rst"]
        lines = [f"* :download:`{name} <{name}>`" for name in sorted(names, reverse=True)]
        box = nodes.container()
        text = StringList(lines or ["None has been committed yet."], source="results")
        self.state.nested_parse(text, self.content_offset, box)
        return box.children


def setup(app: Sphinx) -> dict[str, bool]:
    tables = (
        Libraries,
        Consumers,
        Limits,
        Streams,
        Tasks,
        Producers,
        Replays,
        Figures,
        Times,
        Results,
    )
    for directive in tables:
        app.add_directive(f"dlshim-{directive.__name__.lower()}", directive)
    app.add_directive("dlshim-current-streams", CurrentStreams)
    app.add_directive("dlshim-replay-counts", ReplayCounts)
    app.add_directive("dlshim-gpu-pairs", GpuPairs)
    app.add_directive("dlshim-gpu-notes", GpuNotes)
    app.add_directive("dlshim-gpu-read", GpuRead)
    app.add_directive("dlshim-messages", Messages)
    app.add_directive("dlshim-suites", Suites)
    for each in (Cures, Yardstick, Interop, Environments, Interpreters, Platforms, Threads):
        app.add_directive(f"dlshim-{each.__name__.lower()}", each)
    app.add_directive("dlshim-amendments", Amendments)
    return {"parallel_read_safe": True}
