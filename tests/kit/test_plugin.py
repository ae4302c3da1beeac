"""The pytest plug-in: what it collects, how it fails, known failures, and that it does nothing."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as Xml
from pathlib import Path

import pytest

from doubles import KIT
from drivers.library import compiler
from kit import wrong_consumers, wrong_devices, wrong_producers

PRODUCERS = wrong_producers.__file__
CONSUMERS = wrong_consumers.__file__
TESTS = str(KIT.parent / "tests")


def run(folder: Path, *options: str, returncode: int = 0, others: bool = False) -> str:
    """pytest in an empty folder, with the plug-in as an installed distribution would load it."""
    command = ["pytest", "-p", "dlshim_testing.plugin", *options]
    return python_m(folder, *command, returncode=returncode, others=others)[0]


def refused(folder: Path, *options: str) -> str:
    """What pytest says of options that it does not take."""
    command = ["pytest", "-p", "dlshim_testing.plugin", *options]
    return python_m(folder, *command, returncode=pytest.ExitCode.USAGE_ERROR)[1]


def python_m(
    folder: Path, *command: str, returncode: int = 0, others: bool = False
) -> tuple[str, str]:
    """stdout and stderr."""
    child = started(folder, *command, others=others)
    out, told = child.communicate()
    assert child.returncode == returncode, out + told
    return out, told


def started(folder: Path, *command: str, others: bool = False) -> subprocess.Popen[str]:
    """The process; pytest loads plug-ins that are not named only where `others` says so, because
    that of hypothesis takes most of a second."""
    paths = [str(KIT), TESTS, *filter(None, [os.environ.get("PYTHONPATH")])]
    # No variable of whoever runs the tests decides what pytest does here.
    environment = {name: os.environ[name] for name in os.environ if not name.startswith("PYTEST")}
    environment |= {"PYTHONPATH": os.pathsep.join(paths)}
    environment |= {} if others else {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_each_check_is_a_test(tmp_path: Path) -> None:
    file = tmp_path / "results.xml"
    told = run(
        tmp_path,
        f"--dlpack-producer={PRODUCERS}:right",
        f"--dlpack-consumer={CONSUMERS}:right",
        f"--junitxml={file}",
        others=True,
    )
    assert " failed" not in told and "| conforms" in told
    assert f"DLPack producer {PRODUCERS}:right | claims 2025.12 | MUST " in told
    cases = list(Xml.parse(file).iter("testcase"))
    assert len(cases) > 1000
    names = {case.get("name") for case in cases}
    assert {"copied-flag[whole]", "gives-back[float32-legacy]"} <= names
    levels = [
        each.get("value")
        for each in next(case for case in cases if case.get("name") == "methods").iter("property")
    ]
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


def again(told: str) -> list[str]:
    """The arguments of the command that a failure ends with, which its summary repeats where the
    environment has CI."""
    (line,) = {*re.findall(r"again: pytest (.*)", told)}
    return shlex.split(line)


def test_the_command_of_a_failure_repeats_it_with_its_options(tmp_path: Path) -> None:
    """Without them the command judged other dtypes, other levels, or nothing at all."""
    (tmp_path / "mine.py").write_text(
        "from kit.wrong_producers import CopiesWithoutFlag\n"
        "def zeros(shape, dtype):\n    return CopiesWithoutFlag(shape, dtype)\n"
    )
    target, only = ("--dlpack-producer", "mine:zeros"), ("-k", "copied-flag[whole]")
    options = ("--dlpack-claims", "2024.12", "--dlpack-dtypes", "float64, int8")
    options += ("--dlpack-fail-on", "should", "--dlpack-in-process")
    command = again(run(tmp_path, *target, *options, *only, returncode=1))
    assert command == [*target, *options, *only]
    assert again(run(tmp_path, *command, returncode=1)) == command


def test_names_of_verbose_lines_can_be_pasted(tmp_path: Path) -> None:
    """The dots in a target became "::", as in names of classes."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "mine.py").write_text("from kit.wrong_producers import Right as zeros\n")
    name = "producer::lib.mine:zeros::known-flags[whole]"
    assert f"{name} PASSED" in run(tmp_path, name, "-v")


