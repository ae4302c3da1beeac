"""``python -m dlshim matrix``: what is told of a run (one screen of it, or all), and its page.

The page is one file of HTML, made by Jinja2, that needs nothing else and no network.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from .. import __version__, commands, known
from ..commands import WIDTH, Block, Box, Line, Note, Table, columns, line, width_of
from . import run
from .libraries import CONSUMERS, PRODUCERS, Consumer, Producer
from .run import Cell, Report

# ---- what is told -------------------------------------------------------------------------------
#: Rows of a table on the one screen, and in the whole output.
FEW, MANY = 6, 28

Pairs = dict[tuple[str, str], list[Cell]]


# --- sums ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sums:
    """How many of some exchanges came to what."""

    exchanges: int
    bare: int
    upgraded: int
    with_option: int
    wrong_bare: int
    wrong_upgraded: int
    died_bare: int
    died_upgraded: int
    lost: list[Cell]  # worked bare, and do not upgraded

    @classmethod
    def of(cls, cells: Sequence[Cell]) -> Sums:
        def count(mode: str, outcome: str) -> int:
            return sum(getattr(cell, mode).get("outcome") == outcome for cell in cells)

        return cls(
            exchanges=len(cells),
            bare=count("bare", "works"),
            upgraded=count("upgraded", "works"),
            with_option=sum(cell.works_with_option for cell in cells),
            wrong_bare=count("bare", "wrong"),
            wrong_upgraded=count("upgraded", "wrong"),
            died_bare=count("bare", "died"),
            died_upgraded=count("upgraded", "died"),
            lost=[cell for cell in cells if cell.works_bare and not cell.works_upgraded],
        )


def between_libraries(cells: Iterable[Cell]) -> list[Cell]:
    """The exchanges in which neither side is a buffer of Python's or a raw capsule."""
    built_in = set(known.BUILT_IN)
    return [
        cell
        for cell in cells
        if not built_in & {cell.exchange.producer.library, cell.exchange.consumer.library}
    ]


def by_pair(cells: Iterable[Cell]) -> Pairs:
    pairs: Pairs = defaultdict(list)
    for cell in cells:
        pairs[cell.exchange.producer.key, cell.exchange.consumer.key].append(cell)
    return pairs


# --- texts ---------------------------------------------------------------------------------

_NOISE = re.compile(r"0x[0-9a-f]+|\d{4,}")


def complaint(told: dict[str, object]) -> str:
    """Why an exchange failed, with what differs each time taken out."""
    detail = str(told.get("detail", "")) or "?"
    if told["outcome"] == "died":
        detail = f"process killed, {detail}"
    return _NOISE.sub("…", detail)


def names(names: Iterable[str], most: int) -> str:
    """Join distinct names; what is beyond ``most`` of them is only counted."""
    distinct = list(dict.fromkeys(names))
    rest = f" +{len(distinct) - most}" if len(distinct) > most else ""
    return ", ".join(distinct[:most]) + rest


# --- the blocks ----------------------------------------------------------------------------


def _versions(report: Report) -> Note:
    here = "  ".join(f"{key} {version}" for key, version in report.versions.items())
    lines = [line(("Libraries  ", "strong"), here or "none")]
    for key, error in report.broken.items():
        lines.append(line((f"{key} is installed but cannot be imported: ", "limit"), error))
    for what, reason in report.left_out.items():
        lines.append(line(("left out: ", "limit"), f"{what}: {reason}"))
    return Note(lines)


def _now(cell: Cell) -> str:
    """What came of an exchange upgraded, in a word or two."""
    if cell.works_upgraded:
        return "right"
    if cell.works_with_option and cell.limit is not None:
        return f"right with {cell.limit.cure}"
    return str(cell.upgraded["outcome"])


