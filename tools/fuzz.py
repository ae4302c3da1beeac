"""Fuzzes the C core (libFuzzer) and the boundary with Python (atheris), and keeps the corpora.

    python tools/fuzz.py run [--seconds N] [TARGET ...]   fuzz, and write the figures
    python tools/fuzz.py replay [TARGET ...]      the C targets' corpora under gcc's sanitizers
    python tools/fuzz.py coverage [TARGET ...]    lines of C that the corpora reach, by gcov
    python tools/fuzz.py minimise [TARGET ...]    merge what was found into fuzz/corpus, which has a
                                                  line of hexadecimal digits for each input
    python tools/fuzz.py build [TARGET ...]       only build

Targets are those of fuzz/core (tensor, copy, hold, text, sync) and `boundary`. Everything that is
built or found lies in build/fuzz. The C targets need clang, `replay` and `coverage` gcc; `boundary`
needs atheris and setuptools in the running interpreter. Each run begins with a planted fault, which
must be found, else it proves nothing. `run` exits with 1 if anything was found.
tests/fuzzing replays all corpora in the usual test run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FUZZ, WORK = ROOT / "fuzz", ROOT / "build" / "fuzz"
CORE = tuple(sorted(path.stem.removeprefix("fuzz_") for path in FUZZ.glob("core/fuzz_*.c")))
TARGETS = (*CORE, "boundary")
SOURCES = [*sorted(ROOT.glob("src/core/*.c")), ROOT / "src" / "gpu" / "sync_rules.c"]
SANITIZE = "-fsanitize=address,undefined"
CHECKS = [SANITIZE, "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer", "-g", "-O1"]
WARNINGS = ["-std=c11", "-Wall", "-Wextra"]
MOST_BYTES = 512  # of an input

#: (target, file, what is replaced, by what): each must be found within PLANTED_SECONDS.
PLANTED = {
    "tensor": ("core/tensor.c", "scan->negative || (negative && steps)", "scan->negative"),
    "copy": ("core/copy.c", "outer->step == full", "outer->step >= full"),
    "hold": ("core/hold.c", "memory_order_acq_rel) != 1", "memory_order_acq_rel) != 2"),
    "text": ("core/dtype.c", "row->bits / 8 == itemsize", "row->bits == 8 * (uint64_t)itemsize"),
    "sync": ("gpu/sync_rules.c", "return facts->p_captures;", "return false;"),
    "boundary": (
        "protocols/array_struct.c",
        "(inter->flags & ARRAY_STRUCT_WRITEABLE) == 0",
        "inter->flags == 0",
    ),
}
PLANTED_SECONDS = 60


def call(command: list[object], **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], text=True, **options)  # type: ignore


def build_core(target: str, *, planted: bool = False) -> Path:
    """A libFuzzer program of clang, with ASan, UBSan and the asserts."""
    out = WORK / "bin" / (f"{target}-planted" if planted else target)
    out.parent.mkdir(parents=True, exist_ok=True)
    include = ROOT / "src"
    sources = SOURCES
    if planted:
        include = planted_tree(target)
        sources = [include / path.relative_to(ROOT / "src") for path in SOURCES]
    command = ["clang", *WARNINGS, *CHECKS, SANITIZE.replace("=", "=fuzzer,"), f"-I{include}"]
    command += [f"-I{FUZZ / 'core'}", FUZZ / "core" / f"fuzz_{target}.c", *sources, "-o", out]
    call(command, check=True)
    return out


def planted_tree(target: str) -> Path:
    """A copy of src with this target's fault in it."""
    file, old, new = PLANTED[target]
    tree = WORK / "planted" / target
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(ROOT / "src", tree)
    text = (tree / file).read_text()
    if text.count(old) != 1:
        sys.exit(f"the planted fault of {target!r} does not fit: {old!r} is not once in {file}")
    (tree / file).write_text(text.replace(old, new))
    return tree


