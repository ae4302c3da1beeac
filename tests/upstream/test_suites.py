"""The DLPack suites of other projects: what passes bare passes upgraded, but for what is listed."""

from __future__ import annotations

from importlib import metadata

import pytest

from . import suites


def installed(suite: suites.Suite) -> bool:
    try:
        return metadata.version(suite.package).split("+")[0] == suite.version
    except metadata.PackageNotFoundError:
        return False


HERE = [suite for suite in suites.load() if suite.session and installed(suite)]
each_suite = pytest.mark.parametrize("suite", HERE, ids=lambda suite: suite.name)


@each_suite
def test_what_passes_bare_passes_upgraded(suite: suites.Suite):
    lost = suites.lost(suites.runs(suite.name))
    unlisted = {
        test: why
        for test, why in lost.items()
        if not any(suites.covers(listed, test) for listed in suite.amended)
    }
    assert unlisted == {}


@each_suite
def test_what_is_listed_fails_upgraded(suite: suites.Suite):
    lost = suites.lost(suites.runs(suite.name))
    idle = [
        listed for listed in suite.amended if not any(suites.covers(listed, test) for test in lost)
    ]
    assert idle == []


@each_suite
def test_dlshim_took_part(suite: suites.Suite):
    """A run in which dlshim did nothing proves nothing."""
    told = suites.runs(suite.name)
    assert suites.passed(told["bare"])
    for mode in suites.MODES[1:]:
        assert told[mode]["counts"]["upgraded"]
    assert told["translated"]["counts"]["translated"]
    assert not told["bare"]["counts"]["translated"]


def test_a_test_that_is_lost_is_noticed():
    """The comparison itself: lost in one of the two ways, lost by not running, and not lost."""
    bare = {"a": "passed", "b": "passed", "c": "failed", "d": "passed", "e": "skipped"}
    upgraded = {"a": "passed", "b": "failed", "c": "passed", "e": "skipped"}
    translated = {"a": "failed", "b": "passed", "c": "passed", "d": "passed", "e": "failed"}
    told = {
        mode: {"outcomes": outcomes, "reasons": {}}
        for mode, outcomes in zip(suites.MODES, (bare, upgraded, translated), strict=True)
    }
    assert set(suites.lost(told)) == {"a", "b", "d"}
    assert suites.gained(told) == {"c"}
    assert suites.covers("x::t", "x::t[1]") and not suites.covers("x::t", "x::tt")