def _grouped(
    title: str,
    heads: str,
    cells: Iterable[Cell],
    key: Callable[[Cell], tuple[Any, ...] | None],
    row: Callable[[tuple[Any, ...], list[Cell]], list[str]],
    most: int,
) -> list[Table]:
    """A table with a row for each kind of cells, those with most cells first; no cell, no table.

    The key of a kind begins with what comes before the number; None: the cell is left out.
    """
    groups: dict[tuple[Any, ...], list[Cell]] = defaultdict(list)
    for cell in cells:
        if (kind := key(cell)) is not None:
            groups[kind].append(cell)
    ordered = sorted(groups.items(), key=lambda item: (item[0][0], -len(item[1])))
    if len(ordered) == most + 1:
        most += 1
    rest = sum(len(members) for _, members in ordered[most:])
    total = sum(map(len, groups.values()))
    table = Table(line((f"{title}: {total}", "strong")), columns([*heads.split(", "), ">cases"]))
    table.one_line = most < MANY or "it said" in heads or "gave" in heads
    for kind, members in ordered[:most]:
        table.add(*row(kind, members), str(len(members)))
    if rest:
        more = [f"{len(ordered) - most} more kinds", *[""] * (len(table.columns) - 3)]
        table.add("…", *more, str(rest))
    return [table] if groups else []


def _into(cells: list[Cell], most: int) -> str:
    return names((cell.exchange.consumer.label for cell in cells), most)


def _from(cells: list[Cell], most: int = 2) -> str:
    return names((cell.exchange.producer.label for cell in cells), most)


def _cured(cells: list[Cell], most: int) -> list[Table]:
    """What failed bare and works upgraded: what killed the process first, then libraries."""
    own = set(map(id, between_libraries(cells)))

    def key(cell: Cell) -> tuple[Any, ...] | None:
        died = cell.bare["outcome"] == "died"
        works = cell.works_upgraded or cell.works_with_option
        if not works or not (died or cell.bare["outcome"] == "refused"):
            return None
        kind = "" if died else cell.bare["detail"].split(":")[0]
        return (not died, id(cell) not in own), cell.exchange.consumer.label, kind, _now(cell)

    return _grouped(
        "What failed bare and works with dlshim",
        "@into, from, *bare it said, upgraded",
        cells,
        key,
        lambda kind, them: [kind[1], _from(them), complaint(them[0].bare), kind[3]],
        most,
    )


def _silent(cells: list[Cell], most: int) -> list[Table]:
    """What was silently wrong bare, and what came of it upgraded."""
    return _grouped(
        "What was silently wrong bare",
        "@into, from, *bare it gave, upgraded",
        [cell for cell in cells if cell.bare["outcome"] == "wrong"],
        lambda cell: ((), cell.exchange.consumer.label, _now(cell)),
        lambda kind, them: [kind[1], _from(them), complaint(them[0].bare), kind[2]],
        most,
    )


def _reason(kind: tuple[Any, ...], cells: list[Cell], most: int) -> list[str]:
    limit = cells[0].limit
    return [kind[1], _into(cells, most), limit.cure if limit and limit.cure else "—"]


def _lost(cells: list[Cell], most: int) -> list[Table]:
    """What works bare and not with a plain upgrade, with the reason and the cure."""
    return _grouped(
        "What works bare and not with a plain upgrade",
        "*reason, into, +works with",
        cells,
        lambda cell: ((), cell.limit.why if cell.limit else complaint(cell.upgraded)),
        lambda kind, them: _reason(kind, them, 2),
        most,
    )


def _limits(cells: Iterable[Cell]) -> list[Table]:
    return _grouped(
        "What no plain upgrade can do",
        "*reason, into, +works with, >bare",
        cells,
        lambda cell: ((), cell.limit.why) if cell.limit else None,
        lambda kind, them: [*_reason(kind, them, 4), str(sum(c.works_bare for c in them) or "—")],
        MANY,
    )


def _faults(faults: list[Cell]) -> list[Table]:
    return _grouped(
        "Upgraded exchanges that should work and do not",
        "@into, from, case, *it said",
        faults,
        lambda cell: ((), cell.exchange.consumer.label, _NOISE.sub("…", cell.fault or "")),
        lambda kind, them: [
            kind[1],
            _from(them, 3),
            names((cell.exchange.case.key for cell in them), 3),
            kind[2][:200],
        ],
        MANY,
    )


# --- producers down, consumers across --------------------------------------------------------


