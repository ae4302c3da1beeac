"""Runs checks, here or in a process of their own, and reports what came out.

A child process imports the library once, is told one check at a time and answers with a line of
JSON.  Where it dies, the check that it was at is the finding, and another child does the rest.
"""

from __future__ import annotations

import collections
import contextlib
import importlib
import itertools
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from . import drivers, rules
from .catalogue import (
    CRASH,
    ERROR,
    HANG,
    NA,
    PASS,
    Check,
    Finding,
    TargetError,
    finding,
    level_of,
    outcome,
)
from .every import checks, select
from .partner import Consumer, Producer, consumer_of, producer_of, said

CRASHES = 2  # of one rule in one case; what else is like it is not run any more
OF_A_RULE = 6  # crashes of one rule, of which nothing else is run then
OF_A_TARGET = 40  # crashes of one target, of which nothing else is run then
MANY = 20  # checks that are skipped for one reason, which is told then
HANGS = 3  # of one target, of which nothing else is run then
TIMEOUT = 120.0  # seconds that one check, or the import of a library, may take
GRACE = 10.0  # seconds in which a child ends by itself
WRITTEN = 12  # lines that are shown of what a child wrote before it ended
#: What a child says that it is at before the first check (`worker`).
DOING = {
    "import": "the target was imported",
    "claims": "the target was asked what it claims, by its first export or import; "
    "--dlpack-claims 2023.12 (pytest) or --claims 2023.12 (python -m) goes on with the checks",
}


def seconds(text: str | float) -> float:
    """The limit of one check; a number above zero."""
    with contextlib.suppress(ValueError):
        if 0 < (found := float(text)) < threading.TIMEOUT_MAX:
            return found
    raise ValueError(f"{text!r} is no number of seconds above 0")


def why_not_written(file: Path) -> str:
    """Why a file cannot be written; nothing where it can.  The file is left as it is."""
    if file.is_dir():
        return "it is a directory"
    if file.exists():
        return "" if os.access(file, os.W_OK) else "it may not be written"
    if not file.parent.is_dir():
        return f"there is no directory {file.parent}"
    return "" if os.access(file.parent, os.W_OK) else f"{file.parent} may not be written"


class Report(NamedTuple):
    side: str
    target: str
    claims: str
    findings: list[Finding]
    known: Sequence[str] = ()
    """The names of those checks that are listed as known failures."""
    complete: bool = True
    """Whether the run came to its end; one that did not says nothing about conformance."""

    @property
    def failed(self) -> list[Finding]:
        """What breaks a MUST, or crashes."""
        return [each for each in self.findings if each.failed]

    @property
    def wrong(self) -> list[Finding]:
        return [each for each in self.findings if each.wrong]

    @property
    def errors(self) -> list[Finding]:
        """Checks that failed themselves: they found nothing out."""
        return [each for each in self.findings if each.status == ERROR]

    def count(self, status: str) -> int:
        return sum(each.status == status for each in self.findings)

    def __bool__(self) -> bool:
        """Whether nothing fails but what is known."""
        return all(each.check in self.known for each in [*self.failed, *self.errors])

    @property
    def verdict(self) -> str:
        if not self:
            return "does not conform"
        if not self.complete:
            return "the run ended before its last check: nothing is said about the whole"
        held = "conforms but for known failures" if self.failed or self.errors else "conforms"
        every = {each.rule for each in self.findings}
        count = len(self.not_judged)
        return f"{held}; {count} of {len(every)} rules not judged" if count else held

    @property
    def not_judged(self) -> list[str]:
        """The rules of which no check applies."""
        judged = {each.rule for each in self.findings if each.status != NA}
        return [name for name in dict.fromkeys(e.rule for e in self.findings) if name not in judged]

    def __str__(self) -> str:
        return "\n".join([badge(self), *(f"  {line}" for line in rows(self))])


