"""Starts workers, gives them batches, restarts them after a crash, collects what came out."""

from __future__ import annotations

import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import cells, libraries, nanobind_modules, versions
from .worker import order

TESTS = Path(__file__).parents[1]

ENVIRONMENT = {
    # Freed memory is overwritten at once, so a dangling result shows other values.
    "MALLOC_PERTURB_": "165",
    "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    # Two workers share the machine; none of the arrays is large.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "",
    "PYTHONHASHSEED": "0",
}

SILENCE = 120.0
"""Seconds without progress after which a worker counts as hanging."""

CRASHES = 4
"""Upgraded cells: so many crashes in one batch and the rest of it is left out (and red)."""


@dataclass(frozen=True)
class Batch:
    producer: str
    consumer: str
    shim: str
    dtypes: tuple[str, ...] = ()
    """Empty: all."""


@dataclass
class Result:
    producer: str
    consumer: str
    shim: str
    dtype: str
    layout: str
    kind: str
    detail: str
    red: str
    row: str
    """The row of ``refusals`` that is expected; "" where the exchange should work."""
    refused_by: str
    writable: bool | None
    warned: Sequence[str] = ()
    """Category and text of each warning."""

    @property
    def works(self) -> bool:
        return self.kind in cells.WORKS

    @property
    def key(self) -> tuple[str, str, str, str]:
        return (self.producer, self.consumer, self.dtype, self.layout)


@dataclass
class Presence:
    """Which adapters can be used here, and why the others cannot."""

    producers: dict[str, str] = field(default_factory=dict)
    consumers: dict[str, str] = field(default_factory=dict)
    shims: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)


def presence() -> Presence:
    """Each adapter is tried in a child: some libraries cannot live beside others."""
    prepare()
    found = Presence()
    kinds = [("producers", libraries.PRODUCERS), ("consumers", libraries.CONSUMERS)]
    kinds.append(("shims", list(cells.SHIMS.values())))
    for kind, adapters in kinds:
        by_library: dict[str, list] = {}
        for adapter in adapters:
            by_library.setdefault(getattr(adapter, "library", adapter.name), []).append(adapter)
        for library, group in by_library.items():
            answers = ask(kind, [a.name for a in group], library)
            for adapter in group:
                problem = answers[adapter.name]
                if problem:
                    found.absent["%s %s" % (kind[:-1], adapter.name)] = problem
                else:
                    getattr(found, kind)[adapter.name] = versions.text(library) or ""
    return found


