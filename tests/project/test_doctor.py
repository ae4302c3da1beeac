"""`python -m dlshim doctor`: its tables, its judgement, and the command."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from project.test_matrix import NO_RICH, command
from project.tree import ROOT, SRC, absent, read_toml

from dlshim import habits, libraries
from dlshim.cli import doctor, output
from dlshim.known.rows import Fault, unsaid_immutable
from dlshim.trial import samples
from interop import outcomes

# ---- the tables -----------------------------------------------------------------------------


@pytest.mark.parametrize("fault", libraries.FAULTS, ids=lambda fault: fault.library)
def test_a_fault_has_a_library_a_range_and_a_source(fault: Fault) -> None:
    assert fault.library in libraries.BY_KEY
    assert fault.harm in ("kills", "wrong", "leaks", "refuses")
    assert not fault.until or fault.since < fault.until
    assert fault.since and fault.what and fault.upgraded
    cases = {row["id"] for row in read_toml(ROOT / "tests" / "replays" / "replays.toml")["case"]}
    issue = re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", fault.source)
    source = fault.source
    assert issue or source == "habits.py" or source.removeprefix("case ") in cases


def unsaid(library: str) -> list[Fault]:
    """Its faults of arrays that never change, as rows.unsaid_immutable says them."""
    model = unsaid_immutable(library, (1,))
    return [
        fault
        for fault in libraries.FAULTS
        if fault.library == library and (fault.what, fault.upgraded) == (model.what, model.upgraded)
    ]


#: NumPy's scalars have no ``__dlpack__``, so none goes out bare.
MARKED = {
    re.split("[ .]", name)[0]
    for name, _, _, words in habits.LIBRARIES
    if "IMMUTABLE" in words.split()
} - {"numpy"}


@pytest.mark.parametrize("library", sorted(libraries.BY_KEY))
def test_doctor_says_of_every_library_with_marked_arrays_who_writes_all_the_same(
    library: str,
) -> None:
    """T8: dlshim knows that they never change, marks them, and warns nobody."""
    assert len(unsaid(library)) == (library in MARKED)
    spelled = [each for each in libraries.FAULTS if each.library == library]
    others = [each for each in spelled if "immutable" in each.what and each not in unsaid(library)]
    assert not others, "rows.unsaid_immutable() has the words"


def test_the_promise_and_doctor_name_who_is_marked_and_who_writes() -> None:
    modules = {module.partition(".")[0] for module, words in habits.MODULES if "HEEDS_NOT" in words}
    writers = {libraries.BY_KEY[module].title for module in modules}
    words = unsaid_immutable("jax", (1,)).upgraded
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    promise = re.search(
        r"Arrays of (.*?) never change and do not say it\. (.*?) all the same", text
    )
    assert promise is not None
    for library in MARKED:
        assert (libraries.BY_KEY[library].title or "Dr.Jit") in promise[1]
    for writer in writers:
        name = {"PyTorch": "torch", "PaddlePaddle": "Paddle"}.get(writer, writer)
        assert name in words and name in promise[2], writer


@pytest.mark.parametrize(
    ("library", "version", "count"),
    [("numpy", "1.23.5", 2), ("numpy", "1.24.0", 1), ("numpy", "2.2.5", 0), ("torch", "2.9.1", 5),
     ("cupy", "13.6.0", 1), ("cupy", "14.0.1", 2), ("nothing", "1.0", 0)],
)  # fmt: skip
def test_faults_are_those_of_the_release(library: str, version: str, count: int) -> None:
    assert len(libraries.faults(library, libraries.version_tuple(version))) == count


def test_drivers_are_named_as_the_code_names_them() -> None:
    assert f'"{doctor.DRIVERS["CUDA"]}"' in (SRC / "gpu" / "cuda.c").read_text()
    prefix = doctor.DRIVERS["ROCm"].removesuffix(".so")
    assert f'"{prefix}"' in (SRC / "gpu" / "hip.c").read_text()


# ---- the trial ----------------------------------------------------------------------------------


def test_samples_are_of_known_libraries() -> None:
    assert samples.SAMPLES.keys() <= libraries.BY_KEY.keys()


def test_nox_tries_every_library_or_says_why_not() -> None:
    told = read_toml(ROOT / "tests" / "interop" / "newest.toml")
    lacking = "each library of shim/known has a table in tests/interop/newest.toml: pip, or why"
    assert set(told) == set(libraries.BY_KEY), lacking
    assert {key for key, each in told.items() if "why" not in each} <= outcomes.LIBRARIES.keys()


#: A library that takes its neighbour's arrays, and dies of reversed ones.
PARTNER = """
import os, signal, numpy
__version__ = "1.2"
def from_dlpack(x):
    made = numpy.from_dlpack(x)
    if made.strides and min(made.strides) < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return made
