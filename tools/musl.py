"""CPython with musl instead of glibc, made from Debian's sources, and pytest on it.

    python tools/musl.py [PYTEST ARGUMENT ...]

zlib, libffi and CPython are compiled once into build/cpython-musl (some five minutes), dlshim each
time from this tree, and its tests run as a program of musl alone.  It stands in for Alpine, which
cannot be had from Debian's archive.  Needs apt-get, musl-tools, a C compiler and pip's index.
Nothing outside build/ changes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import debian
import variant

BUILD = debian.ROOT / "build"
PREFIX, MAKE = BUILD / "cpython-musl", BUILD / "cpython-musl-make"
#: musl-gcc answers for the compiler that it calls, whose libraries are glibc's.
COMPILER = """\
#!/bin/sh
[ "$1" = --print-multiarch ] && { echo x86_64-linux-musl; exit; }
exec musl-gcc "$@"
"""
#: Modules of CPython that need more of Debian's libraries; no test wants them.
LEFT_OUT = (
    "_lzma _bz2 _ssl _hashlib _sqlite3 readline _curses _curses_panel _dbm _gdbm _uuid _tkinter"
)
TOOLS = ("setuptools>=77", "wheel", *debian.NEEDS)


def compiler() -> str:
    if shutil.which("musl-gcc") is None:
        sys.exit("there is no musl-gcc: install Debian's musl-tools")
    file = PREFIX / "musl-cc"
    PREFIX.mkdir(parents=True, exist_ok=True)
    file.write_text(COMPILER)
    file.chmod(0o755)
    return str(file)


def kernel_headers() -> Path:
    """A folder with Linux's headers, which stand among those of glibc."""
    folder = PREFIX / "linux"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("linux", "asm", "asm-generic"):
        for place in ("/usr/include", "/usr/include/x86_64-linux-gnu"):
            if (found := Path(place, name)).exists() and not (folder / name).exists():
                (folder / name).symlink_to(found)
    return folder


def make(source: Path, *options: str, env: dict[str, str], beside: bool = False) -> None:
    """configure, make, make install; in the tree of the sources or beside it."""
    place = MAKE / source.name
    if not beside:
        shutil.copytree(source, place, symlinks=True)
    place.mkdir(parents=True, exist_ok=True)
    script = str(source / "configure") if beside else "./configure"
    for line in (
        (script, f"--prefix={PREFIX}", *options),
        ("make", "-s"),
        ("make", "-s", "install"),
    ):
        subprocess.run(line, cwd=place, env=env, check=True, stdout=subprocess.DEVNULL)


def interpreter() -> Path:
    python = PREFIX / "bin" / "python3"
    if python.exists():
        return python
    shutil.rmtree(MAKE, ignore_errors=True)
    flags = f"-O1 -fPIC -isystem {kernel_headers()}"
    env = os.environ | {"CC": compiler(), "CFLAGS": flags, "PKG_CONFIG": "false"}
    libraries = f"-L{PREFIX}/lib -L{PREFIX}/lib64"
    make(debian.source("zlib", "bookworm"), "--static", env=env)
    make(debian.source("libffi", "bookworm"), "--disable-shared", "--disable-docs", env=env)
    env |= {"CPPFLAGS": f"-I{PREFIX}/include", "LDFLAGS": libraries}
    for name, library in ("LIBFFI", "ffi"), ("ZLIB", "z"):
        env |= {f"{name}_CFLAGS": f"-I{PREFIX}/include", f"{name}_LIBS": f"{libraries} -l{library}"}
    without = [f"py_cv_module_{each}=n/a" for each in LEFT_OUT.split()]
    options = ("-q", "--with-ensurepip=install", *without)
    make(debian.source("python3.13", "forky", "sid"), *options, env=env, beside=True)
    shutil.rmtree(MAKE)
    return python


def environment(python: Path) -> Path:
    """A virtual environment with dlshim, compiled from this tree, and what its tests need."""
    env, wheels, tree = BUILD / "env-musl", BUILD / "musl-wheels", BUILD / "tree-musl"
    for folder in (env, tree):
        shutil.rmtree(folder, ignore_errors=True)
    # Without the module ssl its own pip reaches no index.
    ask = ("--only-binary=:all:", "--implementation=py", "--abi=none", "--platform=any")
    this = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(wheels)]
    subprocess.run([*this, "--python-version=3.13", *ask, *TOOLS], check=True)
    subprocess.run([str(python), "-m", "venv", str(env)], check=True)
    variant.copy_tree(tree)
    pip = [str(env / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-index"]
    subprocess.run([*pip, f"--find-links={wheels}", *TOOLS], check=True)
    here = {"CC": compiler(), "LDSHARED": f"{compiler()} -shared", "DLSHIM_WERROR": "1"}
    build = [*pip, "--no-deps", "--no-build-isolation", str(tree)]
    subprocess.run(build, check=True, env=os.environ | here)
    return env / "bin" / "python"


if __name__ == "__main__":
    python = environment(interpreter())
    command = [str(python), "-m", "pytest", "-p", "no:cacheprovider", *sys.argv[1:]]
    sys.exit(subprocess.run(command, cwd=debian.ROOT).returncode)
