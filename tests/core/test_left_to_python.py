"""What the C code leaves to modules of shim/, where these cannot be imported or run out of memory:
the refusal comes, without its cure; nothing crashes, and no ImportError takes its place."""

from __future__ import annotations

import sys

import pytest

from doubles import child, gil

pytestmark = pytest.mark.once


def test_the_roads_lead_through_python() -> None:
    child.program("left_to_python", "as_usual")


def test_without_the_module_the_refusal_comes_without_its_cure() -> None:
    child.program("left_to_python", "without_the_modules")


@pytest.mark.parametrize("imported", [(), ("stranger", "fetched")], ids=["anew", "imported"])
def test_while_the_interpreter_ends_too(imported: tuple[str, ...]) -> None:
    """In the finaliser of what goes after the modules; the module is imported before, or not."""
    out = child.program("left_to_python", "at_the_end", *imported)
    kinds = dict(part.split(": ") for part in out.strip(";\n").split(";"))
    assert kinds["stranger"] == "UnsupportedObjectError"
    assert kinds["refused"] == kinds["wrapper"] == "BufferError"
    assert {kinds[name] for name in ("fetched", "sent", "read", "ordered")} <= {
        "BufferError",
        "NoneType",
    }


@gil.lists_survive
@pytest.mark.parametrize("road", ["stranger", "refused", "wrapper", "fetched", "sent", "read"])
@pytest.mark.parametrize("most", [1, 3000], ids=["one fails", "all fail"])
def test_memory_may_run_out(road, most):
    """Nothing crashes, nothing is left, and the next time all is as usual.

    The doubles run out of memory, too, so the error may be another.
    """
    pytest.importorskip("_testcapi", reason="this Python has no hook for allocations")
    if sys.version_info >= (3, 12) and road != "stranger":
        pytest.skip("CPython from 3.12 on crashes in generators, with which the doubles are made")
    assert int(child.program("left_to_python", "without_memory", road, most)) > 3


def test_without_another_module_its_error_is_shown_and_nothing_is_left() -> None:
    child.program("left_to_python", "without_another_module")
