"""``python -m dlshim_testing --producer numpy:zeros --consumer numpy:from_dlpack``."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

from . import drivers, known
from .catalogue import CRASH, HANG, Finding
from .every import select
from .markdown import markdown
from .rules import EDITIONS, NEED_DRIVER
from .running import TargetError, check_consumer, check_producer, seconds, why_not_written


def expression(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from error


def known_failures(text: str) -> list[known.Known]:
    try:
        return known.of_file(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def limit(text: str) -> float:
    try:
        return seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def why_no_driver(variant: str) -> str:
    """Why the fake driver cannot be built; nothing where it can, or none is named."""
    try:
        variant and drivers.built(variant)
    except drivers.Unavailable as error:
        return str(error)
    return ""


EVERY = 10.0  # seconds between two lines about how far a run is


def progress_of(target: str) -> Callable[[int, int, list[Finding]], None]:
    """Tells on stderr now and then how far a run is, so that a long one is not taken for a hang."""
    last = time.monotonic()

    def tell(done: int, of: int, found: list[Finding]) -> None:
        nonlocal last
        if time.monotonic() - last < EVERY:
            return
        last = time.monotonic()
        bad = sum(each.status in (CRASH, HANG) for each in found)
        more = f", {bad} ended their process" if bad else ""
        print(f"{target}: {done} of {of} checks{more}", file=sys.stderr, flush=True)

    return tell


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m dlshim_testing", description=__doc__)
    parser.add_argument("--producer", action="append", default=[], metavar="MODULE:NAME")
    parser.add_argument("--consumer", action="append", default=[], metavar="MODULE:NAME")
    parser.add_argument(
        "--claims", default="", choices=EDITIONS, help="the edition of the array API"
    )
    parser.add_argument(
        "--only", default=expression(""), type=expression, metavar="REGEX", help="names of checks"
    )
    parser.add_argument(
        "--driver", default="", choices=drivers.ALL_LIVE, help="a fake driver, for device memory"
    )
    parser.add_argument(
        "--dtypes", default="", metavar="NAMES", help="the only ones that the targets have"
    )
    parser.add_argument(
        "--known", default=[], type=known_failures, metavar="FILE",
        help="a TOML file of known failures: [producer] and [consumer], 'check' = 'reason'",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, help="write every finding here")
    parser.add_argument("--markdown", type=Path, help="write a report here, to paste elsewhere")
    parser.add_argument(
        "--timeout", default=0, type=limit, metavar="SECONDS",
        help="what one check, or the import of a target, may take; 120 where nothing is said",
    )  # fmt: skip
    parser.add_argument("--in-process", action="store_true", help="a crash ends the run")
    asked = parser.parse_args()
    for name in ("driver", "timeout"):
        if getattr(asked, name) and asked.in_process:
            parser.error(f"--{name} needs a process of its own: leave --in-process out")
    if not asked.producer and not asked.consumer:
        parser.error("name a --producer or a --consumer")
    for name in ("json", "markdown"):
        if (file := getattr(asked, name)) and (why := why_not_written(file)):
            parser.error(f"--{name}: {file} cannot be written: {why}")
    for side in ("producer", "consumer"):
        if getattr(asked, side) and not any(select(side, asked.only)):
            parser.error(f"--only: no check of a {side} has {asked.only.pattern!r} in its name")
    chosen = {one.rule.name for one in select("producer", asked.only)} if asked.producer else set()
    if not asked.driver and not asked.consumer and chosen and chosen <= NEED_DRIVER:
        parser.error(drivers.missing("--driver"))
    if why := why_no_driver(asked.driver):
        parser.error(f"--driver {asked.driver}: nothing can be checked: {why}")
    options = {"claims": asked.claims, "only": asked.only, "isolate": not asked.in_process}
    options |= {"driver": asked.driver, "dtypes": asked.dtypes, "timeout": asked.timeout}
    own = {"own": asked.producer[0]} if asked.producer else {}
    try:
        every = [(check_producer, asked.producer, {}), (check_consumer, asked.consumer, own)]
        reports = [
            check(target, progress=progress_of(target), **options, **more)
            for check, targets, more in every
            for target in targets
        ]
    except TargetError as error:
        parser.error(str(error))
    reports = [known.noted(report, asked.known) for report in reports]
    stale = [*known.passed(asked.known, reports), *known.mended(asked.known, reports)]
    for line in [*reports, *(f"{each.stale}: take it off the list" for each in stale)]:
        print(line)
    if asked.json:
        rows = [
            report._asdict() | {"findings": [each._asdict() for each in report.findings]}
            for report in reports
        ]
        asked.json.write_text(json.dumps(rows, indent=1) + "\n")
    if asked.markdown:
        asked.markdown.write_text(markdown(reports), encoding="utf-8")
    return 0 if all(reports) and not stale else 1


if __name__ == "__main__":
    sys.exit(main())
