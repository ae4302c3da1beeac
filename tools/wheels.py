"""Wheels for other processors, from one x86-64 Linux machine: zig compiles them, QEMU runs them.

    python tools/wheels.py [--once] [NAME ...] [-- PYTEST ARGUMENT ...]

NAME is one of tools/wheels.toml; without any, all.  Each wheel is made twice in dist/wheels, and
the run fails where the two differ (with --once there is one), or where one is not what its tag
says.  It is then installed on Debian's Python of its processor, which runs the core suite, or what
pytest is given.  For musl (tools/musl.py runs it), Windows and macOS the code is compiled only.

Needs zig (PyPI: ziglang), auditwheel, abi3audit, pyelftools, wheel, the interpreter of the floor,
whose headers serve every processor, and what tools/debian.py needs.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

import debian
import release
import tally

ROOT = Path(__file__).resolve().parent.parent
WHEELS = ROOT / "dist" / "wheels"
INCLUDE = Path(sysconfig.get_paths()["include"])
ZIG = [sys.executable, "-m", "ziglang"]
#: The date of every file in a wheel, so that the same sources give the same bytes: 1980-01-01.
EPOCH = "315532800"
#: Debian's Python that runs the suite, and the suites that have it.
VERSION, SUITES = "3.13", ("trixie", "sid")


class Target(NamedTuple):
    """A row of tools/wheels.toml."""

    name: str
    zig: str
    platform: str
    processor: str
    bits: int
    debian: str
    cpu: str = "baseline"
    qemu: str = ""

    @property
    def protected(self) -> bool:
        """For 32 bits zig puts a stack protector of its own in the C library's place, with a value
        that everybody knows."""
        return self.bits == 64


def targets() -> dict[str, Target]:
    rows = tomllib.loads((ROOT / "tools" / "wheels.toml").read_text(encoding="utf-8"))
    return {name: Target(name, **row) for name, row in rows.items()}


def run(line: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(line, check=True, text=True, **options)


# ---- building -----------------------------------------------------------------------------------


def compile_with_zig(target: str, words: list[str]) -> None:
    """CC and LDSHARED of setuptools come to this: the process becomes the compiler."""
    words = [word for word in words if word != "-flto"]
    if "-shared" in words:
        # zig compiles a part of the C library with debug information, which names the folder of
        # the build: two builds would differ.
        words.append("-Wl,--strip-debug")
    else:
        # Headers of the target come before the interpreter's own, other flags after setup.py's.
        before, after = (shlex.split(os.environ[f"DLSHIM_ZIG_{each}"]) for each in "IC")
        words = [*before, *words, *after]
    os.execv(ZIG[0], [*ZIG, "cc", "-target", target, *words])


def headers(folder: Path) -> Path:
    """The headers of the floor's CPython with the sizes that 32 bits have."""
    copy = folder / "headers"
    shutil.copytree(INCLUDE, copy)
    sizes = "LONG|VOID_P|SIZE_T|UINTPTR_T|PTHREAD_T|TIME_T"
    config = copy / "pyconfig.h"
    config.write_text(re.sub(rf"(SIZEOF_(?:{sizes})) 8", r"\1 4", config.read_text()))
    return copy


def sources(folder: Path) -> Path:
    """A copy of what git knows, and of what it does not ignore."""
    line = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = run(line, cwd=ROOT, capture_output=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).exists():
            place = folder / "sources" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place)
    return folder / "sources"


