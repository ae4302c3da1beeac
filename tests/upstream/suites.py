"""Reads suites.toml, gets the files of a suite and runs it: bare, upgraded, translated.

Nothing of another project is kept in this repository. A file is taken from the installed package,
from the project's source distribution (by pip), or from Debian's source package (by apt), in the
version that the table names, and its hash is compared with the one there.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata, util
from pathlib import Path
from typing import Any

from oneapi import opencl_driver
from project import debian_packages

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "upstream"
MODES = ("bare", "upgraded", "translated")


class NotHere(Exception):
    """Why the files of a suite cannot be had."""


@dataclass(frozen=True)
class Suite:
    project: str
    package: str
    version: str
    session: str = ""  # none: not run anywhere, and why_not says why
    source: str = ""  # "wheel", "sdist", or "debian SUITE PACKAGE"
    of: str = ""  # the version of the files, where it is not `version`
    files: dict[str, str] = field(default_factory=dict)  # path -> sha256
    run: tuple[str, ...] = ()  # the files with tests; all of them, if none is named
    select: str = ""  # what pytest's -k is given
    taking: str = ""  # functions that take arrays, as adapter.PutUpgradeIn has them
    compiled: str = ""  # the extension that nanobind's tests are for
    opencl: bool = False  # whether the suite needs OpenCL's device for the CPU
    amended: dict[str, str] = field(default_factory=dict)  # test -> why it cannot pass upgraded
    fails_bare: str = ""  # why some tests fail without dlshim
    why_not: str = ""

    @property
    def name(self) -> str:
        return f"{self.package}-{self.version}"

    @property
    def files_version(self) -> str:
        return self.of or self.version

    @property
    def targets(self) -> tuple[str, ...]:
        return self.run or tuple(self.files)


def load() -> list[Suite]:
    tables = tomllib.loads((HERE / "suites.toml").read_text(encoding="utf-8"))["suite"]
    return [Suite(**{**t, "run": tuple(t.get("run", ()))}) for t in tables]


# ---- files ----------------------------------------------------------------------------------


def check(path: Path, digest: str) -> None:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != digest:
        raise NotHere(f"{path.name} has the hash {found}, not {digest}")


def from_wheel(suite: Suite, folder: Path) -> None:
    """Files of the installed package stay where they are: their imports are relative."""
    files = metadata.files(suite.package) or []
    for name, digest in suite.files.items():
        found = [file for file in files if str(file) == name]
        if not found:
            raise NotHere(f"the installed {suite.package} has no {name}")
        check(Path(found[0].locate()), digest)


def from_sdist(suite: Suite, folder: Path) -> None:
    """pip compares the archive with its index. It cannot fetch one without preparing a build;
    without isolation that fails at once where the build backend is not installed, and what was
    unpacked is kept."""
    with tempfile.TemporaryDirectory() as place:
        pip = [sys.executable, "-m", "pip", "download", "--no-clean", "--no-build-isolation"]
        pip += ["--no-binary=:all:", "--no-deps", "--dest", place]
        wanted = f"{suite.package}=={suite.files_version}"
        done = subprocess.run(
            [*pip, wanted], env={**os.environ, "TMPDIR": place}, capture_output=True, text=True
        )
        unpacked = [path.parent for path in Path(place).glob("pip-*/*/PKG-INFO")]
        if not unpacked:
            raise NotHere(f"pip has no source distribution of {wanted}: {done.stderr[-300:]}")
        copy(suite, unpacked[0], folder)


def from_debian(suite: Suite, folder: Path) -> None:
    _, release, package = suite.source.split()
    wanted = list(suite.files)
    with debian_packages.source(package, release, suite.files_version, wanted) as unpacked:
        copy(suite, unpacked, folder)


def copy(suite: Suite, unpacked: Path, folder: Path) -> None:
    for name, digest in suite.files.items():
        if not (unpacked / name).is_file():
            raise NotHere(f"the source of {suite.package} {suite.version} has no {name}")
        check(unpacked / name, digest)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(unpacked / name, folder / name)


SOURCES = {"wheel": from_wheel, "sdist": from_sdist, "debian": from_debian}


def fetch(suite: Suite) -> Path:
    """A folder with the files of the suite; fetched once."""
    folder = BUILD / suite.name
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        SOURCES[suite.source.split()[0]](suite, folder)
        if suite.compiled:
            compile_with_nanobind(folder / suite.compiled)
        (folder / "complete").touch()
    return folder


def compile_with_nanobind(source: Path) -> None:
    """tests/test_NAME.cpp becomes the module test_NAME_ext beside it, as nanobind's CMake does."""
    root = Path(util.find_spec("nanobind").origin).parent
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    command = ["g++", "-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden"]
    command += ["-fno-strict-aliasing", "-DNDEBUG", "-w"]
    for place in (root / "include", root / "ext/robin_map/include", root / "src"):
        command.append(f"-I{place}")
    command += [f"-I{sysconfig.get_path('include')}", str(root / "src/nb_combined.cpp")]
    target = source.with_name(f"{source.stem}_ext{suffix}")
    subprocess.run([*command, str(source), "-o", str(target)], check=True)