def _exchange_text(cells: list[Cell]) -> Line:
    bare = sum(cell.works_bare for cell in cells)
    plain = sum(cell.works_upgraded for cell in cells)
    now = plain + sum(cell.works_with_option for cell in cells)
    harm = {cell.bare.get("outcome") for cell in cells} & {"wrong", "died"}
    if any(cell.fault for cell in cells):
        style = "bad"
    elif now == len(cells):
        style = "good" if bare < now else "dim"
    else:
        style = "limit" if now else "dim"
    mark = "†" if "died" in harm else "!" if harm else ""
    copied = any(cell.upgraded.get("zero_copy") is False for cell in cells)
    return (
        (f"{bare}{mark}", "bad" if mark else "dim"),
        ("→", "dim"),
        (f"{now}", style),
        ("c" if copied else " ", "dim"),
    )


def _short(nanoseconds: float) -> str:
    if nanoseconds < 9_950:
        return f"{nanoseconds:.0f}"
    return f"{nanoseconds / 1000:.0f}k"


def _cost_text(cells: list[Cell]) -> Line:
    timed = [cell for cell in cells if "ns" in cell.upgraded]
    if not timed:
        return ()
    now = timed[0].upgraded["ns"]
    bare = timed[0].bare.get("ns")
    style = "good" if bare and now < bare else "limit" if bare and now > 1.5 * bare else ""
    return (f"{_short(bare)}→" if bare else "-→", "dim"), (_short(now), style)


def _parts(
    width: int,
    rows: Sequence[Producer],
    columns: Sequence[Consumer],
    texts: dict[tuple[str, str], Line],
) -> Iterable[list[Consumer]]:
    """Cut the columns into as many parts as the width needs."""
    part: list[Consumer] = []
    used = 0
    for consumer in columns:
        widest = max(width_of(texts.get((p.key, consumer.key), ())) for p in rows)
        need = max(len(consumer.label), widest) + 3
        if part and used + need > width:
            yield part
            part, used = [], 0
        part.append(consumer)
        used += need
    if part:
        yield part


def _grids(
    title: str, note: str, pairs: Pairs, content: Callable[[list[Cell]], Line], *, counts: bool
) -> list[Table]:
    texts = {key: content(cells) for key, cells in pairs.items()}
    rows = [p for p in PRODUCERS if any(texts.get((p.key, c.key)) for c in CONSUMERS)]
    consumers = [c for c in CONSUMERS if any(texts.get((p.key, c.key)) for p in rows)]
    arrays = {producer: len(cells) for (producer, _), cells in pairs.items()}
    label = max((len(p.label) for p in rows), default=0)
    tables: list[Table] = []
    for part in _parts(WIDTH - label - len(" of   "), rows, consumers, texts):
        told = title if not tables else f"{title} (continued)"
        heads = ["@from \\ to", *["~>of"] * counts, *[f">{consumer.label}" for consumer in part]]
        table = Table(line((told, "strong")), columns(heads))
        for producer in rows:
            cells = [texts.get((producer.key, consumer.key), ()) for consumer in part]
            table.add(producer.label, *[str(arrays[producer.key])] * counts, *cells)
        tables.append(table)
    if tables:
        tables[-1].note = note
    return tables


def _exchanges(pairs: Pairs) -> list[Table]:
    return _grids(
        "What works: bare → upgraded",
        "How many small arrays (layouts, dtypes), of as many as there are, arrive whole. "
        "!: silently wrong when bare; †: killed the process when bare; c: the consumer copies "
        "(all else is zero-copy). Yellow: a limit, see below. "
        "caps.: a raw capsule, as C code wants it.",
        pairs,
        _exchange_text,
        counts=True,
    )


def _cost(pairs: Pairs) -> list[Table]:
    return _grids(
        "Cost of one exchange in ns: bare → upgraded, wrapper made each time",
        "Six float32, least of a few batches. -: fails when bare. Green: cheaper upgraded; "
        "yellow: more than half as much again.",
        pairs,
        _cost_text,
        counts=False,
    )


# --- the verdict -----------------------------------------------------------------------------


def _sum_line(of_what: str, sums: Sums) -> Line:
    return line(
        f"{of_what}: {sums.exchanges} exchanges, ",
        (f"{sums.bare}", "strong"),
        " work bare, ",
        (f"{sums.upgraded}", "good"),
        f" upgraded, {sums.with_option} more with an option",
    )


