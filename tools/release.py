"""What .github/workflows/release.yml asks before it publishes anything.

    python tools/release.py check WHEEL ...
    python tools/release.py versions [TAG]

`check` reads finished wheels for Linux: the file inside says whether it is protected as setup.py
asks.  It needs pyelftools.  `versions` fails where two files of the repository give two versions.
With TAG it also fails where that is not the version with a v before it, where the first section of
CHANGELOG.md has not that version and a date, where a page says what is true before a release
only, or where nobody is told the repository's address: pyproject.toml has it under project.urls, as
Repository, and SECURITY.md the form for a private report there.
"""

from __future__ import annotations

import re
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# ---- wheels -----------------------------------------------------------------------------------


def protection(module: Path) -> dict[str, bool]:
    """How a compiled module is protected, by its headers and the functions that it calls."""
    from elftools.elf.elffile import ELFFile

    with module.open("rb") as file:
        read = ELFFile(file)
        segments = {segment["p_type"]: segment for segment in read.iter_segments()}
        tags = {tag.entry.d_tag: tag.entry.d_val for tag in segments["PT_DYNAMIC"].iter_tags()}
        calls = {symbol.name for symbol in read.get_section_by_name(".dynsym").iter_symbols()}
        now = tags.get("DT_FLAGS", 0) & 8 or tags.get("DT_FLAGS_1", 0) & 1 or "DT_BIND_NOW" in tags
        return {
            "RELRO": "PT_GNU_RELRO" in segments,
            "BIND_NOW": bool(now),
            "stack without code": not segments["PT_GNU_STACK"]["p_flags"] & 1,
            "code without relocations": "DT_TEXTREL" not in tags,
            "no run path": not tags.keys() & {"DT_RPATH", "DT_RUNPATH"},
            "stack protector": "__stack_chk_fail" in calls,
            "FORTIFY": any(name.endswith("_chk") for name in calls),
        }


def faults(wheel: Path, protected: bool = True) -> list[str]:
    """What a wheel lacks; `protected` says whether it must have a stack protector.  musl has no
    checks of copies and formats."""
    with zipfile.ZipFile(wheel) as file, tempfile.TemporaryDirectory() as folder:
        (name,) = (each for each in file.namelist() if re.match(r"dlshim/_core\..*so$", each))
        has = protection(Path(file.extract(name, folder)))
    uncalled = ["FORTIFY"] if "musllinux" in wheel.name else []
    uncalled += [] if protected else ["stack protector"]
    return [f"it lacks {what}" for what in has if not has[what] and what not in uncalled]


def check(names: list[str]) -> int:
    wrong = {name: faults(Path(name)) for name in names}
    for name, found in wrong.items():
        print(f"{Path(name).name}: {'; '.join(found) or 'good'}")
    return sum(map(len, wrong.values()))


# ---- versions ---------------------------------------------------------------------------------

#: Where a version stands, and after what.
VERSIONS = {
    "pyproject.toml": '^version = "(.+)"$',
    "kit/pyproject.toml": '^version = "(.+)"$',
    "shim/__init__.py": '^__version__ = "(.+)"$',
    "kit/dlshim_testing/__init__.py": '^__version__ = "(.+)"$',
    "shim/include/dlshim.h": '^#define DLSHIM_VERSION "(.+)"$',
    "shim/include/dlshim.hpp": r"^/\* dlshim\.hpp (.+):",
    "shim/include/dlshim.pc": "^Version: (.+)$",
    "shim/cmake/dlshim-config-version.cmake": r"^set\(PACKAGE_VERSION (.+)\)$",
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


#: What these pages say until the first release is on PyPI, as patterns.
BEFORE = {
    "README.md": "not on PyPI yet",
    "docs/install.rst": "not on PyPI yet|there has been none yet",
    "docs/c-interface.rst": "not on PyPI yet",
    "docs/testing.rst": "not on PyPI yet",
    "kit/README.md": "not on PyPI yet",
    "docs/results/index.rst": "there has been none yet",
    "SECURITY.md": "no public address yet",
}


def stale_texts(version: str, root: Path = ROOT) -> list[str]:
    """What of the pages would be wrong on the day of this release."""
    found = []
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    (first, *_) = re.findall("^## (.+)$", changes, re.M)
    if not re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", first):
        found.append(f"CHANGELOG.md begins with {first!r}, not with {version} (YEAR-MONTH-DAY)")
    for name, pattern in BEFORE.items():
        text = " ".join((root / name).read_text(encoding="utf-8").split())
        found += [f"{name} still says {words!r}" for words in re.findall(pattern, text)]
    return found + unknown_addresses(root)


def unknown_addresses(root: Path = ROOT) -> list[str]:
    """Where a reader of PyPI's pages, or of SECURITY.md, would not find the repository."""
    found, addresses = [], set()
    for name in ("pyproject.toml", "kit/pyproject.toml"):
        text = (root / name).read_text(encoding="utf-8")
        (_, _, urls) = text.partition("[project.urls]\n")
        if (line := re.match(r'(?:[^\[\n]*\n)*?Repository = "(https://.+?)/?"', urls)) is None:
            found.append(f"{name} has no Repository under [project.urls]")
        else:
            addresses.add(line[1])
    text = (root / "SECURITY.md").read_text(encoding="utf-8")
    forms = [f"{address}/security/advisories/new" for address in sorted(addresses)]
    return found + [f"SECURITY.md does not name {form}" for form in forms if form not in text]


def compare(tag: str = "") -> int:
    """How much of the repository contradicts itself or the tag."""
    stale = stale_texts(tag.removeprefix("v")) if tag else []
    for line in stale:
        print(line)
    return compare_versions(versions(), tag) + len(stale)


def main() -> int:
    task, *arguments = sys.argv[1:] or [""]
    if task == "check" and arguments:
        return 1 if check(arguments) else 0
    if task == "versions" and len(arguments) < 2:
        return 1 if compare(*arguments) else 0
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main())
