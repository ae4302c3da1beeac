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
from project.test_matrix import NEW, NO_RICH, OLD, command
from project.tree import ROOT, SRC, absent, read_toml

from dlshim import consumers, libraries, sources
from dlshim.cli import doctor, output
from dlshim.known.rows import Fault, unsaid_immutable


def expected(versions: dict[str, str]) -> dict[tuple[str, str], dict[str, Any]]:
    told = doctor.pairs(versions)
    return {(pair["from"], pair["into"]): pair for pair in told}


# ---- the tables -----------------------------------------------------------------------------


@pytest.mark.parametrize("fault", sources.FAULTS, ids=lambda fault: fault.library)
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
        for fault in sources.FAULTS
        if fault.library == library and (fault.what, fault.upgraded) == (model.what, model.upgraded)
    ]


#: Scalars of NumPy have no `__dlpack__`, so none goes out bare.
MARKED = {
    row.library
    for row in sources.SOURCES
    if row.immutable and not row.states and row.name != "numpy scalar"
}


@pytest.mark.parametrize("library", sorted(libraries.BY_KEY))
def test_doctor_says_of_every_library_with_marked_arrays_who_writes_all_the_same(
    library: str,
) -> None:
    """T8: dlshim knows that they never change, marks them, and warns nobody."""
    assert len(unsaid(library)) == (library in MARKED)
    spelled = [each for each in sources.FAULTS if each.library == library]
    others = [each for each in spelled if "immutable" in each.what and each not in unsaid(library)]
    assert not others, "rows.unsaid_immutable() has the words"


def test_the_promise_and_doctor_name_who_is_marked_and_who_writes() -> None:
    writers = {libraries.BY_KEY[row.library].title for row in consumers.CONSUMERS if row.warned}
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
    assert len(sources.faults(library, libraries.version_tuple(version))) == count


def test_drivers_are_named_as_the_code_names_them() -> None:
    assert f'"{doctor.DRIVERS["CUDA"]}"' in (SRC / "gpu" / "cuda.c").read_text()
    prefix = doctor.DRIVERS["ROCm"].removesuffix(".so")
    assert f'"{prefix}"' in (SRC / "gpu" / "hip.c").read_text()


# ---- what is expected ---------------------------------------------------------------------------


def test_old_releases_of_both_generations() -> None:
    told = expected({"numpy": "1.26.4", "torch": "2.8.0", "jax": "0.7.1", "pyarrow": "26.0.1"})
    assert told["numpy", "torch"]["bare"] and told["torch", "numpy"]["bare"]
    # pyarrow insists on DLPack 1.x, which none of the others gives.
    for source in ("numpy", "torch", "jax"):
        pair = told[source, "pyarrow.Tensor"]
        assert (pair["bare"], pair["upgraded"]) == (False, "works")
    assert told["pyarrow Array", "torch"]["upgraded"] == 'readonly="copy"'
    limits = {(case, option) for case, _, option in told["numpy", "jax"]["limits"]}
    assert ("float32, every second element", 'order="auto"') in limits


def test_a_release_that_takes_no_dlpack_is_no_consumer() -> None:
    told = expected({"numpy": "1.21.0", "torch": "2.15.0"})
    assert ("torch", "numpy") not in told
    assert (told["numpy", "torch"]["bare"], told["numpy", "torch"]["upgraded"]) == (None, "works")


@pytest.mark.parametrize("versions", [NEW, OLD], ids=["new", "old"])
def test_everything_can_be_asked(versions: dict[str, str]) -> None:
    told = expected(versions)
    assert len(told) > 50 and not any("ml_dtypes" in source for source, _ in told)


# ---- the command ------------------------------------------------------------------------------


def told_here() -> dict[str, Any]:
    done = command("doctor", "--json")
    assert done.stderr == "" and done.returncode in (0, 1)
    told: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (0 if told["works"] else 1)
    return told


def test_json_has_what_a_report_needs() -> None:
    told = told_here()
    assert told["dlshim"].startswith("0.") and Path(told["extension"]).is_file()
    assert sys.version.split()[0] in told["python"]
    assert set(told["drivers"]) == {"CUDA", "ROCm", "SYCL"}
    # A library that this process has imported may add where it was built, as torch does ("+cu132").
    versions = {each["name"]: each["version"].partition("+")[0] for each in told["libraries"]}
    here = libraries.installed_versions().items()
    assert {name: version.partition("+")[0] for name, version in here}.items() <= versions.items()
    assert told["works"] == all(pair["upgraded"] != "no" for pair in told["pairs"])


@pytest.mark.parametrize("before", ["", NO_RICH], ids=["rich", "plain"])
def test_it_is_told_in_a_terminals_width(before: str) -> None:
    if not before and importlib.util.find_spec("rich") is None:
        absent("rich is not installed")
    done = command("doctor", before=before)
    assert done.returncode in (0, 1) and done.stderr == ""
    for told in ("dlshim", "drivers", "pairs,"):
        assert told in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= output.WIDTH


def box_of(told: dict[str, Any]) -> str:
    box = doctor.blocks(told)[-1]
    assert isinstance(box, output.Box)
    return "\n".join("".join(text for text, _ in row) for row in box.lines)


def test_the_rows_add_up_to_the_sums_of_the_box() -> None:
    """What works bare and needs an option when upgraded (JAX into nanobind) is in a row of bare."""
    versions = {"numpy": "2.4.6", "jax": "0.10.2", "nanobind": "3.1.0", "nanoarrow": "0.9.0"}
    told = doctor.diagnose() | {"pairs": doctor.pairs(versions)}
    tables = [each for each in doctor.blocks(told) if isinstance(each, output.Table)]
    (works,) = [each for each in tables if each.columns[1].name == "works"]
    count = dict.fromkeys((True, False), 0)
    rows = [["".join(text for text, _ in part) for part in row] for row in works.rows]
    for _, how, into in rows:
        count[how.startswith("bare")] += len(into.split(", "))
    assert ["jax", "bare, or readonly=False", "nanobind"] in rows
    sums = f"{len(told['pairs'])} pairs, {count[True]} work bare, {count[False]} more with dlshim"
    assert sums in box_of(told)
    assert sum(count.values()) == len(told["pairs"])


def test_each_reason_of_a_consumer_has_one_cure_at_most() -> None:
    told = doctor.diagnose() | {"pairs": doctor.pairs({"numpy": "2.4.6", "nanoarrow": "0.9.0"})}
    tables = [each for each in doctor.blocks(told) if isinstance(each, output.Table)]
    (limits,) = [each for each in tables if each.columns[0].name == "works with"]
    rows = [["".join(text for text, _ in part) for part in row] for row in limits.rows]
    reasons = [why for _, why, into in rows if into == "nanoarrow"]
    assert len(reasons) == len(set(reasons)) > 3
    assert all(how != "nothing" for how, why, _ in rows if "C-contiguous" in why)


def test_a_limit_of_a_pair_is_not_told_of_one_array() -> None:
    told = doctor.diagnose()
    told["pairs"] = doctor.pairs({"numpy": "2.4.6", "pyarrow": "26.0.1"})
    (limits,) = [each for each in doctor._tables(told) if each.columns[0].name == "works with"]
    rows = [["".join(text for text, _ in part) for part in row] for row in limits.rows]
    assert ["nothing", "it does not take every dtype through DLPack"] in [row[:2] for row in rows]
    assert not any("this dtype" in row[1] for row in rows)


def test_without_libraries_it_says_so() -> None:
    told = doctor.diagnose() | {"pairs": [], "libraries": []}
    assert "no array library is installed" in box_of(told)


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
