"""A pytest plugin for the child process that runs one suite; what it shall do is in DLSHIM_SUITE.

``bare`` leaves the suite as it is. ``upgraded`` and ``translated`` put `dlshim.upgrade` around
every object that its test files exchange; ``translated`` also switches handing on off. Tests keep
their places and their assertions: the files are rewritten where pytest rewrites their asserts.
What each test came to, and how far dlshim's counters moved, is written down as JSON.

The folder of this file is on the path of the child, so nothing here is imported as a package.
"""

from __future__ import annotations

import ast
import builtins
import json
import os
import re
from pathlib import Path
from typing import Any

import adapter
import pytest
from _pytest.assertion import rewrite

import dlshim._core as core

order: dict[str, Any] = json.loads(os.environ["DLSHIM_SUITE"])
files: dict[str, str] = {}  # node id -> the name of its file
outcomes: dict[str, str] = {}
reasons: dict[str, str] = {}
tally = adapter.Tally()


def offers_dlpack(obj: Any) -> bool:
    return type(obj).__name__ == "PyCapsule" or hasattr(obj, "__dlpack__")


def upgraded(obj: Any) -> Any:
    """What offers no DLPack is passed as it is, so that the library's own error is tested."""
    return tally.upgrade(obj) if offers_dlpack(obj) else obj


def rewrite_upgraded(tree: ast.Module, source: bytes, path: str | None = None, *more: Any) -> None:
    if path is not None and Path(path).name in order["files"]:
        put = adapter.PutUpgradeIn(order["taking"])
        put.visit(tree)
        ast.fix_missing_locations(tree)
        tally.places += put.places
    rewrite_asserts(tree, source, path, *more)


rewrite_asserts = rewrite.rewrite_asserts
if order["mode"] != "bare":
    setattr(builtins, adapter.UPGRADE, upgraded)
    rewrite.rewrite_asserts = rewrite_upgraded
    core._hook("hand_on", order["mode"] == "upgraded")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Node ids of an installed package leave the file out."""
    files.update((item.nodeid, item.path.stem) for item in items)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test has passed when its call has, and nothing before or after it failed."""
    test = f"{files[report.nodeid]}::{report.nodeid.partition('::')[2]}"
    if report.failed:
        outcomes[test] = "failed"
        crash = getattr(report.longrepr, "reprcrash", None)
        text = " ".join(str(crash or report.longrepr).split())
        reasons.setdefault(test, re.sub(r"/\S*/(\w+\.py)\b", r"\1", text)[:300])
    elif report.skipped:
        outcomes.setdefault(test, "skipped")
    elif report.when == "call":
        outcomes.setdefault(test, "passed")


def pytest_sessionfinish(session: pytest.Session) -> None:
    counters = core._counters()
    counts = {name: counters[name] for name in ("translated", "handed_on", "copied")}
    counts |= {"places": tally.places, "upgraded": tally.upgraded}
    told = {"outcomes": outcomes, "reasons": reasons, "counts": counts}
    Path(order["results"]).write_text(json.dumps(told, indent=1))
