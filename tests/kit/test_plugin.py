"""The pytest plug-in: what it collects, how it fails, known failures, and that it does nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as Xml
from pathlib import Path

import pytest

from doubles import KIT
from kit import wrong_consumers, wrong_producers

PRODUCERS = wrong_producers.__file__
CONSUMERS = wrong_consumers.__file__
TESTS = str(KIT.parent / "tests")


def run(folder: Path, *options: str, returncode: int = 0) -> str:
    """pytest in an empty folder, with the plug-in as an installed distribution would load it."""
    paths = [str(KIT), TESTS, *filter(None, [os.environ.get("PYTHONPATH")])]
    # No variable of whoever runs the tests decides what pytest does here.
    environment = {name: os.environ[name] for name in os.environ if not name.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", "-p", "dlshim_testing.plugin", *options]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == returncode, done.stdout + done.stderr
    return done.stdout


def test_each_check_is_a_test(tmp_path: Path) -> None:
    file = tmp_path / "results.xml"
    told = run(
        tmp_path,
        f"--dlpack-producer={PRODUCERS}:right",
        f"--dlpack-consumer={CONSUMERS}:right",
        f"--junitxml={file}",
    )
    assert " failed" not in told and "| conforms" in told
    assert f"DLPack producer {PRODUCERS}:right | claims 2025.12 | MUST " in told
    cases = list(Xml.parse(file).iter("testcase"))
    assert len(cases) > 1000
    names = {case.get("name") for case in cases}
    assert {"copied-flag[whole]", "gives-back[float32-legacy]"} <= names
    levels = [each.get("value") for each in cases[0].iter("property")]
    assert levels[:2] == ["MUST", "pass"]


def test_a_failure_shows_the_sentence_and_how_to_repeat_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from kit.wrong_producers import CopiesWithoutFlag\n"
        "def zeros(shape, dtype):\n    return CopiesWithoutFlag(shape, dtype)\n"
    )
    name = "copied-flag[whole]"
    told = run(tmp_path, "--dlpack-producer=mine:zeros", "-k", name, returncode=1)
    assert "1 failed" in told
    assert "copy=True gives flags 0, without IS_COPIED" in told
    assert "``DLPACK_FLAG_BITMASK_IS_COPIED`` flag must be set" in told
    assert f"pytest --dlpack-producer mine:zeros -k '{name}'" in told
    assert "does not conform" in told


KNOWN = '[producer]\n"copied-flag[*]" = "copies say nothing, issue 12"\n'


def test_known_failures_are_expected_with_their_reason(tmp_path: Path) -> None:
    (tmp_path / "known.toml").write_text(KNOWN)
    target = f"--dlpack-producer={PRODUCERS}:copies_without_flag"
    told = run(tmp_path, target, "-k", "copied-flag", "--dlpack-known=known.toml", "-rx")
    assert "xfailed" in told and "failed," not in told
    assert "copies say nothing, issue 12" in told
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\ndlpack_known =\n    producer copied-flag[whole]: issue 12\n"
    )
    told = run(tmp_path, target, "-k", "copied-flag[whole]", "-rx")
    assert "1 xfailed" in told and "issue 12" in told
    right = f"--dlpack-producer={PRODUCERS}:right"
    told = run(tmp_path, right, "-k", "copied-flag[whole]", returncode=1)
    assert "XPASS(strict)" in told  # what was mended is not forgotten in the list


def test_a_crash_is_a_finding_and_the_rest_still_runs(tmp_path: Path) -> None:
    told = run(
        tmp_path,
        f"--dlpack-consumer={CONSUMERS}:crashing",
        "-k",
        "null-deleter or renames",
        returncode=1,
    )
    assert "2 failed, 2 passed" in told
    assert "the process ended by SIGSEGV" in told and "2 CRASH" in told


def test_without_options_it_adds_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text(
        "import sys\n"
        "def test_own():\n"
        "    loaded = {n for n in sys.modules if n.split('.')[0] in ('dlshim', 'dlshim_testing')}\n"
        "    assert loaded == {'dlshim_testing', 'dlshim_testing.plugin'}\n"
    )
    told = run(tmp_path)
    assert "1 passed" in told and "DLPack" not in told


def test_named_files_are_run_beside_the_checks(tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text("def test_own():\n    pass\n")
    target = f"--dlpack-producer={PRODUCERS}:right"
    assert "1 passed" in run(tmp_path, target, "-k", "methods")
    assert "2 passed" in run(tmp_path, target, "test_own.py", "-k", "methods or test_own")


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nowhere:zeros", "No module named 'nowhere'"),
        ("os:nothing", "module 'os' has no attribute 'nothing'"),
        ("zeros", "is not MODULE:NAME"),
    ],
)
def test_a_target_that_is_not_there_ends_the_run(tmp_path: Path, target: str, said: str) -> None:
    """It once failed each of 759 tests, each with a longer traceback, for minutes."""
    told = run(tmp_path, f"--dlpack-producer={target}", returncode=pytest.ExitCode.USAGE_ERROR)
    assert f"--dlpack-producer: TargetError: {target}: " in told
    assert said in told and "no tests ran" in told
