"""Tells ``run_checks`` which checks of each file are chosen, so that no child runs others."""

from __future__ import annotations

import pytest

from drivers import library


def pytest_collection_finish(session: pytest.Session) -> None:
    for item in session.items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        if str(params.get("name")).startswith("check_"):
            of_file = library.chosen.setdefault((params["variant"], str(item.path)), [])
            of_file.append(params["name"])
