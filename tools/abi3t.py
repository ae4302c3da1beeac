"""The stable ABI of free-threaded CPython (abi3t, from 3.15 on): compiled, and tried with a GIL.

    python tools/abi3t.py headers            compile for abi3t and for cp314t; link neither
    python tools/abi3t.py WHEEL [ARGUMENT]   abi3t under pytest on Debian's CPython 3.15

WHEEL is dlshim's for all CPythons; its extension is replaced by the one for abi3t. Debian has no
CPython of these versions without a GIL. The headers come from Debian's unstable suite into
build/headers-sid. Needs Debian's apt-get, dpkg-deb and a C compiler; the second line also root and
mmdebstrap.
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
from pathlib import Path

import chroot
import newer_python

ROOT = Path(__file__).resolve().parent.parent
HEADERS = ROOT / "build" / "headers-sid"
FLAGS = ["-std=c11", "-O2", "-DNDEBUG", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-fPIC"]
FLAGS += ["-fvisibility=hidden", "-DDLS_FREE_THREADED=1"]
ABIS = {"3.15": ["-DPy_TARGET_ABI3T=0x030f0000"], "3.14": ["-DPy_GIL_DISABLED=1"]}


def headers(version: str) -> Path:
    """A folder with Python.h. Only Python's own headers are kept: those of the C library are newer
    than the compiler."""
    folder = HEADERS / f"python{version}"
    if folder.exists():
        return folder
    work = HEADERS / "work"
    shutil.rmtree(work, ignore_errors=True)
    for name in ("lists/partial", "cache/archives/partial"):
        (work / name).mkdir(parents=True)
    (work / "sources.list").write_text(f"deb [trusted=yes] {chroot.archive()} sid main\n")
    places = {
        "Dir::Etc::sourcelist": work / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": work / "lists",
        "Dir::Cache": work / "cache",
    }
    options = [word for item in places.items() for word in ("-o", "{}={}".format(*item))]
    subprocess.run(["apt-get", *options, "-qq", "update"], check=True)
    package = f"libpython{version}-dev"
    subprocess.run(["apt-get", *options, "-qq", "download", package], cwd=work, check=True)
    subprocess.run(["dpkg-deb", "-x", *glob.glob(f"{work}/{package}_*.deb"), work], check=True)
    # pyconfig.h includes the one of the processor by this path.
    for machine in (work / "usr" / "include").glob(f"*-linux-gnu/python{version}"):
        shutil.copytree(machine, HEADERS / machine.parent.name / machine.name)
    shutil.copytree(work / "usr" / "include" / f"python{version}", folder)
    shutil.rmtree(work)
    return folder


def compile_for(version: str, folder: Path) -> list[str]:
    """The object files, in a new folder. Warnings are errors."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    places = [ROOT / "src", ROOT / "shim" / "include", headers(version), HEADERS]
    files = sorted(glob.glob(str(ROOT / "src" / "*" / "*.c")))
    line = [os.environ.get("CC", "gcc"), *FLAGS, *ABIS[version], *(f"-I{at}" for at in places)]
    subprocess.run([*line, "-c", *files], cwd=folder, check=True)
    print(f"{len(files)} files compiled with the headers of CPython {version}: {ABIS[version][0]}")
    return sorted(glob.glob(f"{folder}/*.o"))


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if sys.argv[1] == "headers":
        for version in ABIS:
            compile_for(version, ROOT / "build" / f"objects-{version}")
        return
    wheel, *arguments = sys.argv[1:]
    objects = compile_for("3.15", ROOT / "build" / "objects-3.15")
    root = newer_python.unpack("3.15")
    newer_python.install(root, "3.15", wheel)
    package = root / newer_python.PACKAGES / "dlshim"
    (package / "_core.abi3.so").unlink()
    extension = str(package / "_core.abi3t.so")
    subprocess.run(["gcc", "-shared", *objects, "-o", extension, "-ldl", "-pthread"], check=True)
    newer_python.run(root, "3.15", arguments)


if __name__ == "__main__":
    main()
