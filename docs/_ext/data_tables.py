"""Tables of the manual that are printed from the data that the code walks.

``.. dlshim-rows:: FILE`` makes a table of the rows of a csv, json or toml file. Each line of its
content is a column, ``title: template``, and a template has the row's fields in braces; without
content, each field is a column. Each function below that says `@table` makes another table; its
directive is ``dlshim-`` and the name there.
"""

from __future__ import annotations

import csv
import json
import re
import string
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import tomllib
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from dlshim import _core, habits, stream_table
from dlshim.cli.messages import GENERAL, SUBJECTS
from dlshim.counted import COUNTED
from dlshim.cures import CHANGED, CURES

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
Row = Sequence[str]


# ---- files --------------------------------------------------------------------------------


def read_rows(file: Path, under: str = "") -> list[dict[str, Any]]:
    """The rows of a file; in json and toml those of the list, or of the tables, of that name. The
    name of a table, and of a plain value, is the field "key"; such a value is the field "value"."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".csv":
        return list(csv.DictReader(line for line in text.splitlines(True) if line[0] != "#"))
    told = (tomllib if file.suffix == ".toml" else json).loads(text)
    told = told[under] if under else told
    if isinstance(told, list):
        return told
    return [{"key": k, **(v if isinstance(v, dict) else {"value": v})} for k, v in told.items()]


def head_of(file: Path) -> str:
    """What a csv file says in its first line of the run that wrote it: "# 2026-11-23, ..."."""
    return file.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def rows_of(path: Path, macro: str) -> Iterable[Row]:
    """The arguments of each row ``MACRO(...)`` of a table; the parts of a text are joined."""
    text = re.sub(r" */\*.*?\*/", "", path.read_text(), flags=re.S)
    for row in re.findall(rf"^{macro}\((.*?)\)$", text, re.M | re.S):
        cells = re.findall(r'(?:"[^"]*"\s*)+|[^",\s][^",]*', row)
        yield tuple(
            "".join(re.findall(r'"([^"]*)"', cell)) if cell[0] == '"' else cell.strip()
            for cell in cells
        )


# ---- directives ---------------------------------------------------------------------------


def literal(text: str) -> str:
    """Text of others as it is."""
    return f"``{' '.join(text.split()).replace('`', chr(39))}``" if text else "—"


def list_table(rows: Iterable[Row], widths: Iterable[int] = (), title: str = "") -> list[str]:
    lines = [f".. list-table:: {title}".rstrip(), "   :header-rows: 1"]
    lines += [f"   :widths: {' '.join(map(str, widths)) or 'auto'}", ""]
    for row in rows:
        lines += [f"   {'  ' if i else '* '}- {cell}" for i, cell in enumerate(row)]
    return lines


class Table(SphinxDirective):
    """A list-table of rows that a subclass gives."""

    header: ClassVar[Row] = ()
    widths: ClassVar[tuple[int, ...]] = ()  # none: as the cells need

    def rows(self) -> Iterable[Row]:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        rows = list(self.rows())
        rows = [self.header, *rows] if self.header else rows
        title = self.options.get("title", "")
        return self.parse_text_to_nodes("\n".join(list_table(rows, self.widths, title)))


class Template(string.Formatter):
    """``{field}``; ``{field!c}`` is code, ``{field!m}`` has code in single marks. Of templates with
    `` | `` between the first counts whose fields are there and are not empty."""

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        if conversion == "m":
            return re.sub("`+", "``", value)
        return literal(value) if conversion == "c" else super().convert_field(value, conversion)

    def fill(self, template: str, row: dict[str, Any]) -> str:
        for each in template.split(" | "):
            fields = [field for _, field, _, _ in self.parse(each) if field]
            if all(row.get(field) not in (None, "") for field in fields):
                return self.vformat(each, (), row)
        raise KeyError(template)


class Rows(Table):
    required_arguments = 1
    has_content = True
    option_spec: ClassVar[dict[str, Callable[[str], Any]]] = {
        "title": directives.unchanged,
        "under": directives.unchanged,  # the list or the tables of that name
        "where": directives.unchanged,  # "FIELD=A|B; FIELD=C": only these rows
        "widths": directives.positive_int_list,
    }

    def rows(self) -> Iterable[Row]:
        file = (ROOT / self.arguments[0]).resolve()
        self.env.note_dependency(str(file))
        self.widths = self.options.get("widths", ())
        rows = read_rows(file, self.options.get("under", ""))
        told = list(self.content) or [f"{field}: {{{field}}}" for field in rows[0]]
        columns = [line.partition(": ") for line in told]
        yield [title for title, _, _ in columns]
        asked = [each.partition("=") for each in self.options.get("where", "").split("; ") if each]
        for row in rows:
            if all(row.get(field, "") in values.split("|") for field, _, values in asked):
                yield [Template().fill(template, row) for _, _, template in columns]


#: Name of a directive -> its class.
TABLES: dict[str, type[Table]] = {}


def table(
    name: str, header: str = "", widths: tuple[int, ...] = ()
) -> Callable[[Callable[..., Iterable[Row]]], Callable[..., Iterable[Row]]]:
    """Makes a directive of a function that yields rows; without a header the first row is one."""

    def make(function: Callable[..., Iterable[Row]]) -> Callable[..., Iterable[Row]]:
        class Made(Table):
            optional_arguments = 1
            final_argument_whitespace = True

            def rows(self) -> Iterable[Row]:
                return function(*self.arguments)

        Made.header, Made.widths = header.split(" | ") if header else (), widths
        TABLES[name] = Made
        return function

    return make


# ---- what the code knows ------------------------------------------------------------------


class Library(NamedTuple):
    """A row LIBRARIES of shim/habits.py."""

    name: str
    module: str
    type: str
    traits: str

    @property
    def class_of(self) -> str:
        return f"``{self.module}``: ``{self.type}``"

    def has(self, trait: str) -> bool:
        return trait in self.traits.split()


def libraries() -> list[Library]:
    return [Library(*row) for row in habits.LIBRARIES]


def asked(call: str) -> dict[str, str]:
    """How libraries are asked for that, by the name of the library."""
    told = {name: calls[call] for name, calls in habits.CALLS_OF.items() if call in calls}
    return {name: str(how.__doc__) if callable(how) else f"``{how}``" for name, how in told.items()}


def capsules() -> dict[str, list[str]]:
    """Where capsules come from that are no answer of __dlpack__, by the name of the library."""
    found = {name: [told] for name, told in asked("capsule").items()}
    for name, calls in habits.CALLS_OF.items():
        found.setdefault(name, []).extend(f"``.{method}``" for method in calls.get("methods", ()))
    return found


@table("libraries", "library | class | what is known of it", (15, 25, 60))
def known_libraries() -> Iterator[Row]:
    functions = capsules()
    for row in libraries():
        known = [meaning for trait, meaning in habits.TRAITS.items() if row.has(trait)]
        if functions.get(row.name):
            known.append("capsules from " + " or ".join(functions[row.name]))
        yield row.name, row.class_of, "; ".join(known) or "—"


CURED = {
    "wrapper": "wraps other arrays and has ``{}``",
    "flag": "its ``{}`` is true",
    "method": "has ``{}``",
    "numpy": "has ``{}``, and a dtype of numbers",
    "view": "has a ``{}`` that can be exported",
    "held": "has a ``{}`` that shows the elements which the object says it has",
    "type": "is of a type ``{}``",
    "items": "is a ``{}`` of numbers",
}


@table("cures", "the object | what to give instead", (60, 40))
def cures() -> Iterator[Row]:
    """The ways to an array that messages name."""
    for kind, what, text in CURES:
        if text is not None:
            how = f", {CHANGED[text]}" if text in CHANGED else ""
            object_ = CURED[kind].format(f"{what}*" if what.endswith(".") else what)
            yield object_, f"``{text}``{how}"


KEYWORDS = {
    "DLS_ASK_STREAM": "stream",
    "DLS_ASK_VERSION": "max_version",
    "DLS_ASK_DEVICE": "dl_device",
    "DLS_ASK_COPY": "copy",
    "DLS_ASKED_NONE": "a None",
    "DLS_ASKED_1_0": "max_version=(1, 0)",
}


@table("consumers", "passes | device asked first | gets negative strides | who", (30, 15, 15, 40))
def known_consumers() -> Iterator[Row]:
    def names(mask: str) -> str:
        given = re.findall(r"\w+", mask)
        return ", ".join(name for word, name in KEYWORDS.items() if word in given)

    file = ROOT / "src" / "request" / "consumers.def"
    for must, must_not, question, layout, who in rows_of(file, "CONSUMER"):
        passes = names(must) or "anything"
        if must_not != "0":
            passes += f"; not {names(must_not)}"
        asked = {"1": "yes", "0": "no"}.get(question, "either")
        yield passes, asked, "yes" if layout == "ANY" else "no", who


@table("counted", "what | when, and why | what works | rule", (30, 42, 20, 8))
def what_is_counted() -> Iterator[Row]:
    """What works bare and not upgraded: rule T12."""
    for row in COUNTED:
        texts = (row.what, row.why, row.cure, row.rule or "—")
        yield tuple(text.replace("`", "``") for text in texts)


# ---- streams ------------------------------------------------------------------------------


def together(rows: Iterable[Row]) -> list[Row]:
    """Rows that differ only in their first cell become one."""
    names: dict[Row, list[str]] = {}
    for name, *cells in rows:
        names.setdefault(tuple(cells), []).append(name)
    return [("; ".join(joined), *cells) for cells, joined in names.items()]


def turned(rows: Iterable[Row]) -> list[Row]:
    return list(zip(*rows, strict=True))


def stream_cell(cell: stream_table.Cell) -> str:
    passed = "—" if cell.passed == "-" else cell.passed and f"``{cell.passed}``"
    task = cell.task and f"``{cell.task}``" if cell.passed else cell.task
    return " → ".join(filter(None, (passed, task)))


@table("streams")
def streams(family: str) -> Iterable[Row]:
    """What `python -m dlshim streams FAMILY` prints; what is the same stands once."""
    cells = stream_table.cells(family)
    values = next(iter(cells.values()))
    rows = together((producer, *map(stream_cell, row.values())) for producer, row in cells.items())
    return turned(together(turned([("", *values), *rows])))


POLICIES = ("auto", "legacy", "same", "error")


def words(name: str) -> list[str]:
    """The texts of a list in src/core/sync_words.h."""
    text = (ROOT / "src" / "core" / "sync_words.h").read_text()
    entries = text.partition(f"#define DLS_{name}_LIST(X)")[2].partition("\n\n")[0]
    return re.findall(r'X\(\w+, "([^"]*)"\)', entries)


def action(task: str, known: str, policy: str) -> str:
    knowledge = ("unknown", "ready", "known", "event").index(known)
    asked = (words("TASK").index(task), knowledge, 5, 7, POLICIES.index(policy))
    new, old = (
        words("ACTION")[_core._sync_action(*asked, (can_record_device, *5 * [False]))]
        for can_record_device in (True, False)
    )
    return new if new == old else f"{new}; before CUDA 12.5: {old}"


@table(
    "tasks",
    "task | P is known | P is an event | ``auto`` | ``legacy``: P is L | ``same`` | ``error``",
)
def tasks() -> Iterator[Row]:
    """Every task that needs P, as `dls_sync_action_find` answers with and without CUDA 12.5."""
    for task in dict.fromkeys(row["task"] for row in _core._sync_rules()):
        if "(P" in task:
            unknown = [action(task, "unknown", policy) for policy in POLICIES]
            known = (action(task, known, "auto") for known in ("known", "event"))
            yield f"``{task}``", *known, *unknown


PRODUCERS = {
    "modern": ("", "synchronises its work with the stream that it is passed"),
    "modern, not 2": ("REFUSES_TWO", "the same, but refuses 2, the per-thread default stream"),
    "modern, not -1": ("NO_MINUS_ONE", "the same, but takes -1 for a handle, and waits for None"),
    "modern, unknown library": ("", "the same, but nobody can tell its stream: it has no C table, "
                           "and its library is not in the table of S11; all others"),
    "ignores stream": ("IGNORES_STREAM", "takes the keyword and orders nothing"),
    "no stream": ("", "does not take the keyword, or is no ``__dlpack__`` at all: raw "
                      "capsules, capsule functions, the CUDA array interface, a "
                      ":class:`dlshim.Tensor`"),
    "has waited": ("WAITS", "returns when the data are ready"),
}  # fmt: skip


@table("producers", "kind | what it does with a stream | known to be so", (18, 47, 35))
def producers() -> Iterator[Row]:
    for kind in stream_table.cells("CUDA"):
        trait, meaning = PRODUCERS[kind]
        names = dict.fromkeys(row.name for row in libraries() if row.has(trait))
        yield kind, meaning, ", ".join(names) or "—"


@table("current-streams", "library | class | asked for its current stream", (20, 40, 40))
def current_streams() -> Iterator[Row]:
    streams = asked("CUDA stream")
    for row in libraries():
        if where := streams.get(row.name):
            yield row.name, row.class_of, where


#: Outcomes of tests/device/pairs.toml in few letters; test_pairs.py holds the file.
PAIR_OUTCOMES = {
    "ordered": "yes",
    "ordered, the host waits": "waits",
    "ordered, the whole device": "device",
    "ordered, the host waits, the whole device": "device",
    "race": "**race**",
    "crash": "**crash**",
}


def pair_of(outcome: str) -> str:
    return "no" if outcome.startswith("refused: ") else PAIR_OUTCOMES[outcome]


@table("gpu-pairs")
def gpu_pairs() -> Iterator[Row]:
    cells = tomllib.loads((ROOT / "tests" / "device" / "pairs.toml").read_text())["cells"]
    yield ("from ↓ to →", *next(iter(cells.values())))
    for producer, row in cells.items():
        told = (tuple(map(pair_of, cell)) for cell in row.values())
        yield f"**{producer}**", *(bare if bare == now else f"{bare} → {now}" for bare, now in told)


# ---- replays and reliability --------------------------------------------------------------


def replays() -> list[dict[str, Any]]:
    return read_rows(ROOT / "tests" / "replays" / "replays.toml", "case")


def sessions() -> dict[str, list[str]]:
    """Test -> the sessions in which it was seen to pass."""
    return {row["test"]: row["passed"].split() for row in read_rows(RESULTS / "replays.csv")}


def link(cited: str) -> str:
    return f"`{cited} <https://github.com/{cited.replace('#', '/issues/')}>`__"


def replay(row: dict[str, Any], seen: dict[str, list[str]]) -> str:
    if "why_not" in row:
        return f"none: {row['why_not']}"
    told = []
    for node in (row["test"], *row.get("also", ())):
        names = seen.get(node, [])
        where = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        told.append(f"``{node.partition('::')[2]}`` ({where or 'not run yet'})")
    also = f"; also {', '.join(told[1:])}" if told[1:] else ""
    return f"{row['kind']}: {told[0]}{also}" + (f". {row['note']}" if "note" in row else "")


@table("replays", "case | what broke | what dlshim does | replay", (24, 30, 26, 20))
def replays_of(subject: str) -> Iterator[Row]:
    """What broke, what dlshim does, where the replay was seen to pass."""
    seen = sessions()
    for row in replays():
        if row["subject"] == subject:
            cited = "; ".join(map(link, row["reference"]))
            case = f"**{row['id']}.** {row['title']}" + (f" ({cited})" if cited else "")
            yield case, row["broke"], row["cure"], replay(row, seen)


@table("replay-counts", "kind | cases | seen to pass", (40, 30, 30))
def replay_counts() -> Iterator[Row]:
    seen = sessions()
    for kind in ("real", "double", "own", "none"):
        rows = [row for row in replays() if row.get("kind", "none") == kind]
        count = sum(bool(seen.get(row.get("test", ""))) for row in rows)
        yield kind, str(len(rows)), "—" if kind == "none" else str(count)


def newest(pattern: str) -> Any:
    return json.loads(max(RESULTS.glob(pattern)).read_text())


def total(rows: Iterable[dict[str, Any]], field: str) -> str:
    return f"{sum(float(row[field]) for row in rows):,.0f}".replace(",", " ")


@table("figures", "what | figures | to repeat", (24, 50, 26))
def figures() -> Iterator[Row]:
    """What was tried, how often, and what came of it."""
    kinds = [row.get("kind", "none") for row in replays()]
    replayed, real = len(kinds) - kinds.count("none"), kinds.count("real")
    told = f"{len(kinds)}, {replayed} replayed, {real} on the libraries that fail"
    yield "known cases", told, "``nox -s replays``, ``nox -s interop-NAME``"
    model = [newest("model-*.json")]
    told = ", ".join(f"{total(model, what)} {what}" for what in ("cases", "steps", "exchanges"))
    yield "a model of exchanges", told, "``nox -s model``"
    targets = newest("fuzz-*.json")["targets"]
    boundary = [targets.pop("boundary")]
    for what, runs in (("the C core", targets.values()), ("the boundary", boundary)):
        told = f"{total(runs, 'executions')} executions in {total(runs, 'seconds')} s, "
        told += f"{sum(len(each['crashes']) for each in runs)} crashes"
        yield f"fuzzing of {what}", told, "``nox -s fuzz``"
    faults = read_rows(RESULTS / "faults.csv")
    memory = [row for row in faults if row["fails"] == "allocations"]
    calls = [row for row in faults if row["fails"] == "driver calls"]
    told = f"{total(memory, 'trials')} trials on {len(memory)} versions of CPython: no crash, "
    told += "nothing left"
    yield "allocations that fail", told, "``nox -s faults-3.12``"
    drivers = ", ".join(row["on"] for row in calls)
    told = f"{total(calls, 'trials')} trials on fakes of {drivers}"
    yield "driver calls that fail", told, "``nox -s suite``"
    orders = read_rows(RESULTS / "orders.csv")
    exchanges = len({row["exchange"] for row in orders})
    told = (
        f"{total(orders, 'orders')} orders in {exchanges} exchanges, {total(orders, 'wrong')} wrong"
    )
    yield "every order of two threads' driver calls", told, "``nox -s suite``"
    coverage = newest("coverage-*.json")
    told = ", ".join(f"{coverage[what][2]} % of {what}" for what in ("lines", "branches"))
    yield "coverage of the C code", told, "``nox -s coverage``"
    told = "the core suite, 0 reports, in every run of CI"
    yield "ASan and UBSan", told, "``nox -s sanitize``"
    yield "a debug build of CPython", "the core suite; references counted", "``nox -s debug``"
    yield "memcheck", "591 tests, 0 errors", "``nox -s memcheck``"
    told = "``nox -s tidy``, ``nox -s lint``"
    yield "clang-tidy, cppcheck, -fanalyzer", "0 open findings", told
    yield "mutants", "each sync rule left out once: noticed", "``nox -s mutants``"


# ---- messages, the kit, suites of others --------------------------------------------------


class Messages(SphinxDirective):
    """The rows of a subject of shim/cli/messages, with examples of tests/interop."""

    required_arguments = 1
    longest = 110

    def run(self) -> list[nodes.Node]:
        file = ROOT / "tests" / "interop" / "messages.toml"
        texts: dict[str, list[str]] = {}
        for example in read_rows(file, "message"):
            text = " ".join(re.sub(r"\x1b\[[\d;]*m", "", example["text"]).split())
            # At the end of a word.
            short = text[: self.longest].rpartition(" ")[0] or text[: self.longest]
            cut = text if len(text) <= self.longest else f"{short} ..."
            texts.setdefault(example["row"], []).append(cut)
        read = {row["key"]: row["see"] for row in read_rows(file, "row")}
        subject = self.arguments[0]
        lines: list[str] = []
        for row in (*SUBJECTS[subject], *(GENERAL if subject == "own" else [])):
            text, *more = dict.fromkeys(texts[row.key])
            lines += [f"``{text}``", f"    *{row.versions}.*  {row.cause}"]
            lines += [line for each in more for line in ("", f"    also: ``{each}``")]
            lines += ["", "    .. code-block:: python", "", *(f"       {c}" for c in row.cures), ""]
            if see := read.get(row.key):
                lines += [f"    See {', '.join(map(self.reference, see))}.", ""]
        return self.parse_text_to_nodes("\n".join(lines))

    @staticmethod
    def reference(cited: str) -> str:
        if "#" in cited:
            return link(cited)
        return f"rule {cited} (:doc:`{'streams' if cited[0] == 'S' else 'rules'}`)"


def conformance_rules() -> list[Any]:
    """The rules of the conformance kit, in its own order."""
    if str(ROOT / "kit") not in sys.path:
        sys.path.insert(0, str(ROOT / "kit"))
    from dlshim_testing.rules import BY_NAME

    return list(BY_NAME.values())


@table("kit-rules", "rule | level | what is asked | the sentence", (16, 9, 35, 40))
def kit_rules(side: str) -> Iterator[Row]:
    for rule in conformance_rules():
        if rule.side == side:
            quote = f"{literal(rule.quote)} ({rule.source})" if rule.quote else "—"
            yield f"``{rule.name}``", rule.level, rule.about.replace("`", "``"), quote


@table("planted", "faults of | MUST | SHOULD | HABIT | together")
def planted() -> Iterator[Row]:
    """The faults that are planted; the tests fail where one is not found."""
    rows = read_rows(ROOT / "tests" / "kit" / "planted.toml", "fault")
    for side in ("producer", "consumer"):
        levels = Counter(row["level"] for row in rows if row["side"] == side)
        told = [str(levels[level]) for level in ("MUST", "SHOULD", "HABIT")]
        yield f"{side}s", *told, str(levels.total())


def side_of(target: str) -> str:
    """Whom a target, or a double that stands for one, is checked as."""
    return "consumer" if target.startswith(("from_", "wrong_consumers")) else "producer"


def caught() -> dict[tuple[str, str], list[str]]:
    """Side and rule -> libraries that broke it: in the newest run, and known before from their
    sources."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for row in read_rows(RESULTS / "kit-broken.csv"):
        if row["level"] != "noted":
            name = re.sub(r"\+cpu$", "", row["library"])
            found.setdefault((side_of(row["target"]), row["rule"]), {})[name] = None
    for row in read_rows(ROOT / "tests" / "kit" / "faults.toml", "fault"):
        if "double" in row:
            name = f"{row['library']} ({row['releases']})"
            rule = row["check"].partition("[")[0]
            found.setdefault((side_of(row.get("target") or row["double"]), rule), {})[name] = None
    return {rule: list(names) for rule, names in found.items()}


