"""Runs the conformance kit against the libraries that are installed, for the manual.

    python tools/kit_findings.py docs/results [TARGET ...]     rows of kit.csv and kit-broken.csv
    python tools/kit_findings.py docs/results --reproduce      rows of kit-shown.csv

The targets are those of kit/dlshim_testing/libraries.py; one whose library is not installed is left
out, and its rows stay. Of each there is what it claims, how many checks of each level hold, and
every rule that is broken: how many checks fail, the first of them with its evidence, and further
ones that tests/kit/faults.toml knows. --reproduce runs tests/kit/reproductions.toml. dlshim and
dlshim_testing must be importable.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import importlib.metadata
import os
import platform
import re
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import tomllib

from dlshim_testing import libraries
from dlshim_testing.catalogue import CRASH, NA, PASS
from dlshim_testing.running import Report, TargetError, check_consumer, check_producer

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests" / "oneapi"))
import opencl_driver  # noqa: E402

#: Target -> the distributions that may bring its library.
DISTRIBUTIONS = {
    "array_api_strict": ("array-api-strict",),
    "cuda_core": ("cuda-core",),
    "dlshim_tensor": ("dlshim",),
    "onnxruntime": ("onnxruntime",),
    "open3d": ("open3d-cpu", "open3d"),
    "paddle": ("paddlepaddle",),
    "pyarrow_array": ("pyarrow",),
    "pyarrow_interchange": ("pyarrow",),
    "pyarrow_strided": ("pyarrow",),
    "pyarrow_tensor": ("pyarrow",),
    "tensorflow": ("tensorflow-cpu", "tensorflow"),
    "tvm_ffi": ("apache-tvm-ffi",),
    "warp": ("warp-lang",),
}


def version_of(target: str) -> str:
    """ "name version" of the distribution, or nothing where it is not installed."""
    name = target.removeprefix("from_")
    for distribution in DISTRIBUTIONS.get(name, (name,)):
        try:
            return f"{distribution} {importlib.metadata.version(distribution)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    return "dlshim" if name.startswith("dlshim") else ""


def without_folders(text: str) -> str:
    """A file that a library's error names, without the folder in which it was compiled."""
    return re.sub(r"/(?:[^\s/()]+/)+(?=[^\s/()]+:\d)", "", text)


def known_checks(target: str) -> set[str]:
    """The checks by which tests/kit/faults.toml knows faults of a target."""
    rows = tomllib.loads((ROOT / "tests" / "kit" / "faults.toml").read_text())["fault"]
    return {row["check"] for row in rows if row.get("target") == target}


def held(report: Report, level: str) -> str:
    found = Counter(each.status for each in report.findings if each.level == level)
    return f"{found[PASS]} of {sum(found.values()) - found[NA]}"


def summary(report: Report, target: str, version: str) -> tuple[str, ...]:
    crashes = sum(each.status == CRASH for each in [*report.wrong, *report.errors])
    levels = (held(report, level) for level in ("MUST", "SHOULD", "HABIT"))
    return target, version, str(report.claims), *levels, str(crashes or "")


def broken(report: Report, target: str, version: str) -> list[tuple[str, ...]]:
    groups = defaultdict(list)
    for each in [*report.wrong, *report.errors]:
        groups[each.rule, CRASH if each.status == CRASH else each.level].append(each)
    rows = []
    for (rule, level), (first, *more) in groups.items():
        known = [each.check for each in more if each.check in known_checks(target)]
        told = (str(1 + len(more)), first.check, " ".join(known), without_folders(first.evidence))
        rows.append((target, version, rule, level, *told))
    return rows


def reproduce(row: dict[str, str]) -> str:
    """Runs one row in a process of its own: what was seen of its fault, or nothing."""
    done = subprocess.run(
        [sys.executable, "-c", row["code"]], capture_output=True, text=True, timeout=300
    )
    ended = signal.Signals(-done.returncode).name if done.returncode < 0 else str(done.returncode)
    last = done.stderr.strip().splitlines()[-1:] if done.returncode > 0 else []
    text = "\n".join([*done.stdout.strip().splitlines()[-3:], *last])
    match = re.search(row["shows"], text, re.M)
    shown = row["shows"] == ended or bool(match)
    if match:  # the lines that show it, without what the library prints besides
        end = text.find("\n", match.end())
        text = text[text.rfind("\n", 0, match.start()) + 1 : end if end >= 0 else None]
    print(row["target"], row["rule"], ended, "shown" if shown else "NOT SHOWN", text, flush=True)
    text = re.sub(r"\b0x[0-9a-f]{6,}", "0x...", text)
    seen = f"the process ends by {ended}" if done.returncode < 0 else text
    return seen if shown else ""


# ---- files ----------------------------------------------------------------------------------

COLUMNS = {
    "kit": ("target", "library", "claims", "MUST", "SHOULD", "HABIT", "crashes"),
    "kit-broken": ("target", "library", "rule", "level", "checks", "check", "known", "evidence"),
    "kit-shown": ("target", "rule", "library", "says", "seen"),
}


def put(file: Path, target: str, rows: list[tuple[str, ...]]) -> None:
    """These rows of a target instead of those that were there."""
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    known = list(csv.reader(line for line in lines if line[0] != "#"))[1:]
    kept = [row for row in known if row[0] != target] + [list(row) for row in rows]
    order = [*libraries.producers(), *libraries.consumers()]
    kept.sort(key=lambda row: order.index(row[0]))
    with file.open("w", newline="") as out:
        if file.stem == "kit":
            out.write(f"# {datetime.date.today()}: CPython {platform.python_version()}\n")
        csv.writer(out, lineterminator="\n").writerows([COLUMNS[file.stem], *kept])


def reproduce_all(folder: Path) -> bool:
    """Every row whose library is installed; whether all of them were shown."""
    rows = tomllib.loads((ROOT / "tests" / "kit" / "reproductions.toml").read_text())["row"]
    found = defaultdict(list)
    for row in rows:
        if version := version_of(row["target"]):
            told = (row["target"], row["rule"], version, row["says"])
            found[row["target"]].append((*told, reproduce(row)))
    for target, shown in found.items():
        put(folder / "kit-shown.csv", target, [row for row in shown if row[-1]])
    return all(row[-1] for shown in found.values() for row in shown)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--reproduce", action="store_true")
    asked = parser.parse_args()
    if driver := opencl_driver.find():  # dpctl's device
        os.environ.setdefault(opencl_driver.VARIABLE, driver)
    if asked.reproduce:
        return 0 if reproduce_all(asked.folder) else 1
    for target in asked.targets or [*libraries.producers(), *libraries.consumers()]:
        if not (version := version_of(target)):
            continue
        check = check_consumer if target.startswith("from_") else check_producer
        try:
            report = check(f"dlshim_testing.libraries:{target}", isolate=True)
        except TargetError as error:
            print(f"{target}: {error}", flush=True)
            continue
        print(report, flush=True)
        put(asked.folder / "kit.csv", target, [summary(report, target, version)])
        put(asked.folder / "kit-broken.csv", target, broken(report, target, version))
    return 0


if __name__ == "__main__":
    sys.exit(main())
