"""What the matrix prints: one screen, or with ``--full`` every table."""

from __future__ import annotations

import math
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..cli.output import (
    HEIGHT,
    WIDTH,
    Box,
    Note,
    Table,
    columns,
    height,
    line,
    some_of,
    width_of,
)
from .consumers import CONSUMERS
from .pairs import between_libraries, by_pair, complaint, without_noise
from .producers import PRODUCERS

if TYPE_CHECKING:
    from ..cli.output import Block, Line
    from ..known.arrays import Consumer, Producer
    from .pairs import Cell, Pairs, Report

#: Rows of a table in the whole output; on the one screen there are fewer.
MANY = 28


def _versions(report: Report) -> Note:
    head = "Libraries  "
    # A version stays beside its name.
    here = "  ".join(f"{key}\xa0{version}" for key, version in report.versions.items()) or "none"
    first, *more = textwrap.wrap(here, WIDTH - len(head), break_on_hyphens=False)
    lines = [line((head, "strong"), first.replace("\xa0", " "))]
    lines += [line(" " * len(head) + rest.replace("\xa0", " ")) for rest in more]
    for key, error in report.broken.items():
        lines.append(line((f"{key} is installed but cannot be imported: ", "limit"), error))
    for what, reason in report.left_out.items():
        lines.append(line(("left out: ", "limit"), f"{what}: {reason}"))
    return Note(lines)


def _works(cell: Cell) -> bool:
    """Whether an exchange works upgraded, with an option if need be."""
    return cell.works_upgraded or bool(cell.cure)


def _now(cell: Cell) -> str:
    """What makes an exchange work, as it is typed; else what came of it upgraded."""
    if cell.works_upgraded:
        return "upgrade(x)"
    return cell.cure or f"still {cell.upgraded['outcome']}"


#: What the first lines tell, the case that people meet most first.
_TOLD_FIRST = ("bfloat16", "reversed", "readonly", "transposed", "step", "line")
#: A sentence is no longer, so that a terminal of 80 columns has it on one line.
_NARROW = 78
#: What came of an exchange without dlshim, in words.
_IN_WORDS = {"died": "ended the process", "wrong": "silently wrong", "refused": "refused"}


def _in_words(cell: Cell) -> Line:
    """An exchange that fails bare and works upgraded, in a sentence."""
    exchange = cell.exchange
    what = exchange.case.title.removeprefix("float32, ").partition(" (")[0]
    how = "" if cell.works_upgraded else f" with {_now(cell)}"
    return line(
        "  ",
        (f"{exchange.producer.label}, {what}, into {exchange.consumer.label}", "name"),
        ": ",
        (_IN_WORDS[cell.bare["outcome"]], "bad"),
        ", now works",
        (how, "good"),
    )


def _story(cells: Sequence[Cell]) -> list[Note]:
    """Four exchanges at most that fail bare and work upgraded: of each case one, where there is
    one between libraries, into as many libraries as can be."""
    cured = [cell for cell in between_libraries(cells) if _works(cell)]
    cured = [cell for cell in cured if cell.bare.get("outcome") in _IN_WORDS]
    chosen: list[Cell] = []
    for case in _TOLD_FIRST:
        into = [each.exchange.consumer.library for each in chosen]
        of_case = [cell for cell in cured if cell.exchange.case.key == case]
        of_case.sort(
            key=lambda cell: (
                width_of(_in_words(cell)) > _NARROW,
                into.count(cell.exchange.consumer.library),
                list(_IN_WORDS).index(cell.bare["outcome"]),
                not cell.works_upgraded,
            )
        )
        chosen += of_case[:1]
    told = [_in_words(cell) for cell in chosen[:4]]
    return [Note([line(("For example", "strong")), *told])] if told else []