@table("kit-proposal", "rule | level | the sentence | what it finds in", (18, 9, 43, 30))
def kit_proposal(side_and_text: str) -> Iterator[Row]:
    """The rules of one side that come from one text, "array API" or "DLPack"."""
    side, _, text = side_and_text.partition(" ")
    finds = caught()
    for rule in conformance_rules():
        if rule.side == side and rule.quote and rule.source.startswith(text):
            names = finds.get((side, rule.name), [])
            more = f" and {len(names) - 6} more" if len(names) > 6 else ""
            told = ", ".join(names[:6]) + more or "—"
            yield f"``{rule.name}``", rule.level, f"{literal(rule.quote)} ({rule.source})", told


class Reproductions(SphinxDirective):
    """Rows of tests/kit/reproductions.toml: what is wrong, the lines, what they gave."""

    def run(self) -> list[nodes.Node]:
        rows = read_rows(ROOT / "tests" / "kit" / "reproductions.toml", "row")
        known = {(row["target"], row["rule"], row["says"]): row for row in rows}
        rules = {(rule.side, rule.name): rule for rule in conformance_rules()}
        lines: list[str] = []
        for told in read_rows(RESULTS / "kit-shown.csv"):
            row = known[told["target"], told["rule"], told["says"]]
            side = side_of(row["target"])
            rule = rules[side, row["rule"]]
            what = f"**{told['library']}**, {side}, ``{rule.name}`` ({rule.level})"
            lines += [f"{what}: {row['says'].replace('`', '``')}", ""]
            if rule.quote:
                lines += [f"The sentence: {literal(rule.quote)} ({rule.source}).", ""]
            lines += [".. code-block:: python", ""]
            lines += [f"   {line}" for line in row["code"].strip().splitlines()]
            lines += ["", f"gives {literal(told['seen'])}.", ""]
        return self.parse_text_to_nodes("\n".join(lines))


