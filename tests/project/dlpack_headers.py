"""Real dlpack.h files of other projects' releases, to compare our declarations with."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from project.tree import REQUIRED, ROOT

#: DLPack release -> Debian suite whose libdlpack-dev has it.
SUITES = {"0.6": "bookworm", "1.0": "trixie"}

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
KEPT = ROOT / "build" / "dlpack-headers"


class NotHere(Exception):
    """Why a header cannot be had."""


def release(header: Path) -> str:
    """The release that a header says it is of."""
    text = header.read_text()
    major = re.search(r"#define DLPACK_MAJOR_VERSION (\d+)", text)
    minor = re.search(r"#define DLPACK_MINOR_VERSION (\d+)", text)
    if major and minor:
        return f"{major[1]}.{minor[1]}"
    older = re.search(r"#define DLPACK_VERSION (\d+)", text)
    if older is None:
        raise NotHere(f"{header} does not say its version")
    return f"0.{int(older[1]) // 10}"


def newest() -> Path:
    """The header that PyPI's apache-tvm-ffi carries; the package is not imported."""
    given = os.environ.get("DLSHIM_DLPACK_H")
    if given:
        return Path(given)
    try:
        files = importlib.metadata.files("apache-tvm-ffi") or []
    except importlib.metadata.PackageNotFoundError:
        raise NotHere("apache-tvm-ffi, which carries dlpack.h, is not installed") from None
    for file in files:
        if file.name == "dlpack.h":
            return Path(str(file.locate()))
    raise NotHere("the installed apache-tvm-ffi carries no dlpack.h")


def debian(wanted: str) -> Path:
    """The header of Debian's libdlpack-dev, as installed, as kept, or as downloaded."""
    kept = KEPT / wanted / "dlpack.h"
    for header in (kept, Path("/usr/include/dlpack/dlpack.h")):
        if header.is_file() and release(header) == wanted:
            return header
    if not REQUIRED and os.environ.get("DLSHIM_FETCH") != "1":
        raise NotHere(f"no dlpack.h of DLPack {wanted} here (DLSHIM_FETCH=1 gets it from Debian)")
    _download(SUITES[wanted], kept)
    if release(kept) != wanted:
        raise NotHere(f"Debian {SUITES[wanted]} has DLPack {release(kept)}, not {wanted}")
    return kept


def _download(suite: str, header: Path) -> None:
    """Get libdlpack-dev of a suite with apt, which is left as it is on this machine.

    apt runs on a configuration of its own: one source, made of the address that this
    machine's own sources name, and empty state and cache folders.
    """
    for command in ("apt-get", "dpkg-deb"):
        if shutil.which(command) is None:
            raise NotHere(f"no {command} to get libdlpack-dev of {suite} with")
    with tempfile.TemporaryDirectory() as place:
        private = Path(place)
        for folder in ("state/lists/partial", "cache/archives/partial", "etc"):
            (private / folder).mkdir(parents=True)
        signed = f"[signed-by={KEYRING}] " if Path(KEYRING).exists() else ""
        source = private / "etc" / "sources.list"
        source.write_text(f"deb {signed}{_mirror(private)} {suite} main\n")
        options = {
            "Dir::Etc::sourcelist": source,
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::State": private / "state",
            "Dir::State::status": "/dev/null",
            "Dir::Cache": private / "cache",
            "Acquire::Languages": "none",
            # The download user of apt cannot enter a private folder.
            "APT::Sandbox::User": "root",
        }
        apt = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in options.items())]
        _call([*apt, "update"], private)
        _call([*apt, "download", "libdlpack-dev"], private)
        (package,) = private.glob("libdlpack-dev_*.deb")
        _call(["dpkg-deb", "-x", str(package), str(private / "unpacked")], private)
        header.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(private / "unpacked/usr/include/dlpack/dlpack.h", header)


def _mirror(private: Path) -> str:
    """The address of Debian's archive in this machine's own apt sources."""
    listed = _call(
        ["apt-get", f"-oDir::State={private / 'state'}", "update", "--print-uris"], private
    )
    # Only Debian's own archive has a suite of this machine's code name and its updates.
    release_file = Path("/etc/os-release").read_text()
    codename = re.search(r"^VERSION_CODENAME=\"?([\w-]+)", release_file, re.M)
    if codename is None:
        raise NotHere("this machine's /etc/os-release names no Debian suite")
    found = re.search(rf"^'(\S+?)/?dists/{codename[1]}/(?:InRelease|Release)'", listed, re.M)
    if found is None:
        raise NotHere(f"this machine's apt sources have no suite {codename[1]}")
    return found[1]


def _call(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise NotHere(f"{' '.join(command[:1] + command[-1:])} failed: {' '.join(last)}")
    return done.stdout
