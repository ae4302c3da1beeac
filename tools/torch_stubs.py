"""Makes a CUDA build of torch importable for CPU work without the NVIDIA packages (several GB).

    pip install --no-deps torch==2.8.0
    python tools/torch_stubs.py [SITE_PACKAGES/torch/lib]

For every shared library that torch's own libraries need and that nothing provides, a stub with the
same SONAME is written, which defines the version nodes and functions that are asked for. Each
function returns 100 (cudaErrorNoDevice), so torch finds no device; its CPU code is untouched.
Where nothing is missing (a CPU build), nothing is written. Needs objdump and cc.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from importlib import util
from pathlib import Path

# What the system or the driver provides; torch looks for libcuda at run time and copes without.
PROVIDED = re.compile(r"(lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|gomp|cuda)\.so|ld-linux)")
# Symbols of the CUDA libraries that carry no version: nothing says which library they come from.
CUDA_NAME = re.compile(r"(cu|nccl|nv[A-Z]|nvtx|nvrtc|nvshmem|cupti)")
SYMBOL = re.compile(
    r"\S+ .{7} (?P<section>\S+)\s+\S+\s+(?:\(?(?P<version>[^\s()]+)\)?\s+)?(?P<name>\S+)$"
)
NO_DEVICE = "int %s(void) { return 100; }\n"


@dataclass
class Wanted:
    """What a set of libraries asks of others."""

    needed: set[str] = field(default_factory=set)
    versioned: dict[str, dict[str, set[str]]] = field(default_factory=dict)
    """library -> version node -> symbols"""
    unversioned: set[str] = field(default_factory=set)
    defined: set[str] = field(default_factory=set)


def objdump(option: str, path: Path) -> list[str]:
    run = subprocess.run(["objdump", option, str(path)], capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


def read_library(path: Path, wanted: Wanted) -> None:
    library, owner_of_node = "", {}
    for line in objdump("-p", path):
        if match := re.match(r"\s+NEEDED\s+(\S+)", line):
            wanted.needed.add(match[1])
        elif match := re.match(r"\s+required from (\S+):", line):
            library = match[1]
        elif library and (match := re.match(r"\s+0x[0-9a-f]+ 0x[0-9a-f]+ \d+ (\S+)", line)):
            wanted.versioned.setdefault(library, defaultdict(set))[match[1]]
            owner_of_node[match[1]] = library
    for line in objdump("-T", path):
        match = SYMBOL.match(line)
        if not match:
            continue
        name, version = match["name"], match["version"]
        if match["section"] != "*UND*":
            wanted.defined.add(name)
        elif version in owner_of_node:
            wanted.versioned[owner_of_node[version]][version].add(name)
        elif CUDA_NAME.match(name):
            wanted.unversioned.add(name)


def write_stub(target: Path, nodes: dict[str, set[str]], more: set[str]) -> int:
    """Compiles one stub library; returns how many functions it has."""
    names = set(more).union(*nodes.values())
    with tempfile.TemporaryDirectory() as folder:
        source, script = Path(folder, "stub.c"), Path(folder, "stub.map")
        source.write_text("".join(NO_DEVICE % name for name in sorted(names)))
        command = ["cc", "-shared", "-fPIC", "-w", "-fno-builtin", "-o", str(target), str(source)]
        command.append(f"-Wl,-soname,{target.name}")
        if nodes:
            # A node must name something; one that only marks the library gets a name of no one.
            script.write_text(
                "".join(
                    "%s { global: %s; };\n" % (node, "; ".join(sorted(ours)) or f"no_symbol_{i}")
                    for i, (node, ours) in enumerate(sorted(nodes.items()))
                )
            )
            command.append(f"-Wl,--version-script={script}")
        subprocess.run(command, check=True)
    return len(names)


def write_stubs(folder: Path) -> list[str]:
    """Writes what is missing in torch's library folder; returns the names of the stubs."""
    present = {path.name for path in folder.glob("*.so*")}
    wanted = Wanted()
    for path in sorted(folder.glob("*.so*")):
        read_library(path, wanted)
    missing = sorted(n for n in wanted.needed - present if not PROVIDED.match(n))
    # The unversioned symbols have to be somewhere: the first stub takes them all.
    homeless = wanted.unversioned - wanted.defined
    for name in missing:
        count = write_stub(folder / name, wanted.versioned.get(name, {}), homeless)
        print(f"{name}: {count} functions")
        homeless = set()
    return missing


def torch_folder() -> Path:
    spec = util.find_spec("torch")
    if spec is None or spec.origin is None:
        sys.exit("torch is not installed in this interpreter")
    return Path(spec.origin).with_name("lib")


if __name__ == "__main__":
    stubs = write_stubs(Path(sys.argv[1]) if len(sys.argv) > 1 else torch_folder())
    print(f"{len(stubs)} stub libraries written")
