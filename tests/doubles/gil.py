"""Is there a GIL? Some tests state what only the GIL, or its garbage collector, makes true."""

from __future__ import annotations

import sysconfig

import pytest

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def with_gil(why: str) -> pytest.MarkDecorator:
    """For a test that holds only where there is a GIL; `why` says what is so without it."""
    return pytest.mark.skipif(FREE_THREADED, reason=f"this interpreter has no GIL: {why}")
