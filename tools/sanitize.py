"""Runs the core suite against an extension built with gcc's ASan and UBSan, leaks included.

    python tools/sanitize.py [pytest arguments]

needs pytest, hypothesis and setuptools in the running interpreter and leaves them as they are: the
package is installed, with its asserts, into a folder of its own. Before the suite, three planted
faults (a read past the end, a signed overflow, a lost allocation) must each be found, else the run
proves nothing.
At the end LeakSanitizer stops all threads, to look for leaks. Rarely it cannot; then the suite runs
once more.
No suppressions: CPython 3.11, pytest and hypothesis are clean. Array libraries are not, so the
tests that need one are skipped here; they run everywhere else.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import variant

ROOT = variant.ROOT
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
FLAGS = [*SANITIZE, "-fno-omit-frame-pointer", "-g", "-O1"]
#: The exit status of a process that a sanitizer ends; pytest has no such status.
ENDED = 77
#: What LeakSanitizer writes where it could not look for leaks.  It says nothing of the program.
NOT_LOOKED = "LeakSanitizer has encountered a fatal error"

FAULTS = """
#include <limits.h>
#include <stdlib.h>
int overread(int n) { char *volatile p = malloc(8); int c = p[n]; free(p); return c; }
int overflow(int n) { return INT_MAX + n; }
int leak(int n) { char *volatile p = malloc(8); p[0] = (char)n; p = NULL; return 0; }
"""
CALL = """
import ctypes, sys
getattr(ctypes.CDLL(sys.argv[1]), sys.argv[2])(8)
"""
FOUND = {
    "overread": "heap-buffer-overflow",
    "overflow": "signed integer overflow",
    "leak": "detected memory leaks",
}


def runtime(name: str) -> str:
    """The full path of a sanitizer's shared library."""
    out = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True)
    path = out.stdout.strip()
    if out.returncode or not os.path.isabs(path):
        sys.exit(f"gcc has no {name}: install the sanitizer runtimes that belong to it")
    return path


def sanitized_environment() -> dict[str, str]:
    return {
        **os.environ,
        "LD_PRELOAD": f"{runtime('libasan.so')} {runtime('libubsan.so')}",
        "PYTHONMALLOC": "malloc",
        # Absurd sizes are among the tests: they get a MemoryError, not a report.
        "ASAN_OPTIONS": f"detect_leaks=1:allocator_may_return_null=1:exitcode={ENDED}",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "DLSHIM_SANITIZED": "1",
    }


def find_planted_faults(folder: Path, env: dict[str, str]) -> None:
    source, library = folder / "faults.c", folder / "faults.so"
    source.write_text(FAULTS)
    command = ["gcc", *FLAGS, "-shared", "-fPIC", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    for name, report in FOUND.items():
        command = [sys.executable, "-c", CALL, str(library), name]
        run = subprocess.run(command, env=env, capture_output=True, text=True)
        if run.returncode == 0 or report not in run.stderr:
            sys.exit(f"the planted fault {name!r} was not found: this run would prove nothing")
    print(f"{len(FOUND)} planted faults found", flush=True)


def install(folder: Path) -> Path:
    """Builds the package with the sanitizers into a folder that can go on sys.path."""
    site = variant.build(folder, FLAGS, SANITIZE, asserts=True)
    library = variant.library(site)
    headers = subprocess.run(["objdump", "-p", str(library)], capture_output=True, text=True)
    if "libasan" not in headers.stdout or "libubsan" not in headers.stdout:
        sys.exit(f"{library.name} was built without the sanitizers")
    return site


def run_suite(reports: Path, env: dict[str, str], arguments: list[str]) -> tuple[int, list[str]]:
    """Runs the suite; returns its exit status and what the sanitizers wrote.  They write to files,
    because pytest holds stderr."""
    reports.mkdir()
    log = f":log_path={reports / 'report'}"
    env = {**env, **{name: env[name] + log for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS")}}
    command = [sys.executable, "-m", "pytest", "tests/core", "-p", "no:cacheprovider"]
    status = subprocess.run([*command, *arguments], cwd=ROOT, env=env).returncode
    return status, [path.read_text(errors="replace") for path in sorted(reports.iterdir())]


def judge(status: int, texts: list[str]) -> int:
    """Shows the reports, and all that was written where a sanitizer ended the suite."""
    found = [text for text in texts if "ERROR: " in text or "runtime error: " in text]
    for text in texts if status == ENDED else found:
        print(text, file=sys.stderr)
    print(f"{len(found)} sanitizer reports, pytest ended with {status}", flush=True)
    return len(found)


def main(arguments: list[str]) -> int:
    env = sanitized_environment()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        find_planted_faults(folder, env)
        env["PYTHONPATH"] = str(install(folder))
        status, texts = run_suite(folder / "reports", env, arguments)
        found = judge(status, texts)
        if status == ENDED and not found and any(NOT_LOOKED in text for text in texts):
            print("nobody has looked for leaks: once more", flush=True)
            status, texts = run_suite(folder / "reports-2", env, arguments)
            found = judge(status, texts)
    return status or bool(found)


if __name__ == "__main__":
    print(f"Python {sysconfig.get_python_version()}, {runtime('libasan.so')}", flush=True)
    sys.exit(main(sys.argv[1:]))
