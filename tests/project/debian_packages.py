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
    for command in ("apt-get", "dpkg-deb"):
        if shutil.which(command) is None:
            raise NotHere(f"no {command} to get {package} of {suite} with")
    with tempfile.TemporaryDirectory() as place:
        private = Path(place)
        for folder in ("state/lists/partial", "cache/archives/partial", "etc"):
            (private / folder).mkdir(parents=True)
        signed = f"[signed-by={KEYRING}] " if Path(KEYRING).exists() else ""
        source = private / "etc" / "sources.list"
        source.write_text(f"deb {signed}{_mirror(private)} {suite} {components}\n")
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
        _call([*apt, "download", *package.split()], private)
        for name in package.split():
            (archive,) = private.glob(f"{name}_*.deb")
            _call(["dpkg-deb", "-x", str(archive), str(private / "unpacked")], private)
        yield private / "unpacked"


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
