"""Packages of Debian's suites, unpacked and not installed: files to compare ourselves with."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class NotHere(Exception):
    """Why a file cannot be had."""


@contextlib.contextmanager
def unpacked(package: str, suite: str, components: str = "main") -> Iterator[Path]:
    """The files of a suite's package, or of several with spaces between, for as long as the block
    runs.

    apt is left as it is on this machine: it runs on a configuration of its own, with one source,
    made of the address that this machine's own sources name, and empty state and cache folders.
    """
    with _private_apt("deb", suite, components) as (private, apt):
        _call([*apt, "download", *package.split()], private)
        for name in package.split():
            (archive,) = private.glob(f"{name}_*.deb")
            _call(["dpkg-deb", "-x", str(archive), str(private / "unpacked")], private)
        yield private / "unpacked"


@contextlib.contextmanager
def source(package: str, suite: str, version: str, files: list[str]) -> Iterator[Path]:
    """Files of upstream's archive in a suite's source package, which must be of that version."""
    with _private_apt("deb-src", suite, "main") as (private, apt):
        _call([*apt, "source", "--download-only", package], private)
        archives = [path.name for path in private.glob(f"{package}_*.orig.tar.*")]
        found = [name for name in archives if re.match(rf"{package}_{version}(\+|\.orig)", name)]
        if not found:
            raise NotHere(f"{suite} has {archives} of {package}, not {version}")
        unpacked = private / "unpacked"
        unpacked.mkdir()
        where = ["--strip-components=1", "--wildcards", *(f"*/{name}" for name in files)]
        _call(["tar", "-xf", str(private / found[0]), "-C", str(unpacked), *where], private)
        yield unpacked


@contextlib.contextmanager
def _private_apt(kind: str, suite: str, components: str) -> Iterator[tuple[Path, list[str]]]:
    """A folder, and the command that runs apt in it on its own configuration."""
    for command in ("apt-get", "dpkg-deb"):
        if shutil.which(command) is None:
            raise NotHere(f"no {command} to get files of {suite} with")
    with tempfile.TemporaryDirectory() as place:
        private = Path(place)
        for folder in ("state/lists/partial", "cache/archives/partial", "etc"):
            (private / folder).mkdir(parents=True)
        signed = f"[signed-by={KEYRING}] " if Path(KEYRING).exists() else ""
        listed = private / "etc" / "sources.list"
        listed.write_text(f"{kind} {signed}{_mirror(private)} {suite} {components}\n")
        options = {
            "Dir::Etc::sourcelist": listed,
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
        yield private, apt


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
