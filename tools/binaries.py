"""What the headers of a compiled module say: of Linux (ELF), Windows (PE) or macOS (Mach-O).

tools/wheels.py and tools/release.py use it.  Each reader is a package that abi3audit or auditwheel
need anyway (pyelftools, pefile), but for macholib.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Binary(NamedTuple):
    """`says` is what platforms.json keeps; `foreign` are the functions of others that it calls, but
    for Python's, and `python` those."""

    says: dict[str, Any]
    python: list[str]
    foreign: list[str]


#: What each file must say, by the system.
DEMANDED = {
    "linux": {
        "RELRO": True,
        "BIND_NOW": True,
        "stack not executable": True,
        "text relocations": False,
        "run path": False,
    },
    "windows": {
        "address at random": True,
        "64 bits of it": True,
        "data not executable": True,
        "exports": ["PyInit__core"],
    },
    "macos": {
        "names of two levels": True,
        "calls have their pointers": True,
        "run path": False,
        "exports": ["PyInit__core"],
    },
}
#: The libraries that each may ask for, as a regular expression.  Python for Windows brings the one
#: of Microsoft's compiler.
NEEDED = {
    "linux": r"lib(c|dl|pthread)\.so(\.\d)?|libc\.musl-\w+\.so\.1"
    r"|ld-linux.*\.so\.\d|ld64?\.so\.\d",
    "windows": r"python3(\d+t)?\.dll|(KERNEL32|VCRUNTIME140|api-ms-win-crt-\w+-l1-1-0)\.dll",
    "macos": r"/usr/lib/libSystem\.B\.dylib",
}


def look_into(file: Path, system: str) -> Binary:
    readers = {"linux": read_elf, "windows": read_pe, "macos": read_mach_o}
    return readers[system](file)


def faults(says: dict[str, Any], system: str, protected: bool | None) -> list[str]:
    """What is not as demanded.  `protected`: whether a stack protector must be there or must not;
    None: either is good, or the file does not say."""
    demanded = dict(DEMANDED[system])
    if protected is not None:
        demanded["stack protector"] = protected
    wrong = [f"{what} is {says[what]}" for what, good in demanded.items() if says[what] != good]
    needed = re.compile(NEEDED[system])
    return wrong + [f"it needs {each}" for each in says["needs"] if not needed.fullmatch(each)]


def by_owner(names: Iterator[str]) -> tuple[list[str], list[str]]:
    known = sorted(set(names))
    python = [name for name in known if name.startswith(("Py", "_Py"))]
    return python, [name for name in known if name not in python]


def read_elf(path: Path) -> Binary:
    from elftools.elf.elffile import ELFFile

    with path.open("rb") as file:
        read = ELFFile(file)
        segments = {segment["p_type"]: segment for segment in read.iter_segments()}
        entries = list(segments["PT_DYNAMIC"].iter_tags())
        flags = {tag.entry.d_tag: tag.entry.d_val for tag in entries}
        now = flags.get("DT_FLAGS", 0) & 8 or flags.get("DT_FLAGS_1", 0) & 1
        symbols = read.get_section_by_name(".dynsym").iter_symbols()
        asked = {s.name for s in symbols if s["st_shndx"] == "SHN_UNDEF" and s.name}
        says = {
            "RELRO": "PT_GNU_RELRO" in segments,
            "BIND_NOW": bool(now) or "DT_BIND_NOW" in flags,
            "stack not executable": not segments["PT_GNU_STACK"]["p_flags"] & 1,
            "stack protector": "__stack_chk_fail" in asked,
            "FORTIFY": any(name.endswith("_chk") for name in asked),
            "text relocations": "DT_TEXTREL" in flags,
            "run path": "DT_RPATH" in flags or "DT_RUNPATH" in flags,
            "needs": sorted(tag.needed for tag in entries if tag.entry.d_tag == "DT_NEEDED"),
        }
        return Binary(says, *by_owner(iter(asked)))


def read_pe(path: Path) -> Binary:
    import pefile

    with pefile.PE(str(path)) as read:
        flags = read.OPTIONAL_HEADER.DllCharacteristics
        imported = {entry.dll.decode(): entry.imports for entry in read.DIRECTORY_ENTRY_IMPORT}
        names = [each.name.decode() for all_ in imported.values() for each in all_]
        says = {
            "address at random": bool(flags & 0x40),
            "64 bits of it": bool(flags & 0x20),
            "data not executable": bool(flags & 0x100),
            "exports": [each.name.decode() for each in read.DIRECTORY_ENTRY_EXPORT.symbols],
            "needs": sorted(imported),
        }
        return Binary(says, *by_owner(iter(names)))


#: Names that the linkers of macOS add.
OF_THE_LINKER = ("_mh_dylib_header", "_mh_bundle_header", "__dso_handle")


def read_mach_o(path: Path) -> Binary:
    from macholib.mach_o import LC_CODE_SIGNATURE, LC_RPATH, MH_TWOLEVEL
    from macholib.MachO import MachO
    from macholib.SymbolTable import SymbolTable

    read = MachO(str(path))
    (header,) = read.headers
    commands = {command.cmd for command, _, _ in header.commands}
    table = SymbolTable(read, header)
    told = [name.decode().removeprefix("_") for _, name in table.extdefsyms]
    # What C names begins with an underscore here; all else is the linker's own.
    names = [name.decode() for _, name in table.undefsyms]
    asked = [name[1:] for name in names if name.startswith("_")]
    says = {
        "names of two levels": bool(header.header.flags & MH_TWOLEVEL),
        "calls have their pointers": calls_have_their_pointers(path.read_bytes(), header.commands),
        "signed": LC_CODE_SIGNATURE in commands,
        "stack protector": "__stack_chk_fail" in asked,
        "run path": LC_RPATH in commands,
        "exports": [name for name in told if name not in OF_THE_LINKER],
        "needs": sorted(name for _, _, name in header.walkRelocatables()),
    }
    return Binary(says, *by_owner(iter(asked)))


def calls_have_their_pointers(file: bytes, commands: list[Any]) -> bool:
    """Whether a Mach-O file names the same functions for its calls as for the pointers that these
    go through.

    zig leaves chance bytes at the end of that table where the loader is to fill in an address of
    our own.  Two builds then differ.  The cure is DLS_EXTERN in the header that declares it.
    """
    from macholib.mach_o import LC_DYSYMTAB, LC_SEGMENT_64

    (table,) = [each for command, each, _ in commands if command.cmd == LC_DYSYMTAB]
    segments = [each for command, _, each in commands if command.cmd == LC_SEGMENT_64]
    sections = {each.sectname.rstrip(b"\0"): each for segment in segments for each in segment}

    def names(section: bytes, width: int) -> bytes:
        start = table.indirectsymoff + 4 * sections[section].reserved1
        return file[start : start + 4 * (sections[section].size // width)]

    # Apple's linker may have the loader fill in all pointers at once, and makes no such table then.
    if b"__la_symbol_ptr" not in sections:
        return True
    return names(b"__la_symbol_ptr", 8) == names(b"__stubs", sections[b"__stubs"].reserved2)