def test_an_option_without_a_target_is_not_ignored(tmp_path: Path) -> None:
    told = refused(tmp_path, "--dlpack-driver", "13.0")
    assert "--dlpack-driver says how a target is checked, and none is named" in told
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --dlpack-driver 13.0\n")
    (tmp_path / "test_a.py").write_text("def test_a(): pass\n")
    assert "1 passed" in run(tmp_path)


def test_the_command_of_a_failure_names_the_driver(tmp_path: Path) -> None:
    compiler()
    target = ("--dlpack-producer", f"{wrong_devices.__file__}:syncs_nothing")
    only = ("-k", "device-order[own-bare]")
    told = run(tmp_path, *target, "--dlpack-driver=12.2", *only, returncode=1)
    assert again(told) == [*target, "--dlpack-driver", "12.2", *only]


def test_the_command_of_a_failure_says_what_the_consumer_takes(tmp_path: Path) -> None:
    options = ("--dlpack-wants", "versioned capsule", "-k", "takes-any")
    (tmp_path / "mine.py").write_text("def refusing(x):\n    raise BufferError('no')\n")
    target = ("--dlpack-consumer", "mine.py:refusing")
    assert again(run(tmp_path, *target, *options, returncode=1)) == [*target, *options]


def failing(folder: Path) -> str:
    """A target of which every copied-flag[...] fails."""
    (folder / "mine.py").write_text(
        "from kit.wrong_producers import CopiesWithoutFlag\n"
        "def zeros(shape, dtype):\n    return CopiesWithoutFlag(shape, dtype)\n"
    )
    return "--dlpack-producer=mine:zeros"


THREE = ("-k", "copied-flag[whole] or copied-flag[cube] or methods")


def test_the_last_failed_and_stepwise_runs_begin_where_the_last_one_ended(tmp_path: Path) -> None:
    """They ran every check again: pytest did not know the node ids of its own reports."""
    target = failing(tmp_path)
    assert "2 failed, 1 passed" in run(tmp_path, target, *THREE, returncode=1)
    told = run(tmp_path, target, "--lf", returncode=1)
    assert re.search(r"2 failed, \d+ deselected", told), told
    told = run(tmp_path, target, *THREE, "--ff", "-x", returncode=1)
    assert "stopping after 1 failures" in told and "1 passed" not in told
    stopped = pytest.ExitCode.INTERRUPTED
    assert "1 failed, 1 passed" in run(tmp_path, target, *THREE, "--sw", returncode=stopped)
    told = run(tmp_path, target, *THREE, "--sw", "--sw-skip", "-rf", returncode=stopped)
    assert "2 failed" in told and "1 passed" not in told
    assert "FAILED producer::mine:zeros::copied-flag[cube]" in told


def test_a_node_id_is_taken_as_a_failure_shows_it(tmp_path: Path) -> None:
    """pytest said that there is no file of this name."""
    target = failing(tmp_path)
    told = run(tmp_path, target, *THREE, returncode=1)
    shown = re.findall(r"^FAILED (\S+) - ", told, re.M)
    name = "producer::mine:zeros::copied-flag"
    assert shown == [f"{name}[whole]", f"{name}[cube]"]
    assert "2 failed in" in run(tmp_path, *shown, returncode=1)  # it names the target, too
    assert "1 failed in" in run(tmp_path, target, shown[0], returncode=1)
    assert "72 failed, 78 skipped in" in run(tmp_path, name, returncode=1)
    (tmp_path / "test_own.py").write_text("def test_own():\n    pass\n")
    told = run(tmp_path, "test_own.py", shown[0], returncode=1)
    assert "1 failed, 1 passed in" in told
    told = run(tmp_path, "producer::mine:zeros", *THREE, "--deselect", name)
    assert "1 passed" in told and "failed" not in told
    # With a root directory above, pytest shows paths from where it was called.
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "sub").mkdir()
    command = ("--dlpack-producer=../mine.py:zeros", *THREE)
    told = run(tmp_path / "sub", *command, returncode=1)
    shown = re.findall(r"^FAILED (\S+) - ", told, re.M)
    assert shown[0] == "../producer::../mine.py:zeros::copied-flag[whole]"
    assert "1 failed in" in run(tmp_path / "sub", shown[0], returncode=1)


