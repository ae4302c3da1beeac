"""The source of a package, from Debian's archive, unpacked below build/sources.

tools/free_threaded.py and tools/musl.py use it.  Needs Debian's apt-get, tar, and nothing that is
configured on this machine but the address of the archive.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import chroot

SOURCES = Path(__file__).resolve().parent.parent / "build" / "sources"


def options(folder: Path, suites: tuple[str, ...]) -> list[str]:
    """What makes apt-get read these suites, and write below `folder`."""
    for each in ("lists", "cache/archives"):
        (folder / each / "partial").mkdir(parents=True, exist_ok=True)
    lines = [f"deb-src {chroot.archive()} {suite} main\n" for suite in suites]
    (folder / "sources.list").write_text("".join(lines))
    places = {
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "Acquire::Check-Valid-Until": "false",
    }
    return [word for item in places.items() for word in ("-o", "{}={}".format(*item))]


def source(package: str, *suites: str) -> Path:
    """The folder of its `configure`, of the first version that can be had: the archive of a suite
    that changes may lack the newest one."""
    folder = SOURCES / package
    if not any(folder.glob("*/configure")):
        fetch(package, folder, suites)
    if found := sorted(folder.glob("*/configure")):
        return found[-1].parent
    sys.exit(f"Debian's source of {package} has no configure")


def fetch(package: str, folder: Path, suites: tuple[str, ...]) -> None:
    apt = options(folder, suites)
    subprocess.run(["apt-get", *apt, "-qq", "update"], check=True)
    shown = subprocess.run(
        ["apt-cache", *apt, "showsrc", package], check=True, capture_output=True, text=True
    ).stdout
    versions = [line.split()[1] for line in shown.splitlines() if line.startswith("Version: ")]
    for version in versions:
        get = ["apt-get", *apt, "-qq", "source", "--download-only", f"{package}={version}"]
        if subprocess.run(get, cwd=folder, check=False).returncode == 0:
            break
    else:
        sys.exit(f"Debian's archive has none of {package} {', '.join(versions)}")
    for archive in folder.glob(f"{package}_*.orig.tar.*[!c]"):
        subprocess.run(["tar", "xf", str(archive), "-C", str(folder)], check=True)
