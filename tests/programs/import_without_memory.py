"""The extension is imported again and again while memory runs out."""

import _testcapi
import array
import gc
import importlib.util

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
    # CPython says "without setting an exception" where it could not copy a type's name, and finds
    # no sys.modules where it could not make the string; csv fails in the same ways.
    known = "without setting an exception", "sys.modules is not a dict"
    wanted = error is None or isinstance(error, MemoryError) or str(error).endswith(known)
    assert wanted, repr(error)
    del error
assert failed > 150, failed
assert import_again(None) is None
gc.collect()
source = array.array("i", range(6))
assert memoryview(dlshim.from_dlpack(dlshim.upgrade(source))).tolist() == list(source)