def _ratios(cells: Iterable[Cell]) -> list[float]:
    return [
        cell.upgraded["ns"] / cell.bare["ns"]
        for cell in cells
        if "ns" in cell.upgraded and "ns" in cell.bare
    ]


def verdict(report: Report) -> Box:
    """The sums, library to library first, and whether all is as it should be."""
    cells = report.cells
    own, every = Sums.of(between_libraries(cells)), Sums.of(cells)
    told = [
        cell.upgraded["zero_copy"]
        for cell in cells
        if cell.works_upgraded and cell.upgraded.get("zero_copy") is not None
    ]
    lines = [_sum_line("library to library", own)] if own.exchanges else []
    if own.exchanges != every.exchanges:
        lines.append(_sum_line("buffers and capsules too", every))
    lines.append(
        line(
            f"silently wrong: {every.wrong_bare} bare, {every.wrong_upgraded} upgraded; "
            f"killed the process: {every.died_bare} bare, {every.died_upgraded} upgraded"
        )
    )
    lines.append(line(f"work bare and not with a plain upgrade: {len(every.lost)}"))
    lines.append(line(f"zero-copy: {sum(told)} of the {len(told)} whose addresses both sides tell"))
    if ratios := _ratios(cells):
        lines.append(
            line(
                f"cost where both work: {geometric_mean(ratios):.2f} times the bare exchange "
                f"(geometric mean of {len(ratios)})"
            )
        )
    lines.append(
        line((f"{len(report.faults)} that should work do not (see above)", "bad"))
        if report.faults
        else line(("every upgraded exchange that should work does", "good"))
    )
    return Box("dlshim matrix", lines)


# --- the two outputs ---------------------------------------------------------------------------

NOTHING = Note([line("No exchange to carry out: install some array libraries first.")])


def one_screen(report: Report) -> list[Block]:
    """What failed bare, what was silently wrong, what is lost, and the sums: 40 lines at most."""
    if not report.cells:
        return [_versions(report), NOTHING]
    lost = Sums.of(report.cells).lost
    more = "--full shows every pair, limit and cost; --html FILE writes a page"
    return [
        _versions(report),
        *_cured(report.cells, FEW),
        *_silent(report.cells, 3),
        *_lost(lost, 2),
        *_faults(report.faults),
        verdict(report),
        Note([line((more, "dim"))]),
    ]


def full(report: Report) -> list[Block]:
    """All tables and the verdict."""
    if not report.cells:
        return [_versions(report), NOTHING]
    pairs = by_pair(report.cells)
    return [
        _versions(report),
        *_exchanges(pairs),
        *_cured(report.cells, MANY),
        *_silent(report.cells, MANY),
        *_limits(report.cells),
        *_lost(Sums.of(report.cells).lost, MANY),
        *_cost(pairs),
        *_faults(report.faults),
        verdict(report),
    ]


# ---- the command --------------------------------------------------------------------------------
ABOUT = """\
Exchange small arrays among the array libraries that are installed here, bare and
upgraded by dlshim, each in a child process, and show what failed and what works now.
The exit status is 0 only if every upgraded exchange that should work does.

examples:
  python -m dlshim matrix                         one screen about all that is installed
  python -m dlshim matrix --only numpy,torch      two libraries
  python -m dlshim matrix --full                  every pair, every limit, every cost
  python -m dlshim matrix --html matrix.html      a page to look at or to send

libraries: """


def _parser() -> commands.Parser:
    names = ", ".join([*known.MATRIX, *known.BUILT_IN])
    parser = commands.Parser("matrix", ABOUT + names)
    parser.add_argument(
        "--only",
        metavar="A,B",
        help="only the exchanges among these libraries (names below, separated by commas)",
    )
    parser.add_argument("--full", action="store_true", help="print all tables, not one screen")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write every result to FILE")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write a page to FILE")
    parser.add_argument("--no-cost", action="store_true", help="do not time the exchanges")
    return parser


