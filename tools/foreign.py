"""Debian's Python of another processor, in a folder, under QEMU's user emulation.

tools/wheels.py uses it, and tools/musl.py, which puts another Python there.  Nothing of the machine
changes: the kernel starts programs of that processor through a table of their own (binfmt_misc in
a user namespace, Linux 6.7 or newer).  Needs root, Debian's mmdebstrap and, for a foreign
processor, qemu-user-static.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import chroot

ROOT = Path(__file__).resolve().parent.parent
#: Debian's suites that have this Python; a mirror's copy of one may be broken for a while.
SUITES, VERSION = ("trixie", "sid"), "3.13"
#: The last hypothesis that is pure Python.
NEEDS = ["pytest>=9", "hypothesis==6.155.7"]

#: A root that mmdebstrap only unpacks has no shell to change the folder with.
START = """
import os, sys
os.chdir("/project")
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
#: What the manual tells of the interpreter, as JSON.
ASK = [
    "-c",
    """
import json, platform, sys, dlshim
print(json.dumps({"interpreter": f"CPython {platform.python_version()}",
                  "bits": sys.maxsize.bit_length() + 1, "byte order": sys.byteorder}))
""",
]

# What the kernel compares with the first bytes of a file: 64 bits or 32, the order of bytes, and
# the number of the processor.
MACHINES = {
    "aarch64": (2, 1, 0xB7),
    "riscv64": (2, 1, 0xF3),
    "arm": (1, 1, 0x28),
    "s390x": (2, 2, 0x16),
}
#: The processor that QEMU pretends to be, where its default is slow.  The default of aarch64 signs
#: pointers, and four fifths of the time went into the signatures.
PRETENDED = {"aarch64": "neoverse-n1"}


def entry(qemu: str) -> str:
    """The line that makes the kernel start such programs by QEMU."""
    width, order, number = MACHINES[qemu]
    program = shutil.which(f"qemu-{qemu}-static")
    if program is None:
        sys.exit("a foreign processor needs QEMU: apt-get install qemu-user-static")
    little = order == 1
    kind, machine = ((2).to_bytes(2, "little"), number.to_bytes(2, "little"))
    mask_kind = b"\xfe\xff"
    if not little:
        kind, machine, mask_kind = kind[::-1], machine[::-1], mask_kind[::-1]
    magic = b"\x7fELF" + bytes([width, order, 1, 0]) + bytes(8) + kind + machine
    mask = b"\xff" * 7 + b"\0" + b"\xff" * 8 + mask_kind + b"\xff\xff"
    escaped = ["".join(f"\\x{byte:02x}" for byte in text) for text in (magic, mask)]
    return f":dlshim:M::{escaped[0]}:{escaped[1]}:{program}:F"


def version(qemu: str) -> str:
    line = [f"qemu-{qemu}-static", "--version"]
    told = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    return re.findall(r"version (\S+)", told)[0]


def make(root: Path, architecture: str, packages: list[str]) -> None:
    """Unpacks Debian's packages out of the first suite that can be read."""
    *others, last = SUITES
    for suite in others:
        with contextlib.suppress(subprocess.CalledProcessError):
            return chroot.make(root, suite, "extract", packages, architecture)
    return chroot.make(root, last, "extract", packages, architecture)


def is_possible() -> bool:
    """Whether this kernel keeps a table of programs for a user namespace."""
    mount = "mount -t binfmt_misc none /proc/sys/fs/binfmt_misc"
    line = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount]
    return subprocess.run(line, capture_output=True).returncode == 0


class Python(NamedTuple):
    """An interpreter in a folder.  `packages` is where its modules lie below `root`, `origin` how
    the manual tells it from others of its version, and `qemu` empty for this machine's processor.
    """

    root: Path
    program: str
    packages: str
    qemu: str
    origin: str


def unpack(architecture: str, *more: str) -> Path:
    """Debian's Python and what it needs, and `more` packages, in a folder for them."""
    root = ROOT / "build" / "roots" / "-".join([architecture, *more])
    if not (root / f"usr/bin/python{VERSION}").exists():
        make(root, architecture, [f"python{VERSION}", *more])
        for folder in ("lib", "lib64", "bin"):
            if not (root / folder).exists() and (root / "usr" / folder).exists():
                (root / folder).symlink_to(f"usr/{folder}")
    return root


def python_of_debian(architecture: str, qemu: str) -> Python:
    return Python(
        root=unpack(architecture),
        program=f"/usr/bin/python{VERSION}",
        packages="usr/lib/python3/dist-packages",
        qemu=qemu,
        origin="of Debian",
    )


def install(python: Python, wheel: Path) -> None:
    """The wheel, and what the suite needs, all of it pure Python."""
    packages = python.root / python.packages
    for stale in packages.glob("dlshim*"):
        shutil.rmtree(stale)
    shutil.unpack_archive(wheel, packages, "zip")
    if not (packages / "pytest").exists():
        line = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:"]
        line += ["--target", str(packages), "--python-version", VERSION, "--platform", "any"]
        subprocess.run([*line, *NEEDS], check=True)


def run(
    python: Python, arguments: Sequence[str], **options: Any
) -> subprocess.CompletedProcess[str]:
    """Runs that Python; other programs of the machine come first."""
    variables = {"PATH": "/usr/bin", "HOME": "/tmp", "LC_ALL": "C.UTF-8"}
    if python.qemu in PRETENDED:
        variables["QEMU_CPU"] = PRETENDED[python.qemu]
    line = chroot.entering(
        python.root,
        [python.program, "-c", START, *arguments],
        variables,
        {"/project": ROOT},
        entry(python.qemu) if python.qemu else "",
    )
    return subprocess.run(["nice", "-n", "10", *line], text=True, **options)
