"""A release and the workflows that make it, as far as they can be told without a public forge.

`nox -s release` has the linters read them.
"""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path

import pytest
from project.tree import ROOT, installed_core, read_toml

# Only for these imports: tools/fuzz.py has the name of the folder that tests/fuzzing imports.
sys.path.insert(0, str(ROOT / "tools"))
try:
    import release
finally:
    sys.path.remove(str(ROOT / "tools"))

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_what_others_wrote_is_pinned_to_the_commit_of_a_release(file) -> None:
    text = file.read_text()
    uses = re.findall(r"^ *- uses: (.+)", text, re.M)
    assert uses
    pin = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [each for each in uses if not pin.fullmatch(each)] == []
    assert re.search(r"^permissions: \{\}$", text, re.M), "a job asks for what it needs"
    assert text.count("actions/checkout@") == text.count("persist-credentials: false")


def test_the_release_uses_the_tools_that_the_session_checks() -> None:
    noxfile = (ROOT / "noxfile.py").read_text()
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    pinned = {
        *re.findall(r"cibuildwheel==[\d.]+|build==[\d.]+|cyclonedx-bom==[\d.]+", workflow),
        *read_toml(ROOT / "pyproject.toml")["tool"]["cibuildwheel"]["audit-requires"],
    }
    assert len(pinned) == 5
    assert [each for each in pinned if f'"{each}"' not in noxfile] == []


def test_every_interpreter_that_is_claimed_is_tested_in_a_release() -> None:
    project = read_toml(ROOT / "pyproject.toml")
    claimed = {
        found[1].replace(".", "")
        for line in project["project"]["classifiers"]
        if (found := re.search(r":: Python :: (3\.\d+)$", line))
    }
    built = {
        found[1]
        for row in project["tool"]["cibuildwheel"]["build"]
        if (found := re.match(r"cp(\d+)-", row))
    }
    assert claimed == built


def test_no_tool_of_the_tests_is_compiled_in_a_release() -> None:
    """The newest hypothesis has no wheel for CPython 3.14 without a GIL on Windows for ARM, and
    pip would compile it from Rust."""
    rows = read_toml(ROOT / "pyproject.toml")["tool"]["cibuildwheel"]
    assert rows["test-environment"] == {"PIP_ONLY_BINARY": ":all:"}
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    installs = [line for line in workflow.splitlines() if "hypothesis" in line and "run:" in line]
    assert installs and all("--prefer-binary" in line for line in installs)


# ---- versions -------------------------------------------------------------------------------


def test_the_version_is_the_same_everywhere() -> None:
    told = release.versions()
    assert {"pyproject.toml", "kit/pyproject.toml", "shim/include/dlshim.h"} <= {*told}
    assert release.compare_versions(told) == 0


def test_a_tag_of_another_version_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    told = {"pyproject.toml": "1.2.3", "kit/pyproject.toml": "1.2.3"}
    assert release.compare_versions(told, "v1.2.3") == 0
    assert release.compare_versions(told, "v1.2.4") == 2
    assert release.compare_versions(told, "1.2.3") == 1
    assert release.compare_versions(told | {"kit/pyproject.toml": "1.2.2"}, "v1.2.3") == 1
    assert "kit/pyproject.toml is of 1.2.2, not of 1.2.3" in capsys.readouterr().out


def test_nothing_is_made_before_the_versions_are_compared() -> None:
    """And both distributions are built, attested and published."""
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    jobs = dict(
        re.findall(r"^  ([\w-]+):\n((?:    .*\n|\n)+)", workflow.partition("jobs:\n")[2], re.M)
    )
    assert "tools/release.py versions" in jobs["version"]
    for name in ("wheels", "source"):
        assert "needs: [version]" in jobs[name]
    assert re.search(r"build --outdir (\S+) kit\n(.*\n)+ +path: \1/\*\n", jobs["source"])
    environments = {
        name: re.findall(r"environment: (\S+)", job)
        for name, job in jobs.items()
        if "pypi-publish@" in job
    }
    assert environments == {"publish": ["pypi"], "publish-kit": ["pypi-testing"]}


#: Where the repository would be.
ADDRESS = """
[project.urls]
Changelog = "https://forge.example/dlshim/changes"
Repository = "https://forge.example/dlshim"
"""


def test_a_tag_is_refused_while_a_page_is_of_the_day_before(tmp_path: Path) -> None:
    """The pages of today say that nothing is on PyPI; those of a release may not."""
    names = ["CHANGELOG.md", *release.BEFORE]
    projects = ["pyproject.toml", "kit/pyproject.toml"]
    for name in [*names, *projects]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    told = release.stale_texts("0.1.0", tmp_path)
    changes = (ROOT / "CHANGELOG.md").read_text()
    if "(unreleased)" in changes:
        assert {line.split()[0] for line in told} == {*names, *projects}
    for name in names:
        text = (tmp_path / name).read_text().replace("(unreleased)", "(2026-12-01)")
        text = text.replace("not on PyPI yet", "on PyPI").replace("there has been none yet", "")
        (tmp_path / name).write_text(text.replace("no public address yet", "an address"))
    for name in projects:
        text = (tmp_path / name).read_text() + ADDRESS
        (tmp_path / name).write_text(text)
    (form,) = release.stale_texts("0.1.0", tmp_path)
    assert form == "SECURITY.md does not name https://forge.example/dlshim/security/advisories/new"
    with (tmp_path / "SECURITY.md").open("a") as file:
        file.write(form.split()[-1])
    assert release.stale_texts("0.1.0", tmp_path) == []
    (wrong,) = release.stale_texts("0.2.0", tmp_path)
    assert "CHANGELOG.md begins with '0.1.0 (2026-12-01)', not with 0.2.0" in wrong


# ---- wheels ---------------------------------------------------------------------------------


def test_every_wheel_for_linux_is_read_before_it_is_published() -> None:
    rows = read_toml(ROOT / "pyproject.toml")["tool"]["cibuildwheel"]
    commands = rows["linux"]["audit-command"]
    assert "python {project}/tools/release.py check {wheel}" in commands
    assert rows["audit-command"] in commands


@pytest.mark.skipif(sys.platform != "linux", reason="reads ELF")
def test_the_installed_file_is_found_good_as_a_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that lacks a protection is not."""
    pytest.importorskip("elftools", reason="`nox -s audit` has it")
    wheel = tmp_path / "dlshim-0.1.0-cp310-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as file:
        file.write(installed_core(), f"dlshim/{installed_core().name}")
    assert release.faults(wheel) == []
    has = release.protection(installed_core())
    assert len(has) == 7
    for lost in has:
        without = {**has, lost: False}
        monkeypatch.setattr(release, "protection", lambda _, without=without: without)
        assert release.faults(wheel) == [f"it lacks {lost}"]


@pytest.mark.parametrize(
    ("tag", "protected", "told"),
    [
        ("manylinux_2_17_i686", False, ["it lacks FORTIFY"]),
        ("musllinux_1_2_aarch64", True, ["it lacks stack protector"]),
    ],
)
def test_no_wheel_must_have_what_its_system_lacks(
    tag: str, protected: bool, told: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / f"dlshim-0.1.0-cp310-abi3-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("dlshim/_core.abi3.so", b"")
    lacks = {"RELRO": True, "FORTIFY": False, "stack protector": False}
    monkeypatch.setattr(release, "protection", lambda _: lacks)
    assert release.faults(wheel, protected) == told
