"""What a comment or a page cites is in this repository: rules, files, sections."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from project.tree import LAYERS, ROOT, SRC

RULES = ROOT / "docs" / "rules.rst"
FOLDERS = ("src", "tests", "kit", "docs", "shim", "tools", "benchmarks")
TEXT = (".c", ".h", ".def", ".py", ".pyi", ".rst", ".md", ".toml", ".in")
THIS = Path(__file__).resolve()


def texts(*folders: str) -> list[Path]:
    """Files of these folders that people write; results of runs are not."""
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*"))]
    return [
        path
        for path in found
        if path.suffix in TEXT
        and path != THIS
        and not {"build", "results", "_build"} & set(path.relative_to(ROOT).parts)
        and not any(part.endswith(".egg-info") for part in path.parts)
    ]


ALL = [*texts(*FOLDERS), *sorted(path for path in ROOT.glob("*.*") if path.suffix in TEXT)]
C = [path for path in texts("src") if path.suffix in (".c", ".h", ".def")]


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# ---- rules ----------------------------------------------------------------------------------

#: S1 and its like are looked after by test_stream_rules.py.
RULE = re.compile(r"""(?<![\w"'.|])([TNHKV][0-9]{1,2})\b(?!["'(=\]])""")


def stated() -> list[str]:
    return re.findall(r"^\*\*([TNHKV][0-9]+)\. ", RULES.read_text(), re.M)


def test_every_rule_has_one_number_and_none_is_left_out() -> None:
    numbers = Counter(rule[0] for rule in stated())
    assert numbers["T"] >= 12 and numbers["N"] >= 9 and numbers["K"] >= 11 and numbers["V"] >= 9, (
        "a number is never taken away"
    )
    assert stated() == [f"{kind}{n}" for kind in "TNHKV" for n in range(1, numbers[kind] + 1)]


def test_citations_of_rules_are_found_at_all() -> None:
    cited = Counter(rule for path in C for rule in RULE.findall(path.read_text()))
    assert set(cited) >= {"T1", "T3", "T8", "T10", "N2", "N9"} and sum(cited.values()) > 100
    assert RULE.findall("(T99, N10) but no T1000, x.T5, 'T4' and T[0]") == ["T99", "N10"]


@pytest.mark.parametrize("path", texts("src", "tests", "kit", "docs", "shim"), ids=place)
def test_a_cited_rule_exists(path: Path) -> None:
    assert set(RULE.findall(path.read_text())) <= set(stated())


# ---- documents ------------------------------------------------------------------------------

#: Documents that readers of this repository do not have.
ELSEWHERE = re.compile(
    r"\breference (?:[\w-]+\.md|[\w-]+ section)|\b(?:design|house|found-attacks)\.md"
    r"|\bdesign,? section|section [\d.]+ of the design"
    r"|(?<![\w./])/(?:work|root)/",
    re.I,
)


def test_documents_from_elsewhere_are_recognised() -> None:
    # Put together here, so that this file names no such document itself.
    folder, page = "/".join(("", "work", "x")), "streams" + ".md"
    for text in (f"(reference {page} 1.8)", "Design section 9:", "reference x section 2", folder):
        assert ELSEWHERE.search(text), text
    for text in ("a reference to it", f"the net{folder}", "a design", "section 3 of the standard"):
        assert not ELSEWHERE.search(text), text


def test_no_document_from_elsewhere_is_cited() -> None:
    found = {place(path): ELSEWHERE.findall(path.read_text()) for path in ALL}
    assert {name: cited for name, cited in found.items() if cited} == {}


# ---- files ----------------------------------------------------------------------------------

#: Headers of others, and a member of dls_hold.
FOREIGN = {
    "cuda.h",
    "dlpack.h",
    "hip/hip_runtime_api.h",
    "structmember.h",
    "typeslots.h",
    "Python.h",
    "hold.py",
}
NAMED = re.compile(r"(?<![\w./<-])[A-Za-z_][\w/-]*\.(?:c|h|def|py|rst|toml|md)\b(?!\.\w)")
#: "sync/work_stream": a file of src/ by its folder and stem; "source" and "device" were folders.
STEM = re.compile(rf"(?<![\w./-])((?:{'|'.join(LAYERS)}|source|device)/[a-z]\w*)\b(?!\.\w|[/(])")
WHOLE = re.compile(rf"(?<![\w./-])(?:{'|'.join(FOLDERS)})/[\w/.*-]*[\w*]")


def comments(path: Path) -> str:
    return "\n".join(re.findall(r"/\*.*?\*/", path.read_text(), re.S))


NAMES = {path.name for path in [*ALL, THIS]}


def exists(cited: str) -> bool:
    """By its path from the root or from src/, or by its name alone."""
    if "/" not in cited:
        return cited in NAMES
    if "*" in cited:
        return next(ROOT.glob(cited), None) is not None
    if cited.endswith(".cpp") or "_build" in cited:  # of others, and not committed
        return True
    return any((folder / cited).exists() for folder in (ROOT, SRC)) or stem_exists(cited)


def stem_exists(cited: str) -> bool:
    stem = SRC / cited.removeprefix("src/")
    return any(stem.with_suffix(end).exists() for end in (".c", ".h", ".def"))


def lost(path: Path) -> set[str]:
    """What the comments of a C file name and what is not there."""
    text = comments(path)
    files = {name for name in NAMED.findall(text) if name not in FOREIGN and not exists(name)}
    return files | {name for name in STEM.findall(text) if not stem_exists(name)}


def test_lost_files_are_recognised(tmp_path: Path) -> None:
    file = tmp_path / "x.c"
    file.write_text(
        "/* See core/copy.c, hold.h, sync/work_stream, tests/core/test_copy.py and cuda.h.\n"
        " * Not core/gone.c, gone.h, sync/gone; tests/core/gone.py. */\n"
    )
    assert lost(file) == {"core/gone.c", "gone.h", "sync/gone", "tests/core/gone.py"}


@pytest.mark.parametrize("path", C, ids=place)
def test_a_file_that_a_comment_names_exists(path: Path) -> None:
    assert lost(path) == set()


@pytest.mark.parametrize(
    "path", [path for path in ALL if path.suffix in (".py", ".rst", ".md", ".toml")], ids=place
)
def test_a_path_that_a_page_or_a_script_names_exists(path: Path) -> None:
    found = {name for name in WHOLE.findall(path.read_text()) if not exists(name)}
    assert found == set()
