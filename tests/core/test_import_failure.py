"""The extension is imported while memory runs out: whichever allocation fails, the import ends
with an exception, what it had made is given back, and what was imported before goes on working.
"""

from __future__ import annotations

import importlib.util
import sys

import pytest

from dlshim import _core
from doubles import child

_testcapi = pytest.importorskip("_testcapi", reason="no hook for failing allocations here")


@pytest.mark.once
@pytest.mark.skipif(
    sys.version_info >= (3, 13), reason="CPython 3.13 crashes in the same test of its own modules"
)
def test_an_import_may_run_out_of_memory() -> None:
    child.program("import_without_memory")


def test_a_process_without_modules_is_an_import_error() -> None:
    """Programs that can do without dlshim look for this class."""
    spec = importlib.util.spec_from_file_location("dlshim._core", _core.__spec__.origin)
    assert spec is not None and spec.loader is not None
    module, modules, error = importlib.util.module_from_spec(spec), sys.modules, None
    sys.modules = []  # type: ignore[assignment]
    try:
        spec.loader.exec_module(module)
    except Exception as raised:
        error = raised
    finally:
        sys.modules = modules
    assert type(error) is ImportError and "is not a dict" in str(error)
