"""The folders of src/ are layers, and stay so (architecture page of the docs)."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from collections.abc import Iterable
from pathlib import Path

import pytest
from project.tree import LAYERS, SRC, absent, compiler, tool, without_comments

C11_HEADERS = """
    assert.h complex.h ctype.h errno.h fenv.h float.h inttypes.h iso646.h limits.h locale.h math.h
    setjmp.h signal.h stdalign.h stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdlib.h
    stdnoreturn.h string.h time.h uchar.h wchar.h wctype.h
"""
#: Layers that know neither Python nor the system beyond C11.
PURE = ("abi", "core")
FILES = sorted(path for path in SRC.rglob("*") if path.suffix in (".c", ".h", ".def"))


def place(path: Path) -> str:
    return path.relative_to(SRC).as_posix()


def layer_of(path: Path) -> str:
    return path.relative_to(SRC).parts[0]


def includes(path: Path) -> Iterable[tuple[str, str]]:
    """(kind, name) of each include: kind is '"' or '<'."""
    text = without_comments(path.read_text())
    yield from re.findall(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', text, re.M)


def may_include(layer: str, other: str) -> bool:
    moved = LAYERS.index(layer) > LAYERS.index("python")
    return moved or LAYERS.index(other) <= LAYERS.index(layer)


def test_there_is_something_to_walk() -> None:
    assert {layer_of(path) for path in FILES} <= set(LAYERS)
    assert {"abi", "core", "python", "exchange", "module"} <= {layer_of(path) for path in FILES}
    assert may_include("core", "abi") and not may_include("abi", "core")


@pytest.mark.parametrize("path", FILES, ids=place)
def test_lines_fit_a_screen(path: Path) -> None:
    """ruff holds Python to the same width."""
    assert [line for line in path.read_text().splitlines() if len(line) > 100] == []


@pytest.mark.parametrize("path", FILES, ids=place)
def test_a_file_includes_only_from_its_layer_and_those_above(path: Path) -> None:
    for kind, name in includes(path):
        if kind == "<":
            if name == "Python.h":
                assert place(path) == "python/py.h", "only src/python/py.h includes Python.h"
            elif layer_of(path) in PURE:
                assert name in C11_HEADERS.split(), (
                    f"{layer_of(path)}/ knows nothing but C11: <{name}>"
                )
            continue
        assert (SRC / name).is_file(), f'"{name}" is not written as folder/file'
        assert may_include(layer_of(path), name.partition("/")[0]), f"up the layers: {name}"


def test_headers_do_not_include_each_other_in_a_ring() -> None:
    below = {place(path): [name for kind, name in includes(path) if kind == '"'] for path in FILES}

    def walk(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail, name))
        for other in below[name]:
            walk(other, (*trail, name))

    for name in below:
        walk(name, ())


# ---- names of libraries ---------------------------------------------------------------------


def library_words() -> set[str]:
    """The modules and names of all rows of libraries.def."""
    text = without_comments((SRC / "exchange" / "libraries.def").read_text())
    rows = re.findall(r'^LIBRARY\(\s*"([^"]+)",\s*"([^"]+)"', text, re.M)
    assert len(rows) > 10
    return {word for row in rows for word in row} - {"numpy scalar"}


def test_only_the_library_table_looks_for_libraries() -> None:
    # A message may name a library in its cure; a literal that is a name and nothing
    # more is a look-up.
    words = library_words()
    found = []
    for path in FILES:
        if path.name == "libraries.def":
            continue
        for literal in re.findall(r'"((?:\\.|[^"\\])*)"', without_comments(path.read_text())):
            head = re.split(r"[.:]", literal.strip())[0]
            if head in words and re.fullmatch(r"[\w.:-]+", literal.strip()):
                found.append(f"{place(path)}: {literal!r}")
    assert not found, "; ".join(found)


# ---- symbols --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Every C file compiled by itself, by layer."""
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not header.is_file():
        absent(f"no {header.name}: the headers of this Python are not installed")
    folder = tmp_path_factory.mktemp("objects")
    made: dict[str, list[Path]] = {layer: [] for layer in LAYERS}
    for path in FILES:
        if path.suffix != ".c":
            continue
        target = folder / f"{place(path).replace('/', '.')}.o"
        command = [compiler(), "-std=c11", "-fPIC", "-O0", f"-I{SRC}", "-c"]
        if layer_of(path) not in PURE:
            command += [f"-I{header.parent}", "-DPy_LIMITED_API=0x030A0000"]
        subprocess.run([*command, str(path), "-o", str(target)], check=True)
        made[layer_of(path)].append(target)
    return made


def symbols(files: list[Path], *, defined: bool) -> set[str]:
    if not files:
        return set()
    which = "--defined-only" if defined else "--undefined-only"
    command = [tool("nm"), "-P", "-g", which, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {line.split()[0] for line in done.stdout.splitlines() if len(line.split()) > 1}


def test_the_core_knows_neither_python_nor_a_device_library(
    objects: dict[str, list[Path]],
) -> None:
    used = symbols(objects["core"], defined=False)
    assert "malloc" in used
    foreign = re.compile(r"_?Py[A-Z_]|cu[A-Z]|hip[A-Z]|dl(open|sym|close)$")
    assert not {name for name in used if foreign.match(name)}


def test_the_core_links_alone(objects: dict[str, list[Path]], tmp_path: Path) -> None:
    command = [compiler(), "-shared", "-Wl,-z,defs", *map(str, objects["core"])]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "core.so")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_uses_functions_of_layers_above_it_only(
    objects: dict[str, list[Path]], layer: str
) -> None:
    above = [name for name in LAYERS if may_include(layer, name)]
    offered = symbols([file for name in above for file in objects[name]], defined=True)
    wanted = {name for name in symbols(objects[layer], defined=False) if name.startswith("dls_")}
    assert wanted <= offered, f"{layer}/ reaches down: {sorted(wanted - offered)}"


def test_what_crosses_files_is_called_dls(objects: dict[str, list[Path]]) -> None:
    every = symbols([file for files in objects.values() for file in files], defined=True)
    assert {name for name in every if not name.startswith("dls_")} == {"PyInit__core"}
