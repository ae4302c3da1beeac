"""Compiles every C source with all warnings as errors; nothing is written.

    python tools/check_c.py             with the limited API and without it
    python tools/check_c.py --analyse   under gcc's static analyser

uses the headers of the running interpreter. They differ more than one thinks: run it on each.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wstrict-prototypes", "-Werror"]
# A thread of the user's may have a small stack, and an exchange can be nested in another.
FRAMES = ["-O2", "-Wframe-larger-than=1024"]
LIMITED = ["-DPy_LIMITED_API=0x030a0000"]
PASSES = {"limited API": [*FRAMES, *LIMITED], "full API": FRAMES}
ANALYSER = {"analyser": ["-O1", "-fanalyzer", *LIMITED]}


def compile_one(source: Path, flags: list[str]) -> str:
    """What the compiler says; empty when it is content."""
    # Python's own headers are not ours to mend: -isystem keeps their warnings out.
    include = ["-isystem", sysconfig.get_paths()["include"], "-I", str(ROOT / "src")]
    include += ["-I", str(ROOT / "shim" / "include")]
    command = [os.environ.get("CC", "gcc"), "-std=c11", "-fPIC", "-fvisibility=hidden", "-c"]
    command += ["-o", os.devnull, *WARNINGS, *include, *flags, str(source)]
    run = subprocess.run(command, capture_output=True, text=True)
    return run.stderr if run.returncode or run.stderr else ""


def main(arguments: list[str]) -> int:
    passes = ANALYSER if arguments == ["--analyse"] else PASSES
    sources = sorted((ROOT / "src").glob("*/*.c"))
    if not sources:
        print("no C source found", file=sys.stderr)
        return 1
    jobs = [(name, source) for name in passes for source in sources]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda job: compile_one(job[1], passes[job[0]]), jobs))
    faulty = 0
    for (name, source), message in zip(jobs, results, strict=True):
        if message:
            faulty += 1
            print(f"--- {source.relative_to(ROOT)} ({name})\n{message}", file=sys.stderr)
    version = "{}.{}".format(*sys.version_info)
    print(f"Python {version}: {len(jobs)} compilations, {faulty} with warnings")
    return 1 if faulty else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