def build_boundary(*, planted: bool = False) -> Path:
    """The package, compiled for coverage into a folder of its own; a program that fuzzes it."""
    import atheris

    site = WORK / ("site-planted" if planted else "site")
    tree = WORK / "tree"
    for stale in (site, tree):
        shutil.rmtree(stale, ignore_errors=True)
    leave_out = shutil.ignore_patterns(".git", ".nox", "build", "dist", "*.so", "*.egg-info")
    shutil.copytree(ROOT, tree, ignore=leave_out)
    if planted:
        shutil.rmtree(tree / "src")
        shutil.copytree(planted_tree("boundary"), tree / "src")
    flags = [*CHECKS, SANITIZE.replace("=", "=fuzzer-no-link,")]
    env = {**os.environ, "CC": "clang", "LDSHARED": "clang -shared", "CFLAGS": " ".join(flags)}
    env |= {"LDFLAGS": flags[-1], "DLSHIM_ASSERT": "1"}
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    call([*command, "--no-build-isolation", "--target", site, tree], env=env, check=True)
    preload = Path(atheris.path(), "asan_with_fuzzer.so")
    program = WORK / "bin" / site.name
    words = ["env", f"LD_PRELOAD={preload}", f"PYTHONPATH={site}", "PYTHONMALLOC=malloc"]
    # CPython leaves memory at its end, and absurd sizes are among the inputs.
    words.append("ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1")
    words += [f"DLSHIM_FUZZ_PROGRAM={program}", sys.executable, "-X", "faulthandler"]
    words.append(str(FUZZ / "boundary" / "fuzz_boundary.py"))
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    program.chmod(0o755)
    return program


def build(target: str, *, planted: bool = False) -> list[object]:
    if target == "boundary":
        return [build_boundary(planted=planted)]
    return [build_core(target, planted=planted)]


# ---- fuzzing --------------------------------------------------------------------------------


def options(target: str, folder: Path) -> list[object]:
    limits = [f"-max_len={MOST_BYTES}", "-rss_limit_mb=6000", "-malloc_limit_mb=100000000"]
    return [*limits, "-print_final_stats=1", f"-artifact_prefix={folder}/"]


def find_planted(target: str) -> float:
    """Seconds until the fault that was planted is found, from the committed corpus on."""
    command = build(target, planted=True)
    folder = WORK / "planted-found" / target
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    began = time.monotonic()
    command += [*options(target, folder), f"-max_total_time={PLANTED_SECONDS}", "-seed=1"]
    call([*command, unpack(target)], capture_output=True)
    took = time.monotonic() - began
    if not (inputs := list(folder.iterdir())):
        sys.exit(f"{target}: the planted fault was not found: this run would prove nothing")
    # It is the planted fault and no other: without it, the same input passes.
    call([*build(target), *inputs], capture_output=True, check=True)
    return took


def fuzz(target: str, seconds: int) -> dict[str, object]:
    planted = find_planted(target)
    found, crashes = WORK / "found" / target, WORK / "crashes" / target
    for folder in (found, crashes):
        folder.mkdir(parents=True, exist_ok=True)
    command = [*build(target), *options(target, crashes), f"-max_total_time={seconds}"]
    began = time.monotonic()
    run = call([*command, found, unpack(target)], stderr=subprocess.PIPE)
    took = time.monotonic() - began
    numbers = dict(re.findall(r"stat::(\w+): +(\d+)", run.stderr))
    covered = re.findall(r"cov: (\d+) ft: (\d+) corp: (\d+)", run.stderr)
    places = sum(int(n) for n in re.findall(r"Loaded \d+ PC tables \((\d+) PCs\)", run.stderr))
    result: dict[str, object] = {
        "executions": int(numbers.get("number_of_executed_units", 0)),
        "seconds": round(took, 1),
        "edges_covered": int(covered[-1][0]) if covered else 0,
        "edges": places,
        "features": int(covered[-1][1]) if covered else 0,
        "corpus": int(covered[-1][2]) if covered else 0,
        "crashes": sorted(path.name for path in crashes.iterdir()),
        "planted_fault_found_after_seconds": round(planted, 1),
        "exit": run.returncode,
    }
    if run.returncode:
        print("\n".join(run.stderr.splitlines()[-60:]), file=sys.stderr)
    print(json.dumps({target: result}), flush=True)
    return result


def run_all(targets: list[str], seconds: int) -> int:
    results = {target: fuzz(target, seconds) for target in targets}
    report = WORK / "results.json"
    known = json.loads(report.read_text()) if report.exists() else {}
    report.write_text(json.dumps(known | results, indent=2) + "\n")
    print(f"written: {report}")
    return int(any(result["exit"] or result["crashes"] for result in results.values()))


def unpack(target: str) -> Path:
    """The committed corpus as a folder of files."""
    folder = WORK / "corpus" / target
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    packed = FUZZ / "corpus" / f"{target}.hex"
    for number, line in enumerate(packed.read_text().split() if packed.exists() else []):
        (folder / f"{number:04}").write_bytes(bytes.fromhex(line))
    return folder


