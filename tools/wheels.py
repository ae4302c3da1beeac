"""Every wheel for Linux from one machine: zig compiles, each is made twice and looked into.

    python tools/wheels.py build [--results FILE] [NAME ...]
    python tools/wheels.py test [--results FILE] [NAME ...] [-- PYTEST ARGUMENT ...]

NAME is one of tools/wheels.toml; without any, all.  `build` writes dist/wheels and fails where two
builds differ, or a wheel is not what its tag and tools/wheels.toml say.  It needs zig (PyPI:
ziglang), auditwheel, abi3audit, pyelftools, wheel, zopfli, and the interpreter of the floor, whose
headers serve every processor.  `test` needs Linux, root, Debian's mmdebstrap and, for foreign
processors, qemu-user-static.  FILE is docs/results/platforms.json: what was seen, by name.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
WHEELS = ROOT / "dist" / "wheels"
#: The date of every file in a wheel, so that the same sources give the same bytes: 1980-01-01.
EPOCH = "315532800"


class Target(NamedTuple):
    """A row of tools/wheels.toml."""

    name: str
    zig: str
    platform: str
    processor: str
    bits: int
    quick: str = "-O2"
    largest: int = 150_000
    debian: str = ""
    qemu: str = ""

    @property
    def musl(self) -> bool:
        return "musl" in self.zig


def targets() -> dict[str, Target]:
    rows = tomllib.loads((ROOT / "tools" / "wheels.toml").read_text(encoding="utf-8"))
    return {name: Target(name, **row) for name, row in rows.items()}


# ---- the compiler -----------------------------------------------------------------------------

#: What setup.py passes to gcc and zig has no word for.
UNKNOWN = re.compile(
    r"-flto.*|--param=.*|-Wl,--build-id=.*|-fno-(plt|schedule-insns2|align-.*|reorder-.*"
    r"|caller-saves|code-hoisting|if-conversion2?|thread-jumps|tree-.*|guess-branch-probability)"
)
#: Nothing unwinds through plain C.  Linking across files saves nothing with zig.  What is not
#: made for speed ("-Os") is smaller still with "-Oz".
COMPILE = ["-fno-unwind-tables", "-fno-exceptions", "-ffunction-sections"]
#: The C library's checks of copies and formats cost nothing; musl has none.  A stack protector is
#: left out: it costs 3.2 kB of the wheel for x86-64.
COMPILE += ["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]
LINK = ["-Wl,-z,relro,-z,now", "-Wl,--gc-sections,--hash-style=gnu"]


def compile_with_zig(target: str, words: list[str]) -> None:
    """What CC and LDSHARED of setuptools come to: this process becomes the compiler."""
    levels = {"-Os": "-Oz", "-O2": os.environ["DLSHIM_ZIG_QUICK"]}
    wanted = [levels.get(word, word) for word in words if not UNKNOWN.fullmatch(word)]
    more = LINK if "-shared" in words else COMPILE
    given = shlex.split(os.environ.get("DLSHIM_ZIG_FLAGS", ""))
    line = [sys.executable, "-m", "ziglang", "cc", "-target", target, *given, *wanted, *more]
    os.execv(line[0], line)


def headers(folder: Path) -> Path:
    """The headers of the floor's CPython with the sizes that 32 bits have."""
    copy = folder / "headers"
    shutil.copytree(sysconfig.get_paths()["include"], copy)
    sizes = "LONG|VOID_P|SIZE_T|UINTPTR_T|PTHREAD_T|TIME_T"
    config = copy / "pyconfig.h"
    config.write_text(re.sub(rf"(SIZEOF_(?:{sizes})) 8", r"\1 4", config.read_text()))
    return copy


def sources(folder: Path) -> Path:
    """A copy of what git knows, and of what it does not ignore."""
    line = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(line, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    tree = folder / "sources"
    for name in filter(None, names.split("\0")):
        place = tree / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, place)
    return tree


