"""The newest release of each library, and what arrays come to in it beside what was recorded.

    python tools/newest.py WHEEL                    every library
    python tools/newest.py WHEEL numpy torch        these
    python tools/newest.py WHEEL --write            and docs/results/outcomes.csv

Each library has an environment of its own below build/newest, with NumPy, so that no other one
holds it back.  What differs from the releases that were recorded last is printed, and what is worse
with dlshim than without.  The exit status is 1 if anything is.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import tomllib

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
WHERE = ROOT / "build" / "newest"


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


def compared(key: str, told: dict[str, Any], wheel: str) -> dict[str, Any]:
    """What tests/interop/outcomes.py finds of a library; "failed": why it finds nothing."""
    try:
        python = environment(key, told, wheel)
    except subprocess.CalledProcessError as error:
        return {"failed": f"it cannot be installed: {error}"}
    file = WHERE / f"{key}.json"
    file.unlink(missing_ok=True)
    command = [str(python), "-m", "interop.outcomes", str(file), key]
    variables = os.environ | {"JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        command, cwd=TESTS, env=variables, capture_output=True, text=True, timeout=900
    )
    if not file.exists():
        last = (done.stderr.strip().splitlines() or [""])[-1]
        return {"failed": f"the trial ended with {done.returncode}: {last}"}
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def show(key: str, found: dict[str, Any]) -> int:
    """Print what differs or is red; returns how much."""
    if "failed" in found:
        print(f"{key}: {found['failed']}", flush=True)
        return 1
    for kind in ("differs", "red"):
        for each in found[kind]:
            print(f"{kind.upper():<8}{each}")
    for what, why in found["left_out"].items():
        print(f"left out {what}: {why}")
    release = next((row[side] for row in found["rows"] for side in ("from", "into")
                    if row[side].startswith(f"{key} ")), key)  # fmt: skip
    count = len(found["differs"]) + len(found["red"])
    print(f"{release}: {len(found['rows'])} tried, {count} to look at", flush=True)
    return count


def write(found: dict[str, dict[str, Any]]) -> None:
    sys.path.insert(0, str(TESTS))
    from interop import outcomes

    rows = [row for each in found.values() for row in each.get("rows", ())]
    outcomes.write({tuple(row[name] for name in outcomes.KEY): row for row in rows})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel")
    parser.add_argument("libraries", nargs="*")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    every = tomllib.loads((TESTS / "interop" / "newest.toml").read_text())
    found, changes = {}, 0
    for key in options.libraries or every:
        if why := every[key].get("why"):
            print(f"{key}: not tried, {why}", flush=True)
            continue
        found[key] = compared(key, every[key], str(Path(options.wheel).resolve()))
        changes += show(key, found[key])
    if options.write:
        write(found)
    print(f"{changes} to look at" if changes else "the newest releases do what was recorded")
    return 1 if changes else 0


if __name__ == "__main__":
    sys.exit(main())
