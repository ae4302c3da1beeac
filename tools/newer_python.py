"""The core suite on a CPython that this machine does not have: one of Debian's unstable suite.

    python tools/newer_python.py 3.15 dist/dlshim-*.whl [PYTEST ARGUMENT ...]
    python tools/newer_python.py abi3t dist/dlshim-*.whl [PYTEST ARGUMENT ...]

Its packages are unpacked into build/roots and run in a chroot there, with this folder bound into
it.  `abi3t` is the stable ABI of CPython 3.15 for builds with and without a GIL: the wheel's
extension is replaced by one for it, and Debian's 3.15 runs that with a GIL.  Before it, every file
is compiled for CPython 3.14 without a GIL, of which Debian has the headers alone.  Needs what
tools/debian.py needs, and a C compiler.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import debian

ROOT = Path(__file__).resolve().parent.parent
FLAGS = ["-std=c11", "-O2", "-DNDEBUG", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-fPIC"]
FLAGS += ["-fvisibility=hidden", "-DDLS_FREE_THREADED=1"]


def python(version: str, *more: str) -> debian.Python:
    return debian.python(version, "sid", more=more)


def compile_for(python: debian.Python, extension: Path, *macros: str) -> None:
    """The extension with that Python's headers; warnings are errors.

    Headers of the C library beside them are newer than the compiler, so they come last.
    """
    include = python.root / "usr" / "include"
    files = [str(file) for file in sorted(ROOT.glob("src/*/*.c"))]
    line = ["gcc", *FLAGS, *macros, f"-I{ROOT / 'src'}", f"-I{ROOT / 'shim' / 'include'}"]
    line += [f"-I{include / f'python{python.version}'}", "-idirafter", str(include)]
    subprocess.run([*line, "-shared", *files, "-o", str(extension), "-ldl", "-pthread"], check=True)
    print(f"{len(files)} files compiled for CPython {python.version}: {' '.join(macros)}")


def abi3t(wheel: Path) -> debian.Python:
    """Debian's Python 3.15 with dlshim for abi3t."""
    older, newer = (python(version, f"libpython{version}-dev") for version in ("3.14", "3.15"))
    compile_for(older, ROOT / "build" / "_core.cpython-314t.so", "-DPy_GIL_DISABLED=1")
    debian.install(newer, wheel)
    package = newer.packages / "dlshim"
    (package / "_core.abi3.so").unlink()
    compile_for(newer, package / "_core.abi3t.so", "-DPy_TARGET_ABI3T=0x030f0000")
    return newer


def main() -> int:
    version, wheel, *arguments = sys.argv[1:]
    if version == "abi3t":
        found = abi3t(Path(wheel))
    else:
        found = python(version)
        debian.install(found, Path(wheel))
    pytest = ["-m", "pytest", "-p", "no:cacheprovider"]
    return debian.run(found, [*pytest, *(arguments or ["tests/core"])])


if __name__ == "__main__":
    sys.exit(main())
