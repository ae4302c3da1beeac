"""Which suites notice faults that are drawn at random: a table of mutant x suite.

    python tools/mutant_matrix.py run TABLE       600 mutants; what TABLE has is not run again
    python tools/mutant_matrix.py summary TABLE   who notices what, and who is never among the few

A test that is never among the few that notice anything may be an echo of others.  The faults are
drawn from src and shim (mutation.py), files by their size.  Each meets the sample first, which is
``python -m pytest``; where it is silent, each other suite of SUITES, file by file.  A failing test,
a crash, a hang, a warning of the compiler and a failing static_assert are each a way to notice.
A fault that changes no object counts for nothing.
All happens in a clone of the commit, which has the fault in its text, too; the package is built
as in mutants.py, in a folder that precedes the installed one.  Each suite is first run without a
fault, when it is needed, and then with the fault PLANTED, which it must notice.

``--suites core gpu`` names the suites that are asked where the sample is silent, and ``--suites``
alone asks none: a later run asks those that a mutant has not met.  ``--minutes 50`` ends cleanly;
``--piece 1/2`` and ``--piece 2/2`` share the work of one table; ``--whole`` lets the sample run to
its end, so that every file that notices is told, and not the first alone.
Needs git, gcc, and an environment with the installed package and its ``test`` extra.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import mutant_table
import mutation
import quickest_first
from mutant_table import ASSERTED, NOT_COMPILED, SAMPLE, Row
from mutants import FLAGS, ROOT, Build, Failed, compile_file
from mutation import Change

#: As a wheel has it: without asserts.
PLAIN = [*FLAGS, "-DNDEBUG"]
STRICT = [*PLAIN, "-Wall", "-Wextra", "-Wconversion", "-Werror"]
#: With a fault a run may take FACTOR times what it takes without one, and SECONDS more.
FACTOR, SECONDS = 4, 60
#: Bytes of address space that a process may have; one test copies more than four GiB.
MEMORY = 20 << 30
PYTEST = ["-m", "pytest", "-v", "-p", "no:cacheprovider", "--tb=no"]
#: This file judges the text of src, and not what src does.
PYTEST += ["--ignore=tests/device/test_mutants.py"]
SLOW = (
    "not one_screen and not test_layers and not test_rings and not test_wheel and not test_matrix"
)


class Suite(NamedTuple):
    """Files that are run apart, and with which words."""

    files: str
    words: tuple[str, ...] = ()


SUITES = {
    "core": Suite("tests/core/test_*.py"),
    "device": Suite("tests/device/test_*.py"),
    "columns": Suite("tests/columns/test_*.py"),
    "transcript": Suite("tests/transcript/test_*.py"),
    "kit": Suite("tests/kit/test_*.py"),
    "model": Suite("tests/model/test_*.py"),
    "fuzzing": Suite("tests/fuzzing/test_*.py"),
    "project": Suite("tests/project/test_*.py", ("-k", SLOW)),
    "gpu": Suite("tests/gpu/test_*.py", ("--gpu-driver={driver}",)),
    "objects": Suite("tests/objects/test_*.py"),
    "replays": Suite("tests/replays/test_*.py"),
    "cures": Suite("tests/cures/test_*.py"),
}
#: No suite passes: the module cannot be imported.
PLANTED = "src/module/module.c", rb"return PyModuleDef_Init\(&definition\);", b"return NULL;"
EMPTY = "runs nothing"
#: Seconds that a run without a fault, or with PLANTED, may take.
MOST = 3600


class Outcome(NamedTuple):
    how: str  # "" if nothing was noticed
    tests: list[str]  # the files that failed, where they are told
    seconds: float
    told: str = ""


class Bench:
    """A clone of the commit, its objects, and the runs of suites on it."""

    def __init__(self, folder: Path, known: Path, options: argparse.Namespace) -> None:
        self.folder, self.tree, self.options, self.file = folder, folder / "tree", options, known
        subprocess.run(["git", "clone", "-q", "--shared", str(ROOT), str(self.tree)], check=True)
        self.texts = {
            str(path.relative_to(self.tree)): path.read_bytes()
            for top, names in (("src", "*.[ch]"), ("shim", "*.py"))
            for path in sorted((self.tree / top).rglob(names))
        }
        line = ["git", "rev-parse", "HEAD:src", "HEAD:shim"]
        trees = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        self.known = {"trees": trees.split(), "seed": options.seed, "whole": options.whole}
        if known.exists():
            there = json.loads(known.read_text())
            if any(there[name] != value for name, value in self.known.items()):
                raise Failed(f"the table was begun otherwise ({known}): take another name")
            self.known = there
        #: What a suite takes without a fault, or why it is not asked.
        self.seconds: dict[str, float | str] = self.known.setdefault("seconds", {})
        self.proving = 0.0
        self.build = Build(folder, self.tree, PLAIN)
        import drivers  # mutants.py has shown where it is

        self.driver = drivers.build("13.0", folder / "drivers")
        # A folder of its own: among tools/ are names that tests import from elsewhere.
        self.plugins = folder / "plugins"
        self.plugins.mkdir()
        shutil.copy(quickest_first.__file__, self.plugins)
        file, old, new = PLANTED
        found = re.search(old, self.texts[file])
        if not found:
            raise Failed(f"{file} has no longer what PLANTED changes")
        self.clean = self.build.package("clean", {})
        self.planted, _ = self.package("planted", file, Change("", *found.span(), new))

    # --- suites ---

    def command(self, name: str) -> list[str]:
        """`name` is SAMPLE, or a suite and one of its files."""
        first = [] if self.options.whole else ["-x"]
        if name == SAMPLE:
            return [sys.executable, *PYTEST, *first, "-p", quickest_first.__name__]
        suite, _, file = name.partition(":")
        words = [word.format(driver=self.driver) for word in SUITES[suite].words]
        return [sys.executable, *PYTEST, file, *words]

    def names(self) -> list[str]:
        return [
            f"{name}:{path.relative_to(self.tree)}"
            for name in self.options.suites
            for path in sorted(self.tree.glob(SUITES[name].files))
            if path.name != "test_mutants.py"
        ]

    def run(self, name: str, site: Path, limit: float) -> Outcome:
        private = self.folder / "private"
        private.mkdir()
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(private)}
        env["PYTHONPATH"] = os.pathsep.join(map(str, (site, self.plugins)))
        env[quickest_first.VARIABLE] = str(self.folder / "seconds.json")
        begun, told = time.monotonic(), private / "told"
        with told.open("wb") as out:
            child = subprocess.Popen(self.command(name), cwd=self.tree, env=env, stdout=out,
                stderr=out, start_new_session=True, preexec_fn=limits)  # fmt: skip
        try:
            status: int | None = child.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        finally:  # what the run has left behind ends, too
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        text = told.read_text(errors="replace")
        shutil.rmtree(private, ignore_errors=True)
        found = re.findall(r"^(?:FAILED|ERROR) (tests/\S+?\.py)", text, re.M)
        how = {None: "hangs", 0: "", 1: "fails", 5: EMPTY}.get(status, "crashes")
        if status == 0 and not re.search(r"\d+ passed", text):
            how = EMPTY
        if how and not found:  # the last that began
            found = re.findall(r"^(tests/\S+?\.py)::", text, re.M)[-1:]
        return Outcome(how, sorted(set(found)), time.monotonic() - begun, text)

    def prove(self, name: str) -> float | str:
        clean = self.run(name, self.clean, MOST)
        if clean.how:
            print(clean.told[-3000:], flush=True)
            return f"{clean.how} without a fault"
        if not self.run(name, self.planted, MOST).how:
            return "does not notice that dlshim cannot be imported"
        return round(clean.seconds, 1)

    def limit(self, name: str) -> float:
        """The time limit; 0: it cannot be asked.  At first it has to prove itself."""
        if name not in self.seconds:
            begun = time.monotonic()
            self.seconds[name] = self.prove(name)
            self.proving += time.monotonic() - begun
            print(f"{name}: {self.seconds[name]}", flush=True)
            self.file.write_text(json.dumps(self.known, indent=1))
        seconds = self.seconds[name]
        if isinstance(seconds, float):
            return FACTOR * seconds + SECONDS
        if name == SAMPLE:
            raise Failed(f"the sample proves nothing: {seconds}")
        return 0

    # --- mutants ---

    @contextlib.contextmanager
    def changed(self, file: str, change: Change) -> Iterator[None]:
        path = self.tree / file
        path.write_bytes(change.apply(self.texts[file]))
        try:
            yield
        finally:
            path.write_bytes(self.texts[file])

    def is_as_before(self, file: str, made: Path) -> bool:
        return made.read_bytes() == self.build.object(file).read_bytes()

    def package(self, name: str, file: str, change: Change) -> tuple[Path, bool]:
        """The package with the mutant, and whether the compiler warns of it."""
        made = [] if file.startswith("shim/") else self.build.made_from(file.removeprefix("src/"))
        new = {each: self.folder / name / "objects" / f"{each}.o" for each in made}
        shutil.rmtree(self.folder / name, ignore_errors=True)

        def build(flags: list[str]) -> Path:
            for each in made:
                compile_file(self.tree / "src", each, new[each], flags)
            if made and all(map(self.is_as_before, made, new.values())):
                raise Failed("the text is left out by the preprocessor, or says the same")
            return self.build.package(name, new)

        with self.changed(file, change):
            with contextlib.suppress(Failed):
                return build(STRICT), False
            return build(PLAIN), True

    def judge(self, file: str, change: Change, names: list[str]) -> tuple[list[str], list[str]]:
        """What notices the mutant, and which files of the sample."""
        try:
            site, warned = self.package("mutant", file, change)
        except Failed as failure:
            return [ASSERTED if "static assertion failed" in str(failure) else NOT_COMPILED], []
        noticed = ["warnings"] if warned else []
        for name in names:
            if limit := self.limit(name):
                with self.changed(file, change):
                    seen = self.run(name, site, limit)
                if seen.how:
                    noticed.append(f"{name} {seen.how}")
                if seen.how and name == SAMPLE:
                    return noticed, seen.tests
        return noticed, []


def limits() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


# ---- the whole run -----------------------------------------------------------------------------


def meet(bench: Bench, number: int, file: str, change: Change, old: Row) -> Row:
    """The row of a mutant, after all that it has yet to meet; `old` may be empty."""
    names = mutant_table.missing(old, bench.names())
    if not names:
        return old
    begun, bench.proving = time.monotonic(), 0.0
    noticed, tests = bench.judge(file, change, names)
    spent = time.monotonic() - begun - bench.proving + float(old.get("seconds", 0))
    row = mutant_table.row_of(number, file, change, bench.texts[file])
    row["noticed"] = mutant_table.joined(old.get("noticed", ""), noticed, "; ")
    row["tests"] = mutant_table.joined(old.get("tests", ""), tests, " ")
    suites = [name.partition(":")[0] for name in names]
    row["asked"] = mutant_table.joined(old.get("asked", ""), suites, " ")
    row["seconds"] = f"{spent:.1f}"
    print(*row.values(), sep=" | ", flush=True)
    mutant_table.append(bench.options.table, row)
    return row


def run(options: argparse.Namespace) -> int:
    begun, table = time.monotonic(), options.table
    table.parent.mkdir(parents=True, exist_ok=True)
    piece, pieces = map(int, options.piece.split("/"))
    wanted, there = options.count // pieces, mutant_table.read(table)
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name).resolve(), table.with_suffix(".json"), options)
        for number, (file, change) in enumerate(mutation.draw(bench.texts, options.seed)):
            if wanted <= 0 or time.monotonic() - begun > 60 * options.minutes:
                break
            if number % pieces == piece - 1:
                row = meet(bench, number, file, change, there.get(number, {}))
                wanted -= row["noticed"] != NOT_COMPILED
    return mutant_table.summary(table)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("run", "summary"))
    parser.add_argument("table", type=Path)
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--piece", default="1/1")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument(
        "--suites", nargs="*", choices=SUITES, default=list(SUITES), metavar="SUITE"
    )
    options = parser.parse_args(arguments)
    try:
        return run(options) if options.what == "run" else mutant_table.summary(options.table)
    except Failed as failure:
        print(failure, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
