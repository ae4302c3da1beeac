"""The speed marks of src/ are those of benchmarks/marks.toml, each with what it gains."""

from __future__ import annotations

import re
from pathlib import Path

from project.tree import SRC, read_toml

from benchmarks.marks import ENDLESS, UNKNOWN, gain_of, leave_out, marks, read_list

GAIN = re.compile(rf"[1-9][0-9]* (instructions of \S.*|bytes of the wheel)|{ENDLESS}")
#: It may only fall; nine of them came at once, to make the wheel smaller, and one when reports of
#: exceptions got words, which would stand in sixteen places without it.
MARKS = 38

ONE = """#define DLS_COLD x
DLS_FLAT DLS_APART static int
one(int a)
{
    /* DLS_KNOWN */
    return DLS_RARE(a) && DLS_RARE(!a);
}
"""


def test_marks_are_found_and_left_out(tmp_path: Path) -> None:
    file = tmp_path / "one.c"
    file.write_text(ONE)
    place = "one.c: one"
    assert marks(tmp_path) == {("FLAT", place), ("APART", place), ("RARE", place)}
    leave_out(("RARE", place), tmp_path)
    leave_out(("FLAT", place), tmp_path)
    assert "return (a) && (!a);" in file.read_text()
    assert marks(tmp_path) == {("APART", place)}


def test_each_mark_is_in_the_list_and_nothing_else_is() -> None:
    listed = read_list()
    toml = read_toml(SRC.parent / "benchmarks" / "marks.toml")
    assert {(kind, place) for kind, rows in toml.items() for place in rows} == set(listed)
    assert marks(SRC) == set(listed), "python benchmarks/marks.py brings the list in step"


def test_each_mark_says_what_it_gains() -> None:
    gains = read_list()
    assert len(gains) <= MARKS
    assert [gain for gain in gains.values() if not GAIN.fullmatch(gain)] == []


def test_a_gain_is_of_instructions_or_else_of_bytes() -> None:
    assert gain_of({"one": -4, "two": 5.4}, 300) == "5 instructions of two"
    assert gain_of({"one": 2}, 20) == "20 bytes of the wheel"
    assert gain_of({"one": 2}, 19) == UNKNOWN
