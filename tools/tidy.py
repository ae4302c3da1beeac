"""Reads the C sources with clang-tidy and cppcheck, beside gcc's analyser (tools/check_c.py).

    python tools/tidy.py

uses the headers of the running interpreter.  .clang-tidy says which checks are off, and why;
UNCALLED_FOR says it for cppcheck.  What both say wrongly of a single place is listed in WRONG with
the reason: anything else that is found fails, and so does a place in the list that is not found.
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
#: clang-tidy: `path:line:column: warning: text [check]`; cppcheck is told to write the same.
FINDING = re.compile(r"^(?P<path>[^:\n]+):\d+:\d+: (?:warning|error): .* \[(?P<check>[\w.,-]+)\]$")
CPPCHECK = [
    *("cppcheck", "--std=c11", "--quiet", "--enable=warning,performance,portability,style"),
    *("--template={file}:{line}:{column}: warning: {message} [{id}]", "--template-location="),
    *("-DPy_BEGIN_ALLOW_THREADS={", "-DPy_END_ALLOW_THREADS=}", "-DPy_LIMITED_API=0x030a0000"),
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
    ("exchange/library.c", "clang-analyzer-core.NullDereference"): (
        "only entries that begin with a full stop read the object, and classes of SYCL do not"
    ),
    ("module/functions.c", "clang-analyzer-core.StackAddressEscape"): (
        "the caller's request ends with the exchange, and is not read afterwards"
    ),
    ("module/functions.c", "autoVariables"): "the same as said by cppcheck",
    ("gpu/hip.c", "unusedStructMember"): "it makes room for what a later runtime may write",
    ("python/attach.c", "knownConditionTrueFalse"): "homes_count is not 0 after an import",
    ("python/errors.c", "constVariable"): "it holds pointers to variables of CPython",
}


def clang_tidy(source: Path) -> str:
    command = ["clang-tidy", "--quiet", str(source), "--", "-std=c11", "-fPIC", "-I", "src"]
    command += ["-I", "shim/include"]
    command += ["-DPy_LIMITED_API=0x030a0000", "-isystem", sysconfig.get_paths()["include"]]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout


def cppcheck() -> str:
    off = [f"--suppress={check}" for check in UNCALLED_FOR]
    command = [*CPPCHECK, *off, f"-j{os.cpu_count()}", "-I", "src", "-I", "shim/include", "src"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stderr


def place(path: str) -> str:
    """The file in src/.  What the analyser meets in a header of CPython is of its caller's."""
    return path.rpartition("src/")[2]


def findings(text: str, source: str) -> Iterator[tuple[str, str, str]]:
    """(file, check, the line that says it)."""
    for line in text.splitlines():
        if found := FINDING.match(line):
            file = place(found["path"]) if "src/" in found["path"] else source
            yield file, found["check"].split(",")[0], line


def main() -> int:
    for tool in ("clang-tidy", "cppcheck"):
        if shutil.which(tool) is None:
            sys.exit(f"{tool} is not here: apt-get install {tool}")
    sources = sorted((ROOT / "src").glob("*/*.c"))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        texts = list(pool.map(clang_tidy, sources))
    found = list(findings(cppcheck(), ""))
    for source, text in zip(sources, texts, strict=True):
        found += findings(text, place(str(source)))
    right = {line for file, check, line in found if (file, check) not in WRONG}
    stale = WRONG.keys() - {(file, check) for file, check, _ in found}
    for line in sorted(right):
        print(line, file=sys.stderr)
    for file, check in sorted(stale):
        print(f"{file}: {check} is listed in tools/tidy.py and not found", file=sys.stderr)
    print(f"{len(sources)} sources: {len(right)} findings, {len(WRONG)} are known to be wrong")
    return 1 if right or stale else 0


if __name__ == "__main__":
    sys.exit(main())
