"""Real dlpack.h files of other projects' releases, to compare our declarations with."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
from pathlib import Path

from project import debian_packages
from project.debian_packages import NotHere
from project.tree import REQUIRED, ROOT

#: DLPack release -> Debian suite whose libdlpack-dev has it.
SUITES = {"0.6": "bookworm", "1.0": "trixie"}

KEPT = ROOT / "build" / "dlpack-headers"


def release(header: Path) -> str:
    """The release that a header says it is of."""
    text = header.read_text()
    major = re.search(r"#define DLPACK_MAJOR_VERSION (\d+)", text)
    minor = re.search(r"#define DLPACK_MINOR_VERSION (\d+)", text)
    if major and minor:
        return f"{major[1]}.{minor[1]}"
    older = re.search(r"#define DLPACK_VERSION (\d+)", text)
    if older is None:
        raise NotHere(f"{header} does not say its version")
    return f"0.{int(older[1]) // 10}"


def newest() -> Path:
    """The header that PyPI's apache-tvm-ffi carries; the package is not imported."""
    given = os.environ.get("DLSHIM_DLPACK_H")
    if given:
        return Path(given)
    try:
        files = importlib.metadata.files("apache-tvm-ffi") or []
    except importlib.metadata.PackageNotFoundError:
        raise NotHere("apache-tvm-ffi, which carries dlpack.h, is not installed") from None
    for file in files:
        if file.name == "dlpack.h":
            return Path(str(file.locate()))
    raise NotHere("the installed apache-tvm-ffi carries no dlpack.h")


def debian(wanted: str) -> Path:
    """The header of Debian's libdlpack-dev, as installed, as kept, or as downloaded."""
    kept = KEPT / wanted / "dlpack.h"
    for header in (kept, Path("/usr/include/dlpack/dlpack.h")):
        if header.is_file() and release(header) == wanted:
            return header
    if not REQUIRED and os.environ.get("DLSHIM_FETCH") != "1":
        raise NotHere(f"no dlpack.h of DLPack {wanted} here (DLSHIM_FETCH=1 gets it from Debian)")
    with debian_packages.unpacked("libdlpack-dev", SUITES[wanted]) as folder:
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "usr/include/dlpack/dlpack.h", kept)
    if release(kept) != wanted:
        raise NotHere(f"Debian {SUITES[wanted]} has DLPack {release(kept)}, not {wanted}")
    return kept