def ask(kind: str, names: list[str], library: str) -> dict[str, str]:
    if kind != "shims" and versions.text(library) is None:
        return dict.fromkeys(names, "%s is not installed" % library)
    code = "import sys; from interop import runner; runner.answer(*sys.argv[1:])"
    child = subprocess.run(
        [sys.executable, "-c", code, kind, *names],
        cwd=TESTS,
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=300,
    )
    try:
        return json.loads(child.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        last = (child.stderr.strip().splitlines() or [""])[-1]
        return dict.fromkeys(names, "ended with %d: %s" % (child.returncode, last))


def answer(kind: str, *names: str) -> None:
    """In the child: which of the adapters can be made."""
    from . import worker

    table = {"producers": worker.PRODUCERS, "consumers": worker.CONSUMERS, "shims": cells.SHIMS}
    out = {}
    for name in names:
        try:
            worker.adapter(table[kind][name])
            out[name] = ""
        except Exception as error:
            out[name] = "%s: %s" % (type(error).__name__, error)
    print("\n" + json.dumps(out), flush=True)
    os._exit(0)


def prepare() -> None:
    """Builds the nanobind modules, where nanobind belongs to the environment."""
    if versions.text("nanobind") is None:
        return
    # Looked for here and not in the threads: sysconfig's first use is not safe in several.
    absent = [g for g in nanobind_modules.RELEASES if not nanobind_modules.available(g)]
    for pair in (absent[:2], absent[2:]):
        threads = [threading.Thread(target=nanobind_modules.build, args=(g,)) for g in pair]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def run(batches: Iterable[Batch], *, workers: int | None = None, log=None) -> Iterator[Result]:
    """All results of all batches, in no particular order."""
    waiting: queue.Queue[Batch] = queue.Queue()
    for batch in batches:
        waiting.put(batch)
    total = waiting.qsize()
    out: queue.Queue = queue.Queue()
    count = workers or min(2, os.cpu_count() or 1)
    with tempfile.TemporaryDirectory(prefix="dlshim-interop-") as folder:
        threads = [
            threading.Thread(target=_Driver(waiting, out, Path(folder), n).main, daemon=True)
            for n in range(count)
        ]
        for thread in threads:
            thread.start()
        done = 0
        while done < total:
            item = out.get()
            if isinstance(item, BaseException):
                raise item
            done += 1
            if log is not None:
                log(done, total, item[0])
            yield from item[1]
        for thread in threads:
            thread.join()


class _Driver:
    """One worker process at a time, and what it said."""

    def __init__(self, waiting, out, folder: Path, number: int) -> None:
        self.waiting, self.out = waiting, out
        self.results = folder / ("results-%d" % number)
        self.progress = folder / ("progress-%d" % number)
        self.log = folder / ("log-%d" % number)
        self.child: subprocess.Popen | None = None

    def main(self) -> None:
        try:
            while True:
                try:
                    batch = self.waiting.get_nowait()
                except queue.Empty:
                    break
                self.out.put((batch, self.batch(batch)))
        except BaseException as error:
            self.out.put(error)
        finally:
            self.stop()

    def batch(self, batch: Batch) -> list[Result]:
        found: dict[int, list] = {}
        first, skip, crashes = 0, [], 0
        while True:
            self.results.write_bytes(b"")
            ended = self.serve(
                [batch.producer, batch.consumer, batch.shim, batch.dtypes, first, skip]
            )
            for line in self.results.read_text(encoding="utf-8").splitlines():
                number, *rest = json.loads(line)
                found[number] = rest
            if not ended:
                break
            number = int.from_bytes(self.progress.read_bytes()[:4], "little")
            if number >= len(order()):
                ended = "could not start: " + ended
                found[0] = [cells.CRASH, ended, ended, "", "", None]
                break
            found[number] = [ended.split(":")[0], ended, ended, "", "", None]
            first, crashes = number + 1, crashes + 1
            # A layout that has crashed is not tried again with the next element type.
            skip.append(order()[number][1].name)
            if crashes >= CRASHES and batch.shim != "bare":
                break
        cases = order()
        return [
            Result(
                batch.producer,
                batch.consumer,
                batch.shim,
                cases[number][0].name,
                cases[number][1].name,
                *rest,
            )
            for number, rest in sorted(found.items())
        ]

    def serve(self, task: list) -> str:
        """Has one batch run; returns "" or how the worker ended."""
        if self.child is None:
            self.start()
        child = self.child
        try:
            child.stdin.write(json.dumps(task) + "\n")
            child.stdin.flush()
        except BrokenPipeError:
            return self.buried()
        answered: list[str] = []
        reader = threading.Thread(target=self.read, args=(child, answered), daemon=True)
        reader.start()
        seen, since = b"", time.monotonic()
        while reader.is_alive():
            reader.join(timeout=5.0)
            now = self.progress.read_bytes()
            size = self.results.stat().st_size
            if (now, size) != seen:
                seen, since = (now, size), time.monotonic()
            elif time.monotonic() - since > SILENCE:
                child.kill()
                child.wait()
                self.child = None
                return "hang: after %d s" % SILENCE
        if not answered:
            return self.buried()
        word, *signal = answered[0].split()
        return "crash: signal %s%s" % (*signal, self.last_words()) if word == "died" else ""

    @staticmethod
    def read(child, answered) -> None:
        for line in child.stdout:
            if line.startswith(("done", "died")):
                answered.append(line)
                return

    def start(self) -> None:
        self.progress.write_bytes((2**32 - 1).to_bytes(8, "little"))
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(
                [sys.executable, "-m", "interop.worker", str(self.results), str(self.progress)],
                cwd=TESTS,
                env={**os.environ, **ENVIRONMENT},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def buried(self) -> str:
        code = self.child.wait()
        self.child = None
        ended = "signal %d" % -code if code < 0 else "exit status %d" % code
        return "crash: %s%s" % (ended, self.last_words())

    def last_words(self) -> str:
        """Where the worker was when it died, as far as it could tell."""
        text = self.log.read_text(encoding="utf-8", errors="replace")[-4000:]
        _, fatal, trace = text.rpartition("Fatal Python error")
        frames = [line.strip() for line in trace.splitlines() if line.startswith("  File")]
        if fatal and frames:
            return " in " + " < ".join(re.sub(r'File ".*/|",', "", f) for f in frames[:2])
        return "" if fatal else ": " + " ".join(text.split("\n")[-2:])[-200:]

    def stop(self) -> None:
        if self.child is not None:
            self.child.stdin.close()
            self.child.wait(timeout=60)
            self.child = None


# --- what a whole run is -------------------------------------------------------------------------

FEW = ("float32", "int8", "bool", "complex128", "bfloat16", "float8_e4m3fn")
"""One of every width and family, for what need not be run with every element type."""


def whole(present: Presence) -> list[Batch]:
    """Bare and upgraded in full; other shims where they are there."""
    pairs = [(p, c) for c in present.consumers for p in present.producers]
    peers = [peer.name for peer in cells.PEERS]
    shims = [shim for shim in ("bare", "upgraded", *peers) if shim in present.shims]
    batches = [Batch(p, c, shim) for p, c in pairs for shim in shims]
    batches += [Batch(p, c, "cured", FEW[:1]) for p, c in pairs]
    direct = {c.name for c in libraries.CONSUMERS if not c.buffer_first}
    return batches + [Batch(p, c, "tensor", FEW) for p, c in pairs if c in direct]


def say(done: int, total: int, batch: Batch) -> None:
    """One line that is written over, or one line in a hundred where that cannot be."""
    if sys.stderr.isatty():
        text = "%d/%d %s -> %s (%s)" % (done, total, batch.producer, batch.consumer, batch.shim)
        print("\r%-78.78s" % text, end="", file=sys.stderr, flush=True)
    elif done % 100 == 0 or done == total:
        print("interop: %d of %d batches" % (done, total), file=sys.stderr, flush=True)
