"""The core suite on a CPython that this machine does not have: one of Debian's unstable suite.

    python tools/newer_python.py 3.15 dist/dlshim-*.whl [PYTEST ARGUMENT ...]

Its packages are unpacked into build/sid-3.15 and run in a chroot there, with this folder bound
into it; nothing else of the machine changes. Needs Linux, root and Debian's mmdebstrap.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Where Debian's Python finds packages, whatever its version.
PACKAGES = "usr/lib/python3/dist-packages"
#: In namespaces of its own, so that the mounts end with the suite.
ENTER = """
mount --rbind /dev "$1/dev" && mount --rbind /proc "$1/proc" && mount --bind "$2" "$1/project"
root=$1; shift 2
exec env -i PATH=/usr/bin HOME=/tmp LC_ALL=C.UTF-8 "$(command -v chroot)" "$root" "$@"
"""
#: A root that mmdebstrap only unpacks has no shell to change the folder with.
START = """
import os, sys
os.chdir("/project")
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def archive() -> str:
    """The address of Debian's archive in this machine's own sources."""
    for file in (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list")):
        if file.exists() and (found := re.search(r"https?://\S+/debian/?(?=\s)", file.read_text())):
            return found[0]
    sys.exit("this machine's apt sources do not name Debian's archive")


def unpack(version: str) -> Path:
    """Debian's Python and what it needs, in a folder."""
    root = ROOT / "build" / f"sid-{version}"
    if not (root / f"usr/bin/python{version}").exists():
        root.parent.mkdir(exist_ok=True)
        # A mirror's copy of the unstable suite may be older than its signature allows.
        line = ["mmdebstrap", "--quiet", "--variant=extract", f"--include=python{version}"]
        line += ['--aptopt=Acquire::Check-Valid-Until "false"']
        subprocess.run([*line, "sid", str(root), f"deb {archive()} sid main"], check=True)
        for folder in ("lib", "lib64", "bin"):
            if not (root / folder).exists():
                (root / folder).symlink_to(f"usr/{folder}")
    for folder in ("project", "dev", "proc", "tmp"):
        (root / folder).mkdir(exist_ok=True)
    return root


def install(root: Path, version: str, wheel: str) -> None:
    """The wheel, and what the suite needs, all of it pure Python."""
    line = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--only-binary=:all:"]
    line += ["--target", str(root / PACKAGES), "--python-version", version]
    any_platform = ["--platform", "any", "pytest>=9", "hypothesis"]
    subprocess.run([*line, *any_platform], check=True)
    subprocess.run([*line, "--no-deps", wheel], check=True)


def main() -> None:
    version, wheel, *arguments = sys.argv[1:]
    root = unpack(version)
    install(root, version, wheel)
    enter = ["unshare", "--mount", "sh", "-c", ENTER, "sh", str(root), str(ROOT)]
    python = [f"/usr/bin/python{version}", "-c", START, "-m", "pytest", "-p", "no:cacheprovider"]
    os.execvp(enter[0], [*enter, *python, *(arguments or ["tests/core"])])


if __name__ == "__main__":
    main()