def test_a_node_id_of_no_check_ends_the_run(tmp_path: Path) -> None:
    told = refused(tmp_path, failing(tmp_path), "producer::mine:zeros::copied-flag[hole]")
    assert "'copied-flag[hole]' is the name of no check; a check of that name is " in told
    assert "'copied-flag[whole]'" in told
    told = refused(tmp_path, failing(tmp_path), "producer::mine:zeros::valuse")
    assert "'valuse' is the name of no check; a check of that name is 'values'" in told


def test_the_page_has_the_number_of_checks() -> None:
    """It said 1350, and pytest ran more."""
    from dlshim_testing import every

    page = (KIT.parent / "docs" / "testing.rst").read_text()
    (number,) = re.findall(r"It puts more than (\d+) named checks to", page)
    count = sum(len(every.checks(side)) for side in ("producer", "consumer"))
    assert int(number) == count // 100 * 100, f"there are {count}"


def test_a_check_that_fails_itself_fails_its_test_at_every_level(tmp_path: Path) -> None:
    """As the page says: it found nothing out."""
    (tmp_path / "mine.py").write_text(
        "from kit.wrong_producers import Right\n"
        "class Odd(Right):\n"
        "    def __dlpack__(self, *stream, **asked):\n"
        "        if stream:\n"
        "            raise AssertionError('stream')\n"
        "        return super().__dlpack__(**asked)\n"
    )
    options = ("--dlpack-producer=mine:Odd", "--dlpack-claims=2021.12", "-k", "keyword-only")
    told = run(tmp_path, *options, returncode=1)
    assert "1 failed" in told and "error (noted): AssertionError: stream" in told
    assert "1 checks failed themselves | does not conform" in told
    page = " ".join((KIT.parent / "docs" / "testing.rst").read_text().split())
    assert "It fails its test at every level, also where what it asks is only noted" in page


def test_pytest_lists_and_counts_the_checks(tmp_path: Path) -> None:
    target = failing(tmp_path)
    told = run(tmp_path, target, *THREE, "--collect-only", "-q")
    assert "producer::mine:zeros::copied-flag[whole]" in told
    assert re.search(r"^3/\d+ tests collected", told, re.M), told
    told = run(tmp_path, target, *THREE, "-p", "no:cacheprovider", returncode=1)
    assert "2 failed, 1 passed" in told and re.search(r"^collected \d+ items / ", told, re.M)
    assert not (tmp_path / ".pytest_cache").exists()


def test_workers_of_xdist_share_the_checks(tmp_path: Path) -> None:
    """The summary was missing, and what was mended was not noticed: reports alone come back."""
    pytest.importorskip("xdist", reason="this is about pytest-xdist")
    workers = ("-p", "xdist", "-n", "2")
    told = run(tmp_path, failing(tmp_path), *THREE, *workers, returncode=1)
    assert "2 failed, 1 passed" in told
    assert "claims 2023.12 | MUST 1/3 | 0 not applicable | does not conform" in told
    assert "MUST copied-flag[whole]: copy=True gives flags 0" in told
    (tmp_path / "known.toml").write_text(KNOWN)
    options = (f"--dlpack-producer={PRODUCERS}:right", "--dlpack-known=known.toml")
    told = run(tmp_path, *options, "-k", "copied-flag", *workers, returncode=1)
    assert "known.toml: no check of producer 'copied-flag[*]' fails any more" in told
    stopped = pytest.ExitCode.INTERRUPTED
    told = run(tmp_path, "--dlpack-producer=mine:nothing", *THREE, *workers, returncode=stopped)
    assert "--dlpack-producer: TargetError: mine:nothing: AttributeError: " in told
    assert "INTERNALERROR" not in told
    only = ("-k", "device-order")
    told = run(tmp_path, "--dlpack-producer=mine:zeros", *only, *workers, returncode=stopped)
    assert "which needs a fake driver: add --dlpack-driver 13.0" in told


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


