"""The wheels of tools/wheels.toml: their table, and what the manual claims.

Those of a release are made by each system's own compiler: test_release.py is about them.
"""

from __future__ import annotations

import re
import sys

import pytest
from project.tree import ROOT

# Only for this import: tools/fuzz.py has the name of the folder that tests/fuzzing imports.
sys.path.insert(0, str(ROOT / "tools"))
try:
    import wheels
finally:
    sys.path.remove(str(ROOT / "tools"))

TARGETS = wheels.targets()


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_a_tag_says_what_the_compiler_is_told(target: wheels.Target) -> None:
    tags = target.platform.split(".")
    assert all(tag.endswith(f"_{target.name}") for tag in tags)
    major, minor = re.findall(r"-gnu\w*\.(\d+)\.(\d+)$", target.zig)[0]
    assert tags[0] == f"manylinux_{major}_{minor}_{target.name}"
    assert tags[1:] == ([f"manylinux2014_{target.name}"] if minor == "17" else [])


# ---- what is claimed --------------------------------------------------------------------------


def test_the_manual_names_every_processor_on_which_the_suite_runs() -> None:
    install = " ".join((ROOT / "docs" / "install.rst").read_text().split())
    found = re.search(r"With wheels that zig compiles it passes on (.*?);", install)
    assert found
    told = {*re.split(", | and ", re.sub(r" \(.*?\)", "", found[1]))}
    assert told == {target.processor for target in TARGETS.values()} - {"x86-64"}
    emulated = {2: "two", 3: "three", 4: "four"}[sum(bool(row.qemu) for row in TARGETS.values())]
    assert f"the last {emulated} were emulated by QEMU" in install


def test_the_manual_and_the_changes_claim_the_interpreters_of_the_sessions() -> None:
    noxfile = (ROOT / "noxfile.py").read_text()
    tested, newer = (
        re.findall(r"3\.\d+", re.findall(rf"^{name} = \[(.*)\]", noxfile, re.M)[0])
        for name in ("PYTHONS", "NEWER")
    )
    readme, install = (
        " ".join((ROOT / page).read_text().split()) for page in ("README.md", "docs/install.rst")
    )
    assert all(f"CPython {tested[0]} to {tested[-1]}" in page for page in (readme, install))
    assert f"on {' and '.join(newer)}" in install
    assert re.search(r"core suite passes on CPython 3\.13t", install) and "core-3.13t" in noxfile
    changes = " ".join((ROOT / "CHANGELOG.md").read_text().split())
    assert f"CPython {tested[0]} to {newer[-1]}" in changes
    project, ci = ((ROOT / page).read_text() for page in ("pyproject.toml", ".ci/run"))
    claimed = [*tested, *newer]
    assert re.findall(r":: Python :: (3\.\d+)\"", project) == claimed
    (built,) = re.findall(r"^build = \[(.*)\]", project, re.M)
    assert re.findall(r"cp3(\d+)-", built) == [version.partition(".")[2] for version in claimed]
    assert f"for version in {' '.join(tested)}; do" in ci
