"""The test extension built with one nanobind generation, kept outside the repository.

Building takes some 25 seconds a generation; the result is kept in a cache folder, keyed by
nanobind version, Python and source. ``DLSHIM_INTEROP_CACHE`` moves the folder. The headers come
from the ``nanobind`` distribution of exactly that version: from ``DLSHIM_INTEROP_ASIDE`` where the
session has put them aside, else fetched with pip into the cache folder.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

RELEASES = ("2.2.0", "2.9.2", "2.12.0", "3.1.0")
# Read here, once: sysconfig fills its table on first use, and not safely in several threads.
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
SOURCE = Path(__file__).parents[1] / "programs" / "interop_ndarray.cpp"


def cache_folder() -> Path:
    chosen = os.environ.get("DLSHIM_INTEROP_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "dlshim-interop"


def built(generation: str) -> Path:
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]
    key = "%s-%s-%s" % (generation, sys.implementation.cache_tag, digest)
    return cache_folder() / key / ("interop_ndarray" + SUFFIX)


def headers(generation: str) -> Path:
    aside = os.environ.get("DLSHIM_INTEROP_ASIDE")
    if aside and Path(aside, "nanobind-" + generation).is_dir():
        return Path(aside, "nanobind-" + generation, "nanobind")
    folder = cache_folder() / ("nanobind-" + generation)
    if not (folder / "nanobind").is_dir():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
        subprocess.run([*pip, str(folder), "nanobind==" + generation], check=True)
    return folder / "nanobind"


def build(generation: str) -> Path:
    target = built(generation)
    if target.exists():
        return target
    root = headers(generation)
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = target.with_suffix(".%d.tmp" % os.getpid())
    command = ["g++", "-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden"]
    command += ["-fno-strict-aliasing", "-DNDEBUG", "-w"]
    for folder in (root / "include", root / "ext/robin_map/include", root / "src"):
        command.append("-I%s" % folder)
    command.append("-I%s" % sysconfig.get_path("include"))
    command += [str(root / "src/nb_combined.cpp"), str(SOURCE), "-o", str(scratch)]
    subprocess.run(command, check=True)
    scratch.replace(target)
    return target


def available(generation: str) -> bool:
    return built(generation).exists()


def load(generation: str):
    """The module; ImportError if it has not been built (``build`` is called by the parent)."""
    path = built(generation)
    if not path.exists():
        raise ImportError("the nanobind %s module is not built" % generation)
    name = "interop_ndarray"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    for wanted in sys.argv[1:] or RELEASES:
        print(build(wanted))
