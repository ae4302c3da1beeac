"""What is installed is what the project means to ship, and nothing else."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest
from project.tree import ROOT, absent, installed_core, tool

#: No budget: more is an accident, such as debug information or a file that nobody meant.
LARGEST = 550_000
PACKAGE = ROOT / "shim"
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def distribution() -> importlib.metadata.Distribution:
    """The distribution that the imported package belongs to.

    A build in the source tree leaves an egg-info there, which is not what is meant.
    """
    site = str(installed_core().parents[1])
    found = list(importlib.metadata.distributions(name="dlshim", path=[site]))
    assert len(found) == 1, found
    return found[0]


def installed_files() -> dict[str, Path]:
    """Every file of the installed distribution but pip's own notes and caches."""
    files = distribution().files or []
    # What an installer writes: it is in no wheel.
    notes = {"INSTALLER", "REQUESTED", "direct_url.json"}
    return {
        file.as_posix(): Path(str(file.locate()))
        for file in files
        if file.suffix != ".pyc" and file.name not in notes
    }


def given_wheel() -> Path | None:
    """The wheel file, where the run is told of one or one was built here."""
    given = os.environ.get("DLSHIM_WHEEL")
    wheels = [Path(given)] if given else sorted((ROOT / "dist").glob("dlshim-*.whl"))
    return wheels[0] if len(wheels) == 1 and wheels[0].is_file() else None


def test_the_installed_package_is_not_the_source_tree() -> None:
    place = installed_core().resolve()
    assert {"site-packages", "dist-packages"} & set(place.parts)
    assert PACKAGE not in place.parents


def test_tag() -> None:
    text = distribution().read_text("WHEEL") or ""
    tags = re.findall(r"^Tag: (\S+)$", text, re.M)
    # A wheel for old releases of glibc has two names for one system (manylinux2014 is one of them).
    ((interpreter, abi),) = {tuple(tag.split("-")[:2]) for tag in tags}
    systems = [tag.split("-")[2] for tag in tags]
    if FREE_THREADED:
        version = f"cp{sys.version_info.major}{sys.version_info.minor}"
        assert (interpreter, abi) == (version, f"{version}t")
    else:
        assert (interpreter, abi) == ("cp310", "abi3")
        assert installed_core().name == "_core.abi3.so"
    if sys.platform == "linux":
        assert all(re.match("(many|musl)?linux", system) for system in systems)


#: What of the package's folder a wheel has.
SHIPPED = "*.py *.pyi *.pxd *.html *.cpp py.typed include/* cmake/*"


def test_contents() -> None:
    meant = {
        f"dlshim/{path.relative_to(PACKAGE).as_posix()}"
        for pattern in SHIPPED.split()
        for path in PACKAGE.rglob(pattern)
    }
    assert "dlshim/py.typed" in meant and "dlshim/_core.pyi" in meant
    shipped = {name for name in installed_files() if ".dist-info/" not in name}
    assert shipped == meant | {f"dlshim/{installed_core().name}"}


def test_metadata() -> None:
    about = distribution().metadata
    assert about["License-Expression"] == "Apache-2.0"
    assert about["Requires-Python"] == ">=3.10"
    needed = [line for line in distribution().requires or [] if "extra ==" not in line]
    assert needed == [], "dlshim needs nothing to run"
    names = {Path(name).name for name in installed_files() if ".dist-info/" in name}
    assert {"LICENSE", "METADATA", "RECORD", "WHEEL"} <= names


def test_version_is_one() -> None:
    import dlshim

    assert dlshim.__version__ == distribution().version


@pytest.mark.parametrize(
    "name",
    sorted(
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*")
        if path.suffix in (".py", ".pyi", ".html", ".cpp", ".h")
    ),
)
def test_installed_files_are_those_of_the_repository(name: str) -> None:
    assert (installed_core().parent / name).read_bytes() == (PACKAGE / name).read_bytes()


def test_no_accident_is_installed() -> None:
    sizes = {
        name: len(zlib.compress(path.read_bytes(), 6)) for name, path in installed_files().items()
    }
    total = sum(sizes.values())
    print(f"{total} bytes compressed, {len(sizes)} files")
    assert total <= LARGEST, sorted(sizes.items(), key=lambda item: -item[1])[:3]


def test_the_wheel_file() -> None:
    wheel = given_wheel()
    if wheel is None:
        absent("no wheel file here (DLSHIM_WHEEL=FILE names one)")
        return
    with zipfile.ZipFile(wheel) as file:
        inside = {name for name in file.namelist() if not name.endswith("/")}
    assert inside == set(installed_files())


@pytest.mark.skipif(sys.platform != "linux", reason="reads ELF")
def test_only_libc_is_needed() -> None:
    done = subprocess.run(
        [tool("objdump"), "-p", str(installed_core())], capture_output=True, text=True, check=True
    )
    needed = re.findall(r"^\s*NEEDED\s+(\S+)", done.stdout, re.M)
    # An older glibc has several files, and the linker's has the variables of threads; musl has one.
    c_library = r"lib(c|dl|pthread)\.so(\.\d+)?|ld[\w-]*\.so\.\d|libc\.musl-\w+\.so\.1"
    assert needed and all(re.fullmatch(c_library, name) for name in needed), needed
    assert "RUNPATH" not in done.stdout and "RPATH" not in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="reads ELF")
def test_the_extension_is_hardened() -> None:
    """Guards of stacks, checks of copies and formats, and addresses that cannot be written to."""
    core = str(installed_core())
    told = {
        what: subprocess.run([tool(name), *words, core], capture_output=True, text=True).stdout
        for what, name, *words in (
            ("asked", "nm", "-D", "--undefined-only"),
            ("segments", "readelf", "-lW"),
            ("dynamic", "readelf", "-dW"),
        )
    }
    asked = {word.partition("@")[0] for word in told["asked"].split()}
    assert "__stack_chk_fail" in asked
    # musl has no such checks.
    assert platform.libc_ver()[0] != "glibc" or any(
        name.endswith("_chk") and name.startswith("__") for name in asked
    )
    assert "GNU_RELRO" in told["segments"] and "GNU_EH_FRAME" in told["segments"]
    assert re.search(r"GNU_STACK .* RW ", told["segments"]), "stacks are not executable"
    assert re.search(r"\(FLAGS\).*BIND_NOW|\(BIND_NOW\)", told["dynamic"])
    assert "TEXTREL" not in told["dynamic"]


def test_the_source_distribution_is_the_repository() -> None:
    """So that its own tests pass from it; setuptools adds PKG-INFO, setup.cfg and its egg-info."""
    found = sorted((ROOT / "dist").glob("dlshim-*.tar.gz"))
    if not found or not (ROOT / ".git").exists():
        absent("no source distribution here, or no repository (nox -s build)")
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    with tarfile.open(found[-1]) as file:
        inside = {
            name.partition("/")[2] for name in (m.name for m in file.getmembers() if m.isfile())
        }
    added = {"PKG-INFO", "setup.cfg"} | {name for name in inside if ".egg-info/" in name}
    assert inside - added == set(listed) - {".gitignore"}
