"""Files of src/ need each other in one direction only.

An arrow goes from a file to one whose functions or data it needs.  Objects compiled without
optimisation tell who defines and who needs; the text tells it of code in headers, which moves into
whatever includes them.  A source and its header are one file here.  A pointer that is stored at run
time (a hook, a table of functions) is no arrow.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest
from project.objects import Objects, symbols
from project.tree import LAYERS, SRC, without_comments

#: "acquire/attempt" -> "core/tensor" -> the names that the first needs of the second.
Arrows = dict[str, dict[str, set[str]]]


def code(path: Path) -> str:
    """The text without comments and without what stands in literals."""
    return re.sub(r'"(?:\\.|[^"\\])*"', '""', without_comments(path.read_text()))


def bodies(text: str) -> str:
    """What stands in braces, and what macros stand for: the code of a header."""
    joined = text.replace("\\\n", " ")
    macros = re.findall(r"^[ \t]*#[ \t]*define[ \t]+\w+(.*)", joined, re.M)
    plain = re.sub(r"^[ \t]*#.*", "", joined, flags=re.M)
    inside, depth = [], 0
    for piece in re.split(r"([{}])", plain):
        depth += {"{": 1, "}": -1}.get(piece, 0)
        if depth:
            inside.append(piece)
    return "\n".join([*macros, *inside])


def arrows(objects: Objects) -> Arrows:
    src = objects.src
    home: dict[str, str] = {}  # who defines a name
    for place, file in objects.files.items():
        home |= dict.fromkeys(symbols([file], defined=True), place.removesuffix(".c"))
    inline: dict[str, str] = {}
    headers = sorted(src.rglob("*.h"))
    for path in headers:
        node = path.relative_to(src).with_suffix("").as_posix()
        for name in re.findall(r"\bstatic inline\b[^;{}]*?\b(\w+)\(", code(path)):
            inline[name] = node

    found: Arrows = defaultdict(lambda: defaultdict(set))
    for place, file in objects.files.items():
        node = place.removesuffix(".c")
        for name in symbols([file], defined=False) & set(home):
            found[node][home[name]].add(name)
        for name in set(re.findall(r"\b\w+\b", code(src / place))) & set(inline):
            found[node][inline[name]].add(name)
    for path in headers:
        node = path.relative_to(src).with_suffix("").as_posix()
        for name in set(re.findall(r"\b\w+\b", bodies(code(path)))) & {*home, *inline}:
            found[node][inline.get(name) or home[name]].add(name)
    for node, others in found.items():
        others.pop(node, None)
    return {node: dict(others) for node, others in found.items()}


def rings(graph: Arrows) -> list[set[str]]:
    """Sets of files, each of which needs all the others, by whatever way."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen, todo = set[str](), [start]
        while todo:
            new = set(graph.get(todo.pop(), ())) - seen
            seen |= new
            todo += new
        reached[start] = seen
    found: list[set[str]] = []
    for node, others in reached.items():
        ring = {other for other in others if node in reached.get(other, ())}
        if ring and ring not in found:
            found.append(ring)
    return found


def told(graph: Arrows, ring: set[str]) -> str:
    """The arrows of a ring, for whoever has to cut one."""
    return "\n".join(
        f"{node} -> {other}: {', '.join(sorted(names))}"
        for node in sorted(ring)
        for other, names in sorted(graph[node].items())
        if other in ring
    )


@pytest.fixture(scope="module")
def graph(objects: Objects) -> Arrows:
    return arrows(objects)


def test_the_graph_has_code_of_sources_and_of_headers(graph: Arrows) -> None:
    assert "dls_hold_drop" in graph["export/export"]["core/hold"]
    headers = {path.relative_to(SRC).with_suffix("").as_posix() for path in SRC.rglob("*.h")}
    sources = {path.relative_to(SRC).with_suffix("").as_posix() for path in SRC.rglob("*.c")}
    assert any(graph.get(node) for node in headers - sources), "inline code needs something"


def test_files_are_in_no_ring(graph: Arrows) -> None:
    assert not [told(graph, ring) for ring in rings(graph)]


def test_no_arrow_points_at_a_later_folder(graph: Arrows) -> None:
    order = LAYERS.index
    wrong = [
        f"{node} -> {other}: {', '.join(sorted(names))}"
        for node, others in graph.items()
        for other, names in others.items()
        if order(node.split("/")[0]) < order(other.split("/")[0])
    ]
    assert wrong == []


@pytest.mark.parametrize("where", ["sources", "headers"])
def test_a_ring_and_an_arrow_against_the_order_are_seen(tmp_path: Path, where: str) -> None:
    """core/low needs gpu/high, which needs core/low."""
    low = "int\ndls_low(void)\n{\n    return dls_high();\n}\n"
    high = '#include "core/low.h"\nint\ndls_high(void)\n{\n    return dls_low();\n}\n'
    inline = where == "headers"
    text = f"static inline {low}" if inline else "int dls_low(void);\n"
    files = {
        "core/low.h": f"int dls_high(void);\n{text}",
        "core/low.c": f'#include "core/low.h"\n{"" if inline else low}int dls_x;\n',
        "gpu/high.c": high,
    }
    for name, text in files.items():
        file = tmp_path / "src" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    graph = arrows(Objects(tmp_path, tmp_path / "src"))
    assert graph["core/low"] == {"gpu/high": {"dls_high"}}
    assert rings(graph) == [{"core/low", "gpu/high"}]
