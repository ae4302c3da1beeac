"""The example in Rust is one file: rustc alone compiles it, and it is tried as the others are."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

from project.tree import ROOT, absent

EXAMPLE = ROOT / "examples" / "rust_module.rs"


def test_it_is_compiled_and_tried() -> None:
    """Threads, wrong dtypes and memory that is replaced are thrown at it by examples/check.py."""
    if not shutil.which("rustc"):
        absent("the example in Rust needs rustc (Debian: apt-get install rustc)")
    command = [sys.executable, str(ROOT / "examples" / "check.py"), EXAMPLE.name]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "built, tried with array" in done.stdout, done.stderr


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
        told = [name for line in body.split(";") for name in re.findall(r"(\w+)\s*(?:,|$)", line)]
        (fields,) = re.findall(r"struct %s \{\n((?: +.*\n)+?) +\}" % in_rust, rust)
        assert re.findall(r"(\w+):", fields) == told, in_c
    (version,) = re.findall(r'define DLSHIM_VERSION "(.*)"', header)
    assert rust.count(version) == 3 and f"/// dlshim.h {version}." in rust
