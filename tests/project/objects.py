"""Every C file of src/ compiled by itself, without optimisation, once for a run."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from project.tree import LAYERS, ROOT, SRC, absent, compiler, tool

#: Folders that know neither Python nor the system beyond C11.
PURE = ("abi", "core")
#: What is seen is the code as it is written: nothing is inlined, and asserts count.
FLAGS = ["-std=c11", "-fPIC", "-O0", "-UNDEBUG"]


class Objects:
    """The object files of a source tree: `files["core/copy.c"]` is one of them."""

    def __init__(self, folder: Path, src: Path = SRC) -> None:
        header = Path(sysconfig.get_path("include"), "Python.h")
        if not header.is_file():
            absent(f"no {header.name}: the headers of this Python are not installed")
        self.src = src
        self.files: dict[str, Path] = {}
        commands = []
        for path in sorted(src.rglob("*.c")):
            place = path.relative_to(src).as_posix()
            self.files[place] = folder / f"{place.replace('/', '.')}.o"
            command = [compiler(), *FLAGS, f"-I{src}", "-c"]
            if place.split("/")[0] not in PURE:
                command += [f"-I{header.parent}", "-DPy_LIMITED_API=0x030A0000"]
                command.append(f"-I{ROOT / 'shim' / 'include'}")
            commands.append([*command, str(path), "-o", str(self.files[place])])
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda command: subprocess.run(command, check=True), commands))

    def of(self, layer: str) -> list[Path]:
        assert layer in LAYERS
        return [file for place, file in self.files.items() if place.startswith(f"{layer}/")]


def symbols(files: Iterable[Path], *, defined: bool) -> set[str]:
    """The names that these objects define, or that they need from elsewhere."""
    if not (names := [str(file) for file in files]):
        return set()
    which = "--defined-only" if defined else "--undefined-only"
    command = [tool("nm"), "-P", "-g", which, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {line.split()[0] for line in done.stdout.splitlines() if len(line.split()) > 1}
