"""The projects of examples/builds find dlshim.h where build tools look, in isolated builds.

An isolated build sees nothing but what its `requires` names, so a row of the table in
docs/c-interface.rst ("Where the header is") works if its project is built here.
`nox -s builds` runs it, for pip fetches the build tools.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from project.tree import ROOT, absent, read_toml, tool

import dlshim

EXAMPLES = ROOT / "examples"
PROJECTS = sorted(path.name for path in (EXAMPLES / "builds").iterdir())
#: Each module of an example has it.
TRY = (
    "import {name}; assert memoryview({name}.ramp(3)).tolist() == [0, 1, 2]; print({name}.__file__)"
)


def run(*command: str, folder: Path, **more: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **more}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("project", PROJECTS)
def test_an_isolated_build_finds_the_header(project: str, tmp_path: Path) -> None:
    wheel = os.environ.get("DLSHIM_WHEEL")
    if wheel is None:
        absent("DLSHIM_WHEEL names no wheel: `nox -s builds` does")
    made = Path(shutil.copytree(EXAMPLES / "builds" / project, tmp_path / project))
    name = read_toml(made / "pyproject.toml")["project"]["name"]
    (source,) = EXAMPLES.glob(f"{name}.*")
    shutil.copy(source, made)
    wheels = f"--find-links={Path(str(wheel)).resolve().parent}"
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", wheels, "-w", "out", ".", folder=made)
    (built,) = (made / "out").glob("*.whl")
    target = tmp_path / "installed"
    install = (sys.executable, "-m", "pip", "install", "--no-deps", "--target", str(target))
    run(*install, str(built), folder=tmp_path)
    said = run(sys.executable, "-c", TRY.format(name=name), folder=tmp_path, PYTHONPATH=str(target))
    assert Path(said.strip()).parent == target


@pytest.mark.parametrize("project", PROJECTS)
def test_the_head_of_a_project_says_which_source_it_needs(project: str) -> None:
    first, *_ = (EXAMPLES / "builds" / project / "pyproject.toml").read_text().splitlines()
    (source,) = re.findall(r"^# Copy (\S+) beside this file, and then: pip install \.$", first)
    assert (EXAMPLES / "builds" / project / source).is_file()
    name = Path(source).name
    texts = [path.read_text() for path in (EXAMPLES / "builds" / project).iterdir()]
    assert sum(name in text for text in texts) > 1  # the head, and what builds it


def test_cmake_alone_finds_the_header(tmp_path: Path) -> None:
    """By the line that the manual has for it, in the project of scikit-build-core."""
    shutil.copytree(EXAMPLES / "builds" / "scikit-build-core", tmp_path, dirs_exist_ok=True)
    shutil.copy(EXAMPLES / "plain_c.c", tmp_path)
    folder = run(sys.executable, "-m", "dlshim", "--cmake", folder=tmp_path).strip()
    python = f"-DPython_EXECUTABLE={sys.executable}"
    run(tool("cmake"), f"-Ddlshim_DIR={folder}", python, "-B", "out", folder=tmp_path)
    run(tool("cmake"), "--build", "out", folder=tmp_path)
    run(sys.executable, "-c", TRY.format(name="plain_c"), folder=tmp_path, PYTHONPATH="out")


def test_the_pkgconf_of_pypi_finds_the_file_by_itself(tmp_path: Path) -> None:
    command = Path(sysconfig.get_path("scripts")) / "pkgconf-pypi"
    if not command.exists():
        absent("pkgconf of PyPI is not installed: `nox -s builds` installs it")
    said = run(str(command), "--cflags", "dlshim >= 0.1", folder=tmp_path)
    assert Path(said.strip().removeprefix("-I")).samefile(dlshim.get_include())


def test_the_folder_is_found_without_an_import(tmp_path: Path) -> None:
    """In a cross build the module may be of another machine, and cannot be loaded."""
    page = (ROOT / "docs" / "c-interface.rst").read_text(encoding="utf-8")
    (line,) = re.findall(r'python -c "(from importlib\.util .*?)"$', page, re.M)
    code = f"import sys; sys.modules['dlshim._core'] = None\n{line}"
    said = run(sys.executable, "-c", code, folder=tmp_path)
    assert Path(said.strip()).samefile(dlshim.get_include())
