"""Runs the programs: see the package's docstring."""

from __future__ import annotations

import argparse
import faulthandler
import gc
import os
import subprocess
import sys
import sysconfig
import threading
import time
import warnings
from pathlib import Path

from dlshim import _core

from .programs import PROGRAMS, check, tensor

TESTS = Path(__file__).resolve().parents[1]
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def run_here(name: str, seconds: float, threads: int) -> int:
    """One program in this process; the number of rounds."""
    works = PROGRAMS[name]()
    gc.collect()
    end = time.monotonic() + seconds
    failures: list[BaseException] = []
    rounds = [0] * threads
    start = threading.Barrier(threads)

    def run(number: int) -> None:
        try:
            start.wait(60)
            while not failures and (rounds[number] == 0 or time.monotonic() < end):
                works[(number + rounds[number]) % len(works)]()
                rounds[number] += 1
        except BaseException as failure:
            failures.append(failure)
            start.abort()

    workers = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]
    return sum(rounds)


def child(name: str, seconds: float, threads: int) -> int:
    """One program, and the count of its exports; the exit status of its process."""
    faulthandler.enable()
    # 3.12: fork beside threads.
    warnings.filterwarnings("ignore", "This process", DeprecationWarning)
    sys.setswitchinterval(1e-5)
    check(tensor())
    gc.collect()
    before = _core._counters()["live"]
    rounds = run_here(name, seconds, threads)
    for _ in range(3):
        gc.collect()
    left = _core._counters()["live"] - before
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(f"{rounds} rounds in {threads} threads, GIL {'on' if gil else 'off'}, {left} left")
    return 1 if left or (gil and FREE_THREADED) else 0


def run_apart(name: str, seconds: float, threads: int) -> str | None:
    """One program in a process of its own: None, or what went wrong."""
    line = [sys.executable, "-m", "stress", "--child", name]
    line += ["--seconds", str(seconds), "--threads", str(threads)]
    env = {**os.environ, "PYTHON_GIL": "0"} if FREE_THREADED else None
    patience = seconds * 4 + 300
    try:
        done = subprocess.run(
            line, capture_output=True, text=True, env=env, cwd=TESTS, timeout=patience
        )
    except subprocess.TimeoutExpired:
        return "it hangs"
    said = done.stdout.strip()
    print(f"{name:12} {said or '-'}", flush=True)
    if done.returncode != 0:
        return f"status {done.returncode}: {said}\n{done.stderr.strip()[-3000:]}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m stress")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="default: all")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each program")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        return child(given.child, given.seconds, given.threads)
    if given.list:
        for name, make in PROGRAMS.items():
            print(f"{name:12} {make.__doc__}")
        return 0
    if unknown := set(given.programs) - set(PROGRAMS):
        parser.error(f"there is no program {', '.join(sorted(unknown))}")
    failed = 0
    for name in given.programs or PROGRAMS:
        why = run_apart(name, given.seconds, given.threads)
        if why is not None:
            failed += 1
            print(f"{name:12} FAILED, {why}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
