"""The functions of nanobind that the matrix calls: compiled where nanobind and a compiler are.

nanobind is a library of C++ headers; its functions are those of the modules that are built with it.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

#: The module and its functions, by the name of the column.
NAME = "dlshim_nanobind"

_SOURCE = Path(__file__).with_name("nanobind_module.cpp")
_FLAGS = ("-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-strict-aliasing")
#: A compiler that needs longer is ended, and there is no column.
_SECONDS = 60.0


class Unbuilt(Exception):
    """The module cannot be built here; the text says why."""


def _compiler() -> list[str]:
    named = shlex.split(os.environ.get("CXX", ""))
    found = named or [name for name in ("c++", "g++", "clang++") if shutil.which(name)][:1]
    if not found or sys.platform == "win32":
        raise Unbuilt("no C++ compiler (c++, g++, clang++, or CXX)")
    return found


def build(folder: Path) -> Path:
    """Build the module in a folder and return its file; Unbuilt says why there is none."""
    spec = importlib.util.find_spec("nanobind")
    if spec is None or spec.origin is None:
        raise Unbuilt("nanobind is not installed")
    root = Path(spec.origin).parent
    target = folder / f"{NAME}{sysconfig.get_config_var('EXT_SUFFIX')}"
    command = [*_compiler(), *_FLAGS, "-DNDEBUG", "-w"]
    if sys.platform == "darwin":
        command += ["-undefined", "dynamic_lookup"]
    for place in (root / "include", root / "ext" / "robin_map" / "include", root / "src"):
        command.append(f"-I{place}")
    command += [f"-I{sysconfig.get_path('include')}", str(root / "src" / "nb_combined.cpp")]
    command += [str(_SOURCE), "-o", str(target)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unbuilt(f"{command[0]}: {error}") from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        raise Unbuilt(f"{command[0]} fails: {next(iter(errors), done.stderr[-200:])}")
    return target


def load(file: str) -> None:
    """Import the module from its file."""
    sys.path.insert(0, str(Path(file).parent))
    try:
        importlib.import_module(NAME)
    finally:
        del sys.path[0]