def build_once(target: Target) -> bytes:
    """One wheel with its last name, from a copy of the sources in a folder of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compiler = shlex.join([sys.executable, __file__, "cc", target.zig])
        unprotected = [] if target.protected else ["-fno-stack-protector"]
        variables = {
            "CC": compiler,
            "LDSHARED": f"{compiler} -shared",
            "DLSHIM_ZIG_I": f"-I{headers(folder)}" if target.bits == 32 else "",
            "DLSHIM_ZIG_C": shlex.join([f"-mcpu={target.cpu}", *unprotected]),
            "DLSHIM_WERROR": "1",
            "SOURCE_DATE_EPOCH": EPOCH,
            "_PYTHON_HOST_PLATFORM": f"linux-{target.name}",
        }
        line = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
        line += ["--no-build-isolation", "--disable-pip-version-check", "-w", name]
        run([*line, str(sources(folder))], env=os.environ | variables)
        (made,) = folder.glob("*.whl")
        tags = [sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag"]
        dated = os.environ | {"SOURCE_DATE_EPOCH": EPOCH}  # it writes RECORD anew
        run([*tags, target.platform, str(made)], stdout=subprocess.DEVNULL, env=dated)
        (wheel,) = folder.glob("*.whl")
        WHEELS.mkdir(parents=True, exist_ok=True)
        shutil.copy(wheel, WHEELS)
        return wheel.read_bytes()


def audit(target: Target, wheel: Path) -> list[str]:
    """What is wrong with a wheel."""
    wrong = release.faults(wheel, protected=target.protected)
    abi = [sys.executable, "-m", "abi3audit", "--strict", str(wheel)]
    if subprocess.run(abi, stdout=subprocess.DEVNULL).returncode:
        wrong.append("abi3audit finds more than the stable ABI of the floor")
    show = [sys.executable, "-m", "auditwheel", "show", str(wheel)]
    told = subprocess.run(show, capture_output=True, text=True)
    if not any(f'"{tag}"' in told.stdout for tag in target.platform.split(".")):
        wrong.append(f"auditwheel says: {' '.join((told.stdout + told.stderr).split())}")
    return wrong


def build(target: Target, once: bool) -> tuple[Path, list[str]]:
    """A finished wheel, and what is wrong with it."""
    for stale in WHEELS.glob(f"dlshim-*_{target.name}.whl"):
        stale.unlink()
    made = {build_once(target) for _ in range(1 if once else 2)}
    (wheel,) = WHEELS.glob(f"dlshim-*_{target.name}.whl")
    wrong = audit(target, wheel) + (["two builds differ"] if len(made) > 1 else [])
    print(f"{wheel.name}: {wheel.stat().st_size} bytes; {'; '.join(wrong) or 'good'}", flush=True)
    return wheel, wrong


# ---- systems that nothing here runs -------------------------------------------------------------

#: The floor's headers are Linux's, which ask for plain POSIX; macOS then hides its own names.
COMPILED = {
    "x86_64-linux-musl": [],
    "aarch64-macos.11.0": ["-D_DARWIN_C_SOURCE"],
    "x86_64-windows-gnu": [],
}
#: CPython's PC/pyconfig.h for 64 bits, as far as the headers of the limited API read it.
WINDOWS = """
#define MS_WINDOWS
#define MS_WIN32
#define MS_WIN64
#define NT_THREADS
#define HAVE_DECLSPEC_DLL
#define HAVE_SYS_STAT_H 1
#define Py_ENABLE_SHARED 1
#define SIZEOF_LONG 4
#define SIZEOF_LONG_LONG 8
#define SIZEOF_VOID_P 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_WCHAR_T 2
#define ALIGNOF_SIZE_T 8
"""


def compile_only(target: str, more: list[str]) -> int:
    """How many sources do not compile; warnings are errors."""
    files = sorted(ROOT.glob("src/*/*.c"))
    with tempfile.TemporaryDirectory() as name:
        include = Path(name) / "include"
        shutil.copytree(INCLUDE, include)
        if "windows" in target:
            (include / "pyconfig.h").write_text(WINDOWS)
        line = [*ZIG, "cc", "-target", target, "-std=c11", "-O2", "-DNDEBUG", *more]
        line += ["-Wall", "-Wextra", "-Wconversion", "-Werror", "-DPy_LIMITED_API=0x030a0000"]
        line += ["-isystem", str(include), f"-I{ROOT}/src", f"-I{ROOT}/shim/include"]

        def fails(file: Path) -> bool:
            made = Path(name) / file.parent.name / f"{file.stem}.o"
            made.parent.mkdir(exist_ok=True)
            return subprocess.run([*line, "-c", str(file), "-o", str(made)]).returncode != 0

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            wrong = sum(pool.map(fails, files))
    print(f"{target}: {len(files)} sources compiled, {wrong} with warnings", flush=True)
    return wrong


# ---- running ------------------------------------------------------------------------------------


def test(target: Target, wheel: Path, arguments: list[str]) -> int:
    """Whether the suite fails on Debian's Python of the processor."""
    python = debian.python(VERSION, *SUITES, architecture=target.debian, qemu=target.qemu)
    debian.install(python, wheel)
    results = ROOT / "build" / "results" / f"emulated-{target.name}.xml"
    results.parent.mkdir(parents=True, exist_ok=True)
    results.unlink(missing_ok=True)
    # Emulation is some forty times slower: a test that takes so long does not hang.
    pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider"]
    pytest += ["--override-ini=faulthandler_timeout=3600"]
    pytest.append(f"--junitxml=/project/{results.relative_to(ROOT)}")
    status = debian.run(python, [*pytest, *(arguments or ["tests/core", "--hand-on=on"])])
    if not results.exists():
        sys.exit(f"{target.name}: pytest ended with {status}, and without results")
    count = tally.count_cases(results)
    print(f"{target.name}: {count}", flush=True)
    return int(status != 0 or count.passed == 0)


def main() -> int:
    arguments, more = sys.argv[1:], []
    if arguments[:1] == ["cc"]:
        compile_with_zig(arguments[1], arguments[2:])
    if "--" in arguments:
        at = arguments.index("--")
        arguments, more = arguments[:at], arguments[at + 1 :]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--once", action="store_true", help="make each wheel once")
    options = parser.parse_args(arguments)
    rows = targets()
    if unknown := [name for name in options.names if name not in rows]:
        parser.error(f"tools/wheels.toml has no {', '.join(unknown)}")
    faults = sum(compile_only(target, own) for target, own in COMPILED.items())
    for target in (rows[name] for name in options.names or rows):
        wheel, wrong = build(target, options.once)
        faults += len(wrong) + test(target, wheel, more)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
