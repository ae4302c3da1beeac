"""The folders of src/ and their files, as their #include lines and their first comments say them.

``.. dlshim-layers::`` draws a box for each folder, and an arrow to each folder that it includes
from. An arrow that others imply is left out. ``python docs/_ext/source_tree.py`` prints the arrows.
``.. dlshim-files:: core`` lists the files of a folder, each with the first sentence of its comment.
"""

from __future__ import annotations

import re
from pathlib import Path

from docutils import nodes
from file_heads import files, sources
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

Graph = dict[str, set[str]]
SRC = Path(__file__).resolve().parents[2] / "src"
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"(\w+)/', re.M)
WIDTH, HEIGHT, COLUMN, ROW = 150, 40, 380, 74


def include_graph(src: Path) -> Graph:
    """For each folder, the other folders that its files include from."""
    folders = sorted(path for path in src.iterdir() if path.is_dir())
    return {
        folder.name: {
            name for path in sources(folder) for name in INCLUDE.findall(path.read_text())
        }
        - {folder.name}
        for folder in folders
    }


def reached(graph: Graph, start: str) -> set[str]:
    """All folders to which arrows lead from `start`, over others too."""
    found: set[str] = set()
    wanted = set(graph[start])
    while wanted:
        name = wanted.pop()
        found.add(name)
        wanted |= graph[name] - found
    return found


def without_implied(graph: Graph) -> Graph:
    return {
        name: below - {far for near in below for far in reached(graph, near)}
        for name, below in graph.items()
    }


def ranks(graph: Graph) -> list[list[str]]:
    """The folders in rows: each lies above all that it includes from. The top row is first."""
    rank: dict[str, int] = {}
    while len(rank) < len(graph):
        ready = [n for n in graph if n not in rank and graph[n] <= rank.keys()]
        if not ready:
            raise ValueError(f"folders include each other in a ring: {graph.keys() - rank.keys()}")
        rank |= {name: 1 + max((rank[n] for n in graph[name]), default=-1) for name in ready}
    rows = [[name for name in graph if rank[name] == n] for n in range(max(rank.values()) + 1)]
    return rows[::-1]


def arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    """From box to box: straight to the next row, round the boxes between to one further down."""
    (x, y), (to_x, to_y) = start, end
    top = to_y - HEIGHT / 2 - 2
    if to_y - y <= ROW:
        path = f"M{x} {y + HEIGHT / 2}L{to_x} {top}"
    elif x != to_x:
        path = f"M{x + WIDTH / 2 * (1 if to_x > x else -1)} {y}H{to_x}V{top}"
    else:
        path = f"M{x + WIDTH / 2} {y}h30V{to_y}H{to_x + WIDTH / 2 + 2}"
    return f'<path d="{path}" fill="none" marker-end="url(#arrow)"/>'


def svg(src: Path) -> str:
    graph = include_graph(src)
    rows = ranks(graph)
    width = COLUMN * max(map(len, rows)) + 20
    height = ROW * len(rows)
    place = {
        name: (width / 2 + COLUMN * (i - (len(row) - 1) / 2), ROW * n + ROW / 2)
        for n, row in enumerate(rows)
        for i, name in enumerate(row)
    }
    parts = [
        arrow(place[name], place[other])
        for name, below in sorted(without_implied(graph).items())
        for other in sorted(below)
    ]
    for name, (x, y) in place.items():
        box = f'x="{x - WIDTH / 2}" y="{y - HEIGHT / 2}" width="{WIDTH}" height="{HEIGHT}"'
        parts.append(f'<rect {box} rx="5" fill="none"/>')
        for text, at, style in (
            (f"{name}/", y - 2, 'font-weight="bold"'),
            (f"{len(sources(src / name))} files", y + 14, 'font-size="11"'),
        ):
            parts.append(
                f'<text x="{x}" y="{at}" text-anchor="middle" stroke="none" '
                f'fill="currentColor" {style}>{text}</text>'
            )
    head = (
        '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="currentColor"/></marker>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="100%" '
        f'style="max-width: {width}px" role="img" stroke="currentColor" font-size="14" '
        f'aria-label="Folders of src and what they include">'
        f"<defs>{head}</defs>{''.join(parts)}</svg>"
    )


def text(src: Path) -> str:
    graph = without_implied(include_graph(src))
    return "\n".join(
        f"{name} -> {', '.join(sorted(graph[name])) or 'nothing'}"
        for row in ranks(include_graph(src))
        for name in row
    )


class Files(SphinxDirective):
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        folder = SRC / self.arguments[0]
        found = nodes.bullet_list()
        for names, sentence in files(folder):
            line = nodes.paragraph()
            for name in names:
                self.env.note_dependency(str(folder / name))
                line += [nodes.Text(", ")] * bool(line.children) + [nodes.literal("", name)]
            line += nodes.Text(f": {sentence}.")
            found += nodes.list_item("", line)
        return [found]


class Layers(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        for path in SRC.rglob("*"):
            if path.is_file():
                self.env.note_dependency(str(path))
        if self.env.app.builder.format == "html":
            return [nodes.raw("", svg(SRC), format="html")]
        return [nodes.literal_block("", text(SRC))]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("dlshim-layers", Layers)
    app.add_directive("dlshim-files", Files)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    print(text(SRC))
