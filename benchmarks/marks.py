"""The speed marks of src/ (core/base.h), and what each of them gains.

    python benchmarks/marks.py                    brings marks.toml in step with the source
    python benchmarks/marks.py --measure [WORD]   measures what is not measured and has the word

A mark is measured by leaving it out: the extension is built without it, and callgrind counts the
cases of `nox -s instructions` again. The case that becomes dearest says what the mark gains; less
than LEAST is the layout of memory. Where none does, the extension may become larger, by
LEAST_BYTES of the wheel at least (zlib, level 9). A mark that gains nothing is named, and stays in
the list until it is taken out of the source. Where the build does not end without the mark, that
is its gain: a flattened function then takes the whole extension in.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
LIST = ROOT / "benchmarks" / "marks.toml"
UNKNOWN = "not measured"
KINDS = ("FLAT", "KNOWN", "RARE", "APART", "COLD")
#: Marks of a whole function; the others stand in an expression of one.
OF_FUNCTIONS = ("FLAT", "APART", "COLD")
#: Not those of NumPy and of new capsules: their own memory moves them by 11 instructions and more.
CASES = "^(?!torch|NumPy|capsule|owned from NumPy|borrowed from NumPy).*dlshim$"
LEAST = 3
LEAST_BYTES = 20
ENDLESS = "the build does not end without it"
BUILD_SECONDS = "100"
TIMED_OUT = 124
GROUPS = "calls,pieces,tables"

Mark = tuple[str, str]  # (kind, "file: function")


def blank(text: str) -> str:
    """The text with blanks for comments, directives and what stands in literals."""
    pattern = r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*'
    return re.sub(pattern, lambda hit: re.sub(r"[^\n]", " ", hit[0]), text, flags=re.S | re.M)


def places(text: str) -> list[tuple[str, str, int]]:
    """(kind, function, offset) of the marks of one file."""
    text, found = blank(text), []
    for hit in re.finditer(rf"\bDLS_({'|'.join(KINDS)})\b", text):
        if hit[1] in OF_FUNCTIONS:
            name = re.findall(r"(\w+)\(", text[hit.end() :])[0]
        else:
            name = re.findall(r"^(\w+)\(", text[: hit.start()], re.M)[-1]
        found.append((hit[1], name, hit.start()))
    return found


def marks(src: pathlib.Path) -> set[Mark]:
    """All marks that stand in a source tree."""
    return {
        (kind, f"{path.relative_to(src).as_posix()}: {name}")
        for path in sorted(src.rglob("*.[ch]"))
        for kind, name, _ in places(path.read_text())
    }


def read_list() -> dict[Mark, str]:
    """The gain of each mark, as marks.toml has it: one table for each kind."""
    kind, found = "", {}
    for line in LIST.read_text().splitlines():
        if head := re.fullmatch(r"\[(\w+)\]", line):
            kind = head[1]
        elif row := re.fullmatch(r'"(.*)" = "(.*)"', line):
            found[kind, row[1]] = row[2]
    return found


def write_list(gains: dict[Mark, str]) -> None:
    lines = [line for line in LIST.read_text().splitlines() if line.startswith("#")]
    for kind in KINDS:
        lines += ["", f"[{kind}]"]
        lines += [f'"{place}" = "{gains[k, place]}"' for k, place in sorted(gains) if k == kind]
    LIST.write_text("\n".join(lines) + "\n")


def leave_out(mark: Mark, src: pathlib.Path) -> None:
    """Takes one mark out of a copy of the source."""
    kind, place = mark
    file, name = place.split(": ")
    text = (src / file).read_text()
    for found, function, at in reversed(places(text)):
        if (found, function) == (kind, name):
            rest = text[at + len(f"DLS_{kind}") :]
            if kind == "KNOWN":  # the compiler knows nothing
                rest = "0 &&" + rest
            text = text[:at] + rest
    (src / file).write_text(text)


def build(tree: pathlib.Path) -> pathlib.Path:
    """The package of a source tree, in a folder to import it from."""
    library = tree / "library"
    command = [sys.executable, "setup.py", "-q", "build", "--build-lib", str(library)]
    command = ["timeout", BUILD_SECONDS, *command]  # ends the compiler too
    subprocess.run(command, cwd=tree, check=True, stdout=subprocess.DEVNULL)
    return library


def count(library: pathlib.Path, folder: pathlib.Path) -> dict[str, float]:
    """Instructions of each case."""
    result = folder / "counts.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "instructions.py"), "--no-gate"]
    command += ["--groups", GROUPS, "--select", CASES, "--json", str(result)]
    env = {**os.environ, "PYTHONPATH": str(library)}
    subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL)
    return json.loads(result.read_text())


def size(library: pathlib.Path) -> int:
    """Bytes of the extension in the wheel."""
    (file,) = library.glob("dlshim/_core*.so")
    return len(zlib.compress(file.read_bytes(), 9))


def gain_of(more: dict[str, float], bytes_more: int) -> str:
    """What a mark gains whose absence costs so much; else UNKNOWN."""
    case = max(more, key=lambda each: more[each])
    if more[case] >= LEAST:
        return f"{more[case]:.0f} instructions of {case}"
    return f"{bytes_more} bytes of the wheel" if bytes_more >= LEAST_BYTES else UNKNOWN


def measure(chosen: list[Mark], gains: dict[Mark, str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tree = folder / "tree"
        shutil.copytree(
            ROOT, tree, ignore=shutil.ignore_patterns(".git", "build", "dist", "tests", "docs")
        )
        library = build(tree)
        with_all, all_bytes = count(library, folder), size(library)
        for mark in chosen:
            shutil.rmtree(tree / "src")
            shutil.copytree(SRC, tree / "src")
            leave_out(mark, tree / "src")
            try:
                library = build(tree)
            except subprocess.CalledProcessError as error:
                if error.returncode != TIMED_OUT:
                    raise
                gains[mark] = ENDLESS
                write_list(gains)
                continue
            without = count(library, folder)
            more = {case: without[case] - with_all[case] for case in with_all}
            gains[mark] = gain_of(more, size(library) - all_bytes)
            print(f"DLS_{mark[0]:6} {mark[1]}: {gains[mark]}", flush=True)
            write_list(gains)


def main(arguments: list[str]) -> None:
    listed = read_list()
    gains = {mark: listed.get(mark, UNKNOWN) for mark in marks(SRC)}
    write_list(gains)
    missing = sorted(mark for mark, gain in gains.items() if gain == UNKNOWN)
    print(f"{len(gains)} marks, {len(missing)} of them not measured")
    if arguments and arguments[0] == "--measure":
        words = arguments[1:] or [""]
        measure([mark for mark in missing if any(word in mark[1] for word in words)], gains)


if __name__ == "__main__":
    main(sys.argv[1:])
