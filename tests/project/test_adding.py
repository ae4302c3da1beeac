"""The table "Where to add what" of docs/development.rst is true.

Things that Python decides are added to a copy of the installed package, in the files that their row
names and in no others, and are then seen to work.  Of things that C decides, one that is there is
looked up: each file of the row knows it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from project.tree import ROOT

import dlshim

TABLE = (ROOT / "docs" / "development.rst").read_text().partition("Where to add what\n")[2]
ROWS = dict(
    re.findall(
        r"^   \* - (.+?)\n     - (.+?)(?=^   \* -|^\S|\Z)",
        TABLE.partition("\nThe lists")[0],
        re.M | re.S,
    )
)
ROWS.pop("you want to add")


def paths(row: str) -> list[str]:
    """The files and folders that a row names."""
    return re.findall(r"``([\w/.]+[/.]\w*)``", ROWS[row])


class Copy:
    """A copy of the installed package, in which only the files of a row may be changed."""

    def __init__(self, folder: Path, row: str) -> None:
        self.folder, self.row = folder, row
        shutil.copytree(Path(dlshim.__file__).parent, folder / "dlshim")

    def file(self, name: str) -> Path:
        named = [each for each in paths(self.row) if name == each or name.startswith(each)]
        assert any(each == name or each.endswith("/") for each in named), f"{name} is not named"
        return self.folder / "dlshim" / name.removeprefix("shim/")

    def put(self, name: str, before: str, new: str) -> None:
        file = self.file(name)
        text = file.read_text()
        assert text.count(before) == 1, before
        file.write_text(text.replace(before, new + before))

    def write(self, name: str, text: str) -> None:
        self.file(name).write_text(text)

    def run(self, *words: str, code: str = "") -> str:
        start = f"import sys; sys.path[:1] = [{str(self.folder)!r}]\n{code}\n"
        if words:
            start += f"from dlshim.cli.main import main; main({list(words)!r})"
        done = subprocess.run(
            [sys.executable, "-P" if sys.version_info >= (3, 11) else "-B", "-c", start],
            capture_output=True, text=True, cwd=self.folder,
        )  # fmt: skip
        return done.stdout + done.stderr


#: The name of a file that is added.
NEW = "novel.py"
NOVEL = "import types; m = types.ModuleType('novel'); sys.modules['novel'] = m\n"
CLASS = "class Grid:\n    def cells(self): return [1]\nGrid.__module__ = 'novel'; m.Grid = Grid\n"
TRY = "import dlshim\ntry: dlshim.upgrade(Grid())\nexcept BufferError as e: print(e)"
MODULE = '''"""Novel: grids."""

from .rows import Library

LIBRARY = Library("novel", "novel", ("novel",))
'''


def add_a_cure(copy: Copy) -> None:
    copy.put("shim/cures_by_library.py", '    "awkward": _awkward,',
             '    "novel": lambda x: instead("x.cells()"),\n')  # fmt: skip
    assert "\n  pass x.cells() instead" in copy.run(code=NOVEL + CLASS + TRY)


def add_a_method(copy: Copy) -> None:
    row = '    ("method", "cells", "x.cells()"),\n'
    copy.put("shim/cures.py", '    ("method", "toarray", "x.toarray()"),', row)
    assert "\n  pass x.cells() instead" in copy.run(code=NOVEL + CLASS + TRY)


def add_a_message(copy: Copy) -> None:
    row = ('    Message(\n        "novel", patterns=("grid is odd",), versions="novel", '
           'cause="It is.",\n        cures=("consumer(x.cells())",),\n    ),\n')  # fmt: skip
    copy.put("shim/cli/messages/protocol.py", '    Message(\n        "keyword",', row)
    assert "consumer(x.cells())" in copy.run("explain", "RuntimeError: this grid is odd")


def add_a_fault(copy: Copy) -> None:
    fault = '    Fault("numpy", "counts wrong", "wrong", upgraded="cured", source="#1"),\n'
    copy.put("shim/known/numpy.py", ")\n\n\nGIVES = (", fault)
    assert "counts wrong" in copy.run("doctor", "--no-trial")


def add_a_library(copy: Copy) -> None:
    copy.write(f"shim/known/{NEW}", MODULE)
    copy.put("shim/known/__init__.py", '    "numpy",\n', '    "novel",\n')
    told = copy.run(code="import dlshim.libraries as l; print(l.BY_KEY['novel'].module)")
    assert told.strip() == "novel", told


ARRAY = """
class Array:
    def __dlpack__(self, **keywords): return dlshim.to_capsule(bytearray(3))
    def __dlpack_device__(self): return 1, 0