def minimise(target: str) -> None:
    """The smallest inputs that together reach what all known ones reach."""
    merged, found = WORK / "merged" / target, WORK / "found" / target
    shutil.rmtree(merged, ignore_errors=True)
    for folder in (merged, found):
        folder.mkdir(parents=True, exist_ok=True)
    command = [*build(target), *options(target, WORK), "-merge=1", merged, unpack(target), found]
    call(command, check=True, stderr=subprocess.DEVNULL)
    inputs = sorted((path.read_bytes() for path in merged.iterdir()), key=lambda x: (len(x), x))
    if not inputs:
        sys.exit(f"{target}: nothing was merged")
    packed = FUZZ / "corpus" / f"{target}.hex"
    packed.write_text("".join(f"{one.hex() or '00'}\n" for one in inputs))
    print(f"{target}: {len(inputs)} inputs, {packed.stat().st_size} bytes")


# ---- replaying ------------------------------------------------------------------------------


def build_replay(target: str, folder: Path, *flags: str, cc: str = "gcc") -> Path:
    """The target with a plain main, by any compiler.  The objects of src are used again."""
    out = folder / f"replay-{target}"
    folder.mkdir(parents=True, exist_ok=True)
    command = [cc, *WARNINGS, *flags, f"-I{ROOT / 'src'}", f"-I{FUZZ / 'core'}"]
    objects = [folder / f"{path.stem}.o" for path in SOURCES]
    if not all(path.exists() for path in objects):
        # One at a time, and by name: that is what zig does for Windows.
        for source, made in zip(SOURCES, objects, strict=True):
            call([*command, "-c", source, "-o", made], check=True, cwd=folder)
    sources = [FUZZ / "core" / name for name in ("replay.c", f"fuzz_{target}.c")]
    call([*command, *sources, *objects, "-o", out], check=True, cwd=folder)
    return out


def corpus_of(target: str) -> list[Path]:
    files = sorted(unpack(target).iterdir())
    if not files:
        sys.exit(f"no corpus of {target!r}")
    return files


def replay(targets: list[str]) -> None:
    """The corpora of the C targets under gcc's ASan and UBSan."""
    folder = WORK / "replay"
    shutil.rmtree(folder, ignore_errors=True)
    for target in (name for name in targets if name in CORE):
        program = build_replay(target, folder, *CHECKS)
        done = call([program, *corpus_of(target)], check=True, stdout=subprocess.PIPE)
        print(f"{target}: {done.stdout.strip()}", flush=True)


def coverage(targets: list[str]) -> None:
    """Lines of src/core and the sync rules that the corpora of the C targets reach, together."""
    folder = WORK / "coverage"
    shutil.rmtree(folder, ignore_errors=True)
    lines: dict[str, set[int]] = {}
    missed: dict[str, set[int]] = {}
    for target in (name for name in targets if name in CORE):
        place = folder / target
        program = build_replay(target, place, "--coverage", "-O0")
        call([program, *corpus_of(target)], check=True, capture_output=True)
        notes = sorted(place.glob("*.gcda"))
        call(["gcov", "-r", "-s", ROOT, *notes], cwd=place, check=True, capture_output=True)
        for report in place.glob("*.c.gcov"):
            read_gcov(report, lines.setdefault(report.name, set()), missed)
    rows = {name: lines[name] for name in lines if name.startswith(tuple(p.name for p in SOURCES))}
    for name, reached in sorted(rows.items()):
        left = missed.get(name, set()) - reached
        print(f"{name.removesuffix('.gcov'):14} {len(reached)} of {len(reached) + len(left)} lines")
    total = sum(map(len, rows.values()))
    everything = total + sum(len(missed.get(name, set()) - rows[name]) for name in rows)
    print(f"{total} of {everything} lines, {100 * total / everything:.1f} %")


def read_gcov(report: Path, reached: set[int], missed: dict[str, set[int]]) -> None:
    for line in report.read_text().splitlines():
        count, number, *_ = (part.strip() for part in line.split(":", 2))
        if count.startswith("#####"):
            missed.setdefault(report.name, set()).add(int(number))
        elif count != "-":
            reached.add(int(number))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = ("run", "replay", "coverage", "minimise", "build")
    parser.add_argument("verb", choices=verbs)
    parser.add_argument("targets", nargs="*", default=TARGETS)
    parser.add_argument("--seconds", type=int, default=60, help="for each target of `run`")
    arguments = parser.parse_intermixed_args()
    if unknown := set(arguments.targets) - set(TARGETS):
        parser.error(f"no such targets: {sorted(unknown)}; there are {TARGETS}")
    print(f"Python {sysconfig.get_python_version()}, targets {[*arguments.targets]}", flush=True)
    if arguments.verb == "run":
        return run_all([*arguments.targets], arguments.seconds)
    if arguments.verb in ("coverage", "replay"):
        {"coverage": coverage, "replay": replay}[arguments.verb]([*arguments.targets])
        return 0
    for target in arguments.targets:
        {"build": build, "minimise": minimise}[arguments.verb](target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
