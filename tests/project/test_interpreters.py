"""Which interpreters have run the core suite: the result file, and what is claimed of it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from project.tree import ROOT

sys.path.insert(0, str(ROOT / "tools"))
try:
    import interpreters
finally:
    sys.path.remove(str(ROOT / "tools"))

SEEN: dict[str, Any] = json.loads(interpreters.FILE.read_text())

RESULTS = """<testsuites><testsuite tests="{tests}" failures="1" errors="0" skipped="2"
timestamp="2026-11-24T08:00:00"><properties>{said}</properties></testsuite></testsuites>"""


def results(folder: Path, tests: int = 7000, **said: str) -> Path:
    file = folder / "core-3.99.xml"
    known = {"interpreter": "CPython 3.99.1", "GIL": "on", "processor": "x86_64"}
    known |= {"extension": "_core.abi3.so", "sha256": "0123456789ab", **said}
    lines = "".join(f'<property name="{name}" value="{text}"/>' for name, text in known.items())
    file.write_text(RESULTS.format(tests=tests, said=lines))
    return file


def test_a_run_says_who_ran_what(tmp_path: Path) -> None:
    name, line = interpreters.line_of(results(tmp_path))
    assert (name, line["date"], line["sha256"]) == ("3.99", "2026-11-24", "0123456789ab")
    assert (line["passed"], line["failed"], line["skipped"]) == (6997, 1, 2)
    for said, other in (
        ({"GIL": "off", "extension": "_core.cpython-399t-x86_64-linux-gnu.so"}, "3.99t"),
        ({"extension": "_core.abi3t.so"}, "3.99, abi3t"),
    ):
        assert interpreters.line_of(results(tmp_path, **said))[0] == other


def test_a_part_of_the_suite_and_another_suite_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="a part of the core suite"):
        interpreters.line_of(results(tmp_path, tests=300))
    (tmp_path / "other.xml").write_text("<testsuites><testsuite tests='9'/></testsuites>")
    with pytest.raises(SystemExit, match="does not say its interpreter"):
        interpreters.line_of(tmp_path / "other.xml")


@pytest.mark.parametrize("name", SEEN)
def test_what_is_told_has_failed_nowhere(name: str) -> None:
    line = SEEN[name]
    assert line["failed"] == 0 and line["passed"] > interpreters.WHOLE
    assert interpreters.name_of(line) == name


def test_the_readme_and_the_changes_claim_these_interpreters() -> None:
    with_wheel = [name for name, line in SEEN.items() if line["extension"] == "_core.abi3.so"]
    first, last = with_wheel[0], with_wheel[-1]
    minors = range(int(first[2:]), int(last[2:]) + 1)
    assert with_wheel == [f"3.{minor}" for minor in minors]
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert f"CPython {first} to 3.13" in readme and f"on 3.14 and {last}" in readme
    assert re.search(r"core suite passes on CPython 3\.13t", readme) and "3.13t" in SEEN
    changes = " ".join((ROOT / "CHANGELOG.md").read_text().split())
    assert f"CPython {first} to {last}" in changes