def _chosen(only: str | None, versions: dict[str, str]) -> set[str]:
    """Return the libraries to exchange among; ValueError says which cannot be."""
    here = set(versions) | set(known.BUILT_IN)
    if only is None:
        return here
    names = {name.strip().replace("-", "_") for name in only.split(",") if name.strip()}
    unknown = names - set(known.MATRIX) - set(known.BUILT_IN)
    if unknown:
        raise ValueError(f"unknown: {', '.join(sorted(unknown))} (see --help)")
    if names - here:
        raise ValueError(f"not installed: {', '.join(sorted(names - here))}")
    if not names:
        raise ValueError("--only names no library")
    return names


def _check_files(json: Path | None, page: Path | None) -> None:
    """An error where a result could not be written, before an hour is spent on it."""
    if page and not find_spec("jinja2"):
        raise ValueError("--html makes its page with Jinja2:  pip install jinja2")
    for file in filter(None, (json, page)):
        file.open("a").close()


@dataclass(frozen=True)
class Spot:
    """A pair in the heat map: what works of it, bare and upgraded, and why not the rest."""

    cases: int
    bare: int
    upgraded: int
    cured: int
    wrong: tuple[int, int]
    why: list[str]

    @classmethod
    def of(cls, cells: list[Cell]) -> Spot:
        return cls(
            cases=len(cells),
            bare=sum(cell.works_bare for cell in cells),
            upgraded=sum(cell.works_upgraded for cell in cells),
            cured=sum(cell.works_with_option for cell in cells),
            wrong=(_wrong(cell.bare for cell in cells), _wrong(cell.upgraded for cell in cells)),
            why=[line for cell in cells if (line := _why(cell))],
        )

    def style(self, now: bool) -> str:
        """The class of its colour, upgraded or bare: how many tenths of its cases work."""
        works = self.upgraded if now else self.bare
        return "bad" if self.wrong[now] else f"t{10 * works // self.cases}"


def _wrong(results: Iterable[dict[str, Any]]) -> int:
    """How many were silently wrong or killed the process."""
    return sum(told["outcome"] in ("wrong", "died") for told in results)


def _why(cell: Cell) -> str:
    """What is to be known of one exchange: the reason and the cure; "" where all is well."""
    told = []
    if not cell.works_bare:
        told.append(f"bare: {complaint(cell.bare)}")
    if not cell.works_upgraded:
        told.append(f"upgraded: {complaint(cell.upgraded)}")
        if cell.limit:
            told.append(f"reason: {cell.limit.why}")
        if cell.limit and cell.limit.cure:
            told.append(f"works with {cell.limit.cure}")
    return f"{cell.exchange.case.title}: {'; '.join(told)}" if told else ""


def _heat(report: Report) -> dict[str, Any]:
    pairs = by_pair(report.cells)
    rows = [p for p in PRODUCERS if any(key[0] == p.key for key in pairs)]
    columns = [c for c in CONSUMERS if any(key[1] == c.key for key in pairs)]
    spots = {key: Spot.of(cells) for key, cells in pairs.items()}
    return {"rows": rows, "columns": columns, "spots": spots}


def _write_page(report: Report, file: Path) -> None:
    """Write the page; OSError where the file cannot be written."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    blocks = full(report)
    page = environment.get_template("page.html").render(
        version=__version__,
        report=report,
        heat=_heat(report),
        box=next(block for block in blocks if isinstance(block, Box)),
        tables=[b for b in blocks if isinstance(b, Table) and "\\" not in b.columns[0].name],
    )
    file.write_text(page, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    versions = known.installed_versions(known.MATRIX)
    try:
        chosen = _chosen(options.only, versions)
        _check_files(options.json, options.html)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    cells = run.plan(versions, chosen)
    versions = {key: version for key, version in versions.items() if key in chosen}
    with commands.progress(2 * len(cells)) as step:
        report = run.run(versions, cells, cost=not options.no_cost, progress=step)
    if options.json is not None:
        options.json.write_text(json.dumps(report.as_json(), indent=1) + "\n", encoding="utf-8")
    if options.html is not None and report.cells:
        _write_page(report, options.html)
    elif options.html is not None and options.html.is_file():
        options.html.unlink()  # no page of this run
    commands.show(full(report) if options.full else one_screen(report))
    return 1 if report.faults or not report.cells else 0
