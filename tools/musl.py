"""CPython for musl, made by zig from Debian's source, in a folder of tools/foreign.py.

tools/wheels.py runs the core suite of the wheels for musl on it.  zlib and libffi, which the suite
needs (zipimport, ctypes), are linked into it.  Making one takes some ten minutes on two cores.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import debian_source
import foreign

ROOT = Path(__file__).resolve().parent.parent
PYTHON = f"python{foreign.VERSION}"
#: Debian's suites with the sources; libffi's newer ones have no configure.
SUITES = {PYTHON: ("forky", "sid"), "libffi": ("bookworm",), "zlib": ("bookworm",)}
#: Where it lies in the folder.
PREFIX = "opt/musl"
#: What cannot be tried when another processor is built for.
TOLD = {"ac_cv_file__dev_ptmx": "yes", "ac_cv_file__dev_ptc": "no"}
#: zig makes the use of dates an error, and undefined behaviour a trap; CPython has both.
CFLAGS = "-O1 -g0 -fPIC -Wno-error=date-time -fno-sanitize=undefined"


def unpack(architecture: str, zig: str, qemu: str) -> foreign.Python:
    """That Python, in Debian's root for the processor."""
    root = foreign.unpack(architecture, "musl")
    found = foreign.Python(
        root=root,
        program=f"/{PREFIX}/bin/{PYTHON}",
        packages=f"{PREFIX}/lib/{PYTHON}/site-packages",
        qemu=qemu,
        origin="made for musl by zig",
    )
    if not (root / found.program.lstrip("/")).exists():
        build(root, zig)
    return found


def build(root: Path, zig: str) -> None:
    runs_here = builder()
    make = ROOT / "build" / "musl" / zig
    shutil.rmtree(make, ignore_errors=True)
    parts = make / "parts"
    # musl's dynamic loader is Debian's, in the root.
    compiler = [sys.executable, "-m", "ziglang", "cc", "-target", zig, "-dynamic"]
    variables = os.environ | TOLD | {
        "CC": shlex.join(compiler),
        "AR": f"{sys.executable} -m ziglang ar",
        "RANLIB": f"{sys.executable} -m ziglang ranlib",
        "CFLAGS": CFLAGS,
    }  # fmt: skip
    host = [f"--host={zig}", "--build=x86_64-linux-gnu"]
    still = ["--disable-shared", "--disable-docs", "--disable-exec-static-tramp"]
    compile_one("zlib", make, variables, [f"--prefix={parts}", "--static"], ["install"])
    compile_one("libffi", make, variables, [*host, f"--prefix={parts}", *still], ["install"])
    for name, library in (("LIBFFI", "ffi"), ("ZLIB", "z")):
        variables[f"{name}_CFLAGS"] = f"-I{parts}/include"
        variables[f"{name}_LIBS"] = f"-L{parts}/lib -l{library}"
    variables["PKG_CONFIG_LIBDIR"] = str(parts / "lib" / "pkgconfig")
    python = [*host, f"--prefix=/{PREFIX}", f"--with-build-python={runs_here}"]
    python += ["--with-ensurepip=no", "--disable-ipv6"]
    compile_one(PYTHON, make, variables, python, [f"DESTDIR={root}", "install"])
    shutil.rmtree(make)


def compile_one(
    package: str, make: Path, variables: dict[str, str], options: list[str], goal: list[str]
) -> None:
    folder = make / package
    # zlib's configure works in its own folder only.
    shutil.copytree(debian_source.source(package, *SUITES[package]), folder)
    for line in (["./configure", *options], ["make", "-s", "-j2"], ["make", "-s", *goal]):
        log = make / f"{package}.log"
        with log.open("a") as file:
            done = subprocess.run(line, cwd=folder, env=variables, stdout=file, stderr=file)
        if done.returncode:
            sys.exit(f"{package}: {shlex.join(line)} failed; {log} says why")


def builder() -> Path:
    """The same CPython for this machine, which runs what a build runs of itself."""
    make = ROOT / "build" / "musl"
    python = make / PYTHON / "python"
    if not python.exists():
        shutil.rmtree(make / PYTHON, ignore_errors=True)
        compile_one(PYTHON, make, dict(os.environ), ["CFLAGS=-O1 -g0"], ["all"])
    return python
