"""The page of the model (docs/stream_model.rst): sentences are the vendors', checks exist."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
from project.tree import ROOT

from device.pairs import tomllib

RULES: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("model.toml").read_text(encoding="utf-8")
)["rule"]
#: Where tests/project keeps the headers that it has fetched.
HEADERS = {
    "cuda.h": ROOT / "build" / "cuda-headers",
    "hip_runtime_api.h": ROOT / "build" / "hip-headers",
}
WITH_HEADER = [rule for rule in RULES if not rule["source"].startswith("https:")]


def plain(text: str) -> str:
    r"""Without the marks of comments and of doxygen: `\p hStream`, `@p stream`, `::cuMemFree`."""
    text = re.sub(r"(?m)^\s*\*? ?", " ", text)
    return " ".join(re.sub(r"[\\@]p |::|#", "", text).split())


def newest(name: str) -> Path:
    found = sorted(HEADERS[name].rglob(name))
    if not found:
        pytest.skip(f"no {name}: tests/project fetches it with DLSHIM_FETCH=1")
    return found[-1]


@pytest.mark.parametrize("rule", WITH_HEADER, ids=lambda rule: rule["source"])
def test_the_sentence_stands_in_the_vendors_header(rule: dict[str, Any]) -> None:
    name, _, function = rule["source"].partition(": ")
    text = newest(name).read_text(errors="replace")
    declared = rf"\*/\s*(?:#if[^\n]*\n)?\s*(?:CUresult CUDAAPI|hipError_t) {function}\("
    comments = re.findall(rf"/\*\*((?:(?!\*/).)*?){declared}", text, re.S)
    assert any(rule["says"] in plain(comment) for comment in comments), function


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["rule"][:40])
def test_the_rule_has_its_check(rule: dict[str, Any]) -> None:
    module, _, check = rule["check"].partition(": ")
    assert callable(getattr(importlib.import_module(f"device.{module}"), check))
