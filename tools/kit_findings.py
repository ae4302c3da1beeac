"""Runs the conformance kit against the libraries that are installed, for the manual.

    python tools/kit_findings.py FILE [TARGET ...]     write or update FILE, docs/results/kit-*.json
    python tools/kit_findings.py FILE --reproduce      add what tests/kit/reproductions.toml shows

The targets are those of kit/dlshim_testing/libraries.py; one whose library is not installed is left
out. FILE keeps of each what it claims, how many checks of each level hold, and every rule that is
broken with the checks that fail and the evidence of the first. dlshim and dlshim_testing must be
importable.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import re
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import tomllib

from dlshim_testing import libraries, rules
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


def summary(report: Report, version: str) -> dict[str, Any]:
    counts: dict[str, dict[str, int]] = {}
    for level in (*rules.LEVELS, "noted"):
        found = Counter(each.status for each in report.findings if each.level == level)
        counts[level] = {"held": found[PASS], "judged": sum(found.values()) - found[NA]}
    groups = defaultdict(list)
    for each in [*report.wrong, *report.errors]:
        level = CRASH if each.status == CRASH else each.level
        groups[each.rule, level].append(each)
    broken = [
        {
            "rule": rule,
            "level": level,
            "status": group[0].status,
            "checks": [each.check for each in group],
            "evidence": without_folders(group[0].evidence),
        }
        for (rule, level), group in groups.items()
    ]
    return {
        "side": report.side,
        "library": version,
        "claims": report.claims,
        "counts": counts,
        "not applicable": report.count(NA),
        "broken": broken,
    }


def reproduce(row: dict[str, str]) -> dict[str, str]:
    """Runs one row in a process of its own; "shown" is whether its fault was seen."""
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
    seen = f"the process ends by {ended}" if done.returncode < 0 else text
    return row | {"seen": seen if shown else "", "library": version_of(row["target"])}


def reproductions(before: list[dict[str, str]]) -> list[dict[str, str]]:
    """Every row of the table; what was seen in another environment stays for libraries that are
    not installed in this one."""
    table = tomllib.loads((ROOT / "tests" / "kit" / "reproductions.toml").read_text())["row"]
    seen = {row["code"]: row for row in before}
    rows = [reproduce(row) if version_of(row["target"]) else seen.get(row["code"]) for row in table]
    return [row for row in rows if row]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--reproduce", action="store_true")
    asked = parser.parse_args()
    if driver := opencl_driver.find():  # dpctl's device
        os.environ.setdefault(opencl_driver.VARIABLE, driver)
    every = [*libraries.producers(), *libraries.consumers()]
    told = json.loads(asked.file.read_text()) if asked.file.exists() else {"targets": {}}
    if asked.reproduce:
        told["reproductions"] = reproductions(told.get("reproductions", []))
        asked.file.write_text(json.dumps(told, indent=1) + "\n")
        return 0 if all(row["seen"] for row in told["reproductions"]) else 1
    told["python"] = platform.python_version()
    told["date"] = datetime.date.today().isoformat()
    for target in asked.targets or every:
        if not (version := version_of(target)):
            continue
        check = check_consumer if target.startswith("from_") else check_producer
        try:
            report = check(f"dlshim_testing.libraries:{target}", isolate=True)
        except TargetError as error:
            print(f"{target}: {error}", flush=True)
            continue
        print(report, flush=True)
        told["targets"][target] = summary(report, version)
        order = [name for name in every if name in told["targets"]]
        told["targets"] = {name: told["targets"][name] for name in order}
        asked.file.write_text(json.dumps(told, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
