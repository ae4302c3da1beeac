"""The long run: `python -m model --cases 100000 --processes 2 --report FILE`, from tests/.

Each process walks its share in runs of 1000 cases, each with a seed of its own, so that any of
them can be repeated: `python -m model --cases 1000 --first-seed N`.  A case is one program of the
machine from its beginning to its end; a step is one rule in it.  Exits with 1 after a failure.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import subprocess
import sys
import time
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from model.machine import Exchanges

STEPS, RUN = 15, 1000


def walk(cases: int, first_seed: int, seconds: float) -> dict[str, Any]:
    began, number = time.monotonic(), first_seed
    gc.collect()
    gc.freeze()  # the machine collects often, and what is here now need not be walked
    while Exchanges.cases < cases and time.monotonic() - began < seconds:
        wanted = settings(
            max_examples=min(RUN, cases - Exchanges.cases),
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        seed(number)(Exchanges)
        run_state_machine_as_test(Exchanges, settings=wanted)
        number += 1
    return {
        "cases": Exchanges.cases,
        "steps": Exchanges.steps,
        "outcomes": dict(Exchanges.outcomes),
        "seeds": [first_seed, number - 1],
        "seconds": round(time.monotonic() - began, 1),
    }


def split(cases: int, processes: int, first_seed: int, seconds: float) -> dict[str, Any]:
    """The same in several processes, and their sums."""
    share = -(-cases // processes)
    command = [sys.executable, "-m", "model", "--cases", str(share)]
    command += ["--seconds", str(seconds), "--first-seed"]
    children = [
        subprocess.Popen([*command, str(first_seed + 1000 * n)], stdout=subprocess.PIPE, text=True)
        for n in range(processes)
    ]
    texts = [child.communicate()[0] for child in children]
    if any(child.returncode for child in children):
        sys.exit("a process failed: its seed and its program are above")
    parts = [json.loads(text.splitlines()[-1]) for text in texts]
    outcomes: Counter[str] = Counter()
    for part in parts:
        outcomes.update(part["outcomes"])
    return {
        "cases": sum(part["cases"] for part in parts),
        "steps": sum(part["steps"] for part in parts),
        "steps_at_most_in_a_case": STEPS,
        "outcomes": dict(sorted(outcomes.items())),
        "processes": processes,
        "seeds": [part["seeds"] for part in parts],
        "seconds": max(part["seconds"] for part in parts),
        "failures": 0,
        "python": platform.python_version(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m model")
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=7200, help="no new run begins later")
    parser.add_argument("--report")
    given = parser.parse_args()
    os.nice(10)
    if given.processes == 1:
        result = walk(given.cases, given.first_seed, given.seconds)
    else:
        result = split(given.cases, given.processes, given.first_seed, given.seconds)
    if given.report:
        with open(given.report, "w") as file:
            file.write(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