@table("amendments", "suite | test | why it cannot pass upgraded", (15, 40, 45))
def amendments() -> Iterator[Row]:
    """Tests of other projects' suites that cannot pass upgraded."""
    for suite in read_rows(ROOT / "tests" / "upstream" / "suites.toml", "suite"):
        for test, why in suite.get("amended", {}).items():
            yield f"{suite['project']} {suite['version']}", f"``{test}``", why


# ---- results ------------------------------------------------------------------------------


class Results(SphinxDirective):
    """Links to the files in docs/results, newest first."""

    def run(self) -> list[nodes.Node]:
        names = [path.name for path in RESULTS.iterdir() if path.suffix != ".rst"]
        lines = [f"* :download:`{name} <{name}>`" for name in sorted(names, reverse=True)]
        return self.parse_text_to_nodes("\n".join(lines))


class Head(SphinxDirective):
    """When, where and with what a csv file was measured: a sentence of its first line."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes(f"Measured on {head_of(ROOT / self.arguments[0])}.")


def setup(app: Sphinx) -> dict[str, bool]:
    others = {"rows": Rows, "head": Head, "results": Results, "messages": Messages}
    others |= {"kit-reproductions": Reproductions}
    for name, directive in (TABLES | others).items():
        app.add_directive(f"dlshim-{name}", directive)
    return {"parallel_read_safe": True}
