"""Collects as `python -m pytest` does; prints all items and those that are chosen.

Its folder is the root of the repository.
"""

import json
import sys

import pytest

sys.path.insert(0, "tests")
import sampling


class Tells:
    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items):
        self.found = [sampling.function_of(item) for item in items]

    def pytest_collection_finish(self, session):
        self.chosen = [(item.nodeid, sampling.function_of(item)[0]) for item in session.items]


tells = Tells()
status = pytest.main(["--collect-only", "-p", "no:cacheprovider"], plugins=[tells])
print("\n" + json.dumps([int(status), tells.found, tells.chosen]))
