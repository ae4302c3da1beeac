"""Every code block of the manual runs, and what it shows is what Python answers.

Blocks that want larger libraries run in the sessions that have these (``manual`` in
tests/interop/environments.toml); what cannot be run says why not.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import textwrap

import pytest
from project import pages
from project.tree import ROOT, absent

import dlshim
from interop import environments

#: What the `test` extra brings.
SMALL = {"numpy", "ml_dtypes", "tvm_ffi"}
PARTS = [part for page in pages.pages() for part in pages.parts(page)]
#: The text for PyPI has no marks, which would stand in the wheel: it repeats a block of README.
UNMARKED = "docs/pypi.md"
RUN = [part for part in PARTS if part.is_run and part.page != UNMARKED]
ENVIRONMENTS = environments.load()
HERE = ENVIRONMENTS.get(os.environ.get("DLSHIM_INTEROP_ENV", ""))


def is_here(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("part", RUN, ids=lambda part: part.name)
def test_a_part_is_as_it_is_shown(part: pages.Part) -> None:
    missing = sorted(module for module in part.modules if not is_here(module))
    if HERE and part.modules <= SMALL:
        pytest.skip("`nox -s suite` runs it")
    if HERE and not part.modules <= {*HERE.manual}:
        pytest.skip(f"wants more than {HERE.name} has for the manual: {part.needs}")
    if missing and (HERE or part.modules <= SMALL):
        absent(f"{part.name} needs {missing}")
    elif missing:
        pytest.skip(f"needs {missing}, which other sessions have")
    if pages.COMPILER in part.needs and shutil.which(pages.COMPILER) is None:
        absent(f"{part.name} needs a compiler of C++")
    command = [sys.executable, str(pages.__file__), part.page, str(part.number)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


@pytest.mark.parametrize("part", RUN, ids=lambda part: part.name)
def test_a_part_runs_in_ci(part: pages.Part) -> None:
    needs = {*part.needs} - {pages.COMPILER}
    homes = [env for env in ENVIRONMENTS.values() if needs <= {*env.manual}]
    assert needs <= SMALL or any(env.in_ci for env in homes)


@pytest.mark.parametrize("page", sorted({part.page for part in PARTS if part.blocks} - {UNMARKED}))
def test_a_block_that_is_not_run_says_why(page: str) -> None:
    for part in PARTS:
        for block in part.blocks if part.page == page else ():
            where = f"{page}, line {block.line}"
            runs = block.kind in ("session", "python", "setup") or (
                block.kind == "shell" and block.text.startswith(pages.COMMAND)
            )
            assert runs or block.reason, f"{where}: nobody runs it, and no reason is given"
            if block.reason:
                assert len(block.reason.split()) >= 4, f"{where}: {block.reason!r} is no reason"
            for file in re.findall(r"\b(?:docs|tests|tools|benchmarks)/[\w./]*\w", block.reason):
                assert (ROOT / file).exists(), f"{where}: there is no {file}"


def test_the_text_for_pypi_shows_the_first_block_of_the_readme() -> None:
    first, pypi = (
        re.search(r"```python\n.*?```", (ROOT / name).read_text(), re.S)[0]  # type: ignore[index]
        for name in ("README.md", UNMARKED)
    )
    assert first == pypi


def test_what_a_part_may_need_is_installed_somewhere() -> None:
    for env in ENVIRONMENTS.values():
        assert not env.manual_pip or env.manual, env.name


def test_the_calls_of_the_table_of_options_can_be_typed() -> None:
    """Those of the host, and of any library."""
    np = pytest.importorskip("numpy", reason="NumPy is not installed")
    page = (ROOT / "docs" / "options.rst").read_text()
    table = page.partition("Which one do I need?")[2].partition("The blocks share")[0]
    calls = re.findall(r"``(upgrade\(.*?\))``", table)
    calls = [call for call in calls if "stream" not in call and "detach" not in call]
    assert len(calls) > 6
    for call in calls:
        made = eval(call, {"upgrade": dlshim.upgrade, "x": np.arange(4)})
        assert np.from_dlpack(made).nbytes == 32, call


# ---- the test itself -------------------------------------------------------------------------

PAGE = """\
Title
=====

::

    total = 1

Section
-------

.. needs: no_such_module

>>> 1 + 1
3

.. not run: it only stands here
   as an example

.. code-block:: c

   int x;

Other
-----

>>> total
1
"""


def test_parts_blocks_and_reasons_are_told_apart(
    tmp_path: pages.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    page = tmp_path / "page.rst"
    page.write_text(PAGE)
    whole, section = pages.parts(page)
    assert [block.kind for block in whole.blocks] == ["python", "session"]
    assert section.needs == ("no_such_module",) and section.title == "Section"
    assert [block.kind for block in section.blocks] == ["session", "c"]
    assert section.blocks[1].reason == "it only stands here as an example"
    assert pages.run(whole) == 0 and pages.run(section) == 1


def test_the_first_steps_are_among_them() -> None:
    assert "docs/first_steps.rst" in {part.page for part in RUN}


def test_the_fixture_against_leaks_sees_one_in_the_place_of_what_is_gone() -> None:
    """It compared ids, and what a test leaves may have the id of what was there before it."""
    text = (ROOT / "docs" / "leaks.rst").read_text(encoding="utf-8")
    (found,) = re.findall(r"^    def nothing_is_left\(\):\n(?:     .*\n)+", text, re.M)
    names = {"dlshim": dlshim, "gc": gc}
    exec(textwrap.dedent(found), names)
    with dlshim.track():
        kept = [dlshim.from_dlpack(bytearray(8)) for _ in range(20)]
        fixture = names["nothing_is_left"]()
        next(fixture)
        kept.clear()
        kept += [dlshim.from_dlpack(bytearray(8)) for _ in range(20)]
        with pytest.raises(AssertionError, match=r"Tensor of 8 bytes.*Tensor of 8 bytes") as said:
            next(fixture)
    assert str(said.value).count("Tensor of 8 bytes") == 20
