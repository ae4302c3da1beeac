"""Checks collect garbage often: what pytest has collected need not be walked each time."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
