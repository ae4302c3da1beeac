"""Extensions that are written with dlshim.h, compiled here from ``tests/programs``."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sysconfig
from pathlib import Path
from types import ModuleType

from project.tree import ROOT, absent, compiler

import dlshim

INCLUDE = Path(dlshim.__file__).parent / "include"
FLAGS = ["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
FLAGS += ["-shared", "-fPIC", "-pthread"]


def load(name: str, path: str) -> ModuleType:
    """Import the module of that file; `importlib` keeps no module of this name."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build(name: str, folder: Path, *, limited: bool = True) -> ModuleType:
    """Compile that program into the folder, and import it; limited: which API it may call."""
    target = folder / f"{name}.so"
    flags = list(FLAGS)
    if limited and not sysconfig.get_config_var("Py_GIL_DISABLED"):
        flags.append("-DPy_LIMITED_API=0x030a0000")
    for include in (INCLUDE, ROOT / "src", sysconfig.get_path("include")):
        flags.append(f"-I{include}")
    source = ROOT / "tests" / "programs" / f"{name}.c"
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    built = subprocess.run(
        [compiler(), *flags, str(source), "-o", str(target)],
        capture_output=True,
        text=True,
        env=plain,
    )
    if "Python.h: No such file" in built.stderr:
        absent("Python.h is not here")
    assert built.returncode == 0, built.stderr
    return load(name, str(target))
