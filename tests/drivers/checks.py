"""The child's side of :func:`drivers.run_checks`."""

from __future__ import annotations

import importlib.util
import json
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from .control import Driver
from .library import CUDA_LIVE, HIP_LIVE


def only_on(*variants: str) -> Callable[[Callable[[Driver], None]], Callable[[Driver], None]]:
    """Mark a check as one of these variants alone."""

    def mark(check: Callable[[Driver], None]) -> Callable[[Driver], None]:
        check.variants = variants  # type: ignore[attr-defined]
        return check

    return mark


#: The decorators for what one vendor alone has.
on_cuda, on_hip = only_on(*CUDA_LIVE), only_on(*HIP_LIVE)


def applies(check: object, variant: str) -> bool:
    return variant in getattr(check, "variants", (variant,))


def pairs(namespace: dict[str, Any], variants: Sequence[str]) -> list[Any]:
    """For parametrize("variant, name", ...): every check of a file on every variant it is for.

    A file's FAULTS are its checks that fail, and why: strict, so that none stays there when it
    passes.
    """
    faults: dict[str, str] = namespace.get("FAULTS", {})

    def marks(name: str) -> list[pytest.MarkDecorator]:
        return [pytest.mark.xfail(strict=True, reason=faults[name])] if name in faults else []

    return [
        pytest.param(
            variant, name, marks=marks(name), id=f"{variant}-{name.removeprefix('check_')}"
        )
        for name, check in namespace.items()
        if name.startswith("check_")
        for variant in variants
        if applies(check, variant)
    ]


def run(driver: Driver, variant: str, file: str, names: Sequence[str] | None = None) -> None:
    """The checks of these names, or all, for :func:`drivers.run_checks`."""
    spec = importlib.util.spec_from_file_location("checked", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    results: dict[str, str | None] = {}
    for name, check in list(vars(module).items()):
        if not name.startswith("check_") or not applies(check, variant):
            continue
        if names is not None and name not in names:
            continue
        print(name, flush=True)
        driver.reset()
        try:
            check(driver)
        except (Exception, pytest.fail.Exception):
            results[name] = traceback.format_exc()
        else:
            results[name] = None
    print(json.dumps(results), flush=True)
