"""The README is short, its lists are those of the package, and its two commands are whole."""

from __future__ import annotations

import re

from project.tree import ROOT, read_toml

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = (
    "python3 -m venv .venv && . .venv/bin/activate && "
    "pip install '.[demo]' && python -m dlshim matrix",
    "python3 -m venv .venv && . .venv/bin/activate && pip install '.[test]' && python -m pytest",
)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.M | re.S)


def test_the_first_example_is_short() -> None:
    """Its lines run where torch is installed (tests/project/test_docs_code.py)."""
    lines = [line for line in blocks("python")[0].splitlines() if line.strip()]
    assert len(lines) <= 14


def test_the_two_commands_are_there() -> None:
    text = "\n".join(blocks("sh"))
    for command in COMMANDS:
        assert f"\n{command}\n" in text


def test_the_extras_of_the_commands_exist() -> None:
    project = read_toml(ROOT / "pyproject.toml")["project"]
    extras = project["optional-dependencies"]
    assert {"demo", "test"} <= extras.keys()
    assert "rich" in extras["demo"] and any(name.startswith("pytest") for name in extras["test"])


NUMBERS = {10: "ten", 11: "eleven", 12: "twelve", 13: "thirteen"}


def test_what_is_counted_is_printed_with_its_number() -> None:
    """The manual prints the rows once; README and the pages say how many; the matrix knows them
    by their errors."""
    from dlshim.counted import COUNTED, counted

    number = NUMBERS[len(COUNTED)]
    assert f"but for [{number} kinds of exchanges](docs/promises.rst)" in " ".join(README.split())
    pages = {
        page: " ".join((ROOT / "docs" / page).read_text(encoding="utf-8").split())
        for page in ("promises.rst", "rules.rst")
    }
    assert f"but for these {number} kinds of exchanges" in pages["promises.rst"]
    assert ".. dlshim-counted::" in pages["promises.rst"]
    assert f"but for a list of {number},**" in pages["rules.rst"]
    errors = [said for row in COUNTED for said in row.says]
    assert len(errors) == len(set(errors))
    assert all(said in counted(f"Error: {said}").says for said in errors)  # type: ignore[union-attr]
    assert counted("") is None


def test_the_table_has_each_verb_once() -> None:
    """One table of what is typed: README says what each verb is for."""
    table = README.partition("| your question |")[2].partition("\n\n")[0]
    verbs = re.findall(r"\bdlshim\.(\w+)", table)
    assert sorted(verbs) == ["from_dlpack", "kernel", "producer", "to", "to_capsule", "upgrade"]


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
