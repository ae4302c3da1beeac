"""Options of the suite, and the one device that its tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gpu.device import SYSTEM, Device, NoDevice


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gpu", "tests on a real GPU")
    group.addoption("--gpu-results", metavar="FOLDER", help="write gpu-DATE.md there")
    driver = "the driver to load, where it is not the system's (a fake one of the kit)"
    group.addoption("--gpu-driver", metavar="FILE", default=SYSTEM, help=driver)


@pytest.fixture(scope="session")
def _device(request: pytest.FixtureRequest) -> Iterator[Device]:
    try:
        device = Device(request.config.getoption("--gpu-driver"))
    except NoDevice as reason:
        pytest.skip(str(reason))
    yield device
    folder = request.config.getoption("--gpu-results")
    if folder:
        device.write_results(folder, request.session)


@pytest.fixture
def gpu(_device: Device) -> Iterator[Device]:
    """Nothing runs on it, its context is current, and its words are 7."""
    _device.rest()
    yield _device
    _device.rest()
