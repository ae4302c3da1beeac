from __future__ import annotations

import pytest

import dlshim._core as core

from .amendments import NUMPY, PYARROW

# What one test module did: the adapter's tally, and how far dlshim's counters moved meanwhile.
accounts: dict[str, dict[str, int]] = {}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "numpy: pyarrow's own mark for tests that use NumPy")


@pytest.fixture(params=["as-it-comes", "always-translated"])
def handing_on(request: pytest.FixtureRequest):
    """Both ways of giving a capsule, for the modules that load a suite into this process."""
    core._hook("hand_on", request.param == "as-it-comes")
    tally = request.module.tally
    before, upgraded = core._counters(), tally.upgraded
    yield
    after = core._counters()
    core._hook("hand_on", True)
    sums = accounts.setdefault(request.module.__name__.rpartition(".")[2], {})
    moved = {name: after[name] - before[name] for name in ("translated", "handed_on", "copied")}
    for name, count in {"upgraded": tally.upgraded - upgraded, **moved}.items():
        sums[name] = sums.get(name, 0) + count


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not accounts:
        return
    for suite, amendments in {"NumPy": NUMPY, "pyarrow": PYARROW}.items():
        terminalreporter.section(f"{suite}: {len(amendments)} expectations amended, because")
        for amendment in amendments:
            terminalreporter.write_line(f"- {amendment.reason}")
    terminalreporter.section("exchanges through dlshim")
    for module, sums in accounts.items():
        counts = ", ".join(f"{count} {name}" for name, count in sums.items())
        terminalreporter.write_line(f"{module}: {counts}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run in which dlshim did nothing proves nothing."""
    if not any(hasattr(getattr(item, "module", None), "tally") for item in session.items):
        return  # the suites of suites.toml have a test for it
    idle = [m for m, sums in accounts.items() if not (sums["upgraded"] and sums["translated"])]
    if idle or not accounts:
        print(f"\nno exchange was translated in: {', '.join(idle) or 'any module'}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
