"""The commands say as JSON what was recorded: see `witness`."""

from __future__ import annotations

import importlib.util
import os
import sys

import pytest

from transcript import running, stock, store, witness

pytestmark = [
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("numpy", "ml_dtypes")),
        reason="NumPy and ml_dtypes, which are in the stock, are not installed",
    ),
    pytest.mark.skipif(
        bool(os.environ.get("DLSHIM_SANITIZED")),
        reason="what is recorded here runs under a sanitizer in tests/core",
    ),
    pytest.mark.skipif(
        sys.byteorder != "little" or sys.maxsize < 2**32,
        reason="the record is of little-endian processors of 64 bits",
    ),
]


@pytest.mark.parametrize("command", witness.COMMANDS)
def test_a_command_says_what_it_said(command):
    now = running.now([command])[command]
    if told := list(store.differences(store.read(command), now)):
        told.append(f"if this is wanted: python tests/transcript --write {command}")
        pytest.fail("\n".join(told), pytrace=False)


def test_the_stock_is_whole():
    recorded = store.read("inspect")
    assert set(recorded) == {*stock.UNALIGNED, *stock.DOUBLES, *stock.ALIGNED}
    text = "\n".join(line for body in recorded.values() for line in body)
    assert "cannot be evaluated" not in text and "Traceback" not in text
    for word in ("works", "refused", "upgraded", "tried"):
        assert word in text, f"the stock has no object of which this is said: {word}"


def test_what_is_left_out_is_left_out():
    said = {"address": 140, "notes": ["at 0x7f12"], "aligned_to": None, "shape": [1]}
    kept = {"address": "...", "notes": ["at 0x..."], "aligned_to": None, "shape": [1]}
    assert witness.plain(said) == kept