def badge(report: Report) -> str:
    """One line: what was checked, and how much of it holds, level by level."""
    parts = [f"DLPack {report.side} {report.target}", f"claims {report.claims}"]
    for level in (*rules.LEVELS, "noted"):
        judged = [e for e in report.findings if e.level == level and e.status not in (NA, ERROR)]
        if judged:
            held = sum(each.status == PASS for each in judged)
            known = sum(each.wrong and each.check in report.known for each in judged)
            parts.append(f"{level} {held}/{len(judged)}" + (f" ({known} known)" if known else ""))
    parts.append(f"{report.count(NA)} not applicable")
    if crashes := report.count(CRASH):
        parts.append(f"{crashes} CRASH")
    if hangs := report.count(HANG):
        parts.append(f"{hangs} HANG")
    if report.errors:
        parts.append(f"{len(report.errors)} checks failed themselves")
    if report.count(NA) == len(report.findings):
        why = {each.evidence for each in report.findings}
        told = [f"nothing was checked: {why.pop()}" if len(why) == 1 else "nothing was checked"]
        return " | ".join([*parts, *told])
    return " | ".join([*parts, report.verdict])


def broken(report: Report) -> list[tuple[str, list[Finding]]]:
    """The rules that are broken: the level, or how the process ended, and the checks that fail."""
    groups: dict[tuple[str, str], list[Finding]] = collections.defaultdict(list)
    for each in [*report.wrong, *report.errors]:
        ended = each.status.upper() if each.status in (CRASH, HANG) else each.level
        ended = f"known {ended}" if each.check in report.known else ended
        groups[ended, each.rule].append(each)
    return [(level, group) for (level, _), group in groups.items()]


def rows(report: Report) -> Iterator[str]:
    """One line for each rule that is broken, with the first piece of evidence."""
    for level, group in broken(report):
        first = group[0]
        more = f" (and {len(group) - 1} more)" if len(group) > 1 else ""
        yield f"{level} {first.check}: {first.evidence}{more}"
        if first.quote:
            yield f'    {first.source}: "{first.quote}"'
    yield from skipped(report)


def skipped(report: Report) -> Iterator[str]:
    """Why rules were not judged, or many checks not run; one line for each reason."""
    groups: dict[str, list[Finding]] = collections.defaultdict(list)
    rest = {*report.not_judged}
    for each in report.findings:
        if each.status == NA:
            groups[each.evidence].append(each)
    if len(groups) == 1 and report.count(NA) == len(report.findings):
        return  # the badge says it
    for reason, group in sorted(groups.items(), key=lambda pair: -len(pair[1])):
        named = list(dict.fromkeys(each.rule for each in group if each.rule in rest))
        rest -= {*named}
        if named or len(group) >= MANY:
            of = f"; no check of {', '.join(named)} was run" if named else ""
            yield f"not applicable {len(group)}: {reason}{of}"


class Runner(Protocol):
    claims: str

    def run(self, one: Check) -> Finding: ...

    def close(self) -> None: ...


class Here:
    """Runs checks in this process: a crash ends it."""

    def __init__(self, partner: Producer | Consumer) -> None:
        self.partner = partner
        self.claims = partner.claims

    def run(self, one: Check) -> Finding:
        return outcome(one, self.partner)

    def close(self) -> None:
        pass


class Nowhere:
    """Runs nothing: the fake driver that was named cannot be built."""

    def __init__(self, claims: str, reason: str) -> None:
        self.claims, self.reason = claims, reason

    def run(self, one: Check) -> Finding:
        return finding(one, one.rule.level, NA, self.reason)

    def close(self) -> None:
        pass


def search_path() -> list[str]:
    """Where a child looks for modules: where this process does, in this order, so that it checks
    the same copy of a library; the kit's own folder comes last."""
    paths = [*filter(None, sys.path), str(Path(__file__).resolve().parents[1])]
    return list(dict.fromkeys(paths))


def before_c_stack(lines: list[str]) -> list[str]:
    """What a child wrote, without that with which faulthandler ends: long lists of C code."""
    ends = ("Current thread's C stack trace", "Extension modules:")
    return list(itertools.takewhile(lambda line: not line.startswith(ends), lines))


