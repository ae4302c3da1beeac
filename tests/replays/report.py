"""Collects where each replay passed from the JUnit files that sessions leave.

    python tests/replays/report.py build/results docs/results/replays-2026-11-22.json

A session's environment says which versions it had: tests/interop/environments.toml, whose pins
every session checks.  What an earlier report says of sessions without a file here is kept, as far
as the table still names it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS)]

from interop import environments  # noqa: E402
from replays import table  # noqa: E402


def outcomes(file: Path) -> dict[str, str]:
    """Node id -> passed, skipped or failed."""
    found = {}
    for case in ElementTree.parse(file).getroot().iter("testcase"):
        told = {child.tag for child in case} & {"skipped", "failure", "error"}
        result = "passed" if not told else "skipped" if told == {"skipped"} else "failed"
        found[f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"] = result
    return found


def passed(node: str, found: dict[str, str]) -> bool:
    """It ran, and nothing of it failed; a test may have parameters that the table leaves out."""
    own = [r for name, r in found.items() if name == node or name.startswith(f"{node}[")]
    return "passed" in own and "failed" not in own


def failures(found: dict[str, str]) -> list[str]:
    cited = {node.partition("[")[0] for case in table.load() for node in case.tests}
    failed = {name for name, result in found.items() if result == "failed"}
    return sorted(name for name in failed if name.partition("[")[0] in cited)


def session(name: str, found: dict[str, str]) -> dict[str, object]:
    by_session = {each.session: each for each in environments.load().values()}
    env = by_session.get(name)
    seen = {node for case in table.load() for node in case.tests if passed(node, found)}
    return {
        "python": env.python if env else "",
        "pins": env.pins if env else {},
        "passed": sorted(seen),
        "failed": failures(found),
    }


def main(folder: str, output: str) -> int:
    target = Path(output)
    sessions = json.loads(target.read_text())["sessions"] if target.is_file() else {}
    cited = {node for case in table.load() for node in case.tests}
    for told in sessions.values():
        told["passed"] = sorted(cited & set(told["passed"]))
    for file in sorted(Path(folder).glob("*.xml")):
        told = session(file.stem, outcomes(file))
        if told["passed"] or told["failed"]:
            sessions[file.stem] = told
            print(f"{file.stem}: {len(told['passed'])} passed, {len(told['failed'])} failed")
    seen = {node for told in sessions.values() for node in told["passed"]}
    cases = [case for case in table.load() if case.test]
    left = [case.id for case in cases if case.test not in seen]
    real = sum(case.kind == "real" for case in cases)
    print(f"{len(cases)} replays, {real} of them real; not seen to pass: {left or 'none'}")
    target.write_text(json.dumps({"sessions": dict(sorted(sessions.items()))}, indent=1) + "\n")
    return 1 if any(told["failed"] for told in sessions.values()) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
