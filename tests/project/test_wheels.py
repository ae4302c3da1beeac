"""The wheels of tools/wheels.toml: their table, what was seen of them and the README agree.

Those of a release are made by each system's own compiler: test_release.py is about them.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from project.tree import ROOT, compiler, installed_core, tool

# Only for these imports: tools/fuzz.py has the name of the folder that tests/fuzzing imports.
sys.path.insert(0, str(ROOT / "tools"))
try:
    import binaries
    import foreign
    import loads
    import wheels
    import windows
finally:
    sys.path.remove(str(ROOT / "tools"))

TARGETS = wheels.targets()
SEEN: dict[str, Any] = json.loads((ROOT / "docs" / "results" / "platforms.json").read_text())


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


# ---- what was seen ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", SEEN)
def test_what_was_seen_is_of_a_wheel_as_it_should_be(name: str) -> None:
    target, built = TARGETS[name], SEEN[name]["built"]
    tag = ".".join(sorted(target.platform.split(".")))
    assert built["wheel"].endswith(f"-cp310-abi3-{tag}.whl")
    assert "abi3audit" in built["audited"]
    for what, good in binaries.DEMANDED[target.system].items():
        assert built["file"][what] == good, what
    if target.system != "windows":
        assert built["file"]["stack protector"] is target.protected
    if target.system == "linux":
        assert built["file"]["FORTIFY"] is not target.musl


@pytest.mark.parametrize("name", [name for name, seen in SEEN.items() if "run" in seen])
def test_a_run_that_is_told_of_failed_nowhere(name: str) -> None:
    target, run = TARGETS[name], SEEN[name]["run"]
    assert (run["bits"], run["failed"]) == (target.bits, 0)
    assert run["passed"] > 6000 or run["left out"]
    assert run["suite"].split()[0] == "tests/core"
    assert ("qemu" in run["on"]) == bool(target.qemu)


@pytest.mark.parametrize("name", [name for name, seen in SEEN.items() if "loaded" in seen])
def test_what_was_loaded_has_passed_every_input(name: str) -> None:
    loaded = SEEN[name]["loaded"]
    assert loaded["on"].startswith(TARGETS[name].loads)
    assert loaded["functions of Python"] > 100
    assert loaded["inputs of the C core"] > 1000


def word(name: str) -> str:
    """As the README names it."""
    target = TARGETS[name]
    processor = target.processor.partition(",")[0]
    if target.system == "linux":
        return f"musl {processor}" if target.musl else processor
    return f"{ {'windows': 'Windows', 'macos': 'macOS'}[target.system] } {processor}"


def test_the_readme_claims_what_was_seen_and_no_more() -> None:
    readme = " ".join((ROOT / "README.md").read_text().split())
    paragraph = re.search(r"\* \*\*Platforms:\*\*(.*?) \* ", readme)
    assert paragraph

    def told(before: str, after: str) -> set[str]:
        found = re.search(rf"{before}(.*?){after}", paragraph[1])
        return {*re.split(", | and ", re.sub(r" \(.*?\)", "", found[1]))} if found else set()

    run = {name for name, seen in SEEN.items() if "run" in seen}
    whole = {name for name in run if "left out" not in SEEN[name]["run"]}
    loaded = {name for name, seen in SEEN.items() if "loaded" in seen} - run
    assert told("it passes on ", "; ") == {word(n) for n in whole} - {"x86-64"}
    assert told("in part on ", "; ") == {word(n) for n in run - whole}
    assert told("Loaded without a Python: ", r"\. ") == {word(n) for n in loaded}
    assert told("Built and not run: ", r"\. ") == {word(n) for n in {*SEEN} - run - loaded}
    # What was run is of the wheel that was built last, or the README says that it need not be.
    earlier = any(
        seen[part].get("sha256") != seen["built"]["sha256"]
        for seen in SEEN.values()
        for part in ("run", "loaded")
        if part in seen
    )
    which = ", or earlier ones where the table says so," if earlier else ""
    assert f"With wheels of `nox -s wheels`{which} it passes on " in paragraph[1]


def test_the_import_library_of_windows_is_the_stable_abi_of_the_floor() -> None:
    pytest.importorskip("abi3info", reason="`nox -s wheels` has it")
    names = windows.definitions().split("EXPORTS")[1].split("\n")
    names = {name.strip() for name in names if name.strip()}
    assert {"PyModuleDef_Init", "PyExc_BufferError DATA", "PyBaseObject_Type DATA"} <= names
    assert not names & {"PyObject_Vectorcall", "PyObject_GetBuffer", "PyErr_GetRaisedException"}
