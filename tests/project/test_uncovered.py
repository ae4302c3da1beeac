"""The list of branches that no test takes (tools/uncovered.toml) fits the source as it is now;
``nox -s coverage`` compares it with what gcov has counted."""

from __future__ import annotations

import importlib.util
import re
import sys
from types import ModuleType
from typing import Any

import pytest
from project.tree import ROOT, SRC, read_toml, without_comments


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("dlshim_gcov", ROOT / "tools" / "gcov.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # the annotations of its named tuples are looked up there
    spec.loader.exec_module(module)
    return module


TOOL = tool()
PLACES = TOOL.read_list()
ASSERTS = sorted(TOOL.read_asserts())


def test_every_place_is_in_the_source() -> None:
    lines = {
        str(path.relative_to(SRC)): {line.strip() for line in path.read_text().splitlines()}
        for path in SRC.glob("*/*.*")
    }
    gone = [
        place
        for place in PLACES
        if place.file not in lines
        or (place.text != TOOL.NEVER_CALLED and place.text not in lines[place.file])
    ]
    assert not gone, "bring tools/uncovered.toml up to date: nox -s coverage -- --rewrite-list"


def test_every_place_has_a_reason() -> None:
    unexplained = [place for place, entry in PLACES.items() if not entry.why.endswith(".")]
    assert PLACES and not unexplained
    reasons = read_toml(TOOL.LIST)["reasons"].values()
    assert set(reasons) <= {entry.why for entry in PLACES.values()}, "a reason that nobody needs"
    assert all(entry.branches > 0 for entry in PLACES.values())


@pytest.mark.parametrize(("file", "function"), ASSERTS, ids=lambda name: name)
def test_only_asserts_call_what_is_left_out(file: str, function: str) -> None:
    """Or functions that only asserts call."""
    names = {name for _, name in ASSERTS}
    for path in sorted(SRC.glob("*/*.[ch]")):
        text = without_comments(path.read_text())
        for use in re.finditer(rf"\b{function}\(", text):
            before = text[: use.start()]
            statement = re.split(r"[;{}]", before)[-1]
            inside = re.findall(r"^(\w+)\([^;{}]*\)\n\{", before, re.M)[-1:]
            defined = re.search(r"\b(bool|void)\s*$", statement) is not None
            assert "assert(" in statement or defined or set(inside) & names, (path, statement)


FILE = "core/a.c"  # made up
UNIT = {
    "data_file": "a.gcda",
    "files": [
        {
            "file": f"src/{FILE}",
            "functions": [
                {"name": "f", "execution_count": 3},
                {"name": "g", "execution_count": 0},
            ],
            "lines": [
                {"line_number": 1, "function_name": "f", "count": 3, "branches": [(3,), (0,)]},
                {"line_number": 2, "function_name": "f", "count": 0, "branches": [(0,), (0,)]},
            ],
        },
        {"file": "/usr/include/b.h", "functions": [], "lines": []},
    ],
}


def unit() -> dict[str, Any]:
    return {
        **UNIT,
        "files": [
            {
                **file,
                "lines": [
                    {**line, "branches": [{"count": n} for (n,) in line["branches"]]}
                    for line in file["lines"]
                ],
            }
            for file in UNIT["files"]
        ],
    }


def test_the_measurement_and_the_list_are_compared_both_ways(tmp_path: Any) -> None:
    (tmp_path / "src" / "core").mkdir(parents=True)
    (tmp_path / "src" / "core" / "a.c").write_text("if (x)\n  if (y)\n")
    coverage = TOOL.Coverage(tmp_path, [unit(), unit()])
    assert coverage.total("lines") == (1, 2)
    assert coverage.total("branches") == (1, 4)
    taken = TOOL.Place(FILE, "f", "if (x)")
    called = TOOL.Place(FILE, "g", TOOL.NEVER_CALLED)
    assert coverage.uncovered() == {taken: 1, called: 1}
    right = {place: TOOL.Entry(1, "Why.", False) for place in (taken, called)}
    assert not list(TOOL.differences(coverage.uncovered(), right))
    assert len(list(TOOL.differences(coverage.uncovered(), {}))) == 2
    assert len(list(TOOL.differences({}, right))) == 2
    sometimes = {place: TOOL.Entry(1, "Why.", True) for place in (taken, called)}
    assert not list(TOOL.differences({}, sometimes))
    left_out = TOOL.Coverage(tmp_path, [unit()], {(FILE, "f"), (FILE, "g")})
    assert left_out.total("lines") == (0, 0) and not left_out.uncovered()


def test_the_list_is_rewritten_with_its_reasons(tmp_path: Any) -> None:
    path = tmp_path / "list.toml"
    path.write_text(
        '[reasons]\nr = "Why."\n\n["a.c"."f"]\n"if (x)" = { branches = 2, why = "r" }\n'
    )
    old, new = TOOL.Place("a.c", "f", "if (x)"), TOOL.Place("a.c", "f", 'strchr("\\0")')
    TOOL.rewrite_list({old: 1, new: 1}, path)
    assert TOOL.read_list(path) == {
        old: TOOL.Entry(1, "Why.", False),
        new: TOOL.Entry(1, "", False),
    }
    TOOL.rewrite_list({new: 3}, path)
    assert TOOL.read_list(path) == {new: TOOL.Entry(3, "", False)}
