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
#: So many failures of a step show, at least.  Without the GIL the memory of plans is used again and
#: not allocated.  From 3.14 on CPython itself keeps more memory to use again.
LEAST = 5 if gil.FREE_THREADED or sys.version_info >= (3, 14) else 9

# The process ends at once: CPython 3.10 frees the cache of a code object twice where it could not
# be allocated.
RUN = """
    import os
    from doubles import faults
    names = [name for name in faults.ALL if name.startswith({begin!r})]
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
    out = child.run(RUN.format(begin=f"{protocol} ", stride=STRIDE))
    steps, tried, showed = map(int, out.split())
    assert steps >= 35, "every kind of export and every option of each source"
    assert showed * STRIDE > LEAST * steps and tried > showed


@gil.lists_survive
@pytest.mark.parametrize("kind", ["kernel", "python", "class", "wanted", "attributes"])
def test_T9_pythons_own_allocations_may_fail_in_more_than_one_exchange(kind):
    """In compiled kernels, classes of other authors, and what is shown of our objects."""
    pytest.importorskip("_testcapi", reason="this Python has no _testcapi to make them fail")
    if kind in ("kernel", "python") and sys.version_info >= (3, 12):
        pytest.skip("CPython 3.12 and 3.13 crash in generators; later ones were not tried")
    steps, tried, showed = map(int, child.run(RUN.format(begin=kind, stride=STRIDE)).split())
    assert steps >= 1 and tried > showed and showed * STRIDE > LEAST * steps
