"""Which interpreters have run the core suite: JUnit files into docs/results/interpreters.json.

    python tools/interpreters.py build/results/core-*.xml

tests/core/conftest.py writes into these files what ran and on which interpreter. The table of the
manual shows a line for each minor version, with or without the GIL, and kind of extension; a line
that is not among the files stays as it was. Part of the suite is not taken for the whole.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import tally

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "docs" / "results" / "interpreters.json"
#: What conftest.py says of a run.
SAID = ("interpreter", "GIL", "processor", "extension", "sha256")
#: A run with fewer test cases is a part of the suite; in full it has more than 6 900.
WHOLE = 6000


def line_of(results: Path) -> tuple[str, dict[str, Any]]:
    """The name of a line, and what the run has shown."""
    root = ElementTree.parse(results).getroot()
    found = {each.get("name"): each.get("value") for each in root.iter("property")}
    if missing := [word for word in SAID if word not in found]:
        sys.exit(f"{results} does not say its {', '.join(missing)}: it is not the core suite's")
    suite = next(root.iter("testsuite"))
    counts = tally.count_cases(results)
    if sum(counts) < WHOLE:
        sys.exit(f"{results} has {sum(counts)} test cases: that is a part of the core suite")
    date = str(suite.get("timestamp")).partition("T")[0]
    said = {word: found[word] for word in SAID}
    return name_of(said), {"date": date, **said, **counts._asdict()}


def name_of(said: dict[str, Any]) -> str:
    """``3.13``; ``3.13t`` without the GIL; ``3.15, abi3t`` with that extension."""
    minor = ".".join(said["interpreter"].removeprefix("CPython ").split(".")[:2])
    name = minor if said["GIL"] == "on" else f"{minor}t"
    return f"{name}, abi3t" if ".abi3t." in said["extension"] else name


def main(files: list[str]) -> int:
    known = json.loads(FILE.read_text()) if FILE.exists() else {}
    known |= dict(line_of(Path(file)) for file in files)
    by_version = sorted(known, key=lambda name: (int(name.partition(".")[2][:2]), name))
    FILE.write_text(json.dumps({name: known[name] for name in by_version}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) if sys.argv[1:] else __doc__)
