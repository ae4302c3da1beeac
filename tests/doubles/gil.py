"""Is there a GIL? Some tests state what only the GIL, or its garbage collector, makes true."""

from __future__ import annotations

import gc
import sys
import sysconfig
import weakref

import pytest

from dlshim import _core

#: Is dlshim compiled for no GIL? That for abi3t is, whether the interpreter has one or not.
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED")) or "abi3t" in str(_core.__file__)


def with_gil(why: str) -> pytest.MarkDecorator:
    """For a test that holds only where there is a GIL; `why` says what is so without it."""
    return pytest.mark.skipif(FREE_THREADED, reason=f"this interpreter has no GIL: {why}")


#: PyList_New of CPython 3.13 without the GIL frees items that it has not written yet, where their
#: memory could not be allocated.
lists_survive = pytest.mark.skipif(
    FREE_THREADED and sys.version_info < (3, 14),
    reason="without the GIL, CPython 3.13 crashes where the memory of a list cannot be allocated",
)

#: One word counts a type's objects there, so dlshim makes its own immortal (src/python/compat.c).
types_end = pytest.mark.skipif(
    FREE_THREADED and sys.version_info < (3, 14),
    reason="without the GIL, dlshim's types are immortal on CPython 3.13, and keep their module",
)


def need_classes_that_die() -> None:
    """CPython 3.13 without the GIL keeps every class, and every function that is made within
    another one, once a second thread has been started.
    """
    cls = type("Short", (), {})
    dead = weakref.ref(cls)
    del cls
    gc.collect()
    if dead() is not None:
        pytest.skip("this CPython keeps every class since a second thread was started")
