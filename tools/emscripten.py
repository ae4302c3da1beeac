"""The extension for WebAssembly, as far as it can be tried without a Python for it.

    python tools/emscripten.py

Emscripten compiles every file with the headers of the floor's CPython, warnings being errors, and
links a module as Pyodide has them. node loads it with a stand-in for Python, and the C code that
needs no Python passes every input of the fuzzers' corpora. Needs Debian's emscripten and nodejs.
Pyodide itself comes from neither PyPI nor Debian, so no Python has imported this module.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import loads
import wheels

ROOT = Path(__file__).resolve().parent.parent
COMPILE = ["-std=c11", "-O2", "-DNDEBUG", "-DPy_LIMITED_API=0x030a0000", "-fvisibility=hidden"]
COMPILE += ["-fPIC", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
#: A module that a running program loads, with this function for the outside.
LINK = ["-O2", "-sSIDE_MODULE=2", "-sEXPORTED_FUNCTIONS=_PyInit__core"]
#: A program that sees the files of this machine.
PROGRAM = ["-sNODERAWFS=1", "-sEXIT_RUNTIME=1"]
#: The same words for compiling and linking; they come last, since -Wall brings the warning back.
COMPILER = ["sh", "-c", f'exec emcc "$@" {" ".join(PROGRAM)} -Wno-unused-command-line-argument']
#: Programs of Emscripten before 3.1.27 take node's `fetch` for a browser's.
NODE = ["node", "--no-experimental-fetch"]
#: Lists the functions that a module wants, as node sees them.
ASK = """
const bytes = require('fs').readFileSync(process.argv[1]);
WebAssembly.compile(bytes).then(module => console.log(JSON.stringify(
    WebAssembly.Module.imports(module).map(each => each.name))));
"""


def build_module(folder: Path) -> Path:
    headers = wheels.headers(folder)
    places = [f"-I{place}" for place in (headers, ROOT / "src", ROOT / "shim" / "include")]
    files = sorted(map(str, ROOT.glob("src/*/*.c")))
    subprocess.run(["emcc", *COMPILE, *places, "-c", *files], cwd=folder, check=True)
    module = folder / "_core.abi3.so"
    objects = sorted(map(str, folder.glob("*.o")))
    subprocess.run(["emcc", *LINK, *objects, "-o", str(module)], cwd=folder, check=True)
    print(f"{len(files)} files compiled, {module.stat().st_size} bytes", flush=True)
    return module


def asked_of_python(module: Path) -> list[str]:
    told = subprocess.run(["node", "-e", ASK, str(module)], capture_output=True, check=True).stdout
    return sorted({name for name in json.loads(told) if re.match("_?Py", name)})


def open_module(module: Path, names: list[str], folder: Path) -> None:
    """A function of WebAssembly must have the type that is asked for; JavaScript's have none."""
    objects = [name for name in names if loads.is_object(name)]
    functions = sorted({*names} - {*objects})
    (folder / "python.c").write_text(loads.stand_in(objects))
    members = ",\n".join(f"{name}: function(given) {{ return given; }}" for name in functions)
    (folder / "python.js").write_text(f"mergeInto(LibraryManager.library, {{\n{members}\n}});\n")
    program = folder / "open_module.js"
    sources = [str(loads.SOURCES / "open_module.c"), str(folder / "python.c")]
    line = ["emcc", "-O1", *PROGRAM, "-sMAIN_MODULE=1", *sources]
    line += ["--js-library", str(folder / "python.js"), "-o", str(program)]
    subprocess.run(line, check=True)
    told = subprocess.run([*NODE, program, module], capture_output=True, text=True)
    if told.stdout.strip() != "answers":
        sys.exit(f"the module does not answer: {told.stdout}{told.stderr[-2000:]}")
    print(f"node loads it with a stand-in for {len(names)} functions of Python", flush=True)


def main() -> int:
    if missing := [name for name in ("emcc", "node") if shutil.which(name) is None]:
        sys.exit(f"{' and '.join(missing)} not found: apt-get install emscripten nodejs")
    # Where Debian keeps what Emscripten needs of node; another node does not look there.
    os.environ["NODE_PATH"] = "/usr/share/nodejs"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        module = build_module(folder)
        open_module(module, asked_of_python(module), folder)
        place = loads.Place([*COMPILER, "emcc"], "emscripten", folder / "core", NODE)
        place.folder.mkdir()
        print(f"the C code passes {loads.pass_corpora(place)} inputs", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