import dlshim
Array.__module__ = "novel.arrays"
print(dlshim.inspect(Array()).library, dlshim.from_dlpack(Array()).readonly)
"""


def add_a_habit(copy: Copy) -> None:
    assert copy.run(code=ARRAY) == "None False\n"
    row = '    ("novel", "novel", "Array", "IMMUTABLE"),\n'
    copy.put("shim/habits.py", '    ("nanoarrow", "nanoarrow", "CBufferView",', row)
    assert copy.run(code=ARRAY) == "novel True\n"


def add_a_consumer(copy: Copy) -> None:
    row = 'Consumer("novel", "novel", "numpy", "numpy.novel", see_numpy), '
    copy.put("shim/known/numpy.py", 'Consumer("numpy", "numpy",', row)
    code = "from dlshim.matrix.consumers import CONSUMER_BY_KEY as c; print(c['novel'].name)"
    assert copy.run(code=code).strip() == "numpy.novel"


def add_a_command(copy: Copy) -> None:
    copy.write(f"shim/cli/{NEW}", "def main(arguments):\n    print('seen'); return 0\n")
    file = copy.file("shim/cli/main.py")
    text = file.read_text()
    file.write_text(re.sub(r"^COMMANDS = \(", 'COMMANDS = ("novel", ', text, flags=re.M))
    assert copy.run("novel") == "seen\n"


def add_an_option_of_a_command(copy: Copy) -> None:
    option = '    parser.add_argument("--novel", action="store_true", help="seen")\n'
    copy.put("shim/cli/streams.py", "    options = parser.parse_args(arguments)\n", option)
    assert re.search(r"--novel +seen", copy.run("streams", "--help"))
    assert "sync(P,S)" in copy.run("streams", "--novel")


WALKED = {
    "a cure for an object of a library": add_a_cure,
    "a cure by a method that objects of any library have": add_a_method,
    "an error text that ``explain`` knows": add_a_message,
    "a fault, or a release, of a known library": add_a_fault,
    "a library that follows the protocol": add_a_library,
    "a habit of a library that dlshim must know": add_a_habit,
    "a consumer that the matrix knows": add_a_consumer,
    "a command": add_a_command,
    "an option of a command": add_an_option_of_a_command,
}
#: A thing that is there, as each file of the row calls it.
THERE = {
    "a cure by an attribute that holds the array": r"\bml_dtypes\b",
    "a cure by the items of a list": r"\bstack\b",
    "a cure for a column or a table": r"\bpolars\b",
    "a consumer that C must know": r"\btorch\b",
    "an option": r"\balign\b",
    "a value of ``takes=``": r"(?i)capsule",
    "a library that ``dlshim.to`` makes arrays of": r"\bpolars\b",
    "a stream rule": r"\bS12\b",
    "a flag of DLPack": r"READ_ONLY\b",
    "a function of DLPack's C table": r"\bcurrent_work_stream\b",
    "a dtype": r"\bfloat8_e3m4\b|\be3m4\b|\bbfloat16\b",
    "a Python": r"\b3\.13\b",
}


def test_every_row_is_walked_or_looked_up() -> None:
    assert {*WALKED} | {*THERE} == {*ROWS} and not {*WALKED} & {*THERE}
    for row in ROWS:
        assert paths(row), row
        assert all((ROOT / path).exists() for path in paths(row)), row


@pytest.mark.parametrize("row", WALKED)
def test_a_thing_is_added_in_the_files_of_its_row(row: str, tmp_path: Path) -> None:
    WALKED[row](Copy(tmp_path, row))


@pytest.mark.parametrize("row", THERE)
def test_each_file_of_a_row_knows_a_thing_that_is_there(row: str) -> None:
    unaware = [path for path in paths(row) if not re.search(THERE[row], (ROOT / path).read_text())]
    assert unaware == []