"""


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """NumPy's arrays with the function of a library that is made up."""
    folder = tmp_path_factory.mktemp("partner")
    (folder / "partner.py").write_text(PARTNER)
    patched = pytest.MonkeyPatch()
    patched.syspath_prepend(str(folder))
    patched.setattr(samples, "SAMPLES", {**samples.SAMPLES, "partner": ("partner.no_such",)})
    steps: list[str] = []
    told = samples.quick({"numpy": "2", "partner": "1.2"}, steps.append)
    patched.undo()
    assert len(steps) == 2 * (len(samples.SAMPLES["numpy"]) + 1)
    return told


def test_arrays_are_counted_by_what_came_of_them(tried: dict[str, Any]) -> None:
    (pair,) = tried["pairs"]
    assert (pair["from"], pair["into"]) == ("numpy", "partner.from_dlpack")
    arrays = pair["arrays"]
    assert [each["bare"] for each in arrays] == ["works", "dies", "works", "works"]
    assert all(each["line"] and not each["harm"] for each in arrays)
    assert "[::-1]" in arrays[1]["array"] and "SIGKILL" in arrays[1]["bare_why"]


def test_what_cannot_be_made_is_left_out_with_the_reason(tried: dict[str, Any]) -> None:
    assert list(tried["left_out"]) == ["from partner, into numpy"]
    assert "no_such" in tried["left_out"]["from partner, into numpy"]


def test_how_a_function_asks_is_written_down(tried: dict[str, Any]) -> None:
    asked = {each["name"]: each for each in tried["asked"]}
    assert asked["numpy"]["gives"] in ("0.x", "0.x and 1.x")
    assert asked["partner"]["asks_for"] == asked["numpy"]["asks_for"] != None  # noqa: E711


def test_the_worst_of_a_pair_is_shown(tried: dict[str, Any]) -> None:
    told = {**tried, "works": True}
    text = "".join(
        text
        for block in doctor.tried_blocks(told)
        if isinstance(block, output.Table)
        for row in block.rows
        for cell in row
        for text, _ in cell
    )
    assert "ends the process" in text and "3/4" in text


# ---- the command ------------------------------------------------------------------------------


def doctor_json() -> dict[str, Any]:
    done = command("doctor", "--json")
    assert done.stderr == "" and done.returncode in (0, 1)
    told: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (0 if told["works"] else 1)
    return told


def test_json_has_what_a_report_needs() -> None:
    told = doctor_json()
    assert told["dlshim"].startswith("0.") and Path(told["extension"]).is_file()
    assert sys.version.split()[0] in told["python"]
    assert set(told["drivers"]) == {"CUDA", "ROCm", "SYCL"}
    # A library that this process has imported may add where it was built, as torch does ("+cu132").
    versions = {each["name"]: each["version"].partition("+")[0] for each in told["libraries"]}
    here = libraries.installed_versions().items()
    assert {name: version.partition("+")[0] for name, version in here}.items() <= versions.items()
    calls_that_pass = [pair["arrays"][0]["line"] for pair in told["pairs"]]
    assert told["works"] == all(calls_that_pass)


@pytest.mark.parametrize("before", ["", NO_RICH], ids=["rich", "plain"])
def test_it_is_told_in_a_terminals_width(before: str) -> None:
    if not before and importlib.util.find_spec("rich") is None:
        absent("rich is not installed")
    done = command("doctor", before=before)
    assert done.returncode in (0, 1) and done.stderr == ""
    for told in ("dlshim", "drivers", "child process"):
        assert told in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= output.WIDTH


def box_of(told: dict[str, Any]) -> str:
    box = doctor.tried_blocks(told)[-1]
    assert isinstance(box, output.Box)
    return "\n".join("".join(text for text, _ in row) for row in box.lines)


def test_without_libraries_it_says_so() -> None:
    told = {"asked": [], "pairs": [], "left_out": {}, "calls": 0, "children": 0, "works": True}
    assert "no two array libraries" in box_of(told)


def test_without_a_trial_nothing_is_tried() -> None:
    done = command("doctor", "--no-trial")
    assert done.returncode == 0 and "Installed libraries" in done.stdout
    assert "child process" not in done.stdout
    told = json.loads(command("doctor", "--no-trial", "--json").stdout)
    assert told["pairs"] == [] and told["works"]


def test_help_states_the_exit_status() -> None:
    done = command("doctor", "--help")
    assert done.returncode == 0 and "examples:" in done.stdout and "exit status" in done.stdout
    assert command("doctor", "--frob").returncode == 2


def test_no_array_library_is_imported_and_no_driver_is_opened() -> None:
    code = (
        "import sys; from dlshim import _core; from dlshim.cli.main import main\n"
        "main(['doctor', '--json'])\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "assert not loaded & {'numpy', 'torch', 'jax', 'pyarrow', 'tvm_ffi'}, loaded\n"
        "maps = open('/proc/self/maps').read() if sys.platform == 'linux' else ''\n"
        "assert not any(name in maps for name in ('libcuda', 'libamdhip', 'libsycl'))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_a_driver_in_the_loaders_path_is_found(tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_bytes(b"")
    done = command("doctor", "--json", LD_LIBRARY_PATH=str(tmp_path))
    assert json.loads(done.stdout)["drivers"]["CUDA"] is not None
