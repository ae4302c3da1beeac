"""The table of stream rules (``src/gpu/sync_rules.h``), as the commands and the manual show it."""

from __future__ import annotations

from ._core import _sync_rules


def cells(device: str) -> dict[str, dict[str, str]]:
    """producer -> value of ``stream`` -> what happens, for one family of devices."""
    table: dict[str, dict[str, str]] = {}
    for row in _sync_rules():
        if row["device"] == device:
            refused = row["task"].endswith("Error")
            task = "" if row["task"] == "-" else row["task"]
            cell = task if refused else " -> ".join(filter(None, (row["passed"], task)))
            table.setdefault(row["producer"], {})[row["stream"]] = cell
    return table


def families() -> list[str]:
    """The families of devices that share rules, in the table's order."""
    return list(dict.fromkeys(row["device"] for row in _sync_rules()))
