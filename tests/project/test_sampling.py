"""What ``python -m pytest`` runs by itself: the sample, what the head says of it, and the rest."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from project.tree import ROOT

import sampling
from doubles import child


def collecting(seed: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    command = [sys.executable, str(ROOT / "tests" / "programs" / "collects.py")]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe, text=True)


@pytest.fixture(scope="module")
def collected() -> list[tuple[str, Any]]:
    """For two seeds of hashes: the output, and what was found and chosen."""
    both = [collecting(seed) for seed in ("1", "2")]
    told = [process.communicate(timeout=child.HANGS) for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    return [(out, json.loads(out.splitlines()[-1])) for out, _ in told]


def test_every_function_of_core_and_device_is_in_the_sample(collected: Any) -> None:
    out, (status, found, chosen) = collected[0]
    assert status == 0, out
    functions = [function for function, _ in found]
    assert len({*functions}) > 1400 and len(functions) > 10_000
    assert {*functions} == {function for _, function in chosen}
    assert len(chosen) == sum(min(sampling.CASES, functions.count(each)) for each in {*functions})


def test_every_test_of_the_folders_was_found(collected: Any) -> None:
    """As they are written: a folder or file that collects nothing would go unseen."""
    found = {function.split("::")[0] for function, _ in collected[0][1][1]}
    files = {
        path.relative_to(ROOT).as_posix()
        for folder in sampling.FOLDERS
        for path in (ROOT / "tests" / folder).glob("test_*.py")
    }
    assert files <= found, files - found


def test_the_sample_does_not_hang_on_the_order_of_hashes(collected: Any) -> None:
    (_, (_, every, first)), (_, (_, again, second)) = collected
    assert first == second and every == again


def test_no_case_has_an_address_in_its_id(collected: Any) -> None:
    """The processes of pytest-xdist must find the same cases, too."""
    assert not [case for _, case in collected[0][1][1] if " at 0x" in case]
    assert sampling.told_of((object(), 1)) == "(<object object>, 1)"


def test_the_head_says_what_runs_and_how_to_run_all(collected: Any) -> None:
    out = collected[0][0]
    head = [line for line in out.splitlines()[:8] if line.startswith("tests:")]
    assert head == sampling.head("sample")
    assert "a sample" in head[0] and "tests/core and tests/device" in head[0]
    assert "python -m pytest --all" in head[1]
    assert re.search(r"collected \d+ items / \d+ deselected / \d+ selected", out), "how many"


def item(nodeid: str, **params: str) -> Any:
    function = nodeid.split("[")[0]
    parent = SimpleNamespace(nodeid=function.rpartition("::")[0])
    callspec = {"callspec": SimpleNamespace(params=params)} if params else {}
    name = function.rpartition("::")[2]
    return SimpleNamespace(nodeid=nodeid, originalname=name, parent=parent, **callspec)


def test_another_case_moves_no_choice_but_its_own_functions() -> None:
    """The order of the items is kept, whatever their number."""
    items = [item(f"a.py::test_{f}[{case}]", case=case) for f in "xy" for case in "123456"]
    chosen = sampling.choose(items)
    assert [each.originalname for each in chosen] == ["test_x", "test_y"]
    more = [*items, item("a.py::test_z"), item("a.py::test_y[7]", case="7")]
    assert sampling.choose(more)[0] is chosen[0]
    assert {id(each) for each in sampling.choose(items[::-1])} == {id(each) for each in chosen}


def test_the_checks_of_a_file_are_sampled_on_the_same_variants() -> None:
    """Each of them is there; one that its variant does not have is taken on another."""
    names, variants = [f"check_{n}" for n in "abcdefgh"], ("9.2", "13.0", "hip6", "hip7")
    items = [
        item(f"d.py::test_d[{variant}-{name}]", variant=variant, name=name)
        for name in names
        for variant in variants
        if name != "check_h" or variant == "hip6"
    ]
    chosen = sampling.choose(items)
    assert [each.callspec.params["name"] for each in chosen] == names
    assert len({each.callspec.params["variant"] for each in chosen[:-1]}) == 1
    assert chosen[-1].callspec.params["variant"] == "hip6"


COMMANDS = {
    "sample": {"source": "TESTPATHS"},
    "all": {"source": "TESTPATHS", "all": True},
    "a path": {"source": "ARGS"},
    "a path and --all": {"source": "ARGS", "all": True},
    "in a folder": {"source": "INVOCATION_DIR"},
    "-k": {"source": "TESTPATHS", "keyword": "copy"},
    "-m": {"source": "TESTPATHS", "markexpr": "once"},
    "--lf": {"source": "TESTPATHS", "lf": True},
    "kit": {"source": "TESTPATHS", "plugin": True},
}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_named_runs_in_full(name: str) -> None:
    given = {"plugin": False, "all": False, "keyword": "", "markexpr": "", **COMMANDS[name]}
    plugins = SimpleNamespace(has_plugin=lambda plugin: given["plugin"])
    source = SimpleNamespace(name=given.pop("source"))
    option = SimpleNamespace(**given)
    config: Any = SimpleNamespace(option=option, args_source=source, pluginmanager=plugins)
    mode = sampling.mode_of(config)
    assert mode == (name if name in sampling.HEADS else "named")
    assert all(line.startswith("tests: ") for line in sampling.head(mode))
    assert "sample" in sampling.head("named")[0] and "everything" in sampling.head("all")[0]


def run(*arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("folder", ["tests/model", "tests/core/test_by_value.py"])
def test_a_named_path_is_collected_in_full(folder: str) -> None:
    out = run(folder)
    assert sampling.head("named")[0] in out and "deselected" not in out


def test_the_sampled_folders_are_some_of_all(pytestconfig: pytest.Config) -> None:
    every = {Path(each).name for each in pytestconfig.getini("testpaths")}
    assert {*sampling.FOLDERS} < every
    assert "--all" in re.findall(r"def suite.*?\n\n\n", (ROOT / "noxfile.py").read_text(), re.S)[0]


def test_a_sample_repeats_less_and_leaves_nothing_out_at_the_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(sampling.VARIABLE, "1")
    assert sampling.fewer(100, 5) == 5 and [*sampling.every(3, range(7))] == [0, 3, 6]
    monkeypatch.delenv(sampling.VARIABLE)
    assert sampling.fewer(100, 5) == 100 and [*sampling.every(3, range(7))] == [*range(7)]


def test_a_loop_whose_growth_is_judged_is_short_in_a_sample_and_under_a_sanitizer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable, wanted in (("", 100), (sampling.VARIABLE, 5), ("DLSHIM_SANITIZED", 5)):
        for each in (sampling.VARIABLE, "DLSHIM_SANITIZED"):
            monkeypatch.delenv(each, raising=False)
        if variable:
            monkeypatch.setenv(variable, "1")
        assert sampling.turns(100, 5) == wanted, variable
