"""One run of the matrix for all tests of this folder."""

from __future__ import annotations

import faulthandler
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from interop import report, runner
from interop.summary import Summary

#: By the beginning of its text: what bare exchanges warn of in the name of the code that asks, and
#: who does so.
BARE_WARNS = {
    "Exporting an unversioned DLPack capsule is deprecated": "PyArrow, where max_version is absent",
}


def pytest_collection_modifyitems(items):
    """A call of these tests or of dlshim that is deprecated is an error.  The matrix compares what
    upgraded exchanges warn of with the bare ones (test_matrix.py)."""
    bare = [f"ignore:{text}:DeprecationWarning" for text in BARE_WARNS]
    callers = r"error::DeprecationWarning:(tests|interop|dlshim)(\..*)?"
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(callers, *bare))


def pytest_addoption(parser):
    parser.addoption("--interop-report", metavar="FOLDER", help="write the rows of this one")


@dataclass
class Matrix:
    present: runner.Presence
    summary: Summary
    seconds: float


@pytest.fixture(scope="session")
def present() -> runner.Presence:
    return runner.presence()


@pytest.fixture(scope="session")
def matrix(present, request) -> Matrix:
    capture = request.config.pluginmanager.getplugin("capturemanager")
    # One test's time limit is not this run's: the runner itself ends workers that hang.
    faulthandler.cancel_dump_traceback_later()
    start = time.monotonic()
    with capture.global_and_fixture_disabled():
        summary = Summary(runner.run(runner.whole(present), log=runner.say))
    done = Matrix(present, summary, time.monotonic() - start)
    request.config.stash[KEY] = done
    path = request.config.getoption("--interop-report")
    if path:
        report.write(path, summary, present)
    return done


KEY = pytest.StashKey[Matrix]()


def pytest_terminal_summary(terminalreporter, config):
    done = config.stash.get(KEY, None)
    if done is None:
        return
    terminalreporter.section("interop matrix")
    names = ", ".join("%s %s" % item for item in done.present.producers.items())
    terminalreporter.write_line("producers: " + names)
    names = ", ".join("%s %s" % item for item in done.present.consumers.items())
    terminalreporter.write_line("consumers: " + names)
    for who, why in sorted(done.present.absent.items()):
        terminalreporter.write_line("not here: %s: %s" % (who, why))
    for shim, name in report.SHIMS.items():
        if done.summary.shim(shim):
            counts = done.summary.counts(shim)
            text = ", ".join("%s %d" % item for item in counts.items() if item[1])
            terminalreporter.write_line("through %s: %s" % (name, text))
    terminalreporter.write_line("%d s" % done.seconds)
