"""Debian in a folder: made by mmdebstrap, entered with mounts of its own; and Debian's sources.

tools/fresh.py, free_threaded.py, newer_python.py and wheels.py use it.  Needs Linux, root, Debian's
mmdebstrap and, for a foreign processor, qemu-user-static and Linux 6.7: the kernel starts its
programs through a table of their own (binfmt_misc in a user namespace).  It writes below build/ and
changes nothing else of the machine.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
#: What the core suite needs: the last hypothesis that is pure Python.
NEEDS = ("pytest>=9", "hypothesis==6.155.7")

#: Runs in a mount namespace of its own, so that the mounts end with the command.  The arguments are
#: the folder, an entry of binfmt_misc or nothing, pairs of paths (what is bound, and where), "--",
#: and what `env -i` is passed.
ENTER = """
set -e
root=$1 programs=$2; shift 2
if [ -n "$programs" ]; then
    mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
    printf %s "$programs" > /proc/sys/fs/binfmt_misc/register
fi
mount --rbind /dev "$root/dev"
mount --rbind /proc "$root/proc"
while [ "$1" != -- ]; do mount --bind "$1" "$2"; shift 2; done
shift
exec env -i "$@"
"""


def archive() -> str:
    """The address of Debian's archive in this machine's own sources."""
    for file in (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list")):
        if file.exists() and (found := re.search(r"https?://\S+/debian/?(?=\s)", file.read_text())):
            return found[0]
    sys.exit("this machine's apt sources do not name Debian's archive")


def make(
    root: Path, suite: str, variant: str, packages: Sequence[str], architecture: str = ""
) -> None:
    """A new folder with `packages` of Debian's `suite`; `variant` says what comes with them, and
    `architecture` names another processor than this machine's."""
    root.parent.mkdir(parents=True, exist_ok=True)
    unfinished = root.with_name(f"{root.name}.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    line = ["mmdebstrap", "--quiet", f"--variant={variant}", f"--include={','.join(packages)}"]
    line += [f"--architectures={architecture}"] if architecture else []
    # A mirror's copy of the unstable suite may be older than its signature allows.
    line += ['--aptopt=Acquire::Check-Valid-Until "false"']
    line += [suite, str(unfinished), f"deb {archive()} {suite} main"]
    subprocess.run(line, check=True)
    unfinished.rename(root)


def place_for(source: Path, place: Path) -> None:
    """Something that `source` can be bound to."""
    if place.is_symlink():
        place.unlink()  # it may lead out of the folder
    if source.is_dir():
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()


def entering(
    root: Path,
    command: Sequence[str],
    variables: Mapping[str, str],
    bound: Mapping[str, Path],
    programs: str = "",
) -> list[str]:
    """The line that runs `command` in the folder with these variables and no others.

    `bound` says what of this machine is seen there, by the path that it has there; `programs` is
    an entry of binfmt_misc, which holds in a user namespace made for the command.
    """
    for folder in ("dev", "proc", "tmp"):
        (root / folder).mkdir(exist_ok=True)
    pairs = []
    for inside, source in bound.items():
        place = root / inside.lstrip("/")
        place_for(source, place)
        pairs += [str(source), str(place)]
    chroot = shutil.which("chroot") or "/usr/sbin/chroot"
    spaces = ["--map-root-user", "--mount"] if programs else ["--mount"]
    line = ["unshare", *spaces, "sh", "-c", ENTER, "sh", str(root), programs, *pairs, "--"]
    words = [f"{name}={value}" for name, value in variables.items()]
    return [*line, *words, chroot, str(root), *command]


# ---- Debian's Python ----------------------------------------------------------------------------

#: The processor that QEMU pretends to be, where its default is slow.  The default of aarch64 signs
#: pointers, and four fifths of the time went into the signatures.
PRETENDED = {"aarch64": "neoverse-n1"}
#: A root that mmdebstrap only unpacks has no shell to change the folder with.
START = """
import os, sys
os.chdir("/project")
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


class Python(NamedTuple):
    """An interpreter of Debian in a folder; `qemu` is empty for this machine's processor."""

    root: Path
    version: str
    qemu: str = ""

    @property
    def packages(self) -> Path:
        """Where it finds packages, whatever its version."""
        return self.root / "usr" / "lib" / "python3" / "dist-packages"


def can_emulate() -> bool:
    """Whether this kernel keeps a table of programs for a user namespace."""
    mount = "mount -t binfmt_misc none /proc/sys/fs/binfmt_misc"
    line = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount]
    return subprocess.run(line, capture_output=True).returncode == 0


