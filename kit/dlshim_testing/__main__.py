"""``python -m dlshim_testing --producer numpy:zeros --consumer numpy:from_dlpack``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from .running import check_consumer, check_producer


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m dlshim_testing", description=__doc__)
    parser.add_argument("--producer", action="append", default=[], metavar="MODULE:NAME")
    parser.add_argument("--consumer", action="append", default=[], metavar="MODULE:NAME")
    parser.add_argument("--claims", default="", help="the edition of the array API, as 2023.12")
    parser.add_argument("--only", default="", metavar="REGEX", help="names of checks")
    parser.add_argument("--json", type=Path, help="write every finding here")
    parser.add_argument("--in-process", action="store_true", help="a crash ends the run")
    asked = parser.parse_args()
    if not asked.producer and not asked.consumer:
        parser.error("name a --producer or a --consumer")
    options = {"claims": asked.claims, "only": asked.only, "isolate": not asked.in_process}
    reports = [check_producer(target, **options) for target in asked.producer]
    reports += [check_consumer(target, **options) for target in asked.consumer]
    for report in reports:
        print(report)
    if asked.json:
        rows = [
            report._asdict() | {"findings": [each._asdict() for each in report.findings]}
            for report in reports
        ]
        asked.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if all(reports) else 1


if __name__ == "__main__":
    sys.exit(main())
