"""The adapters say how their library asks; here the library is asked itself, with a spy."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from interop import libraries, runner
from interop.functions import LEGACY, VERSIONED


@pytest.fixture(scope="session")
def heard(present):
    """Consumer -> what its adapter says and what the library calls, one child per library."""
    by_library: dict[str, list[str]] = {}
    for adapter in libraries.CONSUMERS:
        if adapter.name in present.consumers and not adapter.capsule:
            by_library.setdefault(adapter.library, []).append(adapter.name)
    found = {}
    for names in by_library.values():
        child = subprocess.run(
            [sys.executable, "-m", "interop.spy", *names],
            cwd=runner.TESTS,
            env={**os.environ, **runner.ENVIRONMENT},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert child.returncode == 0, child.stderr
        found.update(json.loads(child.stdout.strip().splitlines()[-1]))
    return found


def exports(calls) -> list[dict]:
    return [c for c in calls if c["call"] == "__dlpack__"]


def test_every_consumer_that_takes_objects_was_heard(heard):
    assert heard
    silent = {name for name, (_, calls) in heard.items() if not exports(calls)}
    assert silent == {name for name, (said, _) in heard.items() if said["capsule"]}


def test_the_generation_asked_for_first_is_what_the_adapter_says(heard):
    for name, (said, calls) in heard.items():
        if not exports(calls):
            continue
        version = exports(calls)[0].get("max_version")
        generation = VERSIONED if version and version[0] >= 1 else LEGACY
        assert said["asks"].split(",")[0] == generation, (name, calls)


def test_a_copy_is_asked_for_where_the_adapter_says_so(heard):
    for name, (said, calls) in heard.items():
        if exports(calls):
            assert said["copy"] == (exports(calls)[0].get("copy") is True), (name, calls)


def test_ways_of_asking_that_support_negative_strides(heard):
    """The three ways of rule N9, read off the calls themselves."""
    for name, (said, calls) in heard.items():
        if not exports(calls):
            continue
        asked = exports(calls)[0].keys()
        device_first = calls[0]["call"] == "__dlpack_device__"
        supports = (
            "stream" in asked
            or {"max_version", "dl_device", "copy"} <= asked
            or not (device_first or {"dl_device", "copy"} & asked)
        )
        assert said["supports_negative"] == supports, (name, calls)
