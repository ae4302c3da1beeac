"""``python -m dlshim inspect``: an expression, a consumer, a report, an exit status."""

from __future__ import annotations

import json
import subprocess

import pytest
from project.test_matrix import command
from project.tree import ROOT

FLOATS = "memoryview(array.array('f', [1, 2, 3]))"


def test_what_works_ends_with_0() -> None:
    done = command("inspect", f"dlshim.upgrade({FLOATS})", "--to", "numpy")
    assert done.returncode == 0, done.stderr
    assert "numpy.from_dlpack" in done.stdout and "same values, shares memory" in done.stdout


def test_what_does_not_ends_with_1_and_the_line_to_use() -> None:
    done = command("inspect", FLOATS, "--to", "numpy")
    assert done.returncode == 1, done.stderr
    assert "refused: " in done.stdout
    assert "use:  numpy.from_dlpack(dlshim.upgrade(x))" in done.stdout


def test_any_call_can_be_asked_about() -> None:
    done = command("inspect", FLOATS, "--to", "numpy.sum(x, axis=0)")
    assert done.returncode == 0, done.stderr
    assert "same result as with a plain array" in done.stdout


def test_all_shows_each_line_and_first_runs_before() -> None:
    first = "import sys, types; sys.modules['made'] = types.SimpleNamespace(x=[1.5])"
    short = command("inspect", "made.x", "--to", "numpy", "--first", first)
    every = command("inspect", "made.x", "--to", "numpy", "--first", first, "--all")
    assert "use:  numpy.from_dlpack(dlshim.upgrade(numpy.asarray(x)))" in short.stdout
    assert len(every.stdout.splitlines()) >= len(short.stdout.splitlines())
    assert command("inspect", "made.x", "--to", "numpy").returncode == 2


def test_without_a_consumer_it_is_the_report() -> None:
    done = command("inspect", "bytearray(3)")
    assert done.returncode == 0
    assert done.stdout.startswith("dlshim report on builtins.bytearray")
    assert command("inspect", "3.0").returncode == 1