@pytest.mark.parametrize("name", ["refusals[refused-0-bare]", "refusals[*]"])
def test_a_known_failure_of_a_should_is_expected_where_only_must_is_judged(
    tmp_path: Path, name: str
) -> None:
    """The check does not hold, and was said to pass: strict, that failed the run."""
    (tmp_path / "known.toml").write_text(f'[producer]\n"{name}" = "issue 12"\n')
    target = (f"--dlpack-producer={PRODUCERS}:refuses_nothing", "--dlpack-known=known.toml")
    told = run(tmp_path, *target, "-k", "refusals[refused-0-bare]", "-rx")
    assert "1 xfailed" in told and "issue 12" in told


def test_a_run_that_ends_early_says_nothing_about_conformance(tmp_path: Path) -> None:
    """A report of the first 243 checks said "conforms", and then why the run had ended."""
    (tmp_path / "mine.py").write_text(
        "from dlshim_testing import Producer\nfrom kit.wrong_producers import Right\n"
        "target = Producer(Right, special={'x': lambda: 1 / 0})\n"
        "zeros = Producer(Right)\n"
    )
    only = ("-k", "methods or special-values")
    usage = pytest.ExitCode.USAGE_ERROR
    told = run(tmp_path, "--dlpack-producer=mine:target", *only, returncode=usage)
    assert "TargetError" in told and "special=['x'] fails: ZeroDivisionError" in told
    assert "MUST 1/1" in told and "conform" not in told.partition("TargetError")[0]
    assert "| the run ended before its last check: nothing is said about the whole" in told
    (tmp_path / "test_own.py").write_text("def test_own():\n    assert 0\n")
    options = ("--dlpack-producer=mine:zeros", "test_own.py", "-x", "-k", "test_own or methods")
    assert "conforms" not in run(tmp_path, *options, returncode=1)


def test_workers_of_xdist_do_not_call_half_a_run_conforming(tmp_path: Path) -> None:
    pytest.importorskip("xdist", reason="this is about pytest-xdist")
    (tmp_path / "mine.py").write_text(
        "from dlshim_testing import Producer\nfrom kit.wrong_producers import Right\n"
        "target = Producer(Right, special={'x': lambda: 1 / 0})\n"
    )
    options = ("--dlpack-producer=mine:target", "-k", "methods or shape or special-values")
    stopped = pytest.ExitCode.INTERRUPTED
    told = run(tmp_path, *options, "-p", "xdist", "-n", "2", returncode=stopped)
    assert "TargetError" in told and "| conforms" not in told
    assert "| the run ended before its last check" in told


def test_known_failures_are_counted_and_the_rest_conforms(tmp_path: Path) -> None:
    """pytest was green, and its report said "does not conform"."""
    (tmp_path / "known.toml").write_text(KNOWN)
    target = f"--dlpack-producer={PRODUCERS}:copies_without_flag"
    only = ("-k", "methods or copied-flag[whole]")
    told = run(tmp_path, target, *only, "--dlpack-known=known.toml")
    assert "MUST 1/2 (1 known) | 0 not applicable | conforms but for known failures" in told
    assert "known MUST copied-flag[whole]: " in told
    assert "| does not conform" in run(tmp_path, target, *only, returncode=1)


