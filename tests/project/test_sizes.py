"""How large the source is allowed to be: code, files, functions, parameter lists, frames."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from project.objects import Objects
from project.tree import LAYERS, SRC, without_comments

FILES = sorted(path for path in SRC.rglob("*") if path.suffix in (".c", ".h", ".def"))

#: Lines of src/ that hold code, without comments and blanks.  It falls; it rises only with new
#: behaviour: 14 900 when the layout was rebuilt, 500 for what is refused with a cure, masks,
#: autograd, proxies and one call for each learned exchange, 90 for holds that know the interpreter
#: of their objects, 1 200 for copies to CUDA and ROCm devices, their memory and like=, 700 for
#: copies of host memory by rows and blocks, 600 for copies of oneAPI memory and Metal, 550 for
#: stream="wait", omitted streams, device labels and torch's own device, 80 for the bits of torch's
#: subclasses past its hook, 250 for dtypes, arrays, pickles and every option of from_dlpack, 150
#: for tracking by module, device questions of several threads, and calls that others pass on, 120
#: for locks, keys and owned types that hold without the GIL and across forks.
CODE_LINES = 21_070
NEGOTIATION = "acquire/negotiate.c"
NEGOTIATION_LINES = 350
SOURCES_PER_FOLDER = 15
PARAMETERS = 6
#: Folders whose functions may have more: what they read and write has as many parts.
MANY_PARAMETERS = ("abi", "core", "gpu")
FRAME_BYTES = 1024


def place(path: Path) -> str:
    return path.relative_to(SRC).as_posix()


def code_lines(text: str) -> int:
    bare = re.sub(r"/\*.*?\*/", lambda found: "\n" * found[0].count("\n"), text, flags=re.S)
    return sum(1 for line in bare.splitlines() if line.strip())


def functions(text: str) -> Iterator[tuple[str, str]]:
    """(name, parameters) of what is defined: the name begins a line (.clang-format)."""
    for head in re.finditer(r"^(\w+)\(", text := without_comments(text), re.M):
        depth, end = 1, head.end()
        while depth and end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        if text[end:].lstrip().startswith("{"):
            yield head[1], text[head.end() : end - 1]


def parameters(inside: str) -> int:
    """How many there are; those of a pointer to a function count as one."""
    if inside.strip() in ("", "void"):
        return 0
    while (bare := re.sub(r"\([^()]*\)", "", inside)) != inside:
        inside = bare
    return inside.count(",") + 1


def test_lines_of_code() -> None:
    by_folder: Counter[str] = Counter()
    for path in FILES:
        by_folder[place(path).split("/")[0]] += code_lines(path.read_text())
    print(f"lines of code: {sum(by_folder.values())}, {dict(by_folder)}")
    assert 10_000 < sum(by_folder.values()) <= CODE_LINES
    assert code_lines("/* one\n * two */\n\nint x; /* three */\n") == 1


def test_negotiation_is_read_in_one_place() -> None:
    lines = (SRC / NEGOTIATION).read_text().count("\n")
    assert 100 < lines <= NEGOTIATION_LINES


def test_folders_are_small() -> None:
    sources = Counter(place(path).split("/")[0] for path in FILES if path.suffix == ".c")
    assert set(sources) == set(LAYERS) - {"abi"}
    assert {folder: n for folder, n in sources.items() if n > SOURCES_PER_FOLDER} == {}


def test_parameter_lists_are_short() -> None:
    counts = {
        f"{place(path)}: {name}": parameters(inside)
        for path in FILES
        for name, inside in functions(path.read_text())
    }
    assert len(counts) > 800, "the definitions are found"
    assert {
        name: n
        for name, n in counts.items()
        if n > PARAMETERS and name.split("/")[0] not in MANY_PARAMETERS
    } == {}


def test_parameters_are_counted() -> None:
    text = """
        static int
one(void)
{
}
int
seven(int a, int (*b)(int, int (*)(int, int)), int c, int d,
      int e, int f, /* not, one, more */ int g)
{
}
int
only_declared(int a, int b, int c, int d, int e, int f, int g);
"""
    assert [(name, parameters(inside)) for name, inside in functions(text)] == [
        ("one", 0),
        ("seven", 7),
    ]


def test_frames_are_small(objects: Objects) -> None:
    frames = objects.frames()
    assert len(frames) > 1000 and "acquire/negotiate.c: negotiate" in frames
    assert {name: size for name, size in frames.items() if size > FRAME_BYTES} == {}
