"""Finds the OpenCL device before anything imports dpctl, and gives the tests queues and arrays."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import pytest

from . import opencl_driver

if driver := opencl_driver.find():
    os.environ.setdefault(opencl_driver.VARIABLE, driver)

from dlshim import _core

from . import runtime

_passed = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    if report.when == "call":
        item.stash[_passed] = report.passed
    return report


@pytest.fixture(autouse=True)
def books(request: pytest.FixtureRequest) -> Iterator[None]:
    """Nothing learned from other tests; afterwards no export of dlshim's is alive."""
    _core._hook("forget_plans")
    gc.collect()
    before = _core._counters()["live"]
    yield
    gc.collect()
    if request.node.stash.get(_passed, False):  # a failure's traceback keeps its locals alive
        assert _core._counters()["live"] <= before


@pytest.fixture
def queue() -> runtime.Queue:
    return runtime.new_queue()


@pytest.fixture
def other_queue(queue: runtime.Queue) -> runtime.Queue:
    made = runtime.new_queue()
    assert made != queue
    return made


@pytest.fixture(params=runtime.KINDS_OF_MEMORY)
def kind(request: pytest.FixtureRequest) -> str:
    """USM memory: of the device, shared, of the host."""
    return request.param


@pytest.fixture
def gate(queue: runtime.Queue) -> Iterator[runtime.Gate]:
    with runtime.Gate(queue) as made:
        yield made


@pytest.hookimpl
def pytest_report_header() -> list[str]:
    names = ("dpctl", "dpnp", "numpy", "intel-opencl-rt")
    there = [d for d in names if next(iter(metadata.distributions(name=d)), None)]
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in there)
    devices = ", ".join(device.filter_string for device in runtime.dpctl.get_devices())
    return [f"oneAPI: {versions}; devices: {devices or 'none'}"]
