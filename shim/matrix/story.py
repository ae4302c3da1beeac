"""What is told of a run: one screen of it, or all of it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from . import libraries, run
from .blocks import WIDTH, Block, Box, Column, Line, Note, Table, line, width_of
from .consumers import CONSUMERS, Consumer
from .producers import PRODUCERS, Producer
from .run import Cell, Report

__all__ = ["Pairs", "Sums", "by_pair", "complaint", "full", "one_screen"]

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
    built_in = set(libraries.BUILT_IN)
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


def _names(names: Iterable[str], most: int) -> str:
    """Join distinct names; what is beyond ``most`` of them is only counted."""
    distinct = list(dict.fromkeys(names))
    rest = f" +{len(distinct) - most}" if len(distinct) > most else ""
    return ", ".join(distinct[:most]) + rest


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


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
        return f"right with {run.options_text(cell.limit.cure)}"
    return str(cell.upgraded["outcome"])


def _cured(cells: list[Cell], most: int) -> list[Table]:
    """What failed bare and works upgraded: what killed the process first, then libraries."""
    own = set(map(id, between_libraries(cells)))
    groups: dict[tuple[bool, bool, str, str, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        died = cell.bare["outcome"] == "died"
        works = cell.works_upgraded or cell.works_with_option
        if works and (died or cell.bare["outcome"] == "refused"):
            kind = "" if died else cell.bare["detail"].split(":")[0]
            order = (not died, id(cell) not in own)
            groups[(*order, cell.exchange.consumer.label, kind, _now(cell))].append(cell)
    if not groups:
        return []
    total = sum(map(len, groups.values()))
    table = Table(
        line((f"What failed bare and works with dlshim: {total}", "strong")),
        [
            Column("into", style="name"),
            Column("from"),
            Column("bare, it said", wide=True),
            Column("upgraded"),
            Column("cases", right=True),
        ],
        one_line=True,
    )
    ordered = sorted(groups.items(), key=lambda item: (item[0][:2], -len(item[1])))
    for (_, _, consumer, _, now), members in ordered[:most]:
        sources = _names((cell.exchange.producer.label for cell in members), 2)
        table.add(consumer, sources, complaint(members[0].bare), now, str(len(members)))
    if len(ordered) > most:
        rest = sum(len(members) for _, members in ordered[most:])
        table.add("…", f"{len(ordered) - most} more kinds", "", "", str(rest))
    return [table]


def _silent(cells: list[Cell], most: int) -> list[Table]:
    """What was silently wrong bare, and what came of it upgraded."""
    groups: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        if cell.bare["outcome"] == "wrong":
            groups[cell.exchange.consumer.label, _now(cell)].append(cell)
    if not groups:
        return []
    total = sum(map(len, groups.values()))
    table = Table(
        line((f"What was silently wrong bare: {total}", "strong")),
        [
            Column("into", style="name"),
            Column("from"),
            Column("bare, it gave", wide=True),
            Column("upgraded"),
            Column("cases", right=True),
        ],
        one_line=True,
    )
    for (consumer, now), members in sorted(groups.items(), key=lambda item: -len(item[1]))[:most]:
        sources = _names((cell.exchange.producer.label for cell in members), 2)
        table.add(consumer, sources, complaint(members[0].bare), now, str(len(members)))
    return [table]


def _lost(cells: list[Cell], most: int) -> list[Table]:
    """What works bare and not with a plain upgrade, with the reason and the cure."""
    groups: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        groups[cell.limit.reason if cell.limit else complaint(cell.upgraded)].append(cell)
    if not groups:
        return []
    table = Table(
        line((f"What works bare and not with a plain upgrade: {len(cells)}", "strong")),
        [
            Column("reason", wide=True),
            Column("into"),
            Column("works with", style="good"),
            Column("cases", right=True),
        ],
        one_line=True,
    )
    for reason, members in sorted(groups.items(), key=lambda item: -len(item[1]))[:most]:
        into = _names((cell.exchange.consumer.label for cell in members), 2)
        limit = members[0].limit
        cure = run.options_text(limit.cure) if limit and limit.cure else "—"
        table.add(reason, into, cure, str(len(members)))
    return [table]


def _limits(cells: Iterable[Cell]) -> list[Table]:
    groups: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        if cell.limit is not None:
            groups[cell.limit.reason].append(cell)
    if not groups:
        return []
    total = sum(map(len, groups.values()))
    table = Table(
        line((f"What no plain upgrade can do: {total}", "strong")),
        [
            Column("reason", wide=True),
            Column("into"),
            Column("works with", style="good"),
            Column("cases", right=True),
            Column("bare", right=True),
        ],
    )
    for reason, members in sorted(groups.items(), key=lambda item: -len(item[1])):
        into = _names((cell.exchange.consumer.label for cell in members), 4)
        limit = members[0].limit
        cure = run.options_text(limit.cure) if limit and limit.cure else "—"
        bare = sum(cell.works_bare for cell in members)
        table.add(reason, into, cure, str(len(members)), str(bare or "—"))
    return [table]


def _faults(faults: list[Cell]) -> list[Table]:
    groups: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in faults:
        groups[cell.exchange.consumer.label, _NOISE.sub("…", cell.fault or "")].append(cell)
    if not groups:
        return []
    table = Table(
        line((f"Upgraded exchanges that should work and do not: {len(faults)}", "bad")),
        [
            Column("from", style="name"),
            Column("into", style="name"),
            Column("case"),
            Column("it said", wide=True, style="bad"),
        ],
    )
    for (consumer, said), cells in list(groups.items())[:MANY]:
        sources = _names((cell.exchange.producer.label for cell in cells), 3)
        keys = _names((cell.exchange.case.key for cell in cells), 3)
        table.add(sources, consumer, keys, _cut(said, 200))
    if len(groups) > MANY:
        table.add("…", "", "", f"{len(groups) - MANY} more kinds: --json FILE has all")
    return [table]


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
    columns = [c for c in CONSUMERS if any(texts.get((p.key, c.key)) for p in rows)]
    arrays = {producer: len(cells) for (producer, _), cells in pairs.items()}
    label = max((len(p.label) for p in rows), default=0)
    tables: list[Table] = []
    for part in _parts(WIDTH - label - len(" of   "), rows, columns, texts):
        told = title if not tables else f"{title} (continued)"
        heads = [Column("from \\ to", style="name")]
        heads += [Column("of", right=True, style="dim")] * counts
        table = Table(line((told, "strong")), heads + [Column(c.label, right=True) for c in part])
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
    known = [
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
    lines.append(
        line(f"zero-copy: {sum(known)} of the {len(known)} whose addresses both sides tell")
    )
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
        *_silent(report.cells, 4),
        *_lost(lost, 3),
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