def emulator(qemu: str) -> str:
    """The line by which the kernel starts programs of that processor with QEMU."""
    file = Path(f"/usr/lib/binfmt.d/qemu-{qemu}.conf")
    if not file.exists():
        sys.exit("a foreign processor needs QEMU: apt-get install qemu-user-static")
    return file.read_text().strip()


def python(
    version: str, *suites: str, architecture: str = "", qemu: str = "", more: Sequence[str] = ()
) -> Python:
    """A Python, `more` packages and what they need, of the first suite that can be read: a mirror's
    copy of one may be broken for a while."""
    root = ROOT / "build" / "roots" / "-".join([version, *filter(None, [architecture]), *more])
    if not (root / f"usr/bin/python{version}").exists():
        packages = [f"python{version}", *more]
        for suite in suites:
            with contextlib.suppress(subprocess.CalledProcessError):
                make(root, suite, "extract", packages, architecture)
                break
        else:
            sys.exit(f"none of Debian's {', '.join(suites)} has {', '.join(packages)}")
        for folder in ("lib", "lib64", "bin"):
            if not (root / folder).exists() and (root / "usr" / folder).exists():
                (root / folder).symlink_to(f"usr/{folder}")
    return Python(root, version, qemu)


def install(python: Python, wheel: Path) -> None:
    """The wheel, and what the suite needs, all of it pure Python."""
    for stale in python.packages.glob("dlshim*"):
        shutil.rmtree(stale)
    shutil.unpack_archive(wheel, python.packages, "zip")
    if not (python.packages / "pytest").exists():
        line = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:"]
        line += ["--target", str(python.packages), "--python-version", python.version]
        subprocess.run([*line, "--platform", "any", *NEEDS], check=True)


def run(python: Python, arguments: Sequence[str]) -> int:
    """Runs that Python with the project at /project; the exit status."""
    variables = {"PATH": "/usr/bin", "HOME": "/tmp", "LC_ALL": "C.UTF-8"}
    if python.qemu in PRETENDED:
        variables["QEMU_CPU"] = PRETENDED[python.qemu]
    line = entering(
        python.root,
        [f"/usr/bin/python{python.version}", "-c", START, *arguments],
        variables,
        {"/project": ROOT},
        emulator(python.qemu) if python.qemu else "",
    )
    return subprocess.run(["nice", "-n", "10", *line]).returncode


# ---- Debian's sources ---------------------------------------------------------------------------


def source(package: str, *suites: str) -> Path:
    """The folder of a package's `configure`, below build/sources."""
    folder = ROOT / "build" / "sources" / package
    if not any(folder.glob("*/configure")):
        fetch(package, folder, suites)
    if found := sorted(folder.glob("*/configure")):
        return found[-1].parent
    sys.exit(f"Debian's source of {package} has no configure")


def apt_options(folder: Path, suites: Sequence[str]) -> list[str]:
    """Options by which apt-get reads these suites, and writes below `folder`."""
    for each in ("lists", "cache/archives"):
        (folder / each / "partial").mkdir(parents=True, exist_ok=True)
    lines = [f"deb-src {archive()} {suite} main\n" for suite in suites]
    (folder / "sources.list").write_text("".join(lines))
    places = {
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "Acquire::Check-Valid-Until": "false",
    }
    return [word for item in places.items() for word in ("-o", "{}={}".format(*item))]


def fetch(package: str, folder: Path, suites: Sequence[str]) -> None:
    """The first version that can be had: a changing suite's archive may lack the newest one."""
    apt = apt_options(folder, suites)
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
    for file in folder.glob(f"{package}_*.orig.tar.*[!c]"):
        subprocess.run(["tar", "xf", str(file), "-C", str(folder)], check=True)
