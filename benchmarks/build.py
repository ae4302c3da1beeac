"""Builds the floor probes, the peer with dlshim.h and, where nanobind is installed, its peer.

``python benchmarks/build.py`` does it by hand; the other scripts call :func:`ensure`, which
builds what is missing or older than its sources.  Nothing here is part of the product.
"""

import importlib
import importlib.util
import os
import pathlib
import shlex
import subprocess
import sys
import sysconfig

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "_build" / f"{sys.implementation.cache_tag}"
FLOOR_FLAGS = "-std=c11 -O2 -fPIC -fvisibility=hidden -Wall -Wextra -Wconversion -Werror"
NANOBIND_FLAGS = "-std=c++17 -O2 -fPIC -fvisibility=hidden -fno-strict-aliasing -w"


def _stale(target: pathlib.Path, sources: list[pathlib.Path]) -> bool:
    if not target.exists():
        return True
    made = target.stat().st_mtime
    return any(source.stat().st_mtime > made for source in sources)


def _run(command: list[str]) -> None:
    print("building:", shlex.join(command[-1:]), file=sys.stderr)
    subprocess.run(command, check=True)


def _include() -> str:
    return f"-I{sysconfig.get_path('include')}"


def build_floor(force: bool = False) -> None:
    sources = sorted((HERE / "floor").glob("*.c"))
    headers = [HERE / "floor" / "floor.h", HERE.parent / "src" / "abi" / "dlpack_abi.h"]
    target = OUT / "dls_floor.abi3.so"
    if force or _stale(target, sources + headers):
        compiler = os.environ.get("CC", "cc")
        # -g changes no instruction and lets callgrind_annotate name lines.
        flags = [*FLOOR_FLAGS.split(), "-g", "-DPy_LIMITED_API=0x030A0000", _include()]
        _run([compiler, *flags, "-shared", *map(str, sources), "-ldl", "-o", str(target)])


def build_nanobind(force: bool = False) -> None:
    found = importlib.util.find_spec("nanobind")
    if found is None or found.origin is None:
        return
    root = pathlib.Path(found.origin).parent
    source = HERE / "nanobind_peer.cpp"
    target = OUT / f"dls_nanobind{sysconfig.get_config_var('EXT_SUFFIX')}"
    if not force and not _stale(target, [source, root / "__init__.py"]):
        return
    includes = [root / "include", root / "ext" / "robin_map" / "include", root / "src"]
    flags = [*NANOBIND_FLAGS.split(), "-DNDEBUG", *(f"-I{path}" for path in includes), _include()]
    compiler = os.environ.get("CXX", "c++")
    combined = root / "src" / "nb_combined.cpp"
    _run([compiler, *flags, "-shared", str(combined), str(source), "-o", str(target)])


def build_header(force: bool = False) -> None:
    found = importlib.util.find_spec("dlshim")
    if found is None or found.origin is None:
        return
    include = pathlib.Path(found.origin).parent / "include"
    source = HERE / "header_peer.c"
    target = OUT / "dls_header.abi3.so"
    if force or _stale(target, [source, include / "dlshim.h"]):
        compiler = os.environ.get("CC", "cc")
        flags = [*FLOOR_FLAGS.split(), "-DPy_LIMITED_API=0x030A0000", f"-I{include}", _include()]
        _run([compiler, *flags, "-shared", str(source), "-o", str(target)])


def ensure(force: bool = False) -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    build_floor(force)
    build_header(force)
    build_nanobind(force)
    importlib.invalidate_caches()  # the folder may be new
    add_path()


def add_path() -> None:
    for path in (str(OUT), str(HERE)):
        if path not in sys.path:
            sys.path.insert(0, path)


if __name__ == "__main__":
    ensure(force="--force" in sys.argv[1:])
    print(OUT.relative_to(HERE.parent))
