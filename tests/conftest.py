"""Runs a sample where nothing is named, as ``sampling`` chooses it; says so at the head."""

from __future__ import annotations

import gc
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import rebuilding
import sampling

_mode = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("dlshim")
    group.addoption("--all", action="store_true", help="run all cases of all folders, no sample")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # one process of pytest-xdist
        rebuilding.rebuild()
    config.stash[_mode] = mode = sampling.mode_of(config)
    os.environ.pop(sampling.VARIABLE, None)
    if mode == "sample":
        os.environ[sampling.VARIABLE] = "1"
        config.args = [each for each in config.args if Path(each).name in sampling.FOLDERS]


def pytest_report_header(config: pytest.Config) -> list[str]:
    found = importlib.util.find_spec("dlshim")
    tested = found.origin if found else "not installed"
    return [*sampling.head(config.stash[_mode]), f"dlshim: {tested}"]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """All tests that are made here stay: the garbage collector would only walk them, many times."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.stash[_mode] == "sample":
        kept = sampling.choose(items)
        chosen = set(kept)
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = kept


@pytest.fixture(scope="module", autouse=True)
def _others_are_not_walked() -> None:
    """What is collected, and what earlier modules left, need not be walked by each collection in a
    test: there are tests that collect often."""
    gc.collect()
    gc.freeze()