def test_the_command_takes_the_list_of_known_failures(tmp_path: Path) -> None:
    """Its exit status was 1 whatever was known."""
    (tmp_path / "known.toml").write_text(KNOWN)
    (tmp_path / "one.toml").write_text('[producer]\n"copied-flag[whole]" = "issue 12"\n')
    (tmp_path / "bad.toml").write_text('[producer]\n"copied-flags[*]" = "issue 12"\n')
    wrong, right = (f"{PRODUCERS}:{name}" for name in ("copies_without_flag", "right"))

    def command(target: str, file: str, returncode: int) -> tuple[str, str]:
        options = ("--producer", target, "--only", "methods|copied-flag", "--known", file)
        return python_m(tmp_path, "dlshim_testing", *options, returncode=returncode)

    told = command(wrong, "known.toml", 0)[0]
    assert "conforms but for known failures" in told and " known)" in told
    assert "does not conform" in command(wrong, "one.toml", 1)[0]
    told = command(right, "known.toml", 1)[0]
    assert "known.toml: no check of producer 'copied-flag[*]' fails any more: take" in told
    told = command(right, "one.toml", 1)[0]
    assert "one.toml: no check of producer 'copied-flag[whole]' fails any more: take" in told
    told = command(right, "bad.toml", 2)[1]
    assert "argument --known: bad.toml: producer 'copied-flags[*]' is the name of no check" in told
    assert "argument --known: no.toml: " in command(right, "no.toml", 2)[1]


def test_the_report_names_what_was_not_judged(tmp_path: Path) -> None:
    """It said "conforms" of a library of which hardly anything could be asked."""
    (tmp_path / "mine.py").write_text(
        "from kit.wrong_producers import Right\n"
        "class Image(Right):\n"
        "    def __getitem__(self, at):\n"
        "        raise TypeError('not subscriptable')\n"
    )
    only = ("-k", "methods or values or not-exported or read-only-flag or refused-freed", "-rs")
    told = run(tmp_path, "--dlpack-producer=mine:Image", *only)
    assert "| conforms; 3 of 6 rules not judged" in told, told
    why = "the library does not index like this: TypeError: not subscriptable"
    assert re.search(rf"not applicable [1-9]\d+: {why}", told), told
    missing = "no such array was given: give one, Producer(..., {}=...); no check of {} was run"
    assert missing.format("special", "special-values") in told
    assert missing.format("refused", "not-exported") in told
    assert "SKIPPED" in told and "Producer(..., refused=...)" in told


def test_a_crash_is_a_finding_and_the_rest_still_runs(tmp_path: Path) -> None:
    told = run(
        tmp_path,
        f"--dlpack-consumer={CONSUMERS}:crashing",
        "-k",
        "null-deleter or renames",
        returncode=1,
    )
    assert "2 failed, 4 passed" in told
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


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            '"copied-flag[hole]" = "issue 12"',
            "producer 'copied-flag[hole]' is the name of no check",
        ),
        ('"copied-flag[hole]" = "issue 12"', "a check of that name is 'copied-flag[whole]'"),
        ('"copied-flags[*]" = "issue 12"', "producer 'copied-flags[*]' is the name of no check"),
        ('"renames[legacy]" = "issue 12"', "it is one of a consumer"),
        ('"copied-flag[whole]" = " "', "producer 'copied-flag[whole]' has no reason"),
        ('"copied-flag[whole]" = 12', "producer 'copied-flag[whole]' has no reason"),
    ],
)
def test_a_known_failure_that_means_nothing_ends_the_run(
    tmp_path: Path, line: str, said: str
) -> None:
    (tmp_path / "known.toml").write_text(f"[producer]\n{line}\n")
    target = f"--dlpack-producer={PRODUCERS}:right"
    told = refused(tmp_path, target, "--dlpack-known=known.toml")
    assert f"known.toml: {said}" in told or said in told


def test_a_line_of_the_ini_file_without_a_reason_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\ndlpack_known =\n    producer copied-flag[whole]:\n"
    )
    told = refused(tmp_path, f"--dlpack-producer={PRODUCERS}:right")
    assert "dlpack_known: producer 'copied-flag[whole]' has no reason" in told


def test_a_pattern_of_which_nothing_fails_any_more_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "known.toml").write_text(KNOWN)
    right = f"--dlpack-producer={PRODUCERS}:right"
    told = run(tmp_path, right, "-k", "copied-flag", "--dlpack-known=known.toml", returncode=1)
    assert "known.toml: no check of producer 'copied-flag[*]' fails any more" in told
    # One of several checks of the pattern says nothing about the rest.
    told = run(tmp_path, right, "-k", "copied-flag[whole]", "--dlpack-known=known.toml")
    assert "fails any more" not in told


