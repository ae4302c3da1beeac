"""The core suite runs twice, with and without handing-on, and closes the books after each test.

Without handing-on every exchange is translated (``_core._hook("hand_on", False)``), so that
the fast path and the exchange in full cannot drift apart.  Tests to which this makes no
difference are marked ``once``.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from dlshim import _core
from doubles import capsules as caps


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("dlshim")
    group.addoption(
        "--hand-on",
        choices=("both", "on", "off"),
        default="both",
        help="run the core suite with handing-on switched on, off, or both ways (default)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "once: handing-on makes no difference to this test")


MODES = {"on": [True], "off": [False], "both": [True, False]}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "hand_on" not in metafunc.fixturenames:
        return
    modes = MODES[metafunc.config.getoption("--hand-on")]
    if metafunc.definition.get_closest_marker("once"):
        modes = modes[:1]
    names = {True: "hand-on", False: "translate"}
    metafunc.parametrize(
        "hand_on", modes, ids=[names[m] for m in modes], indirect=True, scope="session"
    )


@pytest.fixture(scope="session")
def hand_on(request: pytest.FixtureRequest) -> bool:
    """Whether this run may hand a producer's own capsule on."""
    return request.param


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> object:
    report = yield
    if report.when == "call":
        item.stash[_passed] = report.passed
    return report


_passed = pytest.StashKey[bool]()


def _live() -> int:
    return _core._counters()["live"]


@pytest.fixture(autouse=True)
def books(request: pytest.FixtureRequest, hand_on: bool) -> Iterator[None]:
    """Nothing learned from other tests; afterwards nothing open, nothing freed twice."""
    _core._hook("forget_plans")
    _core._hook("hand_on", hand_on)
    _core._hook("fallback", False)
    before = _live()
    yield
    _core._hook("hand_on", True)
    _core._hook("fallback", False)
    _core._hook("fail_alloc", -1)
    if not request.node.stash.get(_passed, False):
        caps.write_off()  # a failure's traceback keeps its locals alive
        return
    if caps.accounts() or _live() != before:
        gc.collect()
    wrong, live = caps.accounts(), _live()
    caps.close_accounts()
    assert not wrong, wrong
    assert live <= before, f"{live - before} exports of dlshim are still alive"
