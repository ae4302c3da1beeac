"""``python -m dlshim inspect``: an expression, a consumer, a report, an exit status."""

from __future__ import annotations

import json
import re

import pytest
from project.test_matrix import command
from project.tree import SRC

from dlshim import consumers

FLOATS = "memoryview(array.array('f', [1, 2, 3]))"
TORCH = "import sys, types; m = sys.modules['torch'] = types.ModuleType('torch')\n"
TORCH += "m.__version__ = '2.13.0'"


def test_what_works_ends_with_0() -> None:
    done = command("inspect", f"dlshim.upgrade({FLOATS})", "--to", "torch", before=TORCH)
    assert done.returncode == 0, done.stderr
    assert "to torch.from_dlpack 2.13.0" in done.stdout and "zero copy" in done.stdout


def test_what_does_not_ends_with_1_and_the_cure() -> None:
    done = command("inspect", f"{FLOATS}[::-1]", "--to", "torch", before=TORCH)
    assert done.returncode == 1, done.stderr
    assert 'torch.from_dlpack(dlshim.upgrade(x, order="C"))' in done.stdout


def test_what_cannot_be_told_ends_with_1() -> None:
    done = command("inspect", "bytearray(3)", "--to", "torch", before=TORCH.replace("2.13", "99"))
    assert done.returncode == 1
    assert "not verified" in done.stdout


def test_without_a_consumer_it_is_the_report() -> None:
    done = command("inspect", "bytearray(3)")
    assert done.returncode == 0
    assert done.stdout.startswith("dlshim report on builtins.bytearray")
    assert command("inspect", "3.0").returncode == 1


def test_json() -> None:
    done = command("inspect", "b'abc'", "--to", "torch", "--json", "--export", before=TORCH)
    told = json.loads(done.stdout)
    assert told["shape"] == [3] and told["readonly"] is True
    (verdict,) = told["verdicts"]
    assert verdict["upgraded"]["result"] == "works"
    assert verdict["cure"] == 'torch.from_dlpack(dlshim.upgrade(x, readonly="copy"))'
    assert "ReadOnlyWarning" in verdict["what"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["b''", "--to", "torhc"], "torch.from_dlpack"),
        (["b'", "--to", "torch"], "SyntaxError"),
        (["no_such_module_here.ones(3)"], "ModuleNotFoundError"),
        (["1 / 0"], "ZeroDivisionError"),
        ([], "EXPR"),
    ],
)
def test_wrong_usage_ends_with_2(arguments: list[str], told: str) -> None:
    done = command("inspect", *arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert told in done.stderr and "Traceback" not in done.stderr


def test_the_consumers_of_which_dlshim_warns_are_those_of_the_table() -> None:
    rows = (SRC / "exchange" / "libraries.def").read_text()
    modules = set(re.findall(r'^HEEDS_NOT\("(\w+)\.', rows, re.M))
    assert modules and {row.library for row in consumers.CONSUMERS if row.warned} == modules


def test_modules_are_imported_where_they_are_named() -> None:
    """Modules in modules too; what the expression binds itself is no module."""
    expression = "[bytes(xml.dom.minidom.Node.TEXT_NODE) for x in (1,)][0]"
    assert command("inspect", expression).returncode == 0


def test_help_says_that_it_is_evaluated() -> None:
    done = command("inspect", "--help")
    assert done.returncode == 0
    for word in ("evaluated", "--to", "--export", "--json", "examples:", "torch.asarray"):
        assert word in done.stdout
