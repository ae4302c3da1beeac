"""``python -m dlshim inspect``: an expression, a consumer, a report, an exit status."""

from __future__ import annotations

import json
import re

import pytest
from project.test_matrix import command

from dlshim import consumers, habits

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
    assert 'torch.from_dlpack(dlshim.upgrade(x, order="auto"))' in done.stdout


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
        (["b''", "--to", "torhc"], "libraries are known: "),
        (["b''", "--to", "torch.tensor"], "torch.from_dlpack"),
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


#: Classes with names and errors that a terminal would obey, and objects that end the process.
RUDE = r"""
import sys, types
m = sys.modules["rude"] = types.ModuleType("rude")
m.__version__ = "1\x1b[2J"
TEXT = "\x1b]0;title\x07 \x9b31m \u202e \x7f"

def leave(*_, **__):
    raise SystemExit

def fail(*_, **__):
    raise BufferError(TEXT)

on_host = {"__dlpack_device__": lambda self: (1, 0)}
m.Named = type(f"N{TEXT}\nfake", (), {**on_host, "__module__": TEXT, "__dlpack__": fail})
m.Proxy = type("Proxy", (), {"__getattr__": leave})
m.Asked = type("Asked", (), {"__dlpack_device__": leave, "__dlpack__": leave})
m.Exported = type("Exported", (), {**on_host, "__dlpack__": leave})
m.Unread = type("Unread", (), {"__getattr__": lambda *_: 1 / 0})
m.fail = fail
"""


def unseen(text: str) -> set[str]:
    return {char for char in text if not char.isprintable()} - {"\n"}


@pytest.mark.parametrize(
    "more", [(), ("--export",), ("--to", "torch"), ("--export", "--to", "numpy")]
)
def test_a_terminal_is_shown_no_control_characters(more: tuple[str, ...]) -> None:
    done = command("inspect", "rude.Named()", *more, before=RUDE)
    assert done.stdout.startswith("dlshim report on \\x1b]0;title\\x07 \\x9b31m \\u202e \\x7f.N")
    assert not unseen(done.stdout + done.stderr)
    assert "\\nfake" in done.stdout.splitlines()[0], "a name is one line"
    told = json.loads(command("inspect", "rude.Named()", *more, "--json", before=RUDE).stdout)
    assert "\x1b]0;title\x07" in told["type_name"], "data stay as they are"


def test_an_error_shows_no_control_characters() -> None:
    for expression in ("rude.fail()", "rude.Unread()", "'\x1b[2J' +"):
        done = command("inspect", expression, before=RUDE)
        assert done.returncode in (1, 2) and not unseen(done.stdout + done.stderr)
        assert "Traceback" not in done.stderr and "inspect: " in done.stderr


@pytest.mark.parametrize("more", [(), ("--json",), ("--export", "--to", "torch")])
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
    done = command("inspect", expression, *more, before=RUDE + "m.leave = leave\n")
    assert (done.returncode, done.stdout) == (status, "")
    reason = "ZeroDivisionError" if "Unread" in expression else "SystemExit"
    assert f"{'evaluated' if status == 2 else 'inspected'}: " in done.stderr
    assert reason in done.stderr and "Traceback" not in done.stderr


def test_an_export_that_ends_the_process_is_told() -> None:
    done = command("inspect", "rude.Exported()", before=RUDE)
    assert done.returncode == 0 and "__dlpack__" in done.stdout, "nothing is asked without --export"
    done = command("inspect", "rude.Exported()", "--export", "--json", before=RUDE)
    assert (done.returncode, done.stdout) == (1, "") and "SystemExit" in done.stderr


def test_the_consumers_of_which_dlshim_warns_are_those_of_the_table() -> None:
    modules = {name.partition(".")[0] for name, known in habits.MODULES if known == "HEEDS_NOT"}
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


def test_a_consumer_without_an_export_is_told_of_what_only_an_export_shows() -> None:
    image = (
        "type('Image', (), {'__array_interface__': property(lambda self: {'version': 3, 'shape': "
        "(2,), 'typestr': '|u1', 'data': memoryview(bytearray(2))})})()"
    )
    done = command("inspect", image, "--to", "torch", before=TORCH)
    assert "works, zero copy" in done.stdout and "unknown" not in done.stdout


@pytest.mark.parametrize("expression", ["[1.0, 2.0]", "range(3)"])
def test_an_object_that_cannot_be_exported_has_its_way_as_the_cure(expression: str) -> None:
    done = command("inspect", expression, "--to", "torch", before=TORCH)
    assert done.returncode == 1
    assert re.search(r"^ +cure +pass numpy\.asarray\(x\) instead$", done.stdout, re.M)


def test_help_lists_the_functions_of_a_library_on_a_line_of_its_own() -> None:
    listed = command("inspect", "--help").stdout.partition("consumers, ")[2]
    assert re.search(r'^  nanobind +"nanobind, writable parameter", "nanobind', listed, re.M)
    assert re.search(r"^  numpy +numpy\.from_dlpack, numpy\.asarray$", listed, re.M)
    assert max(map(len, listed.splitlines())) <= 100


@pytest.mark.parametrize("name", ["matrix", "doctor", "explain", "inspect", "streams"])
def test_help_begins_with_three_uses(name: str) -> None:
    """After the usage and at most three lines; the details stand below."""
    _, _, text = command(name, "--help").stdout.partition("\n\n")
    head, _, rest = text.partition("examples:\n")
    assert len(head.strip().splitlines()) <= 2, head
    uses = rest.partition("\n\n")[0].splitlines()
    assert len(uses) >= 3 and all("python" in line for line in uses), uses
