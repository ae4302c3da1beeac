"""Where things are: the source tree and the installed package."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest brings it

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"

#: In CI nothing that is required may be missing.
REQUIRED = os.environ.get("DLSHIM_CI") == "1"

#: The layers, top first: a file includes only from its own folder and those before it.
LAYERS = (
    "abi", "core", "gpu", "python", "types", "exchange", "sync", "request", "protocols", "acquire",
    "export", "public", "authors", "ctable", "module",
)  # fmt: skip


def read_toml(file: Path) -> dict[str, Any]:
    """The contents of a TOML file."""
    return tomllib.loads(file.read_text())


def absent(what: str) -> None:
    """Skip with the reason, or fail where everything has to be there."""
    if REQUIRED:
        pytest.fail(f"required here: {what}")
    pytest.skip(what)


def compiler() -> str:
    """The C compiler that Python's build or the machine names."""
    configured = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    found = next((cc for cc in (configured, "cc", "gcc", "clang") if shutil.which(cc)), None)
    if found is None:
        absent("no C compiler")
    assert found
    return found


def tool(name: str) -> str:
    """A command that must be there."""
    found = shutil.which(name)
    if found is None:
        absent(f"the command {name} is not here")
    assert found
    return found


def installed_core() -> Path:
    """The extension module that `import dlshim` loads."""
    spec = importlib.util.find_spec("dlshim._core")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin)


def without_comments(text: str) -> str:
    """C text without its comments; string literals stay."""
    pattern = r'"(?:\\.|[^"\\])*"|/\*.*?\*/|//[^\n]*'
    return re.sub(
        pattern, lambda found: found[0] if found[0].startswith('"') else " ", text, flags=re.S
    )


def driver_calls(vendor: str, need: str = "MUST|MAY") -> list[str]:
    """The functions of a driver that src/abi names; need="MUST": those that must be there."""
    prefix = {"cuda": "cu", "hip": "hip"}[vendor]
    text = without_comments((SRC / "abi" / "gpu_calls.h").read_text()).replace("\\\n", "\n")
    names = []
    for head in re.findall(rf"X\((?:{need}),([^()]*)\(", text):
        names += re.findall(rf"\b{prefix}[A-Z]\w+\b(?<!_t)", head)
    assert names
    return names


def list_entries(name: str) -> dict[str, int]:
    """The (header's name, value) pairs of an X-list of src/abi/dlpack_abi.h."""
    text = without_comments((SRC / "abi" / "dlpack_abi.h").read_text()).replace("\\\n", "\n")
    found = re.search(rf"#define {name}\(X\)((?:\s*X\(\w+, \d+\))*)", text)
    assert found, f"no list {name} in dlpack_abi.h"
    entries = re.findall(r"X\((\w+), (\d+)\)", found[1])
    assert entries
    return {entry: int(value) for entry, value in entries}
