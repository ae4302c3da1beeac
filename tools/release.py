"""What .github/workflows/release.yml asks before it publishes anything.

    python tools/release.py check WHEEL ...
    python tools/release.py versions [TAG]

`check` reads finished wheels of any system: what the file inside says of its own protection.  It
needs pyelftools, macholib and pefile.  `versions` fails where two files of the repository give two
versions, or where TAG is not that version with a v before it.
"""

from __future__ import annotations

import re
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import binaries

ROOT = Path(__file__).resolve().parent.parent

# ---- wheels -----------------------------------------------------------------------------------


def system_of(wheel: Path) -> str:
    """The system in a wheel's tag."""
    words = {"linux": "linux", "macosx": "macos", "win": "windows"}
    platform = wheel.stem.rpartition("-")[2]
    found = re.match(r"(?:many|musl)?(linux|macosx|win)", platform)
    if not found:
        sys.exit(f"{wheel.name}: it is for no system that is known here")
    return words[found[1]]


def wrong_with(wheel: Path) -> list[str]:
    """What is not as it should be.  musl has no checks of copies and formats, and Microsoft's files
    do not say whether they have those, or a stack protector."""
    system = system_of(wheel)
    says = look_into(wheel, system)
    wrong = binaries.faults(says, system, protected=None if system == "windows" else True)
    if system == "linux" and not says["FORTIFY"] and "musllinux" not in wheel.name:
        wrong.append("FORTIFY is False")
    return wrong


def look_into(wheel: Path, system: str) -> dict[str, Any]:
    """What the one compiled module says."""
    with zipfile.ZipFile(wheel) as file, tempfile.TemporaryDirectory() as folder:
        (name,) = (each for each in file.namelist() if re.match(r"dlshim/_core\..*(so|pyd)$", each))
        return binaries.look_into(Path(file.extract(name, folder)), system).says


def check(names: list[str]) -> int:
    faults = 0
    for wheel in map(Path, names):
        wrong = wrong_with(wheel)
        print(f"{wheel.name}: {wheel.stat().st_size} bytes; {'; '.join(wrong) or 'good'}")
        faults += len(wrong)
    return faults


# ---- versions ---------------------------------------------------------------------------------

#: Where a version stands, and after what.
VERSIONS = {
    "pyproject.toml": '^version = "(.+)"$',
    "kit/pyproject.toml": '^version = "(.+)"$',
    "shim/__init__.py": '^__version__ = "(.+)"$',
    "kit/dlshim_testing/__init__.py": '^__version__ = "(.+)"$',
    "shim/include/dlshim.h": '^#define DLSHIM_VERSION "(.+)"$',
    "shim/include/dlshim.pc": "^Version: (.+)$",
    "shim/include/dlshim-config-version.cmake": r"^set\(PACKAGE_VERSION (.+)\)$",
    "CITATION.cff": "^version: (.+)$",
}


def versions(root: Path = ROOT) -> dict[str, str]:
    """What each file says."""
    found = {}
    for name, pattern in VERSIONS.items():
        (found[name],) = re.findall(pattern, (root / name).read_text(encoding="utf-8"), re.M)
    return found


def compare_versions(told: dict[str, str], tag: str = "") -> int:
    """How many are other than the tag, or, without one, than that of pyproject.toml."""
    wanted = tag.removeprefix("v") if tag else told["pyproject.toml"]
    others = {name: version for name, version in told.items() if version != wanted}
    for name, version in others.items():
        print(f"{name} is of {version}, not of {wanted}")
    if tag and not tag.startswith("v"):
        print(f"{tag} is no tag of a release: v{told['pyproject.toml']} is")
        return len(others) + 1
    return len(others)


def main() -> int:
    task, *arguments = sys.argv[1:] or [""]
    if task == "check" and arguments:
        return 1 if check(arguments) else 0
    if task == "versions" and len(arguments) < 2:
        return 1 if compare_versions(versions(), *arguments) else 0
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main())
