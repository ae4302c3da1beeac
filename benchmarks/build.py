"""Builds the floor probes, what uses dlshim.h and dlshim.hpp, and the peer with nanobind.

The other scripts call :func:`ensure`, which builds what is missing or older than its sources.
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
# -g changes no instruction and lets callgrind_annotate name lines.
C = (
    "-std=c11 -O2 -fPIC -fvisibility=hidden -Wall -Wextra -Wconversion -Werror -g "
    "-DPy_LIMITED_API=0x030A0000"
)
CXX = "-std=c++17 -O2 -fPIC -fvisibility=hidden -fno-strict-aliasing -w -DNDEBUG"


def folder_of(package: str) -> pathlib.Path | None:
    found = importlib.util.find_spec(package)
    return pathlib.Path(found.origin).parent if found and found.origin else None


def compile_module(
    name: str,
    command: str,
    sources: list[pathlib.Path],
    includes: tuple[pathlib.Path, ...] = (),
    also: tuple[pathlib.Path, ...] = (),
) -> None:
    """One extension of these sources, unless a newer one is there; `also` decides its age too."""
    target = OUT / name
    if target.exists():
        made = target.stat().st_mtime
        if all(path.stat().st_mtime <= made for path in (*sources, *also)):
            return
    flags = [f"-I{path}" for path in (*includes, sysconfig.get_path("include"))]
    words = [*shlex.split(command), *flags, "-shared", *map(str, sources), "-ldl"]
    print("building:", name, file=sys.stderr)
    subprocess.run([*words, "-o", str(target)], check=True)


def ensure() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    c, cxx = os.environ.get("CC", "cc"), os.environ.get("CXX", "c++")
    floor = sorted((HERE / "floor").glob("*.c"))
    abi = HERE.parent / "src" / "abi"
    headers = (HERE / "floor" / "floor.h", abi / "dlpack_abi.h", abi / "arrow_abi.h")
    compile_module("dls_floor.abi3.so", f"{c} {C}", floor, also=headers)
    if shim := folder_of("dlshim"):
        include, peer = shim / "include", [HERE / "header_peer.c"]
        header = (include / "dlshim.h",)
        compile_module("dls_header.abi3.so", f"{c} {C}", peer, (include,), header)
        headers = (*header, include / "dlshim.hpp")
        elements = [HERE / "elements.cpp"]
        compile_module("dls_elements.abi3.so", f"{cxx} {CXX}", elements, (include,), headers)
    if root := folder_of("nanobind"):
        sources = [HERE / "nanobind_peer.cpp", root / "src" / "nb_combined.cpp"]
        includes = (root / "include", root / "ext" / "robin_map" / "include", root / "src")
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        compile_module(f"dls_nanobind{suffix}", f"{cxx} {CXX}", sources, includes)
    authors(cxx)
    importlib.invalidate_caches()  # the folder may be new
    add_path()


def authors(cxx: str) -> None:
    """The functions of authors, with nanobind and pybind11 where these and dlshim are installed."""
    suffix, shim = sysconfig.get_config_var("EXT_SUFFIX"), folder_of("dlshim")
    peers = {
        "nanobind": (("include", "ext/robin_map/include", "src"), ("src/nb_combined.cpp",)),
        "pybind11": (("include",), ()),
    }
    for name, (folders, more) in peers.items():
        root = folder_of(name)
        if not root or not shim:
            continue
        sources = [HERE / f"author_{name}.cpp", *(root / path for path in more)]
        includes = (*(root / path for path in folders), shim / "include")
        also = tuple((shim / "include").glob("dlshim.h*"))
        compile_module(f"dls_author_{name}{suffix}", f"{cxx} {CXX}", sources, includes, also)


def add_path() -> None:
    for path in (str(OUT), str(HERE)):
        if path not in sys.path:
            sys.path.insert(0, path)
