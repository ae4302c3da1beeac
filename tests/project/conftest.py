"""What the tests of the source share."""

from __future__ import annotations

import pytest
from project.objects import Objects


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Objects:
    """The object files of src/."""
    return Objects(tmp_path_factory.mktemp("objects"))