def test_json() -> None:
    done = command("inspect", "b'abc'", "--to", "numpy", "--json", "--export")
    told = json.loads(done.stdout)
    assert told["shape"] == [3] and told["readonly"] is True
    (verdict,) = told["verdicts"]
    assert verdict["upgraded"]["result"] == "works"
    assert verdict["cure"] == "numpy.from_dlpack(dlshim.upgrade(x))"
    assert [each["line"] for each in verdict["tried"]][-1] == "numpy.from_dlpack(x)"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["b''", "--to", "no_such_library"], "No module named 'no_such_library'"),
        (["b''", "--to", "numpy.no_such"], "no_such"),
        (["b''", "--to", "1 +"], "expression of x"),
        (["b'", "--to", "numpy"], "SyntaxError"),
        (["no_such_module_here.ones(3)"], "ModuleNotFoundError"),
        (["no_such_module_here.ones(3)", "--to", "numpy"], "ModuleNotFoundError"),
        (["1 / 0"], "ZeroDivisionError"),
        (["b''", "--first", "1 / 0"], "ZeroDivisionError"),
        (["b''", "--first", "1 / 0", "--to", "numpy"], "ZeroDivisionError"),
        (["os.abort()", "--to", "numpy"], "it ends the process: SIGABRT"),
        ([], "EXPR"),
    ],
)
def test_wrong_usage_ends_with_2(arguments: list[str], told: str) -> None:
    done = command("inspect", *arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert told in done.stderr and "Traceback" not in done.stderr


RUDE = ROOT / "tests" / "programs" / "rude.py"


def unseen(text: str) -> set[str]:
    return {char for char in text if not char.isprintable()} - {"\n"}


def inspect_rude(expression: str, *more: str) -> subprocess.CompletedProcess[str]:
    """With a consumer a child evaluates the expression, after the code of ``--first``."""
    return command("inspect", expression, *more, "--first", RUDE.read_text())


@pytest.mark.parametrize(
    "more", [(), ("--export",), ("--to", "numpy"), ("--export", "--to", "numpy")]
)
def test_a_terminal_is_shown_no_control_characters(more: tuple[str, ...]) -> None:
    done = inspect_rude("rude.Named()", *more)
    head = "x = rude.Named()    " if "--to" in more else "dlshim report on "
    assert done.stdout.startswith(f"{head}\\x1b]0;title\\x07 \\x9b31m \\u202e \\x7f.N")
    assert not unseen(done.stdout + done.stderr)
    assert "\\nfake" in done.stdout.splitlines()[0], "a name is one line"
    told = json.loads(inspect_rude("rude.Named()", *more, "--json").stdout)
    assert "\x1b]0;title\x07" in told["type_name"], "data stay as they are"


def test_an_error_shows_no_control_characters() -> None:
    for expression in ("rude.fail()", "rude.Unread()", "'\x1b[2J' +"):
        done = inspect_rude(expression)
        assert done.returncode in (1, 2) and not unseen(done.stdout + done.stderr)
        assert "Traceback" not in done.stderr and "inspect: " in done.stderr


@pytest.mark.parametrize("more", [(), ("--json",), ("--export", "--to", "numpy")])
@pytest.mark.parametrize(
    ("expression", "status"),
    [
        ("exit()", 2),
        ("exit(0)", 2),
        ("rude.leave()", 2),
        ("rude.Proxy()", 1),
        ("rude.Asked()", 1),
        ("rude.Unread()", 1),
    ],
)
def test_what_ends_the_process_is_told(expression: str, status: int, more: tuple[str, ...]) -> None:
    done = inspect_rude(expression, *more)
    assert (done.returncode, done.stdout) == (status, "")
    reason = "ZeroDivisionError" if "Unread" in expression else "SystemExit"
    assert f"{'evaluated' if status == 2 else 'inspected'}: " in done.stderr
    assert reason in done.stderr and "Traceback" not in done.stderr


def test_an_export_that_ends_the_process_is_told() -> None:
    done = inspect_rude("rude.Exported()")
    assert done.returncode == 0 and "__dlpack__" in done.stdout, "nothing is asked without --export"
    done = inspect_rude("rude.Exported()", "--export", "--json")
    assert (done.returncode, done.stdout) == (1, "") and "SystemExit" in done.stderr


def test_modules_are_imported_where_they_are_named() -> None:
    """Modules in modules too; what the expression binds itself is no module."""
    expression = "[bytes(xml.dom.minidom.Node.TEXT_NODE) for x in (1,)][0]"
    assert command("inspect", expression).returncode == 0


def test_help_says_that_it_is_evaluated() -> None:
    done = command("inspect", "--help")
    assert done.returncode == 0
    for word in ("evaluated", "--to", "--export", "--json", "examples:", "--first"):
        assert word in done.stdout


@pytest.mark.parametrize("expression", ["[1.0, 2.0]", "range(3)"])
def test_an_object_that_cannot_be_exported_has_its_way_as_the_line_to_use(expression: str) -> None:
    done = command("inspect", expression, "--to", "numpy")
    assert done.returncode == 1
    assert "use:  numpy.from_dlpack(dlshim.upgrade(numpy.asarray(x)))" in done.stdout


@pytest.mark.parametrize("name", ["matrix", "doctor", "explain", "inspect", "streams"])
def test_help_begins_with_three_uses(name: str) -> None:
    """After the usage and at most three lines; the details stand below."""
    _, _, text = command(name, "--help").stdout.partition("\n\n")
    head, _, rest = text.partition("examples:\n")
    assert len(head.strip().splitlines()) <= 2, head
    uses = rest.partition("\n\n")[0].splitlines()
    assert len(uses) >= 3 and all("python" in line for line in uses), uses
