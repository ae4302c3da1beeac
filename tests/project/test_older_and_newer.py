"""An extension and the dlshim that it finds may be of different releases.

The newer release is made here: dlshim.h and c_api.c of the tree, in which every struct that may
grow has grown, and the table has one function more.
"""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import pytest
from project.tree import ROOT, absent, compiler, installed_core

import dlshim
from doubles import child

INCLUDE = Path(dlshim.get_include())
HEADER = (
    ("#define DLSHIM_VERSION \"{0}\"", '#define DLSHIM_VERSION "0.1.9"'),
    (
        "} dlshim_table;\n",
        "    int (*answer)(int32_t);\n} dlshim_table;\n"
        "#define DLSHIM_0_1_9_ offsetof(dlshim_table, answer) + sizeof(void (*)(void)), "
        '"0.1.9"\n',
    ),
    ("} dlshim_request;", "    int64_t later;\n} dlshim_request;"),
    ("{0, 0}, 0, 0, 0, 0, 0}", "{0, 0}, 0, 0, 0, 0, 0, 0}"),
    ("    uint64_t room[3]; ", "    int64_t later; uint64_t room[2]; "),
    ("    DLSHIM_STREAM_WAIT = 3 ", "    DLSHIM_STREAM_LATER = 4, DLSHIM_STREAM_WAIT = 3 "),
    (
        "/* The memory of a tensor that dlshim_import gave,",
        "static inline int\ndlshim_answer(int32_t n)\n{\n"
        "    const dlshim_table *table = dlshim_find_(DLSHIM_0_1_9_);\n"
        "    return table ? table->answer(n) : -1;\n}\n"
        "/* The memory of a tensor that dlshim_import gave,",
    ),
)  # fmt: skip
RUNTIME = (
    (
        "static const dlshim_table table = {",
        "static int\nanswer(int32_t n)\n{\n    return n + 40;\n}\n"
        "static const dlshim_table table = {\n    .answer = answer,",
    ),
    (
        "    CHECK(dlshim_request, r, detach,",
        "    CHECK(dlshim_request, r, later, r->later == 0 || r->later == 5)\n"
        "    CHECK(dlshim_request, r, detach,",
    ),
    ("<= DLSHIM_STREAM_WAIT)", "<= DLSHIM_STREAM_LATER)"),
    ("    view->flags = 0;\n", "    view->flags = 0;\n    view->later = 11 + request->later;\n"),
)  # fmt: skip


def changed(text: str, changes: Sequence[tuple[str, str]]) -> str:
    for old, new in changes:
        old = old.replace("{0}", dlshim.__version__)
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def compiled(*command: str) -> None:
    """Without asserts and optimisation: a whole dlshim takes some seconds."""
    flags = ["-std=c11", "-O0", "-DNDEBUG", "-Wall", "-Wextra", "-Wno-unused", "-shared", "-fPIC"]
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        flags.append("-DPy_LIMITED_API=0x030a0000")
    line = [compiler(), *flags, f"-I{sysconfig.get_path('include')}", *command]
    done = subprocess.run(line, capture_output=True, text=True)
    if "Python.h: No such file" in done.stderr:
        absent("Python.h is not here")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its headers in include/."""
    folder = tmp_path_factory.mktemp("newer")
    shutil.copytree(INCLUDE, folder / "include")
    header = folder / "include" / "dlshim.h"
    header.write_text(changed(header.read_text(), HEADER))
    return folder


@pytest.fixture(scope="module")
def newer_dlshim(newer: Path) -> Path:
    """The package itself in site/."""
    shutil.copytree(ROOT / "src", newer / "src")
    api = newer / "src" / "authors" / "c_api.c"
    api.write_text(changed(api.read_text(), RUNTIME))
    package = newer / "site" / "dlshim"
    ignore = shutil.ignore_patterns("_core*", "__pycache__")
    shutil.copytree(INCLUDE.parent, package, ignore=ignore)
    free = ["-DDLS_FREE_THREADED=1"] if sysconfig.get_config_var("Py_GIL_DISABLED") else []
    places = [f"-I{newer / 'src'}", f"-I{newer / 'include'}", *free]
    sources = [str(path) for path in sorted((newer / "src").glob("*/*.c"))]
    compiled(*places, *sources, "-o", str(package / installed_core().name))
    return newer / "site"


def result(folder: Path, include: Path, *path: Path) -> list[str]:
    """What the program prints with an extension of that header, beside the dlshim of that path."""
    source = ROOT / "tests" / "programs" / "extension.c"
    compiled(f"-I{include}", str(source), "-o", str(folder / "extension.so"))
    paths = (*map(str, path), str(folder))
    return child.program("extension_of_other_release", paths=paths, silent=True).splitlines()


VALUES = "[0.0, 0.0, 0.0]"
SAME = ["(3.0, 3.0, 0)", "(3.0, 3.0, 0)", VALUES]


def test_an_extension_of_a_newer_header_asks_for_what_it_uses(newer: Path, tmp_path: Path) -> None:
    """It asked for the release of its build, though it used nothing new."""
    said = result(tmp_path, newer / "include")
    assert said[:3] == SAME
    version = dlshim.__version__
    assert said[3:5] == [
        f"RuntimeError: the request is of a newer dlshim.h than that of dlshim {version}, which is "
        "installed",
        "  pip install --upgrade dlshim",
    ]
    assert said[5] == "ValueError: dlshim_request.stream.kind may not be 4"
    assert said[6].startswith(
        "ImportError: this module needs the Python package dlshim, 0.1.9 or newer, and "
        f"{version} is installed, <module 'dlshim' from "
    )
    assert said[7:] == ['  pip install --upgrade "dlshim>=0.1.9"']


def test_an_extension_of_an_older_header_works(newer_dlshim: Path, tmp_path: Path) -> None:
    """The members that it does not have are zero, and nobody writes behind its structs."""
    said = result(tmp_path, INCLUDE, newer_dlshim)
    assert said[:3] == SAME
    assert said[3:] == ["(3.0, 3.0, 5)", "(3.0, 3.0, 0)", "none"]


def test_the_newer_ones_fit_each_other(newer: Path, newer_dlshim: Path, tmp_path: Path) -> None:
    """Else the other two tests would prove nothing."""
    said = result(tmp_path, newer / "include", newer_dlshim)
    assert said == ["(3.0, 3.0, 11)", "(3.0, 3.0, 11)", VALUES, "(3.0, 3.0, 16)",
                    "(3.0, 3.0, 11)", "42"]  # fmt: skip
