"""Options of the suite, the one device that its tests share, and the file of results."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

SETTINGS = {
    # Streams that share one of the few hardware queues would wait for each other's gates.
    "CUDA_DEVICE_MAX_CONNECTIONS": "32",
    # JAX would take three quarters of the device's memory.
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}


def is_late() -> bool:
    """Has a plug-in loaded CUDA's driver, which reads its settings once?"""
    try:
        mapped = Path("/proc/self/maps").read_text()
    except OSError:
        return False
    missing = os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS") != "32"
    return missing and "/libcuda.so" in mapped


LATE = is_late()
os.environ.update(SETTINGS)

from gpu.device import SYSTEM, Device, NoDevice  # noqa: E402

_DEVICE = pytest.StashKey[Device]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gpu", "tests on a real GPU")
    group.addoption(
        "--gpu-results", metavar="FOLDER", default=".", help="where dlshim-gpu-DATE.md is written"
    )
    driver = "the driver to load, where it is not the system's (a fake one of the kit)"
    group.addoption("--gpu-driver", metavar="FILE", default=SYSTEM, help=driver)


@pytest.fixture(scope="session")
def _device(request: pytest.FixtureRequest) -> Iterator[Device]:
    if LATE:
        pytest.fail("a plug-in of pytest has loaded CUDA before its settings: `python tests/gpu`")
    try:
        device = Device(request.config.getoption("--gpu-driver"))
    except NoDevice as reason:
        pytest.skip(str(reason))
    request.config.stash[_DEVICE] = device
    yield device


@pytest.fixture
def gpu(_device: Device) -> Iterator[Device]:
    """Nothing runs on it, its context is current, and its words are 7."""
    _device.rest()
    yield _device
    _device.rest()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    device = config.stash.get(_DEVICE, None)
    if device is None:
        return
    name = f"dlshim-gpu-{datetime.date.today().isoformat()}.md"
    path = Path(config.getoption("--gpu-results"), name).resolve()
    path.write_text(device.results(terminalreporter.stats), encoding="utf-8")
    terminalreporter.write_line(f"the one file to send: {path}")
