"""What all tests of the kit share: bytecode for their child processes, and commands that wait."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit import hanging as commands
from kit.test_plugin import started


@pytest.fixture(autouse=True)
def _earlier_tests_are_not_walked() -> None:
    """The checks call the garbage collector thousands of times.  It does not walk what earlier
    tests left."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def bytecode() -> Iterator[None]:
    """Child processes, some 250, write bytecode: each would else compile the kit again, which is a
    fifth of the time of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        yield


@pytest.fixture(scope="session")
def hanging_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hanging")
    commands.write_targets(folder)
    return folder


@pytest.fixture(scope="session", autouse=True)
def hanging(request: pytest.FixtureRequest, bytecode: None, hanging_folder: Path) -> Iterator[Any]:
    """The processes, which begin with the first test of this folder: nobody waits for them but the
    tests at the end of test_targets.py."""
    wanted = {each.name for each in request.session.items} & {*commands.COMMANDS}
    children = {name: started(hanging_folder, *commands.COMMANDS[name]) for name in sorted(wanted)}
    yield children
    for child in children.values():
        child.kill()
        child.communicate()
