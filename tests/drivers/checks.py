"""The child's side of :func:`drivers.run_checks`."""

from __future__ import annotations

import importlib.util
import json
import traceback
from collections.abc import Callable, Iterator
from types import ModuleType

from .control import Driver


def only_on(*variants: str) -> Callable[[Callable[[Driver], None]], Callable[[Driver], None]]:
    """Mark a check as one of these variants alone."""

    def mark(check: Callable[[Driver], None]) -> Callable[[Driver], None]:
        check.variants = variants  # type: ignore[attr-defined]
        return check

    return mark


def of(module: ModuleType, variant: str) -> Iterator[tuple[str, Callable[[Driver], None]]]:
    for name, check in vars(module).items():
        if name.startswith("check_") and variant in getattr(check, "variants", (variant,)):
            yield name, check


def run(driver: Driver, variant: str, file: str) -> None:
    spec = importlib.util.spec_from_file_location("checked", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    results: dict[str, str | None] = {}
    for name, check in of(module, variant):
        driver.reset()
        try:
            check(driver)
        except Exception:
            results[name] = traceback.format_exc()
        else:
            results[name] = None
    print(json.dumps(results), flush=True)
