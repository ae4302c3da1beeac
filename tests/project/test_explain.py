"""`python -m dlshim explain`: every row is found by its example, and our own texts are current."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from typing import Any

import pytest
from project.test_matrix import NO_RICH, command, environment
from project.tree import ROOT, SRC, read_toml, without_comments

from dlshim.cli import explain
from dlshim.cli.messages import MESSAGES, SUBJECTS, Message
from dlshim.trial.expressions import line_of
from interop.test_messages import positions

SAMPLES = read_toml(ROOT / "tests" / "interop" / "messages.toml")
EXAMPLES: list[dict[str, Any]] = SAMPLES["message"]
KEYS = [row.key for row in MESSAGES]


def name(example: dict[str, Any]) -> str:
    return f"{example['row']}-{EXAMPLES.index(example)}"


# ---- the rows -------------------------------------------------------------------------------


def test_keys_are_unique_and_every_row_has_an_example() -> None:
    assert len(set(KEYS)) == len(KEYS) > 40
    wanted = "each row has an example in tests/interop/messages.toml"
    assert set(KEYS) == {example["row"] for example in EXAMPLES}, wanted
    assert {row["key"] for row in SAMPLES["row"]} <= set(KEYS)


@pytest.mark.parametrize("example", EXAMPLES, ids=name)
def test_the_example_finds_its_row_first(example: dict[str, Any]) -> None:
    found = explain.find(example["text"])
    assert found and found[0].key == example["row"], [row.key for row in found]
    assert ("make" in example) != ("source" in example), "it is made here, or told from where"


@pytest.mark.parametrize("example", EXAMPLES, ids=name)
def test_what_raises_is_what_the_cures_are_tried_with(example: dict[str, Any]) -> None:
    """Else a cure may fail with the very function that says the message."""
    given_x = re.match(r"([\w.]+)\(x\)", example.get("make", ""))
    if given_x and "consumer" in example:
        assert given_x[1] in ("consumer", example["consumer"])


@pytest.mark.parametrize("row", MESSAGES, ids=lambda row: row.key)
def test_cures_are_code(row: Message) -> None:
    for cure in row.cures:
        ast.parse(cure)
        assert len(cure) <= 90, "it has to stand in one line of a terminal"
    assert row.cause.endswith(".")
    assert row.versions and not row.versions.endswith("."), "who says it, and since when"


def test_every_cure_is_typed_in_somewhere() -> None:
    """By an example that is run with real libraries, which compares values; or elsewhere."""
    typed = {(row.key, at): 0 for row in MESSAGES for at in range(len(row.cures))}
    for example in EXAMPLES:
        count = len(next(row.cures for row in MESSAGES if row.key == example["row"]))
        for at in positions(example, count) if "make" in example else ():
            typed[example["row"], at] += 1
    elsewhere = {(each["row"], each["cure"]): each for each in SAMPLES["elsewhere"]}
    assert {where for where, times in typed.items() if not times} == set(elsewhere)
    for each in elsewhere.values():
        path, _, test = each.get("test", "").partition("::")
        assert each.get("why") or f"def {test}(" in (ROOT / path).read_text()


def test_references_are_rules_or_issues() -> None:
    for row in SAMPLES["row"]:
        for cited in row["see"]:
            assert re.fullmatch(r"[TNS]\d+|[\w.-]+/[\w.-]+#\d+", cited)


def test_the_page_has_every_row_once() -> None:
    page = (ROOT / "docs" / "troubleshooting.rst").read_text()
    told = re.findall(r"^\.\. dlshim-messages:: (\S+)$", page, re.M)
    assert sorted(told) == sorted(SUBJECTS)


# ---- our own texts ----------------------------------------------------------------------------


def own_texts() -> list[str]:
    """Every text of the C sources, adjacent literals joined and formats replaced by a value."""
    texts = []
    for path in SRC.rglob("*"):
        if path.suffix in (".c", ".h", ".def"):
            code = without_comments(path.read_text()).replace("\\\n", "\n")
            for joined in re.findall(r'"(?:\\.|[^"\\])*"(?:\s*"(?:\\.|[^"\\])*")*', code):
                text = (
                    "".join(re.findall(r'"((?:\\.|[^"\\])*)"', joined))
                    .replace('\\"', '"')
                    .replace("\\n", "\n")
                )
                texts.append(re.sub(r"%[-.\d]*(?:l|z|ll)?[a-zA-Z]", "text", text))
    return texts


def looked_up() -> list[str]:
    """The texts that a look at the object finds."""
    paths = (ROOT / "shim").glob("cure*.py")
    nodes = (node for path in paths for node in ast.walk(ast.parse(path.read_text())))
    literals = [each.value for each in nodes if isinstance(each, ast.Constant)]
    return [each for each in literals if isinstance(each, str)]


#: Examples of what dlshim itself says.
OURS = [e for e in EXAMPLES if e["row"].startswith("own-") or "' object: it" in e["text"]]


@pytest.mark.parametrize("example", OURS, ids=name)
def test_a_text_of_dlshim_is_one_that_the_sources_have(example: dict[str, Any]) -> None:
    row = next(row for row in MESSAGES if row.key == example["row"])
    found = next(each for each in row.patterns if re.search(each, example["text"]))
    texts = [*own_texts(), *looked_up()]
    assert any(re.search(found, text) for text in texts), f"gone stale: {found}"


def test_every_refusal_is_known() -> None:
    text = "BufferError: 'some.Type' object: whatever the reason is"
    assert [row.key for row in explain.find(text)] == ["own"]
    assert "'%U' object: %U" in (SRC / "python" / "errors.c").read_text()


# ---- what is found in what ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "TypeError: Series constructor called with unsupported type 'dict' for the `values` param",
        "TypeError: a bytes-like object is required, not 'TensorShape'",
        "TypeError: can't convert np.ndarray of type numpy.clongdouble. The only supported types",
    ],
)
def test_a_text_that_only_looks_alike_is_not_known(text: str) -> None:
    """No cure with dlshim helps there."""
    assert explain.find(text) == []


def test_the_last_error_of_a_traceback_counts_most() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "a.py", line 1, in <module>\n'
        "BufferError: DLPack only supports native byte order.\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\n"
        "RuntimeError: from_dlpack received an\ninvalid capsule. Note that ...\n"
    )
    assert [row.key for row in explain.find(text)] == ["invalid-capsule", "byte-order"]


def test_what_is_no_message_is_not_found() -> None:
    for text in ("", "hello", "KeyError: 'a'", "TypeError: unsupported operand type(s) for +"):
        assert explain.find(text) == []


# ---- the command ------------------------------------------------------------------------------


def test_help_has_examples() -> None:
    done = command("explain", "--help")
    assert done.returncode == 0 and "examples:" in done.stdout and "TEXT" in done.stdout


@pytest.mark.parametrize("before", ["", NO_RICH], ids=["rich", "plain"])
def test_it_says_why_and_what_to_type(before: str) -> None:
    if not before:
        pytest.importorskip("rich", reason="rich is not installed")
    done = command("explain", "Cannot export readonly array since signalling readonly is "
                   "unsupported by DLPack", before=before)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "read-only" in done.stdout and 'readonly="share"' in done.stdout
    assert "x: what it was given" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_an_unknown_message_says_what_to_do() -> None:
    done = command("explain", "something", "else")
    assert done.returncode == 1
    for told in ("doctor", "inspect", "upgrade"):
        assert told in done.stdout


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_text_is_refused(text: str) -> None:
    done = command("explain", text)
    assert done.returncode == 2 and "empty" in done.stderr


def test_it_reads_standard_input_and_tells_three_at_most() -> None:
    text = "\n".join(example["text"] for example in EXAMPLES)
    done = subprocess.run(
        [sys.executable, "-m", "dlshim", "explain", "-"],
        input=text,
        env=environment(),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        cwd=ROOT,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("why ") == explain.MOST


def test_json_has_every_row_that_fits() -> None:
    text = "\n".join(example["text"] for example in EXAMPLES)
    done = command("explain", "--json", text)
    told = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert [each["key"] for each in told] == [row.key for row in explain.find(text)]
    first = next(row for row in MESSAGES if row.key == told[0]["key"])
    assert told[0] == {
        "key": first.key,
        "versions": first.versions,
        "cause": first.cause,
        "cures": [*first.cures],
    }
    unknown = command("explain", "--json", "something else")
    assert (unknown.returncode, unknown.stdout) == (1, "[]\n")


def test_no_array_library_is_imported() -> None:
    code = (
        "import sys; from dlshim.cli.main import main\n"
        "main(['explain', 'received an invalid capsule'])\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "assert not loaded & {'numpy', 'torch', 'jax', 'pyarrow', 'tvm_ffi', 'ctypes'}, loaded\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


# ---- cures that are tried -----------------------------------------------------------------------

NEGATIVE = "BufferError: it has negative strides, and this consumer may not support them"
REVERSED = "memoryview(bytearray(range(3)))[::-1]"


@pytest.mark.parametrize(
    ("cure", "call", "line"),
    [
        (
            "consumer(dlshim.upgrade(x, copy=True))  # bits",
            "f(x)",
            "f(dlshim.upgrade(x, copy=True))",
        ),
        ("consumer(x.cells())", "f(x, axis=1)", "f(x.cells(), axis=1)"),
        ("x.detach()", "", "x.detach()"),
        ("consumer(x)", "", ""),
        ("f(consumer, x)", "f(x)", ""),
        ("consumer(x, copy=True)", "f(x)", ""),
        ("import ml_dtypes", "f(x)", ""),
        ("numpy.ones(3)", "f(x)", ""),
    ],
)
def test_a_cure_is_typed_with_the_function_that_failed(cure: str, call: str, line: str) -> None:
    assert line_of(cure, call) == line


def test_cures_are_tried_on_the_expression() -> None:
    done = command("explain", NEGATIVE, "--with", REVERSED, "--to", "builtins.memoryview(x)")
    assert done.returncode == 0, done.stderr
    lines = [line.strip() for line in done.stdout.splitlines()]
    at = lines.index("✗ builtins.memoryview(dlshim.upgrade(x, order='C'))")
    assert lines[at + 1].startswith("refused: TypeError: memoryview: a bytes-like object")
    told = command("explain", "--json", NEGATIVE, "--with", REVERSED, "--to", "dlshim.from_dlpack")
    first, *_ = json.loads(told.stdout)
    assert first["tried"]['consumer(dlshim.upgrade(x, order="C"))'] == "works"
    untold = command("explain", NEGATIVE, "--with", REVERSED)
    assert "✓" not in untold.stdout and "--to FUNCTION tries the lines" in untold.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--to", "torch"), "the expression that --with gives"),
        (("--with", "no_such_module.x", "--to", "builtins.len"), "EXPR cannot be evaluated"),
        (("--with", "bytes(3)", "--to", "no_such_module.f"), "no_such_module"),
    ],
)
def test_what_cannot_be_tried_is_wrong_usage(arguments: tuple[str, ...], said: str) -> None:
    done = command("explain", NEGATIVE, *arguments)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr


def test_of_an_unknown_message_nothing_is_tried() -> None:
    done = command("explain", "--json", "gibberish", "--with", "no_such_module.x")
    assert (done.returncode, done.stdout) == (1, "[]\n")
