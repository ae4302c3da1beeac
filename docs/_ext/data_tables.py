"""Tables of the manual that are printed from the data that the code walks.

``.. dlshim-libraries::``   the rows of src/source/libraries.def
``.. dlshim-askers::``      the rows of src/module/askers.def
``.. dlshim-limits::``      the limits that the matrix command knows
``.. dlshim-results::``     the dated result files in docs/results/
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from dlshim import _core

Row = tuple[str, ...]


class Table(SphinxDirective):
    """A list-table of rows that a subclass gives."""

    header: Row = ()
    widths: tuple[int, ...] = ()

    def rows(self) -> Iterable[Row]:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        lines = [".. list-table::", "   :header-rows: 1"]
        lines += [f"   :widths: {' '.join(map(str, self.widths))}", ""]
        for row in (self.header, *self.rows()):
            for number, cell in enumerate(row):
                lines.append(f"   {'* ' if number == 0 else '  '}- {cell}")
        box = nodes.container()
        self.state.nested_parse(StringList(lines, source="data"), self.content_offset, box)
        return box.children


class Libraries(Table):
    header = ("library", "class", "what is known of it")
    widths = (15, 25, 60)

    def meanings(self) -> dict[str, str]:
        """What each trait means, from the list in the header."""
        header = Path(self.env.srcdir).parent / "src" / "source" / "library.h"
        found = re.findall(r'X\((\w+), \d+, "([^"]+)"\)', header.read_text())
        return dict(found)

    def rows(self) -> Iterable[Row]:
        meanings = self.meanings()
        for row in _core._libraries():
            known = [meanings[trait] for trait in row["traits"]]
            if row["functions"]:
                names = row["functions"].split("|")
                known.append("capsules from " + " or ".join(f"``{name}``" for name in names))
            yield row["name"], f"``{row['module']}``: ``{row['type']}``", "; ".join(known) or "—"


class Askers(Table):
    header = ("passes", "device asked first", "gets negative strides", "who")
    widths = (30, 15, 15, 40)
    keywords = ("stream", "max_version", "dl_device", "copy")

    def names(self, mask: int) -> str:
        return ", ".join(name for bit, name in enumerate(self.keywords) if mask >> bit & 1)

    def rows(self) -> Iterable[Row]:
        for row in _core._askers():
            passes = self.names(row["must"]) or "anything"
            if row["must_not"]:
                passes += f"; not {self.names(row['must_not'])}"
            asked = {1: "yes", 0: "no"}.get(row["device_question"], "either")
            yield passes, asked, "yes" if row["bears_negative"] else "no", row["who"]


class Limits(Table):
    header = ("limit", "works with")
    widths = (65, 35)

    def rows(self) -> Iterable[Row]:
        from dlshim.matrix.model import LIMITS
        from dlshim.matrix.run import options_text

        for limit in LIMITS:
            yield limit.reason, f"``{options_text(limit.cure)}``" if limit.cure else "—"


class Results(SphinxDirective):
    """Links to the result files, newest first."""

    def run(self) -> list[nodes.Node]:
        folder = Path(self.env.srcdir) / "results"
        names = [path.name for path in folder.iterdir() if path.suffix != ".rst"]
        lines = [f"* :download:`{name} <{name}>`" for name in sorted(names, reverse=True)]
        box = nodes.container()
        text = StringList(lines or ["None has been committed yet."], source="results")
        self.state.nested_parse(text, self.content_offset, box)
        return box.children


def setup(app: Sphinx) -> dict[str, bool]:
    for directive in (Libraries, Askers, Limits, Results):
        app.add_directive(f"dlshim-{directive.__name__.lower()}", directive)
    return {"parallel_read_safe": True}
