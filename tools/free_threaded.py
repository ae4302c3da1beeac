"""CPython without the GIL, made from Debian's source, and what is run on it.

    python tools/free_threaded.py core [PYTEST ARGUMENT ...]    the core suite
    python tools/free_threaded.py stress [ARGUMENT ...]         the programs of tests/stress
    python tools/free_threaded.py tsan [ARGUMENT ...]           the same under ThreadSanitizer
    python tools/free_threaded.py scaling                       tests/stress/scaling.py

CPython 3.13t is built once into build/cpython-3.13t (two minutes), and for `tsan` a second time, by
clang, into build/cpython-3.13t-tsan (four minutes); DLSHIM_PYTHON_FT=FILE names one that is there.
dlshim is compiled for it from this tree.  Needs Debian's apt-get and a C compiler; `tsan` also
clang and libclang-rt-14-dev.  Nothing outside build/ changes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import debian
import variant

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
FLAGS = ("-std=c11", "-O1", "-g", "-fPIC", "-shared", "-DDLS_FREE_THREADED=1", "-fsanitize=thread")


def source() -> Path:
    return debian.source("python3.13", "forky", "sid")


def interpreter(sanitized: bool) -> Path:
    given = os.environ.get("DLSHIM_PYTHON_FT")
    if given and not sanitized:
        return Path(given)
    prefix = BUILD / ("cpython-3.13t-tsan" if sanitized else "cpython-3.13t")
    python = prefix / "bin" / "python3.13t"
    if python.exists():
        return python
    make = BUILD / "cpython-make"
    shutil.rmtree(make, ignore_errors=True)
    make.mkdir(parents=True)
    configure = [str(source() / "configure"), "-q", "--disable-gil", f"--prefix={prefix}"]
    configure.append("CFLAGS=-O1 -g1")
    environment = dict(os.environ)
    before: list[str] = []
    if sanitized:
        # The sanitizer wants addresses where they always are; the build runs what it has built.
        before = ["setarch", "-R"]
        environment |= {"CC": "clang", "TSAN_OPTIONS": "report_bugs=0:exitcode=0"}
        configure += ["--with-thread-sanitizer", "--with-ensurepip=no", "--disable-test-modules"]
    for line in (configure, ["make", "-s", "-j2"], ["make", "-s", "install"]):
        subprocess.run([*before, *line], cwd=make, env=environment, check=True)
    shutil.rmtree(make)
    return python


def environment_of(python: Path) -> Path:
    """A virtual environment with dlshim, compiled from a copy of this tree, and the test tools."""
    env, tree = BUILD / "env-3.13t", BUILD / "tree-3.13t"
    if not (env / "bin" / "python").exists():
        subprocess.run([str(python), "-m", "venv", str(env)], check=True)
    shutil.rmtree(tree, ignore_errors=True)
    variant.copy_tree(tree)
    pip = [str(env / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--only-binary=:all:", *debian.NEEDS], check=True)
    werror = {**os.environ, "DLSHIM_WERROR": "1"}
    subprocess.run([*pip, "--force-reinstall", "--no-deps", str(tree)], check=True, env=werror)
    return env / "bin" / "python"


def compiled_for_tsan(python: Path) -> Path:
    """A folder with dlshim under the sanitizer."""
    folder = BUILD / "tsan-site"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "shim", folder / "dlshim")
    include = (ROOT / "src", ROOT / "shim" / "include", python.parents[1] / "include/python3.13t")
    out = folder / "dlshim" / "_core.cpython-313t-x86_64-linux-gnu.so"
    files = [str(file) for file in sorted(ROOT.glob("src/*/*.c"))]
    line = ["clang", *FLAGS, *(f"-I{each}" for each in include), *files, "-o", str(out), "-ldl"]
    subprocess.run(line, check=True)
    return folder


def tsan(arguments: list[str]) -> int:
    python = interpreter(sanitized=True)
    theirs = source() / "Tools" / "tsan" / "suppressions_free_threading.txt"
    ours = ROOT / "tools" / "tsan_suppressions.txt"
    both = BUILD / "tsan_suppressions.txt"
    both.write_text(theirs.read_text() + ours.read_text())
    environment = {
        **os.environ,
        "TSAN_OPTIONS": f"suppressions={both}",
        "PYTHONPATH": str(compiled_for_tsan(python)),
    }
    line = ["setarch", "-R", str(python), "-m", "stress", "--threads", "4", *arguments]
    return subprocess.run(line, env=environment, cwd=ROOT / "tests").returncode


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] not in ("core", "stress", "tsan", "scaling"):
        sys.exit(__doc__)
    what, *arguments = sys.argv[1:]
    if what == "tsan":
        return tsan(arguments)
    python = str(environment_of(interpreter(sanitized=False)))
    environment = {**os.environ, "PYTHON_GIL": "0"}
    if what == "core":
        line = ["-m", "pytest", "-p", "no:cacheprovider", *(arguments or ["tests/core"])]
        return subprocess.run([python, *line], cwd=ROOT, env=environment).returncode
    module = "stress" if what == "stress" else "stress.scaling"
    line = [python, "-m", module, *arguments]
    return subprocess.run(line, cwd=ROOT / "tests", env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
