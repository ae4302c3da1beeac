"""What the conformance kit knows and found, for the manual.

``.. dlshim-kit-rules:: SIDE``     the rules of kit/dlshim_testing/rules.py
``.. dlshim-kit-summary::``        how much holds, library by library, by the newest kit-DATE.json
``.. dlshim-kit-broken:: LEVEL``   the rules of this level that are broken, with their evidence
``.. dlshim-kit-faults::``         the faults of tests/kit/faults.toml
``.. dlshim-kit-reproductions::``  the lines that show them, and what was seen
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import tomllib
from data_tables import Row, Table
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

KIT = Path(__file__).parents[2] / "kit"


def literal(text: str) -> str:
    """Text of others as it is."""
    return f"``{' '.join(text.split()).replace('`', chr(39))}``" if text else "—"


def shown(target: str) -> str:
    """A target as the reader calls it."""
    name = target.removeprefix("from_").replace("_", ".") if "pyarrow" in target else target
    return name.removeprefix("from_")


def about_rules() -> dict[tuple[str, str], Any]:
    if str(KIT) not in sys.path:
        sys.path.insert(0, str(KIT))
    from dlshim_testing.rules import BY_NAME

    return BY_NAME


class Found(Table):
    """A table of what a run of the kit left."""

    @cached_property
    def told(self) -> Any:
        files = sorted((Path(self.env.srcdir) / "results").glob("kit-*.json"))
        return json.loads(files[-1].read_text())


class Rules(Table):
    required_arguments = 1
    header = ("rule", "level", "what is asked", "the sentence")
    widths = (16, 9, 35, 40)

    def rows(self) -> Iterable[Row]:
        for rule in about_rules().values():
            if rule.side == self.arguments[0]:
                quote = f"{literal(rule.quote)} ({rule.source})" if rule.quote else "—"
                about = rule.about.replace("`", "``")
                yield f"``{rule.name}``", rule.level, about, quote


class Summary(Found):
    header = ("library", "target", "claims", "MUST", "SHOULD", "HABIT", "crashes")

    def rows(self) -> Iterable[Row]:
        for target, told in self.told["targets"].items():
            counts = [told["counts"][level] for level in ("MUST", "SHOULD", "HABIT")]
            held = [f"{each['held']} of {each['judged']}" for each in counts]
            crashes = sum(
                len(each["checks"]) for each in told["broken"] if each["level"] == "crash"
            )
            yield told["library"], f"``{target}``", told["claims"], *held, str(crashes or "—")


class Broken(Found):
    required_arguments = 1
    header = ("library", "rule", "evidence", "checks")
    widths = (18, 22, 50, 10)

    def rows(self) -> Iterable[Row]:
        levels = {"MUST": ("MUST", "crash")}.get(self.arguments[0], (self.arguments[0],))
        for target, told in self.told["targets"].items():
            for each in told["broken"]:
                if each["level"] in levels:
                    check = f"``{target}``: ``{each['checks'][0]}``"
                    many = str(len(each["checks"]))
                    yield told["library"], check, literal(each["evidence"]), many


class Faults(Table):
    """tests/kit/faults.toml."""

    header = ("library", "releases", "what is wrong", "check", "found in")
    widths = (14, 14, 37, 23, 12)

    def rows(self) -> Iterable[Row]:
        file = KIT.parent / "tests" / "kit" / "faults.toml"
        for row in tomllib.loads(file.read_text())["fault"]:
            says = row["says"].replace("`", "``")
            seen = f"``{row['target']}``" if "target" in row else "a double"
            yield row["library"], row["releases"], says, f"``{row['check']}``", seen


class Reproductions(SphinxDirective):
    """One row after the other: what is wrong, the lines, what they gave."""

    def run(self) -> list[nodes.Node]:
        files = sorted((Path(self.env.srcdir) / "results").glob("kit-*.json"))
        lines: list[str] = []
        for row in json.loads(files[-1].read_text())["reproductions"]:
            if not row["seen"]:
                continue
            side = "consumer" if row["target"].startswith("from_") else "producer"
            what = f"**{row['library']}**, {side}, ``{row['rule']}``"
            lines += [f"{what}: {row['says'].replace('`', '``')}", "", ".. code-block:: python", ""]
            lines += [f"   {line}" for line in row["code"].strip().splitlines()]
            lines += ["", f"gives {literal(row['seen'])}.", ""]
        box = nodes.container()
        self.state.nested_parse(StringList(lines, source="kit"), self.content_offset, box)
        return box.children


def setup(app: Sphinx) -> dict[str, bool]:
    for each in (Rules, Summary, Broken, Faults, Reproductions):
        app.add_directive(f"dlshim-kit-{each.__name__.lower()}", each)
    return {"parallel_read_safe": True}
