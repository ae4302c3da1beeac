"""What setup.py passes to the compiler, for the flags and systems of others."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import sysconfig
import types
from pathlib import Path
from typing import Any

import pytest
from project.tree import ROOT

import rebuilding

NOT_CPYTHON = types.SimpleNamespace(name="pypy")


class Told(dict[str, Any]):
    """The keywords of a call, as attributes too."""

    __getattr__ = dict.__getitem__


class Built:
    """What setup.py says, with a trial program that links or does not."""

    def __init__(self, patch: pytest.MonkeyPatch, *, links: bool = True, **variables: str) -> None:
        self.asked: list[list[str]] = []
        for name in ("CFLAGS", "CPPFLAGS", "DLSHIM_ASSERT", "DLSHIM_WERROR"):
            patch.delenv(name, raising=False)
        for name, value in variables.items():
            patch.setenv(name, value)

        def trial(line: list[str], **_: Any) -> types.SimpleNamespace:
            self.asked.append(line)
            return types.SimpleNamespace(returncode=int(not links))

        def extension(name: str, sources: list[str], **more: Any) -> Told:
            return Told(more, name=name, sources=sources)

        class BuildExt:
            def build_extensions(self) -> None:
                pass

        said: dict[str, Any] = {}
        modules = {
            "setuptools": types.SimpleNamespace(Extension=extension, setup=said.update),
            "setuptools.command": types.SimpleNamespace(),
            "setuptools.command.build_ext": types.SimpleNamespace(build_ext=BuildExt),
        }
        for name, module in modules.items():
            patch.setitem(sys.modules, name, module)
        patch.setattr(subprocess, "run", trial)
        patch.chdir(ROOT)
        runpy.run_path(str(ROOT / "setup.py"))
        (self.extension,) = said["ext_modules"]
        self.options = said["options"]
        command = said["cmdclass"]["build_ext"]()
        command.extensions = [self.extension]
        self.linker = ["cc", "-shared", "-Wl,-rpath,/opt/lib"]
        command.compiler = types.SimpleNamespace(linker_so=self.linker)
        command.build_extensions()
        self.linker = command.compiler.linker_so
        self.compile: list[str] = self.extension.extra_compile_args
        self.link: list[str] = self.extension.extra_link_args


@pytest.fixture(autouse=True)
def on_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.name == "nt":
        pytest.skip("the flags of gcc and clang")
    monkeypatch.setattr(sys, "platform", "linux")


PROTECTED = {"-fstack-protector-strong", "-fvisibility=hidden"}
FORTIFIED = {"-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"}
LINKED = "-Wl,-z,relro,-z,now"


def test_the_usual_build(monkeypatch: pytest.MonkeyPatch) -> None:
    built = Built(monkeypatch)
    assert {*built.compile} >= PROTECTED | FORTIFIED | {"-O2", "-g0", "-flto", "-DNDEBUG"}
    assert {*built.link} >= {LINKED, "-O2", "-flto"} and "-s" not in built.link
    assert built.linker == ["cc", "-shared"], "the run path is left out"
    assert "-Werror" not in built.compile
    assert len(built.extension.sources) > 50


def test_files_are_linked_as_one_where_a_trial_links(monkeypatch: pytest.MonkeyPatch) -> None:
    built = Built(monkeypatch, links=False)
    (line,) = built.asked
    assert line[:2] == ["cc", "-shared"] and "-flto" in line
    assert "-flto" not in built.compile + built.link
    assert {*built.compile} >= PROTECTED | FORTIFIED and LINKED in built.link


@pytest.mark.parametrize(
    ("flags", "fortified"),
    [
        ("-O1 -g", True),
        ("-Og", True),
        ("-O2 -O0", False),
        ("-O1 -fsanitize=address,undefined", False),
    ],
)
def test_flags_of_others_replace_the_optimisation_alone(
    flags: str, fortified: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = Built(monkeypatch, CFLAGS=flags)
    assert not {"-O2", "-g0", "-flto"} & {*built.compile, *built.link} and not built.asked
    assert {*built.compile} >= PROTECTED and LINKED in built.link
    assert ("-D_FORTIFY_SOURCE=2" in built.compile) == fortified
    assert "-U_FORTIFY_SOURCE" in built.compile


@pytest.mark.parametrize("name", ["CFLAGS", "CPPFLAGS"])
def test_a_level_of_checks_of_others_stays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    built = Built(monkeypatch, **{name: "-O2 -D_FORTIFY_SOURCE=3"})
    assert not [word for word in built.compile if "FORTIFY" in word]


def test_a_build_without_optimisation_has_no_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The C library warns of them; an interpreter may have been built so."""
    monkeypatch.setattr(sysconfig, "get_config_var", {"CFLAGS": "-g -O0"}.get)
    assert "-D_FORTIFY_SOURCE=2" not in Built(monkeypatch, CFLAGS="-g").compile
    assert "-D_FORTIFY_SOURCE=2" in Built(monkeypatch).compile


