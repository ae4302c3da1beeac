"""Every kind of exchange at every depth near the recursion limit.

It prints how often one came, and how often one was refused.
"""

import sys

from doubles.asking import live
from doubles.delegating import CALLS, SIX, Source


def down(depth, call, x):
    return call(x) if depth == 0 else down(depth - 1, call, x)


def endless(where):
    endless(where)


before, came, refused = live(), 0, 0
for call in CALLS.values():
    for depth in range(sys.getrecursionlimit() - 60, sys.getrecursionlimit() + 1):
        try:
            assert down(depth, call, Source()) == SIX
            came += 1
        except RecursionError:
            refused += 1
        assert live() == before, depth
    x = Source(endless)
    try:
        call(x)
    except RecursionError:
        pass
    else:
        raise SystemExit("no RecursionError")
    assert live() == before
    x.during = lambda where: None
    assert call(x) == SIX
print(came, refused)
