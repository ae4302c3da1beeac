"""The built extension asks the system for libc and for the stable ABI of 3.10 only."""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest
from project.tree import installed_core, tool

LIMITED_API = Path(__file__).with_name("limited_api_3_10.txt")
#: Resolved by the C runtime's start files, weak: absent is fine.
START_FILES = {
    "__cxa_finalize",
    "__gmon_start__",
    "_ITM_deregisterTMCloneTable",
    "_ITM_registerTMCloneTable",
}

pytestmark = pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="free-threaded builds have no stable ABI before 3.15",
)


def dynamic(which: str) -> list[str]:
    command = [tool("nm"), "-D", "-P", which, str(installed_core())]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line.split()[0] for line in done.stdout.splitlines()]


def test_python_functions_are_those_of_the_floor() -> None:
    stable = set(LIMITED_API.read_text().split())
    assert len(stable) > 500 and "PyCapsule_New" in stable
    used = {name for name in dynamic("--undefined-only") if re.match(r"_?Py", name)}
    assert "PyModuleDef_Init" in used
    assert used <= stable, f"not in the stable ABI of 3.10: {sorted(used - stable)}"


def test_everything_else_is_of_libc() -> None:
    others = {name for name in dynamic("--undefined-only") if not re.match(r"_?Py", name)}
    foreign = {name for name in others - START_FILES if "@GLIBC" not in name}
    # Before binutils 2.35 nm does not print versions of symbols.
    if not any("@" in name for name in others):
        pytest.skip("this nm does not tell from where a symbol comes")
    assert {name.partition("@")[0] for name in foreign} <= START_FILES


def test_nothing_is_exported_but_the_module() -> None:
    assert dynamic("--defined-only") == ["PyInit__core"]


def test_no_assert_is_in_a_release() -> None:
    """Only builds with DLSHIM_ASSERT=1 have them: the sanitizers' and the mutants'."""
    if os.environ.get("DLSHIM_ASSERT"):
        pytest.skip("this run is of a build with asserts")
    needed = {name.partition("@")[0] for name in dynamic("--undefined-only")}
    assert "malloc" in needed
    assert "__assert_fail" not in needed
