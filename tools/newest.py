"""The newest release of each library, and whether the rows of ``shim/known`` are true of it.

    python tools/newest.py WHEEL                    every library
    python tools/newest.py WHEEL numpy torch        these
    python tools/newest.py WHEEL --write            and the table of the manual (rows.csv)

Each library has an environment of its own below build/newest, so that no other one holds it back.
What has to be changed is printed: the row, what it says, what was seen, and the release.  The exit
status is 1 if anything has.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import tomllib

ROOT = Path(__file__).parents[1]
WHERE = ROOT / "build" / "newest"
TABLE = ROOT / "docs" / "results" / "rows.csv"
HEAD = ("library", "release", "date", "kind", "row", "tried")


def environment(key: str, told: dict[str, Any], wheel: str) -> Path:
    """An environment with the newest release; returns its interpreter."""
    folder = WHERE / key
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--upgrade", "--only-binary=:all:"]
    if alone := told.get("no_deps"):
        subprocess.run([*pip, "--no-deps", *alone], check=True)
    subprocess.run([*pip, "numpy", *told.get("pip", ())], check=True)
    subprocess.run([*pip, "--force-reinstall", "--no-deps", wheel], check=True)
    if "torch_stubs" in told.get("steps", ()):
        subprocess.run([str(python), "tools/torch_stubs.py"], check=True, cwd=ROOT)
    return python


def compared(key: str, told: dict[str, Any], wheel: str) -> list[dict[str, Any]]:
    """What tests/interop/rows.py finds of a library; a row of its own where that fails."""
    try:
        python = environment(key, told, wheel)
    except subprocess.CalledProcessError as error:
        return [failed(f"it cannot be installed: {error}")]
    file = WHERE / f"{key}.json"
    file.unlink(missing_ok=True)
    command = [str(python), "-m", "interop.rows", key, str(file)]
    variables = os.environ | {"JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        command, cwd=ROOT / "tests", env=variables, capture_output=True, text=True, timeout=900
    )
    if not file.exists():
        last = (done.stderr.strip().splitlines() or [""])[-1]
        return [failed(f"the comparison ended with {done.returncode}: {last}")]
    found: list[dict[str, Any]] = json.loads(file.read_text())
    return found


def failed(why: str) -> dict[str, Any]:
    finding = {"field": "all", "says": "it can be compared", "seen": why}
    return {"kind": "", "row": "", "release": "", "untried": "", "findings": [finding]}


def show(key: str, rows: list[dict[str, Any]]) -> int:
    """Print what has to be changed; returns how much."""
    changes = 0
    for row in rows:
        for each in row["findings"]:
            changes += 1
            print(f"CHANGE {row['row'] or key} ({row['kind'] or 'library'}), {each['field']}:")
            print(f"       the row says {each['says']}; {row['release']}: {each['seen']}")
    tried = [row for row in rows if not row["untried"] and row["row"]]
    release = next((row["release"] for row in rows if row["release"]), "")
    told = f"{len(tried)} of {len(rows)} rows compared, {changes} to change"
    print(f"{key} {release}: {told}", flush=True)
    return changes


def write(found: dict[str, list[dict[str, Any]]]) -> None:
    """Rows of these libraries instead of those that were there."""
    today = datetime.date.today().isoformat()
    lines = list(csv.reader(TABLE.read_text().splitlines()))[1:] if TABLE.exists() else []
    kept = [line for line in lines if line[0] not in found]
    for key, rows in found.items():
        kept += [
            [key, row["release"], today, row["kind"], row["row"], row["untried"] or "yes"]
            for row in rows
            if row["row"]
        ]
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(HEAD)
        out.writerows(sorted(kept))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel")
    parser.add_argument("libraries", nargs="*")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    every = tomllib.loads((ROOT / "tests" / "interop" / "newest.toml").read_text())
    found, changes = {}, 0
    for key in options.libraries or every:
        if why := every[key].get("why"):
            print(f"{key}: not compared, {why}", flush=True)
            continue
        found[key] = compared(key, every[key], str(Path(options.wheel).resolve()))
        changes += show(key, found[key])
    if options.write:
        write(found)
    print(f"{changes} to change" if changes else "all rows are true of the newest releases")
    return 1 if changes else 0


if __name__ == "__main__":
    sys.exit(main())
