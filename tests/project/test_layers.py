"""The folders of src/ are layers, and stay so (architecture page of the docs)."""

from __future__ import annotations

import re
import subprocess
import types
from collections.abc import Iterable
from pathlib import Path

import pytest
from project.objects import PURE, Objects, symbols
from project.tree import LAYERS, SRC, compiler, without_comments

from dlshim import habits, library_calls

C11_HEADERS = """
    assert.h complex.h ctype.h errno.h fenv.h float.h inttypes.h iso646.h limits.h locale.h math.h
    setjmp.h signal.h stdalign.h stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdlib.h
    stdnoreturn.h string.h time.h uchar.h wchar.h wctype.h
"""
#: What is asked of one system, behind its own macro.
MORE_HEADERS = {"core/alloc.c": ["sys/mman.h"], "core/lock.c": ["sched.h", "windows.h"]}
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
    return LAYERS.index(other) <= LAYERS.index(layer)


def test_there_is_something_to_walk() -> None:
    assert {layer_of(path) for path in FILES} <= set(LAYERS)
    assert {"abi", "core", "python", "exchange", "module"} <= {layer_of(path) for path in FILES}
    assert may_include("core", "abi") and not may_include("abi", "core")


@pytest.mark.parametrize("path", FILES, ids=place)
def test_lines_fit_a_screen(path: Path) -> None:
    """The width of .clang-format; a table's rows may have what ruff allows to Python."""
    width = 100 if path.suffix == ".def" else 88
    assert [line for line in path.read_text().splitlines() if len(line) > width] == []


@pytest.mark.parametrize("path", FILES, ids=place)
def test_a_file_includes_only_from_its_layer_and_those_above(path: Path) -> None:
    for kind, name in includes(path):
        if kind == "<":
            if name == "Python.h":
                assert place(path) == "python/py.h", "only src/python/py.h includes Python.h"
            elif layer_of(path) in PURE:
                assert name in (*C11_HEADERS.split(), *MORE_HEADERS.get(place(path), ())), (
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
    """The modules and names of all rows."""
    assert len(habits.LIBRARIES) > 10
    return {word for row in habits.LIBRARIES for word in row[:2]} - {"numpy scalar"}


#: Deleters that run Python code without taking the GIL: where this is asked no Python may run.
IN_C = ["python/state.h: 'numpy'", "types/library.c: 'numpy'"]


def test_only_the_library_table_looks_for_libraries() -> None:
    # A message may name a library in its cure, and a method of ours may have such a name; any
    # other literal that is a name and nothing more is a look-up.
    words = library_words()
    found = []
    for path in FILES:
        text = re.sub(r'\{"\w+", (DLS_FASTCALL|\w+, METH_)', "", without_comments(path.read_text()))
        for literal in re.findall(r'"((?:\\.|[^"\\])*)"', text):
            head = re.split(r"[.:]", literal.strip())[0]
            if head in words and re.fullmatch(r"[\w.:-]+", literal.strip()):
                found.append(f"{place(path)}: {literal!r}")
    assert found == IN_C


def test_the_rows_name_the_functions_that_ask_libraries() -> None:
    named = {
        each for calls in habits.CALLS_OF.values() for each in calls.values() if callable(each)
    }
    there = {
        function
        for name, function in vars(library_calls).items()
        if isinstance(function, types.FunctionType) and not name.startswith("_")
    }
    assert len(named) > 15 and named == there


def numbered(file: str, pattern: str) -> list[tuple[str, ...]]:
    return re.findall(pattern, without_comments((SRC / file).read_text()), re.M)


def test_the_words_of_the_table_are_those_of_c_in_the_same_order() -> None:
    """A trait has one bit in both, and so on."""
    bits = numbered("types/library.h", r"^#define DLS_LIB_(\w+) DLS_BIT\((\d+)\)$")
    assert bits == [(word, str(n)) for n, word in enumerate(habits.TRAITS)]
    askers = numbered("types/library.h", r"^#define DLS_ASKER_(\w+) (\d+)$")
    assert askers == [(word, str(1 << n)) for n, word in enumerate(habits.ASKERS)]
    calls = numbered("types/library.h", r"^ +DLS_CALL_(\w+),$")
    words = ["NAME", *(re.sub(r"\W", "_", word).upper() for word in habits.CALLS)]
    assert calls == words
    layouts = numbered("core/tensor.h", r"^ +DLS_LAYOUT_(\w+),? *$")
    assert layouts == [*habits.LAYOUTS]


def test_each_word_of_the_table_is_used_by_c() -> None:
    text = "".join(path.read_text() for path in FILES if path.name != "library.h")
    text += without_comments((SRC / "types" / "library.h").read_text()).replace(
        "#define DLS_LIB", ""
    )
    for word in habits.TRAITS:
        assert re.search(rf"\bDLS_LIB_{word}\b", text), word


def test_what_is_told_of_a_library_by_its_name_has_a_row() -> None:
    names = {name for name, _, _, _ in habits.LIBRARIES}
    assert habits.CALLS_OF.keys() <= names and habits.RELEASES.keys() <= names
    for calls in habits.CALLS_OF.values():
        assert calls.keys() <= {*habits.CALLS}


# ---- symbols --------------------------------------------------------------------------------


def test_the_core_knows_neither_python_nor_a_device_library(
    objects: Objects,
) -> None:
    used = symbols(objects.of("core"), defined=False)
    assert "malloc" in used
    foreign = re.compile(r"_?Py[A-Z_]|cu[A-Z]|hip[A-Z]|dl(open|sym|close)$")
    assert not {name for name in used if foreign.match(name)}


def test_the_core_links_alone(objects: Objects, tmp_path: Path) -> None:
    command = [compiler(), "-shared", "-Wl,-z,defs", *map(str, objects.of("core"))]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "core.so")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_what_crosses_files_is_called_dls(objects: Objects) -> None:
    every = symbols(objects.files.values(), defined=True)
    assert {name for name in every if not name.startswith("dls_")} == {"PyInit__core"}