# ---- runs -----------------------------------------------------------------------------------


def targets(suite: Suite, folder: Path) -> list[str]:
    if suite.source != "wheel":
        return [str(folder / name) for name in suite.targets]
    return ["--pyargs", *(name[: -len(".py")].replace("/", ".") for name in suite.targets)]


def opencl(suite: Suite) -> dict[str, str]:
    driver = opencl_driver.find() if suite.opencl else None
    return {opencl_driver.VARIABLE: driver} if driver else {}


def run(suite: Suite, mode: str) -> dict[str, Any]:
    """What every test came to, in a process of its own."""
    folder = fetch(suite)
    results = folder / f"{mode}.json"
    results.unlink(missing_ok=True)
    order = {
        "mode": mode,
        "files": [Path(name).name for name in suite.targets],
        "taking": suite.taking,
        "results": str(results),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "plugin", "-p", "no:cacheprovider"]
    command += ["-c", os.devnull, f"--rootdir={folder}", "-W", "default"]
    command += ["-k", suite.select] if suite.select else []
    own = {
        "DLSHIM_SUITE": json.dumps(order),
        "PYTHONPATH": str(HERE),
        # What pytest keeps of a rewritten file must not serve another mode.
        "PYTHONPYCACHEPREFIX": str(folder / mode),
    }
    done = subprocess.run(
        [*command, *targets(suite, folder)],
        cwd=folder,
        env={**os.environ, **own, **opencl(suite)},
        capture_output=True,
        text=True,
    )
    (folder / f"{mode}.log").write_text(done.stdout + done.stderr)
    if not results.exists() or done.returncode not in (0, 1):
        raise AssertionError(
            f"{suite.project} {mode}: ended with {done.returncode}\n{done.stdout[-3000:]}"
            f"\n{done.stderr[-3000:]}"
        )
    return json.loads(results.read_text())


@cache
def runs(name: str) -> dict[str, dict[str, Any]]:
    (suite,) = (suite for suite in load() if suite.name == name)
    return {mode: run(suite, mode) for mode in MODES}


# ---- comparison -----------------------------------------------------------------------------


def covers(listed: str, test: str) -> bool:
    """An entry names one test, or all parameters of one."""
    return test == listed or test.startswith(listed + "[")


def lost(told: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Tests that pass bare and not upgraded, each with the last line of its failure."""
    found = {}
    for mode in MODES[1:]:
        for test, outcome in told["bare"]["outcomes"].items():
            now = told[mode]["outcomes"].get(test, "missing")
            if outcome == "passed" and now != "passed":
                why = f"{mode}: {now}: {told[mode]['reasons'].get(test, '')}"
                found.setdefault(test, why)
    return found


def gained(told: dict[str, dict[str, Any]]) -> set[str]:
    """Tests that fail bare and pass upgraded, in both ways."""
    outcomes = [told[mode]["outcomes"] for mode in MODES]
    wanted = ("failed", "passed", "passed")
    return {test for test in outcomes[0] if tuple(o.get(test) for o in outcomes) == wanted}


def passed(told: dict[str, Any]) -> int:
    return list(told["outcomes"].values()).count("passed")
