"""The corpora of the fuzzers, replayed: what they once reached is reached in every test run.

`tools/fuzz.py` fuzzes; here no sanitizer and no fuzzer is needed.  `nox -s sanitize` runs the C
targets under ASan and UBSan.
"""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from project.tree import ROOT, compiler

from doubles import capsules as caps
from fuzz.boundary import targets

CORPUS = ROOT / "fuzz" / "corpus"


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fuzz_tool", ROOT / "tools" / "fuzz.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = load_tool()


def inputs(target: str) -> list[bytes]:
    return [bytes.fromhex(line) for line in (CORPUS / f"{target}.hex").read_text().split()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the C targets share the objects of src."""
    return tmp_path_factory.mktemp("core")


@pytest.fixture(autouse=True)
def hooks_as_before() -> Iterator[None]:
    yield
    targets._core._hook("hand_on", True)
    targets._core._hook("forget_plans")
    caps.close_accounts()


@pytest.mark.parametrize("target", TOOL.CORE)
def test_a_c_target_passes_its_corpus(target: str, folder: Path) -> None:
    program = TOOL.build_replay(target, folder, "-O0", cc=compiler())
    files = []
    for number, one in enumerate(inputs(target)):
        files.append(folder / f"{target}-{number:04}")
        files[-1].write_bytes(one)
    run = subprocess.run([program, *files], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout == f"{len(files)} inputs\n" and len(files) >= 40


def test_the_boundary_passes_its_corpus() -> None:
    every = inputs("boundary")
    assert len(every) >= 200
    for one in every:
        try:
            targets.run(one)
        except Exception as failure:
            raise AssertionError(f"input {one.hex()}") from failure


def test_every_target_of_the_boundary_is_in_the_corpus() -> None:
    reached = {targets.TARGETS[one[0] % len(targets.TARGETS)] for one in inputs("boundary") if one}
    assert reached == set(targets.TARGETS)


def test_the_planted_faults_fit_the_source(tmp_path: Path) -> None:
    """`tools/fuzz.py run` proves with them that it finds anything."""
    assert TOOL.PLANTED.keys() == set(TOOL.TARGETS)
    for file, old, new in TOOL.PLANTED.values():
        assert (ROOT / "src" / file).read_text().count(old) == 1 and new != old


def test_a_broken_promise_ends_a_target() -> None:
    with pytest.raises(AssertionError, match="deleters"):
        targets._given_back[:] = [1]
        struct = targets.Struct(targets.Input(b""))
        struct.check_end()


def test_the_corpora_are_small() -> None:
    files = [path for path in CORPUS.iterdir() if path.is_file()]
    assert {path.stem for path in files} == set(TOOL.TARGETS)
    assert sum(path.stat().st_size for path in files) < 300_000
