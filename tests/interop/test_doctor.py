"""What `python -m dlshim doctor` expects of the installed libraries, and what comes of it.

Ordinary arrays are really exchanged between each two libraries, bare and upgraded.
"""

from __future__ import annotations

from typing import Any

import pytest

from dlshim.cli import doctor
from dlshim.libraries import installed_versions
from dlshim.matrix import pairs, run


@pytest.fixture(scope="module")
def report() -> pairs.Report:
    """The first array of each producer into each consumer."""
    versions = installed_versions()
    cells = [
        members[0]
        for members in pairs.by_pair(
            pairs.between_libraries(pairs.plan(versions, set(versions)))
        ).values()
        if members[0].exchange.producer.library != "ml_dtypes"
    ]
    return run.run(versions, cells, cost=False)


def told() -> dict[tuple[str, str], dict[str, Any]]:
    pairs: list[dict[str, Any]] = doctor.diagnose()["pairs"]
    return {(pair["from"], pair["into"]): pair for pair in pairs}


def test_what_doctor_expects_of_ordinary_arrays_is_what_comes_of_them(report) -> None:
    expected, wrong = told(), []
    if not report.cells:
        pytest.skip("no two libraries that the matrix knows")
    for cell in report.cells:
        source, into = cell.exchange.producer.label, cell.exchange.consumer.label
        pair = expected[source, into]
        if pair["bare"] not in (None, cell.works_bare):
            wrong.append((source, into, "bare", pair["bare"], cell.bare))
        # A limit may have fallen in a release before the one that the tables name.
        if pair["upgraded"] == "works" and not cell.works_upgraded:
            wrong.append((source, into, "upgraded", pair["upgraded"], cell.upgraded))
        if "=" in pair["upgraded"] and not (cell.works_upgraded or cell.works_with_option):
            wrong.append((source, into, "option", pair["upgraded"], cell.upgraded))
    assert wrong == []
