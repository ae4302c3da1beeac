"""What the manual says of options, attributes and libraries is whole, and its links have a form."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from pathlib import Path

import pytest
from project import pages
from project.tree import ROOT, read_toml

import dlshim

DOCS = ROOT / "docs"
RESULTS = sorted((DOCS / "results").glob("interop-*.md"))


def sections(page: str) -> dict[str, str]:
    """Each section's title and text; titles in code are without their marks."""
    text = (DOCS / page).read_text(encoding="utf-8")
    parts = re.split(r"^(.+)\n[-~=]{3,}\n", text, flags=re.M)[1:]
    return {title.strip("`"): body for title, body in zip(parts[::2], parts[1::2], strict=True)}


# ---- options and attributes -------------------------------------------------------------------


def test_every_option_has_a_section_with_a_block_that_runs() -> None:
    parameters = inspect.signature(dlshim.upgrade).parameters
    options = {name for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY}
    told = sections("options.rst")
    assert options <= told.keys()
    for name in options:
        words, _, example = told[name].partition(">>>")
        assert len(words.split()) >= 15, f"{name}: what does it do, and when is it used?"
        assert f"{name}=" in example, f"{name}: no block uses it"


def members(name: str) -> dict[str, str]:
    """The entries below a class in the reference, with their text."""
    text = (DOCS / "reference.rst").read_text(encoding="utf-8")
    body = re.search(rf"^\.\. class:: dlshim\.{name}\n((?:\n|   .*\n)*)", text, re.M)
    assert body, f"the reference has no class {name}"
    parts = re.split(r"^   \.\. (?:attribute|method):: (\w+).*\n", body[1], flags=re.M)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("name", ["Producer", "Tensor", "Report", "Verdict", "Outcome"])
def test_every_public_attribute_has_a_sentence_and_an_example(name: str) -> None:
    told, kind = members(name), getattr(dlshim, name)
    public = {each for each in dir(kind) if not each.startswith("_")}
    public |= set(getattr(kind, "__dataclass_fields__", ()))
    assert public <= told.keys(), f"not told: {public - told.keys()}"
    for attribute in public:
        sentence, prompt, _ = told[attribute].partition(">>>")
        assert sentence.strip().endswith((".", ":")), f"{attribute}: no sentence"
        assert prompt, f"{attribute}: no example"


def test_every_public_name_is_in_the_reference() -> None:
    text = (DOCS / "reference.rst").read_text(encoding="utf-8")
    for name in dlshim.__all__:
        assert re.search(rf"^\.\. \w+:: dlshim\.{name}\b", text, re.M), name


# ---- libraries --------------------------------------------------------------------------------


def table_of_libraries() -> list[tuple[str, str, set[str]]]:
    """(key, what result files call it, beginnings of its adapters), read from the extension."""
    tree = ast.parse((DOCS / "_ext" / "library_pages.py").read_text(encoding="utf-8"))
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "_library"
    ]
    rows = []
    for call in calls:
        _, key, *_ = (ast.literal_eval(each) for each in call.args)
        named = {each.arg: ast.literal_eval(each.value) for each in call.keywords}
        who = named.get("who", key)
        rows.append((key, who, set(named.get("adapters", who).split("|"))))
    assert rows
    return rows


#: What is exchanged without a library.
PLAIN = {
    "__array_interface__ only", "__array_struct__ only", "array.array", "bytearray", "bytes",
    "ctypes array", "memoryview", "mmap",
}  # fmt: skip


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_every_line_of_a_result_file_has_a_library(file: Path) -> None:
    rows = table_of_libraries()
    text = file.read_text(encoding="utf-8")
    refused = text.partition("## What is refused, and why")[2]
    known = {who for _, who, _ in rows} | {"dlshim"}
    assert set(re.findall(r"^\| \d+ \| (\S+) \|", refused, re.M)) <= known
    beginnings = {each for _, _, adapters in rows for each in adapters}
    for name in set(re.findall(r"^### (.+)$", text, re.M)) - PLAIN:
        assert any(re.match(rf"{re.escape(each)}(?![\w-])", name) for each in beginnings), name


def test_the_matrix_of_the_package_names_no_other_library() -> None:
    if importlib.util.find_spec("dlshim.matrix") is None:
        pytest.fail("the package has no matrix")
    from dlshim.matrix.consumers import CONSUMERS

    keys = {key for key, _, _ in table_of_libraries()}
    named = {consumer.library for consumer in CONSUMERS} - {"stdlib", "capsule"}
    assert named <= keys


# ---- links ------------------------------------------------------------------------------------

#: Hosts that the manual sends readers to.  Nobody asks them in CI: only the form is checked.
HOSTS = {
    "dmlc.github.io", "data-apis.org", "numpy.org", "docs.python.org", "github.com",
    "nvidia.github.io", "semver.org",
}  # fmt: skip


def test_links_have_the_form_of_links() -> None:
    found = 0
    for page in [*pages.pages(), ROOT / "CHANGELOG.md"]:
        for url in re.findall(r"https?://[^\s<>`\"')]+", page.read_text(encoding="utf-8")):
            where = f"{page.name}: {url}"
            match = re.fullmatch(r"https://([\w.-]+)(/[\w./#~%?=&-]*)?", url)
            assert match, f"{where} is no plain https link"
            assert match[1] in HOSTS, f"{where}: a new host? Look whether the page exists"
            assert url[-1] not in ".,;:", where
            found += 1
    assert found >= 8


def test_the_standards_are_linked() -> None:
    text = (DOCS / "index.rst").read_text(encoding="utf-8")
    for host in ("dmlc.github.io/dlpack", "data-apis.org/array-api", "numpy.org"):
        assert f"https://{host}" in text


def test_the_manual_is_built_with_pinned_versions() -> None:
    lines = (DOCS / "requirements.txt").read_text().splitlines()
    named = [line for line in lines if line and not line.startswith("#")]
    assert len(named) >= 3 and all(re.fullmatch(r"[\w-]+==[\d.]+", line) for line in named)


# ---- finding the way --------------------------------------------------------------------------


def test_every_page_is_in_the_navigation_once() -> None:
    text = (DOCS / "index.rst").read_text(encoding="utf-8")
    trees = re.findall(r"^\.\. toctree::\n((?:   .*\n|\n)+)", text, re.M)
    listed = [line for tree in trees for line in re.findall(r"^   ([\w/-]+)$", tree, re.M)]
    names = {p.stem for p in [*DOCS.glob("*.rst"), *DOCS.glob("*.md")]} - {"index", "pypi"}
    assert sorted(listed) == sorted({*names, "results/index"})
    # The table of questions leads to all but these.
    asked = set(re.findall(r":doc:`([\w/-]+)`", text))
    assert names - asked <= {"replays", "upstream", "changelog", "architecture", "conventions"}


def test_extras_named_in_the_manual_exist() -> None:
    extras = read_toml(ROOT / "pyproject.toml")["project"]["optional-dependencies"]
    text = "".join(page.read_text(encoding="utf-8") for page in pages.pages())
    assert set(re.findall(r"(?:dlshim|'\.)\[(\w+)\]", text)) <= extras.keys()
