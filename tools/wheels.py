"""Every wheel from one Linux machine: zig compiles, each is made twice and looked into.

    python tools/wheels.py build [--once] [--results FILE] [NAME ...]
    python tools/wheels.py test [--parts] [--results FILE] [NAME ...] [-- PYTEST ARGUMENT ...]

NAME is one of tools/wheels.toml; without any, all.  `build` writes dist/wheels and fails where two
builds differ (with --once there is one), or a wheel is not what its tag and tools/wheels.toml say.
It needs zig (PyPI: ziglang), auditwheel, abi3audit, pyelftools, macholib, wheel, and the
interpreter of the floor, whose headers serve every processor.  `test` needs Linux, root, Debian's
mmdebstrap and, for foreign processors, qemu-user-static; tools/loads.py says what else.  FILE is
docs/results/platforms.json: what was seen, by name.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

import binaries
import foreign
import loads
import musl
import windows

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
    cpu: str = "baseline"
    debian: str = ""
    qemu: str = ""
    loads: str = ""

    @property
    def musl(self) -> bool:
        return "musl" in self.zig

    @property
    def protected(self) -> bool:
        """Windows has no function for it, and for 32 bits zig puts its own in the C library's
        place, with a value that everybody knows."""
        return self.bits == 64 and self.system != "windows"

    @property
    def system(self) -> str:
        return system_of(self.zig)


def system_of(zig: str) -> str:
    return zig.split("-")[1].partition(".")[0]


def targets() -> dict[str, Target]:
    rows = tomllib.loads((ROOT / "tools" / "wheels.toml").read_text(encoding="utf-8"))
    return {name: Target(name, **row) for name, row in rows.items()}


# ---- the compiler -----------------------------------------------------------------------------

#: What setup.py takes this machine for needs, and the target has no word for.
UNKNOWN = {"linux": r"-flto", "windows": r"-flto|-fPIC|-Wl,-z,.*|-D_FORTIFY_SOURCE=.*"}
UNKNOWN["macos"] = r"-flto|-Wl,-z,.*"
#: The floor's headers are Linux's, which ask for plain POSIX; macOS then hides its own names.
COMPILE_FOR = {"linux": [], "windows": [], "macos": ["-D_DARWIN_C_SOURCE"]}
#: Whoever imports the module has Python's functions already.  zig compiles a part of the C library
#: with debug information, which names the folder of the build: two builds would differ.
LINK_FOR = {"linux": ["-Wl,--strip-debug"], "windows": []}
LINK_FOR["macos"] = ["-Wl,-undefined,dynamic_lookup"]


def compile_with_zig(target: str, words: list[str]) -> None:
    """What CC and LDSHARED of setuptools come to: this process becomes the compiler."""
    system = system_of(target)
    wanted = [word for word in words if not re.fullmatch(UNKNOWN[system], word)]
    links = "-shared" in words
    # Folders of headers come before the interpreter's own, libraries after what asks for them.
    given = shlex.split(os.environ.get("DLSHIM_ZIG_FLAGS", ""))
    given = [word for word in given if word.startswith("-I") != links]
    own = shlex.split(os.environ["DLSHIM_ZIG_COMPILE"])
    words = [*wanted, *LINK_FOR[system], *given]
    if not links:
        words = [*given, *wanted, *COMPILE_FOR[system], *own]
    line = [sys.executable, "-m", "ziglang", "cc", "-target", target, *words]
    os.execv(line[0], line)


def compile_target(target: Target) -> list[str]:
    """What zig adds to a library is not made with this: its assembler code for ARM is not Thumb."""
    return [f"-mcpu={target.cpu}", *([] if target.protected else ["-fno-stack-protector"])]


def flags(target: Target, folder: Path) -> list[str]:
    """What stands in for headers and libraries of a system that this machine is not."""
    if target.system == "windows":
        return windows.flags(folder, target.zig, include())
    return [f"-I{headers(folder)}"] if target.bits == 32 else []


def include() -> Path:
    return Path(sysconfig.get_paths()["include"])


def headers(folder: Path) -> Path:
    """The headers of the floor's CPython with the sizes that 32 bits have."""
    copy = folder / "headers"
    shutil.copytree(include(), copy)
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
        compiler = shlex.join([sys.executable, str(ROOT / "tools" / "wheels.py"), "cc", target.zig])
        variables = {
            "CC": compiler,
            "LDSHARED": f"{compiler} -shared",
            "DLSHIM_ZIG_FLAGS": shlex.join(flags(target, folder)),
            "DLSHIM_ZIG_COMPILE": shlex.join(compile_target(target)),
            "DLSHIM_WERROR": "1",
            "SOURCE_DATE_EPOCH": EPOCH,
            "_PYTHON_HOST_PLATFORM": f"linux-{target.name.rpartition('-')[2]}",
        }
        line = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
        line += ["--no-build-isolation", "--disable-pip-version-check", "-w", name]
        run([*line, str(sources(folder))], env=os.environ | variables)
        (made,) = folder.glob("*.whl")
        tags = [sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag"]
        dated = os.environ | {"SOURCE_DATE_EPOCH": EPOCH}  # it writes RECORD anew
        run([*tags, target.platform, str(made)], stdout=subprocess.DEVNULL, env=dated)
        (wheel,) = folder.glob("*.whl")
        if target.system == "windows":
            windows.rename_module(wheel)
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


def digest(wheel: Path) -> str:
    """Of a wheel, short: results are of this one, or of an earlier one."""
    return hashlib.sha256(wheel.read_bytes()).hexdigest()[:12]


# ---- what a wheel is --------------------------------------------------------------------------


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


@contextlib.contextmanager
def unpacked(target: Target, wheel: Path) -> Iterator[Path]:
    """The compiled module of a wheel, for a while."""
    module = "_core.pyd" if target.system == "windows" else "_core.abi3.so"
    with tempfile.TemporaryDirectory() as name:
        shutil.unpack_archive(wheel, name, "zip")
        yield Path(name) / "dlshim" / module


def audit(target: Target, wheel: Path) -> tuple[dict[str, Any], list[str]]:
    """What was seen of a wheel, and what is wrong with it."""
    with unpacked(target, wheel) as module:
        seen = binaries.look_into(module, target.system)
    says = seen.says
    protected = None if target.system == "windows" else target.protected
    wrong = binaries.faults(says, target.system, protected)
    if target.name == "macos-arm64" and not says["signed"]:
        wrong.append("Apple's own processors load nothing that is not signed")
    # The linker has found every function of Windows already.
    if target.system != "windows" and not is_linkable(target, seen.foreign):
        wrong.append("the C library lacks a function that it calls")
    size = wheel.stat().st_size
    abi = [sys.executable, "-m", "abi3audit", "--strict", str(wheel)]
    audited = ["abi3audit"]
    if subprocess.run(abi, stdout=subprocess.DEVNULL).returncode:
        wrong.append("abi3audit finds more than the stable ABI of the floor")
    # auditwheel knows Linux, and cannot read musl's files on a machine with glibc.
    if target.system == "linux" and not target.musl:
        show = [sys.executable, "-m", "auditwheel", "show", str(wheel)]
        told = subprocess.run(show, capture_output=True, text=True).stdout
        audited.append("auditwheel")
        if not any(f'"{tag}"' in told for tag in target.platform.split(".")):
            wrong.append(f"auditwheel says: {' '.join(told.split())}")
    about = {"wheel": wheel.name, "sha256": digest(wheel), "bytes": size, "audited": audited}
    return {**about, "file": says}, wrong


def build(chosen: list[Target], once: bool) -> tuple[dict[str, Any], int]:
    found, faults = {}, 0
    zig = run([sys.executable, "-m", "ziglang", "version"], capture_output=True).stdout.strip()
    for target in chosen:
        for stale in WHEELS.glob(f"dlshim-*-*{target.name.replace('-', '*_')}.whl"):
            stale.unlink()
        made = {build_once(target) for _ in range(1 if once else 2)}
        seen, wrong = audit(target, wheel_of(target))
        if len(made) > 1:
            wrong.append("two builds differ")
        print(f"{target.name}: {seen['bytes']} bytes; {'; '.join(wrong) or 'good'}", flush=True)
        faults += len(wrong)
        found[target.name] = {"built": {"date": today(), "compiler": f"zig {zig}", **seen}}
    return found, faults


# ---- where it runs ----------------------------------------------------------------------------


def test(chosen: list[Target], arguments: list[str], parts: bool) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    faults = 0
    for target in chosen:
        if not (target.loads or target.debian):
            print(f"{target.name}: nothing here runs it", flush=True)
        if target.loads and not arguments:
            seen = {"date": today(), "sha256": digest(wheel_of(target)), **load(target)}
            found[target.name] = {"loaded": seen}
            print(f"{target.name}: {seen}", flush=True)
        if not target.debian:
            continue
        python = python_for(target)
        foreign.install(python, wheel_of(target))
        told = json.loads(foreign.run(python, foreign.ASK, capture_output=True).stdout)
        told["interpreter"] += f" {python.origin}"
        tests = arguments or ["tests/core", "--hand-on=on"]
        counts = run_parts(target, python, tests) if parts else run_suite(target, python, tests)
        print(f"{target.name}: {counts}", flush=True)
        faults += counts["failed"] or "left out" in counts
        # Only the suite in full is worth a line in the manual.
        if not arguments:
            how = f"qemu-user {foreign.version(target.qemu)}" if target.qemu else "this processor"
            suite = " ".join(tests) + (", file by file" if parts else "")
            which = {"date": today(), "sha256": digest(wheel_of(target)), "on": how}
            ran = {**which, **told, "suite": suite, **counts}
            found.setdefault(target.name, {})["run"] = ran
    return found, faults


def python_for(target: Target) -> foreign.Python:
    if not target.musl:
        return foreign.python_of_debian(target.debian, target.qemu)
    return musl.unpack(target.debian, target.zig, target.qemu)


def load(target: Target) -> dict[str, Any]:
    with unpacked(target, wheel_of(target)) as module:
        names = binaries.look_into(module, target.system).python
        return loads.load(target.loads, target.zig, target.system, module, names)


def run_suite(target: Target, python: foreign.Python, tests: list[str]) -> dict[str, Any]:
    results = ROOT / "build" / "results" / f"wheels-{target.name}.xml"
    run_tests(python, tests, results)
    if not results.exists():
        sys.exit(f"{target.name}: pytest ended without results")
    return count([results])


def run_parts(target: Target, python: foreign.Python, tests: list[str]) -> dict[str, Any]:
    """Each file by itself.  What this same wheel has passed before is not run again, so that hours
    of emulation may be taken in pieces."""
    folder = ROOT / "build" / "results" / f"wheels-{target.name}-{digest(wheel_of(target))}"
    options = [word for word in tests if word.startswith("-")]
    named = [word for word in tests if not word.startswith("-")]
    files = [file for name in named for file in sorted((ROOT / name).glob("test_*.py"))]
    left = []
    for file in sorted(files or [ROOT / name for name in named], key=seconds):
        results = folder / f"{file.stem}.xml"
        if not results.exists() or count([results])["failed"]:
            run_tests(python, [str(file.relative_to(ROOT)), *options], results)
        if not results.exists():
            left.append(file.stem)
    counts: dict[str, Any] = count(sorted(folder.glob("*.xml")))
    return counts | ({"left out": ", ".join(left)} if left else {})


def seconds(file: Path) -> float:
    """How long a file took on whatever processor it was run last: the quick ones come first."""
    past = sorted((ROOT / "build" / "results").glob(f"wheels-*/{file.stem}.xml"))
    suites = ElementTree.parse(past[-1]).iter("testsuite") if past else []
    return sum(float(suite.get("time", 0)) for suite in suites)


def run_tests(python: foreign.Python, tests: list[str], results: Path) -> None:
    """pytest writes `results` when it has come to its end, and only then."""
    results.parent.mkdir(parents=True, exist_ok=True)
    results.unlink(missing_ok=True)
    inside = f"--junitxml=/project/{results.relative_to(ROOT)}"
    # Emulation is some forty times slower: a test that takes so long does not hang.
    patience = "--override-ini=faulthandler_timeout=3600"
    pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider", patience, inside]
    foreign.run(python, [*pytest, *tests])


def count(files: list[Path]) -> dict[str, int]:
    suites = [suite for file in files for suite in ElementTree.parse(file).iter("testsuite")]
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
    parser.add_argument("--once", action="store_true", help="make each wheel once")
    parser.add_argument("--results", type=Path, metavar="FILE")
    parser.add_argument("--parts", action="store_true", help="test file by file, and go on there")
    options = parser.parse_intermixed_args(arguments)
    rows = targets()
    if unknown := [name for name in options.names if name not in rows]:
        parser.error(f"tools/wheels.toml has no {', '.join(unknown)}")
    chosen = [rows[name] for name in options.names or rows]
    if options.task == "build":
        found, faults = build(chosen, options.once)
    else:
        found, faults = test(chosen, more, options.parts)
    if options.results:
        write(found, options.results)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
