"""The dated result file of one environment.

    python -m tests.interop.report FILE       runs the whole matrix here and writes FILE
    python -m tests.interop.report FOLDER     writes FOLDER/interop.csv from the files in FOLDER

or ``python -m pytest tests/interop --interop-report FILE``, which writes what the tests ran.
"""

from __future__ import annotations

import csv
import datetime
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

if __package__ == "tests.interop":  # run from the repository root: the package is `interop`
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from interop import runner, versions
    from interop.refusals import REFUSALS
    from interop.summary import Summary
else:
    from . import runner, versions
    from .refusals import REFUSALS
    from .summary import Summary

SHIMS = {"upgraded": "dlshim", "pydlpack": "pydlpack", "tensor": "dlshim.Tensor"}


def environment_name() -> str:
    return os.environ.get("DLSHIM_INTEROP_ENV", "here")


def commit() -> str:
    """Of the tree that the suite runs from. DLSHIM_COMMIT names it where that is not what the wheel
    was built from; "" outside a repository."""
    told = os.environ.get("DLSHIM_COMMIT")
    if told:
        return told
    git = ["git", "describe", "--always", "--dirty", "--abbrev=7", "--exclude=*"]
    try:
        done = subprocess.run(git, cwd=Path(__file__).parent, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()


def render(summary: Summary, present: runner.Presence, seconds: float) -> str:
    lines = ["# Interop matrix: %s" % environment_name(), ""]
    today = datetime.date.today().isoformat()
    of = ["commit " + commit()] if commit() else []
    of += ["Python " + platform.python_version(), platform.machine(), "%d s" % seconds]
    lines += ["%s." % ", ".join([today, *of]), ""]
    lines += _versions(present) + _totals(summary) + _pairs(summary) + _refused(summary)
    if present.absent:
        lines += ["## Not taking part", ""]
        lines += ["- %s: %s" % item for item in sorted(present.absent.items())] + [""]
    return "\n".join(lines)


def _versions(present) -> list[str]:
    from . import consumers, producers

    libraries = {a.library for a in producers.ALL if a.name in present.producers}
    libraries |= {a.library for a in consumers.ALL if a.name in present.consumers}
    found = {name: versions.text(name) for name in libraries | {"dlshim", "pydlpack"}}
    lines = ["| library | version |", "|---|---|"]
    lines += ["| %s | %s |" % item for item in sorted(found.items()) if item[1]]
    return [*lines, ""]


def _totals(summary: Summary) -> list[str]:
    names = ["cells", "bare ok", "ok", "curable", "cured", "broken", "refused on purpose"]
    names += ["refused as documented", "crashed", "crashed bare", "dangling", "dangling bare"]
    names += ["wrong", "wrong bare", "leaking", "leaking bare"]
    shims = [shim for shim in SHIMS if summary.shim(shim)]
    counts = {shim: summary.counts(shim) for shim in shims}
    lines = ["## Counts", ""]
    lines += ["| | %s |" % " | ".join("through " + SHIMS[shim] for shim in shims)]
    lines += ["|---|%s" % ("---:|" * len(shims))]
    for name in names:
        lines.append("| %s | %s |" % (name, " | ".join(str(counts[r][name]) for r in shims)))
    lines += [
        "",
        "A cell is one producer, consumer, element type and layout. `curable`: fails without an "
        "adapter although nothing but the protocol stands in the way. `broken`: works without "
        "and not with the adapter. `refused on purpose`: worked without, and dlshim refuses it as "
        "it documents. `wrong` and `leaking` through dlshim are the libraries' own doing, each "
        "with its reason at the end (`leaking`: the source is still held after both sides were "
        "dropped, after a refusal too).",
        "",
    ]
    return lines


def _pairs(summary: Summary) -> list[str]:
    lines = ["## Producers and consumers", ""]
    lines += ["Cells that work without dlshim and with it; `refused` as the consumer documents, "
              "or by dlshim on purpose; `red`: not as the model says.", ""]  # fmt: skip
    table = summary.table()
    # Sorted: two result files can be compared line by line.
    consumers = sorted({c for _, c in table})
    for producer in sorted({p for p, _ in table}):
        lines += ["### %s" % producer, "", "| consumer | without | with | of | refused | red |",
                  "|---|---:|---:|---:|---:|---:|"]  # fmt: skip
        for consumer in consumers:
            if (producer, consumer) not in table:
                continue
            n = table[producer, consumer]
            row = (consumer, n["bare"], n["upgraded"], n["cells"], n["refused"], n["red"])
            lines.append("| %s | %d | %d | %d | %d | %d |" % row)
        lines.append("")
    return lines


def _refused(summary: Summary) -> list[str]:
    count: dict[str, int] = {}
    for result in summary.shim("upgraded").values():
        if result.row:
            count[result.row] = count.get(result.row, 0) + 1
    lines = ["## What is refused, and why", "", "| cells | who | reason |", "|---:|---|---|"]
    for row, n in sorted(count.items(), key=lambda item: (-item[1], item[0])):
        lines.append("| %d | %s | %s |" % (n, REFUSALS[row].who, REFUSALS[row].reason))
    return [*lines, ""]


def write(path: str | Path, summary: Summary, present: runner.Presence, seconds: float) -> None:
    Path(path).write_text(render(summary, present, seconds), encoding="utf-8")


OVERVIEW = ("cells", "bare ok", "ok", "curable", "cured", "broken", "refused on purpose")


def overview(folder: Path) -> None:
    """One line a result file: the numbers that other pages may quote."""
    with open(folder / "interop.csv", "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["environment", "date", "through", *OVERVIEW])
        for path in sorted(folder.glob("interop-*.md")):
            text = path.read_text(encoding="utf-8")
            name = re.search(r"^# Interop matrix: (\S+)", text)[1]
            date = re.search(r"^(\d{4}-\d\d-\d\d),", text, re.M)[1]
            through = re.search(r"^\| \| (through .*) \|$", text, re.M)[1].split(" | ")
            for column, shim in enumerate(through, 1):
                rows = (re.search(r"^\| %s \|.*$" % n, text, re.M)[0] for n in OVERVIEW)
                numbers = [row.split("|")[1 + column].strip() for row in rows]
                out.writerow([name, date, shim.removeprefix("through "), *numbers])


def main(path: str) -> int:
    import time

    if Path(path).is_dir():
        overview(Path(path))
        return 0
    start = time.monotonic()
    present = runner.presence()
    summary = Summary(runner.run(runner.whole(present), log=runner.say))
    write(path, summary, present, time.monotonic() - start)
    print("%s: %d red" % (path, len(summary.red())))
    return 1 if summary.red() or summary.broken() else 0


if __name__ == "__main__":
    if __package__ == "tests.interop":
        from interop import report

        sys.exit(report.main(sys.argv[1]))
    sys.exit(main(sys.argv[1]))
