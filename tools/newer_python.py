"""The core suite on a CPython that this machine does not have: one of Debian's unstable suite.

    python tools/newer_python.py 3.15 dist/dlshim-*.whl [PYTEST ARGUMENT ...]

Its packages are unpacked into build/sid-3.15 and run in a chroot there, with this folder bound
into it; nothing else of the machine changes. Needs Linux, root and Debian's mmdebstrap.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import chroot

ROOT = Path(__file__).resolve().parent.parent
#: Where Debian's Python finds packages, whatever its version.
PACKAGES = "usr/lib/python3/dist-packages"
#: A root that mmdebstrap only unpacks has no shell to change the folder with.
START = """
import os, sys
os.chdir("/project")
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def unpack(version: str) -> Path:
    """Debian's Python and what it needs, in a folder."""
    root = ROOT / "build" / f"sid-{version}"
    if not (root / f"usr/bin/python{version}").exists():
        chroot.make(root, "sid", "extract", [f"python{version}"])
        for folder in ("lib", "lib64", "bin"):
            if not (root / folder).exists():
                (root / folder).symlink_to(f"usr/{folder}")
    return root


def install(root: Path, version: str, wheel: str) -> None:
    """The wheel, and what the suite needs, all of it pure Python."""
    line = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--only-binary=:all:"]
    line += ["--target", str(root / PACKAGES), "--python-version", version]
    any_platform = ["--platform", "any", "pytest>=9", "hypothesis"]
    subprocess.run([*line, *any_platform], check=True)
    subprocess.run([*line, "--no-deps", wheel], check=True)


def run(root: Path, version: str, arguments: list[str]) -> None:
    """Pytest there, in place of this process."""
    python = [f"/usr/bin/python{version}", "-c", START, "-m", "pytest", "-p", "no:cacheprovider"]
    line = chroot.entering(
        root,
        [*python, *(arguments or ["tests/core"])],
        {"PATH": "/usr/bin", "HOME": "/tmp", "LC_ALL": "C.UTF-8"},
        {"/project": ROOT},
    )
    os.execvp(line[0], line)


def main() -> None:
    version, wheel, *arguments = sys.argv[1:]
    root = unpack(version)
    install(root, version, wheel)
    run(root, version, arguments)


if __name__ == "__main__":
    main()
