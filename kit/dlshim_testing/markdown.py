"""Reports in Markdown, for an issue or for the summary of a workflow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from . import rules
from .catalogue import ERROR, NA, PASS
from .running import Report, broken, skipped

#: A cell that has more is cut: evidence can be an array.
LONGEST = 300


def cell(text: str) -> str:
    """A text as a cell of a table: one line, in which nothing is markup."""
    text = " ".join(text.split())
    text = text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
    for letter in "\\|<>*_`[]":
        text = text.replace(letter, f"\\{letter}")
    return text


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    for row in (head, ("---",) * len(head), *rows):
        yield f"| {' | '.join(row)} |"


def held(report: Report, level: str) -> str:
    """Count the checks of a level that hold, of those that were judged."""
    judged = [e for e in report.findings if e.level == level and e.status not in (NA, ERROR)]
    return f"{sum(each.status == PASS for each in judged)} of {len(judged)}" if judged else "—"


def summary(report: Report) -> tuple[str, ...]:
    levels = (held(report, level) for level in rules.LEVELS)
    return f"{report.side} `{report.target}`", report.claims, *levels, f"**{report.verdict}**"


def faults(report: Report) -> Iterator[tuple[str, ...]]:
    for level, group in broken(report):
        first, count = group[0], f" ({len(group)} checks)" if len(group) > 1 else ""
        asked = f"{cell(first.quote)} ({cell(first.source)})" if first.quote else ""
        yield level, f"`{first.check}`{count}", cell(first.evidence), asked


def markdown(reports: Iterable[Report]) -> str:
    """Say which checks ran, how many hold, and every rule that is broken, with its sentence."""
    reports = list(reports)
    head = ("target", "claims", *rules.LEVELS, "verdict")
    lines = ["## DLPack", "", *table(head, map(summary, reports))]
    for report in reports:
        if wrong := list(faults(report)):
            lines += ["", f"### {report.side} `{report.target}`", ""]
            lines += table(("level", "check", "what was seen", "what is asked"), wrong)
        if left := list(skipped(report)):
            lines += ["", f"<details><summary>Not judged of {report.side} "]
            lines[-1] += f"<code>{report.target}</code></summary>\n"
            lines += [*(f"- {cell(line)}" for line in left), "", "</details>"]
    return "\n".join([*lines, ""])
