"""The workflows of a public forge, as far as they can be told without one.

`nox -s release` has the linters read them.
"""

from __future__ import annotations

import re

import pytest
from project.tree import ROOT, read_toml

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_what_others_wrote_is_pinned_to_the_commit_of_a_release(file) -> None:
    text = file.read_text()
    uses = re.findall(r"^ *- uses: (.+)", text, re.M)
    assert uses
    pin = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [each for each in uses if not pin.fullmatch(each)] == []
    assert re.search(r"^permissions: \{\}$", text, re.M), "a job asks for what it needs"
    assert text.count("actions/checkout@") == text.count("persist-credentials: false")


def test_the_release_uses_the_tools_that_the_session_checks() -> None:
    noxfile = (ROOT / "noxfile.py").read_text()
    release = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    (version,) = re.findall(r"cibuildwheel==([\d.]+)", release)
    assert f'"cibuildwheel=={version}"' in noxfile


def test_every_interpreter_that_is_claimed_is_tested_in_a_release() -> None:
    project = read_toml(ROOT / "pyproject.toml")
    claimed = {
        found[1].replace(".", "")
        for line in project["project"]["classifiers"]
        if (found := re.search(r":: Python :: (3\.\d+)$", line))
    }
    built = {
        found[1]
        for row in project["tool"]["cibuildwheel"]["build"]
        if (found := re.match(r"cp(\d+)-", row))
    }
    assert claimed == built
