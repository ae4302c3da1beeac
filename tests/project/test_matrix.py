"""The command line: help, the matrix on what needs no library, and its own judgement."""

from __future__ import annotations

import html
import importlib.util
import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from project.tree import ROOT, absent

import dlshim
from dlshim import libraries
from dlshim.cli import output
from dlshim.matrix import capsules, consumers, pairs, producers, run, screen

#: What changes how Python or rich writes; the tests hold whatever the machine has set.
WRITING = ("COLUMNS", "LINES", "TERM", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE")


def environment(**more: str) -> dict[str, str]:
    """The machine's variables but those that change what is written, and `more`."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in WRITING and (name == "PYTHONPATH" or not name.startswith("PYTHON"))
    }
    return {**kept, "PYTHONUTF8": "1", **more}


def command(
    *arguments: str, before: str = "", cwd: Path = ROOT, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m dlshim``, after some code where that is given."""
    if before:
        code = f"{before}\nimport runpy, sys; sys.argv = ['dlshim', *{list(arguments)!r}]\n"
        code += "runpy.run_module('dlshim', run_name='__main__')"
        line = [sys.executable, "-c", code]
    else:
        line = [sys.executable, "-m", "dlshim", *arguments]
    return subprocess.run(
        line,
        env=environment(**more),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=300,
        cwd=cwd,
    )


def test_without_arguments_it_prints_short_help() -> None:
    done = command()
    assert done.returncode == 0
    assert "matrix" in done.stdout and len(done.stdout.splitlines()) < 20
    assert command("--help").stdout == done.stdout


@pytest.mark.skipif(os.name != "posix", reason="no SIGPIPE on this system")
@pytest.mark.parametrize(
    "arguments",
    [
        ["streams"],
        ["streams", "--help"],
        [],
        ["matrix", "--help"],
        ["doctor"],
        ["doctor", "--json"],
        ["explain", "received an invalid capsule"],
        ["matrix", "--only", "stdlib,capsule", "--no-cost"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("buffered", [True, False], ids=["buffered", "unbuffered"])
def test_a_reader_that_goes_away_ends_it_silently(arguments: list[str], buffered: bool) -> None:
    """As `| head` does: no traceback, and the end of SIGPIPE, which a shell calls 141.

    It makes no difference when the output is written: at once, at the end, or in between.
    """
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "dlshim", *arguments],
            env=environment() if buffered else environment(PYTHONUNBUFFERED="1"),
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=300,
            cwd=ROOT,
        )
    finally:
        os.close(writing)
    assert done.stderr.strip() == ""
    assert done.returncode == -signal.SIGPIPE


@pytest.mark.skipif(os.name != "posix", reason="no shell on this system")
def test_head_gets_its_lines() -> None:
    command = f"'{sys.executable}' -m dlshim streams | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines()[-1] in ("0", "141")  # 0: all of it fitted into the pipe
    assert (done.stdout.splitlines()[0][:20], done.stderr) == ("What a producer is p", "")


def test_an_unknown_command_says_so() -> None:
    done = command("matrx")
    assert done.returncode == 2
    assert "matrx" in done.stderr and "matrix" in done.stderr


def test_options_are_listed() -> None:
    done = command("matrix", "--help")
    assert done.returncode == 0
    for option in ("--only", "--json", "--html", "--full", "--no-cost", "tensorflow", "examples:"):
        assert option in done.stdout


def test_the_version_is_told() -> None:
    done = command("--version")
    assert (done.returncode, done.stdout) == (0, f"dlshim {dlshim.__version__}\n")


NO_RICH = "import sys; sys.modules['rich'] = None"
NO_JINJA = "import sys; sys.modules['jinja2'] = None"


def test_without_jinja_it_says_what_to_install(tmp_path: Path) -> None:
    done = command("matrix", "--html", str(tmp_path / "page.html"), before=NO_JINJA)
    assert done.returncode == 2
    assert "pip install jinja2" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("option", ["--json", "--html"])
def test_a_file_that_cannot_be_written_is_refused_at_once(tmp_path: Path, option: str) -> None:
    if option == "--html" and importlib.util.find_spec("jinja2") is None:
        absent("jinja2 is not installed")
    done = command("matrix", option, str(tmp_path / "nowhere" / "file"))
    assert done.returncode == 2 and done.stdout == ""
    assert "nowhere" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("names", "told"), [("nompy", "unknown: nompy"), (",", "names no library")]
)
def test_a_wrong_name_is_refused(names: str, told: str) -> None:
    done = command("matrix", "--only", names)
    assert done.returncode == 2
    assert told in done.stderr


@pytest.mark.parametrize("before", ["", NO_RICH], ids=["rich", "plain"])
def test_the_matrix_of_what_is_built_in(tmp_path: Path, before: str) -> None:
    if not before and importlib.util.find_spec("rich") is None:
        absent("rich is not installed")
    file = tmp_path / "matrix.json"
    chosen = ("matrix", "--only", "stdlib,capsule", "--no-cost", "--full", "--json", str(file))
    done = command(*chosen, before=before, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert max(map(len, done.stdout.splitlines())) <= output.WIDTH
    told = json.loads(file.read_text())
    assert told["faults"] == 0 and told["broken"] == told["left_out"] == {}
    works = [cell for cell in told["cells"] if cell["upgraded"]["outcome"] == "works"]
    bare = [cell for cell in told["cells"] if cell["bare"]["outcome"] == "works"]
    assert len(works) > len(bare) + 30
    assert all(cell["upgraded"]["zero_copy"] in (True, None) for cell in works)
    of = f"of {len(told['cells'])}"
    by_option = re.search(rf" {len(bare)} {of} +(\d+) {of}, (\d+) by an option", done.stdout)
    assert by_option and int(by_option[1]) == len(works) + int(by_option[2])


@pytest.mark.parametrize("before", ["", NO_RICH], ids=["rich", "plain"])
def test_the_story_of_what_is_installed_is_one_screen(before: str) -> None:
    done = command("matrix", "--no-cost", before=before)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) <= 40 and max(map(len, lines)) <= output.WIDTH
    for told in (
        "What failed bare and works with dlshim",
        "silently wrong  ",
        "refused on purpose: ",
    ):
        assert told in done.stdout


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    """One file with both maps, the sums, and the reason of each pair; nothing is loaded."""
    if importlib.util.find_spec("jinja2") is None:
        absent("jinja2 is not installed")
    file = tmp_path / "page.html"
    done = command("matrix", "--only", "stdlib,capsule", "--no-cost", "--html", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    page = file.read_text(encoding="utf-8")
    assert 'id="before"' in page and 'id="after"' in page and "<details" in page
    assert "http:" not in page and "https:" not in page and "src=" not in page
    linked = re.findall(r'href="#([^"]+)"', page)
    assert linked and {html.escape(name) for name in linked} <= set(
        re.findall(r'id="([^"]+)"', page)
    )


# ---- its judgement --------------------------------------------------------------------------


def cell(producer: str, consumer: str, case: str, bare: Any = None, **upgraded: Any) -> pairs.Cell:
    exchange = pairs.Exchange(
        producers.PRODUCER_BY_KEY[producer],
        consumers.CONSUMER_BY_KEY[consumer],
        producers.CASE_BY_KEY[case],
    )
    return pairs.Cell(exchange, bare or REFUSED, upgraded)


REFUSED = {"outcome": "refused", "detail": "BufferError: no", "error": "BufferError"}
#: As rule T12 counts it.
READ_ONLY = REFUSED | {"detail": "BufferError: 'x.Y' object: it asked, which cannot say so; pass"}
WRONG = {"outcome": "wrong", "detail": "wrong: values"}
WORKS = {"outcome": "works"}
DIED = {"outcome": "died", "detail": "SIGABRT"}
COPY = "readonly='copy'"


@pytest.mark.parametrize(
    ("bare", "upgraded", "fault"),
    [
        (REFUSED, WORKS, None),
        (WORKS, WORKS, None),
        (REFUSED, REFUSED, None),
        (DIED, REFUSED, None),
        (WORKS, REFUSED, "rule T12 does not count it: BufferError"),
        (WORKS, REFUSED | {"cure": COPY}, "rule T12 does not count it"),
        (WORKS, READ_ONLY | {"cure": ""}, "no line that was tried works"),
        (WORKS, READ_ONLY | {"cure": COPY}, None),
        (REFUSED, WRONG, "wrong: values"),
        (WORKS, WRONG | {"cure": COPY}, "wrong: values"),
        (WRONG | {"detail": "wrong: shape"}, WRONG, "wrong: values"),
        # The library's own doing.
        (WRONG, WRONG, None),
        (REFUSED, DIED, "SIGABRT"),
        (DIED, DIED, "SIGABRT"),
    ],
)
def test_what_counts_as_a_fault(bare: Any, upgraded: Any, fault: str | None) -> None:
    made = cell("numpy", "torch", "line", bare, **upgraded)
    if fault is None:
        assert made.fault is None
    else:
        assert made.fault is not None and fault in made.fault


def test_the_reason_is_what_the_error_says() -> None:
    assert cell("numpy", "torch", "line", **WORKS).reason == ""
    assert cell("numpy", "torch", "line", **READ_ONLY).reason == "it asked, which cannot say so"
    told = cell("numpy", "torch", "line", outcome="refused", detail="TypeError: at 0x7f00: no")
    assert told.reason == "TypeError: at …: no"


@pytest.mark.parametrize(
    ("line", "cure"),
    [
        ("take(dlshim.upgrade(x, order='C'))", "order='C'"),
        ("take(dlshim.to_capsule(x, readonly='copy', align=64))", "readonly='copy', align=64"),
        ("take(dlshim.from_dlpack(x, order='C'))", "dlshim.from_dlpack(x, order='C')"),
        ("take(dlshim.upgrade(numpy.asanyarray(x)))", "dlshim.upgrade(numpy.asanyarray(x))"),
    ],
)
def test_a_cure_is_what_a_user_adds_to_the_call_or_passes_instead(line: str, cure: str) -> None:
    assert pairs.cure_in(line) == cure


def test_the_plan_holds_every_pair_that_is_here() -> None:
    versions = {"numpy": "2.4.6", "pyarrow": "15.0.2"}
    cells = pairs.plan(versions, {"numpy", "pyarrow", "capsule"})
    found = {(c.exchange.producer.key, c.exchange.consumer.key) for c in cells}
    assert ("numpy", "numpy") in found and ("pyarrow.Array", "capsule 0.x") in found
    # pyarrow takes DLPack from version 26 on.
    assert not any(consumer.startswith("pyarrow") for _, consumer in found)
    assert not any(producer == "ml_dtypes" for producer, _ in found)


def test_keys_are_unique_and_known() -> None:
    for rows in (producers.PRODUCERS, consumers.CONSUMERS, producers.CASES):
        keys = [row.key for row in rows]
        assert len(set(keys)) == len(keys)
    named = set(libraries.MATRIX) | set(libraries.BUILT_IN)
    for producer in producers.PRODUCERS:
        assert {producer.library, *producer.needs} <= named
        assert set(producer.cases) <= set(producers.CASE_BY_KEY)
    assert {consumer.library for consumer in consumers.CONSUMERS} <= named


def test_the_witness_reads_what_it_made() -> None:
    made = producers.PRODUCER_BY_KEY["capsule 1.x"].make(producers.CASE_BY_KEY["readonly"])
    contents = capsules.read_capsule(made.obj)
    assert contents.values == producers.CASE_BY_KEY["readonly"].values
    assert contents.readonly and contents.versioned and contents.address == made.address
    with pytest.raises(ValueError, match="not an unconsumed"):
        capsules.read_capsule(3)


@pytest.mark.parametrize(
    "more",
    [{"PYTHONIOENCODING": "ascii"}, {"PYTHONWARNINGS": "error"}],
    ids=lambda more: next(iter(more)),
)
def test_the_matrix_ends_well_whatever_the_terminal_bears(more: dict[str, str]) -> None:
    """A terminal without arrows is no error, and no file is left open."""
    done = command("matrix", "--only", "stdlib,capsule", "--no-cost", **more)
    assert (done.returncode, done.stderr.strip()) == (0, ""), done.stdout + done.stderr
    assert done.stdout.isascii() == ("PYTHONIOENCODING" in more)


# ---- what it tells --------------------------------------------------------------------------


def told(*cells: pairs.Cell) -> str:
    """All texts of the one screen."""
    report = pairs.Report({"numpy": "2.4.6"}, list(cells))
    spans = []
    for block in screen.one_screen(report):
        lines = [block.title, *(c for row in block.rows for c in row)] if isinstance(
            block, output.Table
        ) else block.lines  # fmt: skip
        spans += ["".join(text for text, _ in line) for line in lines]
    return "\n".join(spans)


def sums(text: str, what: str) -> tuple[str, str]:
    """What a line of the box says without dlshim, and upgraded."""
    rest = next(row for row in text.splitlines() if row.startswith(f"{what}  "))[len(what) :]
    bare, _, upgraded = rest.strip().partition("  ")
    return bare, upgraded.strip()


def test_what_is_silently_wrong_and_what_is_lost_stand_in_the_box() -> None:
    text = told(
        cell("numpy", "torch", "line", WORKS, **WORKS),
        cell("numpy", "torch", "grid", WRONG, **WORKS),
        cell("numpy", "onnxruntime", "readonly", WORKS, **READ_ONLY, cure=COPY),
        cell("numpy", "jax", "line", {"outcome": "died", "detail": "SIGABRT"}, **WORKS),
        cell("capsule 0.x", "numpy", "line", REFUSED, **WORKS),
    )
    assert sums(text, "right between libraries") == ("2 of 4", "4 of 4, 1 by an option")
    assert "\nand with buffers, raw capsules 2 of 5" in text and "5 of 5, 1 by an option" in text
    assert sums(text, "silently wrong") == ("1", "0")
    assert sums(text, "the process was killed") == ("1", "0")
    assert "refused on purpose: 1 of the 2 that work bare; 1 work with an option" in text
    assert "impossible: 0" in text
    assert COPY in text and "process killed, SIGABRT" in text


def test_it_begins_with_exchanges_told_in_words() -> None:
    """What people meet first, one of each case; what works bare, and what does not, is no story."""
    text = told(
        cell("numpy", "torch", "line", WORKS, **WORKS),
        cell("numpy", "torch", "grid", REFUSED, **REFUSED),
        cell("numpy", "warp", "step", REFUSED, **WORKS),
        cell("numpy", "onnxruntime", "readonly", REFUSED, **READ_ONLY, cure=COPY),
        cell("ml_dtypes", "onnxruntime", "bfloat16", WRONG, **WORKS),
        cell("ml_dtypes", "tvm_ffi", "bfloat16", REFUSED, **WORKS),
    )
    assert text.splitlines()[:4] == [
        "For example",
        "  numpy+ml_dtypes, bfloat16, into onnxruntime: silently wrong, now works",
        "  numpy, read-only, into onnxruntime: refused, now works with readonly='copy'",
        "  numpy, every second element, into warp: refused, now works",
    ]


def test_no_figure_changes_from_run_to_run_and_no_address_is_of_the_repository() -> None:
    timed = [
        cell("numpy", "torch", "line", WORKS | {"ns": 500}, **WORKS, ns=500 + more)
        for more in (-40, 90, 300)
    ]
    lost = cell("numpy", "onnxruntime", "readonly", WORKS, **READ_ONLY, cure=COPY)
    text = told(*timed, lost)
    assert "an exchange takes less than 1 us more" in text
    assert "rule" not in text and ".rst" not in text


def test_the_heat_map_counts_what_works_with_an_option() -> None:
    """A pair of which every array works by an option is not shown as one of which none does."""
    from dlshim.matrix.page import Spot

    spot = Spot.of(
        [
            cell("numpy", "onnxruntime", "line", WORKS, **WORKS),
            cell("numpy", "onnxruntime", "readonly", WORKS, **READ_ONLY, cure=COPY),
        ]
    )
    assert (spot.style(True), spot.shown(True)) == ("t10", "1+1")
    assert (spot.style(False), spot.shown(False)) == ("t10", "2")


def test_each_exchange_is_in_one_sum_of_the_box() -> None:
    """Those that work upgraded, those with a cure, and those that nothing cures."""
    text = told(
        cell("numpy", "torch", "line", WORKS, **WORKS),
        cell("numpy", "torch", "reversed", WORKS, **READ_ONLY, cure=COPY),
        cell("numpy", "pyarrow.Array", "grid", REFUSED, **REFUSED),
    )
    assert sums(text, "right between libraries") == ("2 of 3", "2 of 3, 1 by an option")
    assert "\nimpossible: 1" in text
    assert "nothing that should work fails" in text


def test_what_works_bare_and_is_not_counted_is_a_fault() -> None:
    """The list of rule T12 is all that may be lost."""
    lost = cell("numpy", "pyarrow.Array", "bool", WORKS, **REFUSED)
    assert lost.counted is None
    assert lost.fault is not None and "rule T12" in lost.fault
    text = told(lost, cell("numpy", "onnxruntime", "readonly", WORKS, **READ_ONLY, cure=COPY))
    assert "refused on purpose: 2 of the 2 that work bare; 1 work with an option" in text
    assert "1 that should work do not" in text


def test_the_cures_of_one_reason_are_told_apart() -> None:
    cells = [
        cell("numpy", "tensorflow", "readonly", **READ_ONLY, cure=COPY),
        cell("numpy", "nanoarrow", "readonly", WORKS, **READ_ONLY, cure="dlshim.from_dlpack(x)"),
    ]
    (table,) = screen._limits(cells)
    told = {tuple("".join(text for text, _ in part) for part in row) for row in table.rows}
    why = "it asked, which cannot say so"
    assert (why, "tensorflow", COPY, "—", "1") in told
    assert (why, "nanoarrow", "dlshim.from_dlpack(x)", "1", "1") in told


def test_the_grid_counts_as_the_box_does() -> None:
    """What works with a plain upgrade, and apart from it what a cure adds."""
    cells = [
        cell("numpy", "torch", "line", WORKS, **WORKS),
        cell("numpy", "torch", "reversed", REFUSED, **READ_ONLY, cure=COPY),
    ]
    grid, *_ = screen._exchanges(pairs.by_pair(cells))
    texts = ["".join(text for text, _ in part) for row in grid.rows for part in row]
    assert "1→1+1" in [text.strip() for text in texts]
    told_of = sums(told(*cells), "right between libraries")
    assert told_of == ("1 of 2", "2 of 2, 1 by an option")


def test_what_is_wrong_with_the_wrapper_too_is_said_to_be_the_consumer_s() -> None:
    text = told(cell("onnxruntime", "torch", "bool", WRONG, **WRONG))
    assert sums(text, "silently wrong") == ("1", "1")
    assert "upgraded, 1 by the library's own doing, as bare: torch: wrong: values" in text


def test_the_box_says_who_copies_what_is_not_shared() -> None:
    def at(consumer: str, zero_copy: bool) -> pairs.Cell:
        return cell("numpy", consumer, "line", WORKS, **WORKS, zero_copy=zero_copy)

    text = told(at("torch", True), at("jax", True), at("jax", False), at("mlx", False))
    assert "shared, not copied: 2 of the 4 upgraded ones that show addresses" in text
    assert "jax copies 1 of its 2" in text
    assert "mlx copies 1 of its 1" in text


def test_the_place_of_a_check_in_the_source_is_left_out() -> None:
    """onnxruntime's errors begin with the file and the signature of the function."""
    where = (
        "RuntimeError: /onnxruntime_src/onnxruntime/core/dlpack/dlpack_converter.cc:250 OrtValue "
    )
    said = "f(DLManagedTensor*, bool) IsContiguousTensor(dlpack->dl_tensor) was false. ORT only "
    told = pairs.complaint({"outcome": "refused", "detail": f"{where}{said}supports this."})
    assert told == "RuntimeError: ORT only supports this."


def test_a_version_stays_beside_its_name() -> None:
    versions = {f"library_{number}": "1.2.3" for number in range(9)}
    told = screen._versions(pairs.Report(versions, [])).lines
    lines = ["".join(text for text, _ in line) for line in told]
    assert len(lines) > 1 and max(map(len, lines)) <= output.WIDTH
    assert [line[:11] for line in lines] == ["Libraries  ", *[" " * 11] * (len(lines) - 1)]
    words = " ".join(lines).split()[1:]
    assert words == [word for each in versions.items() for word in each]
    assert all(line.split()[-1] == "1.2.3" for line in lines)


def test_no_line_of_the_box_is_too_wide() -> None:
    cells = [
        cell(producer, consumer, "line", WORKS, **WORKS, zero_copy=False, warned=True, ns=1)
        for producer in producers.PRODUCER_BY_KEY
        if "line" in producers.PRODUCER_BY_KEY[producer].cases
        for consumer in consumers.CONSUMER_BY_KEY
    ]
    box = screen.verdict(pairs.Report({}, cells * 20))
    assert max(len("".join(text for text, _ in line)) for line in box.lines) <= output.WIDTH - 4


@pytest.mark.parametrize("lines", [0, 2, 4])
@pytest.mark.parametrize("draw", ["rich", "plain"])
def test_the_screen_is_one_whatever_is_installed(
    lines: int, draw: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tables have fewer rows where the other lines are many."""
    if draw == "rich" and importlib.util.find_spec("rich") is None:
        absent("rich is not installed")
    monkeypatch.setattr(output, "find_spec", lambda name: draw == "rich")
    cells = [
        cell("numpy", consumer, case, bare, **upgraded, zero_copy=consumer not in ("jax", "mlx"))
        for consumer in ("numpy", "torch", "jax", "mlx", "onnxruntime", "warp")
        for case, bare, upgraded in (("line", REFUSED, WORKS), ("grid", WRONG, WORKS))
    ]
    cells += [
        cell("numpy", consumer, "readonly", WORKS, **READ_ONLY, cure=COPY)
        for consumer in ("onnxruntime", "warp")
    ]
    left_out = {f"library {number}": "it is not installed" for number in range(lines)}
    output.show(screen.one_screen(pairs.Report({"numpy": "2.4.6"}, cells, left_out=left_out)))
    drawn = capsys.readouterr().out
    assert drawn.count("\n") <= output.HEIGHT, drawn
    for title in ("What failed bare", "What was silently wrong", "What works bare and not"):
        assert title in drawn


# ---- nanobind -------------------------------------------------------------------------------


def test_nanobind_that_cannot_be_compiled_is_left_out_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "nanobind"
    fake.mkdir()
    (fake / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("dlshim.matrix.nanobind_module.shutil.which", lambda name: None)
    monkeypatch.delenv("CXX", raising=False)
    exchange = pairs.Exchange(
        producers.PRODUCER_BY_KEY["bytearray"],
        consumers.CONSUMER_BY_KEY["nanobind, writable"],
        producers.CASE_BY_KEY["uint8"],
    )
    for compiler, why in (("", "no C++ compiler"), ("false", "false fails")):
        if compiler:
            monkeypatch.setenv("CXX", compiler)
        report = run.run({"nanobind": "3.1.0"}, [pairs.Cell(exchange)])
        assert report.cells == [] and why in report.left_out["into nanobind"]


def test_without_nanobind_the_screen_says_so(tmp_path: Path) -> None:
    if importlib.util.find_spec("nanobind") is not None:
        pytest.skip("nanobind is installed")
    done = command("matrix", "--no-cost")
    assert "left out: into nanobind: it is not installed" in done.stdout


def test_exchanges_with_a_warning_are_counted() -> None:
    warned = WORKS | {"warned": True}
    text = told(
        cell("numpy", "torch", "line", WORKS, **WORKS),
        cell("numpy", "torch", "readonly", WORKS, **warned),
    )
    assert "read-only memory that torch may write: 1, each with a warning" in text
    assert "each with a warning" not in told(cell("numpy", "torch", "line", WORKS, **WORKS))


def test_a_wrong_result_of_an_upgraded_exchange_is_counted() -> None:
    text = told(cell("numpy", "torch", "line", WORKS, **WRONG))
    assert sums(text, "silently wrong") == ("0", "1")
    assert "1 that should work do not" in text


def test_plain_text_wraps_and_cuts(capsys: pytest.CaptureFixture[str]) -> None:
    columns = [output.Column("who"), output.Column("what", wide=True)]
    for one_line in (True, False):
        table = output.Table(output.line("t"), columns, one_line=one_line)
        table.add("x", "word " * 60)
        output._print([table])
        out = capsys.readouterr().out.splitlines()
        assert max(map(len, out)) <= output.WIDTH
        assert ("…" in out[3]) == one_line and len(out) == (5 if one_line else 8)


@pytest.mark.parametrize("draw", ["_print", "_draw"])
def test_control_characters_of_libraries_are_shown_and_not_obeyed(
    draw: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In what a library says and in its version, which `doctor` and `matrix` show."""
    if draw == "_draw" and importlib.util.find_spec("rich") is None:
        absent("rich is not installed")
    said = output.line(("Error: \x1b]0;title\x07 \x9b31m", "bad"))
    table = output.Table(said, output.columns(["a", "b"]), [[said, said]])
    getattr(output, draw)([table, output.Note([said]), output.Box("box", [said])])
    out = capsys.readouterr().out
    assert out.count("\\x1b]0;title\\x07 \\x9b31m") == 5
    assert all(char.isprintable() or char == "\n" for char in out)


def test_a_narrow_terminal_cuts_texts_and_loses_no_column(monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("rich") is None:
        absent("rich is not installed")
    from rich.console import Console as Terminal

    columns = [
        output.Column("into"),
        output.Column("what", wide=True),
        output.Column("cases"),
    ]
    table = output.Table(output.line("t"), columns, one_line=True)
    table.add("a consumer", "word " * 60, "12345")
    terminal = Terminal(width=60, record=True, file=io.StringIO())
    terminal.print(output._rich_table(table, 60))
    text = terminal.export_text()
    assert "a consumer" in text and "12345" in text and "into" in text and "…" in text


def test_a_page_of_no_exchange_is_not_written(tmp_path: Path) -> None:
    if importlib.util.find_spec("jinja2") is None or importlib.util.find_spec("ml_dtypes") is None:
        absent("jinja2 and ml_dtypes are needed")
    file = tmp_path / "page.html"
    done = command("matrix", "--only", "ml_dtypes", "--no-cost", "--html", str(file))
    assert done.returncode == 1 and not file.exists()


# ---- the child process --------------------------------------------------------------------------


class Dies:
    """In the place of the child: it dies of the second exchange, or of its imports."""

    def __init__(self, of_imports: bool = False) -> None:
        self.process: object = None
        self.imports = self.asked = 0
        self.of_imports = of_imports

    def ask(self, *, function: str, **job: Any) -> dict[str, Any]:
        if function == "libraries":
            self.imports += 1
            self.process = None if self.of_imports else self
            return {"died": "SIGSEGV", "step": "import"} if self.of_imports else {"broken": {}}
        self.asked += 1
        if self.asked == 2:
            self.process = None
            return {"died": "SIGABRT: no", "step": "call"}
        return {"outcome": "works", "zero_copy": True, "writable": True, "warned": False}

    def close(self) -> None:
        self.process = None


class Refuses(Dies):
    """In the place of the child: it takes an array by one line alone, and dies of another."""

    def __init__(self, right: str, deadly: str = "") -> None:
        super().__init__()
        self.right, self.deadly, self.lines = right, deadly, [""]

    def ask(self, *, function: str, **job: Any) -> dict[str, Any]:
        self.process = self
        self.lines.append(job["line"] or "plain")
        if job["line"] == self.deadly:
            self.process = None
            return {"died": "SIGABRT", "step": "call"}
        return WORKS if job["line"] == self.right else READ_ONLY | {"detail": SAYS}


SAYS = "BufferError: 'x.Y' object: no; pass readonly='share', readonly='copy' or order='C'"


def cure_of(child: Refuses, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(run, "Child", lambda: child)
    group = run._Group("upgraded", {}, None)
    return str(group.carry_out(cell("numpy", "torch", "line"), cost=False)["cure"])


def test_the_lines_that_the_error_names_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sharing read-only memory is not: nobody sees whether it is written to."""
    child = Refuses("take(dlshim.upgrade(x, order='C'))")
    assert cure_of(child, monkeypatch) == "order='C'"
    assert child.lines[1] == "plain" and not any("share'" in line for line in child.lines)
    child = Refuses("take(dlshim.from_dlpack(x))")
    assert cure_of(child, monkeypatch) == "dlshim.from_dlpack(x)"


def test_after_a_line_that_ends_the_process_no_other_is_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    child = Refuses("none", deadly="take(dlshim.upgrade(x, readonly='copy'))")
    assert cure_of(child, monkeypatch) == ""
    assert child.lines[-1] == child.deadly


def outcomes_of(child: Dies, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    monkeypatch.setattr(run, "Child", lambda: child)
    cells = pairs.plan({}, set(libraries.BUILT_IN))[:4]
    run._run_group("bare", cells, {}, lambda cell: None, cost=False, nanobind=None)
    return [(cell.bare["outcome"], cell.bare.get("detail", "")) for cell in cells]


def test_after_a_death_another_child_imports_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    child = Dies()
    works, died = ("works", ""), ("died", "SIGABRT: no")
    assert outcomes_of(child, monkeypatch) == [works, died, works, works]
    assert child.imports == 2


def test_where_imports_end_the_process_nothing_is_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    child = Dies(of_imports=True)
    assert set(outcomes_of(child, monkeypatch)) == {("died", "SIGSEGV")}
    assert (child.imports, child.asked) == (1, 0)
