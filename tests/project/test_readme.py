"""The README's example does what its comments say, and its two commands are whole."""

from __future__ import annotations

import ast
import importlib.util
import re
from typing import Any

import pytest
from project.tree import ROOT, absent, read_toml

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = (
    "python3 -m venv .venv && . .venv/bin/activate && "
    "pip install '.[demo]' && python -m dlshim matrix",
    "python3 -m venv .venv && . .venv/bin/activate && pip install '.[test]' && python -m pytest",
)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.M | re.S)


def test_the_example_runs_as_its_comments_say() -> None:
    first, example = blocks("python")[:2]
    assert "ends the process" in first  # not run here: tests/replays/test_layout.py has it
    for name in re.findall(r"\b(ml_dtypes|numpy|tvm_ffi)\b", example.splitlines()[0]):
        if importlib.util.find_spec(name) is None:
            absent(f"the README's example needs {name}")
    names: dict[str, Any] = {}
    lines = example.splitlines()
    raised = 0
    for node in ast.parse(example).body:
        code = compile(ast.Module([node], []), "README.md", "exec")
        # "# SomeError: words" says what the statement raises, and words of its message.
        told = re.search(r"# (\w+Error): (.*)$", lines[(node.end_lineno or 1) - 1])
        if told is None:
            exec(code, names)
            continue
        with pytest.raises(Exception) as error:
            exec(code, names)
        assert type(error.value).__name__ == told[1]
        assert told[2] in str(error.value)
        raised += 1
    assert raised == 2
    assert len([line for line in lines if line.strip()]) <= 10


def test_the_two_commands_are_there() -> None:
    text = "\n".join(blocks("sh"))
    for command in COMMANDS:
        assert f"\n{command}\n" in text


def test_the_extras_of_the_commands_exist() -> None:
    project = read_toml(ROOT / "pyproject.toml")["project"]
    extras = project["optional-dependencies"]
    assert {"demo", "test"} <= extras.keys()
    assert "rich" in extras["demo"] and any(name.startswith("pytest") for name in extras["test"])


def test_every_option_of_upgrade_is_in_the_table() -> None:
    import inspect

    import dlshim

    rows = "\n".join(re.findall(r"^\| (`.*?) \|", README, re.M))
    parameters = inspect.signature(dlshim.upgrade).parameters
    keywords = {name for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY}
    assert len(keywords) == 13
    assert {name for name in keywords if f"`{name}`" in rows} == keywords


NUMBERS = {10: "ten", 11: "eleven", 12: "twelve", 13: "thirteen"}


def test_what_is_counted_is_the_list_of_rule_t12() -> None:
    """README names each row, and no other; the manual prints the rows; the matrix knows their
    reasons."""
    from dlshim.counted import COUNTED, counted

    number, told = re.search(
        r"but for \[(\w+) exceptions\]\([^)]*rules.rst\).*?\n\n(\*.*?)\n\n", README, re.S
    ).groups()  # type: ignore[union-attr]
    listed = [" ".join(item.split()).rstrip(";.") for item in told[2:].split("\n* ")]
    assert listed == [row.what for row in COUNTED]
    assert number == NUMBERS[len(COUNTED)]
    rules = (ROOT / "docs" / "rules.rst").read_text(encoding="utf-8")
    t12 = rules.partition("**T12.")[2].partition("\n---")[0]
    assert ".. dlshim-counted::" in t12
    reasons = [why for row in COUNTED for why in row.reasons]
    assert len(reasons) == len(set(reasons))
    assert all(counted(why) is not None for why in reasons) and counted("") is None


def test_every_rule_of_the_list_exists() -> None:
    from dlshim.counted import COUNTED

    texts = "".join(
        (ROOT / "docs" / page).read_text(encoding="utf-8") for page in ("rules.rst", "streams.rst")
    )
    for row in COUNTED:
        assert not row.rule or f"**{row.rule}. " in texts, row


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", README):
        assert (ROOT / target).exists(), target


def test_folders_of_the_table_exist() -> None:
    for folder in re.findall(r"^\| `([\w/]+)` \|", README, re.M):
        if "/" in folder:
            assert (ROOT / folder).is_dir(), folder
