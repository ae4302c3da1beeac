"""A plug-in of pytest: the files that take the fewest seconds run first, so that -x ends sooner.

mutant_matrix.py gives the path of a JSON file, VARIABLE, which has the seconds of each file.  The
first run in which nothing fails writes it.  A file of tests that it does not name comes last.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

VARIABLE = "DLSHIM_SECONDS_OF_FILES"
NEVER_SEEN = float("inf")

spent = Counter[str]()


def known() -> dict[str, float]:
    path = Path(os.environ[VARIABLE])
    return json.loads(path.read_text()) if path.exists() else {}


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    seconds = known()
    items.sort(key=lambda item: seconds.get(file_of(item.nodeid), NEVER_SEEN))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    spent[file_of(report.nodeid)] += report.duration


def pytest_sessionfinish(exitstatus: int) -> None:
    if exitstatus == 0 and not known():
        Path(os.environ[VARIABLE]).write_text(json.dumps(spent))
