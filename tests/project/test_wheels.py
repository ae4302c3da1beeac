"""The wheels of tools/wheels.toml: their table, and what the README claims.

Those of a release are made by each system's own compiler: test_release.py is about them.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from project.tree import ROOT, compiler, installed_core, tool

# Only for these imports: tools/fuzz.py has the name of the folder that tests/fuzzing imports.
sys.path.insert(0, str(ROOT / "tools"))
try:
    import foreign
    import loads
    import wheels
    import windows
finally:
    sys.path.remove(str(ROOT / "tools"))

TARGETS = wheels.targets()


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_a_tag_says_what_the_compiler_is_told(target: wheels.Target) -> None:
    machine = target.name.rpartition("-")[2]
    tags = target.platform.split(".")
    assert all(tag.endswith(f"_{machine}") for tag in tags)
    if target.musl:
        assert tags == [f"musllinux_1_2_{machine}"]
    elif target.system == "windows":
        assert tags == [f"win_{machine}"]
    elif target.system == "macos":
        major, minor = re.findall(r"-macos\.(\d+)\.(\d+)$", target.zig)[0]
        assert tags == [f"macosx_{major}_{minor}_{machine}"]
    else:
        major, minor = re.findall(r"-gnu\w*\.(\d+)\.(\d+)$", target.zig)[0]
        assert tags[0] == f"manylinux_{major}_{minor}_{machine}"
        assert tags[1:] == ([f"manylinux2014_{machine}"] if minor == "17" else [])
    assert (target.bits == 32) == ("32 bits" in target.processor)
    assert not target.qemu or target.debian


@pytest.mark.parametrize(
    ("qemu", "begins"),
    [("aarch64", b"\x7fELF\2\1\1"), ("arm", b"\x7fELF\1\1\1"), ("s390x", b"\x7fELF\2\2\1")],
)
def test_the_kernel_is_told_the_first_bytes_of_a_program(
    qemu: str, begins: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign.shutil, "which", lambda name: f"/usr/bin/{name}")
    name, kind, offset, magic, mask, program, flags = foreign.entry(qemu)[1:].split(":")
    assert (name, kind, offset, flags) == ("dlshim", "M", "", "F")
    assert program == f"/usr/bin/qemu-{qemu}-static"
    first = bytes.fromhex(magic.replace("\\x", ""))
    assert first.startswith(begins) and len(first) == 20 == len(mask) // 4
    little = begins[5] == 1
    number = int.from_bytes(first[18:], "little" if little else "big")
    assert number == foreign.MACHINES[qemu][2]


# ---- what loads a module where there is no Python ---


@pytest.fixture
def place(tmp_path: Path) -> loads.Place:
    """This system itself, with its own compiler."""
    return loads.Place([compiler()], "linux", tmp_path, [])


def asked_of_python() -> set[str]:
    """The functions and objects of Python that the installed module names."""
    line = [tool("nm"), "-D", "-P", "--undefined-only", str(installed_core())]
    told = subprocess.run(line, check=True, capture_output=True, text=True).stdout
    return {row.split()[0] for row in told.splitlines() if re.match("_?Py", row)}


def test_the_installed_module_answers_a_stand_in_for_python(place: loads.Place) -> None:
    names = sorted(asked_of_python())
    assert len(names) > 100
    loads.open_module(place, installed_core(), names)


def test_a_function_that_is_missing_is_noticed(place: loads.Place) -> None:
    names = sorted(asked_of_python() - {"PyCapsule_New"})
    with pytest.raises(SystemExit, match="PyCapsule_New"):
        loads.open_module(place, installed_core(), names)


def test_the_loader_finds_libraries_and_functions(place: loads.Place) -> None:
    loads.find_libraries(place)


# ---- what is claimed --------------------------------------------------------------------------


def test_the_readme_names_every_processor_on_which_the_suite_runs() -> None:
    readme = " ".join((ROOT / "README.md").read_text().split())
    found = re.search(r"With wheels that zig compiles it passes on (.*?);", readme)
    assert found
    told = {*re.split(", | and ", re.sub(r" \(.*?\)", "", found[1]))}
    run = [target for target in TARGETS.values() if target.debian and not target.musl]
    assert told == {target.processor.partition(",")[0] for target in run} - {"x86-64"}
    emulated = {2: "two", 3: "three", 4: "four"}[sum(bool(target.qemu) for target in run)]
    assert f"the last {emulated} were emulated by QEMU" in readme


def test_the_readme_and_the_changes_claim_the_interpreters_of_the_sessions() -> None:
    noxfile = (ROOT / "noxfile.py").read_text()
    tested, newer = (
        re.findall(r"3\.\d+", re.findall(rf"^{name} = \[(.*)\]", noxfile, re.M)[0])
        for name in ("PYTHONS", "NEWER")
    )
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert f"CPython {tested[0]} to {tested[-1]}" in readme
    assert f"on {' and '.join(newer)}" in readme
    assert re.search(r"core suite passes on CPython 3\.13t", readme) and "core-3.13t" in noxfile
    changes = " ".join((ROOT / "CHANGELOG.md").read_text().split())
    assert f"CPython {tested[0]} to {newer[-1]}" in changes


def test_the_import_library_of_windows_is_the_stable_abi_of_the_floor() -> None:
    pytest.importorskip("abi3info", reason="`nox -s wheels` has it")
    names = windows.definitions().split("EXPORTS")[1].split("\n")
    names = {name.strip() for name in names if name.strip()}
    assert {"PyModuleDef_Init", "PyExc_BufferError DATA", "PyBaseObject_Type DATA"} <= names
    assert not names & {"PyObject_Vectorcall", "PyObject_GetBuffer", "PyErr_GetRaisedException"}
