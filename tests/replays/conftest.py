"""Skips a replay, with the reason, where its libraries are not installed."""

from __future__ import annotations

import pytest

from replays.running import missing


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*requirements): the libraries that a replay is about")


@pytest.fixture(autouse=True)
def installed(request: pytest.FixtureRequest) -> None:
    for mark in request.node.iter_markers("needs"):
        for requirement in mark.args:
            if reason := missing(requirement):
                pytest.skip(reason)
