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

#: CPython says "without setting an exception" where it could not copy a type's name, and finds
#: no sys.modules where it could not make the string; csv fails in the same ways.
CODE = """
import array, gc, importlib.util, _testcapi
import dlshim
from dlshim import _core

spec = importlib.util.spec_from_file_location("dlshim._core", _core.__spec__.origin)

def import_again(n):
    module = importlib.util.module_from_spec(spec)
    if n is not None:
        _testcapi.set_nomemory(n, n + 1)
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        return error
    finally:
        _testcapi.remove_mem_hooks()

failed = passed = n = 0
while passed < 5:
    error = import_again(n)
    n += 1
    passed = passed + 1 if error is None else 0
    failed += error is not None
    known = "without setting an exception", "sys.modules is not a dict"
    wanted = error is None or isinstance(error, MemoryError) or str(error).endswith(known)
    assert wanted, repr(error)
    del error
assert failed > 150, failed
assert import_again(None) is None
gc.collect()
source = array.array("i", range(6))
assert memoryview(dlshim.from_dlpack(dlshim.upgrade(source))).tolist() == list(source)
"""


@pytest.mark.once
@pytest.mark.skipif(
    sys.version_info >= (3, 13), reason="CPython 3.13 crashes in the same test of its own modules"
)
def test_an_import_may_run_out_of_memory() -> None:
    child.run(CODE)


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