def build_once(target: Target) -> bytes:
    """One wheel with its last name, from a copy of the sources in a folder of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        flags = [f"-I{headers(folder)}"] if target.bits == 32 else []
        compiler = shlex.join([sys.executable, str(ROOT / "tools" / "wheels.py"), "cc", target.zig])
        variables = {
            "CC": compiler,
            "LDSHARED": f"{compiler} -shared",
            "DLSHIM_ZIG_FLAGS": shlex.join(flags),
            "DLSHIM_ZIG_QUICK": target.quick,
            "DLSHIM_WERROR": "1",
            "SOURCE_DATE_EPOCH": EPOCH,
            "_PYTHON_HOST_PLATFORM": f"linux-{target.name.rpartition('-')[2]}",
        }
        line = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
        line += ["--no-build-isolation", "--disable-pip-version-check", "-w", name]
        run([*line, str(sources(folder))], env=os.environ | variables)
        (made,) = folder.glob("*.whl")
        tags = [sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag"]
        run([*tags, target.platform, str(made)], stdout=subprocess.DEVNULL)
        (wheel,) = folder.glob("*.whl")
        run([sys.executable, str(ROOT / "tools" / "recompress.py"), str(wheel)])
        WHEELS.mkdir(parents=True, exist_ok=True)
        shutil.copy(wheel, WHEELS)
        return wheel.read_bytes()


def run(line: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(line, check=True, text=True, **options)


def wheel_of(target: Target) -> Path:
    platform = ".".join(sorted(target.platform.split(".")))  # as wheel names it
    found = sorted(WHEELS.glob(f"dlshim-*-{platform}.whl"))
    if len(found) != 1:
        sys.exit(f"{target.name}: no wheel in {WHEELS}: run `nox -s wheels`")
    return found[0]


# ---- what a wheel is --------------------------------------------------------------------------


def look_into(elf: Path) -> dict[str, Any]:
    """What the headers of a shared object say of its hardening and of what it needs."""
    from elftools.elf.elffile import ELFFile

    with elf.open("rb") as file:
        read = ELFFile(file)
        segments = {segment["p_type"]: segment for segment in read.iter_segments()}
        entries = list(segments["PT_DYNAMIC"].iter_tags())
        flags = {tag.entry.d_tag: tag.entry.d_val for tag in entries}
        now = flags.get("DT_FLAGS", 0) & 8 or flags.get("DT_FLAGS_1", 0) & 1
        symbols = read.get_section_by_name(".dynsym").iter_symbols()
        foreign = {s.name for s in symbols if s["st_shndx"] == "SHN_UNDEF" and s.name}
        return {
            "RELRO": "PT_GNU_RELRO" in segments,
            "BIND_NOW": bool(now) or "DT_BIND_NOW" in flags,
            "stack not executable": not segments["PT_GNU_STACK"]["p_flags"] & 1,
            "stack protector": "__stack_chk_fail" in foreign,
            "FORTIFY": any(name.endswith("_chk") for name in foreign),
            "text relocations": "DT_TEXTREL" in flags,
            "run path": "DT_RPATH" in flags or "DT_RUNPATH" in flags,
            "needs": sorted(tag.needed for tag in entries if tag.entry.d_tag == "DT_NEEDED"),
            "from elsewhere": sorted(foreign),
        }


def is_linkable(target: Target, names: list[str]) -> bool:
    """Whether the C library of the target has all these: a program is linked that names them."""
    declared = "".join(f"extern char {name}[];\n" for name in names)
    text = (
        f"{declared}char *all[] = {{{', '.join(names)}}};\nint main(void) {{ return !all[0]; }}\n"
    )
    line = [sys.executable, "-m", "ziglang", "cc", "-target", target.zig, "-w", "-fno-builtin"]
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "names.c"
        source.write_text(text)
        return not subprocess.run([*line, "-o", f"{name}/names", str(source)]).returncode


#: What every file must be.
DEMANDED = {
    "RELRO": True,
    "BIND_NOW": True,
    "stack not executable": True,
    "text relocations": False,
    "run path": False,
}
NEEDED = re.compile(r"lib(c|dl|pthread)\.so(\.\d)?|ld-linux.*\.so\.\d|ld64?\.so\.\d")


def audit(target: Target, wheel: Path) -> tuple[dict[str, Any], list[str]]:
    """What was seen of a wheel, and what is wrong with it."""
    with tempfile.TemporaryDirectory() as name:
        shutil.unpack_archive(wheel, name, "zip")
        seen = look_into(Path(name) / "dlshim" / "_core.abi3.so")
    wrong = [f"{what} is {seen[what]}" for what, good in DEMANDED.items() if seen[what] != good]
    names = [each for each in seen.pop("from elsewhere") if not re.match("_?Py", each)]
    if not is_linkable(target, names):
        wrong.append("the C library lacks a function that it calls")
    wrong += [f"it needs {each}" for each in seen["needs"] if not NEEDED.fullmatch(each)]
    size = wheel.stat().st_size
    if size > target.largest:
        wrong.append(f"it has {size} bytes, more than {target.largest}")
    abi = [sys.executable, "-m", "abi3audit", "--strict", str(wheel)]
    audited = ["abi3audit"]
    if subprocess.run(abi, stdout=subprocess.DEVNULL).returncode:
        wrong.append("abi3audit finds more than the stable ABI of the floor")
    if not target.musl:  # auditwheel cannot read those on a machine with glibc
        show = [sys.executable, "-m", "auditwheel", "show", str(wheel)]
        told = subprocess.run(show, capture_output=True, text=True).stdout
        audited.append("auditwheel")
        if not any(f'"{tag}"' in told for tag in target.platform.split(".")):
            wrong.append(f"auditwheel says: {' '.join(told.split())}")
    return {"wheel": wheel.name, "bytes": size, "audited": audited, "file": seen}, wrong


def build(chosen: list[Target]) -> tuple[dict[str, Any], int]:
    found, faults = {}, 0
    zig = run([sys.executable, "-m", "ziglang", "version"], capture_output=True).stdout.strip()
    for target in chosen:
        for stale in WHEELS.glob(f"dlshim-*-*{target.name.replace('-', '*_')}.whl"):
            stale.unlink()
        first, second = build_once(target), build_once(target)
        seen, wrong = audit(target, wheel_of(target))
        if first != second:
            wrong.append("two builds differ")
        print(f"{target.name}: {seen['bytes']} bytes; {'; '.join(wrong) or 'good'}", flush=True)
        faults += len(wrong)
        found[target.name] = {"built": {"date": today(), "compiler": f"zig {zig}", **seen}}
    return found, faults


# ---- where it runs ----------------------------------------------------------------------------


def test(chosen: list[Target], arguments: list[str]) -> tuple[dict[str, Any], int]:
    import foreign

    found, faults = {}, 0
    for target in chosen:
        if not target.debian:
            print(f"{target.name}: no Python of this C library is at hand: not run", flush=True)
            continue
        results = ROOT / "build" / "results" / f"wheels-{target.name}.xml"
        results.parent.mkdir(parents=True, exist_ok=True)
        results.unlink(missing_ok=True)
        root = foreign.unpack(target.debian)
        foreign.install(root, wheel_of(target))
        told = foreign.run(root, target.qemu, foreign.ASK, capture_output=True).stdout
        asked = json.loads(told)
        tests = arguments or ["tests/core", "--hand-on=on"]
        inside = f"--junitxml=/project/{results.relative_to(ROOT)}"
        pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider", inside]
        done = foreign.run(root, target.qemu, [*pytest, *tests])
        counts = count(results)
        print(f"{target.name}: {counts}", flush=True)
        faults += done.returncode != 0
        # Only the suite in full is worth a line in the manual.
        if not arguments:
            how = f"qemu-user {foreign.version(target.qemu)}" if target.qemu else "this processor"
            ran = {"date": today(), "on": how, **asked, "suite": " ".join(tests), **counts}
            found[target.name] = {"run": ran}
    return found, faults


def count(results: Path) -> dict[str, int]:
    suites = list(ElementTree.parse(results).getroot().iter("testsuite"))
    total, failed, skipped = (
        sum(int(suite.get(word, 0)) for suite in suites for word in words)
        for words in (["tests"], ["failures", "errors"], ["skipped"])
    )
    return {"passed": total - failed - skipped, "failed": failed, "skipped": skipped}


# ---- the command ------------------------------------------------------------------------------


def today() -> str:
    return datetime.date.today().isoformat()


def write(found: dict[str, Any], file: Path) -> None:
    """Each part of a line has its own date; a part that was not seen again stays."""
    known = json.loads(file.read_text()) if file.exists() else {}
    merged = {name: known.get(name, {}) | found.get(name, {}) for name in targets()}
    lines = {name: line for name, line in merged.items() if line}
    file.write_text(json.dumps(lines, indent=1) + "\n")


def main() -> int:
    arguments, more = sys.argv[1:], []
    if arguments[:1] == ["cc"]:
        compile_with_zig(arguments[1], arguments[2:])
    if "--" in arguments:
        at = arguments.index("--")
        arguments, more = arguments[:at], arguments[at + 1 :]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("task", choices=["build", "test"])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--results", type=Path, metavar="FILE")
    options = parser.parse_intermixed_args(arguments)
    rows = targets()
    if unknown := [name for name in options.names if name not in rows]:
        parser.error(f"tools/wheels.toml has no {', '.join(unknown)}")
    chosen = [rows[name] for name in options.names or rows]
    found, faults = build(chosen) if options.task == "build" else test(chosen, more)
    if options.results:
        write(found, options.results)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
