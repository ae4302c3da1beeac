"""T9: Python's own allocations fail, the n-th alone and all from the n-th on, on every road."""

from __future__ import annotations

import sys

import pytest

import sampling
from doubles import child, gil
from doubles.steps import RELEASED_BY_PYTHON, SOURCES

pytestmark = pytest.mark.once

#: Each so many-th allocation fails.
STRIDE = sampling.fewer(1, 3)

# The process ends at once: CPython 3.10 frees the cache of a code object twice where it could not
# be allocated.
RUN = """
    import os
    from doubles import faults
    names = [name for name in faults.STEPS if name.startswith({protocol!r} + " ")]
    tried, showed = faults.run(names, stride={stride})
    print(len(names), tried, showed, flush=True)
    os._exit(0)
"""


PROTOCOLS = dict.fromkeys(each for each, _ in SOURCES if each not in RELEASED_BY_PYTHON)


@gil.lists_survive
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_T9_pythons_own_allocations_may_fail(protocol):
    """MemoryError or what comes without a failure; never a crash, never an export that is left."""
    pytest.importorskip("_testcapi", reason="this Python has no _testcapi to make them fail")
    out = child.run(RUN.format(protocol=protocol, stride=STRIDE))
    steps, tried, showed = map(int, out.split())
    assert steps >= 35, "every kind of export and every option of each source"
    # Without the GIL the memory of plans is used again and not allocated.  From 3.14 on CPython
    # itself keeps more memory to use again.
    few = gil.FREE_THREADED or sys.version_info >= (3, 14)
    assert showed * STRIDE > (5 if few else 9) * steps and tried > showed
