"""The long run of the bare column: `python -m device --cases 100000 --report FILE`, from tests/.

Cases at random on several fake drivers, in runs of 5000 with a seed each, so that any of them can
be repeated: `python -m device --cases 5000 --first-seed N`.  Exits with 1 after a case that is
worse with dlshim than without.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections import Counter
from typing import Any

from drivers import run_with_driver

VARIANTS = ("12.2", "13.0", "hip5", "hip7")
RUN = 5000
CODE = """
import itertools, json, warnings
from device import bare
warnings.simplefilter("ignore")
seed, cases = arguments
some = itertools.islice(bare.at_random(bare.bare_of(drv), seed), cases)
counted, problems = bare.walk(drv, some)
print(json.dumps([counted, problems]))
"""


def one_run(variant: str, seed: int, cases: int) -> tuple[Counter[str], list[str]]:
    answer = run_with_driver(variant, CODE, seed, cases, timeout=600)
    counted, problems = json.loads(answer.strip().splitlines()[-1])
    return Counter(counted), [f"{variant}, seed {seed}: {problem}" for problem in problems]


def walk(cases: int, first_seed: int) -> tuple[dict[str, Counter[str]], list[str], int]:
    """Outcomes by driver, what is worse, and the last seed."""
    outcomes: dict[str, Counter[str]] = {variant: Counter() for variant in VARIANTS}
    problems: list[str] = []
    seed = first_seed - 1
    while sum(counted.total() for counted in outcomes.values()) < cases and len(problems) < 20:
        seed += 1
        variant = VARIANTS[seed % len(VARIANTS)]
        counted, found = one_run(variant, seed, min(RUN, cases))
        outcomes[variant] += counted
        problems += found
    return outcomes, problems, seed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m device", description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--report", help="a JSON file for the counts")
    given = parser.parse_args()
    began = time.monotonic()
    outcomes, problems, last = walk(given.cases, given.first_seed)
    total: Counter[str] = sum(outcomes.values(), Counter())
    report: dict[str, Any] = {
        "command": f"python -m device --cases {given.cases} --first-seed {given.first_seed}",
        "python": platform.python_version(),
        "cases": total.total(),
        "worse": total["worse"],
        "outcomes": dict(total.most_common()),
        "by driver": {variant: counted.total() for variant, counted in outcomes.items()},
        "seeds": [given.first_seed, last],
        "seconds": round(time.monotonic() - began),
    }
    text = json.dumps(report, indent=1)
    print(text, *problems, sep="\n")
    if given.report:
        with open(given.report, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
