"""Progress display and tables, drawn with rich.

Everything is laid out for a terminal of 100 columns; wide grids are cut into several.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import geometric_mean

from rich import box
from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from . import run
from .consumers import CONSUMERS, Consumer
from .producers import PRODUCERS, Producer
from .run import Cell, Report

__all__ = ["show", "watch"]

WIDTH = 100
ROWS = 14

#: What a pair of producer and consumer came to, for the grids.
Pairs = dict[tuple[str, str], list[Cell]]


class _Console(Console):
    """Leaves a reader that went away to the command line."""

    def on_broken_pipe(self) -> None:
        raise


def _console() -> Console:
    console = _Console(highlight=False)
    if not console.is_terminal:
        console = _Console(highlight=False, width=WIDTH)
    elif console.width > WIDTH:
        console.width = WIDTH
    return console


def watch(versions: dict[str, str], cells: list[Cell], *, cost: bool) -> Report:
    """Carry out the exchanges behind a progress bar."""
    columns = (
        TextColumn("{task.description}", style="cyan"),
        BarColumn(bar_width=40),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("importing".ljust(31), total=2 * len(cells))

        def step(mode: str, producer: str) -> None:
            bar.update(task, advance=1, description=f"{mode:<8} {producer:<22}")

        return run.run(versions, cells, cost=cost, progress=step)


def show(report: Report) -> None:
    """Print all tables and the verdict."""
    console = _console()
    _show_versions(console, report)
    if not report.cells:
        console.print("No exchange to carry out: install some array libraries first.")
        return
    pairs: Pairs = defaultdict(list)
    for cell in report.cells:
        pairs[cell.exchange.producer.key, cell.exchange.consumer.key].append(cell)
    _show_exchanges(console, pairs)
    _show_cured(console, report.cells)
    _show_limits(console, report.cells)
    _show_cost(console, pairs)
    _show_faults(console, report.faults)
    _show_verdict(console, report)


def _show_versions(console: Console, report: Report) -> None:
    here = "  ".join(f"{key} [bold]{version}[/]" for key, version in report.versions.items())
    console.print(f"\n[bold]Libraries[/]  {here or 'none'}")
    for key, error in report.broken.items():
        console.print(f"[yellow]{key} is installed but cannot be imported:[/] {error}")
    for what, reason in report.left_out.items():
        console.print(f"[yellow]left out:[/] {what}: {reason}")
    console.print()


def _table(console: Console, title: str) -> Table:
    console.print(f"[bold]{title}[/]")
    return Table(box=box.SIMPLE_HEAD, pad_edge=False)


def _grids(
    console: Console,
    title: str,
    caption: str,
    pairs: Pairs,
    content: Callable[[list[Cell]], Text],
    *,
    counts: bool,
) -> None:
    """Draw producers down and consumers across, in as many tables as the width needs."""
    rows = [p for p in PRODUCERS if any(p.key == producer for producer, _ in pairs)]
    columns = [c for c in CONSUMERS if any(c.key == consumer for _, consumer in pairs)]
    texts = {key: content(cells) for key, cells in pairs.items()}
    columns = [c for c in columns if any(texts.get((p.key, c.key)) for p in rows)]
    rows = [p for p in rows if any(texts.get((p.key, c.key)) for c in columns)]
    arrays = {producer: len(cells) for (producer, _), cells in pairs.items()}
    label = max((len(p.label) for p in rows), default=0)
    parts = list(_parts(console.width - label - len(" of   "), rows, columns, texts))
    for number, part in enumerate(parts):
        table = _table(console, title if number == 0 else f"{title} (continued)")
        table.add_column("from \\ to", style="cyan", no_wrap=True, min_width=label)
        if counts:
            table.add_column("of", justify="right", style="dim", no_wrap=True)
        for consumer in part:
            table.add_column(consumer.label, justify="right", no_wrap=True)
        for producer in rows:
            cells = [texts.get((producer.key, consumer.key), Text("")) for consumer in part]
            count = [str(arrays[producer.key])] if counts else []
            table.add_row(producer.label, *count, *cells)
        console.print(table)
    console.print(f"{caption}\n", style="dim")


def _parts(
    width: int,
    rows: Sequence[Producer],
    columns: Sequence[Consumer],
    texts: dict[tuple[str, str], Text],
) -> Iterable[list[Consumer]]:
    part: list[Consumer] = []
    used = 0
    for consumer in columns:
        widest = max(len(texts.get((p.key, consumer.key), "")) for p in rows)
        need = max(len(consumer.label), widest) + 3
        if part and used + need > width:
            yield part
            part, used = [], 0
        part.append(consumer)
        used += need
    if part:
        yield part


def _exchange_text(cells: list[Cell]) -> Text:
    bare = sum(cell.works_bare for cell in cells)
    plain = sum(cell.works_upgraded for cell in cells)
    now = plain + sum(cell.works_with_option for cell in cells)
    harm = {cell.bare.get("outcome") for cell in cells} & {"wrong", "died"}
    if any(cell.fault for cell in cells):
        style = "bold red"
    elif now == len(cells):
        style = "green" if bare < now else "dim"
    else:
        style = "yellow" if now else "dim"
    mark = "†" if "died" in harm else "!" if harm else ""
    copied = any(cell.upgraded.get("zero_copy") is False for cell in cells)
    text = Text(f"{bare}{mark}", style="red" if mark else "dim")
    text.append("→", style="dim")
    text.append(f"{now}", style=style)
    text.append("c" if copied else " ", style="dim")
    return text


def _show_exchanges(console: Console, pairs: Pairs) -> None:
    _grids(
        console,
        "What works: bare → upgraded",
        "How many small arrays (layouts, dtypes), of as many as there are, arrive whole. "
        "!: silently wrong when bare; †: killed the process when bare; c: the consumer copies "
        "(all else is zero-copy). Yellow: a limit, see below. "
        "caps.: a raw capsule, as C code wants it.",
        pairs,
        _exchange_text,
        counts=True,
    )


_NOISE = re.compile(r"0x[0-9a-f]+|\d{4,}")


def _complaint(cell: Cell) -> str:
    """Return why a bare exchange failed, with what differs each time taken out."""
    detail = str(cell.bare.get("detail", "")) or "?"
    if cell.bare["outcome"] == "died":
        detail = f"process killed, {detail}"
    return _NOISE.sub("…", detail)


def _show_cured(console: Console, cells: list[Cell]) -> None:
    groups: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        if not cell.works_bare and cell.works_upgraded:
            kind = cell.bare["detail"].split(":")[0] if cell.bare["outcome"] != "died" else "died"
            groups[cell.exchange.consumer.label, kind].append(cell)
    if not groups:
        return
    table = _table(
        console, f"What failed bare and works upgraded: {sum(map(len, groups.values()))}"
    )
    table.add_column("into", style="cyan", no_wrap=True)
    table.add_column("from")
    table.add_column("bare, it said", ratio=1)
    table.add_column("cases", justify="right", no_wrap=True)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    for (consumer, _), members in ordered[:ROWS]:
        shown = _names((cell.exchange.producer.label for cell in members), 2)
        table.add_row(consumer, shown, _cut(_complaint(members[0]), 90), str(len(members)))
    if len(ordered) > ROWS:
        rest = sum(len(members) for _, members in ordered[ROWS:])
        table.add_row("…", f"{len(ordered) - ROWS} more kinds", "--json FILE has all", str(rest))
    console.print(table)


def _show_limits(console: Console, cells: list[Cell]) -> None:
    groups: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        if cell.limit is not None:
            groups[cell.limit.reason].append(cell)
    if not groups:
        return
    table = _table(console, f"What no plain upgrade can do: {sum(map(len, groups.values()))}")
    table.add_column("reason", ratio=1)
    table.add_column("into")
    table.add_column("works with", style="green")
    table.add_column("cases", justify="right", no_wrap=True)
    table.add_column("bare", justify="right", no_wrap=True)
    for reason, members in sorted(groups.items(), key=lambda item: -len(item[1])):
        into = _names((cell.exchange.consumer.label for cell in members), 4)
        limit = members[0].limit
        cure = run.options_text(limit.cure) if limit and limit.cure else "—"
        bare = sum(cell.works_bare for cell in members)
        table.add_row(reason, into, cure, str(len(members)), str(bare or "—"))
    console.print(table)


def _short(nanoseconds: float) -> str:
    if nanoseconds < 9_950:
        return f"{nanoseconds:.0f}"
    return f"{nanoseconds / 1000:.0f}k"


def _cost_text(cells: list[Cell]) -> Text:
    timed = [cell for cell in cells if "ns" in cell.upgraded]
    if not timed:
        return Text("")
    now = timed[0].upgraded["ns"]
    bare = timed[0].bare.get("ns")
    text = Text(f"{_short(bare)}→" if bare else "-→", style="dim")
    style = "green" if bare and now < bare else "yellow" if bare and now > 1.5 * bare else ""
    text.append(_short(now), style=style)
    return text


def _show_cost(console: Console, pairs: Pairs) -> None:
    if not any("ns" in cell.upgraded for cells in pairs.values() for cell in cells):
        return
    _grids(
        console,
        "Cost of one exchange in ns: bare → upgraded, wrapper made each time",
        "Six float32, least of a few batches. -: fails when bare. Green: cheaper upgraded; "
        "yellow: more than half as much again.",
        pairs,
        _cost_text,
        counts=False,
    )


def _names(names: Iterable[str], most: int) -> str:
    """Join distinct names; what is beyond ``most`` of them is only counted."""
    distinct = list(dict.fromkeys(names))
    rest = f" +{len(distinct) - most}" if len(distinct) > most else ""
    return ", ".join(distinct[:most]) + rest


def _show_faults(console: Console, faults: list[Cell]) -> None:
    if not faults:
        return
    groups: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in faults:
        groups[cell.exchange.consumer.label, _NOISE.sub("…", cell.fault or "")].append(cell)
    table = _table(
        console, f"[red]Upgraded exchanges that should work and do not: {len(faults)}[/]"
    )
    table.add_column("from", style="cyan")
    table.add_column("into", style="cyan", no_wrap=True)
    table.add_column("case")
    table.add_column("it said", ratio=1, style="red")
    for (consumer, said), cells in list(groups.items())[: 2 * ROWS]:
        sources = _names((cell.exchange.producer.label for cell in cells), 3)
        keys = _names((cell.exchange.case.key for cell in cells), 3)
        table.add_row(sources, consumer, keys, _cut(said, 200))
    if len(groups) > 2 * ROWS:
        table.add_row("…", "", "", f"{len(groups) - 2 * ROWS} more kinds: --json FILE has all")
    console.print(table)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _show_verdict(console: Console, report: Report) -> None:
    cells = report.cells
    bare = sum(cell.works_bare for cell in cells)
    plain = [cell for cell in cells if cell.works_upgraded]
    option = sum(cell.works_with_option for cell in cells)
    known = [c.upgraded["zero_copy"] for c in plain if c.upgraded.get("zero_copy") is not None]
    ratios = [
        cell.upgraded["ns"] / cell.bare["ns"]
        for cell in cells
        if "ns" in cell.upgraded and "ns" in cell.bare
    ]
    lines = [
        f"{len(cells)} exchanges: [bold]{bare}[/] work bare, [bold green]{len(plain)}[/] work "
        f"upgraded, {option} more with an option",
        f"zero-copy: {sum(known)} of the {len(known)} whose addresses both sides tell",
    ]
    if ratios:
        lines.append(
            f"cost where both work: {geometric_mean(ratios):.2f} times the bare exchange "
            f"(geometric mean of {len(ratios)})"
        )
    if report.faults:
        lines.append(f"[bold red]{len(report.faults)} that should work do not (see above)[/]")
    else:
        lines.append("[bold green]every upgraded exchange that should work does[/]")
    console.print(Panel("\n".join(lines), title="dlshim matrix", title_align="left", expand=False))
