"""What the manual says of options, attributes and libraries is whole, and its links have a form."""

from __future__ import annotations

import ast
import csv
import importlib.util
import inspect
import re
from pathlib import Path

import pytest
from project import pages
from project.tree import ROOT, read_toml

import dlshim
from dlshim.libraries import BY_KEY
from interop import report

DOCS = ROOT / "docs"
RESULTS = DOCS / "results"


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
    public -= {"shape", "ndim", "dtype"} if name == "Producer" else set()  # only refused by name
    public -= {*dir(tuple)} if issubclass(kind, tuple) else set()
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


def table_of_libraries() -> list[tuple[str, str]]:
    """(key, name in the interop suite), of the rows that dlshim has and those of the extension."""
    tree = ast.parse((DOCS / "_ext" / "library_pages.py").read_text(encoding="utf-8"))
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Library"
    ]
    assert calls
    keys = [key for key, library in BY_KEY.items() if library.title]
    keys += [ast.literal_eval(call.args[0]) for call in calls]
    return [(key, key.replace("_", "-")) for key in keys]


def result_rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((RESULTS / name).read_text(encoding="utf-8").splitlines()))


def test_every_row_of_the_interop_results_has_a_library() -> None:
    known = {who for _, who in table_of_libraries()}
    assert {row["who"] for row in result_rows("interop-refused.csv")} <= known | {"dlshim"}
    pairs = result_rows("interop-pairs.csv")
    assert {row[side] for row in pairs for side in ("producer", "consumer")} <= known


def test_an_adapter_is_of_the_library_of_its_name() -> None:
    known = {who for _, who in table_of_libraries()}
    files = (ROOT / "tests" / "interop" / "libraries").glob("*.py")
    texts = "".join(file.read_text(encoding="utf-8") for file in files)
    names = set(re.findall(r'^    name = "(.+)"$', texts, re.M))
    assert len(names) >= 50
    assert {report.library_of(name) for name in names - report.PLAIN} <= known


def test_a_new_run_replaces_the_rows_of_its_environment(tmp_path: Path) -> None:
    told = {name: [["x"] * len(columns)] for name, columns in report.TABLES.items()}
    for environment in ("b", "a", "b"):
        report.put(tmp_path, environment, told)
    for name, columns in report.TABLES.items():
        lines = (tmp_path / f"{name}.csv").read_text().splitlines()
        row = ",x" * len(columns)
        assert lines == [",".join(("environment", *columns)), f"a{row}", f"b{row}"]
        newest = (RESULTS / f"{name}.csv").read_text(encoding="utf-8").splitlines()
        assert newest[0] == lines[0]


def test_the_matrix_of_the_package_names_no_other_library() -> None:
    if importlib.util.find_spec("dlshim.matrix") is None:
        pytest.fail("the package has no matrix")
    from dlshim.matrix.consumers import CONSUMERS

    keys = {key for key, _ in table_of_libraries()}
    named = {consumer.library for consumer in CONSUMERS} - {"stdlib", "capsule"}
    assert named <= keys


# ---- links ------------------------------------------------------------------------------------

#: Hosts that the manual sends readers to.  Nobody asks them in CI: only the form is checked.
HOSTS = {
    "dmlc.github.io", "data-apis.org", "numpy.org", "docs.python.org", "github.com",
    "nvidia.github.io", "semver.org",
}  # fmt: skip


def figures_of(page: Path) -> list[tuple[str, float, str]]:
    """Of each row of times or instructions that a page shows: what it is, one figure, the file."""
    told: list[tuple[str, float, str]] = []
    for name in re.findall(
        r"^\.\. dlshim-rows:: docs/results/((?:times|instr)\S*)", page.read_text(), re.M
    ):
        lines = (RESULTS / name).read_text(encoding="utf-8").splitlines()
        for row in csv.DictReader(each for each in lines if not each.startswith("#")):
            what = row.get("exchange") or row.get("journey")
            if what and row.get("bare"):
                unit = "ns" if name.startswith("times") else "instructions"
                told += [
                    (f"{what}, {column}, {unit}", float(row[column]), name)
                    for column in ("bare", "dlshim")
                ]
    return told


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.rst")), ids=lambda page: page.stem)
def test_one_page_has_one_figure_of_one_thing(page: Path) -> None:
    """An exchange stood in two tables of times, with figures of two days.  Two counts of
    instructions, for tables with other columns, may differ by what two runs do."""
    figures: dict[str, tuple[float, str]] = {}
    for what, figure, file in figures_of(page):
        other, where = figures.setdefault(what, (figure, file))
        assert what.endswith("instructions") or where == file, f"{what}: in {where} and in {file}"
        assert abs(figure - other) <= 0.01 * other, (
            f"{what}: {other} in {where}, {figure} in {file}"
        )


def test_there_are_figures_to_compare() -> None:
    assert len({file for _, _, file in figures_of(DOCS / "performance.rst")}) >= 5


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


def trees(page: str) -> list[str]:
    """The pages that a page's lists of contents lead to."""
    text = (DOCS / f"{page}.rst").read_text(encoding="utf-8")
    found = re.findall(r"^\.\. toctree::\n((?:   .*\n|\n)+)", text, re.M)
    return [line for tree in found for line in re.findall(r"^   ([\w/-]+)$", tree, re.M)]


def test_every_page_is_in_the_navigation_once() -> None:
    """In one of two trees: what users need, and behind one entry the rest."""
    names = {p.stem for p in [*DOCS.glob("*.rst"), *DOCS.glob("*.md")]} - {"index", "pypi"}
    users, rest = trees("index"), trees("contributors")
    assert sorted([*users, *rest]) == sorted({*names, "results/index"})
    assert len(users) <= 14 and users[-1] == "contributors"
    # Each of the two pages has a word on every page that it lists.
    for page, listed in (("index", users), ("contributors", rest)):
        asked = re.findall(r":doc:`([\w/-]+)`", (DOCS / f"{page}.rst").read_text(encoding="utf-8"))
        assert {*listed} <= {*asked}, page


def test_a_list_of_contents_is_said_to_be_wanted() -> None:
    """Furo draws it under an error of its own else, in red, and Sphinx does not warn."""
    wanted = r".. contents:: On this page\n   :class: this-will-duplicate-information-"
    pages = {p.name: p.read_text(encoding="utf-8") for p in DOCS.glob("*.rst")}
    lists = {name: text.count(".. contents::") for name, text in pages.items()}
    assert any(lists.values())
    assert lists == {name: len(re.findall(wanted, text)) for name, text in pages.items()}


def test_extras_named_in_the_manual_exist() -> None:
    extras = read_toml(ROOT / "pyproject.toml")["project"]["optional-dependencies"]
    text = "".join(page.read_text(encoding="utf-8") for page in pages.pages())
    assert set(re.findall(r"(?:dlshim|'\.)\[(\w+)\]", text)) <= extras.keys()
