"""The example in Rust is one file: rustc alone compiles it, and it is tried as the others are."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from project.tree import ROOT, absent

EXAMPLE = ROOT / "examples" / "rust_module.rs"


def test_it_is_compiled_and_tried() -> None:
    """Threads, wrong dtypes and memory that is replaced are thrown at it by examples/check.py."""
    if not shutil.which("rustc"):
        absent("the example in Rust needs rustc (Debian: apt-get install rustc)")
    command = [sys.executable, str(ROOT / "examples" / "check.py"), EXAMPLE.name]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "built, tried with array" in done.stdout, done.stderr


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """The folder with the example, whose ramp() gives two rows."""
    if not shutil.which("rustc"):
        absent("the example in Rust needs rustc (Debian: apt-get install rustc)")
    source = tmp_path / EXAMPLE.name
    text = EXAMPLE.read_text(encoding="utf-8")
    assert "&[n], FLOAT64" in text
    source.write_text(text.replace("&[n], FLOAT64", "&[2, n / 2], FLOAT64"), encoding="utf-8")
    options = ("--edition=2021", "--crate-type=cdylib", "-o", "rust_module.abi3.so")
    subprocess.run(["rustc", *options, source.name], cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.parametrize(
    ("package", "said"),
    [
        ("__version__ = '0.0.9'", "or newer, and 0.0.9 is installed, <module 'dlshim' from "),
        ("_c_api_v1 = 1", "or newer, and something else has its name, <module 'dlshim' from "),
        ("import something_else", "ModuleNotFoundError: No module named 'something_else'"),
    ],
)
def test_another_dlshim_is_told_with_its_version(built: Path, package: str, said: str) -> None:
    """The error named no version; one of a module that dlshim itself needs stays as it is."""
    (built / "dlshim.py").write_text(package)
    done = subprocess.run(
        [sys.executable, "-c", "import rust_module"],
        env=os.environ | {"PYTHONPATH": str(built)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and said in done.stderr, done.stderr


def test_an_export_has_the_shape_that_was_given(built: Path) -> None:
    """It had one dimension; a shape of another number of elements is refused."""
    code = "import rust_module as m; print(m.ramp(6).shape); m.ramp(3)"
    done = subprocess.run([sys.executable, "-c", code], cwd=built, capture_output=True, text=True)
    assert done.stdout == "(2, 3)\n", done.stderr
    assert "ValueError: the vector has not as many elements as its shape" in done.stderr


def test_its_structs_have_the_members_of_the_header() -> None:
    """In the same order; the type of each is seen when the example runs."""
    header = (ROOT / "shim" / "include" / "dlshim.h").read_text()
    rust = EXAMPLE.read_text()
    for in_c, in_rust in (
        ("dlshim_dtype", "DType"),
        ("dlshim_array", "Array"),
        ("dlshim_stream", "Stream"),
        ("dlshim_request", "Request"),
        ("dlshim_view", "View"),
    ):
        (body,) = re.findall(r"typedef struct \{\n((?:    .*\n)+)\} %s;" % in_c, header)
        body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
        told = [
            name
            for line in body.split(";")
            for name in re.findall(r"(\w+)(?:\[\d\])?\s*(?:,|$)", line)
        ]
        (fields,) = re.findall(r"struct %s \{\n((?: +.*\n)+?) +\}" % in_rust, rust)
        assert re.findall(r"(\w+):", fields) == told, in_c
    (version,) = re.findall(r'define DLSHIM_VERSION "(.*)"', header)
    assert rust.count(version) == 7 and f"/// dlshim.h {version}." in rust