class Elsewhere:
    """Runs checks in a child process, and in another one after a crash."""

    def __init__(self, side: str, target: str, claims: str = "", **options: Any) -> None:
        self.side, self.target = side, target
        if driver := options.pop("driver", ""):
            options["driver"] = (driver, str(drivers.built(driver)))
        self._limit = seconds(options.pop("timeout", TIMEOUT))
        self._options = {"claims": claims, "timeout": self._limit} | options
        self._options["start"] = max(TIMEOUT, self._limit)
        self._child: subprocess.Popen[bytes] | None = None
        self._said: Any = None
        self._hangs = False
        """Whether the child has not answered in time."""
        self._hung = 0
        self._crashed: collections.Counter[str] = collections.Counter()
        """Crashes by the rule with the first word of the case, by the rule, and of all ("")."""
        self.claims = ""
        self._begin()

    def _begin(self) -> None:
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join(search_path())
        # Python's allocator then looks whether its lock is held, and marks what was freed.
        environment.setdefault("PYTHONMALLOC", "debug")
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        self._child = subprocess.Popen(
            [sys.executable, "-m", "dlshim_testing.worker", self.side, self.target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env=environment,
            bufsize=0,  # several lines may come at once, and select() sees no buffer
        )
        self._send(self._options)
        doing, answer = "its process began", self._answer(self._options["start"])
        while answer and "at" in answer:
            doing, answer = DOING[answer["at"]], self._answer(self._limit)
        if answer is None or "error" in answer:
            text = answer["error"] if answer else self._failed_start(doing)
            self.close()
            raise TargetError(f"{self.target}: {text}")
        self.claims = self._options["claims"] = answer["claims"]

    def _failed_start(self, doing: str) -> str:
        """What happened while the target was got ready, and what the process wrote last."""
        words = self._last_words()
        written = [] if self._hangs else self._written()
        lines = [line for line in before_c_stack(written) if "<frozen " not in line][-WRITTEN:]
        wrote = ["The last that it wrote:", *(f"  {line}" for line in lines)] if lines else []
        return "\n".join([f"{words}, while {doing}", *wrote])

    def _send(self, message: Any) -> None:
        assert self._child and self._child.stdin
        with contextlib.suppress(BrokenPipeError):
            self._child.stdin.write(json.dumps(message).encode() + b"\n")
            self._child.stdin.flush()

    def _answer(self, limit: float) -> Any:
        """What the child says; None where it died or hangs."""
        assert self._child and self._child.stdout
        with selectors.DefaultSelector() as selector:
            selector.register(self._child.stdout, selectors.EVENT_READ)
            self._hangs = not selector.select(limit)
        if self._hangs:
            return None
        line = self._child.stdout.readline()
        if line.endswith(b"\n"):
            return json.loads(line)
        # A child that hangs ends by itself, which may be seen before the limit is.
        written = self._written()
        self._hangs = self._child.returncode == 1 and any(
            each.startswith("Timeout (") for each in written
        )
        return None

    def _written(self) -> list[str]:
        """The lines that the child wrote on stdout and stderr; it has ended."""
        assert self._child
        self._child.wait()
        self._said.seek(0)
        text = self._said.read().decode(errors="replace")
        return [line[:200] for line in text.splitlines() if line.strip()]

    def _last_words(self) -> str:
        """How the child ended, or where it hangs; there is no child afterwards."""
        assert self._child
        if self._hangs:
            return f"no answer within {self._limit:g} seconds{self._where()}"
        code = self._child.wait()
        try:
            ended = f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
        except ValueError:
            ended = f"by signal {-code}"
        lines = self._written()
        words = [line for line in lines if "Fatal Python" in line or "terminate" in line]
        return " ".join(["the process ended", ended, *(words[:1] or lines[-1:])])[:300]

    def _where(self) -> str:
        """The line of Python at which the child hung: it writes it down, and ends (`worker`)."""
        assert self._child
        try:
            self._child.wait(GRACE)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._said.seek(0)
        stacks = self._said.read().decode(errors="replace").split("(most recent call first):\n")
        mine = [stack for stack in stacks[1:] if "dlshim_testing" in stack]
        return f": {mine[-1].splitlines()[0].strip()}" if mine else ""

    def run(self, one: Check) -> Finding:
        level = level_of(one.rule, self.claims)
        for what, name, limit in (
            ("the target", "", OF_A_TARGET),
            ("the rule", one.rule.name, OF_A_RULE),
            ("the like of it", one.group, CRASHES),
        ):
            if self._crashed[name] >= limit:
                return finding(one, level, NA, f"not run: {what} crashed {limit} times")
        if self._hung >= HANGS:
            return finding(one, level, NA, f"not run: the target hung {HANGS} times")
        if self._child is None:
            self._begin()
        self._send(one.name)
        answer = self._answer(self._limit)
        if answer is not None and "error" in answer:
            raise TargetError(f"{self.target}: {answer['error']}")
        if answer is not None:
            return Finding(**answer)
        words = self._last_words()
        self.close()
        if self._hangs:
            self._hung += 1
            last = "; nothing else of this target is run" if self._hung == HANGS else ""
            return finding(one, level, HANG, words + last)
        # A rule of one check alone has no group of another name.
        self._crashed.update({"", one.rule.name, one.group})
        if self._crashed[""] == OF_A_TARGET:
            words += "; nothing else of this target is run"
        return finding(one, level, CRASH, words)

    def close(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        assert child.stdin and child.stdout
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()
        try:
            child.wait(GRACE)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stdout.close()
        self._said.close()


def named(target: Any) -> str:
    """``module:name`` of what can be imported under that name."""
    if isinstance(target, str):
        return target
    module, name = getattr(target, "__module__", None), getattr(target, "__qualname__", "")
    try:
        found: Any = importlib.import_module(module or "")
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError):
        found = None
    if found is not target:
        raise ValueError(
            f"{target!r} cannot be imported by name in a process of its own: "
            'pass "module:name", or isolate=False'
        )
    return f"{module}:{name}"


#: What a process of its own can be told; everything else belongs to the target.
TOLD = ("driver", "dtypes", "own", "timeout", "wants")


def runner(side: str, target: Any, isolate: bool, claims: str, **options: Any) -> Runner:
    """What runs the checks; TargetError where the target cannot be loaded."""
    options = {name: value for name, value in options.items() if value}
    rules.edition(claims)
    if driver := options.get("driver"):
        if not isolate:
            raise ValueError("a fake driver needs a process of its own: pass isolate=True")
        drivers.named(driver)
        try:
            drivers.built(driver)
        except drivers.Unavailable as why:
            return Nowhere(claims or "nothing", str(why))
    if isolate:
        if others := sorted(options.keys() - set(TOLD)):
            kind = side.capitalize()
            raise TypeError(
                f"a process of its own cannot be passed {', '.join(others)}: make a {kind} with "
                "them that can be imported by name, or pass isolate=False"
            )
        return Elsewhere(side, named(target), claims, **options)
    if "timeout" in options:
        raise ValueError("a limit of time needs a process of its own: pass isolate=True")
    partner_of: Callable[..., Any] = producer_of if side == "producer" else consumer_of
    try:
        return Here(partner_of(target, claims=claims, **options))
    except Exception as error:
        if not isinstance(target, str):
            raise
        raise TargetError(f"{target}: {said(error)}") from error


#: Told how many checks were run, of how many, and what they found.
Progress = Callable[[int, int, list[Finding]], None]


def _report(
    side: str, target: Any, pattern: str, chosen: Runner, progress: Progress | None = None
) -> Report:
    every, found = list(select(side, pattern)), []
    try:
        for one in every:
            found.append(chosen.run(one))
            if progress:
                progress(len(found), len(every), found)
    finally:
        chosen.close()
    shown = target if isinstance(target, str) else getattr(target, "__qualname__", repr(target))
    return Report(side, shown, chosen.claims, found)


def check_producer(
    make: Any, *, claims: str = "", only: str = "", isolate: bool = False, **options: Any
) -> Report:
    """Runs the checks of a producer on the arrays that ``make(shape, dtype)`` gives.

    ``make`` is a function, a `Producer`, or the name of either as ``"module:name"``.  With
    ``isolate=True`` the checks run in a process of their own, and a crash is a finding; the
    function must then be importable by name.  ``claims`` is the edition of the array API that the
    library claims, by default what its namespace says.  ``only`` is a regular expression for names
    of checks.  ``driver`` names a fake driver (such as "13.0" or "hip6") for arrays of a device;
    it needs ``isolate=True`` and a C compiler.  ``timeout`` is what one check may take in a process
    of its own, 120 seconds where nothing is said.  ``progress(done, of, findings)`` is called after
    each check.  Further options are those of `Producer`.
    """
    progress = options.pop("progress", None)
    chosen = runner("producer", make, isolate, claims, **options)
    return _report("producer", make, only, chosen, progress)


def check_consumer(
    consume: Any, *, claims: str = "", only: str = "", isolate: bool = False, **options: Any
) -> Report:
    """Runs the checks of a consumer on the function ``consume(x)``; see `check_producer`."""
    progress = options.pop("progress", None)
    chosen = runner("consumer", consume, isolate, claims, **options)
    return _report("consumer", consume, only, chosen, progress)


__all__ = [
    "Elsewhere",
    "Here",
    "Report",
    "TargetError",
    "badge",
    "check_consumer",
    "check_producer",
    "checks",
]
