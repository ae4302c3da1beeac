"""What tools/gcov.py adds up, and what tools/coverage.py lets pass."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
from project.tree import ROOT

sys.path.insert(0, str(ROOT / "tools"))
try:
    import gcov

    # A package of that name may be imported already.
    spec = importlib.util.spec_from_file_location("judge", ROOT / "tools" / "coverage.py")
    assert spec is not None and spec.loader is not None
    coverage = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(coverage)
finally:
    sys.path.remove(str(ROOT / "tools"))

FILE = "made_up.c"


def unit(taken: tuple[int, int]) -> dict[str, Any]:
    """What gcov says of an object file with two functions, one of which is never called."""
    functions = [{"name": "f", "execution_count": 3}, {"name": "g", "execution_count": 0}]
    lines = [
        {"line_number": 1, "function_name": "f", "count": 3, "branches": taken},
        {"line_number": 2, "function_name": "g", "count": 0, "branches": ()},
    ]
    for line in lines:
        line["branches"] = [{"count": n} for n in line["branches"]]
    ours = {"file": f"src/{FILE}", "functions": functions, "lines": lines}
    return {
        "data_file": "a.gcda",
        "files": [ours, {"file": "/usr/include/b.h", "functions": [], "lines": []}],
    }


def test_counts_of_all_objects_are_added(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / FILE).write_text("if (x) y();\nz();\n")
    once = gcov.Coverage(tmp_path, [unit((3, 0))])
    assert once.total("lines") == (1, 2) and once.total("branches") == (1, 2)
    assert list(once.not_reached()) == [
        f"{FILE}: g is never called",
        f"{FILE}:1: f: 1 branches are not taken: if (x) y();",
    ]
    both = gcov.Coverage(tmp_path, [unit((3, 0)), unit((0, 3))])
    assert both.total("branches") == (2, 2)


@pytest.mark.parametrize(("limit", "status"), [(50.0, 0), (50.1, 1)])
def test_too_little_fails(
    tmp_path: Path, limit: float, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coverage, "LIMITS", {"lines": limit, "branches": limit})
    assert coverage.judge(gcov.Coverage(tmp_path, [unit((3, 0))])) == status
