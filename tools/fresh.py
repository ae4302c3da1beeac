"""The README's commands as a newcomer runs them: in a copy of the commit, with an empty HOME.

    python tools/fresh.py --python PYTHON --results FILE     on this machine, PYTHON being python3
    python tools/fresh.py --debian                           in a bare Debian 12, in a chroot
    python tools/fresh.py ... --set NAME=VALUE ...           with these variables, too

The commands see no variable of the caller. Of this machine's settings they get those by which pip
reaches its index, and proxies. Each command has a copy and a HOME of its own. The second, which
runs the tests, leaves a JUnit file where --results says. The first command that fails ends it,
with its exit status. The session `readme` of noxfile.py runs this.
"""

from __future__ import annotations

import argparse
import ast
import configparser
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import debian

ROOT = Path(__file__).resolve().parent.parent
#: What a Debian 12 of nothing but its essential packages lacks.
DEBIAN = ["python3", "python3-venv", "python3-dev", "gcc", "libc6-dev", "git", "ca-certificates"]
#: A login's PATH.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Options by which pip reaches its index, and those of them that hold addresses or paths.
REACH = {"no-index", "trusted-host", "proxy", "timeout", "default-timeout", "retries"}
ADDRESSES = {"index-url", "extra-index-url", "find-links", "cert", "client-cert"}
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
#: Variables that name a file of certificates where pip's own configuration names none.
CERTIFICATES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")


def commands() -> list[str]:
    """The README's commands."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"^(python3 -m venv .*)$", readme, re.M)
    assert len(found) == 2 and found[1].endswith("python -m pytest"), found
    return found


def words_of(value: str) -> list[str]:
    return [os.path.expanduser(word) for word in value.split()]


def pip_reach() -> dict[str, str]:
    """How pip reaches its index here, wherever that is written: in files or in variables."""
    line = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(line, check=True, capture_output=True, text=True).stdout
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for section, name, value in re.findall(r"^(\S+?)\.(\S+?)=(.*)$", listed, re.M):
        if section in found and name in REACH | ADDRESSES:
            found[section][name] = ast.literal_eval(value)
    # The later has the last word, as it has with pip.
    reach = {**found["global"], **found["install"], **found[":env:"]}
    certificates = [os.environ[name] for name in CERTIFICATES if os.environ.get(name)]
    if certificates and "cert" not in reach:
        reach["cert"] = certificates[0]
    for name in ADDRESSES & reach.keys():
        reach[name] = "\n".join(words_of(reach[name]))
    return reach


def local_paths(reach: dict[str, str]) -> list[Path]:
    """The files and folders of this machine that pip's configuration leads to."""
    words = [word for name in ADDRESSES & reach.keys() for word in reach[name].split()]
    plain = [Path(word) for word in words if word.startswith("/")]
    # An index is a folder of pages; what they lead to lies beside it.
    indices = [Path(word.removeprefix("file://")) for word in words if word.startswith("file://")]
    paths = {*plain, *(path.parent for path in indices)}
    return sorted(path for path in paths if path.exists() and path != Path("/"))


def proxies() -> dict[str, str]:
    names = [*PROXIES, *(name.upper() for name in PROXIES)]
    return {name: os.environ[name] for name in names if os.environ.get(name)}


def copy_commit(folder: Path) -> None:
    """What the commit holds; what is changed or untracked here is not in it."""
    git = ["git", "-c", "safe.directory=*", "-C", str(ROOT), "archive", "HEAD"]
    with tempfile.TemporaryFile() as archive:
        subprocess.run(git, check=True, stdout=archive)
        archive.seek(0)
        with tarfile.open(fileobj=archive) as files:
            files.extractall(folder)


def prepare(work: Path, reach: dict[str, str]) -> None:
    """A folder with an empty HOME, a copy of the commit and pip's configuration."""
    (work / "home").mkdir()
    copy_commit(work / "dlshim")
    file = configparser.RawConfigParser()
    file["global"] = reach
    with (work / "pip.conf").open("w") as out:
        file.write(out)


def variables(work: str, path: str, more: list[str]) -> dict[str, str]:
    """Every variable that a command sees, its folder being `work`."""
    own = {"HOME": f"{work}/home", "PATH": path, "PIP_CONFIG_FILE": f"{work}/pip.conf"}
    return {**own, **proxies(), **dict(pair.split("=", 1) for pair in more)}


def bare_debian() -> Path:
    root = ROOT / "build" / "bookworm"
    if not root.exists():
        debian.make(root, "bookworm", "minbase", DEBIAN)
    return root


def line_here(work: Path, command: str, python: str, more: list[str]) -> list[str]:
    """The line that runs a command on this machine."""
    given = variables(str(work), f"{Path(python).parent}:{PATH}", more)
    words = [f"{name}={value}" for name, value in given.items()]
    return ["env", "-i", "-C", str(work / "dlshim"), *words, "/bin/sh", "-c", command]


def line_in_debian(work: Path, command: str, reach: dict[str, str], more: list[str]) -> list[str]:
    """The line that runs a command in a bare Debian."""
    bound = {str(path): path for path in local_paths(reach)}
    for file in (Path("/etc/resolv.conf"), Path("/etc/hosts")):
        if file.exists():
            bound[str(file)] = file.resolve()
    bound["/fresh"] = work
    shell = ["/bin/sh", "-c", f"cd /fresh/dlshim && {command}"]
    return debian.entering(bare_debian(), shell, variables("/fresh", PATH, more), bound)


def run(number: int, command: str, options: argparse.Namespace) -> int:
    """Run a command in a folder of its own; return its exit status."""
    reach = pip_reach()
    print(f"{number}. {command}", flush=True)
    with tempfile.TemporaryDirectory(prefix="dlshim-fresh-") as folder:
        work = Path(folder)
        prepare(work, reach)
        if number == 2:
            command += " --junitxml=results.xml"
        if options.debian:
            line = line_in_debian(work, command, reach, options.set)
        else:
            line = line_here(work, command, options.python, options.set)
        status = subprocess.run(line, check=False).returncode
        results = work / "dlshim" / "results.xml"
        if options.results and results.exists():
            options.results.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(results, options.results)
    return status


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--debian", action="store_true")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    if options.results:
        options.results.unlink(missing_ok=True)
    for number, command in enumerate(commands(), 1):
        if status := run(number, command, options):
            print(f"command {number} ended with {status}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