def _grouped(
    title: str,
    heads: list[str],
    cells: Iterable[Cell],
    key: Callable[[Cell], tuple[Any, ...] | None],
    row: Callable[[tuple[Any, ...], list[Cell]], list[str]],
    most: int,
    *,
    quotes: bool = False,
) -> list[Table]:
    """A table with a row for each kind of cells, those with most cells first; no cell, no table.

    The key of a kind begins with what comes before the number; None: the cell is left out.
    quotes: its cells have the texts of errors, each cut to one line.
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
    table = Table(line((f"{title}: {total}", "strong")), columns([*heads, ">cases"]))
    table.one_line = most < MANY or quotes
    for kind, members in ordered[:most]:
        table.add(*row(kind, members), str(len(members)))
    if rest:
        more = [f"{len(ordered) - most} more kinds", *[""] * (len(table.columns) - 3)]
        table.add("…", *more, str(rest))
    return [table] if groups else []


def _into(cells: list[Cell], most: int) -> str:
    return some_of((cell.exchange.consumer.label for cell in cells), most)


def _from(cells: list[Cell], most: int = 1) -> str:
    return some_of((cell.exchange.producer.label for cell in cells), most)


def _cured(cells: list[Cell], most: int) -> list[Table]:
    """What failed bare and works upgraded: what killed the process first, then libraries."""
    own = set(map(id, between_libraries(cells)))

    def key(cell: Cell) -> tuple[Any, ...] | None:
        died = cell.bare["outcome"] == "died"
        if not _works(cell) or not (died or cell.bare["outcome"] == "refused"):
            return None
        kind = "" if died else cell.bare["error"]
        return (not died, id(cell) not in own), cell.exchange.consumer.label, kind, _now(cell)

    return _grouped(
        "What failed bare and works with dlshim",
        ["@into", "*bare it said", "+works with"],
        cells,
        key,
        lambda kind, them: [kind[1], complaint(them[0].bare), kind[3]],
        most,
        quotes=True,
    )


def _silent(cells: list[Cell], most: int) -> list[Table]:
    """What was silently wrong bare, and what came of it upgraded."""
    return _grouped(
        "What was silently wrong bare",
        ["@into", "*bare it gave", "+works with"],
        [cell for cell in cells if cell.bare["outcome"] == "wrong"],
        lambda cell: ((), cell.exchange.consumer.label, _now(cell)),
        lambda kind, them: [kind[1], complaint(them[0].bare), kind[2]],
        most,
        quotes=True,
    )


def _reason(kind: tuple[Any, ...], cells: list[Cell], most: int) -> list[str]:
    return [kind[1], _into(cells, most), kind[2] or "—"]


def _why(cell: Cell) -> tuple[Any, ...] | None:
    """The kind of a cell by its reason and its cure: one reason may have several cures."""
    return None if cell.works_upgraded else ((), cell.reason, cell.cure)


def _lost(cells: list[Cell], most: int) -> list[Table]:
    """What works bare and not with a plain upgrade, with the reason and the cure."""
    return _grouped(
        "What works bare and not with a plain upgrade",
        ["*reason", "into", "+works with"],
        [cell for cell in cells if cell.lost],
        _why,
        lambda kind, them: _reason(kind, them, 2),
        most,
    )


def _limits(cells: Iterable[Cell]) -> list[Table]:
    return _grouped(
        "What no plain upgrade can do",
        ["*reason", "into", "+works with", ">bare"],
        cells,
        _why,
        lambda kind, them: [*_reason(kind, them, 4), str(sum(c.works_bare for c in them) or "—")],
        MANY,
    )


def _faults(faults: list[Cell]) -> list[Table]:
    return _grouped(
        "Upgraded exchanges that should work and do not",
        ["@into", "from", "case", "*it said"],
        faults,
        lambda cell: ((), cell.exchange.consumer.label, without_noise(cell.fault or "")),
        lambda kind, them: [
            kind[1],
            _from(them, 3),
            some_of((cell.exchange.case.key for cell in them), 3),
            kind[2][:200],
        ],
        MANY,
        quotes=True,
    )


def _exchange_text(cells: list[Cell]) -> Line:
    bare = sum(cell.works_bare for cell in cells)
    plain = sum(cell.works_upgraded for cell in cells)
    cured = sum(bool(cell.cure) for cell in cells)
    now = plain + cured
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
        (f"{plain}+{cured}" if cured else f"{plain}", style),
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
        "How many small arrays (layouts, dtypes), of as many as there are, arrive whole; "
        "+: as many more with a cure. !: silently wrong when bare; †: killed the process when "
        "bare; c: the consumer copies (all else is zero-copy). Yellow: a limit, see below. "
        "capsule: a raw one, as C code wants it; nanobind: a parameter nb::ndarray<>, "
        "ro: nb::ndarray<nb::ro>.",
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


def _sums(what: str, bare: str | int, upgraded: str | int, style: str = "good") -> Line:
    """A line of the box: the same number without dlshim and with it."""
    return line(f"{what:<31}", (f"{bare:<16}", "strong"), (f"{upgraded}", style))


def _sum_of_works(of_what: str, cells: Sequence[Cell]) -> Line:
    of = f"of {len(cells)}"
    cured = sum(bool(cell.cure) for cell in cells)
    now = sum(map(_works, cells))
    bare = f"{sum(cell.works_bare for cell in cells)} {of}"
    return _sums(of_what, bare, f"{now} {of}, {cured} by an option")


def _both(what: str, cells: Iterable[Cell], outcome: str) -> Line:
    """How many came to an outcome, bare and upgraded."""
    came = [(cell.bare.get("outcome"), cell.upgraded.get("outcome")) for cell in cells]
    bare, upgraded = (each.count(outcome) for each in zip(*came, strict=True))
    return _sums(what, bare, upgraded, "bad" if upgraded else "good")


def _harm(cells: Iterable[Cell]) -> list[Line]:
    """What was silently wrong or killed the process, and whose doing the wrong ones are."""
    lines = [_both("silently wrong", cells, "wrong")]
    if any("died" in (cell.bare.get("outcome"), cell.upgraded.get("outcome")) for cell in cells):
        lines.append(_both("the process was killed", cells, "died"))
    own = [
        f"{cell.exchange.consumer.label}: {cell.reason}"
        for cell in cells
        if cell.upgraded.get("outcome") == "wrong" and not cell.fault
    ]
    lines += [
        line(f"  upgraded, {own.count(what)} by the library's own doing, as bare: {what}")
        for what in dict.fromkeys(own)
    ]
    return lines


def _losses(cells: Sequence[Cell]) -> list[Line]:
    """What works bare and not with a plain upgrade, and what works neither way."""
    bare = sum(cell.works_bare for cell in cells)
    lost = [cell for cell in cells if cell.lost]
    cured = sum(bool(cell.cure) for cell in lost)
    rest = [cell for cell in cells if not _works(cell)]
    known = sum(not cell.fault for cell in rest)
    return [
        line(f"refused on purpose: {len(lost)} of the {bare} that work bare; "
             f"{cured} work with an option"),
        line(f"impossible: {known}, because one side cannot give or hold such an array"),
    ]  # fmt: skip


def _zero_copy(cells: Iterable[Cell]) -> list[Line]:
    """How many share memory, and who copies the others."""
    told = [
        cell for cell in cells if cell.works_upgraded and cell.upgraded.get("zero_copy") is not None
    ]
    shown = [cell.exchange.consumer.label for cell in told]
    copied = [cell.exchange.consumer.label for cell in told if not cell.upgraded["zero_copy"]]
    shared = len(told) - len(copied)
    return [
        line(f"shared, not copied: {shared} of the {len(told)} upgraded ones that show addresses"),
        *(
            line(f"  {consumer} copies {copied.count(consumer)} of its {shown.count(consumer)}")
            for consumer in dict.fromkeys(copied)
        ),
    ]


def _more_time(cells: Iterable[Cell]) -> list[float]:
    """By how many nanoseconds an upgraded exchange is longer, where both were timed."""
    return [
        cell.upgraded["ns"] - cell.bare["ns"]
        for cell in cells
        if "ns" in cell.upgraded and "ns" in cell.bare
    ]


def _warned(cells: Iterable[Cell]) -> list[Line]:
    """How often dlshim warned; a filter that makes warnings errors turns these into refusals."""
    warned = [cell.exchange.consumer.label for cell in cells if cell.upgraded.get("warned")]
    if not warned:
        return []
    who = some_of(warned, 2)
    return [line(f"read-only memory that {who} may write: {len(warned)}, each with a warning")]


def verdict(report: Report) -> Box:
    """The sums, library to library first, and whether all is as it should be."""
    from statistics import median

    cells = report.cells
    own = between_libraries(cells)
    lines = [_sums("exchanges of small arrays", "without dlshim", "with dlshim", "strong")]
    if own:
        lines.append(_sum_of_works("right between libraries", own))
    if len(own) != len(cells):
        lines.append(_sum_of_works("and with buffers, raw capsules", cells))
    lines += [*_harm(cells), *_losses(cells), *_warned(cells), *_zero_copy(cells)]
    if more := _more_time(cells):
        # Whole microseconds: figures below differ from run to run.
        most = max(1, math.ceil(median(more) / 1000))
        lines.append(line(f"time: an exchange takes less than {most} us more"))
    lines.append(
        line((f"{len(report.faults)} that should work do not (see above)", "bad"))
        if report.faults
        else line(("nothing that should work fails", "good"))
    )
    return Box("dlshim matrix", lines)


NOTHING = Note([line("No exchange to carry out: install some array libraries first.")])


def one_screen(report: Report) -> list[Block]:
    """Examples in words, what failed bare, what was silently wrong, what is lost, and the sums."""
    if not report.cells:
        return [_versions(report), NOTHING]
    more = "--full shows every pair, limit and cost; --html FILE writes a page"
    blocks: list[Block] = []
    for most in (3, 2, 1):  # rows of a table: as many as the screen has lines for
        blocks = [
            *_story(report.cells),
            _versions(report),
            *_cured(report.cells, most),
            *_silent(report.cells, min(most, 2)),
            *_lost(report.cells, min(most, 2)),
            *_faults(report.faults),
            verdict(report),
            Note([line((more, "dim"))]),
        ]
        if height(blocks) <= HEIGHT:
            break
    return blocks


def full(report: Report) -> list[Block]:
    """All tables and the verdict."""
    if not report.cells:
        return [_versions(report), NOTHING]
    pairs = by_pair(report.cells)
    return [
        *_story(report.cells),
        _versions(report),
        *_exchanges(pairs),
        *_cured(report.cells, MANY),
        *_silent(report.cells, MANY),
        *_limits(report.cells),
        *_lost(report.cells, MANY),
        *_cost(pairs),
        *_faults(report.faults),
        verdict(report),
    ]
