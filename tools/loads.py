"""Loads a module where no Python can be had: under Debian's wine, or with musl's dynamic loader.

tools/wheels.py uses it for the rows of tools/wheels.toml that name a loader, which must be
installed (Debian's wine64, musl).  A library of ours stands for Python and exports just the
functions that the module asks for.  The module must load and answer, its loader
(src/gpu/driver.c) must find a library and functions in it, and the Python-free C code must pass
every input of the fuzzers' corpora.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "tests" / "loads"
#: What the loader needs beside itself.
LOADER = [ROOT / "src" / "gpu" / "driver.c"]
LOADER += [ROOT / "src" / "core" / name for name in ("lock.c", "alloc.c", "base.c")]
#: Inputs in one command line, which Windows keeps short.
AT_ONCE = 100


class Place(NamedTuple):
    """Where programs of another system run.  `starts` begins the command line."""

    compiler: list[str]
    system: str
    folder: Path
    starts: list[str]

    def compile(self, name: str, *words: object) -> Path:
        line = [*self.compiler, "-std=c11", "-O1", f"-I{ROOT / 'src'}", *map(str, words)]
        subprocess.run([*line, "-o", str(self.folder / name)], check=True, cwd=self.folder)
        return self.folder / name

    def run(self, *words: object) -> str:
        line = [*self.starts, *map(str, words)]
        done = subprocess.run(line, cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{shlex.join(line)[:500]}: {done.returncode}\n{done.stderr[-2000:]}")
        return done.stdout.strip()

    def library(self, stem: str) -> str:
        return f"{stem}.dll" if self.system == "windows" else f"lib{stem}.so"


def is_object(name: str) -> bool:
    """Whether Python has an object or a type of this name, and no function."""
    single = name.startswith("_Py_") and name.endswith(("Struct", "Object"))
    return name.startswith("PyExc_") or name.endswith("_Type") or single


def stand_in(names: Sequence[str]) -> str:
    """C text of functions, and of objects to point at, with these names."""
    lines = ["#ifdef _WIN32\n#define API __declspec(dllexport)\n#else\n#define API\n#endif"]
    for name in names:
        if name == "PyModuleDef_Init":
            lines.append(f"API void *{name}(void *definition) {{ return definition; }}")
        elif is_object(name):
            lines.append(f"API char {name}[512];")
        else:
            lines.append(f"API void *{name}(void) {{ return 0; }}")
    return "\n".join(lines) + "\n"


def open_module(place: Place, module: Path, names: Sequence[str]) -> None:
    """Every symbol is found, and the module's first function answers."""
    (place.folder / "python.c").write_text(stand_in(names))
    shutil.copy(module, place.folder)
    program = SOURCES / "open_module.c"
    if place.system == "windows":
        place.compile("python3.dll", "-shared", "python.c")
        opener = place.compile("open_module.exe", program)
    else:
        opener = place.compile("open_module", program, "python.c", "-rdynamic", "-ldl")
    if place.run(opener, f"./{module.name}") != "answers":
        sys.exit("the module does not answer")


def find_libraries(place: Place) -> None:
    whole = "amdhip64_7.dll" if place.system == "windows" else "libamdhip64.so.7"
    (place.folder / "hip.c").write_text(stand_in(["hipInit"]))
    place.compile(whole, "-shared", "-fPIC", f"-Wl,-soname,{whole}", "hip.c")
    program = SOURCES / "find_libraries.c"
    more = [] if place.system == "windows" else ["-lpthread", "-ldl"]
    finder = place.compile("find_libraries.exe", program, *LOADER, *more)
    if place.run(finder, f"./{whole}") != "finds":
        sys.exit("the loader does not find a library")


def pass_corpora(place: Place) -> int:
    """How many inputs the C code has passed."""
    import fuzz  # here, as tests have a folder of this name

    compiler = place.folder / "compiler"
    compiler.write_text(f'#!/bin/sh\nexec {shlex.join(place.compiler)} "$@"\n')
    compiler.chmod(0o755)
    total = 0
    for target in fuzz.CORE:
        program = fuzz.build_replay(target, place.folder, "-O2", cc=str(compiler))
        program = program if program.exists() else program.with_suffix(".exe")
        files = fuzz.corpus_of(target)
        for start in range(0, len(files), AT_ONCE):
            some = files[start : start + AT_ONCE]
            told = place.run(program, *some)
            if told != f"{len(some)} inputs":
                sys.exit(f"{target}: {told}")
        total += len(files)
    return total


#: By the word in tools/wheels.toml: how a program is started, how the loader says its version,
#: what else the compiler needs, and the Debian package.
LOADERS = {
    "wine": (["/usr/lib/wine/wine64"], ["/usr/lib/wine/wine64", "--version"], [], "wine64"),
    "musl": ([], ["/lib/ld-musl-x86_64.so.1"], ["-dynamic"], "musl"),
}


def version(line: list[str]) -> str:
    """As the program itself tells, which musl's does for want of a file to load."""
    done = subprocess.run(line, capture_output=True, text=True)
    return re.findall(r"\d+\.\d[\d.]*", done.stdout + done.stderr)[0]


def load(loader: str, zig: str, system: str, module: Path, names: Sequence[str]) -> dict[str, Any]:
    """What was seen; ends the process where something is wrong."""
    starts, ask, more, package = LOADERS[loader]
    if not Path(ask[0]).exists():
        sys.exit(f"{loader} is not here: apt-get install {package}")
    compiler = [sys.executable, "-m", "ziglang", "cc", "-target", zig, *more]
    with tempfile.TemporaryDirectory() as name:
        place = Place(compiler, system, Path(name), starts)
        open_module(place, module, names)
        find_libraries(place)
        inputs = pass_corpora(place)
    return {
        "on": f"{loader} {version(ask)}",
        "functions of Python": len(names),
        "inputs of the C core": inputs,
    }
