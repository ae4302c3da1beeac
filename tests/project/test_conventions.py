"""Habits of the C code that a reader may rely on (conventions page of the docs)."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from project.tree import ROOT, SRC, absent, tool, without_comments

FILES = sorted(path for path in SRC.rglob("*") if path.suffix in (".c", ".h"))


def place(path: Path) -> str:
    return path.relative_to(SRC).as_posix()


def opening(path: Path) -> str:
    """The comment that the file begins with, or nothing."""
    found = re.match(r"/\*.*?\*/", path.read_text(), re.S)
    return re.sub(r"\n \* ?", " ", found[0]) if found else ""


def test_file_names_are_unique() -> None:
    names = Counter(path.name for path in FILES)
    assert len(names) > 100
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("path", FILES, ids=place)
def test_a_file_opens_with_what_it_does(path: Path) -> None:
    text = opening(path)
    assert len(text.split()) > 8, "two to five lines: what, for whom, where its tests are"
    tests = re.findall(r"tests/[\w/]+\.py", text)
    assert [name for name in tests if not (ROOT / name).is_file()] == []
    assert tests or path.suffix == ".h", "a source file names its tests"


def test_clang_format_is_pinned_where_it_is_run() -> None:
    """`nox -s lint` lays nothing out; it fails where a file differs."""
    lint = (ROOT / "noxfile.py").read_text()
    assert re.search(r'"clang-format==[0-9.]+"', lint) and '"--dry-run", "-Werror"' in lint
    assert "ColumnLimit: 88" in (ROOT / ".clang-format").read_text()


def test_each_counted_release_of_numpy_has_budgets() -> None:
    """A case without a row is not judged: a new pin would leave its release out in silence."""
    old = re.findall(r"^OLD_NUMPYS = (.*)$", (ROOT / "noxfile.py").read_text(), re.M)
    environments = (ROOT / "tests" / "interop" / "environments.toml").read_text()
    newest = re.findall(r'^\[newest\].*?"numpy==([\d.]+)"', environments, re.M | re.S)
    pins = newest + re.findall(r"[\d.]+", old[0])
    judged = (ROOT / "benchmarks" / "budgets.toml").read_text()
    cases = Counter(re.findall(r'case = "[\w ]*, (\d+\.\d+)"', judged))
    assert cases == {pin.rpartition(".")[0]: 12 for pin in pins} and len(pins) == 3


def git(*words: str) -> subprocess.CompletedProcess[str]:
    command = [tool("git"), "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_commits_that_blame_skips_exist() -> None:
    text = (ROOT / ".git-blame-ignore-revs").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert lines and all(re.fullmatch(r"[0-9a-f]{40}", line) for line in lines)
    assert ".git-blame-ignore-revs" in (ROOT / "docs" / "development.rst").read_text()
    if not (ROOT / ".git").exists():
        absent("no history here")
    if git("rev-parse", "--is-shallow-repository").stdout.strip() == "true":
        absent("this clone has not the whole history")
    for commit in lines:
        assert git("merge-base", "--is-ancestor", commit, "HEAD").returncode == 0, commit


def test_openings_are_seen(tmp_path: Path) -> None:
    bare = tmp_path / "bare.c"
    bare.write_text('#include "core/base.h"\n/* Too late. */\n')
    assert opening(bare) == ""
    bare.write_text("/* One\n * two. */\nint x;\n")
    assert opening(bare) == "/* One two. */"


def astray(src: Path) -> set[tuple[str, str]]:
    """(header, source): the one declares what the other defines, and their names differ.

    A source without a header may have its functions in one of its folder, which names it.
    """
    texts = {
        path.relative_to(src).as_posix(): without_comments(path.read_text())
        for path in src.rglob("*.[ch]")
    }
    defined = {
        name: file
        for file, text in texts.items()
        for name in re.findall(r"^(dls_\w+)\(", text, re.M)
        if file.endswith(".c")
    }
    found = set()
    for file, text in texts.items():
        while (bare := re.sub(r"\{[^{}]*\}", "", text)) != text:
            text = bare
        for name in re.findall(r"\b(dls_\w+)\([^;{]*\);", text):
            home = defined.get(name)
            if home and file.endswith(".h") and home[:-2] != file[:-2]:
                found.add((file, home))
    return {(header, source) for header, source in found if not shares(src, header, source)}


def shares(src: Path, header: str, source: str) -> bool:
    file = src / source
    return (
        file.parent == (src / header).parent
        and not file.with_suffix(".h").exists()
        and re.search(rf"\b{file.name}\b", (src / header).read_text()) is not None
    )


def test_a_header_declares_what_the_source_of_its_name_defines() -> None:
    assert astray(SRC) == set()


def test_declarations_astray_are_seen(tmp_path: Path) -> None:
    (tmp_path / "one.h").write_text("int dls_one(void);\nvoid *dls_two(int a,\n    int b);\n")
    (tmp_path / "one.c").write_text("int\ndls_one(void)\n{\n    return dls_two(1, 2);\n}\n")
    (tmp_path / "two.c").write_text("void *\ndls_two(int a, int b)\n{\n}\n")
    assert astray(tmp_path) == {("one.h", "two.c")}
    (tmp_path / "one.h").write_text("/* two.c */\nvoid *dls_two(int a, int b);\n")
    assert astray(tmp_path) == set()
    (tmp_path / "two.h").write_text("")
    assert astray(tmp_path) == {("one.h", "two.c")}


def using(pattern: str) -> set[str]:
    return {place(path) for path in FILES if re.search(pattern, without_comments(path.read_text()))}


def test_reference_counts_are_looked_at_in_one_place() -> None:
    assert using(r"\bPy_REFCNT\b") == {"python/py.h"}


def test_what_is_remembered_is_stored_in_one_place() -> None:
    stored = r"\b(memo(\.|->)(version|versioned|host|keywords\[\w+\])) = "
    assert using(stored) == {"python/memo.c"}


def test_memory_comes_from_one_place() -> None:
    assert using(r"\b(malloc|calloc|realloc|free)\(") == {"core/alloc.c"}


def test_variables_of_all_files_are_said_to_be_in_this_library() -> None:
    assert using(r"(?m)^\s*extern ") == set()