def test_an_edition_that_there_is_not_ends_the_run(tmp_path: Path) -> None:
    target = f"--dlpack-producer={PRODUCERS}:right"
    told = refused(tmp_path, target, "--dlpack-claims=2020.12")
    assert "--dlpack-claims: '2020.12' is no edition of the array API" in told
    assert "2021.12, 2022.12, 2023.12, 2024.12, 2025.12" in told


def test_the_edition_of_the_command_line_goes_before_the_target_s(tmp_path: Path) -> None:
    target = f"--dlpack-producer={PRODUCERS}:copies_without_flag"
    told = run(tmp_path, target, "-k", "copied-flag", "--dlpack-claims=2022.12")
    assert "claims 2022.12" in told and "noted copied-flag[whole]" in told


def test_an_array_that_should_be_refused_and_is_exported_fails(tmp_path: Path) -> None:
    target = f"--dlpack-producer={PRODUCERS}:refuses_nothing"
    told = run(tmp_path, target, "-k", "not-exported or refusals", returncode=1)
    assert "2 failed" in told and "sparse: it is exported" in told
    assert "-k 'not-exported[refused-0-bare]'" in told
    strict = ("-k", "refusals[refused-0-bare]", "--dlpack-fail-on=should")
    assert "1 failed" in run(tmp_path, target, *strict, returncode=1)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nowhere:zeros", "No module named 'nowhere'"),
        ("os:nothing", "module 'os' has no attribute 'nothing'"),
        ("zeros", "is not MODULE:NAME"),
    ],
)
@pytest.mark.parametrize("more", [(), ("--in-process",)], ids=["isolated", "in-process"])
def test_the_command_names_a_target_that_is_not_there(
    tmp_path: Path, target: str, said: str, more: tuple[str, ...]
) -> None:
    out, told = python_m(tmp_path, "dlshim_testing", "--producer", target, *more, returncode=2)
    assert not out and "Traceback" not in told
    assert f"python -m dlshim_testing: error: {target}: " in told and said in told


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--claims", "2020.12", "choose from"),
        ("--only", "nosuch", "no check of a producer has 'nosuch' in its name"),
        ("--only", "((", "'((' is no regular expression"),
    ],
)
def test_the_command_takes_no_option_that_means_nothing(
    tmp_path: Path, option: str, value: str, said: str
) -> None:
    target = f"{PRODUCERS}:right"
    command = ("dlshim_testing", "--producer", target, option, value)
    assert said in python_m(tmp_path, *command, returncode=2)[1]


def test_the_command_without_a_compiler_checks_nothing_and_says_so(tmp_path: Path) -> None:
    """It ended with 0, as if every check had passed."""
    target = ("--producer", f"{PRODUCERS}:right", "--driver", "12.5", "--only", "methods")
    program = "import os, runpy, sys; sys.argv[0] = 'kit'; os.environ['PATH'] = '/nowhere'"
    program += "\nos.environ.pop('CC', None)"
    program += "\nrunpy.run_module('dlshim_testing', run_name='__main__')"
    (tmp_path / "without.py").write_text(program)
    out, told = python_m(tmp_path, "without", *target, returncode=2)
    assert not out and "Traceback" not in told
    assert "error: --driver 12.5: nothing can be checked: no C compiler, " in told


@pytest.mark.parametrize("where", ["nonexistent/x.json", "."])
def test_the_command_refuses_a_file_that_cannot_be_written_at_the_start(
    tmp_path: Path, where: str
) -> None:
    target = ("--producer", "nowhere:zeros")  # looked for later
    out, told = python_m(tmp_path, "dlshim_testing", *target, "--json", where, returncode=2)
    assert not out and "Traceback" not in told
    assert f"error: --json: {where} cannot be written: " in told


def test_the_command_writes_the_file_that_it_is_told(tmp_path: Path) -> None:
    target = ("--producer", f"{PRODUCERS}:right", "--only", "methods", "--json", "x.json")
    python_m(tmp_path, "dlshim_testing", *target)
    python_m(tmp_path, "dlshim_testing", *target)
    (row,) = json.loads((tmp_path / "x.json").read_text())
    assert [each["check"] for each in row["findings"]] == ["methods"]


