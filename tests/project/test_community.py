"""The files for people who join: each says what the rest of the project says."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from project.tree import ROOT, read_toml

import dlshim


def test_the_citation_has_the_version() -> None:
    text = (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^version: (.*)$", text, re.M)[1] == dlshim.__version__  # type: ignore[index]


@pytest.mark.parametrize("tool", ["ruff", "clang-format"])
def test_hooks_and_sessions_use_one_version(tool: str) -> None:
    hooks = re.findall(rf'"({tool}==[^"]+)"', (ROOT / ".pre-commit-config.yaml").read_text())
    session = re.findall(rf'"({tool}==[^"]+)"', (ROOT / "noxfile.py").read_text())
    assert hooks and set(hooks) == set(session)


def test_a_report_of_an_exchange_asks_for_commands_that_exist() -> None:
    form = (ROOT / ".github" / "ISSUE_TEMPLATE" / "exchange.yml").read_text()
    asked = re.findall(r"`python -m dlshim (\S+)", form)
    told = subprocess.run(
        [sys.executable, "-m", "dlshim"], capture_output=True, text=True, check=True
    ).stdout
    assert asked and all(re.search(rf"^  {name.rstrip('`')} ", told, re.M) for name in asked)


def test_every_interpreter_of_the_wheel_is_a_classifier() -> None:
    classifiers = read_toml(ROOT / "pyproject.toml")["project"]["classifiers"]
    told = re.findall(r"Python :: (3\.\d+)", " ".join(classifiers))
    assert told == [f"3.{minor}" for minor in range(10, 16)]