def test_variables_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    built = Built(monkeypatch, DLSHIM_WERROR="1", DLSHIM_ASSERT="1")
    assert {"-Werror", "-UNDEBUG"} <= {*built.compile}


@pytest.mark.parametrize("free", [0, 1])
def test_an_interpreter_without_a_lock_has_a_wheel_of_its_own(
    free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysconfig, "get_config_var", {"Py_GIL_DISABLED": free}.get)
    built = Built(monkeypatch)
    macros = {"DLS_FREE_THREADED": "1"} if free else {"Py_LIMITED_API": "0x030a0000"}
    assert dict(built.extension.define_macros) == macros
    assert bool(built.options) == built.extension.py_limited_api == (not free)


def test_other_systems_have_no_flags_of_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    built = Built(monkeypatch)
    assert not built.asked and not built.link and "-flto" not in built.compile
    assert {*built.compile} >= PROTECTED | FORTIFIED


def test_another_python_is_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "implementation", NOT_CPYTHON)
    with pytest.raises(SystemExit, match="dlshim needs CPython, and this is pypy"):
        Built(monkeypatch)


# ---- an editable install ------------------------------------------------------------------------


def tree(folder: Path, source: float, built: float) -> Path:
    """A tree with one source and one extension, written at these times."""
    made = ("src/core", "a.c", source), ("shim", "_core.abi3.so", built), ("", "setup.py", 1.0)
    for where, name, when in made:
        file = folder / where / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        os.utime(file, (when, when))
    (folder / "shim/include").mkdir()
    return folder


@pytest.mark.parametrize(
    ("editable", "source", "built", "is_built"),
    [(True, 9.0, 5.0, True), (True, 4.0, 5.0, False), (False, 9.0, 5.0, False)],
)
def test_an_editable_install_is_built_anew_where_a_source_is_newer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, editable: bool, source: float, built: float,
    is_built: bool,
) -> None:  # fmt: skip
    root = tree(tmp_path, source, built)
    found = root / "shim" if editable else tmp_path / "elsewhere"
    spec = types.SimpleNamespace(submodule_search_locations=[str(found)])
    commands = []
    monkeypatch.setattr(rebuilding, "find_spec", lambda name: spec)
    done = subprocess.CompletedProcess([], 0)
    monkeypatch.setattr(subprocess, "run", lambda words, **more: commands.append(words) or done)
    assert rebuilding.rebuild(root) is is_built
    assert [words[1:4] for words in commands] == [["setup.py", "-q", "build_ext"]] * is_built


def test_an_editable_install_that_cannot_be_built_says_what_it_wants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(tmp_path, 9.0, 5.0)  # its setup.py builds nothing
    (root / "setup.py").write_text("raise SystemExit('no compiler')")
    os.utime(root / "setup.py", (9.0, 9.0))
    spec = types.SimpleNamespace(submodule_search_locations=[str(root / "shim")])
    monkeypatch.setattr(rebuilding, "find_spec", lambda name: spec)
    with pytest.raises(SystemExit, match=r"no compiler[\s\S]*pip install 'setuptools>=77'"):
        rebuilding.rebuild(root)
