"""Reads every C source with compilers and analysers; nothing is written.

    python tools/check_c.py             gcc with all warnings, with the limited API and without it
    python tools/check_c.py --analyse   gcc's static analyser
    python tools/check_c.py --tidy      clang-tidy and cppcheck (Debian's)

uses the headers of the running interpreter.  They differ more than one thinks: run it on each.
.clang-tidy says which checks of clang-tidy are off, and why; UNCALLED_FOR says it for cppcheck.
What both say wrongly of a single place is listed in WRONG with the reason: anything else that is
found fails, and so does a place in the list that is not found.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "src").glob("*/*.c"))
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wstrict-prototypes", "-Werror"]
# A thread of the user's may have a small stack, and an exchange can be nested in another.
FRAMES = ["-O2", "-Wframe-larger-than=1024"]
LIMITED = ["-DPy_LIMITED_API=0x030a0000"]
PASSES = {"limited API": [*FRAMES, *LIMITED], "full API": FRAMES}
ANALYSER = {"analyser": ["-O1", "-fanalyzer", *LIMITED]}
# Python's own headers are not ours to mend: -isystem keeps their warnings out.
INCLUDE = ["-isystem", sysconfig.get_paths()["include"], "-I", "src", "-I", "shim/include"]


def compile_one(source: Path, flags: list[str]) -> str:
    """What the compiler says; empty when it is content."""
    command = [os.environ.get("CC", "gcc"), "-std=c11", "-fPIC", "-fvisibility=hidden", "-c"]
    command += ["-o", os.devnull, *WARNINGS, *INCLUDE, *flags, str(source)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return run.stderr if run.returncode or run.stderr else ""


def compile_all(passes: dict[str, list[str]]) -> int:
    """How many compilations have warnings."""
    jobs = [(name, source) for name in passes for source in SOURCES]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda job: compile_one(job[1], passes[job[0]]), jobs))
    for (name, source), message in zip(jobs, results, strict=True):
        if message:
            print(f"--- {source.relative_to(ROOT)} ({name})\n{message}", file=sys.stderr)
    faulty = sum(map(bool, results))
    version = "{}.{}".format(*sys.version_info)
    print(f"Python {version}: {len(jobs)} compilations, {faulty} with warnings")
    return faulty


# ---- clang-tidy and cppcheck --------------------------------------------------------------------

#: clang-tidy: `path:line:column: warning: text [check]`; cppcheck is told to write the same.
FINDING = re.compile(r"^(?P<path>[^:\n]+):\d+:\d+: (?:warning|error): .* \[(?P<check>[\w.,-]+)\]$")
CPPCHECK = [
    *("cppcheck", "--std=c11", "--quiet", "--enable=warning,performance,portability,style"),
    *("--template={file}:{line}:{column}: warning: {message} [{id}]", "--template-location="),
    *("-DPy_BEGIN_ALLOW_THREADS={", "-DPy_END_ALLOW_THREADS=}", *LIMITED),
]
#: Checks of cppcheck that are off.
UNCALLED_FOR = {
    "constParameter": "CPython's objects and what has a deleter are never const",
    "variableScope": "what a function needs is declared where it begins",
    "clarifyCalculation": "`flags & FLAG ? a : b` reads as it is meant",
}
#: (file, check): why the finding is wrong.
WRONG = {
    ("core/tensor.c", "clang-analyzer-core.UndefinedBinaryOperatorResult"): (
        "dls_fail returns the code that it was given, which is never DLS_OK"
    ),
    ("types/library.c", "clang-analyzer-core.NullDereference"): (
        "only entries that begin with a full stop read the object, and classes of SYCL do not"
    ),
    ("public/functions.c", "clang-analyzer-core.StackAddressEscape"): (
        "the caller's request ends with the exchange, and is not read afterwards"
    ),
    ("public/functions.c", "autoVariables"): "the same as said by cppcheck",
    ("gpu/hip.c", "unusedStructMember"): "it makes room for what a later runtime may write",
    ("python/attach.c", "knownConditionTrueFalse"): "others_count is not 0 after an import",
    ("python/errors.c", "constVariable"): "it holds pointers to variables of CPython",
}


def clang_tidy(source: Path) -> str:
    command = ["clang-tidy", "--quiet", str(source), "--", "-std=c11", "-fPIC", *INCLUDE, *LIMITED]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout


def cppcheck() -> str:
    off = [f"--suppress={check}" for check in UNCALLED_FOR]
    command = [*CPPCHECK, *off, f"-j{os.cpu_count()}", "-I", "src", "-I", "shim/include", "src"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stderr


def findings(text: str, source: str) -> Iterator[tuple[str, str, str]]:
    """(file below src, check, the line that says it).  What the analyser meets in a header of
    CPython is of `source`, which includes it."""
    for line in text.splitlines():
        if found := FINDING.match(line):
            file = found["path"].rpartition("src/")[2] if "src/" in found["path"] else source
            yield file, found["check"].split(",")[0], line


def tidy() -> int:
    """How many findings are right, or listed and not found."""
    for tool in ("clang-tidy", "cppcheck"):
        if shutil.which(tool) is None:
            sys.exit(f"{tool} is not here: apt-get install {tool}")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        texts = list(pool.map(clang_tidy, SOURCES))
    found = list(findings(cppcheck(), ""))
    for source, text in zip(SOURCES, texts, strict=True):
        found += findings(text, source.relative_to(ROOT / "src").as_posix())
    right = {line for file, check, line in found if (file, check) not in WRONG}
    stale = WRONG.keys() - {(file, check) for file, check, _ in found}
    for line in sorted(right):
        print(line, file=sys.stderr)
    for file, check in sorted(stale):
        print(f"{file}: {check} is listed in tools/check_c.py and not found", file=sys.stderr)
    print(f"{len(SOURCES)} sources: {len(right)} findings, {len(WRONG)} are known to be wrong")
    return len(right) + len(stale)


def main(arguments: list[str]) -> int:
    if not SOURCES:
        sys.exit("no C source found")
    if arguments == ["--tidy"]:
        return 1 if tidy() else 0
    return 1 if compile_all(ANALYSER if arguments == ["--analyse"] else PASSES) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
