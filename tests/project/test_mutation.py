"""The faults that tools/mutation.py draws, and the table that tools/mutant_matrix.py makes of them.

``nox -s mutant-matrix`` shows them to the suites.
"""

from __future__ import annotations

import ast
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from project.tree import ROOT

# Only for this import: tools/fuzz.py has the name of the folder that tests/fuzzing imports.
sys.path.insert(0, str(ROOT / "tools"))
try:
    import mutant_table
    import mutation
    import quickest_first
finally:
    sys.path.remove(str(ROOT / "tools"))

TEXTS = {
    str(path.relative_to(ROOT)): path.read_bytes()
    for top, names in (("src", "*.[ch]"), ("shim", "*.py"))
    for path in (ROOT / top).rglob(names)
}
KINDS = {"operator", "constant", "call dropped", "return", "condition"}

C = b"""\
#define SIX (5 + 1) \\
    + 0
_Static_assert(1 < 2, "1 + 1");
static int
one(int *a, unsigned b) /* 3 < 4 */
{
    assert(a != NULL);
    if (*a < 010 && two(&b, "7 > 8")) {
        two(a,
            b);
    }
    return -1;
}
"""
C_CHANGES = [
    ("operator", "<", "<="),
    ("operator", "&&", "||"),
    ("constant", "010", "9"),
    ("constant", "1", "2"),
    ("call dropped", "two(a,\n            b);", ";"),
    ("return", "-1", "0"),
    ("condition", '*a < 010 && two(&b, "7 > 8")', '!(*a < 010 && two(&b, "7 > 8"))'),
    ("condition", '*a < 010 && two(&b, "7 > 8")', "1"),
    ("condition", '*a < 010 && two(&b, "7 > 8")', "0"),
]

PYTHON = """\
def one(a: Literal[1]) -> int:
    "1 < 2"
    if a == "é" or f"{a + 1}":
        two(a)
    return a + 3
""".encode()
PYTHON_CHANGES = [
    ("condition", 'a == "é" or f"{a + 1}"', "(not (a == 'é' or f'{a + 1}'))"),
    ("condition", 'a == "é" or f"{a + 1}"', "True"),
    ("condition", 'a == "é" or f"{a + 1}"', "False"),
    ("operator", 'a == "é" or f"{a + 1}"', "(a == 'é' and f'{a + 1}')"),
    ("operator", 'a == "é"', "(a != 'é')"),
    ("call dropped", "two(a)", "None"),
    ("return", "a + 3", "None"),
    ("operator", "a + 3", "(a - 3)"),
    ("constant", "3", "4"),
]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [("one.c", C, C_CHANGES), ("one.py", PYTHON, PYTHON_CHANGES)],
    ids=["C", "Python"],
)
def test_code_is_changed_and_nothing_else(
    name: str, text: bytes, expected: list[tuple[str, str, str]]
) -> None:
    found = [
        (each.kind, text[each.begin : each.end].decode(), each.instead.decode())
        for changes in mutation.changes(name, text).values()
        for each in changes
    ]
    assert sorted(found) == sorted(expected)


def test_a_seed_gives_one_sequence() -> None:
    def first(seed: int, texts: dict[str, bytes] = TEXTS) -> list[tuple[str, mutation.Change]]:
        return list(itertools.islice(mutation.draw(texts, seed), 100))

    assert first(1) == first(1, dict(reversed(TEXTS.items())))
    assert first(1) != first(2)
    assert len(set(first(1))) == 100


def test_every_mutant_of_python_parses_and_differs() -> None:
    drawn = [(name, each) for name, each in itertools.islice(mutation.draw(TEXTS, 3), 400)]
    assert {each.kind for _, each in drawn} == KINDS
    assert {name.partition("/")[0] for name, _ in drawn} == {"src", "shim"}
    for name, each in drawn:
        new = each.apply(TEXTS[name])
        assert new != TEXTS[name]
        if name.endswith(".py"):
            ast.parse(new)


def test_a_small_text_is_drawn_to_its_end() -> None:
    drawn = list(mutation.draw({"one.c": C}, 1))
    assert len(drawn) == len(set(drawn)) == len(C_CHANGES)


def test_a_table_is_read_as_it_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "matrix.csv"
    seconds = {"sample": 60.0, "core:a": 1.0, "core:b": 1.0, "kit:c": "runs nothing"}
    known = {"whole": False, "seconds": seconds}
    table.with_suffix(".json").write_text(json.dumps(known))
    rows = [(1, "", "sample"), (2, "sample fails", "sample core"), (3, "uncompiled", "sample")]
    rows += [(4, "warnings", "sample"), (1, "core:a hangs", "sample core"), (5, "", "sample core")]
    change = mutation.Change("call dropped", 4, 9, b";")
    for number, noticed, asked in rows:
        row = mutant_table.row_of(number, "src/core/alloc.c", change, b"a;\n\ncall();")
        row |= {"noticed": noticed, "tests": "", "asked": asked, "seconds": "2"}
        mutant_table.append(table, row)
    read = mutant_table.read(table)
    assert (read[1]["noticed"], read[1]["line"]) == ("core:a hangs", "3")
    names = ["core:a", "core:b", "kit:c"]
    missing = {number: mutant_table.missing(row, names) for number, row in read.items()}
    assert missing == {1: ["kit:c"], 2: [], 3: [], 4: names, 5: ["kit:c"]}
    assert mutant_table.missing({}, names) == ["sample", *names]
    assert mutant_table.summary(table) == 0
    told = capsys.readouterr().out.splitlines()
    outcomes = "2 by others, 1 by the sample, 1 not by sample core"
    assert told[0] == f"4 mutants, noticed: {outcomes}"
    counts = {line.split()[-1]: line.split()[:3] for line in told[2:6]}
    assert counts["core:a"] == ["1", "2", "1"] and counts["sample"] == ["1", "4", "0"]
    assert told[told.index("never among the few:") + 1 :][:3] == [
        "  core:b", "not asked:", "  kit:c (runs nothing)"
    ]  # fmt: skip


def test_the_quickest_files_run_first(tmp_path: Path) -> None:
    seconds = tmp_path / "seconds.json"
    env = {**os.environ, quickest_first.VARIABLE: str(seconds), "PYTHONPATH": str(ROOT / "tools")}
    command = [sys.executable, "-m", "pytest", "-v", "-p", "quickest_first"]

    def order() -> list[str]:
        done = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        lines = [line for line in done.stdout.splitlines() if "::" in line and "%]" in line]
        return [line.partition("::")[0] for line in lines]

    for name in "ab":
        (tmp_path / f"test_{name}.py").write_text("def test_passes():\n    pass\n")
    failing = tmp_path / "test_c.py"
    failing.write_text("def test_fails():\n    raise AssertionError\n")
    assert order() == ["test_a.py", "test_b.py", "test_c.py"]
    assert not seconds.exists(), "a run that fails may have ended early"
    failing.unlink()
    order()
    assert json.loads(seconds.read_text()).keys() == {"test_a.py", "test_b.py"}
    seconds.write_text(json.dumps({"test_b.py": 1, "test_a.py": 2}))
    failing.write_text("def test_passes():\n    pass\n")
    assert order() == ["test_b.py", "test_a.py", "test_c.py"]
    assert json.loads(seconds.read_text()) == {"test_b.py": 1, "test_a.py": 2}
