"""The table of stream rules (src/gpu/sync_rules.def), as the commands and the manual show it."""

from __future__ import annotations

from typing import NamedTuple

from ._core import _sync_rules


class Cell(NamedTuple):
    """The result for one producer and one value of ``stream``."""

    #: The value that the producer is passed; "-": nothing; "": the value is refused.
    passed: str
    #: The work of dlshim itself, or the error of the refusal; "": nothing.
    task: str

    def __str__(self) -> str:
        return " -> ".join(filter(None, self))


def cells(device: str) -> dict[str, dict[str, Cell]]:
    """Return producer -> value of ``stream`` -> result, for one family of devices."""
    table: dict[str, dict[str, Cell]] = {}
    for row in _sync_rules():
        if row["device"] == device:
            passed = "" if row["task"].endswith("Error") else row["passed"]
            task = "" if row["task"] == "-" else row["task"]
            table.setdefault(row["producer"], {})[row["stream"]] = Cell(passed, task)
    return table


def families() -> list[str]:
    """The families of devices that share rules, in the table's order."""
    return list(dict.fromkeys(row["device"] for row in _sync_rules()))