def test_the_same_report_is_written_in_markdown_by_both(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from kit.wrong_producers import CopiesWithoutFlag\n"
        "def zeros(shape, dtype):\n    return CopiesWithoutFlag(shape, dtype)\n"
    )
    # What passes at each level, what fails, and what is not judged.
    parts = ("known-flags", "keyword-only", "copied-flag", "not-exported", "special-values")
    target = ("--dlpack-producer=mine:zeros", "--dlpack-markdown=a.md")
    told = run(tmp_path, *target, "-q", "-k", " or ".join(parts), returncode=1)
    assert "does not conform" in told
    target = ("--producer", "mine:zeros", "--markdown", "b.md")
    python_m(tmp_path, "dlshim_testing", *target, "--only", "|".join(parts), returncode=1)
    text = (tmp_path / "a.md").read_text()
    assert text == (tmp_path / "b.md").read_text()
    head, _, broken = text.partition("### producer `mine:zeros`")
    assert head.startswith("## DLPack\n\n| target | claims | MUST | SHOULD | HABIT | verdict |")
    assert re.search(
        r"^\| producer `mine:zeros` \| 2023.12 (\| \d+ of \d+ ){3}\| \*\*does not", head, re.M
    )
    assert "| MUST | `copied-flag[whole]` (" in broken and "without IS\\_COPIED" in broken
    assert "<details><summary>Not judged of producer <code>mine:zeros</code></summary>" in broken
    tables = [line for line in text.splitlines() if line.startswith("|")]
    cells = {len(re.findall(r"(?<!\\)\|", line)) - 1 for line in tables}
    assert cells == {4, 6}  # no text ends a cell


def test_markdown_that_cannot_be_written_is_refused_at_the_start(tmp_path: Path) -> None:
    options = ("--dlpack-producer=nowhere:zeros", "--dlpack-markdown=nonexistent/x.md")
    told = refused(tmp_path, *options)
    assert "--dlpack-markdown: nonexistent/x.md cannot be written: there is no directory" in told


def test_the_workflow_that_others_copy_runs(tmp_path: Path) -> None:
    text = (KIT / "workflow.yml").read_text(encoding="utf-8")
    command = text.partition(">-")[2].replace("mylib:", "numpy:")
    program, *arguments = shlex.split(command)
    assert program == "pytest"
    version = importlib.metadata.version("numpy")
    if tuple(map(int, version.split(".")[:2])) < (2, 4):
        arguments.append(f"--dlpack-known={Path(__file__).parent / 'known-numpy.toml'}")
    summary = tmp_path / "summary.md"
    run(tmp_path, *(each.replace("$GITHUB_STEP_SUMMARY", str(summary)) for each in arguments))
    told = summary.read_text(encoding="utf-8")
    assert told.count("| **conforms") == 2 and "`data-of-empty[empty]`" in told


def test_the_child_looks_for_the_library_where_its_parent_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kit's folder, which is site-packages where it is installed, once went first: a library
    that lay elsewhere on the path was another one in the child."""
    from dlshim_testing import running

    monkeypatch.setattr(sys, "path", ["", str(tmp_path), str(KIT), "/elsewhere"])
    assert running.search_path() == [str(tmp_path), str(KIT), "/elsewhere"]
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert running.search_path() == [str(tmp_path), str(KIT)]


def test_options_that_would_be_dropped_are_errors() -> None:
    from dlshim_testing import check_consumer, check_producer

    with pytest.raises(TypeError, match="cannot be passed special"):
        check_producer(f"{PRODUCERS}:right", isolate=True, special={"a": wrong_producers.special})
    with pytest.raises(TypeError, match="a Producer already: give it special where it is made"):
        check_producer(wrong_producers.right, special={"a": wrong_producers.special})
    with pytest.raises(TypeError, match="a Consumer already: give it flat"):
        check_consumer(wrong_consumers.right, flat=True)
    with pytest.raises(ValueError, match="'2020' is no edition of the array API; they are 2021"):
        check_producer(wrong_producers.right, claims="2020")
